"""Older name of :mod:`flydsl.kernels.gemm.preshuffle`."""

from flydsl.kernels.gemm.mx import compile_mxfp4_gemm, compile_mxfp6_gemm  # noqa: F401
from flydsl.kernels.gemm.preshuffle import *  # noqa: F403
