"""Older builder of the f16 and bf16 GEMM of gfx1250.

Arguments that only tune what the kernel does not do are accepted where ignoring them cannot change a result.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.common.host import with_occupancy
from flydsl.kernels.gemm.config import FLOAT_NAMES
from flydsl.kernels.gemm.wmma import WmmaConfig, launch_wmma, wmma_config
from flydsl.kernels.target import Target, builder

__all__ = ["compile_wmma_gemm_tdm"]


@builder
def compile_wmma_gemm_tdm(*, M: int = 0, N: int = 0, K: int, tile_m: int = 256, tile_n: int = 256, tile_k: int = 128,
                          m_warp: int = 2, n_warp: int = 4, in_dtype: str = "fp16", out_dtype: str | None = None,
                          num_buffers: int = 2, waves_per_eu: int | None = None, l2_prefetch_distance: int = 2,
                          use_tdm_store: bool = True, cluster_m: int = 1, cluster_n: int = 1,
                          inst_prefetch: bool = False, wave_specialized_tdm: bool = False,
                          expert_sched_mode: bool = True, target: Target) -> Any:
    """``fn(c, a, b, M, N, stream=None)`` on gfx1250: ``c[M, N] = a[M, K] b[N, K]^T`` with f32 accumulation.

    Args:
        N: fixed when the kernel is compiled; 0: taken from the call. M is free.
        K: a multiple of tile_k; N is one of tile_n.
        in_dtype: ``"fp16"`` or ``"bf16"``; out_dtype is the same (None), the other or ``"f32"``.
        m_warp, n_warp: waves along the rows and columns; there are more if a wave's part of the tile would not fit its
            registers.
        num_buffers: LDS buffers, 2 to 4.
        cluster_m, cluster_n: workgroups along the rows and columns that load what they share once, at most 16.
        l2_prefetch_distance, use_tdm_store, inst_prefetch, wave_specialized_tdm, expert_sched_mode: accepted; they
            tune what this kernel does not use.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    where = "compile_wmma_gemm_tdm"
    if in_dtype not in ("fp16", "f16", "bf16") or (out_dtype or in_dtype) not in FLOAT_NAMES:
        raise ValueError(f"{where}: in_dtype must be 'fp16' or 'bf16' and out_dtype one of them or 'f32', "
                         f"got {in_dtype!r} and {out_dtype!r}")

    dtype, c_dtype = FLOAT_NAMES[in_dtype], FLOAT_NAMES[out_dtype or in_dtype]

    def config_of(n: int) -> WmmaConfig:
        return wmma_config(where, target, n=n, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_waves=m_warp,
                           n_waves=n_warp, a_dtype=dtype, b_dtype=dtype, out_dtype=c_dtype, scales="none",
                           stages=num_buffers, cluster_m=cluster_m, cluster_n=cluster_n)

    config_of(N or tile_n * cluster_n)  # its errors at once

    @flyc.jit
    def wmma_gemm(c, a, b, M: fx.Int32, N: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
        launch_wmma({"c": c, "a": a, "b": b}, M, config_of(N), stream)

    return with_occupancy(wmma_gemm, waves_per_eu)
