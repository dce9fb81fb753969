"""Elementwise math functions: one wrapper per op of the MLIR `math` dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith
from flydsl.tracing.lazy import math as _math
from flydsl.tracing.locations import dsl_loc_tracing

from . import _emit
from ._vector import Vector
from .numeric import Boolean, Float32, Int32, Numeric, Uint8, Uint16, Uint32, Uint64, Uint128

__all__ = [
    "absf", "absi", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clampf", "copysign",
    "cos", "cosh", "ctlz", "ctpop", "cttz", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fma", "fpowi", "ipowi",
    "isfinite", "isinf", "isnan", "isnormal", "log", "log10", "log1p", "log2", "powf", "round", "roundeven", "rsqrt",
    "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "trunc",
]


def _raw(x: Any) -> Any:
    """IR value of an operand; Python floats are f32, ints i32."""
    if isinstance(x, ir.Value):
        return x
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


_Unary = Callable[..., Any]

absf: _Unary = _function("absf")
acos: _Unary = _function("acos")
acosh: _Unary = _function("acosh")
asin: _Unary = _function("asin")
asinh: _Unary = _function("asinh")
atan: _Unary = _function("atan")
atanh: _Unary = _function("atanh")
cbrt: _Unary = _function("cbrt")
ceil: _Unary = _function("ceil")
cos: _Unary = _function("cos")
cosh: _Unary = _function("cosh")
erf: _Unary = _function("erf")
erfc: _Unary = _function("erfc")
exp: _Unary = _function("exp")
exp2: _Unary = _function("exp2")
expm1: _Unary = _function("expm1")
floor: _Unary = _function("floor")
log: _Unary = _function("log")
log10: _Unary = _function("log10")
log1p: _Unary = _function("log1p")
log2: _Unary = _function("log2")
round: _Unary = _function("round")  # noqa: A001
roundeven: _Unary = _function("roundeven")
rsqrt: _Unary = _function("rsqrt")
sin: _Unary = _function("sin")
sincos: _Unary = _function("sincos")
sinh: _Unary = _function("sinh")
sqrt: _Unary = _function("sqrt")
tan: _Unary = _function("tan")
tanh: _Unary = _function("tanh")
trunc: _Unary = _function("trunc")
absi: _Unary = _function("absi", integer=True)
ctlz: _Unary = _function("ctlz", integer=True)
cttz: _Unary = _function("cttz", integer=True)
ctpop: _Unary = _function("ctpop", integer=True)
powf: _Unary = _function("powf", 2)
fpowi: _Unary = _function("fpowi", 2, exponent=True)
ipowi: _Unary = _function("ipowi", 2, integer=True)
atan2: _Unary = _function("atan2", 2)
copysign: _Unary = _function("copysign", 2)
fma: _Unary = _function("fma", 3)


@dsl_loc_tracing
def clampf(x: Any, lo: Any, hi: Any, *, fastmath: Any = None) -> Any:
    """``min(max(x, lo), hi)``, lane-wise on vectors; NaN propagates.

    Built from its two operations: the expansion of `math.clampf` in MLIR 22 takes the minimum with `lo`.
    """
    raw = [_raw(v) for v in (x, lo, hi)]
    _check("clampf", raw, integer=False, exponent=False)
    flags = _emit.fastmath_attr(fastmath)
    return _wrap(arith.minimumf(arith.maximumf(raw[0], raw[1], fastmath=flags), raw[2], fastmath=flags), x)


isnan: _Unary = _function("isnan", predicate=True)
isinf: _Unary = _function("isinf", predicate=True)
isfinite: _Unary = _function("isfinite", predicate=True)
isnormal: _Unary = _function("isnormal", predicate=True)
