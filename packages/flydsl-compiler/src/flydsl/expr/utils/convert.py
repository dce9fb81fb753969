"""Conversion between DSL values and the IR values behind them."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.locations import dsl_loc_tracing

from .. import _emit
from .._vector import Vector
from ..numeric import Numeric, as_numeric
from .arith import ArithValue


@dsl_loc_tracing
def as_ir_value(value: Any, *, keep_static: bool = False) -> Any:
    """The IR value (or list of values) of a DSL value.

    Literals and static Numerics become constants, or stay Python numbers with `keep_static`.
    Tuples and lists map element-wise; objects without an IR form are returned unchanged.
    """
    if value is None or isinstance(value, ir.Value):
        return value
    if isinstance(value, (bool, int, float)):
        return value if keep_static else as_numeric(value).ir_value()
    if isinstance(value, Numeric):
        return value.value if keep_static and value.is_static() else value.ir_value()
    if isinstance(value, (tuple, list)):
        return type(value)(as_ir_value(v, keep_static=keep_static) for v in value)
    if hasattr(value, "__extract_to_ir_values__"):
        values = value.__extract_to_ir_values__()
        return values[0] if len(values) == 1 else values
    return value.ir_value() if hasattr(value, "ir_value") else value


def as_dsl_value(value: Any, exemplar: Any = None) -> Any:
    """The DSL value of a raw value; `exemplar` is a class to convert to, or an instance to rebuild like."""
    if isinstance(value, (tuple, list)):
        if isinstance(exemplar, (tuple, list)):
            return type(value)(as_dsl_value(v, e) for v, e in zip(value, exemplar, strict=True))
        return type(value)(as_dsl_value(v, exemplar) for v in value)
    if isinstance(exemplar, type):
        return value if isinstance(value, exemplar) else exemplar(value)
    if exemplar is not None and hasattr(type(exemplar), "__construct_from_ir_values__"):
        values = value.__extract_to_ir_values__() if hasattr(value, "__extract_to_ir_values__") else [value]
        return type(exemplar).__construct_from_ir_values__(values, exemplar)
    return _untyped(value)


def _untyped(value: Any) -> Any:
    if isinstance(value, ir.Value) and type(value) in (ir.Value, ir.OpResult, ir.BlockArgument, ArithValue):
        if isinstance(value.type, ir.VectorType):
            return Vector(value)
        try:
            return as_numeric(ArithValue(value, getattr(value, "signed", None)))
        except ValueError as error:
            raise TypeError(f"no DSL type for an IR value of type {value.type}") from error
    if isinstance(value, (bool, int, float)):
        return as_numeric(value)
    if hasattr(value, "__extract_to_ir_values__"):
        return value
    raise TypeError(f"cannot make a DSL value from {type(value).__name__}")


def bit_width(dtype: Any) -> int:
    """Bits of an int bit count, Numeric class or MLIR type."""
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return dtype
    if isinstance(dtype, Numeric) and dtype.is_static():
        return int(dtype)
    ty = _emit.mlir_type(dtype)
    if isinstance(ty, ir.VectorType):
        count = 1
        for extent in ty.shape:
            count *= extent
        return count * _emit.bit_width(ty.element_type)
    if isinstance(ty, (ir.IntegerType, ir.FloatType)):
        return ty.width
    raise TypeError(f"the type {ty} has no bit width")
