"""Arguments of launchers of which a kernel takes the address alone: their elements must follow each other, and there
must be as many as the kernel takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import flydsl.expr as fx

__all__ = ["require_dense", "require_held"]


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


def require_held(tensors: Mapping[str, Any], names: Iterable[str], count: Any, element: Any = None) -> None:
    """From a jit function: a call is refused whose tensors of these names hold less than `count` elements of `element`,
    or of their own type if it is None, which also may be seen as others of their bytes.

    Pointers, and what is not given, are not looked at.
    """
    for name in names:
        tensor = tensors.get(name)
        if not isinstance(tensor, fx.Tensor):
            continue
        layout, given = fx.get_layout(tensor), fx.get_iter(tensor).element_type
        if not all(layout.shape[dim].is_leaf for dim in range(layout.rank)):
            continue  # a layout that its caller made
        held: Any = given.width if element else 1
        for dim in range(layout.rank):
            held = held * _number(layout.shape[dim])
        needed = fx.Int64(count) * (element.width if element else 1)
        fx.host_assert(needed <= held, f"{name} holds fewer elements than the kernel was built and is called for")
