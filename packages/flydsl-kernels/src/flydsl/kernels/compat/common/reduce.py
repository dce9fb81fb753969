"""Sums over the workgroup."""

from __future__ import annotations

from typing import Any

from flydsl.kernels.parts.reduce import Lds, add, block_reduce

__all__ = ["block_reduce_add", "block_reduce_add2"]


def block_reduce_add(value: Any, thread: Any, threads: int, lds: Lds) -> Any:
    """Sum of an f32 over the workgroup; every lane gets it."""
    return block_reduce([value], add, thread, threads, lds)[0]


def block_reduce_add2(a: Any, b: Any, thread: Any, threads: int, lds: Lds) -> tuple[Any, Any]:
    """Sums of two f32 over the workgroup, with the barrier of one."""
    first, second = block_reduce([a, b], add, thread, threads, lds)
    return first, second
