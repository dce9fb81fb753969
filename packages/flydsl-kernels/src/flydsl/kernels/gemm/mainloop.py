"""One tile of a GEMM's main loop: fragments are read from LDS one part ahead of their use, over the barrier too.

A tile is a sequence of parts, each a few rows of fragments and their products. While part p is multiplied, part p + 1
is read. The last part of a tile is multiplied after the barrier, while the first part of the next tile is read from
the other buffer, so that the matrix unit does not wait for LDS at the turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx

from .schedule import Counts, Schedule, Tally, hot_loop_schedule

__all__ = ["finish_tile", "part_rows", "run_tile"]

Order = Callable[[Counts], Schedule]


def part_rows(m_repeat: int) -> int:
    """Rows of fragments of a part."""
    return 2 if m_repeat % 2 == 0 else 1


def _hints(tally: Tally, scheduled: bool, order: Order) -> None:
    counts = tally.take()
    if scheduled and counts.mfma:
        order(counts).emit(counts)
    if scheduled:
        fx.rocdl.sched_barrier(0)


def run_tile(acc: Any, first: Any, parts: int, read: Callable[[int], Any], multiply: Callable[[Any, int, Any], Any],
             turn: Callable[[Callable[[], None]], Any], tally: Tally, scheduled: bool,
             orders: tuple[Order, Order] = (hot_loop_schedule, hot_loop_schedule)) -> Any:
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
        orders: of what comes before the barrier and of what comes after it.
    """
    before, after = orders
    fragments = first
    for p in range(parts - 1):
        following = read(p + 1)
        acc = multiply(acc, p, fragments)
        fragments = following
    cross = turn(lambda: _hints(tally, scheduled, before))
    following = cross()
    acc = multiply(acc, parts - 1, fragments)
    _hints(tally, scheduled, after)
    return acc, following


def finish_tile(acc: Any, first: Any, parts: int, read: Callable[[int], Any],
                multiply: Callable[[Any, int, Any], Any]) -> Any:
    """Multiply the last tile: nothing follows."""
    fragments = first
    for p in range(parts):
        following = read(p + 1) if p + 1 < parts else None
        acc = multiply(acc, p, fragments)
        fragments = following
    return acc
