"""Norm, rotation and quantisation of latent attention's heads: builder and function with their older names."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.arrays import allocate, contiguous, launch
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..target import Target, builder
from ..target import target as current
from .norm_kernel import launch_norm_rope, make_norm_rope

__all__ = ["compile_flydsl_qk_norm_rope_quant", "flydsl_qk_norm_rope_quant"]


@builder
def compile_flydsl_qk_norm_rope_quant(*, num_q_heads: int, head_dim: int, rope_head_dim: int, quant: bool = False,
                                      group_size: int | None = None, scale_dtype: str = "fp32",
                                      q_weighted: bool = False, target: Target):
    """``launch(Q, KV, [QWeight,] KVWeight, Cos, Sin, Positions, QOut, KVOut, [QScale, KVScale,] tokens, table_rows,
    stream=None)``.

    Args:
        num_q_heads, head_dim, rope_head_dim: Q is (tokens, H, D), KV (tokens, D); the last RD features are rotated.
        quant: QOut and KVOut are fp8 with scales (tokens, H, D / group_size) and (tokens, D / group_size); else bf16.
        group_size: D if None.
        scale_dtype: ``"fp32"`` or ``"e8m0"`` (bytes).
        q_weighted: with QWeight; KVWeight is always there.

    Raises:
        ValueError: an argument is not supported.
    """
    config = make_norm_rope("qk_norm_rope_quant", target, num_q_heads, head_dim, rope_head_dim,
                            (group_size or head_dim) if quant else 0, scale_dtype, q_weighted)
    names = ("q", "kv", *(("q_weight",) if q_weighted else ()), "kv_weight", "cos", "sin", "positions", "q_out",
             "kv_out", *(("q_scale", "kv_scale") if quant else ()))

    @flyc.jit
    def qk_norm_rope_quant(tensors, tokens: fx.Int32, table_rows: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_norm_rope(dict(zip(names, tensors, strict=True)), tokens, table_rows, config, stream)

    def run(*given: Any, stream: Any = None) -> None:
        qk_norm_rope_quant(list(given[:-2]), *given[-2:], stream=stream)

    return run


def _result(where: str, name: str, given: Any, target: Target, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    if given is None:
        return allocate(target, like, shape, dtype)
    require(where, tuple(given.shape) == shape and given.is_contiguous(),
            f"{name} must be contiguous of shape {shape}, got {tuple(given.shape)}")
    return given


def flydsl_qk_norm_rope_quant(q: Any, kv: Any, kv_weight: Any, cos_cache: Any, sin_cache: Any, positions: Any, *,
                              num_q_heads: int, head_dim: int, rope_head_dim: int, q_weight: Any = None,
                              quant: bool = False, quant_group_size: int | None = None, scale_dtype: str = "fp32",
                              q_out: Any = None, kv_out: Any = None, q_scale: Any = None, kv_scale: Any = None,
                              stream: Any = None) -> tuple[Any, Any, Any, Any]:
    """``y = x * rsqrt(mean(x**2) + 1e-6) * weight`` of each head and of the key-value row, their last features rotated
    in neighbouring pairs, and quantised on request.

    Args:
        q: bf16 [T, H D] or [T, H, D]. kv: bf16 [T, D], of any strides; one that is not contiguous is copied.
        kv_weight, q_weight: bf16 [D]; queries have none if None.
        cos_cache, sin_cache: bf16 [..., RD / 2], a row for each position. positions: int32 or int64 [T]; one outside
            the tables stops the launch.
        num_q_heads, head_dim, rope_head_dim: H, D (a multiple of 8 up to 2048) and RD (a multiple of 8).
        quant: results are fp8 with a scale for each `quant_group_size` features (D if None), f32 or, as e8m0, bytes.
        q_out, kv_out, q_scale, kv_scale: where results are written; fresh ones if None.
        stream: where to launch; the current one if None.

    Returns:
        ``(q_out, kv_out, q_scale, kv_scale)``: [T, H, D], [T, D], [T, H, NG] and [T, NG], or None without `quant`.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape is not.
    """
    where, target = "qk_norm_rope_quant", current()
    h, d = num_q_heads, head_dim
    launcher = compile_flydsl_qk_norm_rope_quant(
        num_q_heads=h, head_dim=d, rope_head_dim=rope_head_dim, quant=quant, group_size=quant_group_size,
        scale_dtype=scale_dtype, q_weighted=q_weight is not None, target=target)
    for name, array in (("q", q), ("kv", kv), ("kv_weight", kv_weight), ("q_weight", q_weight)):
        if array is not None:
            dtype_name(array, f"{where}: {name}", ("bf16",))
    tokens = q.shape[0]
    require(where, tuple(q.shape) in ((tokens, h * d), (tokens, h, d)) and tuple(kv.shape) == (tokens, d),
            f"q must be [T, {h * d}] or [T, {h}, {d}] and kv [T, {d}], got {tuple(q.shape)} and {tuple(kv.shape)}")
    for name, array in (("kv_weight", kv_weight), ("q_weight", q_weight)):
        require(where, array is None or tuple(array.shape) == (d,), f"{name} must have the shape ({d},)")
    require(where, cos_cache.shape == sin_cache.shape and cos_cache.shape[-1] == rope_head_dim // 2,
            f"the tables must be [..., {rope_head_dim // 2}], got {tuple(cos_cache.shape)}, {tuple(sin_cache.shape)}")
    dtype_name(positions, f"{where}: positions", INDICES)
    require(where, tuple(positions.shape) == (tokens,), f"positions must be [{tokens}], got {tuple(positions.shape)}")
    groups = d // (quant_group_size or d)
    kind, scales = ("fp8" if quant else "bf16"), ("f32" if scale_dtype == "fp32" else "u8")
    shapes: list[tuple[str, Any, tuple[int, ...], str]] = [("q_out", q_out, (tokens, h, d), kind),
                                                         ("kv_out", kv_out, (tokens, d), kind)]
    if quant:
        shapes += [("q_scale", q_scale, (tokens, h, groups), scales), ("kv_scale", kv_scale, (tokens, groups), scales)]
    outs = [_result(where, name, given, target, q, shape, dtype) for name, given, shape, dtype in shapes]
    tables = [contiguous(t).reshape(-1, t.shape[-1]) for t in (cos_cache, sin_cache)]
    weights = [contiguous(w) for w in (q_weight, kv_weight) if w is not None]
    if tokens:
        launch(launcher, q, contiguous(q), contiguous(kv), *weights, *tables, contiguous(positions), *outs, tokens,
               tables[0].shape[0], stream=stream)
    return (*outs, None, None) if not quant else tuple(outs)  # type: ignore[return-value]
