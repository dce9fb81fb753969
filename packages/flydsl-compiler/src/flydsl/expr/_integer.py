"""Integer division, remainder and shifts, which are total: every operand has the answer that Python has.

The quotient is rounded down and the remainder has the sign of the divisor, so that ``a == a // b * b + a % b``.
The one quotient that does not fit (the smallest number by -1) wraps. A shift by the width or more, of which the
back end's result is undefined, leaves 0, or -1 for a negative number shifted right. Known operands fold: a
divisor that is a power of two, a divisor of known sign, a count below the width.
"""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith

from . import _emit


def known_int(v: ir.Value) -> int | None:
    """The signed value of an integer constant or of a splat of one; None for any other value."""
    owner = v.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant" or _emit.bit_width(v.type) > 64:
        return None
    attr: Any = owner.attributes["value"]
    if isinstance(attr, ir.DenseElementsAttr):
        if not attr.is_splat:
            return None
        attr = attr.get_splat_value()
    return _emit.fold_to_width(int(attr.value), _emit.bit_width(v.type), True)


def _compare(predicate: str, a: ir.Value, b: Any) -> ir.Value:
    if not isinstance(b, ir.Value):
        b = _emit.constant(a.type, b)
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), a, b)


def _check_divisor(b: ir.Value) -> int | None:
    known = known_int(b)
    if known == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return known


def _without_minus_one(b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where `b` is -1, and `b` with 1 in its place: the smallest number by -1 is undefined for the back end."""
    minus_one = _compare("eq", b, -1)
    return minus_one, arith.select(minus_one, _emit.constant(b.type, 1), b)


def _quotient(op: str, a: ir.Value, b: ir.Value) -> ir.Value:
    known = _check_divisor(b)
    if known == -1:
        return arith.subi(_emit.constant(a.type, 0), a)
    if known is not None:
        return getattr(arith, op)(a, b)
    minus_one, divisor = _without_minus_one(b)
    return arith.select(minus_one, arith.subi(_emit.constant(a.type, 0), a), getattr(arith, op)(a, divisor))


def floor_divide(a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The quotient rounded down. ZeroDivisionError for a divisor that is known to be zero."""
    if signed:
        return _quotient("floordivsi", a, b)
    _check_divisor(b)
    return arith.divui(a, b)


def ceil_divide(a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The quotient rounded up. ZeroDivisionError for a divisor that is known to be zero."""
    if signed:
        return _quotient("ceildivsi", a, b)
    _check_divisor(b)
    return arith.ceildivui(a, b)


def modulo(a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The remainder that `floor_divide` leaves. ZeroDivisionError for a divisor that is known to be zero."""
    known = _check_divisor(b)
    if not signed:
        return arith.remui(a, b)
    if known is not None and known > 0 and known & (known - 1) == 0:
        return arith.andi(a, _emit.constant(a.type, known - 1))
    if known is not None:
        if known == -1:
            return _emit.constant(a.type, 0)
        rest = arith.remsi(a, b)
        wrong = _compare("slt" if known > 0 else "sgt", rest, 0)
    else:
        rest = arith.remsi(a, _without_minus_one(b)[1])
        differ = _compare("slt", arith.xori(rest, b), 0)
        wrong = arith.andi(_compare("ne", rest, 0), differ)
    return arith.select(wrong, arith.addi(rest, b), rest)


def shift(name: str, a: ir.Value, count: ir.Value, signed: bool) -> ir.Value:
    """``a << count`` or ``a >> count`` (`name` is lshift or rshift), arithmetic to the right where `signed`.

    A count outside of 0 .. width - 1 (negative ones count as large) shifts everything out.
    """
    width = _emit.bit_width(a.type)
    known = known_int(count)
    inside = known is not None and 0 <= known < width
    if name == "rshift" and signed:
        if not inside:
            last = _emit.constant(count.type, width - 1)
            count = last if known is not None else arith.minui(count, last)
        return arith.shrsi(a, count)
    op = arith.shli if name == "lshift" else arith.shrui
    if inside:
        return op(a, count)
    zero = _emit.constant(a.type, 0)
    if known is not None:
        return zero
    return arith.select(_compare("ult", count, width), op(a, count), zero)
