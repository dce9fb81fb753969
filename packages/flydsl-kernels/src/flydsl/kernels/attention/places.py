"""How a tile of rows lies in LDS, so that what is read together is in different banks, and how it comes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.memory import lds_write
from ..target import Target
from .rows import CHUNK, DenseRows, Rows

__all__ = ["LineTile", "RowTile", "Tile", "TurnedTile", "tiles_of"]

BLOCK = 4  # rows and columns of what a thread turns
LINE = 512  # 16-bit elements that a wave of 64 copies to LDS by one instruction


def _view(start: Any, layout: Any, bits: int, base: int, shift: int) -> Any:
    """A tile in an LDS array, whose places are exchanged by (bits, base, shift)."""
    if bits:
        layout = fx.make_composed_layout(fx.static(fx.SwizzleType.get(bits, base, shift)), layout)
    return fx.make_view(start, layout)


def _swizzled(index: Any, bits: int, base: int, shift: int) -> Any:
    return index ^ ((index >> shift) & (((1 << bits) - 1) << base)) if bits else index


@dataclass(frozen=True)
class RowTile:
    """`rows` x `columns` in LDS as they are in memory, chunks of a row exchanged by the row, or rows padded.

    Attributes:
        threads: of the workgroup; each moves some chunks.
        across: it is read across its rows only.
        padding: elements between rows.
        both: it is read along and across its rows (gfx950), which lie in another order then.
        blocks: it is read across its rows in blocks of 8 x 8, which the instruction turns (gfx1250).
    """

    rows: int
    columns: int
    threads: int
    across: bool = False
    padding: int = 0
    both: bool = False
    blocks: bool = False

    @property
    def pitch(self) -> int:
        """Elements from a row to the next."""
        return self.columns + self.padding

    @property
    def loads(self) -> int:
        """Chunks of a thread."""
        return -(-self.rows * self.columns // (CHUNK * self.threads))

    @property
    def size(self) -> int:
        """Elements of the array."""
        return self.rows * self.pitch

    @property
    def swizzle(self) -> tuple[int, int, int]:
        """(bits, base, shift) of the exchange: the rows that are read together lie in different banks.

        Along rows, those are 16 in chunks of 16 bytes; across them, 4 in blocks of 64 bytes.
        """
        if self.padding:
            return 0, 0, 0
        span = (self.columns & -self.columns).bit_length() - 1  # columns are a multiple of 2**span
        if self.across:
            bits = min(span - 5, 2)
            return bits, 5, (span - 5 if bits == 2 else 2)
        bits = min(span - 3, 4)
        return bits, 3, (span - 3 if self.columns == 1 << span else bits)

    @property
    def order(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where rows lie, as a layout (shape, stride).

        Of a row that is read both ways, the two lowest bits choose one of 4 blocks of 64 bytes, the next two one of
        its 4 chunks: 4 rows that are read across lie in different banks, and so do the 16 of an access along rows.
        Without exchange, rows of 128 bytes have the lowest bit in that place.
        """
        if not self.both or self.columns & (self.columns - 1) or self.columns < 64:
            return (self.rows,), (1,)
        first = ((4, 4), (4, 1)) if self.columns > 64 else ((2, 2, 4), (1, 8, 2))
        return (*first[0], self.rows // 16), (*first[1], 16)

    def _row(self, place: Any) -> Any:
        """The row that lies at a place."""
        shape, stride = self.order
        if len(shape) == 1:
            return place
        row: Any = 0
        step = 1  # of rows, of this mode
        for size, distance in zip(shape, stride, strict=True):
            row, step = row + mod(div(place, distance), size) * step, step * size
        return row

    def view(self, start: Any, turned: bool = False) -> Any:
        """The tile in an LDS array; `turned`: as (columns, rows)."""
        sizes, places = self.order
        shape, stride = (sizes, self.columns), (tuple(place * self.pitch for place in places), 1)
        layout = fx.make_layout(shape[::-1], stride[::-1]) if turned else fx.make_layout(shape, stride)
        return _view(start, layout, *self.swizzle)

    def fetch(self, source: Rows, first: Any, thread: Any, i: int) -> list[Any]:
        """Start loading this thread's chunk number `i` of the rows from `first` on."""
        apart, rest = divmod(self.threads * CHUNK, self.columns)
        # Chunks of a lane that are alike but for their rows have one address, but on gfx1250: it has registers for
        # several, and one wave issues all scalar instructions beside the products.
        alike = not (rest or self.both or self.blocks or self.swizzle[0] and apart % 16)
        at = _swizzled((thread + (0 if alike else i * self.threads)) * CHUNK, *self.swizzle)
        rows = first + (i * apart if alike else 0)
        return [source.load(rows, self._row(div(at, self.columns)), mod(at, self.columns), CHUNK)]

    def copy(self, source: DenseRows, first: Any, base: Any, thread: Any, wave: Any, i: int) -> None:
        """Start copying piece `i` to LDS without registers. A lane has a fixed place, so its source is exchanged."""
        start = wave * (fx.num_warp_threads() * CHUNK)
        at = _swizzled((thread + i * self.threads) * CHUNK, *self.swizzle)
        source.copy(self._row(div(at, self.columns)), mod(at, self.columns), source.offset(first),
                    base + (start + i * self.threads * CHUNK))

    def commit(self, base: Any, thread: Any, i: int, chunks: list[Any]) -> None:
        """Write chunk number `i`, which has been fetched, to LDS."""
        at = thread + i * self.threads
        place = at * CHUNK + div(at * CHUNK, self.columns) * self.padding
        _write(base, place, chunks[0], at, self.rows * self.columns // CHUNK, (i + 1) * self.threads)


@dataclass(frozen=True)
class MovedTile(RowTile):
    """A :class:`RowTile` that tensor moves bring, one of each wave (gfx1250)."""

    @property
    def loads(self) -> int:
        return 1

    def copy(self, source: DenseRows, first: Any, base: Any, thread: Any, wave: Any, i: int) -> None:
        source.move(first, (self.rows, self.columns), self.padding, self.threads // fx.num_warp_threads(), base)


@dataclass(frozen=True)
class LineTile:
    """`rows` x `columns` in LDS as lines, each what a wave copies by one instruction, with padding between.

    A line has a *group* of columns of each `apart`-th row. Unlike an exchange of chunks this is a layout: a lane reads
    at one address and constant distances.

    Attributes:
        threads: of the workgroup.
        across: it is read across its rows only.
    """

    rows: int
    columns: int
    threads: int
    across: bool = False

    @property
    def group(self) -> int:
        """Columns of a line."""
        return 64 if self.columns % 64 == 0 else 32

    @property
    def apart(self) -> int:
        """Lines of a group of columns."""
        return self.rows * self.group // LINE

    @property
    def line(self) -> int:
        """Elements from a line to the next: what is read together lies in different banks."""
        return LINE + (32 if self.across else CHUNK)

    @property
    def size(self) -> int:
        """Elements of the array."""
        return self.rows * self.columns // LINE * self.line

    def view(self, start: Any, turned: bool = False) -> Any:
        """The tile in an LDS array; `turned`: as (columns, rows)."""
        modes = [((self.apart, self.rows // self.apart), (self.line, self.group)),
                 ((self.group, self.columns // self.group), (1, self.apart * self.line))]
        shape, stride = zip(*(modes[::-1] if turned else modes), strict=True)
        return fx.make_view(start, fx.make_layout(shape, stride))

    @property
    def loads(self) -> int:
        """Lines of a wave."""
        return self.rows * self.columns // (CHUNK * self.threads)

    def copy(self, source: DenseRows, first: Any, base: Any, thread: Any, wave: Any, i: int) -> None:
        """Start copying piece `i` of the rows from `first` on to LDS without registers."""
        waves = self.threads // fx.num_warp_threads()
        lane, line = mod(thread, fx.num_warp_threads()) * CHUNK, wave + i * waves
        row, column = div(lane, self.group) * self.apart, mod(lane, self.group)
        start = source.offset(mod(line, self.apart)) + div(line, self.apart) * self.group
        source.copy(row, column, source.offset(first) + start, base + line * self.line)


@dataclass(frozen=True)
class TurnedTile:
    """`columns` x `rows` in LDS: turned in blocks of 4 x 4, each by one thread, on the way.

    Attributes:
        padding: elements between columns; without, blocks of a column are exchanged.
    """

    rows: int
    columns: int
    threads: int
    padding: int = 0

    @property
    def loads(self) -> int:
        """Blocks of a thread."""
        return -(-self.rows * self.columns // (BLOCK * BLOCK * self.threads))

    @property
    def size(self) -> int:
        """Elements of the array."""
        return self.columns * (self.rows + self.padding)

    @property
    def swizzle(self) -> tuple[int, int, int]:
        """(bits, base, shift): the same 4 rows of 16 columns, which are read together, lie in different banks, and so
        do what 16 threads write: 8 blocks of a column and of that 16 further on."""
        bits = (self.rows // BLOCK).bit_length() - 1
        return (0, 0, 0) if self.padding else (min(bits + (bits == 3), 4), 2, 4)

    def view(self, start: Any) -> Any:
        """The tile in an LDS array as (columns, rows)."""
        layout = fx.make_layout((self.columns, self.rows), (self.rows + self.padding, 1))
        return _view(start, layout, *self.swizzle)

    def _block(self, thread: Any, i: int) -> tuple[Any, Any]:
        """(row, column) of a thread's block."""
        linear, down = thread + i * self.threads, self.rows // BLOCK
        whole = self.rows * self.columns // (BLOCK * BLOCK)
        if (i + 1) * self.threads > whole:  # threads without a block read one that there is, and write nothing
            linear = fx.min(linear, whole - 1)
        row, block = mod(linear, down) * BLOCK, div(linear, down)
        if down == 8 and not self.padding:
            block = div(block, 8) * 8 + mod(block, 2) * 4 + mod(div(block, 2), 4)
        return row, block * BLOCK

    def fetch(self, source: Rows, first: Any, thread: Any, i: int) -> list[Any]:
        """Start loading this thread's block number `i` of the rows from `first` on."""
        row, column = self._block(thread, i)
        return [source.load(first + r, row, column, BLOCK) for r in range(BLOCK)]

    def commit(self, base: Any, thread: Any, i: int, block: list[Any]) -> None:
        """Turn block number `i`, which has been fetched, and write it to LDS."""
        whole, (row, column) = self.rows * self.columns // (BLOCK * BLOCK), self._block(thread, i)
        for c in range(BLOCK):
            turned = fx.Vector.from_elements([r[c] for r in block], base.element_type)
            at = _swizzled((column + c) * (self.rows + self.padding) + row, *self.swizzle)
            _write(base, at, turned, thread + i * self.threads, whole, (i + 1) * self.threads)


Tile = LineTile | RowTile | TurnedTile


def tiles_of(target: Target, rows: int, columns: int, threads: int, along: bool, across: bool,
             direct: bool = False) -> tuple[Tile, ...]:
    """How a tile lies in LDS.

    Args:
        along, across: how it is read. gfx950 and gfx1250 can read a tile across as it lies; elsewhere it is turned, and
            stored a second time for both.
        direct: whether it is copied without registers.
    """
    if target.transposing_reads == 8:
        kind = LineTile if direct and along != across and rows == 64 else RowTile
        return (RowTile(rows, columns, threads, both=True) if along and across else
                kind(rows, columns, threads, not along),)
    if target.transposing_reads == 16:
        kind = MovedTile if direct else RowTile
        return (kind(rows, columns, threads, padding=CHUNK, blocks=True),)
    padding = CHUNK if target.wave == 32 else 0  # there is room for it
    return (*((RowTile(rows, columns, threads, padding=padding),) if along else ()),
            *((TurnedTile(rows, columns, threads, padding),) if across else ()))


def _write(base: Any, at: Any, value: Any, index: Any, whole: int, most: int) -> None:
    """Write to LDS in the threads whose index is below `whole`: in all of them, if indices end with `most`."""
    if most <= whole:
        lds_write(base, at, value)
    else:
        _write_if(index < whole, base, at, value)


@flyc.jit
def _write_if(inside: Any, base: Any, at: Any, value: Any) -> None:
    if inside:
        lds_write(base, at, value)
