"""How a tile comes into its stage: through registers, directly into LDS, by the tensor data mover, into registers.

A producer is made of functions of the tile number (run-time or static) and of the numbers of a stage (static unless the
pipeline is rolled) or of a set of registers (static). What they start is counted while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._target import copies_to_lds, require_feature, target_arch, target_row
from ..rocdl.universal import s_wait_tensorcnt
from ..rocdl.waits import s_wait_asynccnt, s_waitcnt

_LARGEST = {"vm": 63, "tensor": 63, "async": 63}  # of the counters; waiting for fewer is always right


def wait_for(counter: str, left: int) -> None:
    """Wait until at most `left` operations of a counter are in flight."""
    left = min(left, _LARGEST[counter])
    if counter == "tensor":
        s_wait_tensorcnt(left)
    elif counter == "async":
        s_wait_asynccnt(left)
    else:
        s_waitcnt(vmcnt=left)


@dataclass(frozen=True)
class Staged:
    """Global memory to registers, then to LDS.

    Args:
        load: ``load(tile, slot)`` starts loading a tile into a set of registers.
        store: ``store(slot, stage)`` writes a set to a stage of LDS. The compiler waits for the loads.
        reach: number of sets: tiles that are on the way at once. Loads of a tile start so many steps ahead.
        pieces: of which a tile is loaded, each where the body says `Step.start`: ``load(tile, slot, piece)``. 0: at the
            beginning of the step. A body that stores them one by one, too (`Step.store`), calls ``store(slot, stage,
            piece)``.
        refilled: loads of a tile start two steps ahead with one set of registers: the body stores each piece of the
            next tile before it starts the same of the tile behind it. Each load then has a whole step to arrive, and
            there is always about a tile on the way.
    """

    load: Callable[..., Any]
    store: Callable[..., Any]
    reach: int = 1
    pieces: int = 0
    refilled: bool = False

    @property
    def counter(self) -> str | None:
        """None: the compiler waits, by registers."""
        return None

    def ahead(self, stages: int) -> int:
        """Tiles between the start of a load and its use."""
        if self.reach < 1:
            raise ValueError(f"Staged: reach must be 1 or more, got {self.reach}")
        if self.refilled and (self.reach > 1 or not self.pieces or stages < 2):
            raise ValueError("Staged: registers are refilled in pieces, one set of them, with two stages or more; got "
                             f"reach {self.reach}, {self.pieces} pieces and {stages} stages")
        return self.reach + self.refilled

    def period(self, stages: int) -> int:
        """Tiles after which registers are used again."""
        return self.reach

    def start(self, tile: Any, number: Any, stages: int, piece: int) -> None:
        """Load a tile, or a piece of it, into registers."""
        self.load(tile, self._slot(number), *([piece] if self.pieces else []))

    def finish(self, number: Any, stages: int, piece: int | None = None) -> None:
        """Write a tile, or a piece of it, from registers to its stage of LDS."""
        self.store(self._slot(number), number % stages, *([] if piece is None else [piece]))

    def _slot(self, number: Any) -> int:
        """Set of registers of a tile; of several only where its number is known."""
        return number % self.reach if self.reach > 1 else 0


@dataclass(frozen=True)
class _Ring:
    """A producer whose function starts moving a tile to its stage, where it ends up by itself."""

    move: Callable[..., Any]

    @property
    def pieces(self) -> int:
        """Of which a tile is moved, 0: as a whole."""
        return 0

    @property
    def counter(self) -> str | None:
        """Counter of the operations in flight, None where the compiler waits by registers."""
        return None

    def ahead(self, stages: int) -> int:
        """Tiles between the start of a copy and its use. ValueError for fewer than two stages."""
        if stages < 2:
            raise ValueError(f"{type(self).__name__} needs two stages or more: one is read while another is filled")
        return stages - 1

    def period(self, stages: int) -> int:
        """Tiles after which a stage is used again."""
        return stages

    def start(self, tile: Any, number: Any, stages: int, piece: int) -> None:
        """Start the copy of a tile, or of a piece of it, to its stage."""
        self.move(tile, number % stages, *([piece] if self.pieces else []))

    def finish(self, number: Any, stages: int) -> None:
        pass


@dataclass(frozen=True)
class Registers(_Ring):
    """Global memory to registers, where it stays: an operand that no other wave needs.

    Waits of other producers do not count these loads, which the compiler may move: beside `Direct` copies they are
    waited for together with those.

    Args:
        move: ``load(tile, stage)`` starts loading a tile into a set of registers, one a stage.
    """


@dataclass(frozen=True)
class Direct(_Ring):
    """Global memory directly to LDS, without registers.

    On gfx942 (32 bits a lane) and gfx950 (128) by copy atoms (`BufferCopyLDS` and the like), counted by the vector
    memory counter; on gfx1250 by `fx.rocdl.async_copy`, counted by its own.

    Args:
        move: ``copy(tile, stage)`` starts the copies of a tile to a stage.
        early: start them one step earlier, behind the barrier that frees the stage. A tile whose copies are split
            into an early producer and another one is spread over the whole of a step.
        pieces: of which a tile is copied, each where the body says `Step.start`: ``copy(tile, stage, piece)``. 0: at
            the beginning of the step.
    """

    early: bool = False
    pieces: int = 0

    @property
    def counter(self) -> str | None:
        """Counter of the copies in flight: their own, or that of vector memory."""
        return "async" if target_row().has("async_lds_copy") else "vm"

    def ahead(self, stages: int) -> int:
        """Tiles between the start of a copy and its use. ValueError for a target without direct copies."""
        if not copies_to_lds():
            raise ValueError(f"Direct copies to LDS are of gfx9 and gfx1250, the target is {target_arch()}: use Staged")
        return super().ahead(stages)


@dataclass(frozen=True)
class TensorMove(_Ring):
    """Global memory to LDS by the tensor data mover (gfx1250), counted by its own counter. Arguments as of `Direct`."""

    early: bool = False
    pieces: int = 0

    @property
    def counter(self) -> str | None:
        """Counter of the moves in flight."""
        return "tensor"

    def ahead(self, stages: int) -> int:
        """Tiles between the start of a move and its use. ValueError for a target without tensor moves."""
        require_feature("TensorMove", "tensor_data_mover", "; use Staged")
        return super().ahead(stages)


Producer = Staged | Registers | Direct | TensorMove
