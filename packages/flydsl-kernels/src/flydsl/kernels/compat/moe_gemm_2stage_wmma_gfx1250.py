"""Older name of a part of :mod:`flydsl.kernels.moe`."""

from flydsl.kernels.moe import compile_moe_gemm1, compile_moe_gemm2, compile_moe_gemm2_ex

__all__ = ["compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex"]
