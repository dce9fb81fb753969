"""Numbers that stand for Python's own: scalars of NumPy, and extents of tensors."""

from __future__ import annotations

from typing import Any

__all__ = ["number_of", "numpy_scalar"]


def numpy_scalar(value: Any) -> Any:
    """A NumPy scalar (or array of rank 0) as a Python number; anything else unchanged."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value


def number_of(value: Any) -> Any:
    """The number of an extent (``X.shape[0]``) or of a NumPy scalar; anything else unchanged."""
    return value.__dsl_number__() if hasattr(value, "__dsl_number__") else numpy_scalar(value)
