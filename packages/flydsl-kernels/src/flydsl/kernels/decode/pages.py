"""Where the tokens of a sequence are in a cache of pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.indices import index_at
from .config import BLOCK

__all__ = ["Pages"]


@dataclass(frozen=True)
class Pages:
    """A cache [pages, page, heads, dim] of any strides, as one head of one sequence sees it.

    Attributes:
        base: pointer to the head in page 0, of elements or of words of several.
        table: pointer to the sequence's page numbers, int32 or int64.
        page: tokens of a page.
        page_stride, token_stride: of that pointer from a page (64 bits), from a token to the next one.
        first, last: tokens that may be read; earlier and later ones read these instead.
        uniform: blocks of tokens lie in one page: the lookup is of the wave, not of the lane.
    """

    base: Any
    table: Any
    page: int
    page_stride: Any
    token_stride: Any
    first: Any
    last: Any
    uniform: bool

    def block(self, first: Any) -> Callable[[int, Any], Any]:
        """Function of (n, row) to the pointer to token `row` of the n-th 16 tokens from `first`."""
        return lambda n, row: self.token(first + n * BLOCK, row, self.number(first + n * BLOCK, row))

    def _within(self, block: Any, inside: Any) -> tuple[Any, Any]:
        """Both, of a token that may be read. Uniform blocks stay so."""
        if self.uniform:
            block = fx.min(block, self.last - mod(self.last, BLOCK))
            return block, fx.min(inside, self.last - block)
        return 0, fx.max(fx.min(block + inside, self.last), self.first)

    def number(self, block: Any, inside: Any) -> Any:
        """Page of token ``block + inside``: of a multiple of 16 that all lanes share, and a number below 16."""
        block, inside = self._within(block, inside)
        return index_at(self.table, div(block if self.uniform else inside, self.page))

    def token(self, block: Any, inside: Any, number: Any) -> Any:
        """Pointer to token ``block + inside``, which is in page `number`."""
        if not self.uniform:
            return self.base + self.offset(block, inside, number)
        block, inside = self._within(block, inside)
        start = number * self.page_stride + fx.Int64(mod(block, self.page)) * fx.Int64(self.token_stride)
        return (self.base + start) + inside * self.token_stride

    def offset(self, block: Any, inside: Any, number: Any) -> Any:
        """The same from the base, of a token for each lane (not `uniform`)."""
        _, token = self._within(block, inside)
        return number * self.page_stride + fx.Int64(mod(token, self.page)) * fx.Int64(self.token_stride)
