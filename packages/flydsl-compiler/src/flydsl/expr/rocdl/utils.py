"""Operand conversion of the backend namespace."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir

from .._emit import constant, create
from ..numeric import Integer, Numeric

__all__ = ["call_intrinsic", "emit", "i32_type", "operand", "static_int"]


def i32_type() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def operand(value: Any, ty: ir.Type | None = None) -> ir.Value:
    """IR value of an operand: values, DSL scalars, ints (i32 unless `ty`) and floats (f32 unless `ty`).

    TypeError for anything else, and for a float where `ty` is an integer type.
    """
    if isinstance(value, ir.Value):
        return value
    if isinstance(value, Numeric) and not (value.is_static() and ty is not None):
        return value.ir_value()
    if isinstance(value, Numeric):
        value = value.value
    if isinstance(value, (bool, int)):
        return constant(ty if ty is not None else i32_type(), int(value))
    if isinstance(value, float):
        if ty is not None and not isinstance(ty, ir.FloatType):
            raise TypeError(f"an integer is expected, got {value!r}")
        return constant(ty if ty is not None else ir.F32Type.get(), value)
    raise TypeError(f"a value, DSL scalar, int or float expected, got {type(value).__name__}")


def static_int(value: Any, what: str, low: int | None = None, high: int | None = None) -> int:
    """A compile-time integer: int, static DSL integer or IntegerAttr.

    TypeError for run-time values, ValueError beyond the bounds: immediates lose the bits that do not fit.
    """
    if isinstance(value, ir.IntegerAttr):
        number = value.value
    elif isinstance(value, Integer) and value.is_static():
        number = int(value.value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise TypeError(f"{what} must be a static Python int or Integer, got {type(value).__name__}")
    if low is not None and high is not None and not low <= number <= high:
        raise ValueError(f"{what} must be in [{low}, {high}], got {number}")
    return number


def call_intrinsic(name: str, operands: list[Any], result: ir.Type | None = None) -> Any:
    """`llvm.call_intrinsic` of an AMDGPU intrinsic."""
    arguments = [operand(o) for o in operands]
    counts = {"op_bundle_sizes": [], "operandSegmentSizes": [len(arguments), 0]}
    attributes = {key: ir.DenseI32ArrayAttr.get(value) for key, value in counts.items()}
    return create("llvm.call_intrinsic", arguments, {"intrin": ir.StringAttr.get(name), **attributes}, result)


def emit(name: str, operands: Any = (), attributes: dict[str, ir.Attribute] | None = None,
         result: ir.Type | None = None) -> Any:
    """Build ``rocdl.<name>``."""
    return create(f"rocdl.{name}", operands, attributes, result)
