"""Memory ordering between devices under the names of earlier releases; see :mod:`flydsl.kernels.comm.system`.

Addresses are 64-bit integers of the trace. What a kernel stores comes before a flag by a release fence, and what it
loads after one by an acquire fence.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.expr.numeric import as_numeric
from flydsl.kernels.comm.system import DEVICE, SYSTEM, at, fence, store

__all__ = [
    "atomic_add_agent", "atomic_add_global_at", "atomic_add_system", "atomic_xchg_global_at", "fence_agent_acquire",
    "fence_agent_release", "fence_system_acquire", "fence_system_release", "load_i64_global", "store_i32_system",
    "store_i64_global_system",
]


def __getattr__(name: str) -> Any:
    if name == "GeometryTuningTable":  # of callers' hosts, which is no part of a kernel
        from flydsl.kernels.comm.transport import GeometryTuningTable

        return GeometryTuningTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


GLOBAL_SYSTEM = "one-as"  # the system, global memory only


def store_i32_system(addr: Any, offset: Any, val: Any) -> None:
    """Store i32 number `offset` at an address, for all devices; relaxed."""
    store(at(addr, fx.Int32, offset), fx.Int32(val))


def store_i64_global_system(addr: Any, val: Any) -> None:
    """Store an i64 for all devices, after all that was stored before."""
    store(at(addr, fx.Int64), fx.Int64(val), GLOBAL_SYSTEM, fx.AtomicOrdering.Release)


def load_i64_global(addr: Any) -> Any:
    """A plain load of an i64."""
    return at(addr, fx.Int64).load()


def fence_system_acquire() -> None:
    """What other devices released is seen by later loads."""
    fence(fx.AtomicOrdering.Acquire, SYSTEM)


def fence_system_release() -> None:
    """Earlier stores are seen by other devices before later ones."""
    fence(fx.AtomicOrdering.Release, SYSTEM)


def fence_agent_acquire() -> None:
    """What other workgroups of the device released is seen by later loads."""
    fence(fx.AtomicOrdering.Acquire, DEVICE)


def fence_agent_release() -> None:
    """Earlier stores are seen by the device before later ones."""
    fence(fx.AtomicOrdering.Release, DEVICE)


def atomic_add_global_at(addr: Any, val: Any, syncscope: str = GLOBAL_SYSTEM) -> Any:
    """Add to the i32 or i64 (the type of `val`; i32 for a Python int) at an address; what was there before. Relaxed."""
    val = as_numeric(val)
    return fx.llvm.atomic_add(at(addr, type(val)), val, syncscope=syncscope)


def atomic_xchg_global_at(addr: Any, val: Any, syncscope: str = GLOBAL_SYSTEM) -> Any:
    """:func:`atomic_add_global_at`, but `val` takes the place of what was there."""
    val = as_numeric(val)
    return fx.llvm.atomic_xchg(at(addr, type(val)), val, syncscope=syncscope)


def atomic_add_agent(addr: Any, val: Any) -> Any:
    """:func:`atomic_add_global_at` for the workgroups of the device."""
    return atomic_add_global_at(addr, val, DEVICE)


def atomic_add_system(addr: Any, val: Any) -> Any:
    """:func:`atomic_add_global_at` for all devices."""
    return atomic_add_global_at(addr, val, SYSTEM)
