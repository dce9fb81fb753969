"""One tile of a GEMM's main loop: fragments are read from LDS one part ahead of their use, over the barrier too.

A tile is a sequence of parts, each a few rows of fragments and their products. While part p is multiplied, part p + 1
is read. The last part of a tile is multiplied after the barrier, while the first part of the next tile is read from
the other buffer, so that the matrix unit does not wait for LDS at the turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx

from .schedule import VALU_DELAY, Tally, hot_loop_schedule

__all__ = ["finish_tile", "part_rows", "run_tile"]


def part_rows(m_repeat: int) -> int:
    """Rows of fragments of a part."""
    return 2 if m_repeat % 2 == 0 else 1


def _hints(tally: Tally, scheduled: bool, preload: tuple[int, int], early_writes: bool = False,
           early_loads: bool = False, **more: int) -> None:  # fmt: skip
    counts = tally.take()
    if scheduled and counts.mfma:
        hot_loop_schedule(counts, preload, early_writes, early_loads, **more).emit(counts)
    if scheduled:
        fx.rocdl.sched_barrier(0)


def run_tile(acc: Any, first: Any, parts: int, read: Callable[[int], Any], multiply: Callable[[Any, int, Any], Any],
             turn: Callable[[Callable[[], None]], Any], tally: Tally, scheduled: bool,
             preload: tuple[int, int] = (0, 0), early_writes: bool = False,
             early_loads: bool = False, beside: int = 1, delay: int = VALU_DELAY,
             reads_late: bool = False) -> Any:  # fmt: skip
    """Multiply a tile; ``(acc, first part of the next tile)``.

    Args:
        acc: accumulators.
        first: fragments of part 0, read before.
        parts: number of parts.
        read: ``read(p)`` fragments of part p of this tile.
        multiply: ``multiply(acc, p, fragments)`` the accumulators after part p.
        turn: ``turn(hints)`` finishes the copies to LDS, calls ``hints()``, and passes the barrier; it returns a
            function that reads part 0 of the next tile.
        tally: counted since the global loads of this tile were issued; hints are checked against it.
        preload, early_writes, early_loads, beside, delay: of :func:`hot_loop_schedule`.
        reads_late: another matrix instruction follows the barrier before the first read, which lets the matrix unit
            wait less for the other waves.
    """
    fragments = first
    for p in range(parts - 1):
        following = read(p + 1)
        acc = multiply(acc, p, fragments)
        fragments = following
    cross = turn(lambda: _hints(tally, scheduled, preload, early_writes, early_loads,
                                beside=beside, delay=delay))  # fmt: skip
    following = cross()
    acc = multiply(acc, parts - 1, fragments)
    _hints(tally, scheduled, (0, 0), beside=beside, delay=delay, reads_from=int(reads_late))
    return acc, following


def finish_tile(acc: Any, first: Any, parts: int, read: Callable[[int], Any],
                multiply: Callable[[Any, int, Any], Any]) -> Any:  # fmt: skip
    """Multiply the last tile: nothing follows."""
    fragments = first
    for p in range(parts):
        following = read(p + 1) if p + 1 < parts else None
        acc = multiply(acc, p, fragments)
        fragments = following
    return acc
