"""RDNA4 (gfx120x) waits."""

from __future__ import annotations

from typing import Any

from ._waitcnt import emit_waitcnt
from .rdna3 import encode

__all__ = ["s_waitcnt"]


def s_waitcnt(vmcnt: Any = None, lgkmcnt: Any = None, expcnt: Any = None) -> None:
    """Wait until at most the given numbers of operations are outstanding."""
    emit_waitcnt(encode(vmcnt, lgkmcnt, expcnt))
