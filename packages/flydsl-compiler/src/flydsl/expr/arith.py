"""Arithmetic functions; also re-exports the builders, op classes and enums of the MLIR `arith` dialect."""

from __future__ import annotations

import builtins as _builtins
import math as _pymath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from flydsl._mlir import ir
from flydsl._mlir.dialects.arith import *  # noqa: F403 - the documented re-export
from flydsl._mlir.dialects.arith import CmpFPredicate, CmpIPredicate, FastMathFlags, RoundingMode
from flydsl._mlir.dialects.arith import cmpf as _cmpf
from flydsl._mlir.dialects.arith import cmpi as _cmpi
from flydsl.tracing.ambient import tracing_context
from flydsl.tracing.lazy import arith as _arith
from flydsl.tracing.locations import dsl_loc_tracing

from . import _emit
from ._integer import ceil_divide, shift
from ._vector import Vector, _common_shape
from .numeric import Boolean, Index, Numeric, as_numeric, literal_numeric
from .promotion import common_type, widen_boolean
from .utils.arith import (  # noqa: F401 - some are only found here as well
    ArithValue,
    _to_raw,
    arith_const,
    constant,
    current_fastmath,
    raw_operand,
    raw_select,
    unwrap,
)

__all__ = [
    "FastMathFlags", "RoundingMode", "fastmath", "max", "min", "maxnumf", "maximumf", "minimumf", "ceildiv", "shrui",
    "cmpi", "cmpf", "index_cast", "constant_vector",
]

_Scalar = TypeVar("_Scalar", bound=Numeric)


@contextmanager
def fastmath(flags: Any) -> Iterator[None]:
    """Ambient fast-math flags for float ops built inside: enum, string, collection, or None to mask."""
    with tracing_context(fastmath=None if flags is None else _emit.fastmath_string(flags)):
        yield


def wrap_like(result: Any, operand: Any) -> Any:
    """`result` wrapped like `operand`: Numeric, shaped Vector, or raw."""
    if isinstance(operand, Vector):
        return operand._like(result, operand.dtype)
    if isinstance(operand, Numeric):
        return type(operand)._wrap(result)
    return result


# --------------------------------------------------------------------------- extrema


def _flatten(values: Any) -> list[Any]:
    out: list[Any] = []
    for v in values:
        out.extend(_flatten(v) if isinstance(v, (list, tuple)) else [v])
    return out


def _extremum_class(values: list[Any]) -> Any:
    cls = None
    for v in values:
        own = widen_boolean(v.dtype if isinstance(v, Vector) else type(v))
        if own is Index or own.is_float and own.width < 16:
            raise TypeError(f"max and min do not support {own}")
        cls = own if cls is None else common_type(cls, own)
    return cls


def _static_extremum(a: Any, b: Any, maximum: bool) -> Any:
    """NaN propagates, and -0 < +0."""
    if isinstance(a, float) and (_pymath.isnan(a) or _pymath.isnan(b)):
        return _pymath.nan
    if a == b and isinstance(a, float):
        negative = _pymath.copysign(1, a) < 0
        return (b if negative else a) if maximum else (a if negative else b)
    return (a if a > b else b) if maximum else (a if a < b else b)


@dsl_loc_tracing
def _extremum(values: Any, maximum: bool, flags: Any) -> Any:
    operands = [v if isinstance(v, Vector) else literal_numeric(v) for v in _flatten(values)]
    if not operands:
        raise ValueError("max and min need at least one operand")
    cls = _extremum_class(operands)
    vectors = [v for v in operands if isinstance(v, Vector)]
    if not vectors and all(v.is_static() for v in operands):
        result = cls(operands[0].value).value
        for v in operands[1:]:
            result = _static_extremum(result, cls(v.value).value, maximum)
        return cls(result)
    shape, order = _common_shape(*vectors)
    raw = [v.to(cls).ir_value() if shape is None else Vector._as_operand(v, cls, shape, order) for v in operands]
    result = raw[0]
    for value in raw[1:]:
        result = _emit_extremum(result, value, cls, maximum, flags)
    return cls._wrap(result) if shape is None else Vector(result, shape, cls, order=order)


def _emit_extremum(a: Any, b: Any, cls: Any, maximum: bool, flags: Any) -> Any:
    name = "max" if maximum else "min"
    if cls.is_float:
        return getattr(_arith, name + "imumf")(a, b, fastmath=_emit.fastmath_attr(flags))
    return getattr(_arith, name + ("si" if cls.signed else "ui"))(a, b)


def _reduce_extremum(v: Vector, maximum: bool, profile: Any, flags: Any) -> Any:
    name = "max" if maximum else "min"
    if not v.dtype.is_float:
        return v.reduce(name, None, profile)
    return v.reduce(name + "imumf", None, profile, fastmath=flags)


