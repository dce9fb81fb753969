"""Tiles of rows on their way to LDS, and the stages that they pass by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..parts.memory import Buffer, lds_read, lds_write, move_rows
from .places import TurnedTile
from .rows import DenseRows, Rows
from .weave import Work

__all__ = ["PassingStatistic", "PassingTile", "PassingTiles"]


class Stages:
    """Places in LDS of what passes by, an array each, so that a copy to one cannot alias a read of another.

    Args:
        memory: allocator of LDS.
        size: elements of a place; `stages`: how many there are.
        rolled: they are parts of one array, whose number is known at run time.
    """

    def __init__(self, memory: Any, element: Any, size: int, stages: int, rolled: bool) -> None:
        array: Any = fx.Array
        self._size, self._rolled, self._bits = size, rolled, [1 << i for i in range((stages - 1).bit_length())]
        count, each = (1, stages * size) if rolled else (stages, size)
        self._arrays = [memory.allocate(array[element, each, 128]).peek().ptr for _ in range(count)]

    def __getitem__(self, stage: Any) -> Any:
        """Where a place begins."""
        if not self._rolled:
            return self._arrays[stage]
        # Chosen by the bits: a product with a scalar and its sum with a lane's place would be a quarter as fast.
        return self._arrays[0] + sum(((fx.Int32(stage) & bit) == 0).select(0, bit * self._size) for bit in self._bits)


class StagedTile:
    """A tile on its way to its places in LDS, in so many pieces of each thread.

    Args:
        tile: how it lies there.
        memory, stages, rolled: of :class:`Stages`.
    """

    def __init__(self, memory: Any, element: Any, tile: Any, stages: int, rolled: bool) -> None:
        self.tile, self.places = tile, Stages(memory, element, tile.size, stages, rolled)
        self.pieces, self._element = tile.loads, element
        self._thread, self._wave = fx.thread_idx.x, fx.wave_index()
        self._held: dict[int, list[Any]] = {}

    def fetch(self, source: Rows, first: Any, piece: int) -> None:
        """Start loading a piece of the rows from `first` on into registers."""
        chunks = self.tile.fetch(source, first, self._thread, piece)
        if piece not in self._held:
            self._held[piece] = [fx.make_rmem_tensor(chunk.numel, chunk.dtype) for chunk in chunks]
        for held, chunk in zip(self._held[piece], chunks, strict=True):
            held.store(chunk)

    def commit(self, stage: int, piece: int) -> None:
        """Write a piece that was fetched to LDS."""
        chunks = [chunk.load().to(self._element) for chunk in self._held[piece]]
        self.tile.commit(self.places[stage], self._thread, piece, chunks)

    def copy(self, source: DenseRows, first: Any, stage: int, piece: int) -> None:
        """Start copying a piece of the rows from `first` on to LDS, without registers (gfx950, gfx1250)."""
        self.tile.copy(source, first, self.places[stage], self._thread, self._wave, piece)


class PassingTile:
    """A tile of rows that passes by, to be read along its rows, across them, or both.

    Args:
        tiles: of `tiles_of`: how it lies in LDS; a second one if it is stored twice.
        memory, element, stages, rolled: of :class:`StagedTile`.
    """

    def __init__(self, memory: Any, element: Any, tiles: Sequence[Any], stages: int, rolled: bool) -> None:
        self.staged = [StagedTile(memory, element, tile, stages, rolled) for tile in tiles]

    def along(self, stage: Any) -> Any:
        """(rows, columns) in LDS."""
        first = self.staged[0]
        return first.tile.view(first.places[stage])

    def across(self, stage: Any) -> Any:
        """(columns, rows) in LDS."""
        tile, start = self.staged[-1].tile, self.staged[-1].places[stage]
        return tile.view(start) if isinstance(tile, TurnedTile) else tile.view(start, True)


class PassingStatistic:
    """An f32 value of each row of a passing tile, on its way to stages of LDS: a thread moves one, and waves read them
    all. Each thread has a place, also those beyond the rows.

    Args:
        rows: of the tile; `threads`: of the workgroup, at least as many.
        memory, stages, rolled: of :class:`Stages`; tensor moves bring what is `rolled` (gfx1250).
    """

    pieces = 1

    def __init__(self, memory: Any, rows: int, threads: int, stages: int, rolled: bool) -> None:
        self._rows, self._threads, self._rolled = rows, threads, rolled
        self._places = Stages(memory, fx.Float32, threads, stages, rolled)
        self.staged = [self]
        self._held: Any = None

    def read(self, stage: Any) -> Callable[[Any, int], Any]:
        """``load(row, n)`` of `n` values from a row of the tile on."""
        return partial(lds_read, self._places[stage])

    def fetch(self, source: Buffer, first: Any, piece: int) -> None:
        """Start loading the values from `first` on into registers."""
        self._held = source.load(first + fx.thread_idx.x, 1)

    def commit(self, stage: Any, piece: int) -> None:
        """Write what was fetched to LDS."""
        lds_write(self._places[stage], fx.thread_idx.x, self._held)

    def copy(self, source: Buffer, first: Any, stage: Any, piece: int) -> None:
        """Start copying the values from `first` on to LDS, without registers (gfx950, gfx1250)."""
        if self._rolled:
            waves = self._threads // fx.num_warp_threads()
            return move_rows(source, source.count, 1, first, (self._rows, 1), 0, waves, self._places[stage])
        atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
        place = fx.make_view(self._places[stage] + fx.wave_index() * fx.num_warp_threads(), fx.make_layout(1, 1))
        fx.copy(atom, source.view(fx.thread_idx.x, 1), place, soffset=first)


@dataclass
class PassingTiles:
    """Tiles, and statistics of their rows, that pass by together.

    Attributes:
        sources: ``sources(step)``: where the rows of each come from, and the first of them.
        direct: producer that copies them without registers, or None.
        refilled: registers are loaded again as soon as they are stored, and loads have a whole step to arrive.
    """

    tiles: Sequence[PassingTile | PassingStatistic]
    sources: Callable[[Any], Sequence[tuple[Any, Any]]]
    direct: Any
    refilled: bool = False

    @property
    def pieces(self) -> int:
        """Of which they are loaded or copied."""
        return len(self._numbered)

    @property
    def _numbered(self) -> list[tuple[int, Any, int]]:
        """Each piece: which rows it is of, what it is staged by, and its number there."""
        return [(which, staged, i) for which, tile in enumerate(self.tiles) for staged in tile.staged
                for i in range(staged.pieces)]

    def producer(self) -> Any:
        """That of the pipeline over the steps."""
        if self.direct:
            return self.direct(self._copy, pieces=self.pieces)
        return fx.Staged(self._load, self._store, pieces=self.pieces, refilled=self.refilled)

    def starts(self, step: Any) -> list[Work]:
        """Starting what a step of that pipeline starts; nothing, if it is started behind what is stored."""
        return [] if self._refills else [Work(partial(step.start, piece)) for piece in range(self.pieces)]

    def stores(self, step: Any) -> list[Work]:
        """Storing what it stores; nothing, if no registers hold it."""
        def store(piece: int) -> None:
            step.store(piece)
            if self._refills:
                step.start(piece)

        return [] if self.direct else [Work(partial(store, piece)) for piece in range(self.pieces)]

    def beside(self, step: Any, halved: bool) -> tuple[tuple[list[Work], list[Work]], tuple[list[Work], list[Work]]]:
        """What is started and stored beside the first product of a step, and beside the second: half of each, or all
        of it is started beside the one and stored beside the other."""
        starts, stores = self.starts(step), self.stores(step)
        n, m = (len(starts) // 2, len(stores) // 2) if halved else (len(starts), 0)
        return (starts[:n], stores[:m]), (starts[n:], stores[m:])

    @property
    def _refills(self) -> bool:
        return self.refilled and not self.direct

    def _load(self, step: Any, _: Any, piece: int) -> None:
        which, staged, number = self._numbered[piece]
        staged.fetch(*self.sources(step)[which], number)

    def _store(self, _: Any, stage: int, piece: int | None = None) -> None:
        for _, staged, number in self._numbered if piece is None else [self._numbered[piece]]:
            staged.commit(stage, number)

    def _copy(self, step: Any, stage: int, piece: int) -> None:
        which, staged, number = self._numbered[piece]
        staged.copy(*self.sources(step)[which], stage, number)
