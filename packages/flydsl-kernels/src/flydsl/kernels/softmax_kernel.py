"""Older name of :mod:`flydsl.kernels.softmax`."""

from .softmax import *  # noqa: F403
