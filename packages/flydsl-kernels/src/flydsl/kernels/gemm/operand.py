"""How the general GEMM brings an operand to LDS: as rows of consecutive k, whichever way it lies in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx

from ..parts.epilogue import FAR
from ..parts.index import div, mod
from ..parts.memory import WORDS, Buffer, lds_write
from .tiles import RowTile, StoredTile, TurnedTile

__all__ = ["AsStored", "KMajor", "RowMajor", "operand"]

LANES = 8  # 16-bit elements of a chunk
SHUFFLED_ROWS, SHUFFLED_CHUNKS = 16, 4  # a block of the weight order: 16 rows x 64 bytes


class RowMajor:
    """An operand whose rows are consecutive in k.

    Args:
        data: tensor or pointer argument; `rows_total` rows of `k` elements.
        row: first row of the tile, one that exists; rows past the end read as zero.
        k: length of a row in elements, whole chunks; columns past it read as zero if the tile is `ragged`.
        shuffled: the rows are in the order of ``shuffle_weight``.
    """

    reads = 1  # of LDS, for a chunk
    turns = 0  # vector instructions that turn a tile around

    def __init__(self, data: Any, tile: RowTile, rows_total: Any, row: Any, k: int, thread: Any,
                 element_bytes: int, shuffled: bool) -> None:
        self._tile, self._thread, self._k = tile, thread, k
        self._per_chunk, self._per_word, self._shuffled = 16 // element_bytes, 4 // element_bytes, shuffled
        self.stride = k // self._per_word
        # Not clamped at zero: min and max together become a vector instruction, and the descriptor a loop over lanes.
        rows = fx.min(rows_total - row, tile.rows)
        self.buffer = Buffer(data, fx.Int32, fx.Int64(row) * self.stride, rows * self.stride)

    def _at(self, row: Any, chunk: Any) -> Any:
        """Word offset of a chunk of the first tile."""
        if not self._shuffled:
            return row * self.stride + chunk * WORDS
        inside = mod(chunk, SHUFFLED_CHUNKS) * SHUFFLED_ROWS + mod(row, SHUFFLED_ROWS)
        block = div(chunk, SHUFFLED_CHUNKS) * (SHUFFLED_CHUNKS * SHUFFLED_ROWS)
        return div(row, SHUFFLED_ROWS) * (SHUFFLED_ROWS * self.stride) + (block + inside) * WORDS

    def _offset(self, first: Any) -> Any:
        """Words from the first tile to the one whose k begins at `first`."""
        return div(first, self._per_word) * (SHUFFLED_ROWS if self._shuffled else 1)

    def fetch(self, first: Any, ragged: bool) -> list[Any]:
        """Start loading the tile whose k begins at `first`."""
        tile, offset, out = self._tile, self._offset(first), []
        if not ragged:
            return tile.fetch_from(self.buffer, self._at, self._thread, offset)
        for i in range(tile.loads):
            row, chunk = tile.part(self._thread, i)
            inside = first + chunk * self._per_chunk < self._k
            out.append(self.buffer.load(inside.select(self._at(row, chunk) + offset, FAR // 4), WORDS))
        return out

    @property
    def loads(self) -> int:
        """Global loads of a thread for a tile."""
        return self._tile.loads

    @property
    def writes(self) -> int:
        """Writes to LDS of a thread for a tile."""
        return self._tile.loads

    def commit(self, base: Any, chunks: list[Any]) -> None:
        self._tile.commit(base, self._thread, chunks)

    def reader(self, base: Any, start: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        """``read(tile, block)``: this lane's chunk of a block of k in 16 rows, the first at row `start`."""
        return self._tile.reader(base + start * (self._tile.row_bytes // 4), lane_row, group, groups)

    def copy_async(self, first: Any, base: Any, wave: int, which: range) -> None:
        """Copy the chunks `which` of each thread to LDS without registers."""
        self._tile.copy_async(self.buffer, self._at, base, self._thread, wave, self._offset(first), which)


class AsStored(RowMajor):
    """An operand stored (k, rows) that is kept so in LDS and turned around by the transposing reads of gfx950.

    A read gives each lane four k of one of 16 rows, from 8 bytes of each of four k. Rows and k that do not exist are
    read as something that is dropped, or as zero past the end.
    """

    reads = 2  # of LDS, for a chunk

    def __init__(self, data: Any, tile: StoredTile, rows_total: Any, row: Any, k: int, thread: Any) -> None:
        self._tile, self._thread, self._k, self._row = tile, thread, k, row
        self._stored, self._per_chunk, self._per_word, self._shuffled = tile, LANES, 2, False
        self.stride = div(rows_total, 2)
        self.buffer = Buffer(data, fx.Int32, None, fx.Int64(self.stride) * k)

    def _at(self, row: Any, chunk: Any) -> Any:
        return row * self.stride + chunk * WORDS + div(self._row, 2)

    def _offset(self, first: Any) -> Any:
        return first * self.stride

    def fetch(self, first: Any, ragged: bool) -> list[Any]:
        """Start loading the tile whose k begins at `first`; k past the end lies past the end of the operand."""
        tile, offset, out = self._tile, self._offset(first), []
        for i in range(tile.loads):
            at = self._at(*tile.part(self._thread, i))
            out.append(self.buffer.load(at + offset, WORDS) if ragged else self.buffer.load(at, WORDS, offset))
        return out

    def reader(self, base: Any, start: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        """As that of :class:`RowMajor`."""
        tile = self._stored
        halves = fx.recast_iter(fx.Int16, base)
        k, column = group * LANES + div(lane_row, 4), mod(lane_row, 4) * 4
        atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64), fx.Int16)

        def read(index: int, block: Any) -> Any:
            row = start + index * 16 + column
            at = k * tile.columns + tile.element_of(k, row) + block * (groups * LANES * tile.columns)
            parts = []
            for half in range(2):
                register = fx.make_rmem_tensor(4, fx.Int16)
                place = fx.make_view(halves + (at + half * (4 * tile.columns)), fx.make_layout(4, 1))
                fx.copy(atom, place, register)
                parts.append(register.load())
            return parts[0].shuffle(parts[1], list(range(8))).bitcast(fx.Int32)

        return read


class KMajor:
    """An operand stored (k, rows): consecutive in the row index. A thread turns blocks of 8 k x `width` rows around.

    Args:
        rows_total: rows, a multiple of `width`; rows past the end read as zero.
    """

    reads = 1  # of LDS, for a chunk

    def __init__(self, data: Any, tile: RowTile, element: Any, rows_total: Any, row: Any, k: int, thread: Any) -> None:
        self._tile, self._thread, self._element = tile, thread, element
        blocks = tile.rows * tile.chunks
        self.width = next(w for w in (8, 4, 2, 1) if tile.rows % w == 0 and blocks % (w * tile.threads) == 0)
        self._count = blocks // (self.width * tile.threads)
        # Loads are carried through the loop as dwords: the compiler splits vectors of 16 bits into pieces.
        self._unit = min(self.width, 2)  # elements of what is loaded
        kind = fx.Int32 if self._unit == 2 else element
        self._row, self._rows, self._k = row, rows_total, k
        self._stride = div(rows_total, self._unit)
        self.buffer = Buffer(data, kind, None, fx.Int64(self._stride) * k)

    def _block(self, index: int) -> tuple[Any, Any]:
        """(row, chunk) of the thread's block number `index`."""
        linear, across = self._thread + index * self._tile.threads, self._tile.rows // self.width
        return mod(linear, across) * self.width, div(linear, across)

    def fetch(self, first: Any, ragged: bool) -> list[Any]:
        """Start loading the tile whose k begins at `first`: for each block eight vectors of `width` rows."""
        out, count = [], self.width // self._unit
        for i in range(self._count):
            row, chunk = self._block(i)
            inside, column = self._row + row < self._rows, div(self._row + row, self._unit)
            start = inside.select(chunk * (LANES * self._stride) + column, FAR // 4)  # the same for every tile
            block: list[Any] = []
            # The last first: what is turned first then waits for all of them at once.
            for j in reversed(range(LANES)):
                if ragged:
                    k = first + chunk * LANES + j
                    at = (k < self._k).select(inside.select(k * self._stride + column, FAR // 4), FAR // 4)
                    block.insert(0, self.buffer.load(at, count))
                else:
                    block.insert(0, self.buffer.load(start, count, (first + j) * self._stride))
            out += block
        return out

    @property
    def loads(self) -> int:
        return self._count * LANES

    @property
    def writes(self) -> int:
        """As that of :class:`RowMajor`."""
        return self._count * self.width

    @property
    def turns(self) -> int:
        """Permutations of two elements for a tile."""
        return self.writes * LANES // 2 if self._unit == 2 else 0

    def reader(self, base: Any, start: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        """As that of :class:`RowMajor`."""
        if isinstance(self._tile, TurnedTile):
            return self._tile.reader_from(base, start, lane_row, group, groups)
        return self._tile.reader(base + start * (self._tile.row_bytes // 4), lane_row, group, groups)

    def commit(self, base: Any, vectors: list[Any]) -> None:
        """Write chunks of eight consecutive k, one a row."""
        for i in range(self._count):
            row, chunk = self._block(i)
            block = [v.bitcast(self._element) for v in vectors[i * LANES : (i + 1) * LANES]]
            for r in range(self.width):
                turned = fx.Vector.from_elements([v[r] for v in block], self._element)
                lds_write(base, self._tile.at(row + r, chunk), turned.bitcast(fx.Int32))


def operand(data: Any, consecutive_k: bool, tile: RowTile, element: Any, rows: Any, row: Any, k: int,
            thread: Any, shuffled: bool = False) -> RowMajor | KMajor:
    """The loader for an operand of `rows` x `k` elements."""
    if consecutive_k:
        return RowMajor(data, tile, rows, row, k, thread, element.width // 8, shuffled)
    if isinstance(tile, StoredTile):
        return AsStored(data, tile, rows, row, k, thread)
    return KMajor(data, tile, element, rows, row, k, thread)
