"""The main loop of a matrix product: tiles of k on their way while earlier ones are multiplied.

A kernel gives *sources*, which say how something of each tile comes to where the products take it, and the *products*.
Prologue, loop, tail, waits and barriers follow.

A tile is a sequence of parts, each a few rows of fragments and their products. While part p is multiplied, part p + 1
is read from LDS. The last part of a tile is multiplied after the barrier, while the first part of the next tile is read
from the next stage, so that the matrix unit does not wait for LDS at the turn of the loop. With a third stage that
part is read before the barrier (:attr:`MainLoop.beforehand`). Small tiles have too few products for that, and registers
for the fragments of two whole tiles: those of a tile are all read while the one before is multiplied
(:attr:`MainLoop.tile_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import flydsl.compiler as flyc
import flydsl.expr as fx

from .index import mod
from .schedule import Counts, Schedule, Tally, hot_loop_schedule

__all__ = ["SPLIT_BARRIER", "WHOLE_BARRIER", "Held", "KTile", "MainLoop", "Products", "Ring", "Staged"]

MAX_WAIT = 63  # of the counter of vector memory operations
PHASES = ("start", "turn", "end")  # of a tile, in which loads start
FIRST, SECOND = slice(1), slice(1, None)  # halves of a barrier

#: Barriers of a loop: whole, and in the two halves that gfx12 and gfx1250 have.
WHOLE_BARRIER: tuple[Callable[[], None], ...] = (fx.lds_barrier,)
SPLIT_BARRIER: tuple[Callable[[], None], ...] = (fx.barrier_arrive, fx.barrier_wait)

Order = Callable[[Counts], Schedule]
Multiply = Callable[[Any, int, Any], Any]


@dataclass(frozen=True)
class KTile:
    """Number of a k tile: ``turn + further``. The constant part is kept apart so that it becomes part of the lanes'
    addresses, once; added to `turn` it would take a scalar addition at each load in the loop."""

    turn: Any
    further: int = 0

    @property
    def index(self) -> Any:
        return self.turn + self.further

    def after(self, tiles: int) -> KTile:
        return KTile(self.turn, self.further + tiles)


# ------------------------------------------------------------------------------------------- sources


@dataclass(frozen=True)
class Held:
    """Global memory to registers, where the products take it.

    Args:
        fetch: ``fetch(t, before)`` starts loading a tile; `before` is what it gave for the tile before (None at first),
            which may hold for this one too.
        loads: of a tile.
        reach: tiles from one to that whose loads start with it.
    """

    fetch: Callable[[KTile, Any], Any]
    loads: int | Callable[[KTile], int]
    reach: int = 1


class LdsOperand(Protocol):
    """What goes to LDS through registers (see :mod:`.operand`)."""

    @property
    def loads(self) -> int:
        """Of a tile, into registers."""

    @property
    def writes(self) -> int:
        """Of a tile, to LDS."""

    @property
    def turns(self) -> int:
        """Vector instructions that turn a tile around."""

    def fetch(self, t: KTile) -> list[Any]:
        """Start loading a tile, a list of vectors."""

    def commit(self, chunks: list[Any], stage: Any) -> None:
        """Write them to a stage of LDS."""


@dataclass(frozen=True)
class Staged:
    """Global memory to registers, then to LDS.

    Args:
        operand: what is loaded and written.
        reach: tiles from one to that whose loads start with it.
        lead: tiles from one to that which is committed with it; between the two, tiles are in registers.
        when: the loads start at the ``"start"`` of a tile, after the commit at its ``"turn"``, or at its ``"end"``:
            after the first reads behind the barrier, where the commit then is too (`lead` is 2: the stage of the tile
            itself is free there).
        turning: vector arithmetic that turns the operand around takes part in the schedule.
    """

    operand: LdsOperand
    reach: int = 2
    lead: int = 1
    when: str = "start"
    turning: bool = False


@dataclass(frozen=True)
class Ring:
    """Global memory to LDS without registers. Behind the barrier of tile t its stage is free: the first `early` pieces
    of tile t + stages start there, the others with the next tile.

    Args:
        copy: ``copy(t, stage, which)`` starts the pieces `which` of a tile.
        pieces: of a tile.
        early: pieces that start at once; more than the memory pipeline takes would hold up the wave.
        wait: ``wait(n)`` waits until at most n younger operations are in flight.
        vector: the copies are vector memory operations: counted with loads into registers, and part of the schedule.
        lead: tiles from one to that whose copies are done behind its barrier.
    """

    copy: Callable[[KTile, Any, range], None]
    pieces: int
    early: int
    wait: Callable[[int], None] = lambda n: fx.rocdl.s_waitcnt(vmcnt=n)
    vector: bool = True
    lead: int = 1


Source = TypeVar("Source", Held, Staged, Ring)


class Products(Protocol):
    """What a tile is multiplied with: fragments from LDS, and what is held."""

    parts: int

    def zero(self) -> Any:
        """Cleared accumulators."""

    def ready(self, held: list[Any]) -> Any:
        """What is made of what is held for a tile before its first part, while the tile before is multiplied."""

    def read(self, stage: Any, part: int, ready: Any = None) -> Any:
        """Fragments of a part from a stage of LDS, with what was made ready for the first one."""

    def of(self, t: KTile, stage: Any, held: list[Any], last: bool) -> Multiply:
        """``multiply(acc, part, fragments)`` of tile t, which is in `stage`: the accumulators after a part."""


# ------------------------------------------------------------------------------------------- the loop


@flyc.jit
def _turns(state, turns, unroll, begin, step):
    """The run-time loop: `turns` times `unroll` tiles."""
    for turn in range(turns):
        for j in fx.range_constexpr(unroll):
            state = step(state, KTile(begin + turn * unroll, j))
    return state


def _first(queues: list[list[Any]]) -> list[Any]:
    """The oldest of each."""
    return [queue[0] for queue in queues]


@dataclass
class MainLoop:
    """The loop over k tiles.

    Attributes:
        tiles: number of them, 1 or more; `begin` is the number of the first.
        stages: LDS buffers; tile t is in stage ``t % stages``, a static number if `unroll` is a multiple of it.
        sources, products: see above.
        tally: counts the instructions that are traced; hints are checked against it.
        unroll: tiles of a turn of the loop.
        orders: of what comes before the barrier of a tile, and of what comes after it; None: the compiler's own.
        barrier: `every` so many tiles, if anything goes to LDS: whole, or two halves, between which the last part of a
            tile is multiplied; halves need first fragments that are not read behind it (:attr:`beforehand`,
            `tile_ahead`).
        loads_first: the loads that start with a tile come before all else of it, as what is on its way must cover the
            latency of memory; otherwise the orders say where they are.
        tile_ahead: fragments are read a tile ahead, for which no further stage is needed: when a tile is multiplied,
            its own is free. Copies of a ring start with a tile (`early` is 0).
    """

    tiles: int
    stages: int
    sources: Sequence[Held | Staged | Ring]
    products: Products
    tally: Tally
    unroll: int
    orders: tuple[Order, Order] | None = (hot_loop_schedule, hot_loop_schedule)
    barrier: tuple[Callable[[], None], ...] = WHOLE_BARRIER
    every: int = 1
    begin: Any = 0
    loads_first: bool = False
    tile_ahead: bool = False

    def __post_init__(self) -> None:
        self._held, self._staged, self._rings = self._of(Held), self._of(Staged), self._of(Ring)
        if self.tile_ahead and (self.every > 1 or any(ring.early for ring in self._rings)
                                or any(source.lead > 1 for source in self._staged)):
            raise ValueError("fragments a tile ahead need a barrier a tile, and copies and writes of one tile between "
                             "two of them: every and lead are 1, early is 0")
        if self._split and not (self.beforehand or self.tile_ahead):
            raise ValueError("a barrier in halves needs tiles that are in LDS a barrier before they are multiplied: "
                             "three stages and sources with a lead of two, or fragments a tile ahead")

    def _of(self, kind: type[Source]) -> list[Source]:
        return [source for source in self.sources if isinstance(source, kind)]

    @property
    def _split(self) -> bool:
        """Whether waves go on between the halves of the barrier."""
        return len(self.barrier) > 1

    @property
    def ahead(self) -> int:
        """Tiles that follow each one in the loop, so that all that it starts exists."""
        lds = [s.reach for s in self._staged] + [self.stages] * len(self._rings)
        return max([s.reach for s in self._held] + [tiles + self.tile_ahead for tiles in lds])

    @property
    def beforehand(self) -> bool:
        """Whether the first fragments of a tile are read before the barrier at the end of the tile before, which they
        are not behind: a third stage has the tile in LDS a barrier earlier. Otherwise they are read behind it while one
        part is multiplied, in which time few products hide neither their latency nor that of the writes before it."""
        early = [s.lead > 1 and s.when != "end" for s in self._staged] + [ring.lead > 1 for ring in self._rings]
        return bool(early) and all(early) and self.stages > 2 and self.every == 1

    def run(self) -> Any:
        """The accumulators after all tiles."""
        turns = max(self.tiles - self.ahead, 0) // self.unroll
        state = self._prologue()
        if turns:
            state = _turns(state, turns, self.unroll, fx.Int32(self.begin), lambda s, t: self._step(s, t, self.ahead))
        done = turns * self.unroll
        base = fx.Int32(self.begin) + done
        for t in range(done, self.tiles - 1):
            state = self._step(state, KTile(base, t - done), self.tiles - 1 - t)
        return self._finish(state, KTile(base, self.tiles - 1 - done))

    def _stage(self, t: KTile, further: int = 0) -> Any:
        """The stage of the tile `further` ones after t."""
        if self.unroll % self.stages == 0:
            return (t.further + further) % self.stages
        return mod(t.index - self.begin + further, self.stages)

    # ---------------------------------------------------------------- starting and committing

    def _hold(self, t: KTile, held: list[list[Any]], following: range) -> None:
        """The loads of all sources that start with tile t, of those so many further that exist. Where loads are first,
        those of the last source are the first of them: what a part takes of it is then there when the others arrive.
        Its first tile waits for other loads, and is asked for last."""
        pairs = [(source, tiles) for source, tiles in zip(self._held, held, strict=True) if source.reach in following]
        for source, tiles in reversed(pairs) if self.loads_first and any(tiles for _, tiles in pairs) else pairs:
            wanted = t.after(source.reach)
            self.tally.add("vmem", source.loads if isinstance(source.loads, int) else source.loads(wanted))
            tiles.append(source.fetch(wanted, tiles[-1] if tiles else None))

    def _start(self, t: KTile, when: str, queues: list[list[Any]], following: range) -> None:
        """The loads that start in this phase of a tile, of those so many further that exist."""
        for source, queue in zip(self._staged, queues, strict=True):
            if source.when == when and source.reach in following:
                self.tally.add("vmem", source.operand.loads)
                queue.append(source.operand.fetch(t.after(source.reach)))

    def _begin(self, t: KTile, left: int, queues: list[list[Any]]) -> None:
        """What starts with tile t: loads, and those copies to the stage of the one before that are not early."""
        for ring in self._rings:
            if left >= self.stages - 1 and ring.early < ring.pieces:
                self._copy(ring, t.after(self.stages - 1), self._stage(t, self.stages - 1),
                           range(ring.early, ring.pieces))
        self._start(t, "start", queues, range(left + 1))

    def _commit(self, source: Staged, queue: list[Any], stage: Any) -> None:
        """Write the oldest tile in registers to its stage."""
        source.operand.commit(queue.pop(0), stage)
        self.tally.add("ds_write", source.operand.writes)
        self.tally.add("valu", source.operand.turns if source.turning else 0)

    def _commit_next(self, t: KTile, ends: bool, left: int, queues: list[list[Any]]) -> None:
        for source, queue in zip(self._staged, queues, strict=True):
            if (source.when == "end") is ends and left >= source.lead:
                self._commit(source, queue, self._stage(t, source.lead))

    def _copy(self, ring: Ring, t: KTile, stage: Any, which: range) -> None:
        self.tally.add("vmem", len(which) if ring.vector else 0)
        ring.copy(t, stage, which)

    def _copy_behind(self, t: KTile, left: int) -> None:
        """The first copies to the stage of tile t, which is free."""
        for ring in self._rings:
            if left >= self.stages:
                self._copy(ring, t.after(self.stages), self._stage(t), range(ring.early))

    def _meet(self, halves: slice = slice(None)) -> None:
        """Pass the barrier, or one half of it."""
        if self._staged or self._rings:
            for half in self.barrier[halves]:
                half()

    def _wait(self, ring: Ring, copies: int, loads: int) -> None:
        ring.wait(min(copies + (loads if ring.vector else 0), MAX_WAIT))

    # ---------------------------------------------------------------- a tile

    def _prologue(self) -> Any:
        """What the loop would have started before tile 0, in its order: a wait for an older load is then none for a
        younger one. Then tile 0 is readable."""
        begin = fx.Int32(self.begin)
        for ring in self._rings:
            for n in range(min(self.stages, self.tiles)):
                self._copy(ring, KTile(begin, n), n, range(ring.pieces if n < self.stages - 1 else ring.early))
                fx.rocdl.sched_barrier(0)
        queues: list[list[Any]] = [[] for _ in self._staged]
        held: list[list[Any]] = [[] for _ in self._held]
        loads = 0
        for t in range(-max([self.ahead - self.tile_ahead, *(source.reach for source in self._held)]), 0):
            self.tally.take()
            self._hold(KTile(begin, t), held, range(-t, self.tiles - t))
            loads += self.tally.take().vmem
            if loads or t == -1:
                fx.rocdl.sched_barrier(0)
            for when in PHASES:
                self._start(KTile(begin, t), when, queues, range(-t, self.tiles - t))
            fx.rocdl.sched_barrier(0)
        for source, queue in zip(self._staged, queues, strict=True):
            for n in range(min(source.lead, self.tiles)):
                self._commit(source, queue, n)
        begun = min(self.stages, self.tiles)
        for ring in self._rings:
            missing = ring.pieces - ring.early if begun == self.stages > 1 else 0
            self._wait(ring, max((begun - ring.lead) * ring.pieces - missing, 0), loads)
        self._meet()
        first = KTile(begin)
        if not self.tile_ahead:
            return [self.products.zero(), held, queues, self._fragments(first, _first(held), 1)]
        self._begin(first, self.tiles - 1, queues)
        fragments = self._fragments(first, _first(held), self.products.parts)
        self._turn(first, self.tiles - 1, queues, loads)
        self._meet(SECOND)
        return [self.products.zero(), held, queues, fragments]

    def _fragments(self, t: KTile, held: list[Any], parts: int) -> list[Any]:
        """Those of the first parts of tile t, for which this is held."""
        ready = self.products.ready(held)
        return [self.products.read(self._stage(t), part, None if part else ready) for part in range(parts)]

    def _multiply(self, acc: Any, multiply: Multiply, stage: Any, fragments: list[Any], parts: int) -> tuple[Any, Any]:
        """Multiply the first parts of a tile. What is not there yet of its fragments is read a part ahead."""
        for part in range(parts):
            if part + 1 == len(fragments) < self.products.parts:
                fragments = [*fragments, self.products.read(stage, part + 1)]
            acc = multiply(acc, part, fragments[part])
        return acc, fragments

    def _step(self, state: Any, t: KTile, left: int) -> Any:
        """Multiply tile t, while those of the `left` that follow it are on their way. The last part is multiplied while
        the first of the next tile is read behind the barrier, or between its halves."""
        acc, held, queues, fragments = state
        queues, parts = [list(queue) for queue in queues], self.products.parts
        stage, last, waiting = self._stage(t), parts - 1, [list(tiles) for tiles in held]
        multiply = self.products.of(t, stage, _first(held), False)
        self.tally.take()
        self._hold(t, waiting, range(left + 1))
        waiting = [tiles[1:] for tiles in waiting]
        held = _first(waiting)
        loads = self.tally.counts["vmem"]
        read, left = t.after(self.tile_ahead), left - self.tile_ahead  # the tile that LDS is about
        self._begin(read, left, queues)
        if self.loads_first:
            self.tally.take()
            fx.rocdl.sched_barrier(0)
        following = self._fragments(read, held, parts) if self.tile_ahead else []
        acc, fragments = self._multiply(acc, multiply, stage, fragments, last)
        if self.beforehand and not self._split:
            following = self._fragments(t.after(1), held, 1)
            acc = multiply(acc, last, fragments[last])
            self._turn(t, left, queues, loads)
            return [acc, waiting, queues, following]
        ready = None if self.tile_ahead else self.products.ready(held)
        self._turn(read, left, queues, loads)
        if self.tile_ahead:
            fx.rocdl.sched_barrier(0)  # the last part would come before the half of the barrier
        else:
            following = [self.products.read(self._stage(t, 1), 0, ready)]
            self._commit_next(t, True, left, queues)
            self._start(t, "end", queues, range(left + 1))
        acc = multiply(acc, last, fragments[last])
        self._hints(1)
        self._meet(SECOND)
        if self._split:
            self._copy_behind(read, left)
        return [acc, waiting, queues, following]

    def _turn(self, t: KTile, left: int, queues: list[list[Any]], loads: int) -> None:
        """Finish what goes to LDS before the barrier, and pass it, or its first half: behind it the next tile is
        readable, and the stage of this one free."""
        if self.stages == 1:
            self._meet()
            self._copy_behind(t, left)
        self._commit_next(t, False, left, queues)
        self._start(t, "turn", queues, range(left + 1))
        self._hints(0)
        for ring in self._rings:
            # Tiles whose copies are younger than those of the one that is to be there.
            later = min(self.stages - 1, left) - ring.lead
            # The last copies of that may be younger than the loads of this one.
            after = later > 0 or (later == 0 and ring.early == ring.pieces)
            self._wait(ring, max(later, 0) * ring.pieces, loads if after else 0)
        if (t.further + 1) % self.every == 0:
            self._meet(FIRST)
        if self.stages > 1 and not self._split:
            self._copy_behind(t, left)

    def _finish(self, state: Any, t: KTile) -> Any:
        """Multiply the last tile: nothing follows."""
        acc, held, _, fragments = state
        stage = self._stage(t)
        multiply = self.products.of(t, stage, _first(held), True)
        self.tally.take()
        acc, _ = self._multiply(acc, multiply, stage, fragments, self.products.parts)
        self.tally.take()
        return acc

    def _hints(self, which: int) -> None:
        """The order of what was traced since the last hints."""
        counts = self.tally.take()
        if self.orders is not None and counts.mfma:
            self.orders[which](counts).emit(counts)
        if self.orders is not None or self._rings:  # waits for copies count what is started after this point
            fx.rocdl.sched_barrier(0)