@overload
def max(x: _Scalar, y: _Scalar, /, *others: _Scalar, fastmath: Any = None) -> _Scalar: ...
@overload
def max(*xs: Any, profile: Any = None, fastmath: Any = None) -> Any: ...
def max(*xs: Any, profile: Any = None, fastmath: Any = None) -> Any:  # noqa: A001
    """Largest of the operands (nested lists are flattened) in their common type; NaN propagates.

    Of one Vector: its largest lane, or with a `profile` (see `Vector.reduce`) the largest along modes.
    """
    if len(xs) == 1 and isinstance(xs[0], Vector):
        return _reduce_extremum(xs[0], True, profile, fastmath)
    return _extremum(xs, True, fastmath)


@overload
def min(x: _Scalar, y: _Scalar, /, *others: _Scalar, fastmath: Any = None) -> _Scalar: ...
@overload
def min(*xs: Any, profile: Any = None, fastmath: Any = None) -> Any: ...
def min(*xs: Any, profile: Any = None, fastmath: Any = None) -> Any:  # noqa: A001
    """Smallest of the operands (nested lists are flattened) in their common type; NaN propagates.

    Of one Vector: its smallest lane, or with a `profile` (see `Vector.reduce`) the smallest along modes.
    """
    if len(xs) == 1 and isinstance(xs[0], Vector):
        return _reduce_extremum(xs[0], False, profile, fastmath)
    return _extremum(xs, False, fastmath)


def sum(x: Any, start: Any = None, *, profile: Any = None, fastmath: Any = None) -> Any:  # noqa: A001
    """Sum of the lanes of a Vector, or along the modes of a `profile` (see `Vector.reduce`), in its class.

    Of another iterable: the sum of its items, as Python's `sum` gives it.
    """
    if isinstance(x, Vector):
        return x.reduce("add", start, profile, fastmath=fastmath)
    if isinstance(x, (ir.Value, Numeric)):
        raise TypeError(f"sum takes a Vector or an iterable, got {_builtins.type(x).__name__}; load a tensor first: "
                        "fx.sum(t.load())")
    return _builtins.sum(x, 0 if start is None else start)


