"""Indices that a kernel reads from memory and follows: rows of tables, positions, slots of caches."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl.utils import call_intrinsic

__all__ = ["index_at", "require_within", "uniform"]


def index_at(data: Any, at: Any) -> Any:
    """The int32 or int64 at element `at` of a tensor argument, as Int64.

    Raises:
        TypeError: the argument holds other integers.
    """
    start = data if isinstance(data, fx.Pointer) else fx.get_iter(data)
    if start.element_type not in (fx.Int32, fx.Int64):
        raise TypeError(f"indices must be int32 or int64, got {start.element_type.__name__}")
    return (start + at).load().to(fx.Int64)


@flyc.jit
def require_within(index: Any, low: Any, high: Any) -> Any:
    """An Int64 index as Int32; the launch stops with a trap unless ``low <= index < high``."""
    if (index < low) | (index >= high):
        call_intrinsic("llvm.trap", [])
    return index.to(fx.Int32)


def uniform(value: Any) -> Any:
    """An Int32 that is the same in all lanes of a wave, in a scalar register."""
    return fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, value))
