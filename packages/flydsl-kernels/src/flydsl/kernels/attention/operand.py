"""Rows of keys and values on their way to LDS: from one tensor, or from pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.memory import Buffer, lds_write
from ..parts.rows import pointer

__all__ = ["DenseRows", "PagedRows", "PassingTile", "RowTile", "TurnedTile", "converted"]

CHUNK = 8  # 16-bit elements of a 128-bit access
BLOCK = 4  # rows and columns of what a thread turns


class DenseRows:
    """Rows at a stride; those beyond the last read as zero.

    Args:
        start: first element of row 0.
        count: number of rows.
        columns: of a row.
    """

    def __init__(self, data: Any, element: Any, start: Any, count: Any, stride: Any, columns: int) -> None:
        self._stride = stride
        self.element = element
        extent = (count > 0).select((count - 1) * stride + columns, 0)
        self._buffer = Buffer(data, element, start, extent)

    def load(self, row: Any, column: Any, n: int) -> Any:
        """`n` elements of a row."""
        return self._buffer.load(row * self._stride + column, n)

    def offset(self, row: Any) -> Any:
        """Elements before a row that is the same in all lanes."""
        return row * self._stride

    def copy(self, row: Any, column: Any, offset: Any, target: Any) -> None:
        """Start copying a chunk of a row, `offset` elements further on, to LDS: to `target` plus 16 bytes a lane."""
        atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), self.element)
        place = fx.make_view(target, fx.make_layout(CHUNK, 1))
        fx.copy(atom, self._buffer.view(row * self._stride + column, CHUNK), place, soffset=offset)


class PagedRows:
    """Rows in pages that a table names; those beyond the last are copies of it.

    Args:
        table: Buffer of page numbers, whose first is that of row 0.
        page: rows of a page.
        start: first element of this head in page 0; `page_stride`, `stride`: elements from a page and from a row to
            the next.
    """

    def __init__(self, data: Any, element: Any, table: Any, first: Any, page: int, start: Any, page_stride: Any,
                 count: Any, stride: Any) -> None:
        self._base = pointer(data, element) + start
        self.element = element
        self._table, self._first, self._page = table, first, page
        self._page_stride, self._stride, self._last, self._begin = page_stride, stride, count - 1, 0

    def load(self, row: Any, column: Any, n: int) -> Any:
        row = fx.max(fx.min(row, self._last), self._begin)
        page = self._table.load(self._first + div(row, self._page), 1)[0]
        at = fx.Int64(page) * fx.Int64(self._page_stride) + fx.Int64(mod(row, self._page) * self._stride + column)
        register = fx.make_rmem_tensor(n, self.element)
        atom = fx.make_copy_atom(fx.UniversalCopy(n * self.element.width), self.element)
        fx.copy(atom, fx.make_view(self._base + at, fx.make_layout(n, 1)), register)
        return register.load()


Rows = DenseRows | PagedRows


def _swizzled(index: Any, bits: int, base: int, shift: int) -> Any:
    return index ^ ((index >> shift) & (((1 << bits) - 1) << base)) if bits else index


@dataclass(frozen=True)
class RowTile:
    """`rows` x `columns` in LDS as they are in memory, chunks of a row exchanged by the row.

    Attributes:
        threads: of the workgroup; each moves some chunks.
        across: it is read across its rows only.
    """

    rows: int
    columns: int
    threads: int
    across: bool = False

    @property
    def loads(self) -> int:
        """Chunks of a thread."""
        return -(-self.rows * self.columns // (CHUNK * self.threads))

    @property
    def swizzle(self) -> tuple[int, int, int]:
        """(bits, base, shift) of the exchange: the rows that are read together lie in different banks.

        Along rows, those are 16 in chunks of 16 bytes; across them, 4 in blocks of 64 bytes.
        """
        span = (self.columns & -self.columns).bit_length() - 1  # columns are a multiple of 2**span
        if self.across:
            bits = min(span - 5, 2)
            return bits, 5, (span - 5 if bits == 2 else 2)
        bits = min(span - 3, 4)
        return bits, 3, (span - 3 if self.columns == 1 << span else bits)

    def view(self, array: Any, turned: bool = False) -> Any:
        """The tile in an LDS array; `turned`: as (columns, rows)."""
        shape, stride = (self.rows, self.columns), (self.columns, 1)
        layout = fx.make_layout(shape[::-1], stride[::-1]) if turned else fx.make_layout(shape, stride)
        bits, base, shift = self.swizzle
        if not bits:
            return array.view(layout)
        return array.view(fx.make_composed_layout(fx.static(fx.SwizzleType.get(bits, base, shift)), layout))

    def fetch(self, source: Rows, first: Any, thread: Any) -> list[Any]:
        """Start loading this thread's chunks of the rows from `first` on."""
        out = []
        for i in range(self.loads):
            at = _swizzled((thread + i * self.threads) * CHUNK, *self.swizzle)
            out.append(source.load(first + div(at, self.columns), mod(at, self.columns), CHUNK))
        return out

    def copy(self, source: DenseRows, first: Any, base: Any, thread: Any) -> None:
        """Start copying to LDS without registers. A lane's place there is fixed, so its source is exchanged."""
        wave = fx.num_warp_threads()
        start = fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, (div(thread, wave) * (wave * CHUNK)).ir_value()))
        offset = source.offset(first)
        for i in range(self.loads):
            at = _swizzled((thread + i * self.threads) * CHUNK, *self.swizzle)
            source.copy(div(at, self.columns), mod(at, self.columns), offset, base + (start + i * self.threads * CHUNK))

    def commit(self, base: Any, thread: Any, chunks: list[Any]) -> None:
        """Write the fetched chunks to LDS."""
        whole = self.rows * self.columns // CHUNK
        for i, chunk in enumerate(chunks):
            at = thread + i * self.threads
            _write(base, at * CHUNK, converted(chunk, base.element_type), at, whole, (i + 1) * self.threads)


