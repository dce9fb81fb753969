"""Type promotion of the numeric tower: one definition for scalars, vectors and any mix of them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ._numeric_class import CLASSES

if TYPE_CHECKING:
    from ._operators import Operator

_FLOAT_RANK = {"Float64": 3, "Float32": 2, "Float16": 1, "BFloat16": 1}


@functools.cache
def common_type(a: Any, b: Any) -> Any:
    """The common class of two Numeric classes.

    Raises ValueError for two distinct floats narrower than 16 bits.
    """
    if a is b:
        return a
    if a.is_integer and b.is_integer:
        return _common_integer(a, b)
    if a.is_float and b.is_float:
        return _common_float(a, b)
    return _float_with_integer(a, b) if a.is_float else _float_with_integer(b, a)


def _common_integer(a: Any, b: Any) -> Any:
    if a.width == b.width and "Index" in (a.__name__, b.__name__):
        return a if a.__name__ == "Index" else b
    if a.signed == b.signed:
        return a if a.width >= b.width else b
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.width >= signed.width else signed


def _float_with_integer(flt: Any, integer: Any) -> Any:
    if flt.width >= integer.width:
        return flt
    return CLASSES["Float32"] if integer.width <= 32 else CLASSES["Float64"]


def _common_float(a: Any, b: Any) -> Any:
    if a.width != b.width and max(a.width, b.width) >= 16:
        return a if a.width > b.width else b
    rank_a, rank_b = _FLOAT_RANK.get(a.__name__, 0), _FLOAT_RANK.get(b.__name__, 0)
    if rank_a != rank_b:
        return a if rank_a > rank_b else b
    if rank_a == 1:
        return CLASSES["Float32"]
    if rank_a > 1:
        return a
    raise ValueError(f"no common float type for {a.__name__} and {b.__name__}; cast explicitly")


def widen_boolean(cls: Any) -> Any:
    """Boolean takes part in arithmetic as Int32."""
    return CLASSES["Int32"] if cls is CLASSES["Boolean"] else cls


def operand_and_result_types(op: Operator, a: Any, b: Any) -> tuple[Any, Any]:
    """The class both operands are converted to, and the class of the result."""
    if op.group in ("arith", "div"):
        a, b = widen_boolean(a), widen_boolean(b)
    common = common_type(a, b)
    if op.group == "compare":
        return common, CLASSES["Boolean"]
    if op.group in ("bits", "shift") and common.is_float:
        raise TypeError(f"{op.name} requires integer operands, got {common.__name__}")
    if op.group == "div" and not common.is_float:
        if common is CLASSES["Index"]:  # addresses are divided into addresses
            return common, common
        return common, CLASSES["Float32"] if common.width <= 32 else CLASSES["Float64"]
    return common, common
