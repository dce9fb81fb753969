"""Integer division, remainder and shifts, which are total: every operand has the answer that Python has.

The quotient is rounded down and the remainder has the sign of the divisor, so that ``a == a // b * b + a % b``.
The one quotient that does not fit (the smallest number by -1) wraps. By zero, where Python has no answer, a kernel
gets some number: the quotient may be discarded afterwards (``(b != 0).select(a // b, 0)``). A shift by the width
or more, of which the back end's result is undefined, leaves 0, or -1 for a negative number shifted right. Known
operands fold: a divisor that is a power of two, a divisor of known sign, a count below the width.
"""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.context import current_kernel
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


def _defined_divisor(b: ir.Value, signed: bool) -> ir.Value:
    """`b`, with 1 in place of the divisors that the back end takes for impossible.

    These are -1 (the smallest number by it) and 0. Of a division by 0 the back end would conclude that `b` never is
    0 and fold the program's own tests of `b`. The host code of a launch keeps the 0 and reports it.
    """
    one = _emit.constant(b.type, 1)
    in_kernel = current_kernel() is not None
    if not signed:
        return arith.maxui(b, one) if in_kernel else b
    excluded = _compare("ule", arith.addi(b, one), 1) if in_kernel else _compare("eq", b, -1)
    return arith.select(excluded, one, b)


def _quotient(op: str, a: ir.Value, b: ir.Value) -> ir.Value:
    known = _check_divisor(b)
    if known == -1:
        return arith.subi(_emit.constant(a.type, 0), a)
    if known is not None:
        return getattr(arith, op)(a, b)
    quotient = getattr(arith, op)(a, _defined_divisor(b, True))
    return arith.select(_compare("eq", b, -1), arith.subi(_emit.constant(a.type, 0), a), quotient)


def _unsigned(op: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return getattr(arith, op)(a, b if _check_divisor(b) is not None else _defined_divisor(b, False))


def floor_divide(a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The quotient rounded down. ZeroDivisionError for a divisor that is known to be zero."""
    return _quotient("floordivsi", a, b) if signed else _unsigned("divui", a, b)


def ceil_divide(a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The quotient rounded up. ZeroDivisionError for a divisor that is known to be zero."""
    return _quotient("ceildivsi", a, b) if signed else _unsigned("ceildivui", a, b)


def modulo(a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The remainder that `floor_divide` leaves. ZeroDivisionError for a divisor that is known to be zero."""
    if not signed:
        return _unsigned("remui", a, b)
    known = _check_divisor(b)
    if known is not None and known > 0 and known & (known - 1) == 0:
        return arith.andi(a, _emit.constant(a.type, known - 1))
    if known is not None:
        if known == -1:
            return _emit.constant(a.type, 0)
        rest = arith.remsi(a, b)
        wrong = _compare("slt" if known > 0 else "sgt", rest, 0)
    else:
        rest = arith.remsi(a, _defined_divisor(b, True))
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
