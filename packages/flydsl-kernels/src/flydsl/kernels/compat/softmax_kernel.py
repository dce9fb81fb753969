"""Older name of :mod:`flydsl.kernels.softmax`."""

from flydsl.kernels.softmax import *  # noqa: F403
