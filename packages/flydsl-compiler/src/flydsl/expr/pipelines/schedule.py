"""`Pipeline`: the order of starts, waits, barriers and steps, in the prologue, the loop and the tail.

The tile of step t is in stage ``t % stages``. A producer starts tile ``t + ahead`` at the beginning of step t (`early`
ones behind the barrier of the step). At the *turn* of a step (`Step.advance`) the wave finishes and waits for its part
of the next tile and passes the barrier; from there on the next stage may be read and this one no longer.

What is started is logged in program order, so the count of a wait is the number of operations in the log after the
tile that is waited for. The log of the loop, of which one turn is traced, is that of its first turn: each turn starts
the same operations in the same order, and the prologue starts those of the turns before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import LazyModule
from flydsl.tracing.locations import dsl_loc_tracing

from ..arith import min as _min
from ..numeric import Int32, Numeric, as_numeric
from ..rocdl.universal import s_barrier, s_setprio, sched_barrier
from ..rocdl.utils import call_intrinsic
from .counts import started
from .producers import Direct, Producer, Registers, Staged, TensorMove, wait_for
from .waves import WaveGroups, barrier_arrive, barrier_signal, barrier_wait, fenced, lds_barrier, pinned

_flow = LazyModule("flydsl.control.flow")


def _number_of_tiles(tiles: Any) -> Any:
    """An int, or a run-time integer."""
    known = isinstance(tiles, (Numeric, ir.Value)) or (hasattr(tiles, "__index__") and not isinstance(tiles, bool))
    number = as_numeric(tiles) if known else None
    if number is None or not type(number).is_integer or type(number).width == 1:
        raise TypeError(f"the number of tiles is an int or an Int32, got {tiles!r}, a {type(tiles).__name__}")
    return int(number) if number.is_static() else number


Before = tuple[Producer, Callable[[], Any]]


@dataclass
class Pipeline:
    """A loop over tiles whose data is on the way while earlier tiles are computed.

    Args:
        tiles: number of tiles: an int, or a run-time Int32 of 1 or more. A kernel with fewer traps: put the loop into
            an ``if tiles > 0`` where there may be none.
        stages: tiles that have a place at once.
        producers: one or more of `Staged`, `Direct`, `TensorMove`, `Registers`.
        whole_turns: a run-time number of tiles is a multiple of the stages, and at least as many: the tail is then
            known, and starts nothing. A kernel for which it is not true traps. Otherwise the last steps start tiles
            that exist already (the number of the tile is clamped) so that the counts of the waits hold.
        rolled: the loop has one tile a turn instead of one a stage, and no tail of its own after a run-time number:
            less code, for bodies that are large as they are. `Step.stage`, and what functions of producers get as
            stage, are then Int32 known at run time. Not with `whole_turns`, `Registers` or a `reach` of more than 1.
        kept: 1: a tile stays in its stage for one more step, and so many fewer are on the way. A wave may `Step.arrive`
            before it has read its tile.
        groups: two groups of waves that take turns at `Step.turn`; the second runs one turn behind the first.
        specialised: ``(WaveGroups, n)``: group n only starts copies, the others only compute.

    Waves leave the loop without meeting: a barrier comes before something else takes the place of the stages in LDS.

    Raises:
        ValueError: the producers do not fit the stages or the target.
    """

    tiles: Any
    stages: int
    producers: Any  # one Producer or several are given; then a tuple
    whole_turns: bool = False
    rolled: bool = False
    kept: int = 0
    groups: WaveGroups | None = None
    specialised: tuple[WaveGroups, int] | None = None
    _log: list[tuple[int | None, str, int]] = field(default_factory=list, repr=False)
    _guarded: Any = field(default=None, repr=False)
    _begun: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.producers, (Staged, Direct, TensorMove, Registers)):
            self.producers = (self.producers,)
        self.producers = tuple(self.producers)
        if isinstance(self.stages, bool) or not isinstance(self.stages, int) or self.stages < 1:
            raise ValueError(f"stages must be an int of 1 or more, got {self.stages!r}")
        if self.kept and (self.kept != 1 or self.stages < 3):
            raise ValueError(f"kept is 0, or 1 of three stages or more, got {self.kept} of {self.stages}")
        if not self.producers:
            raise ValueError("a pipeline has at least one producer")
        self.ahead = {id(p): p.ahead(self.stages - self.kept) for p in self.producers}
        if self.rolled and any(isinstance(p, Registers) or getattr(p, "reach", 1) > 1 for p in self.producers):
            raise ValueError("a rolled pipeline has one set of registers: sets have numbers that must be known")
        if self.rolled and self.whole_turns:
            raise ValueError("a rolled pipeline has no whole turns: a turn is one tile")
        self.unroll = 1 if self.rolled else math.lcm(self.stages, *(p.period(self.stages) for p in self.producers))
        staged = any(isinstance(p, Staged) for p in self.producers)
        if staged and (self.groups is not None or self.specialised is not None):
            raise ValueError("waves that take turns or are specialised need Direct copies or TensorMove: with Staged "
                             "every wave stores to LDS between its products")
        if any(p.pieces for p in self.producers) and (
                self.groups is not None or self.specialised is not None or any(p.early for p in self._direct())):
            raise ValueError("tiles in pieces need waves that all pass the turn together, and no early copies")
        if any(p.early for p in self._direct()) and (self.groups is not None or self.specialised is not None):
            raise ValueError("early copies need waves that all pass the turn together: no groups, no specialised waves")
        if self.groups is not None and self.groups.count != 2:
            # A step has two barriers: what is waited for before the first is complete behind the second only if no
            # group is more than one barrier behind.
            raise ValueError(f"two groups take turns in a pipeline, got {self.groups.count}")
        self.tiles = _number_of_tiles(self.tiles)

    def _direct(self) -> list[Direct | TensorMove]:
        return [p for p in self.producers if isinstance(p, (Direct, TensorMove))]

    # ------------------------------------------------------------------ starting and waiting

    def _start(self, producer: Producer, tile: Any, number: int) -> None:
        """Start a tile; `number` is its position in the log and names its stage."""
        for piece in range(producer.pieces or 1):
            self._start_piece(producer, tile, number, piece)
            if getattr(producer, "refilled", False):
                sched_barrier(0)  # in the order of the loop, whose waits count what is on the way behind a piece

    def _place(self, tile: Any, number: int) -> Any:
        """What names the stage of a tile: its position in the log or, rolled, its number as an Int32."""
        if not self.rolled:
            return number
        return Int32(tile if number >= 0 else tile % self.stages)

    def _start_piece(self, producer: Producer, tile: Any, number: int, piece: int) -> None:
        place = self._place(tile, number)
        if not self.is_static and not self.whole_turns:
            tile = _min(as_numeric(tile), self.tiles - 1)
        counts = started(lambda: producer.start(Int32(tile), place, self.stages, piece))
        if producer.counter is not None and not counts.get(producer.counter):
            raise ValueError(f"{type(producer).__name__}: its function starts no copy of that sort (without predicate "
                             "and branch), so no wait could be derived")
        for counter, n in counts.items():
            self._log.append((number if counter == producer.counter else None, counter, n))

    def _started(self, producer: Producer) -> int:
        """Tiles of a producer that step 0 finds started."""
        return self.ahead[id(producer)] + (1 if getattr(producer, "early", False) else 0)

    def _wait(self, number: int) -> None:
        """Wait for this wave's part of a tile: no more in flight than what was started after it."""
        for counter in {p.counter for p in self.producers if p.counter is not None}:
            last = max((i for i, (tile, c, _) in enumerate(self._log) if c == counter and tile == number), default=None)
            if last is None:
                raise ValueError("internal: a tile is waited for before it is started")
            wait_for(counter, sum(n for _, c, n in self._log[last + 1 :] if c == counter))

    def _prologue(self, meanwhile: Callable[[], Any] | None, before: Before | None) -> None:
        begun = max(self._started(p) for p in self.producers)
        if before is not None:
            self._start_before(before[0], meanwhile)
        for number in range(begun):
            # In the order of the loop: a tile's early copies start before the others of the same tile.
            for early in (True, False):
                for producer in self.producers:
                    is_early = bool(getattr(producer, "early", False))
                    if is_early is early and number < self._started(producer) and self._exists(number):
                        self._only_producers(functools.partial(self._start, producer, number, number))
            if number == 0:
                if before is not None:
                    self._wait(-1)
                    fenced(lds_barrier)
                    before[1]()
                elif meanwhile is not None:
                    meanwhile()
                self._finish_first(refilled=True)  # its registers are those of the next tile
            sched_barrier(0)
        self._finish_first(refilled=False)
        self._only_producers(lambda: self._wait(0))
        fenced(lds_barrier)

    def _start_before(self, producer: Producer, meanwhile: Callable[[], Any] | None) -> None:
        """Tile -1 on its way to the last stage, as number -1 of the log."""
        if self.specialised is not None or self.groups is not None:
            raise ValueError("what is used before the loop needs waves that all pass it together: no groups, no "
                             "specialised waves")
        if self.stages < 2 or any(self._started(p) >= self.stages for p in self._direct()):
            raise ValueError("what is used before the loop has the last of two stages or more, and no early copies")
        for piece in range(producer.pieces or 1):
            self._start_piece(producer, -1, -1, piece)
        if meanwhile is not None:
            meanwhile()
        if isinstance(producer, Staged):
            producer.finish(self._place(-1, -1), self.stages)

    def _finish_first(self, refilled: bool) -> None:
        for producer in self.producers:
            if isinstance(producer, Staged) and producer.refilled is refilled:
                producer.finish(self._place(0, 0), self.stages)

    @dsl_loc_tracing
    def start(self, meanwhile: Callable[[], Any] | None = None, before: Before | None = None) -> None:
        """The prologue: starts the first tiles and waits for tile 0. The loop does it unless it has been done: call it
        to read from stage 0 before the loop, for a body that reads a part ahead.

        Args:
            meanwhile: called where the first tile has been started: what it loads comes behind this tile, before the
                next.
            before: ``(producer, use)``. Tile -1 of the producer, which brings tiles to LDS, is the first to be started,
                to the last stage; ``use()`` may read it, and runs while tile 0 is on the way, before the next starts.
        """
        if self._begun:
            raise ValueError("the pipeline has been started already")
        self._begun = True
        self._log.clear()
        if not self.is_static:
            self._check_tiles()
        self._prologue(meanwhile, before)
        if self.groups is not None:
            self.groups.stagger()

    def _check_tiles(self) -> None:
        """Stop a launch whose number of tiles is not what was said, rather than load or leave out what it must not."""
        wrong = self.tiles < (self.unroll if self.whole_turns else 1)
        if self.whole_turns:
            wrong = wrong | (self.tiles % self.unroll != 0)
        _flow.scf_if_dispatch(wrong, lambda: call_intrinsic("llvm.trap", []))

    @property
    def _starts_late(self) -> bool:
        """Whether pieces may start behind the arrival: it waits for those of earlier steps, none are in registers."""
        direct = self._direct()
        return bool(self.kept) and len(direct) == len(self.producers) and all(self._started(p) > 1 for p in direct)

    def _exists(self, tile: int) -> bool:
        return not self.is_static or tile < self.tiles

    @property
    def is_static(self) -> bool:
        """Whether the number of tiles is known while tracing."""
        return isinstance(self.tiles, int)

    def _only_producers(self, body: Callable[[], Any]) -> None:
        """Run `body` in the waves that start copies: all, or one specialised group."""
        if self.specialised is None:
            body()
            return
        groups, which = self.specialised
        groups.only(which, lambda: body() and None)

    # ------------------------------------------------------------------ the loop

    def run(self, body: Callable[[Step, list[Any]], list[Any]], loop: Callable[..., list[Any]],
            guarded: Callable[..., list[Any]], values: list[Any]) -> list[Any]:
        """Trace the pipeline. `loop` and `guarded` build a run-time loop and an `if` around bodies of state."""
        if self.is_static and self.tiles < 1:
            return values
        self._guarded = guarded
        if not self._begun:
            self.start()
        self._begun = False
        turn, tiles = self.unroll, self.tiles

        def step(tile: Any, number: int, values: list[Any], left: int | None = None) -> list[Any]:
            return Step(self, Int32(tile), number, left).run(body, values)

        def looped(turns: Any, values: list[Any]) -> list[Any]:
            def whole(index: Any, values: list[Any]) -> list[Any]:
                for j in range(turn):
                    values = step(Int32(index) * turn + j, j, values)
                return values

            return loop(0, turns, whole, values)

        # In the log the loop runs once, so what follows it has the numbers from `turn` on.
        if self.is_static:
            turns = max(tiles - max(self._started(p) for p in self.producers), 0) // turn
            done = turns * turn if turns > 1 else 0
            values = looped(turns, values) if done else values
            for tile in range(done, tiles):
                values = step(tile, tile - done + (turn if done else 0), values, tiles - 1 - tile)
        elif self.whole_turns:
            values = looped(tiles // turn - 1, values)
            for j in range(turn):
                values = step(tiles - turn + j, turn + j, values, turn - 1 - j)
        else:
            values = looped(tiles // turn, values)
            done = tiles // turn * turn
            for j in range(turn - 1):
                values = guarded(done + j < tiles, functools.partial(step, done + j, turn + j), values)
        if self.groups is not None:
            self.groups.join()
        if not self.is_static and not self.whole_turns:
            # What was started beyond the end must not outlive the stage that it writes to.
            for counter in {p.counter for p in self.producers if p.counter is not None}:
                wait_for(counter, 0)
        return values


class Step:
    """One tile of a pipeline, as its loop sees it.

    Attributes:
        tile: number of the tile, Int32.
        stage: where it is, a static int; in a rolled pipeline an Int32.
        last: whether it is known that no tile follows.
    """

    def __init__(self, pipeline: Pipeline, tile: Any, number: int, left: int | None = None) -> None:
        """`left` is the number of tiles that follow, where it is known."""
        self._pipeline, self._number, self._left = pipeline, number, left
        self.tile, self.stage, self.last = tile, pipeline._place(tile, number) % pipeline.stages, left == 0
        self._advanced = self._arrived = False
        self._stored: set[int | None] = set()  # pieces, None: as a whole
        self._pieces: set[int] = set()

    def run(self, body: Callable[[Step, list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """The whole step: starts, the user's body, and what the body left to do."""
        pipeline = self._pipeline
        if pipeline.specialised is not None:
            return self._run_specialised(body, values)
        self._starts(early=False)
        with pinned(self._starts_for_the_turn()):
            values = body(self, values)
        if not self._advanced:
            if pipeline.groups is not None:
                raise ValueError("in a pipeline with groups the products of each step are in `with step.turn():`")
            self.advance()
        return values

    def _starts(self, early: bool) -> None:
        pipeline = self._pipeline
        for producer in pipeline.producers:
            if bool(getattr(producer, "early", False)) is not early:
                continue
            ahead = pipeline._started(producer)
            if not producer.pieces and (self._left is None or self._left >= ahead):
                pipeline._start(producer, self.tile + ahead, self._number + ahead)

    def _starts_for_the_turn(self) -> bool:
        """Whether this step has started what its own turn waits for."""
        pipeline = self._pipeline
        return not self.last and any(pipeline._started(p) == 1 and not p.pieces and not getattr(p, "early", False)
                                     for p in pipeline.producers)

    @dsl_loc_tracing
    def start(self, piece: int) -> None:
        """Start a piece of the tile that this step starts, of the producers that have pieces: before the wave arrives
        or, in a pipeline that keeps a tile and passes no registers, before it advances, unless it waits for this tile.

        ValueError if there is no such piece, it has been started, or it would replace what has not been stored.
        """
        pipeline = self._pipeline
        over = self._advanced or self._arrived and not pipeline._starts_late
        if piece not in range(self._pieces_due()) or piece in self._pieces or over:
            raise ValueError(f"piece {piece} of {self._pieces_due()} cannot be started: each is started once, before "
                             "the step advances")
        self._pieces.add(piece)
        for producer in pipeline.producers:
            if getattr(producer, "refilled", False) and not self._stored & {piece, None}:
                raise ValueError(f"piece {piece} cannot be loaded yet: its registers hold that of the next tile, which "
                                 "is stored first")
            ahead = pipeline._started(producer)
            if piece < producer.pieces and (self._left is None or self._left >= ahead):
                pipeline._start_piece(producer, self.tile + ahead, self._number + ahead, piece)

    def _pieces_due(self) -> int:
        return max(p.pieces for p in self._pipeline.producers)

    @dsl_loc_tracing
    def store(self, piece: int | None = None) -> None:
        """Write the next tile of `Staged` producers to LDS here, among the products, rather than at the turn: all,
        or a piece of producers with pieces.

        ValueError with one stage, which is still read here, and for what has been stored.
        """
        pipeline = self._pipeline
        if pipeline.stages == 1:
            raise ValueError("with one stage the next tile cannot be stored before the turn")
        known = piece is None or piece in range(self._pieces_due())
        if self._arrived or not known or self._stored & {piece, None} or piece is None and self._stored:
            raise ValueError("the next tile has been stored already" if known else f"there is no piece {piece}")
        self._stored.add(piece)
        if not self.last:
            for producer in pipeline.producers:
                if isinstance(producer, Staged) and (piece is None or piece < producer.pieces):
                    producer.finish(pipeline._place(self.tile + 1, self._number + 1), pipeline.stages, piece)

    @dsl_loc_tracing
    def advance(self) -> None:
        """The turn: from here on the next tile's stage may be read, and this one's no longer.

        Called where the last fragments of this tile have been read; else at the end of the step. Nothing is moved
        across it: matrix instructions stay where they are.
        """
        self._refuse_groups()
        if not self._arrived:
            self._reach(lds_barrier)
        elif self._advanced:
            raise ValueError("this step has advanced already")
        elif not self.last:
            fenced(barrier_wait)
        self._leave()

    @dsl_loc_tracing
    def arrive(self) -> None:
        """The first half of the turn (gfx12): this wave has read all of this tile (with one that is `kept`, all of the
        tile before) and waits for its part of the next.

        `advance`, here or at the end of the step, is the second half: in between the wave goes on while others arrive.

        ValueError on gfx9, whose barrier is one instruction.
        """
        self._refuse_groups()
        pipeline = self._pipeline
        written = not pipeline.kept or any(isinstance(p, Staged) for p in pipeline.producers)
        self._reach(barrier_arrive if written else barrier_signal)

    def _refuse_groups(self) -> None:
        if self._pipeline.groups is not None:
            raise ValueError("in a pipeline with groups `with step.turn():` advances")

    def _reach(self, barrier: Callable[[], None]) -> None:
        """The turn up to its barrier."""
        if self._arrived:
            raise ValueError("this step has advanced already")
        if self._pipeline.specialised is not None:
            raise ValueError("specialised waves meet at the end of the step: its body cannot advance")
        self._arrived = True
        if not self._pipeline._starts_late:
            self._require_started()
        if self._stored not in (set(), {None}, set(range(self._pieces_due()))):
            raise ValueError(f"the body stored {len(self._stored)} of {self._pieces_due()} pieces of the next tile")
        if self.last:
            return
        pipeline, following = self._pipeline, self._number + 1
        sched_barrier(0)
        pipeline._wait(following)
        staged = [] if self._stored else [p for p in pipeline.producers if isinstance(p, Staged)]
        if staged and pipeline.stages == 1:
            lds_barrier()
        for producer in staged:
            producer.finish(pipeline._place(self.tile + 1, following), pipeline.stages)
        barrier()
        sched_barrier(0)

    def _require_started(self) -> None:
        if len(self._pieces) != self._pieces_due():
            raise ValueError(f"the body started {len(self._pieces)} of {self._pieces_due()} pieces of the next tile")

    def _leave(self) -> None:
        """What the turn does behind its barrier."""
        self._require_started()
        self._advanced = True
        if not self.last:
            self._starts(early=True)

    @contextmanager
    def turn(self, priority: int = 1) -> Iterator[None]:
        """The part of the step in which this group of waves has the matrix unit, at a raised priority.

        For a pipeline with `groups`: what this tile needs from LDS has been read. While one group is in its turn the
        others read and start copies. It includes `advance`.
        """
        if self._pipeline.groups is None:
            raise ValueError("turns are of pipelines with groups=WaveGroups(n)")
        if self.last:
            self._arrived = True
            fenced(lds_barrier)
        else:
            self._reach(lds_barrier)
        self._leave()
        s_setprio(priority)
        yield
        sched_barrier(0)
        s_setprio(0)
        fenced(s_barrier)

    def _run_specialised(self, body: Callable[[Step, list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        pipeline = self._pipeline
        assert pipeline.specialised is not None
        groups, which = pipeline.specialised

        def produce() -> None:
            self._starts(early=False)
            if not self.last:
                pipeline._wait(self._number + 1)

        groups.only(which, produce)
        values = pipeline._guarded(groups.index != which, lambda values: body(self, values), values)
        fenced(lds_barrier)
        return values


def pipeline_range(pipeline: Pipeline) -> Any:
    """``for step in fx.pipeline_range(pipeline)``: one `Step` a tile. What the body changes is carried as in ``range``.

    Only as the iterable of a `for` of traced code.
    """
    raise TypeError("pipeline_range is the iterable of a `for` statement in a kernel or a helper (@flyc.jit)")
