"""Older name of :mod:`flydsl.kernels.quant`."""

from .quant import *  # noqa: F403
