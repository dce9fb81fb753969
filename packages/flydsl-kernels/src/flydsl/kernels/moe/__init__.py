"""Mixture of experts: routing, sorting, grouped products, reduction."""

from . import builders, callers
from .builders import *  # noqa: F403
from .callers import *  # noqa: F403
from .gating import build_route_module, build_topk_gating_softmax_module
from .reduction import compile_moe_reduction
from .sorting import build_moe_sorting_module, build_softmax_sorting_module

__all__ = [
    *builders.__all__, *callers.__all__, "build_moe_sorting_module", "build_route_module",
    "build_softmax_sorting_module", "build_topk_gating_softmax_module", "compile_moe_reduction",
]
