"""Older name of a part of :mod:`flydsl.kernels.gemm.gfx1250`."""

from flydsl.kernels.gemm.gfx1250 import compile_wmma_gemm_tdm

__all__ = ["compile_wmma_gemm_tdm"]
