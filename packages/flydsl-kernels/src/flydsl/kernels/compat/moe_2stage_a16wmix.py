"""Older name of the products of experts with 16-bit activations; see :mod:`flydsl.kernels.moe`."""

from .moe_sorted_gemm import (
    compile_gemm1_a16w4_port,
    compile_gemm2_a16w4_port,
    flydsl_a16w4_gemm1,
    flydsl_a16w4_gemm2,
)

__all__ = ["compile_gemm1_a16w4_port", "compile_gemm2_a16w4_port", "flydsl_a16w4_gemm1", "flydsl_a16w4_gemm2"]
