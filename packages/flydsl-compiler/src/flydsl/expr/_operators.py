"""The binary operators of Python: the one table from an operator to its static value and to the ops it becomes.

`ArithValue` (no promotion), `Numeric` and `Vector` (with promotion) share it. The emitting functions take and
return plain values whose types already agree.
"""

from __future__ import annotations

import math as _pymath
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, math

from . import _emit
from ._integer import floor_divide, modulo, shift
from ._rounding import round_to


@dataclass(frozen=True)
class Operator:
    """One Python operator: how it folds statically and how it is emitted.

    `group` decides promotion: ``arith`` widens Boolean, ``div`` is true division, ``compare`` gives
    Boolean, ``bits`` and ``shift`` need integers, ``pow`` promotes without widening Boolean.
    """

    name: str
    group: str
    fold: Callable[[Any, Any], Any]
    signed_op: str = ""
    unsigned_op: str = ""
    float_op: str = ""
    predicate: str = ""


def _op(name: str, group: str, signed: str = "", unsigned: str = "", flt: str = "", predicate: str = "") -> Operator:
    fold = getattr(operator, name)
    return Operator(name, group, fold, signed, unsigned or signed, flt, predicate)


OPERATORS: dict[str, Operator] = {
    op.name: op
    for op in (
        _op("add", "arith", "addi", flt="addf"),
        _op("sub", "arith", "subi", flt="subf"),
        _op("mul", "arith", "muli", flt="mulf"),
        _op("truediv", "div", flt="divf"),
        _op("floordiv", "arith", flt="divf"),
        _op("mod", "arith", flt="remf"),
        _op("pow", "pow", "ipowi", flt="powf"),
        _op("and_", "bits", "andi"),
        _op("or_", "bits", "ori"),
        _op("xor", "bits", "xori"),
        _op("lshift", "shift"),
        _op("rshift", "shift"),
        _op("lt", "compare", predicate="lt", flt="OLT"),
        _op("le", "compare", predicate="le", flt="OLE"),
        _op("gt", "compare", predicate="gt", flt="OGT"),
        _op("ge", "compare", predicate="ge", flt="OGE"),
        _op("eq", "compare", predicate="eq", flt="OEQ"),
        _op("ne", "compare", predicate="ne", flt="UNE"),
    )
}
COMMUTATIVE = frozenset({"add", "mul"})


def emit_binary(op: Operator, a: ir.Value, b: ir.Value, signed: bool | None, fastmath: Any = None) -> ir.Value:
    """Emit `op` on two values of one type. `signed` None (unknown) acts as signed, except `>>`."""
    if _emit.is_float_type(a.type):
        return _emit_float(op, a, b, fastmath)
    use_signed = signed is not False and not (op.name == "rshift" and signed is None)
    if op.group == "compare":
        prefix = "" if op.predicate in ("eq", "ne") else ("s" if use_signed else "u")
        return arith.cmpi(getattr(arith.CmpIPredicate, prefix + op.predicate), a, b)
    if op.group == "div" and _emit.is_index_type(a.type):  # addresses are divided into addresses
        return floor_divide(a, b, use_signed)
    if op.group == "div":
        ty = ir.F64Type.get() if _emit.bit_width(a.type) > 32 else ir.F32Type.get()
        a, b = (_emit.to_float(x, ty, signed) for x in (a, b))
        return arith.divf(a, b, fastmath=_emit.fastmath_attr(fastmath))
    if op.group == "pow":
        return math.ipowi(a, b)
    if op.group == "shift":
        return shift(op.name, a, b, use_signed)
    if op.name in ("floordiv", "mod"):
        return (floor_divide if op.name == "floordiv" else modulo)(a, b, use_signed)
    return getattr(arith, op.signed_op if use_signed else op.unsigned_op)(a, b)


def _emit_float(op: Operator, a: ir.Value, b: ir.Value, fastmath: Any) -> ir.Value:
    if op.group in ("bits", "shift"):
        raise TypeError(f"{op.name} requires integer operands, got {_emit.element_type(a.type)}")
    fm = _emit.fastmath_attr(fastmath)
    if op.group == "compare":
        return arith.cmpf(getattr(arith.CmpFPredicate, op.float_op), a, b, fastmath=fm)
    if op.group == "pow":
        return math.powf(a, b, fastmath=fm)
    if op.name in ("floordiv", "mod"):
        return _float_divmod(op.name, a, b, fm)
    return getattr(arith, op.float_op)(a, b, fastmath=fm)


