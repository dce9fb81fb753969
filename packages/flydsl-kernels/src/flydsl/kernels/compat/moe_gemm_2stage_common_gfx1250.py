"""Older name of a part of :mod:`flydsl.kernels.moe_gemm_2stage`."""

from .moe_gemm_2stage import MoeGemm2Mode, compile_moe_reduction

__all__ = ["MoeGemm2Mode", "compile_moe_reduction"]
