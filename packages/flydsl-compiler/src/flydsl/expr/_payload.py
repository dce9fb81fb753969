"""Payload conversion of the numeric constructors: what ``C(x)`` stores for every kind of `x`."""

from __future__ import annotations

import math
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith
from flydsl.tracing.numbers import number_of, numpy_scalar

from . import _emit
from ._functions import functions
from ._numeric_class import is_numeric
from ._rounding import round_to


def is_single_lane(x: Any) -> bool:
    """Whether `x` is a vector value of one lane, which stands for a scalar."""
    return isinstance(x, ir.Value) and isinstance(x.type, ir.VectorType) and list(x.type.shape) == [1]


def integer_payload(cls: Any, x: Any) -> Any:
    if type(x) is cls:
        return x.value
    if hasattr(x, "__dsl_number__"):
        x = x.__dsl_number__()
    if is_numeric(x) and x.is_static():
        x = x.value
    x = numpy_scalar(x)
    if isinstance(x, (bool, int)):
        return _emit.fold_to_width(int(x), cls.width, bool(cls.signed))
    if isinstance(x, float):
        if math.isnan(x):
            raise ValueError(f"cannot convert float NaN to {cls.__name__}")
        nearest = _emit.saturated(math.trunc(x), cls.width, bool(cls.signed))  # inf: OverflowError
        return _emit.fold_to_width(nearest, cls.width, bool(cls.signed))
    if is_numeric(x) and type(x).is_integer:
        return _emit.int_resize(x.value, cls.ir_type, type(x).signed)
    if is_numeric(x) and type(x).is_float:
        return _emit.float_to_int(x.value, cls.ir_type, bool(cls.signed))
    if is_single_lane(x):
        return integer_payload(cls, functions.as_vector(x)[0])
    if isinstance(x, ir.Value) and not isinstance(x.type, ir.VectorType):
        if _emit.is_float_type(x.type):
            return _emit.float_to_int(x, cls.ir_type, bool(cls.signed))
        if _emit.is_integer_type(x.type) or _emit.is_index_type(x.type):
            return _emit.int_resize(x, cls.ir_type, bool(cls.signed))
    raise ValueError(f"{type(x).__name__} to integer conversion is not supported ({cls.__name__}({x!r}))")


def float_payload(cls: Any, x: Any) -> Any:
    if type(x) is cls:
        return x.value
    if is_numeric(x) and x.is_static():
        x = x.value
    x = number_of(x)
    if isinstance(x, (bool, int, float)):
        return round_to(cls.__name__, x)
    if is_numeric(x) and type(x).is_integer:
        return _emit.to_float(x.value, cls.ir_type, type(x).signed)
    if is_single_lane(x):
        return float_payload(cls, functions.as_vector(x)[0])
    value = x.value if is_numeric(x) and type(x).is_float else x
    if isinstance(value, ir.Value) and isinstance(value.type, ir.FloatType):
        return _emit.float_to_float(value, cls.ir_type)
    if isinstance(value, ir.Value):
        raise ValueError(
            f"cannot convert a raw {value.type} value to {cls.__name__}: wrap it in a typed integer first, "
            "for example fx.Int32(v)"
        )
    raise ValueError(f"{type(x).__name__} to float conversion is not supported ({cls.__name__}({x!r}))")


def check_rounding_mode(source: Any, target: Any, mode: Any) -> None:
    """TypeError unless `mode` is a RoundingMode and both classes are floats."""
    if not isinstance(mode, arith.RoundingMode):
        raise TypeError(f"rounding_mode must be an fx.RoundingMode, got {type(mode).__name__}")
    if not (source.is_float and target.is_float):
        raise TypeError("rounding_mode applies to conversions between float types only")