def _float_divmod(name: str, a: ir.Value, b: ir.Value, fm: Any) -> ir.Value:
    """Python's ``a // b`` or ``a % b``: the remainder is exact and has the sign of the divisor.

    The quotient comes from the remainder (a rounded ``a / b`` can reach the next integer), as in CPython and NumPy.
    """
    predicates = arith.CmpFPredicate
    zero = _emit.constant(a.type, 0.0)
    rest = arith.remf(a, b, fastmath=fm)
    inexact = arith.cmpf(predicates.UNE, rest, zero)
    differ = arith.xori(arith.cmpf(predicates.OLT, rest, zero), arith.cmpf(predicates.OLT, b, zero))
    below = arith.andi(inexact, differ)
    if name == "mod":
        moved = arith.select(below, arith.addf(rest, b, fastmath=fm), rest)
        return arith.select(inexact, moved, math.copysign(rest, b, fastmath=fm))
    plain = arith.divf(a, b, fastmath=fm)
    quotient = arith.divf(arith.subf(a, rest, fastmath=fm), b, fastmath=fm)
    quotient = arith.select(below, arith.subf(quotient, _emit.constant(a.type, 1.0), fastmath=fm), quotient)
    floor = math.floor(quotient, fastmath=fm)
    short = arith.cmpf(predicates.OGT, arith.subf(quotient, floor, fastmath=fm), _emit.constant(a.type, 0.5))
    floor = arith.select(short, arith.addf(floor, _emit.constant(a.type, 1.0), fastmath=fm), floor)
    # A zero has the sign of the true quotient, and so has the infinite quotient by zero.
    floor = arith.select(arith.cmpf(predicates.UNE, quotient, zero), floor, math.copysign(zero, plain, fastmath=fm))
    return arith.select(arith.cmpf(predicates.OEQ, b, zero), plain, floor)


# --------------------------------------------------------------------------- static values


def fold(op: Operator, a: Any, b: Any, operand: Any, result: Any) -> Any:
    """The static value of an operator on two numbers of the class `operand`, before `result` wraps or rounds it.

    It equals what `emit_binary` computes. ZeroDivisionError where the divisor is zero, ValueError for a negative
    shift count.
    """
    if op.group == "shift":
        if b >= result.width:
            return -1 if op.name == "rshift" and a < 0 else 0
    elif op.group == "div" and result.is_integer:  # of addresses
        return a // b
    elif op.group == "div":  # integers are converted before they are divided
        return op.fold(result(a).value, result(b).value)
    elif op.group == "pow":
        return _fold_power(a, b, result)
    elif op.name in ("floordiv", "mod") and operand.is_float:
        return _fold_float_divmod(op.name, a, b, result)
    return op.fold(a, b)


def _fold_power(a: Any, b: Any, result: Any) -> Any:
    if result.is_integer:
        if b >= 0:
            return pow(a, b, 1 << result.width)
        if a == 0:
            raise ZeroDivisionError("0 to a negative power")
        return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)
    try:
        return _pymath.pow(a, b)
    except OverflowError:
        return -_pymath.inf if a < 0 and b % 2 == 1 else _pymath.inf
    except ValueError:  # a negative base, or 0 to a negative power
        if a != 0:
            return _pymath.nan
        return _pymath.copysign(_pymath.inf, a) if b % 2 == 1 else _pymath.inf


def _fold_float_divmod(name: str, a: float, b: float, cls: Any) -> float:
    """`_float_divmod` on numbers: each step rounded to `cls`."""
    if b == 0:
        raise ZeroDivisionError("float floor division or modulo by zero")

    def rounded(x: float) -> float:
        return round_to(cls.__name__, x)

    rest = _pymath.nan if _pymath.isinf(a) else _pymath.fmod(a, b)
    below = rest != 0 and (rest < 0) != (b < 0)
    if name == "mod":
        return (rounded(rest + b) if below else rest) if rest != 0 else _pymath.copysign(rest, b)
    quotient = rounded(rounded(a - rest) / b)
    if below:
        quotient = rounded(quotient - 1.0)
    if quotient == 0:
        return _pymath.copysign(0.0, a / b)
    if not _pymath.isfinite(quotient):
        return quotient
    floor = _pymath.copysign(float(_pymath.floor(quotient)), quotient)
    return rounded(floor + 1.0) if rounded(quotient - floor) > 0.5 else floor
