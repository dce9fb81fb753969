"""Arguments of launchers of which a kernel takes the address alone: their elements must follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flydsl.expr as fx

__all__ = ["require_dense"]


def _number(value: Any) -> Any:
    """A leaf of a layout as an int if it is static, else as Int64."""
    return value.get_static_leaf_int if value.is_static else fx.Int64(fx.get_scalar(value))


def require_dense(tensors: Mapping[str, Any]) -> None:
    """From a jit function: a call is refused whose tensors, by their names in the message, are not dense in row-major
    order. Pointers, and what is not given, are not looked at.

    Layouts that are known while tracing are refused then; the others are compared at each launch, on the host.
    """
    for name, tensor in tensors.items():
        if isinstance(tensor, fx.Tensor):
            _check(name, fx.get_layout(tensor))


def _check(name: str, layout: Any) -> None:
    message = f"{name} must be dense, in row-major order: the kernel takes its address alone"
    fits: list[Any] = []
    count: Any = 1  # of elements in the dimensions behind, which is their step if all of these are dense
    for dim in reversed(range(layout.rank)):
        if not (layout.shape[dim].is_leaf and layout.stride[dim].is_leaf):
            return  # a layout that its caller made
        extent, stride = _number(layout.shape[dim]), _number(layout.stride[dim])
        fits.append(stride == count if isinstance(extent, int) and extent > 1 else (stride == count) | (extent <= 1))
        count = extent * count
    for fit in fits:
        fx.host_assert(fit | (count == 0), message)  # of nothing, NumPy and torch have steps of their own
