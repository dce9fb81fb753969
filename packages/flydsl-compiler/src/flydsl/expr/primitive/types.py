"""Enums and type classes of the `fly` dialect, and the universal op descriptors."""

from __future__ import annotations

import operator
import re
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects.fly import (
    AddressSpace,
    AtomicOp,
    BasisType,
    CachePolicy,
    ComposedLayoutType,
    CoordSwizzleType,
    CoordTensorType,
    CopyAtomType,
    CopyOpUniversalAtomicType,
    CopyOpUniversalCopyType,
    GemmTraversalOrder,
    IntTupleType,
    LayoutType,
    MemRefType,
    MmaAtomType,
    MmaOperand,
    MmaOpUniversalFMAType,
    PointerType,
    SwizzleType,
    TiledCopyType,
    TiledMmaType,
    TileType,
)
from flydsl.tracing.locations import needs_trace

from .._emit import mlir_type
from ..enum import SyncScope

__all__ = [
    "AddressSpace", "AtomicOp", "BasisType", "CachePolicy", "ComposedLayoutType", "CoordSwizzleType",
    "CoordTensorType", "CopyAtomType", "CopyOpUniversalAtomicType", "CopyOpUniversalCopyType", "GemmTraversalOrder",
    "IntTupleType", "LayoutType", "MemRefType", "MmaAtomType", "MmaOpUniversalFMAType", "MmaOperand", "PointerType",
    "SwizzleType", "TileType", "TiledCopyType", "TiledMmaType",
]


#: Bits that one call of a copy op moves, in the text of its type: (name, bits).
OP_BITS = re.compile(r"(universal_copy|cdna3\.buffer_copy)<(\d+)")


def descriptor_int(value: Any, what: str) -> int:
    """A number in the type of an op descriptor: an int of 32 bits.

    Raises:
        TypeError: another object. ValueError: it has more bits.
    """
    try:
        number = operator.index(value)
    except (TypeError, RuntimeError):
        raise TypeError(f"{what} must be a static int, got {type(value).__name__}") from None
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{what} must have at most 32 bits, got {number}")
    return number


@needs_trace
def UniversalCopy(bits: int) -> ir.Type:  # noqa: N802 - op descriptors are spelled like types
    """Copy of `bits` contiguous bits by one thread, between any two memory spaces."""
    return CopyOpUniversalCopyType.get(descriptor_int(bits, "the bits of a copy"))


def UniversalCopy8b() -> ir.Type:  # noqa: N802
    """Copy of one byte by one thread, between any two memory spaces."""
    return UniversalCopy(8)


def UniversalCopy16b() -> ir.Type:  # noqa: N802
    """Copy of 2 bytes by one thread, between any two memory spaces."""
    return UniversalCopy(16)


def UniversalCopy32b() -> ir.Type:  # noqa: N802
    """Copy of 4 bytes by one thread, between any two memory spaces."""
    return UniversalCopy(32)


def UniversalCopy64b() -> ir.Type:  # noqa: N802
    """Copy of 8 bytes by one thread, between any two memory spaces."""
    return UniversalCopy(64)


def UniversalCopy128b() -> ir.Type:  # noqa: N802
    """Copy of 16 bytes by one thread, between any two memory spaces."""
    return UniversalCopy(128)


def atomic_value_type(op: AtomicOp, cls: Any) -> ir.Type:
    """IR type of the values of an atomic: for the extrema of unsigned numbers it says that they are."""
    ty = mlir_type(cls)
    if op in (AtomicOp.Max, AtomicOp.Min) and getattr(cls, "signed", None) is False and isinstance(ty, ir.IntegerType):
        return ir.IntegerType.get_unsigned(ty.width)
    return ty


def UniversalAtomic(op: Any, cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic read-modify-write from registers to memory; the old value is not returned.

    Integers have 8, 16, 32 or 64 bits; Add, Max and Min take f16, bf16, f32 and f64, too. Max and Min of an unsigned
    class compare without sign.

    Raises:
        ValueError: another type.
    """
    op = AtomicOp(int(op))
    if not isinstance(syncscope, str):
        raise TypeError(f"the scope of an atomic is a string of fx.SyncScope or fx.rocdl.SyncScope, got {syncscope!r}")
    ty = atomic_value_type(op, cls)
    integer_only = op in (AtomicOp.And, AtomicOp.Or, AtomicOp.Inc, AtomicOp.Dec)
    if isinstance(ty, ir.IntegerType):
        if ty.width not in (8, 16, 32, 64):
            raise ValueError(f"atomic {op.name} needs an integer type of 8, 16, 32 or 64 bits, got {cls}")
    elif integer_only:
        raise ValueError(f"atomic {op.name} needs an integer type, got {ty}")
    elif not isinstance(ty, (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type)):
        raise ValueError(f"atomic {op.name} needs an integer type, f16, bf16, f32 or f64, got {ty}")
    return CopyOpUniversalAtomicType.get(int(op), ty, syncscope)


def UniversalAtomicAdd(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic addition of elements of type `cls` to memory, visible in `syncscope`."""
    return UniversalAtomic(AtomicOp.Add, cls, syncscope)


def UniversalAtomicMax(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic maximum of elements of type `cls` to memory, visible in `syncscope`."""
    return UniversalAtomic(AtomicOp.Max, cls, syncscope)


def UniversalAtomicMin(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic minimum of elements of type `cls` to memory, visible in `syncscope`."""
    return UniversalAtomic(AtomicOp.Min, cls, syncscope)


def UniversalAtomicAnd(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic bitwise and (integers) of elements of type `cls` to memory, visible in `syncscope`."""
    return UniversalAtomic(AtomicOp.And, cls, syncscope)


def UniversalAtomicOr(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic bitwise or (integers) of elements of type `cls` to memory, visible in `syncscope`."""
    return UniversalAtomic(AtomicOp.Or, cls, syncscope)


def UniversalAtomicInc(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic increment of integers of type `cls` in memory that wraps to 0 above the operand, in `syncscope`."""
    return UniversalAtomic(AtomicOp.Inc, cls, syncscope)


def UniversalAtomicDec(cls: Any, syncscope: str = SyncScope.System) -> ir.Type:  # noqa: N802
    """Atomic decrement of integers of type `cls` in memory that wraps to the operand at 0, in `syncscope`."""
    return UniversalAtomic(AtomicOp.Dec, cls, syncscope)


def UniversalFMA(cls: Any) -> ir.Type:  # noqa: N802
    """1x1x1 MMA: ``d = a * b + c``."""
    return MmaOpUniversalFMAType.get(mlir_type(cls))
