"""What is known of the memory behind a pointer or tensor: the Numeric class of its elements, and whose it is.

The IR is signless: ``i8`` memory holds Int8 or Uint8. Which of them is told where memory enters the trace (an
argument, a recast, an allocation) and noted for that value; a view, partition or fragment has the class of what it
was made from. Programs without unsigned memory note nothing.
"""

from __future__ import annotations

import functools
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.ambient import kernel_scope, trace_table

from .._vector_alias import VectorAlias
from ..numeric import Numeric
from .carried import carried_from, sources

_MEMORY = (fly.PointerType, fly.MemRefType)


def element_class(ty: ir.Type) -> Any:
    """Numeric class of an element type (integers are signed); for vector elements the Vector alias."""
    if isinstance(ty, ir.VectorType):
        return VectorAlias(Numeric.from_ir_type(ty.element_type), tuple(ty.shape)[0])
    return Numeric.from_ir_type(ty)


def note_element_class(value: Any, cls: Any) -> Any:
    """Remember that the integers behind `value` are of the class `cls`; returns `value`."""
    table = trace_table("element_classes")
    if table or getattr(cls, "signed", None) is False:
        # By hash, which is that of the SSA value: the value classes overload or share `==`.
        table[ir.Value.__hash__(value)] = cls
    return value


def element_class_of(value: Any) -> Any:
    """Numeric class of the elements behind a pointer or tensor."""
    element = value.type.element_type
    default = element_class(element)
    if not isinstance(element, ir.IntegerType):
        return default
    table = trace_table("element_classes")
    while table:
        found = table.get(ir.Value.__hash__(value))
        if found is not None:
            return found if found.width == default.width else default
        value = origin(value, element)
        if value is None:
            break
    return default


def origin(value: Any, element: ir.Type | None = None) -> Any:
    """The pointer or tensor (with these elements) that `value` was made from, if any."""
    place = carried_from(value)
    if place is not None:
        return next(iter(sources(*place)), None)
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    for operand in owner.operands:
        if isinstance(operand.type, _MEMORY) and (element is None or operand.type.element_type == element):
            return operand
    return None


def linear_layout(layout: Any) -> Any:
    """The plain layout type that a layout type is, or that its composed layouts end in."""
    while isinstance(layout, fly.ComposedLayoutType):
        layout = layout.outer
    return layout


def address_space_of(ty: Any) -> Any:
    """The generic `AddressSpace`, or a target attribute as it is."""
    space = ty.address_space
    if isinstance(space, int):
        return fly.AddressSpace(int(space))
    return _spaces().get(str(space), space)


@functools.cache
def _spaces() -> dict[str, Any]:
    """Address spaces by their spellings. Not made on import, which needs no dialect."""
    return {text: space for space in fly.AddressSpace for text in (f"#fly<address_space {space}>", str(space))}


def _may_be_argument(ty: Any) -> bool:
    """Whether memory of this type can be that of an argument: not registers, not LDS."""
    return address_space_of(ty) not in (fly.AddressSpace.Register, fly.AddressSpace.Shared)


def note_stored(target: Any) -> None:
    """Tell the launch of the kernel being traced that it stores through `target`.

    A store through a view of a tensor argument makes that argument one which must be writeable.
    """
    scope = kernel_scope()
    if scope is None or not isinstance(target.type, _MEMORY) or not _may_be_argument(target.type):
        return
    value = target
    while value is not None:
        last, value = value, origin(value)
    owner = last.owner
    if isinstance(owner, ir.Block) and owner.owner.operation.name == "gpu.func":
        scope.setdefault("stored_arguments", set()).add(ir.BlockArgument(last).arg_number)
