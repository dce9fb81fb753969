"""Which stack frames are the user's."""

from __future__ import annotations

import functools
import linecache
import os


@functools.cache
def _internal_roots() -> tuple[str, ...]:
    import flydsl

    standard = os.path.dirname(os.__file__)
    return (*(os.path.join(p, "") for p in flydsl.__path__), os.path.join(standard, ""))


@functools.lru_cache(maxsize=4096)
def is_framework_file(filename: str) -> bool:
    """Whether frames of this file are internal: ours or the standard library's.

    Kernels that ship with FlyDSL, and installed third-party packages, count as user code. Text that was
    compiled from memory counts when its source can be shown (notebooks register it with `linecache`).
    """
    if filename.startswith("<"):
        return filename not in linecache.cache
    for root in _internal_roots():
        if filename.startswith(root):
            return not filename[len(root) :].startswith(("kernels" + os.sep, "site-packages" + os.sep))
    return False
