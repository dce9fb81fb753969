"""Older name of :mod:`flydsl.kernels.norm.rmsnorm`."""

from .norm.backward import *  # noqa: F403
from .norm.rmsnorm import *  # noqa: F403
