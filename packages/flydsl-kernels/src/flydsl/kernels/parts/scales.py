"""Scales along k on their way to registers: f32 ones of 128 k, that sums are multiplied by, and e8m0 ones of 32 k, that
the matrix instruction takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .index import cdiv, div, mod
from .lane import Lane
from .mainloop import Held, KTile
from .memory import Buffer

__all__ = ["WORD_K", "WORD_ROWS", "BlockScales", "PairedScales", "RowScales", "ScaleLines"]

WORD_K, WORD_ROWS = 256, 32  # of a word of scales in the order of ``e8m0_shuffle``
_EVERY_BYTE = 0x01010101
_SAME_LANE = 0xE4  # of v_mov_b32_dpp: quad_perm:[0,1,2,3]


@dataclass(frozen=True)
class ScaleLines:
    """f32 scales of rows, or of columns: `places` are the elements of `buffer` that a lane has of the first 128 k,
    `step` elements from the next, and `width` after each other."""

    buffer: Buffer
    places: Sequence[Any]
    step: Any
    width: int = 1


class BlockScales:
    """f32 scales of 128 k in registers of each lane: of its rows of A, and of its strips of columns.

    Args:
        rows, columns: where they are; `rows` those of `width` rows of tiles together.
        per_tile: of a tile of k.
        times: how often the columns' factors are repeated for all strips.
        together: tiles whose scales are loaded at once, where those of a line follow each other. The lanes of a load
            are in as many lines of memory, so that one load of several costs no more than one of one.
        share: ``share(t)`` is the tile of this wave, where several share k.
    """

    def __init__(self, rows: ScaleLines, columns: ScaleLines, per_tile: int, times: int = 1, together: int = 1,
                 share: Callable[[KTile], KTile] = lambda t: t) -> None:
        self._sides, self._width = (rows, columns), rows.width
        self._per_tile, self._times, self._together, self._share = per_tile, times, together, share

    @property
    def source(self) -> Held:
        """For the main loop."""
        loads = sum(len(side.places) for side in self._sides) * self._per_tile
        return Held(self._fetch, lambda t: loads if self._fresh(t) else 0)

    def _fresh(self, t: KTile) -> bool:
        return t.further % self._together == 0

    def _fetch(self, t: KTile, before: Any) -> list[Any]:
        """Start loading those of some tiles, of rows and of columns: each of the blocks of tile t, then the others."""
        if not self._fresh(t):
            return [[[*line[self._per_tile :], *line[: self._per_tile]] for line in side] for side in before]
        return [[self._load(self._share(t), side, place) for place in side.places] for side in self._sides]

    def _load(self, t: KTile, side: ScaleLines, place: Any) -> list[Any]:
        near, far = t.further * self._per_tile, t.turn * (self._per_tile * side.step)
        if self._together > 1:
            count = self._together * self._per_tile
            vector = side.buffer.load(place + near * side.step, count, far)
            return [[vector[i]] for i in range(count)]
        # Dwords may be loaded four at a time at any dword: places need not be multiples of four.
        return [side.buffer.load(place + (near + i) * side.step, side.width, far) for i in range(self._per_tile)]

    def of(self, held: list[Any], block: int, row: int) -> list[Any]:
        """What the sums of a row of tiles over a block of 128 k are multiplied by, for each strip of columns."""
        (rows, columns), (index, inside) = held, divmod(row, self._width)
        return [fx.full(1, rows[index][block][inside] * line[block][0], fx.Float32) for line in columns] * self._times


class PairedScales:
    """Scale words of the scaled MFMA: one word a lane for 32 rows (or columns) and 256 k, from row `first` on. Byte
    ``2 * khalf + rowhalf`` belongs to 16 rows and 128 k, and the instruction's selector takes it.

    Args:
        data: bytes in the order of ``e8m0_shuffle``, `columns` a row; the matrix begins `start` bytes (64 bits) later.
        first: the same in all lanes.
        tiles: of 16 rows, one after the other.
        aligned: `first` is a multiple of 32. Two tiles then share a word, and which of its bytes belongs to a tile is
            known; otherwise a tile has its own, shifted so that its bytes are 0 (first half of k) and 2.
    """

    def __init__(self, data: Any, start: Any, columns: int, rows: Any, first: Any, tiles: int, aligned: bool,
                 lane: Lane) -> None:
        words = cdiv(rows, 32) * 8 * columns if isinstance(rows, int) else div(rows + 255, 256) * (256 * columns // 4)
        self._buffer = Buffer(data, fx.Int32, fx.Int64(start) >> 2, words)
        self._columns, self._first, self._tiles, self._lane = columns, first, tiles, lane.lane
        self._paired = aligned and tiles % 2 == 0

    @property
    def loads(self) -> int:
        """Words of 256 k."""
        return self._tiles // 2 if self._paired else self._tiles

    def fetch(self, i: int, t: KTile, halves: int) -> Any:
        """Start loading word `i` of the 256 k that tile `t` is in, with `halves` tiles in it."""
        row = self._first + i * (32 if self._paired else 16)
        at = self._lane + div(t.turn, halves) * 64 + t.further // halves * 64
        return self._buffer.load(at, 1, div(row, 32) * (8 * self._columns))[0]

    def of(self, words: list[Any], khalf: int) -> list[tuple[Any, int]]:
        """(word, number of its byte) of each tile, for the first or second 128 k."""
        if self._paired:
            return [(words[i // 2], 2 * khalf + i % 2) for i in range(self._tiles)]
        halves = [mod(div(self._first + i * 16, 16), 2) for i in range(self._tiles)]
        return [(fx.arith.shrui(word, half * 8), 2 * khalf) for word, half in zip(words, halves, strict=True)]


def _near(word: Any) -> Any:
    """A copy of a word for a few products: the instruction takes it from the first 256 registers only, and there it
    would be spilled if it stayed from its load on."""
    return fx.Int32(fx.rocdl.update_dpp(fx.T.i32, word, word, _SAME_LANE, 15, 15, True))


class RowScales:
    """Scale words of the scaled WMMA: the e8m0 scales of 16-row tiles that follow each other, from row `first` on.

    Args:
        buffer: of i32 (four scales) or i8 (one that is valid for 128 k).
        place: ``place(row)`` is the element of a row for the first 128 k.
        step: elements from there to the next 128 k.
        further: elements from a word to the next of a lane, or None where that is not always the same.
        tiles: number of tiles.
        rows: that a word of every lane covers.
    """

    def __init__(self, buffer: Buffer, place: Callable[[Any], Any], step: Any, further: int | None, first: Any,
                 tiles: int, rows: int, lane: Any) -> None:
        self._buffer, self._step, self._tiles, self._rows = buffer, step, tiles, rows
        words, start = range(cdiv(tiles * 16, rows)), first + lane
        if further is None:
            self._places = [(place(start + i * rows), 0) for i in words]
        else:  # one register for all
            at = place(start)
            self._places = [(at, i * further) for i in words]

    def fetch(self, k128: Any) -> list[Any]:
        """Start loading the scales of 128 k."""
        loaded = [self._buffer.load(at, 1, k128 * self._step + further)[0] for at, further in self._places]
        return [x if self._buffer.element is fx.Int32 else x.to(fx.Uint8).to(fx.Int32) for x in loaded]

    def of(self, words: list[Any]) -> list[tuple[Any, int]]:
        """(word, half of the lanes) of each tile."""
        words = [_near(w) for w in words] if self._buffer.element is fx.Int32 else [w * _EVERY_BYTE for w in words]
        return [(words[i * 16 // self._rows], i % 2) for i in range(self._tiles)]
