"""Older name of :mod:`flydsl.kernels.moe`."""

from flydsl.kernels.moe import (
    MoeGemm2Mode,
    compile_moe_gemm1,
    compile_moe_gemm2,
    compile_moe_gemm2_ex,
    compile_moe_reduction,
)

__all__ = ["MoeGemm2Mode", "compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex", "compile_moe_reduction"]
