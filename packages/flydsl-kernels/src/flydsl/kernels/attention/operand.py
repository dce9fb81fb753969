"""Rows of keys and values in memory: of one tensor, or of pages."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl import tdm_ops

from ..parts.index import div, mod
from ..parts.indices import require_within
from ..parts.memory import Buffer, pointer

__all__ = ["CHUNK", "DenseRows", "PagedRows", "Rows", "require_pages"]

CHUNK = 8  # 16-bit elements of a 128-bit access


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
        bytes_ = self.element.width // 8
        tdm_ops.tensor_load_2d(tdm_ops.make_tensor_descriptor_2d(
            self._buffer.pointer, target, (first, 0), shape, (self._stride, 1), shape, bytes_, shape[1], padding, waves,
            oob_outer_bound=self._count))


@flyc.jit
def require_pages(table: Any, first: Any, count: Any, pages: Any, threads: int) -> None:
    """Stop the launch if an entry of a sequence's pages names none: each is looked at once, by a thread.

    Args:
        table: Buffer of page numbers; `first`: place of the sequence's first, `count`: how many it has.
        pages: number of pages that there are.
    """
    for i in range(fx.thread_idx.x, count, threads):
        require_within(table.load(first + i, 1)[0], fx.Int32(0), pages)


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

    def load(self, first: Any, row: Any, column: Any, n: int) -> Any:
        row = fx.min(first + row, self._last)
        page = self._table.load(self._first + div(row, self._page), 1)[0]
        at = fx.Int64(page) * fx.Int64(self._page_stride) + fx.Int64(mod(row, self._page) * self._stride + column)
        register = fx.make_rmem_tensor(n, self.element)
        atom = fx.make_copy_atom(fx.UniversalCopy(n * self.element.width), self.element)
        fx.copy(atom, fx.make_view(self._base + at, fx.make_layout(n, 1)), register)
        return register.load()


Rows = DenseRows | PagedRows
