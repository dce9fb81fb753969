"""Older name of a part of :mod:`flydsl.kernels.gemm.gfx1250`."""

from .gemm.gfx1250 import compile_ptpc_gemm, launch_gemm_a8w8

__all__ = ["compile_ptpc_gemm", "launch_gemm_a8w8"]
