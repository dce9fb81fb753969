"""Mixture of experts: routing and sorting."""

from .callers import (
    compile_moe_sorting,
    compile_moe_sorting_oneshot_fused,
    moe_softmax_sort_flydsl,
    moe_sorting_flydsl,
    moe_sorting_get_workspace_size,
)
from .gating import build_route_module, build_topk_gating_softmax_module
from .sorting import build_moe_sorting_module, build_softmax_sorting_module

__all__ = [
    "build_moe_sorting_module", "build_route_module", "build_softmax_sorting_module",
    "build_topk_gating_softmax_module", "compile_moe_sorting", "compile_moe_sorting_oneshot_fused",
    "moe_softmax_sort_flydsl", "moe_sorting_flydsl", "moe_sorting_get_workspace_size",
]
