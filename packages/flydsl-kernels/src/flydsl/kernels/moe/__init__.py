"""Mixture of experts: gating."""

from .gating import build_topk_gating_softmax_module

__all__ = ["build_topk_gating_softmax_module"]
