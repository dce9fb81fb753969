"""Coordinates against the extents of a tensor, and views against their memory, as far as both are known."""

from __future__ import annotations

import math
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.numbers import numpy_scalar

from .. import _emit
from ..numeric import Numeric
from .element import address_space_of, linear_layout
from .ends import divisor, leaves


def _known(entry: Any) -> int | None:
    entry = numpy_scalar(entry)
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
    coordinate = numpy_scalar(coordinate)
    if tensor.is_coord_tensor or not isinstance(coordinate, (int, tuple, list, Numeric)):
        return
    if isinstance(coordinate, Numeric) and not coordinate.is_static():
        return
    shape = linear_layout(tensor.type.layout).shape
    extents = _extents(shape)
    if isinstance(coordinate, (tuple, list)) and len(coordinate) == 1 and not isinstance(extents, tuple):
        coordinate = coordinate[0]
    _check(coordinate, extents, coordinate, tensor)


# --------------------------------------------------------------------------- views of what was allocated


def _owner(value: Any) -> Any:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _reach(layout: Any) -> int | None:
    """Elements from the first to the last one of a layout type; for a swizzled one at least their number.

    None where only the run time knows it, and where an inner layout decides on it.
    """
    swizzled = isinstance(layout, fly.ComposedLayoutType)
    while isinstance(layout, fly.ComposedLayoutType):
        if not isinstance(layout.inner, fly.SwizzleType):
            return None
        layout = layout.outer
    if not layout.is_static:
        return None
    modes = [(divisor(extent), divisor(stride)) for extent, stride in leaves(layout.shape, layout.stride)]
    reach = 1 + sum((extent - 1) * stride for extent, stride in modes)
    return min(reach, math.prod(extent for extent, stride in modes if stride)) if swizzled else reach


def _allocated(pointer: Any) -> tuple[int, int] | None:
    """Bits of the allocation that a pointer leads back to, and those before the pointer; None if not known."""
    value, before = pointer, 0
    while (op := _owner(value)) is not None:
        if op.name == "fly.get_iter":
            maker = _owner(op.operands[0])
            if maker is None or maker.name != "fly.make_view":
                bits = _fragment_bits(op.operands[0], maker)
                return None if bits is None else (bits, before)
            op = maker
        elif op.name == "fly.add_offset":
            offset = op.operands[1].type
            if not offset.is_leaf_int or not offset.is_static:
                return None
            before += int(offset.get_static_leaf_int) * _emit.bit_width(value.type.element_type)
        elif op.name == "fly.make_ptr" and "dictAttrs" in op.attributes:
            parameters = op.attributes["dictAttrs"]
            return (ir.IntegerAttr(parameters["allocBytes"]).value * 8, before) if "allocBytes" in parameters else None
        elif op.name != "fly.recast_iter":
            return None
        value = op.operands[0]
    return None


def _fragment_bits(memory: Any, maker: Any) -> int | None:
    """Bits of a tensor that an operation allocates; None for any other."""
    if maker is None or maker.name not in ("fly.memref.alloca", "fly.make_fragment_like", "fly.mma.make_fragment"):
        return None
    elements = _reach(memory.type.layout)
    return None if elements is None else elements * _emit.bit_width(memory.type.element_type)


def check_view(pointer: Any, layout: Any) -> None:
    """ValueError for a view of registers or LDS that reaches beyond what was allocated."""
    if address_space_of(pointer.type) not in (fly.AddressSpace.Register, fly.AddressSpace.Shared):
        return
    found, elements = _allocated(pointer), _reach(layout.type)
    if found is None or elements is None:
        return
    width = _emit.bit_width(pointer.type.element_type)
    (size, before), bits = found, elements * width
    if before < 0 or before + bits > size:
        start = f" from byte {before // 8} on" if before else ""
        raise ValueError(f"a view of {elements} elements of {width} bits{start} reaches beyond the {size // 8} bytes "
                         f"that were allocated (the layout is {layout}): allocate more, or take a smaller layout")
