"""The general f16/bf16 GEMM under its older name, whose callers may choose tiles and have slices added in place."""

from __future__ import annotations

from functools import partial
from typing import Any

from flydsl.kernels.gemm.dense import SPLIT_K_SEMAPHORE_MAX_LEN, DenseConfig, check_a16w16, plan_a16w16
from flydsl.kernels.gemm.tuned import dense_knobs
from flydsl.kernels.host.arrays import allocate, launch
from flydsl.kernels.host.dtypes import dtype_name, float_name
from flydsl.kernels.parts.index import cdiv
from flydsl.kernels.target import Target
from flydsl.kernels.target import target as current

__all__ = ["gemm_a16w16", "get_default_kwargs", "get_semaphore"]

BLOCK, WAVES = ("block_m", "block_n", "block_k"), ("m_waves", "n_waves", "k_waves")
_semaphores: dict[tuple[Any, str], tuple[Any, Any]] = {}


def get_default_kwargs(m: int, n: int, k: int, layout: str = "nt") -> dict[str, int]:
    """Knobs for a problem size: smaller tiles and a split reduction where there are too few of the large ones."""
    return dense_knobs(current(), m, n, k, layout)


def _waves(wave: int, block: list[int], given: dict[str, int]) -> dict[str, int]:
    """Waves along m, n and k, those not given chosen such that each loader thread has whole chunks."""
    block_m, block_n, block_k = block
    k_waves = given.get("k_waves", 1)
    for m_waves in (given["m_waves"],) if "m_waves" in given else (2, 1):
        for n_waves in (given["n_waves"],) if "n_waves" in given else (2, 1):
            chunks = m_waves * n_waves * k_waves * wave * 8
            sizes = (block_m % (16 * m_waves), block_n % (16 * n_waves), block_m * block_k % chunks,
                     block_n * block_k % chunks)
            if not any(sizes):
                return dict(m_waves=m_waves, n_waves=n_waves, k_waves=k_waves)
    raise ValueError(f"no arrangement of waves fits a tile of {block_m} x {block_n} x {block_k}")


def _chosen(target: Target, m: int, n: int, k: int, layout: str, given: dict[str, Any]) -> dict[str, Any]:
    """The tuned options, replaced by the given ones."""
    knobs, given = dense_knobs(target, m, n, k, layout), dict(given)
    given.pop("use_half_tile_interleaved", None)
    if any(x in given for x in BLOCK):
        knobs["stages"] = 2  # LDS has room for more of the tuned tile
        if not {"m_waves", "n_waves"} <= given.keys():
            knobs.update(_waves(target.wave, [given.get(x, knobs[x]) for x in BLOCK], given))
    if any(x in given for x in (*BLOCK, *WAVES)):
        knobs["tile_ahead"] = False  # as waves have registers for fragments of the tuned one
    knobs.update(given)
    if knobs["split_k"] == 1:
        knobs.pop("atomic", None)
    return knobs


def gemm_a16w16(a: Any, b: Any, out: Any = None, bias: Any = None, user_kwargs: dict[str, Any] | None = None,
                stream: Any = None, layout: str = "nt", out_dtype: Any = None) -> Any:
    """``op(a) op(b) + bias`` for f16 or bf16 matrices (M, N), f32 accumulation.

    Args:
        a, b: stored matrices; with layout letter ``n`` the operand itself (M x K, K x N), with ``t`` its transpose.
            "nt" is the usual (M, K) times a weight (N, K).
        out: matrix to write; a new one by default.
        bias: f32 or the operands' dtype, (N,).
        user_kwargs: knobs that replace the chosen ones: block_m, block_n, block_k, stages, split_k, m_waves, n_waves,
            k_waves, group_m, cshuffle, atomic, tile_ahead (and use_half_tile_interleaved, which is accepted and has no
            effect).
        out_dtype: of a new `out`, the operands' dtype (default) or float32: a name or a dtype.

    Returns:
        out.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not agree or are not supported.
    """
    target = current()
    m, n, _, dtype = check_a16w16(a, b, bias, layout)
    result = float_name(out_dtype, "gemm_a16w16: out_dtype") or dtype
    if result not in (dtype, "f32"):
        raise TypeError(f"gemm_a16w16: out_dtype must be {dtype} or f32, got {out_dtype}")
    if out is None:
        out = allocate(target, a, (m, n), result)
    elif tuple(out.shape) != (m, n):
        raise ValueError(f"gemm_a16w16: out must have shape {(m, n)}, got {tuple(out.shape)}")
    else:
        result = dtype_name(out, "gemm_a16w16: out", (dtype, "f32"))

    def flags(config: DenseConfig) -> Any:
        tiles = cdiv(m, config.tile_m) * cdiv(n, config.tile_n)
        if tiles > SPLIT_K_SEMAPHORE_MAX_LEN:
            raise ValueError(f"gemm_a16w16: slices that add to C need at most {SPLIT_K_SEMAPHORE_MAX_LEN} tiles, a "
                             f"{m} x {n} result has {tiles}; use larger tiles or split_k=1")
        return _flags(target, a, stream)

    plan = plan_a16w16(target, a, b, bias, layout, result, partial(_chosen, given=user_kwargs or {}), flags)
    if plan is not None and plan.launcher is not None:
        launch(plan.launcher(), a, *plan.operands(out), stream=stream)
    if plan is not None and plan.finish is not None:
        plan.finish(out)
    return out


def _flags(target: Target, like: Any, stream: Any) -> Any:
    """Semaphores and signals of a stream and device, i32[2, 256], made zero at the first use."""
    key = (getattr(stream, "cuda_stream", stream), str(getattr(like, "device", "cpu")))
    if key not in _semaphores:
        flags = allocate(target, like, (2, SPLIT_K_SEMAPHORE_MAX_LEN), "i32", True)
        _semaphores[key] = (flags, tuple(flags))
    return _semaphores[key][0]


def get_semaphore(stream: Any = None, device: Any = "cpu") -> tuple[Any, Any]:
    """(semaphores, signals) of a stream and device: two i32[256], zero unless a launch of that stream is running."""
    import torch

    like = torch.empty(0, device=device)
    _flags(current(), like, stream)
    return _semaphores[(getattr(stream, "cuda_stream", stream), str(like.device))][1]
