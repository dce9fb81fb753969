"""Older builders of the fp8 and fp4 GEMMs of gfx1250.

e8m0 scales per 32 k ("mxscale") go into the matrix instruction, f32 scales per row and column ("ptpc") into the
epilogue.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.common.host import with_occupancy
from flydsl.kernels.gemm.wmma import DATA_FORMATS, WmmaConfig, launch_wmma, wmma_config
from flydsl.kernels.target import Target, builder
from flydsl.kernels.target import target as current

__all__ = [
    "compile_a8w4_gemm", "compile_fp8fp4_gemm", "compile_mxfp4_gemm", "compile_mxfp8_gemm", "compile_mxscale_gemm",
    "compile_ptpc_gemm", "launch_gemm_a8w4_mxscale", "launch_gemm_a8w8",
]

SCALE_MODES = {"mxscale": "mx", "ptpc": "rows"}


@builder
def compile_fp8fp4_gemm(*, data_format: str = "fp4", scale_mode: str = "mxscale", N: int = 0, K: int,
                        tile_m: int = 128, tile_n: int = 128, tile_k: int = 128, m_warp: int = 2, n_warp: int = 2,
                        num_buffers: int = 2, waves_per_eu: int | None = None, l2_prefetch_distance: int = 2,
                        cluster_m: int = 1, cluster_n: int = 1, out_dtype: str = "f32", inst_prefetch: bool = False,
                        split_k: int = 1, expert_sched_mode: bool = True, atomic_barrier_enable: bool = False,
                        ascale_load_path: str = "vgpr", target: Target) -> Any:
    """``fn(c, a, b, a_scale, b_scale, M, N, lda, ldc, stream=None)`` on gfx1250: ``c = a b^T``, summed in f32.

    a is row-major (two fp4 in a byte, the first in the low bits), b in the order of ``preshuffle_b_16x16`` of its
    bytes. lda and ldc are elements from a row of a (of c) to the next, 0 where rows are contiguous.

    Args:
        data_format: ``"fp4"``, ``"fp8"`` (e4m3), or ``"a8w4"`` with a of fp8 and b of fp4.
        scale_mode: ``"mxscale"``: e8m0 scales per 32 k of both operands in the order of ``shuffle_scale_32x4``;
            ``"ptpc"`` (fp8 only): f32 scales ``a_scale[M]`` and ``b_scale[N]``.
        N: fixed when the kernel is compiled; 0: taken from the call. It is a multiple of tile_n, K of tile_k.
        m_warp, n_warp: waves along the rows and columns; there are more if a wave's part of the tile would not fit its
            registers.
        out_dtype: ``"f32"``, ``"bf16"`` or ``"f16"``.
        num_buffers: LDS buffers, 2 to 4.
        split_k: workgroups that share a tile's reduction. c is cleared, and each adds its share: rounded to the type
            of c once a share, in an order that may differ between launches. K is a multiple of tile_k * split_k.
        cluster_m, cluster_n: workgroups along the rows and columns that load what they share once, at most 16.
        l2_prefetch_distance, inst_prefetch, expert_sched_mode, atomic_barrier_enable, ascale_load_path: accepted;
            they tune what this kernel does not use.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    where = "compile_fp8fp4_gemm"
    if data_format not in DATA_FORMATS or scale_mode not in SCALE_MODES:
        raise ValueError(f"{where}: data_format must be one of {', '.join(DATA_FORMATS)} and scale_mode 'mxscale' or "
                         f"'ptpc', got {data_format!r} and {scale_mode!r}")
    if scale_mode == "ptpc" and data_format != "fp8":
        raise ValueError(f"{where}: scales per row and column are for data_format 'fp8', got {data_format!r}")
    a_dtype, b_dtype = DATA_FORMATS[data_format]

    def config_of(n: int, lda: int = 0, ldc: int = 0) -> WmmaConfig:
        return wmma_config(where, target, n=n, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_waves=m_warp,
                             n_waves=n_warp, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_dtype,
                             scales=SCALE_MODES[scale_mode], stages=num_buffers, lda=lda, ldc=ldc,
                             split_k=split_k, cluster_m=cluster_m, cluster_n=cluster_n)

    config_of(N or tile_n * cluster_n)  # its errors at once

    @flyc.jit
    def fp8fp4_gemm(c, a, b, a_scale, b_scale, M: fx.Int32, N: fx.Constexpr[int], lda: fx.Constexpr[int],
                    ldc: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
        tensors = {"c": c, "a": a, "b": b, "scale_a": a_scale, "scale_b": b_scale}
        launch_wmma(tensors, M, config_of(N, lda, ldc), stream)

    return with_occupancy(fp8fp4_gemm, waves_per_eu)


def _variant(data_format: str, scale_mode: str, name: str, description: str) -> Any:
    def compile_(**options: Any) -> Any:
        options = {"data_format": data_format, "num_buffers": 4, "out_dtype": "bf16", **options}
        return compile_fp8fp4_gemm(scale_mode=scale_mode, **options)

    compile_.__name__ = compile_.__qualname__ = name
    compile_.__doc__ = f"""{description} on gfx1250: :func:`compile_fp8fp4_gemm` with four LDS buffers and bf16 output
    unless said otherwise."""
    return compile_


compile_mxscale_gemm = _variant("fp4", "mxscale", "compile_mxscale_gemm", "Microscaled operands (data_format)")
compile_mxfp4_gemm = _variant("fp4", "mxscale", "compile_mxfp4_gemm", "Microscaled fp4 activations and weights")
compile_mxfp8_gemm = _variant("fp8", "mxscale", "compile_mxfp8_gemm", "Microscaled fp8 activations and weights")
compile_a8w4_gemm = _variant("a8w4", "mxscale", "compile_a8w4_gemm", "Microscaled fp8 activations and fp4 weights")
compile_ptpc_gemm = _variant("fp8", "ptpc", "compile_ptpc_gemm", "fp8 with scales per row and column")


@flyc.jit
def launch_gemm_a8w4_mxscale(c, a, b, sa, sb, M: fx.Int32, stream: fx.Stream, N: fx.Constexpr[int],
                             K: fx.Constexpr[int], lda: fx.Constexpr[int] = 0, ldc: fx.Constexpr[int] = 0,
                             tile_m: fx.Constexpr[int] = 128, tile_n: fx.Constexpr[int] = 128,
                             tile_k: fx.Constexpr[int] = 128, m_warp: fx.Constexpr[int] = 2,
                             n_warp: fx.Constexpr[int] = 2, out_is_f16: fx.Constexpr[int] = 0,
                             num_buffers: fx.Constexpr[int] = 2, cluster_m: fx.Constexpr[int] = 1,
                             cluster_n: fx.Constexpr[int] = 1):
    """``c = a b^T`` on gfx1250: a e4m3 (M, K), b fp4 by ``preshuffle_b_16x16``, c bf16 (f16 if `out_is_f16`).

    sa and sb are e8m0 scales per 32 k in the order of ``shuffle_scale_32x4``; lda and ldc elements from a row to the
    next, 0 where rows are contiguous.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    where = "launch_gemm_a8w4_mxscale"
    config = wmma_config(where, current(), n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_waves=m_warp,
                           n_waves=n_warp, a_dtype="fp8", b_dtype="fp4", out_dtype="f16" if out_is_f16 else "bf16",
                           scales="mx", stages=num_buffers, lda=lda, ldc=ldc, cluster_m=cluster_m,
                           cluster_n=cluster_n)
    launch_wmma({"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb}, M, config, stream)


@flyc.jit
def launch_gemm_a8w8(c, a, b, sa, sb, M: fx.Int32, stream: fx.Stream, N: fx.Constexpr[int], K: fx.Constexpr[int],
                     stride_ascale_k: fx.Constexpr[int] = 0, lda: fx.Constexpr[int] = 0, ldc: fx.Constexpr[int] = 0,
                     tile_m: fx.Constexpr[int] = 128, tile_n: fx.Constexpr[int] = 128, tile_k: fx.Constexpr[int] = 128,
                     m_warp: fx.Constexpr[int] = 2, n_warp: fx.Constexpr[int] = 2, out_is_f16: fx.Constexpr[int] = 0,
                     num_buffers: fx.Constexpr[int] = 2, cluster_m: fx.Constexpr[int] = 1,
                     cluster_n: fx.Constexpr[int] = 1, is_bsc: fx.Constexpr[int] = 0):
    """fp8 GEMM of gfx1250: ``c = a b^T`` with scales, a e4m3 (M, K), b by ``preshuffle_b_16x16``, c bf16 or f16.

    Args:
        sa, sb: f32 of a row of a and a row of b; with `is_bsc` e8m0 bytes (K/128, M), per 128 k of a row, and
            (N/128 rounded up, K/128), per 128 k of 128 columns.
        stride_ascale_k: of the block scales of a, bytes from 128 k to the next; 0: M.
        lda, ldc: elements from a row of a (of c) to the next; 0: contiguous.
        out_is_f16: c is f16 instead of bf16.
        cluster_m, cluster_n: workgroups along the rows and columns that load what they share once, at most 16.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    where = "launch_gemm_a8w8"
    config = wmma_config(where, current(), n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_waves=m_warp,
                         n_waves=n_warp, cluster_m=cluster_m, cluster_n=cluster_n, a_dtype="fp8", b_dtype="fp8",
                         scales="block" if is_bsc else "rows", out_dtype="f16" if out_is_f16 else "bf16",
                         stages=num_buffers, lda=lda, ldc=ldc, scale_stride=stride_ascale_k)
    launch_wmma({"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb}, M, config, stream)
