"""Tiles of an operand in LDS: rows of 16-byte chunks, placed so that the reads of a wave hit every bank once.

Chunk c of row r lies at chunk ``c ^ swizzle(r)`` of the row. The writer and the reader apply the same exchange. A tile
knows places only; :mod:`.operand` moves data to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import flydsl.expr as fx

from .index import div, mod
from .lane import Lane
from .memory import WORDS, lds_read, taken

__all__ = ["CHUNK_BYTES", "HalvesTile", "Reader", "RowTile", "SpreadTile", "StoredTile", "TurnedTile", "WideStoredTile"]

CHUNK_BYTES = 16
LANE_GROUPS = 4  # of 16 lanes in a wave of 64

#: ``read(tile, block)``: this lane's chunk of a block of k in the rows 16 tile ... 16 tile + 15.
Reader = Callable[[int, Any], Any]


@dataclass(frozen=True)
class RowTile:
    """A tile of `rows` x `row_bytes` of an operand that is consecutive in k, moved by `threads` threads.

    Attributes:
        rows, row_bytes: size; a row is a whole number of chunks.
        threads: of the workgroup; the tile's chunks are a multiple of it.
        bank_bytes: bytes that LDS delivers in one cycle (128, or 256 on gfx950).
        interleaved: the 16 lanes that read 16 rows take them in the order 0, 8, 1, 9, ..., 7, 15.
    """

    rows: int
    row_bytes: int
    threads: int
    bank_bytes: int = 128
    interleaved: bool = field(default=False, kw_only=True)

    #: Reads of LDS for a chunk.
    READS: ClassVar[int] = 1

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return self.row_bytes // CHUNK_BYTES

    @property
    def row_words(self) -> int:
        """A row in i32."""
        return self.row_bytes // 4

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def words(self) -> int:
        """Size in i32."""
        return self.bytes // 4

    @property
    def period(self) -> int:
        """Rows after which the exchange repeats."""
        return 16

    @property
    def loads(self) -> int:
        """Chunks that a thread moves."""
        return self.rows * self.chunks // self.threads

    def swizzle(self, row: Any) -> Any:
        """What the chunk numbers of `row` are exchanged with."""
        slots = self.bank_bytes // CHUNK_BYTES
        span = min(self.chunks & -self.chunks, slots)  # a power of two that divides the row
        if span == 1:
            return 0
        every = max(slots // self.chunks, 1)
        # gfx950 serves rows 0-3 and 12-15 of a chunk together with rows 4-11 of the next one. Rows of 64 bytes, four
        # of which share the banks, must then count down.
        turn = 3 if slots == 16 and span == 4 else 1
        if self.interleaved:  # eight neighbouring lanes read rows 0-3 and 8-11, or the others
            row = mod(row, 4) + mod(div(row, 8), 2) * 4
        return mod(div(row, every) * turn, span)

    def row_of_lane(self, lane: Lane) -> Any:
        """Which of 16 rows a lane reads."""
        return mod(lane.row, 2) * 8 + div(lane.row, 2) if self.interleaved else lane.row

    def row_of(self, fragment: int, lane_row: Any) -> Any:
        """The row of a fragment that belongs to lane ``lane % 16``."""
        return fragment * 16 + lane_row

    def at(self, row: Any, chunk: Any) -> Any:
        """Word offset of a chunk."""
        return row * self.row_words + (chunk ^ self.swizzle(row)) * WORDS

    def source(self, row: Any, chunk: Any) -> tuple[Any, Any]:
        """(row, chunk) of what lies at the place of a chunk without exchange."""
        return row, chunk ^ self.swizzle(row)

    def part(self, thread: Any, index: int) -> tuple[Any, Any]:
        """(row, chunk) of the thread's chunk number `index`."""
        linear = thread + index * self.threads
        return div(linear, self.chunks), mod(linear, self.chunks)

    def step(self, period: int = 16) -> int | None:
        """Rows from one of a thread's chunks to the next, if the chunk number is the same and these rows are a
        multiple of `period`: their places then differ by the same in all lanes."""
        rows, rest = divmod(self.threads, self.chunks)
        return None if rest or rows % period else rows

    def reader(self, base: Any, start: Any, lane: Lane, groups: int) -> Reader:
        """The reader of fragments whose tile 0 begins with row `start`, a multiple of 16; a block is `groups` chunks.

        The exchange of a row repeats every 16 rows, so the address of a tile differs by a constant only. Lane groups
        beyond the `groups` of a block read what the first ones do.
        """
        base = base if isinstance(start, int) and start == 0 else base + start * self.row_words
        row = self.row_of_lane(lane)
        words = fx.make_layout(self.rows * self.chunks, WORDS)  # tells that chunks are aligned
        first, key = row * self.chunks, mod(lane.group, groups) ^ self.swizzle(row)

        def place(block: Any) -> Any:
            return first + (key ^ (block * groups))

        places = [place(block) for block in range(self.chunks // groups)]

        def read(tile: int, block: Any) -> Any:
            at = places[block] if isinstance(block, int) else place(block)
            return lds_read(base + fx.crd2idx(at, words), tile * 16 * self.row_words)

        return read


@dataclass(frozen=True)
class AcrossTile(RowTile):
    """A tile whose chunks are exchanged over all banks, across rows."""

    def alike(self, fragment: int) -> int:
        """One of the first fragments that is exchanged as this one is."""
        raise NotImplementedError

    def reader(self, base: Any, start: Any, lane: Lane, groups: int) -> Reader:
        def read(fragment: int, block: Any) -> Any:
            near = self.alike(fragment)
            at = self.at(self.row_of(near, start + self.row_of_lane(lane)), mod(lane.group, groups) + block * groups)
            return lds_read(base, at + (self.row_of(fragment, 0) - self.row_of(near, 0)) * self.row_words)

        return read


@dataclass(frozen=True)
class SpreadTile(AcrossTile):
    """A tile whose fragments take rows that are `apart` from lane to lane: fragment f has, of every `16 * apart` rows,
    those with ``row % apart == f % apart``. A lane's rows of `apart` fragments are then consecutive.

    Chunks are exchanged over all banks by ``row // apart``.
    """

    apart: int = 1

    @property
    def period(self) -> int:
        """As that of :class:`RowTile`."""
        return self.apart * self._slots

    @property
    def _slots(self) -> int:
        return self.bank_bytes // CHUNK_BYTES

    @staticmethod
    def fits(row_bytes: int, bank_bytes: int, apart: int) -> bool:
        """Whether the rows that share a cycle of the banks are exchanged alike."""
        chunks = row_bytes // CHUNK_BYTES
        return chunks & (chunks - 1) == 0 and apart % max(bank_bytes // row_bytes, 1) == 0

    def swizzle(self, row: Any) -> Any:
        return mod(div(row, self.apart), self._slots)

    def row_of(self, fragment: int, lane_row: Any) -> Any:
        block, inside = divmod(fragment, self.apart)
        return block * 16 * self.apart + lane_row * self.apart + inside

    def at(self, row: Any, chunk: Any) -> Any:
        return ((row * self.chunks + chunk) ^ self.swizzle(row)) * WORDS

    def source(self, row: Any, chunk: Any) -> tuple[Any, Any]:
        linear = (row * self.chunks + chunk) ^ self.swizzle(row)
        return div(linear, self.chunks), mod(linear, self.chunks)

    def alike(self, fragment: int) -> int:
        rows = max(self._slots // self.chunks, 1)  # that share a cycle of the banks
        return fragment % self.apart % rows


@dataclass(frozen=True)
class TurnedTile(AcrossTile):
    """A tile whose writers hold blocks of eight k of several rows: at a time, neighbouring lanes write rows up to
    eight apart, and 16 lanes read neighbouring rows. Chunks are exchanged over all banks, by both parts of the row.
    """

    BANK_CHUNKS = 8

    @staticmethod
    def fits(row_bytes: int) -> bool:
        """Whether rows share the banks evenly."""
        chunks = row_bytes // CHUNK_BYTES
        return chunks & (chunks - 1) == 0

    def swizzle(self, row: Any) -> Any:
        raise NotImplementedError("the chunks of a TurnedTile are exchanged across rows: use at()")

    def _key(self, row: Any) -> Any:
        """Number of a row whose low three bits tell apart what is read together, and the next three what is written."""
        if not self.interleaved:
            return row
        near, far = mod(row, 4) + mod(div(row, 8), 2) * 4, mod(div(row, 4), 2) ^ mod(div(row, 32), 2)
        return near + far * 8 + mod(div(row, 16), 2) * 16

    def at(self, row: Any, chunk: Any) -> Any:
        per_cycle = max(self.BANK_CHUNKS // self.chunks, 1)  # rows that share a cycle of the banks
        key = self._key(row)
        near = mod(div(key, per_cycle), self.BANK_CHUNKS // per_cycle)
        far = mod(div(key, self.BANK_CHUNKS), self.BANK_CHUNKS)
        # The low bits of `far` go where `near` has none: its bits are rotated by their number.
        far = mod(far * (self.BANK_CHUNKS // per_cycle), self.BANK_CHUNKS) + div(far, per_cycle)
        return ((row * self.chunks + chunk) ^ (near ^ far)) * WORDS

    def alike(self, fragment: int) -> int:
        return fragment % (self.BANK_CHUNKS * self.BANK_CHUNKS // 16)


@dataclass(frozen=True)
class StoredTile(RowTile):
    """A tile of a 16-bit operand stored (k, columns) in that order: `rows` are k, read by the transposing reads of
    gfx950, which give each lane four k of one of 16 columns, from 8 bytes of each of four k.

    32 lanes of such a read take 32 bytes (16 columns) of four k and of the four k that are eight further on, so these
    segments of 32 bytes are exchanged by the number of k.
    """

    READS = 2
    LANES = 8  # elements of a chunk

    @property
    def columns(self) -> int:
        return self.row_bytes // 2

    @staticmethod
    def fits(columns: int) -> bool:
        """Whether a row is whole bank cycles, or half a one."""
        return columns == 64 or columns % 128 == 0

    def _segment(self, row: Any) -> Any:
        if self.columns == 64:  # two rows share the banks
            return mod(div(row, 2), 2) + mod(div(row, 8), 2) * 2
        return mod(row, 4) + mod(div(row, 8), 2) * 4

    def swizzle(self, row: Any) -> Any:
        return self._segment(row) * 2

    def element_of(self, row: Any, column: Any) -> Any:
        """Place of a column in its row."""
        return column ^ (self._segment(row) * 16)

    def reader(self, base: Any, start: Any, lane: Lane, groups: int) -> Reader:
        """As that of :class:`RowTile`; `start` is a column."""
        halves = fx.recast_iter(fx.Int16, base)
        k, column = lane.group * self.LANES + div(lane.row, 4), mod(lane.row, 4) * 4
        atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64), fx.Int16)

        def read(tile: int, block: Any) -> Any:
            place = k * self.columns + self.element_of(k, start + tile * 16 + column)
            at = place + block * (groups * self.LANES * self.columns)
            first, second = (taken(atom, halves + (at + half * (4 * self.columns)), 4) for half in range(2))
            return first.shuffle(second, list(range(8))).bitcast(fx.Int32)

        return read


@dataclass(frozen=True)
class WideStoredTile(StoredTile):
    """The same for the transposing reads of gfx1250, which give each lane eight k of one of 16 columns: eight lanes
    take 16 bytes (eight columns) of eight k, so chunks are exchanged by the number of k.
    """

    READS = 1

    @staticmethod
    def fits(columns: int) -> bool:
        return columns % 64 == 0  # a row has the chunks that are exchanged

    def swizzle(self, row: Any) -> Any:
        return mod(row, self.LANES)

    def reader(self, base: Any, start: Any, lane: Lane, groups: int) -> Reader:
        k, half, period = lane.group * self.LANES + mod(lane.row, self.LANES), div(lane.row, self.LANES), 4
        near = [base + self.at(k, div(start, self.LANES) + tile * 2 + half) for tile in range(period)]
        atom = fx.make_copy_atom(fx.rocdl.cdna5.LDSReadTrans(16, 128), fx.Int16)

        def read(tile: int, block: Any) -> Any:
            far = (tile - tile % period) * (2 * WORDS) + block * (groups * self.LANES * self.row_words)
            place = fx.recast_iter(fx.Int16, near[tile % period] + far)
            return taken(atom, place, self.LANES).bitcast(fx.Int32)

        return read


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
    def bytes(self) -> int:
        return super().bytes + self.rows // 16 * self.gap * 4

    def at(self, row: Any, chunk: Any) -> Any:
        inside = mod(chunk, 2 * LANE_GROUPS)
        place = chunk - inside + mod(inside, 2) * LANE_GROUPS + div(inside, 2)
        return super().at(row, place) + div(row, 16) * self.gap

    def reader(self, base: Any, start: Any, lane: Lane, groups: int) -> Reader:
        """As that of :class:`RowTile`; `start` is 0."""
        swizzle = self.swizzle(lane.row)
        places = [lane.row * self.row_words + (swizzle ^ (lane.group + block * groups)) * WORDS
                  + (mod(lane.group, 2) * 2 if block % 2 else 0) for block in range(self.chunks // groups)]

        def read(tile: int, block: Any) -> Any:
            at = places[block] + tile * (16 * self.row_words + self.gap)
            return lds_read(base, at, WORDS // 2 if block % 2 else WORDS)

        return read
