"""Enumerations that are not part of a dialect."""

from __future__ import annotations

from enum import IntEnum

from flydsl._mlir.dialects.fly import AtomicOp as AtomicOp

__all__ = ["SyncScope"]


class SyncScope:
    """LLVM synchronisation scopes that every target has."""

    System = ""
    SingleThread = "singlethread"


class AtomicOrdering(IntEnum):
    """Memory orders of LLVM, from weakest to strongest."""

    NotAtomic = 0
    Unordered = 1
    Monotonic = 2
    Acquire = 3
    Release = 4
    AcqRel = 5
    SeqCst = 6
