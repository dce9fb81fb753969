"""Older name of the layer norm builders in :mod:`flydsl.kernels.norm`, with their forms for arrays."""

from .norm.backward import *  # noqa: F403
from .norm.layernorm import *  # noqa: F403
from .ops import layernorm, layernorm_bwd, layernorm_fwd  # noqa: F401
