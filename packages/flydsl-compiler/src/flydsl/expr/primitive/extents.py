"""Marks of stores beyond an extent of a tensor, for the check of that name in the simulator.

``Y[1, j] = v`` with a `j` past the row is a store to the next row: inside of the memory of `Y`, so its address tells
nothing. Where ``oob`` is checked, the store is preceded by a mark that runs in the lanes whose coordinate is no
coordinate of `Y`. Coordinates of a view are followed to the tensor argument that it was cut from, so that a tile
which hangs over the edge is found, too. Stores of vectors and copies have one mark for all their elements.
"""

from __future__ import annotations

import math
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.control import flow
from flydsl.tracing.lazy import arith, llvm

from .._lanes import numel
from ..numeric import Boolean, Int32, Int64
from ..values.int_tuple import IntTuple
from ..values.tensor import Tensor, address_space_of
from . import bounds
from .layouts import get_shape
from .memory import add_offset, memref_load, ptrtoint
from .tuples import get_leaves

#: ``s_trap`` number of the mark, which the simulator knows (``kExtentMark``): v0 has the coordinate along a mode, v1
#: the extent, v2 the mode, v[4:5] the address of the element or 0. It does nothing else.
_MARK = "s_trap 0xe0"
_REGISTERS = "{v0},{v1},{v2},{v[4:5]}"


def _argument(root: Tensor) -> Tensor | None:
    """The argument of the kernel whose elements `root` has at their coordinates: itself, or seen as a buffer."""
    owner = bounds.owner(root)
    if owner is not None and owner.name == "fly.make_view":
        layout = bounds.owner(owner.operands[1])
        owner = None
        if layout is not None and layout.name == "fly.get_layout":
            root = layout.operands[0]
            owner = bounds.owner(root)
    if owner is None and isinstance(root.type, fly.MemRefType) and isinstance(root.owner, ir.Block):
        if root.owner.owner.operation.name == "gpu.func":
            return Tensor(root)
    return None


def _entries(coordinate: Any) -> tuple[Any, ...]:
    """The position along each mode, linear where the mode is nested."""
    entries = coordinate.to_py_value()
    return entries if isinstance(entries, tuple) else (entries,)


def _outside(entry: Any, extent: IntTuple) -> tuple[Any, Any, Any]:
    """Whether a position is none of the mode's; position and extent as 32-bit values for the report."""
    limit = extent.to_py_value()
    wide = any(isinstance(x, Int64) for x in (entry, limit))
    kind = Int64 if wide else Int32
    position, limit = kind(entry).ir_value(), kind(limit).ir_value()
    # Unsigned: a negative position is beyond every extent.
    wrong = Boolean(arith.cmpi(arith.CmpIPredicate.uge, position, limit))
    return wrong, Int32(kind(entry)).ir_value(), Int32(kind(extent.to_py_value())).ir_value()


class _Argument:
    """The tensor argument below a view that is stored to, and what leads from it to the view.

    None where the extents of the argument are not those of what is stored to (LDS, registers, a pointer with a layout,
    a view out of a loop), or where it has one mode: there the address tells.
    """

    def __init__(self, tensor: Tensor, operations: list[Any], through_buffer: bool) -> None:
        self.tensor, self.through_buffer = tensor, through_buffer
        self.places = bounds.replay(operations, bounds.coordinates(tensor))
        self.extents = bounds.extents(tensor)
        self.layout = fly.get_layout(tensor)

    @classmethod
    def of(cls, view: Tensor) -> _Argument | None:
        if not isinstance(view.type, fly.MemRefType):
            return None  # coordinates of a tensor move, whose descriptor has the bounds
        try:
            root, operations = bounds.chain(view)
        except ValueError:
            return None  # out of a loop or branch
        argument = _argument(root)
        if argument is None or argument.rank < 2:
            return None
        return cls(argument, operations, argument.type != root.type)

    def wrong(self, at: IntTuple) -> _Wrong:
        """What is wrong with a coordinate: the first mode that it leaves."""
        outside = [_outside(entry, extent) for entry, extent in zip(_entries(at), self.extents, strict=True)]
        anywhere = outside[0][0]
        for condition, _, _ in outside[1:]:
            anywhere = anywhere | condition
        offset = fly.crd2idx(at, self.layout)
        if self.through_buffer:  # what lies behind the end of the resource is not stored
            place, end = Int64(offset.to_py_value()), Int64(1)
            for extent, stride in self._leaves():
                end = end + Int64(extent - 1) * Int64(stride)
            anywhere = anywhere & (place >= 0) & (place < end)
        _, position, extent = outside[-1]
        mode = Int32(len(outside) - 1).ir_value()
        for number, (condition, entry, limit) in reversed(list(enumerate(outside[:-1]))):
            chosen = condition.ir_value()
            position, extent = arith.select(chosen, entry, position), arith.select(chosen, limit, extent)
            mode = arith.select(chosen, Int32(number).ir_value(), mode)
        address = Int64(0)
        if str(address_space_of(self.tensor.type)) == str(fly.AddressSpace.Global):
            address = ptrtoint(add_offset(fly.get_iter(self.tensor), offset))
        return _Wrong(Boolean(anywhere), [position, extent, mode, address.ir_value()])

    def _leaves(self) -> list[tuple[Any, Any]]:
        return list(zip(get_leaves(self.layout.shape), get_leaves(self.layout.stride), strict=True))


class _Wrong:
    """Whether a store is beyond an extent, and what its mark says: position, extent, mode, address."""

    def __init__(self, condition: Boolean, report: list[Any]) -> None:
        self.condition, self.report = condition, report

    def otherwise(self, other: _Wrong) -> _Wrong:
        """This one where it is wrong, else the other."""
        chosen = self.condition.ir_value()
        report = [arith.select(chosen, a, b) for a, b in zip(self.report, other.report, strict=True)]
        return _Wrong(Boolean(self.condition | other.condition), report)

    def mark(self) -> None:
        """Mark the lanes where it is wrong."""
        flow.scf_if_dispatch(self.condition, lambda: llvm.inline_asm(
            None, self.report, _MARK, _REGISTERS, has_side_effects=True) and None)


def mark_store(view: Tensor, index: IntTuple) -> None:
    """Mark the lanes in which the element of `view` at `index` has coordinates beyond the extents of its argument."""
    argument = _Argument.of(view)
    if argument is not None:
        argument.wrong(memref_load(argument.places, index)).mark()


def mark_copy(view: Tensor, pred: Tensor | None = None, atom: Any = None) -> None:
    """Mark the lanes in which an element of `view`, all of which is stored to, is beyond the extents of its argument.

    Elements of an access that are inside or outside together are looked at once. Those behind a false entry of `pred`
    are not stored; it is one of a copy with `atom`.
    """
    argument = _Argument.of(view)
    if argument is None or not argument.places.type.layout.is_static_shape:
        return
    first = bounds.values_of(view)
    width = first & -first
    call = first if pred is None else bounds.values_of_call(atom, view)
    width = math.gcd(width, call)
    while width > 1 and not bounds.uniform(argument.places, argument.extents, width):
        width //= 2
    places = bounds.pieces(argument.places, width)
    if pred is not None:
        pred = bounds.each_piece(pred, view, call, width)
    found: _Wrong | None = None
    for i in range(numel(get_shape(places)[1].to_py_value())):
        wrong = argument.wrong(memref_load(places, (0, i)))
        if pred is not None:
            wrong.condition = Boolean(wrong.condition & memref_load(pred, (0, i)))
        found = wrong if found is None else found.otherwise(wrong)
    if found is not None:
        found.mark()
