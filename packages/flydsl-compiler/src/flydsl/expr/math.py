"""Elementwise math functions: one wrapper per op of the MLIR `math` dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith
from flydsl.tracing.lazy import math as _math
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import numpy_scalar

from . import _emit
from ._vector import Vector
from .numeric import Boolean, Float32, Int32, Numeric, Uint8, Uint16, Uint32, Uint64, Uint128

__all__ = [
    "absf", "absi", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clampf", "copysign",
    "cos", "cosh", "ctlz", "ctpop", "cttz", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fma", "fpowi", "ipowi",
    "isfinite", "isinf", "isnan", "isnormal", "log", "log10", "log1p", "log2", "powf", "round", "roundeven", "rsqrt",
    "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "trunc",
]


_Operand = TypeVar("_Operand", bound="Numeric | Vector")


class _Alike(Protocol):
    """A function whose result is as its first operand."""

    @overload
    def __call__(self, x: _Operand, *others: Any, fastmath: Any = None) -> _Operand: ...
    @overload
    def __call__(self, *operands: Any, fastmath: Any = None, **options: Any) -> Any: ...


class _Predicate(Protocol):
    """A function from a scalar to its truth, from a vector to those of its lanes."""

    @overload
    def __call__(self, x: Vector, *, fastmath: Any = None) -> Vector: ...
    @overload
    def __call__(self, x: Numeric | float, *, fastmath: Any = None) -> Boolean: ...
    @overload
    def __call__(self, x: Any, *, fastmath: Any = None) -> Any: ...


def _raw(x: Any) -> Any:
    """IR value of an operand; Python floats are f32, ints i32."""
    if isinstance(x, ir.Value):
        return x
    x = numpy_scalar(x)
    if isinstance(x, float):
        return Float32(x).ir_value()
    if isinstance(x, int):
        return Int32(x).ir_value()
    if isinstance(x, Numeric):
        return x.ir_value()
    raise TypeError(f"a numeric operand expected, got {type(x).__name__}")


_UNSIGNED = (Uint8, Uint16, Uint32, Uint64, Uint128)
_COUNTS = ("ctlz", "ctpop", "cttz")  # counts of bits: signed, whatever the operand


def _wrap(result: Any, operand: Any, count: bool = False) -> Any:
    if isinstance(operand, Vector):
        return operand._like(result, Numeric.from_ir_type(operand.dtype.ir_type) if count else operand.dtype)
    if isinstance(operand, Numeric) and not count:
        return type(operand)._wrap(result)
    if isinstance(operand, (Numeric, int, float)):
        return Numeric.from_python_value(result)
    return result


def _check(name: str, raw: list[ir.Value], integer: bool, exponent: bool) -> None:
    for position, value in enumerate(raw):
        element = _emit.element_type(value.type)
        if not isinstance(element, ir.IntegerType | ir.IndexType | ir.FloatType):
            raise TypeError(f"{name} is of numbers and vectors of numbers, got {value.type}")
        wants_integer = integer or exponent and position == 1
        if _emit.is_float_type(value.type) == wants_integer:
            kind = "an integer" if wants_integer else "a float"
            raise TypeError(f"{name} needs {kind} operand, got {value.type}")
    if not exponent and any(value.type != raw[0].type for value in raw):
        types = ", ".join(str(value.type) for value in raw)
        raise TypeError(f"{name}: operands must have one type, got {types}; convert them with .to()")


def _function(name: str, arity: int = 1, integer: bool = False, exponent: bool = False, predicate: bool = False) -> Any:
    @dsl_loc_tracing
    def function(*args: Any, fastmath: Any = None, **kwargs: Any) -> Any:
        if len(args) != arity:
            raise TypeError(f"{name} takes {arity} operands, got {len(args)}")
        if name == "absi" and getattr(args[0], "dtype", None) in _UNSIGNED:
            return args[0]
        raw = [_raw(x) for x in args]
        _check(name, raw, integer, exponent)
        if not integer:
            kwargs["fastmath"] = _emit.fastmath_attr(fastmath)
        result = getattr(_math, name)(*raw, **kwargs)
        if predicate:
            x = args[0]
            return x._like(result, Boolean) if isinstance(x, Vector) else Boolean(result)
        if name == "sincos":
            return tuple(_wrap(r, args[0]) for r in result)
        return _wrap(result, args[0], name in _COUNTS)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`math.{name}` of {'one operand' if arity == 1 else f'{arity} operands'}, lane-wise on vectors."
    return function


# Results have the class of the first operand.
absf: _Alike = _function("absf")
acos: _Alike = _function("acos")
acosh: _Alike = _function("acosh")
asin: _Alike = _function("asin")
asinh: _Alike = _function("asinh")
atan: _Alike = _function("atan")
atanh: _Alike = _function("atanh")
cbrt: _Alike = _function("cbrt")
ceil: _Alike = _function("ceil")
cos: _Alike = _function("cos")
cosh: _Alike = _function("cosh")
erf: _Alike = _function("erf")
erfc: _Alike = _function("erfc")
exp: _Alike = _function("exp")
exp2: _Alike = _function("exp2")
expm1: _Alike = _function("expm1")
floor: _Alike = _function("floor")
log: _Alike = _function("log")
log10: _Alike = _function("log10")
log1p: _Alike = _function("log1p")
log2: _Alike = _function("log2")
round: _Alike = _function("round")  # noqa: A001
roundeven: _Alike = _function("roundeven")
rsqrt: _Alike = _function("rsqrt")
sin: _Alike = _function("sin")
sincos: Callable[..., Any] = _function("sincos")
sinh: _Alike = _function("sinh")
sqrt: _Alike = _function("sqrt")
tan: _Alike = _function("tan")
tanh: _Alike = _function("tanh")
trunc: _Alike = _function("trunc")
absi: _Alike = _function("absi", integer=True)
ctlz: Callable[..., Any] = _function("ctlz", integer=True)
cttz: Callable[..., Any] = _function("cttz", integer=True)
ctpop: Callable[..., Any] = _function("ctpop", integer=True)
powf: _Alike = _function("powf", 2)
fpowi: _Alike = _function("fpowi", 2, exponent=True)
ipowi: _Alike = _function("ipowi", 2, integer=True)
atan2: _Alike = _function("atan2", 2)
copysign: _Alike = _function("copysign", 2)
fma: _Alike = _function("fma", 3)


@overload
def clampf(x: _Operand, lo: Any, hi: Any, *, fastmath: Any = None) -> _Operand: ...
@overload
def clampf(x: Any, lo: Any, hi: Any, *, fastmath: Any = None) -> Any: ...
@dsl_loc_tracing
def clampf(x: Any, lo: Any, hi: Any, *, fastmath: Any = None) -> Any:
    """``min(max(x, lo), hi)``, lane-wise on vectors; NaN propagates.

    Built from its two operations: the expansion of `math.clampf` in MLIR 22 takes the minimum with `lo`.
    """
    raw = [_raw(v) for v in (x, lo, hi)]
    _check("clampf", raw, integer=False, exponent=False)
    flags = _emit.fastmath_attr(fastmath)
    return _wrap(arith.minimumf(arith.maximumf(raw[0], raw[1], fastmath=flags), raw[2], fastmath=flags), x)


isnan: _Predicate = _function("isnan", predicate=True)
isinf: _Predicate = _function("isinf", predicate=True)
isfinite: _Predicate = _function("isfinite", predicate=True)
isnormal: _Predicate = _function("isnormal", predicate=True)
