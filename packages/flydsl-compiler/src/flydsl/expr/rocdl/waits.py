"""Wait counters and asynchronous groups."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.locations import dsl_loc_tracing

from .._target import target_row
from . import cdna3, rdna3, rdna4
from ._waitcnt import emit_waitcnt, wait_field
from .utils import emit, static_int

__all__ = ["asyncmark", "emit_waitcnt", "s_wait_asynccnt", "s_waitcnt", "wait_asyncmark", "wait_field"]

#: The encoding of the counters of s_waitcnt, by family.
_ENCODINGS = {"cdna2": cdna3, "cdna3": cdna3, "cdna4": cdna3, "rdna3": rdna3, "rdna3.5": rdna3, "rdna4": rdna4}


def s_waitcnt(bitfield: Any = None, *, vmcnt: Any = None, lgkmcnt: Any = None, expcnt: Any = None) -> None:
    """Wait by raw 16-bit field, or by named counters (None: do not wait) encoded for the target."""
    named = any(count is not None for count in (vmcnt, lgkmcnt, expcnt))
    if bitfield is not None:
        if named:
            raise TypeError("s_waitcnt takes a raw bit field or named counters, not both")
        emit_waitcnt(static_int(bitfield, "bitfield", 0, 0xFFFF))
        return
    row = target_row()
    if not row.has("legacy_wait_counter"):
        raise ValueError(f"s_waitcnt is not available on target arch {row.name!r}; use the split counters, "
                         "e.g. s_wait_dscnt")
    _ENCODINGS[row.family].s_waitcnt(vmcnt, lgkmcnt, expcnt)


def asyncmark() -> None:
    """End a group of asynchronous LDS copies. The copies are synchronous on this LLVM: nothing to mark."""


def wait_asyncmark(count: Any = 0) -> None:
    """Wait until at most `count` marked groups are outstanding; conservatively, for all copies to LDS."""
    if count is None:
        return
    static_int(count, "count", 0, 0xFFFF)
    if target_row().has("async_lds_copy"):
        s_wait_asynccnt(0)  # its copies to LDS have a counter of their own, and s_waitcnt does not exist
    else:
        s_waitcnt(vmcnt=0)


@dsl_loc_tracing
def s_wait_asynccnt(count: Any = 0) -> None:
    """gfx1250: wait until at most `count` asynchronous copies are outstanding; None: do not wait."""
    if count is None:
        return
    i16 = ir.IntegerType.get_signless(16)
    emit("s.wait.asynccnt", attributes={"count": ir.IntegerAttr.get(i16, static_int(count, "count", 0, 63))})
