"""Operands of a matrix product: how the k tiles of A and B come to LDS or to registers.

Every operand is a number of 16-byte chunks that a thread loads of a tile (`loads`), and an address for each:
consecutive rows, gathered rows, the weight order and a transposed matrix differ in nothing else. Through LDS,
``fetch(t)`` starts loading tile t into registers and ``commit(values, stage)`` writes them, or ``copy(t, stage,
which)`` does both without registers; ``reader(lane, start, groups)`` then gives the fragments of 16 rows. What only one
wave needs stays in registers (:class:`Shuffled`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import flydsl.expr as fx

from .epilogue import FAR
from .index import div, mod
from .lane import Lane
from .mainloop import KTile
from .memory import WORDS, Buffer, lds_write, pointer, read_at
from .tile import CHUNK_BYTES, RowTile, StoredTile

__all__ = ["SHUFFLED_ROWS", "Advance", "Columns", "Fragments", "Rows", "Shuffled", "Stored", "WideRows"]

LANES = 8  # 16-bit elements of a chunk
SHUFFLED_ROWS, SHUFFLED_CHUNKS = 16, 4  # a block of the weight order: 16 rows x 64 bytes
FAR_WORDS = 1 << 29  # beyond any matrix whose rows are gathered


@dataclass(frozen=True)
class Fragments:
    """``read(where, tile, block)``: this lane's chunk of a block of k in 16 rows.

    Attributes:
        read: from a stage of LDS, or of what the main loop holds of its sources.
        reads: of LDS for a chunk; 0: it is held.
        converts: vector instructions in which what is held becomes the chunks that a call of the matrix instruction
            takes of 16 rows. They are issued beside the products of the call before; 0: where they are needed.
        placed: whether the order of the loop has places for these instructions; otherwise the compiler chooses them.
    """

    read: Callable[[Any, int, Any], Any]
    reads: int = 1
    converts: int = 0
    placed: bool = True


class Advance(Enum):
    """Where the distance to a k tile goes.

    SCALAR: to the scalar offset of the loads, an addition for each. TURN: that of the loop's turn to the scalar offset;
    the tiles of a turn become part of the lanes' addresses, a register for each instead of an addition. LANES: to
    the lanes' addresses, one addition a tile; the scalar offset is free for what the lanes of a wave share.
    """

    SCALAR = 0
    TURN = 1
    LANES = 2

    def split(self, t: KTile, words: int, near: int = 0) -> tuple[Any, int, Any]:
        """(lanes' part, constant part, scalar part) of `words` a tile; with LANES, `near` tiles of the constant part
        are counted to the lanes' part, so that what is left fits an instruction."""
        if self is Advance.SCALAR:
            return 0, 0, t.index * words
        if self is Advance.TURN:
            return 0, t.further * words, t.turn * words
        return (t.turn + near) * words, (t.further - near) * words, 0


class Rows:
    """An operand whose rows are consecutive in k.

    Args:
        data: tensor or pointer argument.
        tile: its place in LDS; `stages` are pointers to that place in each stage.
        row: first row of the tile, one that exists, of `rows_total`; rows past the end read as zero.
        row_bytes: from a row to the next, whole chunks.
        start: bytes from the beginning of `data` to the matrix (64 bits): an expert of several, an entry of a batch.
        row_of: ``row_of(i)`` is the row of the matrix that row i of the tile is (`row` is not used then): a list of
            tokens, a table of pages. Rows that do not exist, also negative ones, read as zero. The matrix is
            smaller than 2 GiB.
        shuffled: the rows are in the order of ``shuffle_weight``.
        advance: see :class:`Advance`; `near` as there.
        ragged: the last k tile goes past the end of the rows, where zeros are read.
        place: ``place(chunk)`` is the word of a row where chunk `chunk` of a tile is.
    """

    turns = 0  # vector instructions that turn a tile around
    period = SHUFFLED_ROWS  # rows after which places in memory repeat

    def __init__(self, data: Any, tile: RowTile, stages: Sequence[Any], lane: Lane, *, row_bytes: int, row: Any = 0,
                 rows_total: Any = None, start: Any = None, row_of: Callable[[Any], Any] | None = None,
                 shuffled: bool = False, advance: Advance = Advance.SCALAR, near: int = 0, ragged: bool = False,
                 place: Callable[[Any], Any] | None = None) -> None:
        self.tile, self.stages, self._lane = tile, stages, lane
        self.stride, self._chunks = row_bytes // 4, row_bytes // CHUNK_BYTES
        self._shuffled, self._advance, self._near, self._ragged = shuffled, advance, near, ragged
        self._place = place or (lambda chunk: chunk * WORDS)
        words = None if start is None else fx.Int64(start) >> 2
        if row_of is None:
            # Not clamped at zero: min and max together become a vector instruction, and the descriptor a loop over
            # lanes.
            rows = fx.min(rows_total - row, tile.rows)
            first = fx.Int64(row) * self.stride
            self.buffer = Buffer(data, fx.Int32, first if words is None else words + first, rows * self.stride)
            self._starts: list[Any] | None = None
            return
        self.buffer = Buffer(data, fx.Int32, words, fx.Int64(rows_total) * self.stride)
        self._starts = []
        for i in range(tile.loads):
            source = row_of(tile.part(lane.thread, i)[0])
            exists = (source >= 0) & (source < rows_total)
            self._starts.append(exists.select(source * self.stride, FAR_WORDS))

    @property
    def loads(self) -> int:
        """Global loads of a thread for a tile."""
        return self.tile.loads

    @property
    def writes(self) -> int:
        """Writes to LDS of a thread for a tile."""
        return self.tile.loads

    @property
    def step_words(self) -> int:
        """Words from a k tile to the next."""
        return self.tile.row_words * (SHUFFLED_ROWS if self._shuffled else 1)

    def _at(self, row: Any, chunk: Any) -> Any:
        """Word offset of a chunk of the first tile."""
        if not self._shuffled:
            return row * self.stride + self._place(chunk)
        inside = mod(chunk, SHUFFLED_CHUNKS) * SHUFFLED_ROWS + mod(row, SHUFFLED_ROWS)
        block = div(chunk, SHUFFLED_CHUNKS) * (SHUFFLED_CHUNKS * SHUFFLED_ROWS)
        return div(row, SHUFFLED_ROWS) * (SHUFFLED_ROWS * self.stride) + (block + inside) * WORDS

    def _spots(self, direct: bool) -> list[tuple[Any, Any]]:
        """(word offset in this lane, further words that all lanes share) of each chunk of the first tile; `direct`:
        what is copied to a fixed place, whose source is exchanged."""
        tile = self.tile

        def part(i: int) -> tuple[Any, Any]:
            found = tile.part(self._lane.thread, i)
            return tile.source(*found) if direct else found

        if self._starts is not None:
            return [(start + self._place(part(i)[1]), 0) for i, start in enumerate(self._starts)]
        step = tile.step(tile.period if direct else self.period)
        if step is None:
            return [(self._at(*part(i)), 0) for i in range(tile.loads)]
        first = self._at(*part(0))
        return [(first, self._at(i * step, 0) - self._at(0, 0)) for i in range(tile.loads)]

    def fetch(self, t: KTile) -> list[Any]:
        """Start loading the chunks of a k tile."""
        if self._ragged:
            return [self.buffer.load(self._bounded(t, i, at + shared + t.index * self.step_words), WORDS)
                    for i, (at, shared) in enumerate(self._spots(False))]
        lanes, further, scalar = self._advance.split(t, self.step_words, self._near)
        out = []
        for at, shared in self._spots(False):
            if self._advance is Advance.TURN:
                out.append(self.buffer.load(at + (shared + further), WORDS, scalar))
                continue
            at = at if self._advance is Advance.SCALAR else at + lanes + further
            out.append(self.buffer.load(at, WORDS, scalar + shared))
        return out

    def _bounded(self, t: KTile, i: int, at: Any) -> Any:
        """Where chunk `i` of a tile is, or beyond the end if it is past that of its row."""
        chunk = div(self._place(self.tile.part(self._lane.thread, i)[1]), WORDS)
        return (t.index * self.tile.chunks + chunk < self._chunks).select(at, FAR // 4)

    def commit(self, chunks: Sequence[Any], stage: int) -> None:
        """Write the chunks of a tile to LDS."""
        for i, value in enumerate(chunks):
            lds_write(self.stages[stage], self.tile.at(*self.tile.part(self._lane.thread, i)), value)

    def copy(self, t: KTile, stage: int, which: range) -> None:
        """Start copying the chunks `which` of a tile to LDS: a lane's place there is fixed, so its source is
        exchanged."""
        atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), fx.Int32)
        wave = fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, self._lane.wave * (64 * WORDS)))
        scalar, spots = t.index * self.step_words, self._spots(True)
        for i in which:
            at, shared = spots[i]
            place = self.stages[stage] + (wave + i * self.tile.threads * WORDS)
            fx.copy(atom, self.buffer.view(at, WORDS), fx.make_view(place, fx.make_layout(WORDS, 1)),
                    soffset=scalar + shared)

    def reader(self, lane: Lane, start: Any, groups: int) -> Fragments:
        """Fragments of a lane: 16 rows, of which those of tile 0 begin with row `start`, and blocks of `groups` chunks
        of k."""
        readers = [self.tile.reader(stage, start, lane, groups) for stage in self.stages]
        return Fragments(lambda stage, number, block: readers[stage](number, block), self.tile.READS)


