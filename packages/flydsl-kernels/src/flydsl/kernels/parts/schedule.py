"""The instruction order of a hot loop, derived from its tile, as scheduling hints for the compiler.

A :class:`Counts` says how many matrix instructions, LDS reads, LDS writes and global loads one tile has. A
:class:`Schedule` is the order in which they should issue. The kernel counts what it emits while it is traced and hands
the result to :meth:`Schedule.emit`, which refuses hints that were made for another tile: a stale schedule would
silently leave instructions at the end of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import flydsl.expr as fx

from .index import cdiv

__all__ = ["Counts", "Schedule", "ScheduleError", "Tally", "ahead_orders", "even_schedule", "hot_loop_schedule"]

KINDS = ("mfma", "ds_read", "ds_write", "vmem", "valu")
VALU_DELAY = 2   # matrix instructions before the first vector arithmetic of a tile
MASK_VALU = 0x2  # of sched_group_barrier: vector instructions other than matrix ones


class ScheduleError(ValueError):
    """Scheduling hints do not fit the loop that they are used with."""


@dataclass(frozen=True)
class Counts:
    """Instructions of one tile of the main loop; of vector arithmetic only what takes part in the schedule."""

    mfma: int
    ds_read: int
    ds_write: int
    vmem: int
    valu: int = 0


@dataclass
class Tally:
    """Counts the instructions that a kernel emits for a tile."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def add(self, kind: str, n: int = 1) -> None:
        self.counts[kind] += n

    def take(self) -> Counts:
        """The counts so far; starts again at zero."""
        counts, self.counts = Counts(**self.counts), dict.fromkeys(KINDS, 0)
        return counts


@dataclass(frozen=True)
class Schedule:
    """Groups of instructions in issue order: (kind, number)."""

    groups: tuple[tuple[str, int], ...]

    def counts(self) -> Counts:
        return Counts(**{kind: sum(n for other, n in self.groups if other == kind) for kind in KINDS})

    def check(self, emitted: Counts) -> None:
        """ScheduleError unless the hints cover exactly the emitted instructions."""
        mine = self.counts()
        wrong = [f"{k}: schedule {getattr(mine, k)}, loop {getattr(emitted, k)}" for k in KINDS
                 if getattr(mine, k) != getattr(emitted, k)]
        if wrong:
            raise ScheduleError(f"the schedule does not fit the tile ({'; '.join(wrong)}); derive it with "
                                f"hot_loop_schedule from the counts of this tile")

    def emit(self, emitted: Counts) -> None:
        """Check, then write the hints at the end of the tile."""
        self.check(emitted)
        hint = {"mfma": fx.rocdl.sched_mfma, "ds_read": fx.rocdl.sched_dsrd, "ds_write": fx.rocdl.sched_dswr,
                "vmem": fx.rocdl.sched_vmem,
                "valu": lambda n: fx.rocdl.sched_group_barrier(MASK_VALU, n, 0)}
        for kind, n in self.groups:
            hint[kind](n)


def _spread(total: int, n: int, first: int = 0, last: int | None = None) -> list[int]:
    """`total` things at `n` places: over those from `first` to before `last`, evenly, early ones first."""
    slots = (n if last is None else last) - first
    shares = [cdiv((i + 1) * total, slots) - cdiv(i * total, slots) for i in range(slots)]
    return [0] * first + shares + [0] * (n - first - slots)


def _schedule(n: int, beside: dict[str, list[int]], before: tuple[tuple[str, int], ...] = ()) -> Schedule:
    """`n` matrix instructions, with what stands `beside` each and `before` the first; neighbours of a kind as one
    group."""
    groups = [*before, *(group for i in range(n) for group in (("mfma", 1), *((k, x[i]) for k, x in beside.items())))]
    runs = groupby((group for group in groups if group[1]), key=lambda group: group[0])
    return Schedule(tuple((kind, sum(count for _, count in run)) for kind, run in runs))


