"""Coordinates against the extents of a tensor, as far as both are known while tracing."""

from __future__ import annotations

import math
from typing import Any

from flydsl._mlir.dialects import fly

from ..numeric import Numeric


def _known(entry: Any) -> int | None:
    if isinstance(entry, bool):
        return int(entry)
    if isinstance(entry, int):
        return entry
    return int(entry.value) if isinstance(entry, Numeric) and entry.is_static() else None


def _extents(shape: Any) -> Any:
    """The extents of an `IntTupleType`, nested as it is; None for one that is known at run time only."""
    if not shape.is_leaf:
        return tuple(_extents(shape.at(i)) for i in range(shape.rank))
    return shape.get_static_leaf_int if shape.is_leaf_int and shape.is_static else None


def _size(extents: Any) -> int | None:
    if isinstance(extents, tuple):
        sizes = [_size(e) for e in extents]
        return None if None in sizes else math.prod(sizes)  # type: ignore[arg-type]
    return extents


def _check(entry: Any, extents: Any, coordinate: Any, tensor: Any) -> None:
    if isinstance(entry, (tuple, list)):
        if isinstance(extents, tuple) and len(extents) == len(entry):
            for inner, extent in zip(entry, extents, strict=True):
                _check(inner, extent, coordinate, tensor)
        return  # another profile is another error
    index = _known(entry)
    if index is None:
        return
    size = _size(extents)
    if index < 0 or size is not None and index >= size:
        where = f"the extent is {size}" if size is not None else "indices are not negative"
        raise IndexError(f"index {index} in {coordinate!r} is out of range for {tensor}: {where}")


def check_coordinate(tensor: Any, coordinate: Any) -> None:
    """IndexError for a known index outside of a known extent of a tensor in memory or registers."""
    if tensor.is_coord_tensor or not isinstance(coordinate, (int, tuple, list, Numeric)):
        return
    if isinstance(coordinate, Numeric) and not coordinate.is_static():
        return
    layout = tensor.type.layout
    while isinstance(layout, fly.ComposedLayoutType):
        layout = layout.outer
    shape = layout.shape
    extents = _extents(shape)
    if isinstance(coordinate, (tuple, list)) and len(coordinate) == 1 and not isinstance(extents, tuple):
        coordinate = coordinate[0]
    _check(coordinate, extents, coordinate, tensor)
