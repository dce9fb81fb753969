"""Tiles of rows in LDS: where rows come from (one tensor, or pages), how they lie there, and their way to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..cache.pages import Pages
from ..parts.index import div, mod
from ..parts.memory import Buffer, lds_read, lds_write, move_rows
from ..target import Target
from .weave import Work

__all__ = [
    "CHUNK", "DenseRows", "LineTile", "PagedRows", "PassingStatistic", "PassingTile", "PassingTiles", "RowTile", "Rows",
    "Tile", "TurnedTile", "tiles_of",
]

CHUNK = 8  # 16-bit elements of a 128-bit access
BLOCK = 4  # rows and columns of what a thread turns
LINE = 512  # 16-bit elements that a wave of 64 copies to LDS by one instruction


class DenseRows:
    """Rows at a stride.

    Args:
        start: first element of row 0.
        count: number of rows.
        columns: of a row.
    """

    def __init__(self, data: Any, element: Any, start: Any, count: Any, stride: Any, columns: int) -> None:
        self._stride, self._count, self._last = stride, count, fx.max(count - 1, 0) * stride
        self.element = element
        extent = (count > 0).select((count - 1) * stride + columns, 0)
        self._buffer = Buffer(data, element, start, extent)

    def load(self, first: Any, row: Any, column: Any, n: int) -> Any:
        """`n` elements of a row of a lane's, counted from row `first`, which is the same in all lanes.

        Rows beyond the last are zero; counted from one that is beyond it they may be copies of the last.
        """
        # What the lanes have in common is no vector arithmetic, and no registers of theirs.
        return self._buffer.load(row * self._stride + column, n, fx.min(self.offset(first), self._last))

    def offset(self, row: Any) -> Any:
        """Elements before a row that is the same in all lanes."""
        return row * self._stride

    def copy(self, row: Any, column: Any, offset: Any, target: Any) -> None:
        """Start copying a chunk of a row, `offset` elements further on, to LDS: to `target` plus 16 bytes a lane."""
        atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), self.element)
        place = fx.make_view(target, fx.make_layout(CHUNK, 1))
        fx.copy(atom, self._buffer.view(row * self._stride + column, CHUNK), place, soffset=offset)

    def move(self, first: Any, shape: tuple[int, int], padding: int, waves: int, target: Any) -> None:
        """Start a tensor move of rows from `first` on to LDS (gfx1250): each of `waves` has a share. Rows beyond the
        last are zero.

        Args:
            shape: rows and columns; `padding`: elements that are left out in LDS behind each row.
        """
        move_rows(self._buffer, self._count, self._stride, first, shape, padding, waves, target)


@dataclass(frozen=True)
class PagedRows(Pages):
    """Rows of one head in pages (not `uniform`): those beyond the last are copies of it."""

    @property
    def element(self) -> Any:
        return self.base.element_type

    def load(self, first: Any, row: Any, column: Any, n: int) -> Any:
        """`n` elements of a row of a lane's, counted from row `first`."""
        register = fx.make_rmem_tensor(n, self.element)
        start = self.token(first, row, self.number(first, row)) + column
        atom = fx.make_copy_atom(fx.UniversalCopy(n * self.element.width), self.element)
        fx.copy(atom, fx.make_view(start, fx.make_layout(n, 1)), register)
        return register.load()


Rows = DenseRows | PagedRows


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


class PassingTile:
    """A tile of rows on its way to stages of LDS, to be read along its rows, across them, or both.

    Args:
        tiles: of `tiles_of`: how it lies there; a second one if it is stored twice.
        memory, stages, rolled: of :class:`Stages`.
    """

    def __init__(self, memory: Any, element: Any, tiles: Sequence[Any], stages: int, rolled: bool) -> None:
        self._element, self._tiles = element, tiles
        self._thread, self._wave = fx.thread_idx.x, fx.wave_index()
        self._places = [Stages(memory, element, tile.size, stages, rolled) for tile in tiles]
        self._staged: dict[int, list[Any]] = {}

    def along(self, stage: Any) -> Any:
        """(rows, columns) in LDS."""
        return self._tiles[0].view(self._places[0][stage])

    def across(self, stage: Any) -> Any:
        """(columns, rows) in LDS."""
        tile, start = self._tiles[-1], self._places[-1][stage]
        return tile.view(start) if isinstance(tile, TurnedTile) else tile.view(start, True)

    def fetch(self, source: Rows, first: Any, piece: int) -> None:
        """Start loading a piece of the rows from `first` on into registers."""
        which, i = self._numbered[piece]
        chunks = self._tiles[which].fetch(source, first, self._thread, i)
        if piece not in self._staged:
            self._staged[piece] = [fx.make_rmem_tensor(chunk.numel, chunk.dtype) for chunk in chunks]
        for held, chunk in zip(self._staged[piece], chunks, strict=True):
            held.store(chunk)

    def commit(self, stage: int, piece: int) -> None:
        """Write a piece that was fetched to LDS."""
        which, i = self._numbered[piece]
        chunks = [chunk.load().to(self._element) for chunk in self._staged[piece]]
        self._tiles[which].commit(self._places[which][stage], self._thread, i, chunks)

    @property
    def pieces(self) -> int:
        """Of which the tile is loaded or copied, and stored."""
        return len(self._numbered)

    @property
    def _numbered(self) -> list[tuple[int, int]]:
        """Each piece: of which of the tiles, and its number there."""
        return [(which, i) for which, tile in enumerate(self._tiles) for i in range(tile.loads)]

    def copy(self, source: DenseRows, first: Any, stage: int, piece: int) -> None:
        """Start copying a piece of the rows from `first` on to LDS, without registers (gfx950, gfx1250)."""
        (tile,), (place,) = self._tiles, self._places
        tile.copy(source, first, place[stage], self._thread, self._wave, piece)


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
        self._staged: Any = None

    def read(self, stage: Any) -> Callable[[Any, int], Any]:
        """``load(row, n)`` of `n` values from a row of the tile on."""
        return partial(lds_read, self._places[stage])

    def fetch(self, source: Buffer, first: Any, piece: int) -> None:
        """Start loading the values from `first` on into registers."""
        self._staged = source.load(first + fx.thread_idx.x, 1)

    def commit(self, stage: Any, piece: int) -> None:
        """Write what was fetched to LDS."""
        lds_write(self._places[stage], fx.thread_idx.x, self._staged)

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
    def _numbered(self) -> list[tuple[int, int]]:
        """Each piece: of which tile, and its number there."""
        return [(which, i) for which, tile in enumerate(self.tiles) for i in range(tile.pieces)]

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

    @property
    def _refills(self) -> bool:
        return self.refilled and not self.direct

    def _load(self, step: Any, _: Any, piece: int) -> None:
        which, number = self._numbered[piece]
        self.tiles[which].fetch(*self.sources(step)[which], number)

    def _store(self, _: Any, stage: int, piece: int | None = None) -> None:
        for which, number in self._numbered if piece is None else [self._numbered[piece]]:
            self.tiles[which].commit(stage, number)

    def _copy(self, step: Any, stage: int, piece: int) -> None:
        which, number = self._numbered[piece]
        self.tiles[which].copy(*self.sources(step)[which], stage, number)


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
