"""Older name of a part of :mod:`flydsl.kernels.gemm.preshuffle`."""

from flydsl.kernels.gemm.preshuffle import compile_blockscale_preshuffle_gemm

__all__ = ["compile_blockscale_preshuffle_gemm"]
