"""Indices that a kernel reads from memory and follows: rows of tables, positions, slots of caches."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl.utils import call_intrinsic

__all__ = ["any_lane", "index_at", "rarely", "require_all_within", "require_within", "uniform"]


def index_at(data: Any, at: Any) -> Any:
    """The int32 or int64 at element `at` of a tensor argument that the kernel does not write, as Int64.

    Raises:
        TypeError: the argument holds other integers.
    """
    start = data if isinstance(data, fx.Pointer) else fx.get_iter(data)
    if start.element_type not in (fx.Int32, fx.Int64):
        raise TypeError(f"indices must be int32 or int64, got {start.element_type.__name__}")
    return fx.generic_load(start + at, invariant=True).to(fx.Int64)


@flyc.jit
def require_within(index: Any, low: Any, high: Any) -> Any:
    """An Int64 index as Int32; the launch stops with a trap unless ``low <= index < high``."""
    if (index < low) | (index >= high):
        call_intrinsic("llvm.trap", [])
    return index.to(fx.Int32)


@flyc.jit
def require_all_within(index: Any, low: Any, high: Any) -> None:
    """The same of the whole wave at once: no lane goes on beside one that stops, as lanes of a wave that part may."""
    if any_lane((index < low) | (index >= high)):
        call_intrinsic("llvm.trap", [])


def any_lane(condition: Any) -> Any:
    """Whether it holds in any lane of the wave: the same in all of them."""
    mask = fx.Int64 if fx.num_warp_threads() == 64 else fx.Int32
    return mask(fx.rocdl.ballot(mask.ir_type, condition)) != 0


def rarely(condition: Any) -> Any:
    """The same condition, of which the compiler is told that it seldom holds: what it guards is laid out apart, so that
    the way past it takes no branch."""
    values = [fx.Boolean(x).ir_value() for x in (condition, False)]
    return fx.Boolean(call_intrinsic("llvm.expect.i1", values, fx.Boolean.ir_type))


def uniform(value: Any) -> Any:
    """An Int32 that is the same in all lanes of a wave, in a scalar register."""
    return fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, value))
