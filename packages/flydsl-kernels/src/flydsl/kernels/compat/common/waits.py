"""Waits and barriers of older kernels that say themselves what they wait for."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["anchor", "barrier", "wait_barrier"]


def barrier(vmcnt: int | None = None, lgkmcnt: int | None = None) -> None:
    """Wait until at most so many memory accesses (`vmcnt`), LDS and scalar ones (`lgkmcnt`) of the wave are
    outstanding, then for the workgroup: a bare barrier, that orders no memory by itself."""
    if vmcnt is not None or lgkmcnt is not None:
        fx.rocdl.s_waitcnt(vmcnt=vmcnt, lgkmcnt=lgkmcnt)
    fx.rocdl.s_barrier()


def wait_barrier(n: int) -> None:
    """Wait until at most `n` memory accesses of the wave are outstanding, then for the workgroup."""
    barrier(vmcnt=n)


def anchor(value: Any) -> Any:
    """The same value (32 bits, or a vector of such), made in registers before what follows: the scheduler does not move
    what makes it behind, nor what uses it before."""
    if not isinstance(value, fx.Vector):
        return fx.rocdl.computed_here(value.bitcast(fx.Int32)).bitcast(value.dtype)
    words = [fx.rocdl.computed_here(word) for word in value.bitcast(fx.Int32)]
    return fx.Vector.from_elements(words, fx.Int32).bitcast(value.dtype)
