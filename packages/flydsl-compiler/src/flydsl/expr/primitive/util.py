"""Compile-time utilities and printing."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing

from ..numeric import Numeric
from ..values.base import FlyValue, require
from ..values.int_tuple import IntTuple


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
    return fly.has_none(require(int_tuple, IntTuple, "has_none's operand"))


@dsl_loc_tracing
def static(ty: ir.Type) -> Any:
    """The value of a static dialect type, e.g. ``fx.static(fx.SwizzleType.get(3, 3, 3))``. TypeError otherwise."""
    if not isinstance(ty, ir.Type):
        raise TypeError(f"static takes a type of the dialect (fx.SwizzleType.get(...), layout.type), got {ty!r}; a "
                        "Python number is static by itself")
    return fly.static(ty)


@dsl_loc_tracing
def assume(result_type: ir.Type, dst: Any, src: Any) -> Any:
    """Reserved: carries a value with a refined type."""
    return fly.assume(result_type, dst, src)
