"""`s_waitcnt`, whose field each architecture encodes in its own way."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.locations import dsl_loc_tracing

from .utils import emit, static_int


def wait_field(count: Any, maximum: int, name: str) -> int:
    """A counter value; None is the maximum (no wait)."""
    return maximum if count is None else static_int(count, name, 0, maximum)


@dsl_loc_tracing
def emit_waitcnt(bitfield: int) -> None:
    i32 = ir.IntegerType.get_signless(32)
    emit("s.waitcnt", attributes={"bitfield": ir.IntegerAttr.get(i32, bitfield)})
