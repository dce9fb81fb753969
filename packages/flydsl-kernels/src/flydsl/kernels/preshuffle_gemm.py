"""Older name of :mod:`flydsl.kernels.gemm.preshuffle`."""

from .gemm.preshuffle import *  # noqa: F403
