"""Losses: cross entropy."""

from .kernel import build_cross_entropy_bwd_module, build_cross_entropy_module

__all__ = ["build_cross_entropy_bwd_module", "build_cross_entropy_module"]
