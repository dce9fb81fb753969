"""Older name of :mod:`flydsl.kernels.norm.layernorm`."""

from .norm.backward import *  # noqa: F403
from .norm.layernorm import *  # noqa: F403
