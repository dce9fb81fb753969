"""Rows of any place of a matrix on their way to LDS, beyond what :class:`..parts.operand.Rows` gathers: by 64-bit
addresses, or by the tensor moves of gfx1250."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import flydsl.expr as fx
from flydsl.expr.rocdl import tdm_ops

from ..parts.index import mod
from ..parts.lane import Lane
from ..parts.mainloop import KTile, Ring
from ..parts.memory import WORDS, pointer, read_at
from ..parts.operand import Fragments, Rows
from ..parts.tensor_tile import WORD_BYTES, TensorTile
from ..parts.tile import CHUNK_BYTES, RowTile

__all__ = ["GatheredRows", "WideRows"]

MOVED_ROWS = 8  # of a gather


class WideRows(Rows):
    """Gathered rows of a matrix of any size, by 64-bit addresses; arguments as of :class:`..parts.operand.Rows`
    with `row_of`.

    Rows that do not exist are others that do, since nothing bounds the addresses: nothing may be made of them.
    """

    def __init__(self, data: Any, tile: RowTile, stages: Sequence[Any], lane: Lane, *, row_bytes: int, rows_total: Any,
                 row_of: Callable[[Any], Any], ragged: bool = False, place: Callable[[Any], Any]) -> None:
        self.tile, self.stages, self._lane, self.stride = tile, stages, lane, row_bytes // 4
        self._ragged, self._wide = ragged, []
        for i in range(tile.loads):
            row, chunk = tile.part(lane.thread, i)
            source = row_of(row)
            start = fx.Int64((source < rows_total).select(source, 0)) * self.stride
            self._wide.append((pointer(data, fx.Int32) + start, place(chunk)))

    def fetch(self, t: KTile) -> list[Any]:
        """Start loading a tile; past the end of a row, what lies at its end, for which the weights are zero."""
        out = []
        for start, place in self._wide:
            at = t.index * self.tile.row_words + place
            at = (at < self.stride).select(at, self.stride - WORDS) if self._ragged else at
            out.append(read_at(start + at))
        return out


class GatheredRows:
    """Rows of any place of a matrix on their way to a ring of stages of LDS: each wave moves a share of them,
    ``MOVED_ROWS`` at a time by their numbers. Rows that do not exist, also negative ones, and what is past the end of
    a row read as zero.

    Args:
        data: pointer to words; `rows` rows of `stride` bytes.
        row_of: ``row_of(i)`` is the row of the matrix that row i of the tile is.
        ring: LDS of `stages` tiles; a tile is there two before it is multiplied.
        waves: of the workgroup.
    """

    def __init__(self, tile: TensorTile, data: Any, rows: Any, stride: int, row_of: Callable[[Any], Any], ring: Any,
                 stages: int, waves: int, lane: Lane) -> None:
        self._tile, self._words, self._ring, self._stages = tile, stride // WORD_BYTES, ring, stages
        share = tile.rows // waves
        first = lane.wave * share
        mine, self._moves = row_of(first + mod(lane.lane, share)), []
        for row in range(0, share, MOVED_ROWS):
            numbers = [fx.rocdl.readlane(fx.T.i32, mine, fx.Int32(i)) for i in range(row, min(row + MOVED_ROWS, share))]
            self._moves.append(tdm_ops.make_tensor_gather_descriptor(
                data, ring + (first + row) * (tile.pitch // WORD_BYTES), numbers, tile.row_bytes // WORD_BYTES,
                self._words, rows, self._words, WORD_BYTES, *tile.padding))

    @property
    def source(self) -> Ring:
        """For the main loop, which knows the numbers of all stages."""
        count = len(self._moves)
        return Ring(self.issue, count, count, fx.rocdl.s_wait_tensorcnt, vector=False, lead=2)

    def fragments(self, lane: Lane, start: Any, spread: int = 1) -> Fragments:
        """Fragments of a lane: those of tile 0 begin with row `start`; a lane group has `spread` chunks side by side.
        """
        first = (lane.row + start) * self._tile.pitch + lane.group * (spread * CHUNK_BYTES)
        return self._tile.fragments(self._ring, self._tile.bytes, first, 16, spread=spread, stages=self._stages)

    def issue(self, t: KTile, stage: int, which: range) -> None:
        """Start the moves `which` of a tile to a stage."""
        first, shape = fx.Vector(self._moves[0].dgroup0, (4,), fx.Int32), self._shape(t)
        near = first.shuffle(first, [2, 3]).bitcast(fx.Int64)[0]  # with the bits that say what it is, above all
        far = fx.Vector.from_elements([near + fx.Int64(t.index * self._tile.row_bytes)], fx.Int64).bitcast(fx.Int32)
        words = [first[0], first[1] + stage * self._tile.bytes, far[0], far[1]]
        for i in which:
            # One after the other in the same registers: there are not as many as stages times moves.
            start = fx.rocdl.scalars_here(fx.Vector.from_elements(words, fx.Int32))
            tdm_ops.tensor_load_gather(replace(self._moves[i], dgroup0=start, dgroup1=shape))
            words = [start[0], start[1] + MOVED_ROWS * self._tile.pitch, start[2], start[3]]

    def _shape(self, t: KTile) -> Any:
        """The group that says how large a tile is; past the end of a row nothing is left of it."""
        shape, words = fx.Vector(self._moves[0].dgroup1, (8,), fx.Int32), self._tile.row_bytes // WORD_BYTES
        if self._words % words == 0:
            return shape
        left = fx.max(self._words - t.index * words, 0)
        sizes = [shape[0], left << 16, shape[2] & -(1 << 16) | left >> 16, *(shape[i] for i in range(3, 8))]
        return fx.Vector.from_elements(sizes, fx.Int32)
