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
from .matrix import MICRO_K, UNIT_SCALES
from .memory import Buffer

__all__ = ["WORD_K", "WORD_ROWS", "BlockScales", "HeldScales", "Microscales", "PairedScales", "RowScales", "ScaleLines",
           "TileScales", "word_place"]

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
    """f32 scales of 128 k in registers of each lane (:class:`~.products.Factors`): of its rows of A, and of its strips
    of columns.

    Args:
        rows, columns: where they are; `rows` those of `width` rows of tiles together.
        per_tile: of a tile of k.
        times: how often the columns' factors are repeated for all strips.
        together: tiles whose scales are loaded at once, where those of a line follow each other. The lanes of a load
            are in as many lines of memory, so that one load of several costs no more than one of one.
        share: ``share(t)`` is the tile of this wave, where several share k.
    """

    reads = 0

    def __init__(self, rows: ScaleLines, columns: ScaleLines, per_tile: int, times: int = 1, together: int = 1,
                 share: Callable[[KTile], KTile] = lambda t: t) -> None:
        self._sides, self.width = (rows, columns), rows.width
        self._per_tile, self._times, self._together, self._share = per_tile, times, together, share

    @property
    def source(self) -> Held:
        """For the main loop."""
        loads = sum(len(side.places) for side in self._sides) * (1 if self._together > 1 else self._per_tile)
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
        (rows, columns), (index, inside) = held, divmod(row, self.width)
        return [fx.full(1, rows[index][block][inside] * line[block][0], fx.Float32) for line in columns] * self._times


class Microscales:
    """e8m0 scales of the rows, or the columns, of a wave on their way to the matrix instruction. Here all are 1, of so
    many tiles of 16, and nothing is loaded for them."""

    def __init__(self, tiles: int) -> None:
        self._tiles = tiles

    def loads(self, t: KTile) -> int:
        """Of a tile of k."""
        return 0

    def fetch(self, t: KTile, before: Any) -> list[Any]:
        """Start loading those of a tile; `before` is what this gave for the one before, which may hold for this one."""
        return []

    def of(self, t: KTile, held: list[Any], call: int) -> list[tuple[Any, int]]:
        """(word, number of its byte or half of the lanes) of each tile of 16 rows, for a call of the instruction."""
        return [(fx.Int32(UNIT_SCALES), 0)] * self._tiles


class HeldScales:
    """The scales of A and B that the main loop holds, and :class:`~.products.TileProducts` takes.

    Args:
        held: ``held(all)``: what is held of both, of all that the loop holds.
        share: as of :class:`BlockScales`.
    """

    def __init__(self, sides: Sequence[Microscales], held: Callable[[list[Any]], Sequence[Any]],
                 share: Callable[[KTile], KTile] = lambda t: t) -> None:
        self._sides, self._held, self._share = sides, held, share

    @property
    def source(self) -> Held:
        """For the main loop."""
        return Held(self._fetch, lambda t: sum(side.loads(t) for side in self._sides))

    def _fetch(self, t: KTile, before: Any) -> list[Any]:
        return [side.fetch(self._share(t), before and before[i]) for i, side in enumerate(self._sides)]

    def of(self, t: KTile, held: list[Any]) -> Callable[[int], tuple[list[Any], ...]]:
        """For a call of the instruction, those of A and of B."""
        pairs = list(zip(self._sides, self._held(held), strict=True))
        return lambda call: tuple(side.of(t, words, call) for side, words in pairs)


def word_place(row: Any, group: Any, columns: int) -> Any:
    """Byte of the scale of a row's group of 32 k in the order of ``e8m0_shuffle``, `columns` a row."""
    far = fx.Int64(div(row, WORD_ROWS) * WORD_ROWS) * columns
    near = div(group, 8) * 256 + mod(group, 4) * 64 + mod(row, 16) * 4 + mod(div(group, 4), 2) * 2
    return far + fx.Int64(near + mod(div(row, 16), 2))


