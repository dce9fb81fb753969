"""Older name of a part of :mod:`flydsl.kernels.preshuffle_gemm`."""

from flydsl.kernels.preshuffle_gemm import compile_preshuffle_gemm_v2

__all__ = ["compile_preshuffle_gemm_v2"]
