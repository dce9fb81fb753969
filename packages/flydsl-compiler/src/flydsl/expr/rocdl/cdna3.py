"""CDNA3 (gfx942) waits."""

from __future__ import annotations

from typing import Any

from ._waitcnt import emit_waitcnt, wait_field

__all__ = ["s_waitcnt"]


def encode(vmcnt: Any = None, lgkmcnt: Any = None, expcnt: Any = None) -> int:
    """The 16-bit field of the instruction; None does not wait."""
    vm, lgkm, exp = wait_field(vmcnt, 63, "vmcnt"), wait_field(lgkmcnt, 15, "lgkmcnt"), wait_field(expcnt, 7, "expcnt")
    return (vm & 15) | exp << 4 | lgkm << 8 | (vm & 0x30) << 10


def s_waitcnt(vmcnt: Any = None, lgkmcnt: Any = None, expcnt: Any = None) -> None:
    """Wait until at most the given numbers of operations are outstanding."""
    emit_waitcnt(encode(vmcnt, lgkmcnt, expcnt))
