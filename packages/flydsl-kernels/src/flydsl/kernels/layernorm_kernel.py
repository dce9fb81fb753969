"""Older name of the layer norm builders in :mod:`flydsl.kernels.norm`, with their forms for arrays."""

from .norm.backward import *  # noqa: F403
from .norm.config import BLOCK_THREADS, EPS, VEC_WIDTH  # noqa: F401
from .norm.layer_builders import *  # noqa: F403
from .ops import layernorm, layernorm_bwd, layernorm_fwd  # noqa: F401
