"""Wait counters and asynchronous groups."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.locations import dsl_loc_tracing

from .._target import target_arch
from . import cdna3, rdna3, rdna4
from ._waitcnt import emit_waitcnt, wait_field
from .utils import emit, static_int

__all__ = ["asyncmark", "emit_waitcnt", "s_wait_asynccnt", "s_waitcnt", "wait_asyncmark", "wait_field"]


def s_waitcnt(bitfield: Any = None, *, vmcnt: Any = None, lgkmcnt: Any = None, expcnt: Any = None) -> None:
    """Wait by raw 16-bit field, or by named counters (None: do not wait) encoded for the target."""
    named = any(count is not None for count in (vmcnt, lgkmcnt, expcnt))
    if bitfield is not None:
        if named:
            raise TypeError("s_waitcnt takes a raw bit field or named counters, not both")
        emit_waitcnt(static_int(bitfield, "bitfield", 0, 0xFFFF))
        return
    arch = target_arch()
    for prefixes, module in ((("gfx9",), cdna3), (("gfx11",), rdna3), (("gfx120",), rdna4)):
        if arch.startswith(prefixes):
            module.s_waitcnt(vmcnt, lgkmcnt, expcnt)
            return
    raise ValueError(f"s_waitcnt is not available on target arch {arch!r}; use the split counters, e.g. s_wait_dscnt")


def asyncmark() -> None:
    """End a group of asynchronous LDS copies. The copies are synchronous on this LLVM: nothing to mark."""


def wait_asyncmark(count: Any = 0) -> None:
    """Wait until at most `count` marked groups are outstanding; conservatively, for all copies to LDS."""
    if count is None:
        return
    static_int(count, "count", 0, 0xFFFF)
    if target_arch().startswith("gfx1250"):
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
