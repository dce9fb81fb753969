"""Elementwise kernels on row-major matrices."""

from .add import build_add_module

__all__ = ["build_add_module"]
