"""Older name of a part of :mod:`flydsl.kernels.gemm.preshuffle`."""

from flydsl.kernels.gemm.preshuffle import compile_preshuffle_gemm_v2

__all__ = ["compile_preshuffle_gemm_v2"]
