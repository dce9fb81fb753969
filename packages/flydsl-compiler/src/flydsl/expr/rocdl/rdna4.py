"""RDNA4 (gfx120x) waits."""

from __future__ import annotations

from typing import Any

from .rdna3 import encode
from .waits import emit_waitcnt

__all__ = ["s_waitcnt"]


def s_waitcnt(vmcnt: Any = None, lgkmcnt: Any = None, expcnt: Any = None) -> None:
    """Wait until at most the given numbers of operations are outstanding."""
    emit_waitcnt(encode(vmcnt, lgkmcnt, expcnt))
