"""Older name of the layer norm builders in :mod:`flydsl.kernels.norm`, with their forms for arrays."""

from flydsl.kernels.norm.backward import *  # noqa: F403
from flydsl.kernels.norm.config import BLOCK_THREADS, EPS, VEC_WIDTH  # noqa: F401
from flydsl.kernels.norm.layer_builders import *  # noqa: F403
from flydsl.kernels.ops import layernorm, layernorm_bwd, layernorm_fwd  # noqa: F401
