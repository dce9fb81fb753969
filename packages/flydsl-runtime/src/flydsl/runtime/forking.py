"""Locks of processes that fork."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["fork_safe_lock"]

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_safe_lock() -> Any:
    """A reentrant lock that is free in the child of a fork, in which a thread that had held it does not exist."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_in_child() -> None:
    for lock in _locks:
        if not lock._is_owned():  # by the thread that forked
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)
