"""Older name of :mod:`flydsl.kernels.gemm.preshuffle`."""

from .gemm.mx import compile_mxfp4_gemm, compile_mxfp6_gemm  # noqa: F401
from .gemm.preshuffle import *  # noqa: F403
