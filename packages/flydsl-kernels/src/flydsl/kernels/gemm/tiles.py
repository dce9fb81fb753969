"""LDS tiles of the GEMMs: rows of 16-byte chunks, placed so that the reads of a wave hit every bank once.

Chunk c of row r lies at chunk ``c ^ swizzle(r)`` of the row. The writer and the reader apply the same exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.memory import WORDS, Buffer, lds_read, lds_write
from .matrix import CHUNK_BYTES

__all__ = ["KTile", "RowTile", "SpreadTile", "StoredTile", "TurnedTile"]


@dataclass(frozen=True)
class KTile:
    """Number of a k tile: ``turn + further``. The constant part is kept apart so that it becomes part of the lanes'
    addresses, once; added to `turn` it would take a scalar addition at each load in the loop."""

    turn: Any
    further: int = 0

    @property
    def index(self) -> Any:
        return self.turn + self.further

    def after(self, tiles: int) -> KTile:
        return KTile(self.turn, self.further + tiles)


@dataclass(frozen=True)
class RowTile:
    """A tile of `rows` x `row_bytes` of a k-contiguous operand, moved by `threads` threads.

    Attributes:
        rows, row_bytes: size; a row is a whole number of chunks.
        threads: of the workgroup; the tile's chunks are a multiple of it.
        bank_bytes: bytes that LDS delivers in one cycle (128, or 256 on gfx950).
    """

    rows: int
    row_bytes: int
    threads: int
    bank_bytes: int = 128

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return self.row_bytes // CHUNK_BYTES

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
        return mod(div(row, every) * turn, span)

    def at(self, row: Any, chunk: Any) -> Any:
        """Word offset of a chunk."""
        return row * (self.row_bytes // 4) + (chunk ^ self.swizzle(row)) * WORDS

    def source(self, row: Any, chunk: Any) -> tuple[Any, Any]:
        """(row, chunk) of what lies at the place of a chunk without exchange."""
        return row, chunk ^ self.swizzle(row)

    def part(self, thread: Any, index: int) -> tuple[Any, Any]:
        """(row, chunk) of the thread's chunk number `index`."""
        linear = thread + index * self.threads
        return div(linear, self.chunks), mod(linear, self.chunks)

    def fetch(self, source: Buffer, stride: int, thread: Any, soffset: Any, further: int | None = None) -> list[Any]:
        """Start loading this thread's chunks: rows `stride` words apart, `soffset` words further on.

        With `further`, so many more, which is part of the lanes' addresses: a register for each load instead of an
        addition to `soffset`.
        """
        step, rest = divmod(self.threads, self.chunks)  # rows from a load to the next
        if further is None or rest or step % 16:
            more = further or 0
            return self.fetch_from(source, lambda row, chunk: row * stride + chunk * WORDS + more, thread, soffset)
        row, chunk = self.part(thread, 0)
        start = row * stride + chunk * WORDS
        return [source.load(start + (i * step * stride + further), WORDS, soffset) for i in range(self.loads)]

    def fetch_from(self, source: Buffer, place_of: Callable[[Any, Any], Any], thread: Any, soffset: Any) -> list[Any]:
        """:meth:`fetch` of chunks at ``place_of(row, chunk)``, linear in whole groups of 16 rows."""
        step, rest = divmod(self.threads, self.chunks)  # rows from a load to the next
        if rest or step % 16:
            return [source.load(place_of(*self.part(thread, i)), WORDS, soffset) for i in range(self.loads)]
        # They differ by the same in all lanes: one register for their places.
        start, out = place_of(*self.part(thread, 0)), []
        for i in range(self.loads):
            further = place_of(i * step, 0) - place_of(0, 0)
            out.append(source.load(start, WORDS, soffset + further if i else soffset))
        return out

    def commit(self, base: Any, thread: Any, chunks: list[Any]) -> None:
        """Write the fetched chunks to LDS."""
        for i, value in enumerate(chunks):
            lds_write(base, self.at(*self.part(thread, i)), value)

    def copy_async(self, source: Buffer, place_of: Callable[[Any, Any], Any], base: Any, thread: Any, wave: int,
                   soffset: Any, which: range | None = None) -> None:
        """Copy global memory to LDS without registers: a lane's LDS place is fixed, so its source is exchanged.

        ``place_of(row, chunk)`` is the word offset of a chunk in `source`, linear in whole groups of 16 rows; `which`
        chunks of each thread, or all.
        """
        atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), fx.Int32)
        first = fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, div(thread, wave) * (wave * WORDS)))
        step, rest = divmod(self.threads, self.chunks)  # rows from a copy to the next
        alike = rest == 0 and step % self.period == 0
        start = place_of(*self.source(*self.part(thread, 0)))
        for i in range(self.loads) if which is None else which:
            # Copies whose rows are exchanged alike differ by the same in all lanes: one register for their places.
            at = start if alike else place_of(*self.source(*self.part(thread, i)))
            offset = soffset + (place_of(i * step, 0) - place_of(0, 0)) if alike and i else soffset
            place = fx.make_view(base + (first + i * self.threads * WORDS), fx.make_layout(WORDS, 1))
            fx.copy(atom, source.view(at, WORDS), place, soffset=offset)

    def read_at(self, base: Any, row: Any, chunk: Any) -> Any:
        """One chunk from LDS."""
        return lds_read(base, self.at(row, chunk))

    def reader(self, base: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        """``read(tile, block)``: the chunk of this lane in row ``16 * tile + lane_row``, block of `groups` chunks.

        The exchange of a row repeats every 16 rows, so the address of a tile differs by a constant only.
        """
        start, key = lane_row * (self.row_bytes // 4), group ^ self.swizzle(lane_row)

        def place(block: Any) -> Any:
            return start + (key ^ (block * groups)) * WORDS

        places = [place(block) for block in range(self.chunks // groups)]

        def read(tile: int, block: Any) -> Any:
            at = places[block] if isinstance(block, int) else place(block)
            return lds_read(base, at + tile * 16 * (self.row_bytes // 4))

        return read


@dataclass(frozen=True)
class SpreadTile(RowTile):
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

    @property
    def _per_cycle(self) -> int:
        """Rows that share a cycle of the banks."""
        return max(self._slots // self.chunks, 1)

    @staticmethod
    def fits(row_bytes: int, bank_bytes: int, apart: int) -> bool:
        """Whether the rows that share a cycle of the banks are exchanged alike."""
        chunks = row_bytes // CHUNK_BYTES
        return chunks & (chunks - 1) == 0 and apart % max(bank_bytes // row_bytes, 1) == 0

    def swizzle(self, row: Any) -> Any:
        return mod(div(row, self.apart), self._slots)

    def row_of(self, fragment: int, lane_row: Any) -> Any:
        """The row of a fragment that belongs to lane ``lane % 16``."""
        block, inside = divmod(fragment, self.apart)
        return block * 16 * self.apart + lane_row * self.apart + inside

    def at(self, row: Any, chunk: Any) -> Any:
        """Word offset of a chunk."""
        return ((row * self.chunks + chunk) ^ self.swizzle(row)) * WORDS

    def source(self, row: Any, chunk: Any) -> tuple[Any, Any]:
        """(row, chunk) of what lies at the place of a chunk without exchange."""
        linear = (row * self.chunks + chunk) ^ self.swizzle(row)
        return div(linear, self.chunks), mod(linear, self.chunks)

    def reader(self, base: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        """``read(fragment, block)``: this lane's chunk of a block of k of a fragment."""
        def read(fragment: int, block: Any) -> Any:
            near = fragment % self.apart % self._per_cycle
            at = self.at(self.row_of(near, lane_row), group + block * groups)
            return lds_read(base, at + (self.row_of(fragment, 0) - near) * (self.row_bytes // 4))

        return read


@dataclass(frozen=True)
class TurnedTile(RowTile):
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

    def at(self, row: Any, chunk: Any) -> Any:
        """Word offset of a chunk."""
        per_cycle = max(self.BANK_CHUNKS // self.chunks, 1)  # rows that share a cycle of the banks
        near = mod(div(row, per_cycle), self.BANK_CHUNKS // per_cycle)
        far = mod(div(row, self.BANK_CHUNKS), self.BANK_CHUNKS)
        # The low bits of `far` go where `near` has none: its bits are rotated by their number.
        far = mod(far * (self.BANK_CHUNKS // per_cycle), self.BANK_CHUNKS) + div(far, per_cycle)
        return ((row * self.chunks + chunk) ^ (near ^ far)) * WORDS

    def reader_from(self, base: Any, start: Any, lane_row: Any, group: Any, groups: int) -> Callable[[int, Any], Any]:
        """``read(tile, block)`` as :meth:`RowTile.reader`, tile 0 at row `start` (a multiple of 16)."""
        period = self.BANK_CHUNKS * self.BANK_CHUNKS // 16  # tiles after which the exchange repeats

        def place(tile: int, block: Any) -> Any:
            return self.at(start + lane_row + tile * 16, group + block * groups)

        def read(tile: int, block: Any) -> Any:
            at = place(tile % period, block)
            return lds_read(base, at + (tile - tile % period) * 16 * (self.row_bytes // 4))

        return read


@dataclass(frozen=True)
class StoredTile(RowTile):
    """A tile of an operand stored (k, columns) in that order: `rows` are k, read by the transposing reads of gfx950.

    32 lanes of such a read take 32 bytes (16 columns) of four k and of the four k that are eight further on, so these
    segments of 32 bytes are exchanged by the number of k.
    """

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