@dataclass(frozen=True)
class TurnedTile:
    """`columns` x `rows` in LDS: turned in blocks of 4 x 4, each by one thread, on the way."""

    rows: int
    columns: int
    threads: int

    @property
    def blocks(self) -> int:
        return -(-self.rows * self.columns // (BLOCK * BLOCK * self.threads))

    @property
    def swizzle(self) -> tuple[int, int, int]:
        """(bits, base, shift): the same 4 rows of 16 columns, which are read together, lie in different banks."""
        return min((self.rows // BLOCK).bit_length() - 1, 4), 2, 4

    def view(self, array: Any) -> Any:
        """The tile in an LDS array as (columns, rows)."""
        layout = fx.make_layout((self.columns, self.rows), (self.rows, 1))
        swizzle = fx.static(fx.SwizzleType.get(*self.swizzle))
        return array.view(fx.make_composed_layout(swizzle, layout))

    def _block(self, thread: Any, i: int) -> tuple[Any, Any]:
        """(row, column) of a thread's block."""
        linear, down = thread + i * self.threads, self.rows // BLOCK
        return mod(linear, down) * BLOCK, div(linear, down) * BLOCK

    def fetch(self, source: Rows, first: Any, thread: Any) -> list[Any]:
        """Start loading this thread's blocks of the rows from `first` on."""
        out = []
        for i in range(self.blocks):
            row, column = self._block(thread, i)
            out += [source.load(first + row + r, column, BLOCK) for r in range(BLOCK)]
        return out

    def commit(self, base: Any, thread: Any, rows: list[Any]) -> None:
        """Turn what was fetched and write it to LDS."""
        whole = self.rows * self.columns // (BLOCK * BLOCK)
        for i in range(self.blocks):
            row, column = self._block(thread, i)
            block = [converted(r, base.element_type) for r in rows[i * BLOCK : (i + 1) * BLOCK]]
            for c in range(BLOCK):
                turned = fx.Vector.from_elements([r[c] for r in block], base.element_type)
                at = _swizzled((column + c) * self.rows + row, *self.swizzle)
                _write(base, at, turned, thread + i * self.threads, whole, (i + 1) * self.threads)


class PassingTile:
    """A tile of rows on its way to stages of LDS, to be read along its rows, across them, or both.

    Args:
        memory: allocator of LDS.
        along, across: how it is read.
        turned: whether it can be read across as it lies (gfx950); else it is turned, and stored a second time for both.
        stages: how many tiles have a place; each has arrays of its own, so that a copy to one cannot alias a read of
            another.
    """

    def __init__(self, memory: Any, element: Any, rows: int, columns: int, threads: int, along: bool, across: bool,
                 turned: bool, stages: int = 1) -> None:
        array: Any = fx.Array
        self._thread = fx.thread_idx.x
        self._tiles: list[Any] = [RowTile(rows, columns, threads, not along)] if along or turned else []
        if across and not turned:
            self._tiles.append(TurnedTile(rows, columns, threads))
        self._arrays = [[memory.allocate(array[element, rows * columns, 128]).peek() for _ in self._tiles]
                        for _ in range(stages)]
        self._staged: list[list[Any]] = []

    def along(self, stage: int) -> Any:
        """(rows, columns) in LDS."""
        return self._tiles[0].view(self._arrays[stage][0])

    def across(self, stage: int) -> Any:
        """(columns, rows) in LDS."""
        tile, array = self._tiles[-1], self._arrays[stage][-1]
        return tile.view(array) if isinstance(tile, TurnedTile) else tile.view(array, True)

    def fetch(self, source: Rows, first: Any) -> None:
        """Start loading the rows from `first` on into registers."""
        self._staged[:] = [tile.fetch(source, first, self._thread) for tile in self._tiles]

    def commit(self, stage: int) -> None:
        """Write what was fetched to LDS."""
        for tile, array, chunks in zip(self._tiles, self._arrays[stage], self._staged, strict=True):
            tile.commit(array.ptr, self._thread, chunks)

    def copy(self, source: DenseRows, first: Any, stage: int) -> None:
        """Start copying the rows from `first` on to LDS, without registers (gfx950)."""
        (tile,), (array,) = self._tiles, self._arrays[stage]
        tile.copy(source, first, array.ptr, self._thread)


def converted(values: Any, element: Any) -> Any:
    """A vector in the type of the products."""
    return values if values.dtype is element else values.to(element)


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