class PairedScales(Microscales):
    """Scale words of the scaled MFMA: one word a lane for 32 rows (or columns) and 256 k. Byte ``2 * khalf + rowhalf``
    belongs to 16 rows and 128 k, and the instruction's selector takes it. A word is loaded where a tile begins it, and
    kept for the next tile if that has the rest of its k.

    Args:
        data: bytes in the order of ``e8m0_shuffle``, `columns` a row; the matrix begins `start` bytes (64 bits) later.
        firsts: first row, the same in all lanes; of several parts, whose tiles take turns, the first of each.
        tiles: of 16 rows, one after the other, of each part.
        aligned: `firsts` are multiples of 32. Two tiles then share a word, and which of its bytes belongs to a tile is
            known; otherwise a tile has its own, shifted so that its bytes are 0 (first half of k) and 2.
        tile_k: k of a tile of the loop, 128 or a multiple of 256.
    """

    def __init__(self, data: Any, start: Any, columns: int, rows: Any, firsts: Sequence[Any], tiles: int, aligned: bool,
                 lane: Lane, tile_k: int) -> None:
        words = cdiv(rows, 32) * 8 * columns if isinstance(rows, int) else div(rows + 255, 256) * (256 * columns // 4)
        self._buffer = Buffer(data, fx.Int32, fx.Int64(start) >> 2, words)
        self._columns, self._firsts, self._tiles, self._lane = columns, firsts, tiles, lane.lane
        self._paired, self._steps, self._together = aligned and tiles % 2 == 0, tile_k // MICRO_K, cdiv(WORD_K, tile_k)
        self._each = tiles // 2 if self._paired else tiles  # words of a part

    def loads(self, t: KTile) -> int:
        return 0 if t.further % self._together else len(self._firsts) * self._each

    def word(self, t: KTile, i: int) -> Any:
        """Start loading word `i` of the 256 k that a tile begins."""
        row = self._firsts[i // self._each] + i % self._each * (32 if self._paired else 16)
        at = self._lane + div(t.turn, self._together) * 64 + t.further // self._together * 64
        return self._buffer.load(at, 1, div(row, 32) * (8 * self._columns))[0]

    def fetch(self, t: KTile, before: Any) -> list[Any]:
        return [self.word(t, i) for i in range(self.loads(t))] or before

    def of(self, t: KTile, held: list[Any], call: int) -> list[tuple[Any, int]]:
        half = (t.further * self._steps + call) % 2

        def part(side: int, i: int) -> tuple[Any, int]:
            if self._paired:
                return held[side * self._each + i // 2], 2 * half + i % 2
            upper = mod(div(self._firsts[side] + i * 16, 16), 2)
            return fx.arith.shrui(held[side * self._each + i], upper * 8), 2 * half

        return [part(side, i) for i in range(self._tiles) for side in range(len(self._firsts))]


class TileScales(Microscales):
    """An element a lane, for 128 k of each tile of 16 rows, wherever that is: the scaled MFMA takes the byte of its
    lane group from each lane, the scaled WMMA all four of 128 k in a word.

    Args:
        places: element of each tile's rows for the first 128 k; `step` to the next.
        tile_k: k of a tile of the loop.
    """

    def __init__(self, buffer: Buffer, places: Sequence[Any], step: int, tile_k: int) -> None:
        self._buffer, self._places, self._step, self._steps = buffer, places, step, tile_k // MICRO_K

    def loads(self, t: KTile) -> int:
        return len(self._places) * self._steps

    def fetch(self, t: KTile, before: Any) -> list[Any]:
        first = t.index * (self._steps * self._step)
        return [[self._buffer.load(at + i * self._step, 1, first)[0] for i in range(self._steps)]
                for at in self._places]

    def of(self, t: KTile, held: list[Any], call: int) -> list[tuple[Any, int]]:
        return [(_unsigned(values[call]), 0) for values in held]


def _unsigned(element: Any) -> Any:
    """A word, of a byte without its sign."""
    return element if element.dtype is fx.Int32 else element.to(fx.Uint8).to(fx.Int32)


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
        return [_unsigned(self._buffer.load(at, 1, k128 * self._step + further)[0]) for at, further in self._places]

    def of(self, words: list[Any]) -> list[tuple[Any, int]]:
        """(word, half of the lanes) of each tile."""
        words = [_near(w) for w in words] if self._buffer.element is fx.Int32 else [w * _EVERY_BYTE for w in words]
        return [(words[i * 16 // self._rows], i % 2) for i in range(self._tiles)]
