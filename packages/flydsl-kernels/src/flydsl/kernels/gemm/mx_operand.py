"""How the operands of the microscaled GEMM lie in memory and in LDS, and their scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.memory import WORDS, Buffer, lds_read
from .tiles import RowTile

__all__ = ["FORMATS", "LANE_GROUPS", "HalvesTile", "MxFormat", "Scales"]

LANE_GROUPS = 4


@dataclass(frozen=True)
class MxFormat:
    """How 128 k of an operand lie in memory.

    Attributes:
        code: the instruction's.
        step_bytes: of a row.
        words: that a lane has of a row.
    """

    code: int
    step_bytes: int
    words: int

    @property
    def chunks(self) -> int:
        """Of 16 bytes, that a lane has of a row."""
        return -(-self.words // WORDS)

    def place(self, chunk: Any) -> Any:
        """Word of a row from which chunk `chunk` of a tile is copied to LDS.

        Of each 32 bytes of fp6 the last 8 are nothing, so a lane reads half of its second chunk. Every other of these
        is copied from 8 bytes before, which puts its half in the banks that the others leave.
        """
        return chunk * WORDS - (div(mod(chunk, 4) + 1, 4) * 2 if self.words == 6 else 0)

    def operand(self, chunks: list[Any]) -> Any:
        """The instruction's eight dwords; those past the format's size are not read."""
        if len(chunks) == 1:
            return chunks[0].shuffle(chunks[0], [0, 1, 2, 3, 0, 1, 2, 3])
        first, second = chunks
        if second.numel < WORDS:
            second = second.shuffle(second, [0, 1, 0, 1])
        return first.shuffle(second, list(range(8)))


FORMATS = {"fp8": MxFormat(0, 128, 8), "fp6": MxFormat(2, 128, 6), "fp4": MxFormat(4, 64, 4)}


@dataclass(frozen=True)
class HalvesTile(RowTile):
    """A tile of fp6: of 128 k the first chunks of the lane groups, then the second ones, of which a lane reads half.

    A gap follows each 16 rows. The distances of what a lane reads are then none that an instruction of two
    reads can have: the compiler would otherwise read the halves of two rows at once, to four registers of which it has
    to copy two.

    Attributes:
        gap: words of it; 0 where LDS has no room for it.
    """

    gap: int = WORDS

    @property
    def words(self) -> int:
        return super().words + self.rows // 16 * self.gap

    def at(self, row: Any, chunk: Any) -> Any:
        inside = mod(chunk, 2 * LANE_GROUPS)
        place = chunk - inside + mod(inside, 2) * LANE_GROUPS + div(inside, 2)
        return super().at(row, place) + div(row, 16) * self.gap

    def reader(self, base: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        swizzle = self.swizzle(lane_row)
        places = [lane_row * (self.row_bytes // 4) + (swizzle ^ (group + block * groups)) * WORDS
                  + (mod(group, 2) * 2 if block % 2 else 0) for block in range(self.chunks // groups)]

        def read(tile: int, block: Any) -> Any:
            at = places[block] + tile * (4 * self.row_bytes + self.gap)
            return lds_read(base, at, WORDS // 2 if block % 2 else WORDS)

        return read


class Scales:
    """Scale words of the rows (or columns) from `first`: one word a lane for 32 of them and 256 k.

    Args:
        first: the same in all lanes.
        tiles: of 16 rows, one after the other.
        aligned: `first` is a multiple of 32. Two tiles then share a word, and which of its bytes belongs to a tile is
            known; otherwise a tile has its own, shifted so that its bytes are 0 (first half of k) and 2.
    """

    def __init__(self, data: Any, columns: int, rows: Any, first: Any, tiles: int, aligned: bool, lane: Any) -> None:
        self._buffer = Buffer(data, fx.Int32, None, div(rows + 255, 256) * (256 * columns // 4)
                              if not isinstance(rows, int) else -(-rows // 32) * 8 * columns)
        self._columns, self._first, self._tiles, self._lane = columns, first, tiles, lane
        self._paired = aligned and tiles % 2 == 0

    @property
    def loads(self) -> int:
        """Words of 256 k."""
        return self._tiles // 2 if self._paired else self._tiles

    def fetch(self, i: int, k256: Any, more: int) -> Any:
        """Start loading word `i` of block ``k256 + more`` of 256 k."""
        row = self._first + i * (32 if self._paired else 16)
        return self._buffer.load(self._lane + k256 * 64 + more * 64, 1, div(row, 32) * (8 * self._columns))[0]

    def of(self, words: list[Any], khalf: int) -> list[tuple[Any, int]]:
        """(word, number of its byte) of each tile, for the first or second 128 k."""
        if self._paired:
            return [(words[i // 2], 2 * khalf + i % 2) for i in range(self._tiles)]
        halves = [mod(div(self._first + i * 16, 16), 2) for i in range(self._tiles)]
        return [(fx.arith.shrui(word, half * 8), 2 * khalf) for word, half in zip(words, halves, strict=True)]