def hot_loop_schedule(counts: Counts, preload: tuple[int, int] = (0, 0), early_writes: bool = False,
                      beside: int = 1, delay: int = VALU_DELAY, reads_from: int = 0, together: int = 1) -> Schedule:
    """The order of a tile: one matrix instruction at a time with memory operations between.

    `preload` LDS reads and global loads come first. The other LDS reads are spread over the first three quarters of
    the matrix instructions (two thirds beside vector arithmetic), global loads over all but the
    last sixth (more at once would fill the queue of the memory pipeline, which then holds up the wave), and LDS writes
    go one after each of the last, once the loads that feed them have had time to return. Where there are more loads
    than places for them, they go over the first third and the writes that they feed over the second half. Vector
    arithmetic (which waits for matrix results) is spread over the matrix instructions after the first few.

    Args:
        counts: of the tile; there must be a matrix instruction.
        preload: (LDS reads, global loads) before the first matrix instruction.
        early_writes: what is written to LDS was loaded a tile before: writes are spread over the second half of the
            matrix instructions but the last sixth, which covers their latency before the barrier.
        beside: LDS reads that fit beside one matrix instruction; only where there are more, they are spread over all.
        delay: matrix instructions before the first vector arithmetic.
        reads_from: matrix instructions before the first LDS read after those of `preload`; the reads are then spread
            over all others.
        together: so many global loads follow each other, in the first half of the matrix instructions.
    """
    if counts.mfma < 1:
        raise ScheduleError("a hot loop without matrix instructions has no schedule")
    first_reads, first_loads = min(preload[0], counts.ds_read), min(preload[1], counts.vmem)
    n, left = counts.mfma, counts.ds_read - first_reads
    window, held = n - n // (3 if counts.valu else 4), min(reads_from, n - 1)
    if held or (left > window * beside and not counts.valu):
        window = n
    reads = _spread(left, n, held, window)
    left = counts.vmem - first_loads
    window = max(n - max(n // 6, 2), 1)
    # Where loads have no places, each write would stand right behind the load that feeds it, and wait for it alone.
    crowded = left > window and counts.ds_write > 0 and not early_writes
    loads = _spread(left, n, 0, max(n // 3, 1) if crowded else window if left <= window else n)
    if together > 1 and not crowded:
        loads = [0] * n
        count = cdiv(left, together)
        for i in range(count):
            loads[i * (n // 2) // count] += min(together, left - i * together)
    if early_writes and n - n // 6 > n // 2:
        writes = _spread(counts.ds_write, n, n // 2, n - n // 6)
    elif crowded:
        writes = _spread(counts.ds_write, n, n // 2)
    else:
        writes, last_read = [0] * n, max((i for i, r in enumerate(reads) if r), default=-1)
        first_write = min(max(n - counts.ds_write - 2, last_read + 1), max(n - counts.ds_write, 0))
        for i in range(counts.ds_write):
            writes[min(first_write + i, n - 1)] += 1
    return _schedule(n, {"ds_read": reads, "vmem": loads, "ds_write": writes,
                         "valu": _spread(counts.valu, n, min(delay, n - 1))},
                     (("ds_read", first_reads), ("vmem", first_loads)))


def even_schedule(counts: Counts, writes: tuple[float, float] = (0.1, 0.6),
                  loads: tuple[float, float] = (0.45, 1.0), reads: float | None = None) -> Schedule:
    """The order of a part of a tile that writes to LDS what was loaded tiles before, or copies directly: everything
    else is spread evenly over the matrix instructions, so that a wave that is alone can issue it beside them.

    LDS reads go over the first three quarters, or everywhere if they are more. The vector arithmetic of `counts` makes
    what is written (it turns operands around): each write follows its share of it. Of the places near its even one,
    each global load takes that with the fewest others.

    Args:
        counts: of the part; there must be a matrix instruction.
        writes: share of the matrix instructions before the first write, and before the last one: early enough to be
            done at a barrier after the part.
        loads: the same of global loads. Loads after the writes can take their registers.
        reads: share before the last LDS read, so that a barrier after the part does not wait for it.
    """
    n = counts.mfma
    if n < 1:
        raise ScheduleError("a part without matrix instructions has no schedule")

    def window(share: tuple[float, float]) -> tuple[int, int]:
        first = min(int(n * share[0]), n - 1)
        return first, min(max(int(n * share[1]), first + 1), n)

    most = n - n // 4
    usual = most if counts.ds_read <= most else n
    slots = {"ds_read": _spread(counts.ds_read, n, 0, window((0, reads))[1] if reads else usual), "vmem": [0] * n,
             "valu": _spread(counts.valu, n, *window(writes)), "ds_write": _spread(counts.ds_write, n, *window(writes))}
    if counts.valu:
        done = [sum(slots["valu"][: i + 1]) * counts.ds_write // counts.valu for i in range(n)]
        slots["ds_write"] = [now - before for now, before in zip(done, [0, *done], strict=False)]
    weight = [sum(slot[i] for slot in slots.values()) for i in range(n)]
    start, end = window(loads)
    for j in range(counts.vmem):
        near = start + j * (end - start) // counts.vmem
        far = max(start + (j + 1) * (end - start) // counts.vmem, near + 1)
        i = min(range(near, far), key=lambda i: (weight[i], i))
        slots["vmem"][i] += 1
        weight[i] += 1
    return _schedule(n, slots)


def ahead_orders(beside: bool) -> tuple[Callable[[Counts], Schedule], Callable[[Counts], Schedule]]:
    """The orders of a tile whose fragments are read a tile ahead, before its barrier and after it.

    What is issued first leaves the barrier least to wait for. It takes time of its own where it is not issued `beside`
    matrix instructions, and is spread there.
    """
    if beside:
        return partial(even_schedule, writes=(0.1, 0.8), loads=(0, 1), reads=0.8), even_schedule
    return partial(even_schedule, writes=(0.3, 0.7), loads=(0, 0.3), reads=0.3), even_schedule
