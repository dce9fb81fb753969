"""The lower layer of :func:`gemm_a16w16`: all choices in one parameter, flags of a split reduction from the caller."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.dense import SPLIT_K_SEMAPHORE_MAX_LEN, DenseConfig, dense_config, launch_dense
from flydsl.kernels.parts.index import cdiv
from flydsl.kernels.parts.memory import pointer
from flydsl.kernels.target import target as current

__all__ = ["gemm_a16w16_gfx950", "make_gemm_a16w16_gfx950_param"]


def make_gemm_a16w16_gfx950_param(n: int, k: int, dtype: str = "bf16", out_dtype: str | None = None, *,
                                  block_m: int = 256, block_n: int = 256, block_k: int = 64, stages: int = 2,
                                  split_k: int = 1, m_waves: int = 2, n_waves: int = 4, k_waves: int = 1,
                                  group_m: int = 0, use_half_tile_interleaved: bool = True, has_bias: bool = False,
                                  layout: str = "nt") -> DenseConfig:
    """Everything static about a product ``C[M, n] = op(a) op(b)`` of f16 or bf16.

    Args:
        n, k: sizes; M is that of the output.
        out_dtype: the operands' dtype (default), the other 16-bit type or ``"f32"``.
        use_half_tile_interleaved: accepted; the ring of direct copies takes its place.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "make_gemm_a16w16_gfx950_param"
    return dense_config(where, current(), n=n, k=k, dtype=dtype, out_dtype=out_dtype or dtype, layout=layout,
                        block_m=block_m, block_n=block_n, block_k=block_k, stages=stages, split_k=split_k,
                        m_waves=m_waves, n_waves=n_waves, k_waves=k_waves, group_m=group_m, bias=has_bias,
                        cshuffle=None, atomic=split_k > 1, use_async=None)


@functools.lru_cache  # the parameter has the target
def _launcher(param: DenseConfig) -> Any:
    @flyc.jit
    def gemm_a16w16(out, a, b, bias, semaphore, signal, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        tensors = {"c": out, "a": a, "b": b, "bias": bias}
        if fx.const_expr(param.atomic):
            tensors.update(semaphore=pointer(semaphore, fx.Int32), signal=pointer(signal, fx.Int32))
        launch_dense(tensors, M, param, stream)

    return gemm_a16w16


def gemm_a16w16_gfx950(out: Any, a: Any, b: Any, bias: Any, semaphore: Any, signal: Any, split_k: int,
                       param: DenseConfig, stream: Any = None) -> None:
    """``out = op(a) op(b) + bias`` as `param` says.

    Args:
        out: (M, n) of the parameter's output type, contiguous as are a and b.
        bias: (n,) if the parameter has one, else anything.
        semaphore, signal: i32[256] each, zero before and after (:func:`get_semaphore`); for split_k > 1.
        split_k: that of the parameter.

    Raises:
        ValueError: split_k differs from the parameter's, or a split reduction has too many tiles.
    """
    if split_k != param.split_k:
        raise ValueError(f"gemm_a16w16_gfx950: split_k = {split_k}, and the parameter was made for {param.split_k}")
    m = out.shape[0]
    tiles = cdiv(m, param.tile_m) * cdiv(param.n, param.tile_n)
    if split_k > 1 and tiles > SPLIT_K_SEMAPHORE_MAX_LEN:
        raise ValueError(f"gemm_a16w16_gfx950: a split reduction has at most {SPLIT_K_SEMAPHORE_MAX_LEN} tiles, a "
                         f"{m} x {param.n} result has {tiles}")
    unused = out if bias is None else bias
    flags = (out, out) if semaphore is None else (semaphore, signal)
    _launcher(param)(out, a, b, unused, *flags, m, stream)
