"""Older name of :mod:`flydsl.kernels.quant`."""

from flydsl.kernels.quant import *  # noqa: F403
