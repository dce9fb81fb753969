"""Rows of keys and values on their way to LDS: from one tensor, or from pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.memory import Buffer, lds_write
from ..parts.rows import pointer

__all__ = ["DenseRows", "PagedRows", "RowTile", "StagedTile", "TurnedTile", "converted"]

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
        self._page_stride, self._stride, self._last = page_stride, stride, count - 1

    def load(self, row: Any, column: Any, n: int) -> Any:
        row = fx.min(row, self._last)
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
    """

    rows: int
    columns: int
    threads: int

    @property
    def loads(self) -> int:
        """Chunks of a thread."""
        return -(-self.rows * self.columns // (CHUNK * self.threads))

    @property
    def swizzle(self) -> tuple[int, int, int]:
        """(bits, base, shift) of the exchange."""
        chunks = self.columns // CHUNK
        span = chunks & -chunks
        bits = min(span.bit_length() - 1, 4)
        return bits, 3, (span.bit_length() - 1 if span == chunks else bits)

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
        bits = (self.rows // CHUNK).bit_length() - 1
        return min(bits, 3), 3, bits

    def view(self, array: Any) -> Any:
        """The tile in an LDS array as (columns, rows)."""
        layout = fx.make_layout((self.columns, self.rows), (self.rows, 1))
        swizzle = fx.static(fx.SwizzleType.get(*self.swizzle))
        return array.view(fx.make_composed_layout(swizzle, layout))

    def _block(self, thread: Any, i: int) -> tuple[Any, Any]:
        """(row, column) of a thread's block."""
        linear = thread + i * self.threads
        across = self.columns // BLOCK
        return div(linear, across) * BLOCK, mod(linear, across) * BLOCK

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


class StagedTile:
    """A tile of rows on its way to LDS through registers, to be read along its rows, across them, or both.

    Args:
        memory: allocator of LDS.
        along, across: how it is read.
        direct: whether it can be read across as it lies (gfx950); else it is turned, and stored a second time for both.
    """

    def __init__(self, memory: Any, element: Any, rows: int, columns: int, threads: int, along: bool, across: bool,
                 direct: bool) -> None:
        array: Any = fx.Array
        self._thread, self._parts = fx.thread_idx.x, []
        self._staged: list[list[Any]] = []
        if along or direct:
            tile = RowTile(rows, columns, threads)
            lds = memory.allocate(array[element, rows * columns, 128]).peek()
            self._parts.append((tile, lds.ptr))
            self.along, self.across = tile.view(lds), tile.view(lds, True)
        if across and not direct:
            turned = TurnedTile(rows, columns, threads)
            lds = memory.allocate(array[element, rows * columns, 128]).peek()
            self._parts.append((turned, lds.ptr))
            self.across = turned.view(lds)

    def fetch(self, source: Rows, first: Any) -> None:
        """Start loading the rows from `first` on."""
        self._staged[:] = [tile.fetch(source, first, self._thread) for tile, _ in self._parts]

    def commit(self) -> None:
        """Write what was fetched to LDS."""
        for (tile, base), chunks in zip(self._parts, self._staged, strict=True):
            tile.commit(base, self._thread, chunks)


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
