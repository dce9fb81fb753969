"""Older name of the RMS norm builders in :mod:`flydsl.kernels.norm`, with their forms for arrays."""

from .norm.autotuned import rmsnorm_autotuned, rmsnorm_configs  # noqa: F401
from .norm.backward import *  # noqa: F403
from .norm.rmsnorm import *  # noqa: F403
from .ops import (  # noqa: F401
    fused_add_rmsnorm,
    fused_add_rmsnorm_bwd,
    fused_add_rmsnorm_fwd,
    rmsnorm,
    rmsnorm_bwd,
    rmsnorm_fwd,
)
