"""`s_waitcnt`, whose field each architecture encodes in its own way."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.locations import dsl_loc_tracing

from .utils import emit, static_int


def wait_field(count: Any, maximum: int, name: str) -> int:
    """A counter value; None is the maximum (no wait)."""
    if count is None:
        return maximum
    count = static_int(count, name)
    if not 0 <= count <= maximum:
        raise ValueError(f"{name} must be in [0, {maximum}], got {count}")
    return count


@dsl_loc_tracing
def emit_waitcnt(bitfield: int) -> None:
    i32 = ir.IntegerType.get_signless(32)
    emit("s.waitcnt", attributes={"bitfield": ir.IntegerAttr.get(i32, bitfield)})
