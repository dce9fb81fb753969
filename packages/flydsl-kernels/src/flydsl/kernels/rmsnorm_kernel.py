"""Older name of the RMS norm builders in :mod:`flydsl.kernels.norm`, with their forms for arrays."""

from .norm.autotuned import rmsnorm_autotuned, rmsnorm_configs  # noqa: F401
from .norm.backward import *  # noqa: F403
from .norm.config import BLOCK_THREADS, EPS, VEC_WIDTH  # noqa: F401
from .norm.rms_builders import *  # noqa: F403
from .ops import (  # noqa: F401
    fused_add_rmsnorm,
    fused_add_rmsnorm_bwd,
    fused_add_rmsnorm_fwd,
    rmsnorm,
    rmsnorm_bwd,
    rmsnorm_fwd,
)
