"""Arguments of launchers of which a kernel takes the address alone: their elements must follow each other, and there
must be as many as the kernel takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import flydsl.expr as fx

from .dtypes import require_element

__all__ = ["Extent", "require_dense", "require_held", "require_operands", "row_step", "rows_extent", "steps_of",
           "strided_extent"]


def _number(value: Any) -> Any:
    """A leaf of a layout as an int if it is static, else as Int64."""
    return value.get_static_leaf_int if value.is_static else fx.Int64(fx.get_scalar(value))


def steps_of(tensor: Any, rank: int) -> list[Any] | None:
    """The elements between neighbours along the dimensions of a tensor of a rank; None of what is no such tensor, or
    has a layout that its caller made."""
    if not isinstance(tensor, fx.Tensor) or fx.get_layout(tensor).rank != rank:
        return None
    stride = fx.get_layout(tensor).stride
    return [_number(stride[dim]) for dim in range(rank)] if all(stride[d].is_leaf for d in range(rank)) else None


def row_step(tensor: Any) -> Any:
    """The elements between neighbours along the first of several dimensions; None of what has none, or a layout that
    its caller made."""
    if not isinstance(tensor, fx.Tensor) or fx.get_layout(tensor).rank < 2:
        return None
    layout = fx.get_layout(tensor)
    return _number(layout.stride[0]) if layout.shape[0].is_leaf and layout.stride[0].is_leaf else None


def require_dense(tensors: Mapping[str, Any], rows_apart: bool = False) -> None:
    """From a jit function: a call is refused whose tensors, by their names in the message, are not dense in row-major
    order; `rows_apart`: what the first dimension counts may have gaps between. Pointers, and what is not given, are not
    looked at.

    Layouts that are known while tracing are refused then; the others are compared at each launch, on the host.
    """
    for name, tensor in tensors.items():
        if isinstance(tensor, fx.Tensor):
            _check(name, fx.get_layout(tensor), rows_apart and row_step(tensor) is not None)


def _check(name: str, layout: Any, rows_apart: bool) -> None:
    message = f"{name} must be dense, in row-major order: the kernel takes its address alone"
    if rows_apart:
        message = f"{name} must be dense, in row-major order, but for the first dimension: no other step is taken"
    fits: list[Any] = []
    count: Any = 1  # of elements in the dimensions behind, which is their step if all of these are dense
    for dim in reversed(range(layout.rank)):
        if not (layout.shape[dim].is_leaf and layout.stride[dim].is_leaf):
            return  # a layout that its caller made
        extent, stride = _number(layout.shape[dim]), _number(layout.stride[dim])
        fit = stride >= count if rows_apart and not dim else stride == count
        fits.append(fit if isinstance(extent, int) and extent > 1 else fit | (extent <= 1))
        count = extent * count
    for fit in fits:
        fx.host_assert(fit | (count == 0), message)  # of nothing, NumPy and torch have steps of their own


class Extent(NamedTuple):
    """What a launch takes of an operand.

    Attributes:
        count: elements, of those from the first on.
        element: their class; None: as given.
        spaced: the launch is told where rows begin, so there may be gaps.
    """

    count: Any
    element: Any = None
    spaced: bool = False


def rows_extent(rows: Any, row: Any, used: int, element: Any, batch: int = 1, entry: Any = 0,
                told: bool = False) -> Extent:
    """That of a batch of matrices: from the beginning of the first to the end of the last row.

    Args:
        rows: of a matrix, `row` elements apart, of which `used` are taken.
        batch, entry: matrices, so many elements apart.
        told: the caller said how far matrices are apart.
    """
    rows = fx.Int64(rows)
    count = (rows - 1) * row + used + fx.Int64(entry) * (batch - 1)
    return Extent((rows > 0).select(count, fx.Int64(0)), element, told or row != used)


def strided_extent(count: Any, step: Any, element: Any, *modes: tuple[int, Any]) -> Extent:
    """That of `count` entries, `step` elements apart, each of `modes`: so many (one at least), so far apart."""
    count, last = fx.Int64(count), fx.Int64(step) * 0
    for size, apart in modes:
        last = last + fx.Int64(apart) * (size - 1)
    return Extent((count > 0).select((count - 1) * step + last + 1, fx.Int64(0)), element, spaced=True)


def require_operands(tensors: Mapping[str, Any], extents: Mapping[str, Extent]) -> None:
    """From a jit function: a call is refused whose operands of these names have gaps, hold less than is taken of them,
    or floats of another type.

    What is not given is not looked at, and of pointers only the type is.
    """
    require_dense({name: tensors.get(name) for name, extent in extents.items() if not extent.spaced})
    for name, extent in extents.items():
        require_held(tensors, (name,), *extent)


def require_held(tensors: Mapping[str, Any], names: Iterable[str], count: Any, element: Any = None,
                 spaced: bool = False) -> None:
    """From a jit function: a call is refused whose tensors of these names hold less than `count` elements of `element`,
    or of their own type if it is None, which also may be seen as others of their bytes; or floats of another type.

    Of pointers only the type is looked at, and what is not given is not. Gaps count if the tensors are `spaced`.
    """
    for name in names:
        tensor = tensors.get(name)
        if not isinstance(tensor, fx.Tensor | fx.Pointer):
            continue
        given = (fx.get_iter(tensor) if isinstance(tensor, fx.Tensor) else tensor).element_type
        if element is not None:
            require_element(given, element)
        held = _held(fx.get_layout(tensor), spaced) if isinstance(tensor, fx.Tensor) else None
        if held is not None:
            bits, each = (element.width, given.width) if element else (1, 1)
            fx.host_assert(fx.Int64(count) * bits <= held * each,
                           f"{name} holds fewer elements than the kernel was built and is called for")


def _held(layout: Any, spaced: bool) -> Any:
    """Elements of a layout, and of its gaps if it is `spaced`; None of a layout that its caller made."""
    if not all(layout.shape[dim].is_leaf and layout.stride[dim].is_leaf for dim in range(layout.rank)):
        return None
    extents = [_number(layout.shape[dim]) for dim in range(layout.rank)]
    held = math.prod(extents)
    if not spaced:
        return held
    reach: Any = 1  # the last element, and those before
    for dim, extent in enumerate(extents):
        reach = reach + (extent - 1) * _number(layout.stride[dim])
    return (fx.Int64(held) > 0).select(fx.Int64(reach), fx.Int64(0))
