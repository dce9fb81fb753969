"""Mixture of experts: routing, sorting, grouped products, reduction."""

from . import builders, callers, gfx1250, ports
from .builders import *  # noqa: F403
from .callers import *  # noqa: F403
from .gating import build_route_module, build_topk_gating_softmax_module
from .gfx1250 import *  # noqa: F403
from .ports import *  # noqa: F403
from .reduction import compile_moe_reduction
from .sorting import build_moe_sorting_module, build_softmax_sorting_module

__all__ = [
    *builders.__all__, *callers.__all__, *gfx1250.__all__, *ports.__all__, "build_moe_sorting_module",
    "build_route_module", "build_softmax_sorting_module", "build_topk_gating_softmax_module", "compile_moe_reduction",
]
