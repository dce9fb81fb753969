"""Older name of :mod:`flydsl.kernels.moe_gemm_2stage`."""

from .moe_gemm_2stage import compile_moe_gemm1, compile_moe_gemm2, compile_moe_gemm2_ex

__all__ = ["compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex"]
