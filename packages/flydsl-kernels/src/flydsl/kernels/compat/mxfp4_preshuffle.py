"""Older builders of the GEMM of microscaled operands on gfx950: fp4, fp6 or fp8 activations, fp4 or fp8 weights."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.mx import MxConfig, launch_mx, mx_config
from flydsl.kernels.target import Target, builder
from flydsl.kernels.target import target as current

__all__ = ["compile_fp4_gemm_4w", "compile_mxfp4_gemm", "compile_mxfp6_gemm", "launch_gemm"]


@flyc.jit
def launch_gemm(c, a, b, sa, sb, m_in: fx.Int32, n_in: fx.Int32, stream: fx.Stream, N: fx.Constexpr[int],
                K: fx.Constexpr[int], tile_m: fx.Constexpr[int], tile_n: fx.Constexpr[int], tile_k: fx.Constexpr[int],
                a_dtype: fx.Constexpr[str] = "fp4", out_dtype: fx.Constexpr[str] = "bf16",
                b_dtype: fx.Constexpr[str] = "fp4", batch: fx.Constexpr[int] = 1,
                a_row_stride: fx.Constexpr[int] = -1, a_batch_stride: fx.Constexpr[int] = -1,
                sca_row_stride: fx.Constexpr[int] = -1, sca_batch_stride: fx.Constexpr[int] = -1,
                c_row_stride: fx.Constexpr[int] = -1, c_batch_stride: fx.Constexpr[int] = -1,
                waves_per_eu: fx.Constexpr[int] = 0, xcd_swizzle: fx.Constexpr[int] = 0):
    """``C[M, N] = A[M, K] B[N, K]^T`` of microscaled operands, f32 accumulation.

    Args:
        c, a, b: C row-major; A row-major bytes (K/2 of fp4, K of fp6 padded to 32 bytes a group, K of fp8); B in the
            order of ``shuffle_weight_w4`` (fp4) or ``shuffle_weight`` (fp8).
        sa, sb: e8m0 scales in the order of ``e8m0_shuffle``; those of B's entries follow each other without padding.
        m_in, n_in: rows of this call; N again, not used.
        N, K, tile_m, tile_n, tile_k: tile_k is 128 or 256.
        a_dtype, b_dtype: ``"fp4"``, ``"fp6"``, ``"fp8"``; b_dtype not ``"fp6"``.
        batch and strides: entries of a batch; -1 means contiguous.
        waves_per_eu: accepted; the occupancy follows from the registers.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    config = mx_config("launch_gemm", current(), n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, a_dtype=a_dtype,
                       b_dtype=b_dtype, out_dtype=out_dtype, batch=batch, a_row=a_row_stride, a_batch=a_batch_stride,
                       scale_row=sca_row_stride, scale_batch=sca_batch_stride, c_row=c_row_stride,
                       c_batch=c_batch_stride, group=xcd_swizzle)
    launch_mx({"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb}, m_in, config, stream)


@builder
def compile_mxfp4_gemm(*, M: int = 0, N: int, K: int, tile_m: int, tile_n: int, tile_k: int, a_dtype: str = "fp4",
                       b_dtype: str = "fp4", out_dtype: str = "bf16", xcd_swizzle: int = 0,
                       target: Target):
    """``fn(c, a, b, sa, sb, M, N, stream=None)``: :func:`launch_gemm` with its static arguments fixed, but for M."""
    config = mx_config("compile_mxfp4_gemm", target, n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k,
                       a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_dtype, group=xcd_swizzle)

    @flyc.jit
    def mx_gemm(c, a, b, sa, sb, M: fx.Int32, N: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_mx({"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb}, M, config, stream)

    return mx_gemm


def compile_mxfp6_gemm(**options):
    """:func:`compile_mxfp4_gemm` with fp6 activations."""
    return compile_mxfp4_gemm(a_dtype="fp6", **options)


FP4_BLOCK = 256  # columns, and k of a tile, of the 4-wave form
FP4_ROWS = 128   # rows of a workgroup: 256 would need every register of a wave for accumulators


@builder
def compile_fp4_gemm_4w(*, K: int, use_xcd_remap: bool = True, MN: tuple[int, int] | None = None, target: Target):
    """``launch(A, B_T, C, A_scale, B_scale, c_m, c_n, stream=None)`` on gfx950: both operands fp4, C bf16.

    Args:
        K: a multiple of 256.
        use_xcd_remap: deal blocks to the dies in groups of four block rows.
        MN: (M, N) if known: checked here instead of at the launch.

    A is row-major packed fp4, B_T in the order of ``shuffle_weight_w4``, scales in that of ``e8m0_shuffle``. c_n is
    fixed when the kernel is compiled.

    Raises:
        ValueError: the architecture or K is not supported, or M or N is not a multiple of 256.
    """
    where = "compile_fp4_gemm_4w"
    if K < FP4_BLOCK or K % FP4_BLOCK:
        raise ValueError(f"{where}: K must be a positive multiple of {FP4_BLOCK}, got {K}")
    for name, size in zip("MN", MN or (FP4_BLOCK, FP4_BLOCK), strict=True):
        if size < FP4_BLOCK or size % FP4_BLOCK:
            raise ValueError(f"{where}: {name} must be a positive multiple of {FP4_BLOCK}, got {size}")

    def config_of(n: int) -> MxConfig:
        return mx_config(where, target, n=n, k=K, tile_m=FP4_ROWS, tile_n=FP4_BLOCK, tile_k=FP4_BLOCK, a_dtype="fp4",
                         b_dtype="fp4", out_dtype="bf16", group=4 if use_xcd_remap else 0)

    config_of(FP4_BLOCK)

    @flyc.jit
    def fp4_gemm(A, B_T, C, A_scale, B_scale, c_m: fx.Int32, c_n: fx.Constexpr[int],
                 stream: fx.Stream = fx.Stream(None)):
        launch_mx({"c": C, "a": A, "b": B_T, "scale_a": A_scale, "scale_b": B_scale}, c_m, config_of(c_n), stream)

    return fp4_gemm
