"""Older name of the products of microscaled experts; see :mod:`flydsl.kernels.moe`."""

from .moe_sorted_gemm import (
    compile_gemm1_a4w4_port,
    compile_gemm2_a4w4_port,
    flydsl_mxfp4_gemm1,
    flydsl_mxfp4_gemm2,
    gemm1_grid,
)

__all__ = ["compile_gemm1_a4w4_port", "compile_gemm2_a4w4_port", "flydsl_mxfp4_gemm1", "flydsl_mxfp4_gemm2",
           "gemm1_grid"]
