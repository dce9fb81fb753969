"""Older name of the RMS norm builders in :mod:`flydsl.kernels.norm`, with their forms for arrays."""

from flydsl.kernels.norm.autotuned import rmsnorm_autotuned, rmsnorm_configs  # noqa: F401
from flydsl.kernels.norm.backward import *  # noqa: F403
from flydsl.kernels.norm.config import BLOCK_THREADS, EPS, VEC_WIDTH  # noqa: F401
from flydsl.kernels.norm.rms_builders import *  # noqa: F403
from flydsl.kernels.ops import (  # noqa: F401
    fused_add_rmsnorm,
    fused_add_rmsnorm_bwd,
    fused_add_rmsnorm_fwd,
    rmsnorm,
    rmsnorm_bwd,
    rmsnorm_fwd,
)
