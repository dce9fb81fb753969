"""Compile-time utilities and printing."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly

from .._emit import UNSET
from .._lazy import protocol
from .._vector import Vector
from ..meta import dsl_loc_tracing
from ..numeric import Int32, Int64, Numeric, NumericMeta
from ..values.base import FlyValue


def const_expr(x: Any) -> Any:
    """`x` itself: marks a condition as compile-time for the AST rewriter."""
    return x


def range_constexpr(*args: Any) -> range:
    """Python's `range`: a loop over it is unrolled while tracing."""
    return range(*(int(a) if isinstance(a, Numeric) else a for a in args))


def rank(x: Any) -> int:
    """Number of top-level modes; an int has rank 1."""
    if isinstance(x, (int, Numeric)):
        return 1
    if isinstance(x, tuple):
        return len(x)
    if isinstance(x, ir.Value):
        return fly.rank(x) if isinstance(x, FlyValue) else 1
    raise TypeError(f"rank expects an int, tuple or layout-like value, got {type(x).__name__}")


def depth(x: Any) -> int:
    """Levels of nesting; an int has depth 0."""
    if isinstance(x, (int, Numeric)) or x is None:
        return 0
    if isinstance(x, tuple):
        return 1 + max((depth(mode) for mode in x), default=0)
    if isinstance(x, ir.Value):
        return fly.depth(x) if isinstance(x, FlyValue) else 0
    raise TypeError(f"depth expects an int, tuple or layout-like value, got {type(x).__name__}")


def has_none(int_tuple: Any) -> bool:
    """Whether an IntTuple has a wildcard leaf."""
    return fly.has_none(int_tuple)


@dsl_loc_tracing
def static(ty: ir.Type) -> Any:
    """The value of a fully static dialect type."""
    return fly.static(ty)


@dsl_loc_tracing
def assume(result_type: ir.Type, dst: Any, src: Any) -> Any:
    """Reserved: carries a value with a refined type."""
    return fly.assume(result_type, dst, src)


def _literal(arg: Any) -> str | None:
    """Text of an argument that is known while tracing, else None."""
    if isinstance(arg, str):
        return arg
    if isinstance(arg, type):
        return arg.__name__
    if isinstance(arg, (bool, int, float)):
        return str(arg)
    return None


def _print_operand(arg: Any) -> ir.Value:
    cls = getattr(arg, "dtype", None)
    if isinstance(cls, NumericMeta) and cls.signed is False and isinstance(arg, (Numeric, Vector)):
        # The IR prints signed numbers: unsigned ones get a place more.
        limit = 16 if isinstance(arg, Vector) else 32
        if cls.width <= limit:
            return arg.to(Int32 if cls.width < 32 else Int64).ir_value()
    if isinstance(arg, ir.Value):
        return arg
    if isinstance(arg, Numeric):
        return arg.ir_value()
    try:
        values = protocol.extract_to_ir_values(arg)
    except TypeError as error:
        raise ValueError(f"printf cannot print a {type(arg).__name__}") from error
    if len(values) != 1:
        raise ValueError(f"printf cannot print a {type(arg).__name__}: it has {len(values)} IR values")
    return values[0]


@dsl_loc_tracing
def printf(*args: Any, format_str: Any = UNSET) -> None:
    """Print at run time. ``printf(fmt, *args)`` with ``{}`` placeholders; without a format, the values.

    Strings, types and Python numbers are substituted while tracing.
    """
    if format_str is UNSET:
        if args and isinstance(args[0], str):
            format_str, args = args[0], args[1:]
        else:
            format_str = " ".join(["{}"] * len(args))
    pieces = format_str.split("{}")
    if len(pieces) - 1 != len(args):
        raise ValueError(f"printf: {len(pieces) - 1} placeholders in {format_str!r} but {len(args)} arguments")
    text, operands = pieces[0], []
    for arg, piece in zip(args, pieces[1:], strict=True):
        literal = _literal(arg)
        if literal is None:
            operands.append(_print_operand(arg))
            literal = "{}"
        text += literal + piece
    fly.print_(text, operands)
