"""Older name of a part of :mod:`flydsl.kernels.preshuffle_gemm`."""

from flydsl.kernels.preshuffle_gemm import compile_blockscale_preshuffle_gemm

__all__ = ["compile_blockscale_preshuffle_gemm"]
