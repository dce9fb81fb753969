"""Global memory by 64-bit address, as collective kernels of earlier releases used it.

Addresses are i64 values or integers. New code uses `fx.generic_load` and `fx.generic_store` on pointers, with
memory orders and scopes.
"""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith
from flydsl.tracing.lazy import llvm as dialect
from flydsl.tracing.locations import dsl_loc_tracing

from . import _emit
from .rocdl.utils import operand

__all__ = [
    "invalidate_l1", "load_device_ptr", "load_i32_uncached", "load_v4i32", "store_i32", "store_i32_uncached",
    "store_i32_uncached_flush", "store_v4i32", "store_v4i32_nt",
]


def _int(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def _v4i32() -> ir.Type:
    return ir.VectorType.get([4], _int(32))


def _pointer(address: Any) -> ir.Value:
    raw = operand(address, _int(64))
    raw = _emit.int_resize(raw, _int(64), getattr(raw, "signed", True) is not False)
    return dialect.inttoptr(ir.Type.parse("!llvm.ptr<1>"), raw)


def _i32(value: Any) -> ir.Value:
    return _emit.int_resize(operand(value), _int(32), True)


@dsl_loc_tracing
def load_device_ptr(base: Any, index: Any = 0) -> Any:
    """The i64 address at ``base + 8 * index``."""
    wide = _emit.int_resize(operand(index), _int(64), True)
    offset = arith.muli(wide, _emit.constant(_int(64), 8))
    address = arith.addi(_emit.int_resize(operand(base, _int(64)), _int(64), True), offset)
    return dialect.load(_int(64), _pointer(address), alignment=8)


@dsl_loc_tracing
def load_i32_uncached(address: Any) -> Any:
    """An i32 read past the caches (system scope)."""
    return dialect.load(_int(32), _pointer(address), alignment=4, volatile_=True)


@dsl_loc_tracing
def store_i32(address: Any, value: Any) -> None:
    """An ordinary i32 store."""
    dialect.store(_i32(value), _pointer(address), alignment=4)


@dsl_loc_tracing
def store_i32_uncached(address: Any, value: Any) -> None:
    """An i32 store past the caches (system scope)."""
    dialect.store(_i32(value), _pointer(address), alignment=4, volatile_=True)


@dsl_loc_tracing
def store_i32_uncached_flush(address: Any, value: Any) -> None:
    """An i32 store after all earlier stores are visible to the system."""
    from .enum import AtomicOrdering
    from .llvm import memory_fence

    memory_fence(ordering=AtomicOrdering.Release)
    dialect.store(_i32(value), _pointer(address), alignment=4, volatile_=True)


@dsl_loc_tracing
def load_v4i32(address: Any) -> Any:
    """Four i32 from a 16-byte aligned address."""
    return dialect.load(_v4i32(), _pointer(address), alignment=16)


@dsl_loc_tracing
def store_v4i32(address: Any, value: Any) -> None:
    """Four i32 to a 16-byte aligned address."""
    dialect.store(operand(value), _pointer(address), alignment=16)


@dsl_loc_tracing
def store_v4i32_nt(address: Any, value: Any) -> None:
    """Four i32 to a 16-byte aligned address, not kept in the caches."""
    dialect.store(operand(value), _pointer(address), alignment=16, nontemporal=True)


@dsl_loc_tracing
def invalidate_l1() -> None:
    """Drop what the vector L1 cache holds (gfx940 and gfx950)."""
    from .enum import AtomicOrdering
    from .llvm import memory_fence

    memory_fence(ordering=AtomicOrdering.Acquire)
