"""Rows whose threads share nothing: several rows to a workgroup, or several workgroups to a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .index import cdiv, div, mod

__all__ = ["THREADS", "Units"]

THREADS = 256  # of a workgroup


@dataclass(frozen=True)
class Units:
    """Rows of `count` units, of which a thread has one.

    Attributes:
        count: units of a row.
    """

    count: int

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return max(THREADS // self.count, 1)

    @property
    def across(self) -> int:
        """Workgroups of a row, along y."""
        return cdiv(self.count, THREADS)

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for m rows."""
        return (fx.ceildiv(m, self.rows), self.across)

    def place(self) -> tuple[Any, Any]:
        """(row from the workgroup's first, unit) of this thread; either may be past the last one."""
        thread = fx.thread_idx.x + fx.block_idx.y * THREADS
        return (div(thread, self.count), mod(thread, self.count)) if self.rows > 1 else (fx.Int32(0), thread)
