"""GEMMs of gfx1250 under the names its callers use, by the general GEMM kernel (wave32, WMMA, both operands in LDS).

Operands go to LDS through registers; tensor moves (TDM), clusters and block scales in the matrix instruction are not
used. Arguments that only tune those are accepted where ignoring them cannot change a result.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.arch import require_arch
from .config import with_occupancy
from .dense_config import DenseConfig, dense_config
from .dense_kernel import launch_dense

__all__ = ["compile_ptpc_gemm", "compile_wmma_gemm_tdm", "launch_gemm_a8w8"]

WAVE_PART = 64 * 64  # elements of C of a wave, 128 of the 256 registers that the code generator keeps to
NAMES = {"fp16": "f16", "f16": "f16", "bf16": "bf16", "f32": "f32"}


def _no_clusters(where: str, cluster_m: int, cluster_n: int) -> None:
    if (cluster_m, cluster_n) != (1, 1):
        raise NotImplementedError(f"{where}: clusters of workgroups are not implemented, got {cluster_m} x {cluster_n}")


def _config(where: str, n: int, k: int, dtype: str, out_dtype: str, tile: tuple[int, int, int], waves: tuple[int, int],
            stages: int, shuffled: bool = False) -> DenseConfig:  # fmt: skip
    require_arch(where, "gfx1250")
    for name, size, unit in (("N", n, tile[1]), ("K", k, tile[2])):
        if size < unit or size % unit:
            raise ValueError(f"{where}: {name} = {size} must be a positive multiple of the tile's {unit}")
    m_waves = waves[0]
    while tile[0] * tile[1] // (m_waves * waves[1]) > WAVE_PART and tile[0] % (32 * m_waves) == 0:
        m_waves *= 2
    return dense_config(where, n=n, k=k, dtype=dtype, out_dtype=out_dtype, layout="nt", block_m=tile[0],
                        block_n=tile[1], block_k=tile[2], m_waves=m_waves, n_waves=waves[1], stages=stages,
                        b_shuffled=shuffled, cshuffle=None)  # fmt: skip


@functools.lru_cache
def compile_wmma_gemm_tdm(*, M: int = 0, N: int = 0, K: int, tile_m: int = 256, tile_n: int = 256, tile_k: int = 128,
                          m_warp: int = 2, n_warp: int = 4, in_dtype: str = "fp16", out_dtype: str | None = None,
                          num_buffers: int = 2, waves_per_eu: int | None = None, l2_prefetch_distance: int = 2,
                          use_tdm_store: bool = True, cluster_m: int = 1, cluster_n: int = 1,
                          inst_prefetch: bool = False, wave_specialized_tdm: bool = False,
                          expert_sched_mode: bool = True) -> Any:  # fmt: skip
    """``fn(c, a, b, M, N, stream=None)`` on gfx1250: ``c[M, N] = a[M, K] b[N, K]^T`` with f32 accumulation.

    Args:
        N: fixed when the kernel is compiled; 0: taken from the call. M is free.
        K: a multiple of tile_k; N is one of tile_n.
        in_dtype: ``"fp16"`` or ``"bf16"``; out_dtype is the same or ``"f32"``.
        m_warp, n_warp: waves along the rows and columns; there are more along the rows if a wave's part of the tile
            would exceed 64 x 64.
        num_buffers: LDS buffers, 2 to 4.
        l2_prefetch_distance, use_tdm_store, inst_prefetch, wave_specialized_tdm, expert_sched_mode: accepted; they
            tune what this kernel does not use.

    Raises:
        ValueError: the architecture or an argument is not supported.
        NotImplementedError: clusters.
    """
    where = "compile_wmma_gemm_tdm"
    _no_clusters(where, cluster_m, cluster_n)
    if in_dtype not in ("fp16", "f16", "bf16") or (out_dtype or in_dtype) not in NAMES:
        raise ValueError(f"{where}: in_dtype must be 'fp16' or 'bf16' and out_dtype the same or 'f32', "
                         f"got {in_dtype!r} and {out_dtype!r}")  # fmt: skip

    def config_of(n: int) -> DenseConfig:
        return _config(where, n, K, NAMES[in_dtype], NAMES[out_dtype or in_dtype], (tile_m, tile_n, tile_k),
                       (m_warp, n_warp), num_buffers)  # fmt: skip

    config_of(N or tile_n)  # its errors at once

    @flyc.jit
    def wmma_gemm(c, a, b, M: fx.Int32, N: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
        launch_dense({"c": c, "a": a, "b": b}, M, config_of(N), stream)

    return with_occupancy(wmma_gemm, waves_per_eu)


@flyc.jit
def launch_gemm_a8w8(c, a, b, sa, sb, M: fx.Int32, stream: fx.Stream, N: fx.Constexpr[int], K: fx.Constexpr[int],
                     stride_ascale_k: fx.Constexpr[int] = 0, lda: fx.Constexpr[int] = 0, ldc: fx.Constexpr[int] = 0,
                     tile_m: fx.Constexpr[int] = 128, tile_n: fx.Constexpr[int] = 128, tile_k: fx.Constexpr[int] = 128,
                     m_warp: fx.Constexpr[int] = 2, n_warp: fx.Constexpr[int] = 2, out_is_f16: fx.Constexpr[int] = 0,
                     num_buffers: fx.Constexpr[int] = 2, cluster_m: fx.Constexpr[int] = 1,
                     cluster_n: fx.Constexpr[int] = 1, is_bsc: fx.Constexpr[int] = 0):  # fmt: skip
    """fp8 GEMM of gfx1250: ``c = a b^T * sa[row] * sb[column]``, a e4m3fn (M, K), b by ``preshuffle_b_16x16``, c bf16.

    Raises:
        ValueError: the architecture or an argument is not supported.
        NotImplementedError: block scales (is_bsc), f16 output, clusters, or rows that are not contiguous.
    """
    where = "launch_gemm_a8w8"
    _no_clusters(where, cluster_m, cluster_n)
    for name, asked in (("block scales (is_bsc=1)", is_bsc), ("f16 output", out_is_f16),
                        (f"lda = {lda}", lda not in (0, K)), (f"ldc = {ldc}", ldc not in (0, N))):  # fmt: skip
        if fx.const_expr(bool(asked)):
            raise NotImplementedError(f"{where}: {name} is not implemented")
    config = _config(where, N, K, "fp8", "bf16", (tile_m, tile_n, tile_k), (m_warp, n_warp), num_buffers, True)
    launch_dense({"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb}, M, config, stream)




@functools.lru_cache
def compile_ptpc_gemm(*, N: int = 0, K: int, tile_m: int = 128, tile_n: int = 128, tile_k: int = 128, m_warp: int = 2,
                      n_warp: int = 2, num_buffers: int = 4, out_dtype: str = "bf16", cluster_m: int = 1,
                      cluster_n: int = 1) -> Any:  # fmt: skip
    """``fn(c, a, b, a_scale, b_scale, M, N, lda, ldc, stream=None)``: :func:`launch_gemm_a8w8` with its tile fixed.

    Raises:
        ValueError: the architecture or an argument is not supported.
        NotImplementedError: clusters, or rows that are not contiguous.
    """
    where = "compile_ptpc_gemm"
    _no_clusters(where, cluster_m, cluster_n)
    if out_dtype != "bf16":
        raise ValueError(f"{where}: out_dtype must be 'bf16', got {out_dtype!r}")

    def config_of(n: int) -> DenseConfig:
        return _config(where, n, K, "fp8", "bf16", (tile_m, tile_n, tile_k), (m_warp, n_warp), num_buffers, True)

    config_of(N or tile_n)  # its errors at once

    @flyc.jit
    def ptpc_gemm(c, a, b, a_scale, b_scale, M: fx.Int32, N: fx.Constexpr[int], lda: fx.Constexpr[int],
                  ldc: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):  # fmt: skip
        if fx.const_expr(lda not in (0, K) or ldc not in (0, N)):
            raise NotImplementedError(f"{where}: rows must be contiguous, got lda = {lda}, ldc = {ldc}")
        tensors = {"c": c, "a": a, "b": b, "scale_a": a_scale, "scale_b": b_scale}
        launch_dense(tensors, M, config_of(N), stream)

    return ptpc_gemm
