"""Enumerations that are not part of a dialect."""

from __future__ import annotations

__all__ = ["SyncScope"]


class SyncScope:
    """LLVM synchronisation scopes that every target has."""

    System = ""
    SingleThread = "singlethread"