@overload
def where(condition: Numeric | bool, a: _Scalar, b: _Scalar) -> _Scalar: ...
@overload
def where(condition: Any, a: Any, b: Any) -> Any: ...
@dsl_loc_tracing
def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`, in their common type.

    Operands are Vectors (which broadcast), scalars and Python numbers; a non-Boolean condition is compared with 0.
    """
    if isinstance(condition, Vector):
        return condition.select(a, b)
    return as_numeric(condition).select(a, b)


@dsl_loc_tracing
def select_by_index(index: Any, values: Any) -> Any:
    """``values[index]`` for a dynamic index, as a chain of selects."""
    values = list(values)
    result = values[0]
    for i, value in enumerate(values[1:], 1):
        result = Boolean(as_numeric(index) == i).select(value, result)
    return result


def _pair(a: Any, b: Any) -> tuple[Any, Any]:
    """Raw values of two operands; a literal takes the other's type."""
    a, b = raw_operand(a), raw_operand(b)
    if not isinstance(a, ir.Value) and not isinstance(b, ir.Value):
        raise TypeError("at least one operand must be a dynamic value")
    if not isinstance(a, ir.Value):
        a = _emit.constant(b.type, a)
    if not isinstance(b, ir.Value):
        b = _emit.constant(a.type, b)
    if a.type != b.type:
        raise TypeError(f"operands must have one type, got {a.type} and {b.type}")
    return a, b


@dsl_loc_tracing
def _float_pair(name: str, a: Any, b: Any, flags: Any) -> Any:
    raw_a, raw_b = _pair(a, b)
    if not _emit.is_float_type(raw_a.type):
        raise TypeError(f"{name} is of floats, got {raw_a.type}")
    return wrap_like(getattr(_arith, name)(raw_a, raw_b, fastmath=_emit.fastmath_attr(flags)), a)


def maxnumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Larger of two floats; the other operand where one is NaN."""
    return _float_pair("maxnumf", a, b, fastmath)


def minnumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Smaller of two floats; the other operand where one is NaN."""
    return _float_pair("minnumf", a, b, fastmath)


def maximumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Larger of two floats; NaN propagates."""
    return _float_pair("maximumf", a, b, fastmath)


def minimumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Smaller of two floats; NaN propagates."""
    return _float_pair("minimumf", a, b, fastmath)


# --------------------------------------------------------------------------- integers


@dsl_loc_tracing
def ceildiv(a: Any, b: Any) -> Any:
    """Integer quotient rounded up, in the common type; TypeError for Boolean, Index and floats."""
    a, b = (x if isinstance(x, Vector) else as_numeric(x) for x in (a, b))
    classes: list[Any] = [x.dtype if isinstance(x, Vector) else type(x) for x in (a, b)]
    for cls in classes:
        if cls in (Boolean, Index) or not cls.is_integer:
            raise TypeError(f"ceildiv needs integers, got {cls}")
    cls = common_type(*classes)
    if isinstance(a, Vector) or isinstance(b, Vector):
        shape, order = _common_shape(a, b)
        x, y = (Vector._as_operand(v, cls, shape, order) for v in (a, b))
        return Vector(ceil_divide(x, y, bool(cls.signed)), shape, cls, order=order)
    if a.is_static() and b.is_static():
        return _static_ceildiv(a.to(cls).value, b.to(cls).value, cls)
    return cls._wrap(ceil_divide(a.to(cls).ir_value(), b.to(cls).ir_value(), bool(cls.signed)))


def _static_ceildiv(a: int, b: int, cls: Any) -> Any:
    quotient = -(-a // b)
    if cls.signed and quotient >= 1 << (cls.width - 1):
        raise OverflowError(f"ceildiv({a}, {b}) does not fit {cls}")
    return cls(quotient)


@dsl_loc_tracing
def shrui(value: Any, n: Any) -> Any:
    """Logical right shift; the class of `value` is kept.

    Raises:
        TypeError: `value` or `n` is no integer.
    """
    for given in (value, n):
        ty = getattr(given, "dtype", getattr(given, "type", type(given)))
        if ty is float or getattr(ty, "is_float", False) or isinstance(ty, ir.FloatType):
            raise TypeError(f"shrui needs integers, got {ty}")
    if isinstance(value, Vector):
        count = Vector._as_operand(n, value.dtype, value.shape)
        return value._like(shift("rshift", value, count, signed=False), value.dtype)
    if isinstance(value, ir.Value):
        return ArithValue(value, getattr(value, "signed", None)).shrui(n)
    x = as_numeric(value)
    cls = type(x)
    n = as_numeric(n)
    if x.is_static() and n.is_static():
        return cls(_emit.fold_to_width(x.value, cls.width, False) >> n.value)
    return cls._wrap(shift("rshift", x.ir_value(), n.to(cls).ir_value(), signed=False))


@dsl_loc_tracing
def cmpi(predicate: Any, a: Any, b: Any) -> Any:
    """Raw integer comparison with an `arith.CmpIPredicate`; the result is a raw i1."""
    return _cmpi(predicate, *_pair(a, b))


@dsl_loc_tracing
def cmpf(predicate: Any, a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Raw float comparison with an `arith.CmpFPredicate`; the result is a raw i1."""
    return _cmpf(predicate, *_pair(a, b), fastmath=_emit.fastmath_attr(fastmath))


# --------------------------------------------------------------------------- deprecated and raw helpers


@dsl_loc_tracing
def index_cast(ty: Any, value: Any) -> Any:
    """Deprecated: `fx.Index` or `fx.Int32`. `arith.index_cast`; literals become i32 first."""
    if not isinstance(ty, ir.Type):
        raise TypeError(f"index_cast takes an MLIR type first, got {type(ty).__name__}")
    raw = raw_operand(value)
    if not isinstance(raw, ir.Value):
        raw = constant(int(raw))
    if raw.type == ty:
        return raw
    if not _emit.is_index_type(raw.type) and not _emit.is_index_type(ty):
        return _emit.int_resize(raw, _emit.element_type(ty), True)
    return _arith.index_cast(ty, raw)


@dsl_loc_tracing
def constant_vector(scalar: Any, vector_type: ir.Type) -> Any:
    """Deprecated: `Vector.filled`. A constant splat."""
    return _emit.constant(vector_type, scalar)


def index(value: Any) -> Any:
    """Raw index constant."""
    return constant(value, index=True)


@dsl_loc_tracing
def select(condition: Any, a: Any, b: Any) -> Any:
    """Raw `arith.select`; a Python scalar takes the other branch's type."""
    return raw_select(_emit.to_i1(raw_operand(condition)), a, b)


@dsl_loc_tracing
def sitofp(ty: ir.Type, value: Any) -> Any:
    return _arith.sitofp(ty, unwrap(value))


@dsl_loc_tracing
def trunc_f(ty: ir.Type, value: Any) -> Any:
    return _arith.truncf(ty, unwrap(value), fastmath=_emit.fastmath_attr())


@dsl_loc_tracing
def int_to_fp(value: Any, signed: bool, ty: ir.Type) -> Any:
    return _emit.to_float(unwrap(value), ty, signed)


def _raw_integer_op(name: str) -> Any:
    @dsl_loc_tracing
    def function(a: Any, b: Any) -> Any:
        return getattr(_arith, name)(*_pair(a, b))

    function.__name__ = function.__qualname__ = name
    return function


andi = _raw_integer_op("andi")
xori = _raw_integer_op("xori")
shli = _raw_integer_op("shli")

_PREDICATES = (CmpIPredicate, CmpFPredicate)
