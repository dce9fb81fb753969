"""Where buffer tensors end: whether accesses of whole words reach every element.

The hardware compares a buffer access with the end of the resource word by word: of a word of 32 bits that the end
splits nothing is loaded or stored. Elements of 8 and 16 bits are copied in words only where none of them is split. That
follows from a layout that is known. Of an argument whose extents are known at the call, the call checks it, and
compiles for arguments with split words where it must (the hint ``partial_words``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.ambient import kernel_scope, trace_table
from flydsl.tracing.context import CompilationContext

from .. import _emit
from .element import linear_layout, origin

WORD = 32
_DIVISIBILITY = re.compile(r"div=(\d+)")
#: What is known of the end of a resource; the number of an argument: its call tells.
WHOLE, MAYBE, SPLIT = -1, -2, -3


def divisor(leaf: Any) -> int:
    """A number that divides an integer leaf type: the leaf itself where it is static (0 for zero)."""
    if leaf.is_static:
        return int(leaf.get_static_leaf_int)
    found = _DIVISIBILITY.search(str(leaf))
    return int(found.group(1)) if found else 1


def leaves(shape: Any, stride: Any) -> Iterator[tuple[Any, Any]]:
    """(extent, stride) of every leaf mode of the types of a layout."""
    if shape.is_leaf:
        yield shape, stride
        return
    for i in range(shape.rank):
        yield from leaves(shape.at(i), stride.at(i))


def _consists_of_words(layout: Any, elements: int) -> bool:
    """Whether rows and end of a layout are known to be multiples of that many elements, its unit stride apart."""
    layout = linear_layout(layout)
    for extent, stride in leaves(layout.shape, layout.stride):
        if extent.is_static and divisor(extent) == 1:
            continue
        unit = stride.is_static and divisor(stride) == 1
        if divisor(extent if unit else stride) % elements:
            return False
    return True


def _argument_number(tensor: Any) -> int | None:
    owner = tensor.owner
    is_argument = isinstance(owner, ir.Block) and owner.owner.operation.name == "gpu.func"
    return ir.BlockArgument(tensor).arg_number if is_argument else None


def stored_bits(tensor: Any) -> int:
    """Bits that an element takes in memory: a Boolean takes a byte."""
    bits = _emit.bit_width(tensor.type.element_type)
    return 8 if bits == 1 else bits


def note_end(pointer: Any, tensor: Any) -> None:
    """Remember how the resource of a buffer pointer ends, which was made for the whole of a tensor."""
    bits = stored_bits(tensor)
    if bits not in (8, 16):
        return
    if _consists_of_words(tensor.type.layout, WORD // bits):
        return
    number = _argument_number(tensor)
    end = SPLIT if tensor.type.layout.is_static else MAYBE if number is None else number
    trace_table("buffer_ends")[ir.Value.__hash__(pointer)] = end


def end_of(view: Any) -> int:
    """Whether the end of the resource below a view of a buffer tensor splits a word of elements: `WHOLE`, `MAYBE` or
    `SPLIT`.

    If the call can tell that it does not, it is told to.
    """
    table = trace_table("buffer_ends")
    value = view if table else None
    while value is not None:
        end = table.get(ir.Value.__hash__(value))
        if end is None:
            value = origin(value)
            continue
        if end < 0:
            return end
        if CompilationContext.get_compile_hints().get("partial_words"):
            return SPLIT
        (kernel_scope() or {}).setdefault("word_arguments", set()).add(end)
        return WHOLE
    return WHOLE
