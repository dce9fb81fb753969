"""Where the rows of a tile come from: one tensor, or pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..cache.pages import Pages
from ..parts.memory import Buffer, move_rows, read_at

__all__ = ["CHUNK", "DenseRows", "PagedRows", "Rows"]

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
        move_rows(self._buffer, self._count, self._stride, first, shape, padding, waves, target)


@dataclass(frozen=True)
class PagedRows(Pages):
    """Rows of one head in pages (not `uniform`): those beyond the last are copies of it."""

    @property
    def element(self) -> Any:
        return self.base.element_type

    def load(self, first: Any, row: Any, column: Any, n: int) -> Any:
        """`n` elements of a row of a lane's, counted from row `first`."""
        return read_at(self.token(first, row, self.number(first, row)) + column, n)


Rows = DenseRows | PagedRows
