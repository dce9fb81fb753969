"""Loads, stores, atomic operations and fences of global memory that say how far they reach.

Scopes are LLVM's names: ``""`` the system (all devices and the host), ``"agent"`` the device, ``"workgroup"``; with
``one-as`` (``"one-as"`` the system, ``"agent-one-as"``) they order global memory only.

To hand data to another device: store them, :func:`fence` to release at system scope, then :func:`store` a flag of
system scope. To take them: poll the flag with :func:`load` of system scope, then :func:`fence` to acquire at system
scope. Polling alone drops nothing from a cache, and a plain store as the flag may stay in one; the simulator's check of
races reports both.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["DEVICE", "SYSTEM", "at", "fence", "load", "store"]

SYSTEM, DEVICE = "", "agent"


def at(address: Any, element: Any, index: Any = 0) -> Any:
    """Pointer to element `index` of global memory at a 64-bit address."""
    place = fx.Int64(address) + fx.Int64(index) * (element.width // 8)
    return fx.inttoptr(fx.PointerType.get(element.ir_type, fx.AddressSpace.Global, element.width // 8), place)


def load(place: Any, scope: str = SYSTEM, order: Any = fx.AtomicOrdering.Monotonic) -> Any:
    """What is at a pointer, seen by everyone within the scope; relaxed unless `order` says more."""
    return fx.llvm.generic_load(place, memory_order=order, syncscope=scope)


def store(place: Any, value: Any, scope: str = SYSTEM, order: Any = fx.AtomicOrdering.Monotonic) -> None:
    """Store for everyone within the scope; relaxed unless `order` says more."""
    fx.llvm.generic_store(place, value, memory_order=order, syncscope=scope)


def fence(order: Any, scope: str = SYSTEM) -> None:
    """Order earlier accesses before later ones, for everyone within the scope."""
    fx.llvm.memory_fence(syncscope=scope, ordering=order)
