"""Elementwise kernels: addition, activations alone and gated."""

from .activation import build_activation_module
from .add import build_add_module

__all__ = ["build_activation_module", "build_add_module"]