class WideRows(Rows):
    """Gathered rows of a matrix of any size, by 64-bit addresses; arguments as of :class:`Rows` with `row_of`.

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


class Stored(Rows):
    """A 16-bit operand stored (k, rows) that is kept so in LDS and turned around by the reads of gfx950 and gfx1250
    (:class:`..tile.StoredTile`). Rows and k that do not exist read as something that is dropped, or as zero past the
    end of the operand.

    Args:
        row: first row of the tile, of `rows_total`, an even number; `k` the length of a row in elements.
    """

    period = 1

    def __init__(self, data: Any, tile: StoredTile, stages: Sequence[Any], lane: Lane, *, row: Any, rows_total: Any,
                 k: int, ragged: bool) -> None:
        self.tile, self.stages, self._lane, self._ragged = tile, stages, lane, ragged
        self._advance, self._near, self._starts, self._row = Advance.SCALAR, 0, None, row
        self.stride = div(rows_total, 2)
        self.buffer = Buffer(data, fx.Int32, None, fx.Int64(self.stride) * k)

    @property
    def step_words(self) -> Any:
        return self.stride * self.tile.rows

    def _at(self, row: Any, chunk: Any) -> Any:
        return row * self.stride + chunk * WORDS + div(self._row, 2)

    def _bounded(self, t: KTile, i: int, at: Any) -> Any:
        """k past the end lies past the end of the operand."""
        return at


class Columns(Rows):
    """A 16-bit operand stored (k, rows): consecutive in the row index. A thread turns blocks of 8 k x `width` rows
    around on their way to LDS.

    Args:
        row: first row of the tile, of `rows_total`, a multiple of `width`; rows past the end read as zero.
        k: length of a row in elements; with `ragged` the last k tile goes past it, and zeros are read.
    """

    def __init__(self, data: Any, tile: RowTile, stages: Sequence[Any], lane: Lane, *, row: Any, rows_total: Any,
                 k: int, ragged: bool) -> None:
        self.tile, self.stages, self._lane, self._ragged = tile, stages, lane, ragged
        blocks = tile.rows * tile.chunks
        self.width = next(w for w in (8, 4, 2, 1) if tile.rows % w == 0 and blocks % (w * tile.threads) == 0)
        self._count = blocks // (self.width * tile.threads)
        # Loads are carried through the loop as dwords: the compiler splits vectors of 16 bits into pieces. Single ones
        # are integers, which take fewer registers than floats.
        self._unit = min(self.width, 2)  # elements of what is loaded
        self._row, self._rows, self._k = row, rows_total, k
        self._stride = div(rows_total, self._unit)
        self.turns = self.writes * LANES // 2 if self._unit == 2 else 0  # permutations of two elements
        self.buffer = Buffer(data, fx.Int32 if self._unit == 2 else fx.Int16, None, fx.Int64(self._stride) * k)

    @property
    def loads(self) -> int:
        return self._count * LANES

    @property
    def writes(self) -> int:
        """Writes to LDS of a thread for a tile."""
        return self._count * self.width

    def _block(self, index: int) -> tuple[Any, Any]:
        """(row, chunk) of the thread's block number `index`."""
        linear, across = self._lane.thread + index * self.tile.threads, self.tile.rows // self.width
        return mod(linear, across) * self.width, div(linear, across)

    def fetch(self, t: KTile) -> list[Any]:
        """Start loading a k tile: for each block eight vectors of `width` rows."""
        out, count, first = [], self.width // self._unit, t.index * (self.tile.chunks * LANES)
        for i in range(self._count):
            row, chunk = self._block(i)
            inside, column = self._row + row < self._rows, div(self._row + row, self._unit)
            start = inside.select(chunk * (LANES * self._stride) + column, FAR // 4)  # the same for every tile
            block: list[Any] = []
            # The last first: what is turned first then waits for all of them at once.
            for j in reversed(range(LANES)):
                if self._ragged:
                    k = first + chunk * LANES + j
                    at = (k < self._k).select(inside.select(k * self._stride + column, FAR // 4), FAR // 4)
                    block.insert(0, self.buffer.load(at, count))
                else:
                    block.insert(0, self.buffer.load(start, count, (first + j) * self._stride))
            out += block
        return out

    def commit(self, vectors: Sequence[Any], stage: int) -> None:
        """Write chunks of eight consecutive k, one a row."""
        for i in range(self._count):
            row, chunk = self._block(i)
            # They are only moved, whatever they are.
            block = [v.bitcast(fx.BFloat16) for v in vectors[i * LANES : (i + 1) * LANES]]
            for r in range(self.width):
                turned = fx.Vector.from_elements([v[r] for v in block], fx.BFloat16)
                lds_write(self.stages[stage], self.tile.at(row + r, chunk), turned.bitcast(fx.Int32))


class Shuffled:
    """The weights of a wave, straight to registers: strips of 16 columns in the order of ``shuffle_weight``, each with
    K bytes x 16 as blocks of 64 lanes' chunks.

    Args:
        strip_words: of a strip; `tile_strips` strips from column `column` on are the workgroup's.
        strips: number of each of the wave's strips in the tile.
        blocks: of a k tile, each `lanes` (of a wave) x `chunk_words`.
        start: bytes from the beginning of `data` to the matrix (64 bits): an expert of several, an entry of a batch.
        advance: see :class:`Advance`; with LANES, the numbers of strips are in scalar registers.
        cache: bits of the loads (2: non-temporal).
        share, shares: the wave has only this one of `shares` shares of the blocks of a tile.
    """

    def __init__(self, data: Any, lane: Lane, *, column: Any, strip_words: int, tile_strips: int, strips: Sequence[Any],
                 blocks: int, chunk_words: int = WORDS, start: Any = None, advance: Advance = Advance.SCALAR,
                 lanes: int = 64, cache: int = 0, share: Any = 0, shares: int = 1) -> None:
        self.blocks, self._words, self._advance, self._cache = blocks // shares, chunk_words, advance, cache
        self._strips, self._strip_words = strips, strip_words
        first = fx.Int64(column) * (strip_words // 16)
        first = first if start is None else (fx.Int64(start) >> 2) + first
        self._buffer = Buffer(data, fx.Int32, first, tile_strips * strip_words)
        self._lane, self._block_words = lane.lane * chunk_words, lanes * chunk_words
        self._tile_words = blocks * self._block_words
        if shares > 1:
            self._lane = self._lane + share * (self.blocks * self._block_words)

    @property
    def loads(self) -> int:
        """Global loads of a thread for a tile."""
        return len(self._strips) * self.blocks

    def strip(self, t: KTile, number: int) -> list[Any]:
        """Start loading a strip of a k tile: its blocks."""
        lanes, further, scalar = self._advance.split(t, self._tile_words, 1)
        strip = self._strips[number] * self._strip_words
        at, scalar = (self._lane + lanes, strip) if self._advance is Advance.LANES else (self._lane + strip, scalar)
        at = at + further
        return [self._buffer.load(at + b * self._block_words, self._words, scalar, self._cache)
                for b in range(self.blocks)]

    def fetch(self, t: KTile) -> list[list[Any]]:
        """Start loading all strips of a k tile: ``[strip][block]``."""
        return [self.strip(t, i) for i in range(len(self._strips))]
