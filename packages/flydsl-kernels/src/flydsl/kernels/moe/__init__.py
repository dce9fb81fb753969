"""Mixture of experts: routing."""

from .gating import build_route_module, build_topk_gating_softmax_module

__all__ = ["build_route_module", "build_topk_gating_softmax_module"]
