"""Where the tokens of a sequence are in a cache of pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.indices import index_at, require_all_within, require_within, uniform

__all__ = ["BLOCK", "ColumnPages", "PageNumbers", "Pages", "context_of"]

BLOCK = 16  # tokens that are looked up together
UNROLL = 8  # page numbers of a thread whose loads are under way together


class PageNumbers:
    """The numbers `first` to `end` - 1 of a table, tested by all threads of a workgroup together before any follows
    one: its loops need no test of them.

    The test of the first ones waits for loads that :meth:`require` finds under way, and for no later ones.
    """

    def __init__(self, table: Any, first: Any, end: Any, thread: Any, threads: int) -> None:
        self.table, self.first, self.end, self.thread, self.threads = table, first, end, thread, threads
        self.early = self.at(0)

    def at(self, step: Any) -> Any:
        """That of this thread in a step; a negative one is a large one."""
        place = fx.min(self.first + step * self.threads + self.thread, self.end - 1)
        return index_at(self.table, place).to(fx.Uint64)

    def require(self, pages: Any) -> None:
        """The launch stops with a trap unless all are from 0 to `pages` - 1."""
        require_all_within(_largest(self, self.early).to(fx.Int64), 0, pages)
        fx.rocdl.s_barrier()  # alone: a wait or a fence would make vector loads of the scalar loads of a table


@flyc.jit
def _largest(numbers, worst):
    steps = fx.ceildiv(numbers.end - numbers.first, numbers.threads)
    for first in range(1, steps, UNROLL):
        for number in [numbers.at(first + i) for i in range(UNROLL)]:  # those beyond the end are the last one again
            worst = fx.max(worst, number)
    return worst


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


@dataclass(frozen=True)
class ColumnPages(Pages):
    """A cache of values in which those of one feature lie together, `unit` tokens at a time (`uniform`).

    Pointers are to the first feature of a token; tokens that may not be read are: they lie in a page that may be, and
    :meth:`..decode.operands.ColumnValues.clear` makes nothing of them.

    Attributes:
        unit: tokens; unit_stride: of the pointer, from so many tokens to the next ones.
        per_word: tokens that a step of the pointer passes.
    """

    unit: int = BLOCK
    unit_stride: Any = 0
    per_word: int = 1

    def token(self, block: Any, inside: Any, number: Any) -> Any:
        within, _ = self._within(block, inside)
        place = mod(within, self.page)
        units, rest = div(place, self.unit), mod(place, self.unit)
        start = number * self.page_stride + fx.Int64(units) * fx.Int64(self.unit_stride)
        if self.unit % BLOCK:  # a block of tokens has several units
            start, inside = start + div(inside, self.unit) * fx.Int64(self.unit_stride), mod(inside, self.unit)
        return (self.base + start) + div(rest + inside, self.per_word)


def context_of(tensors: dict[str, Any], sequence: Any, sizes: Any, page: int, lists: bool = False) -> tuple[Any, Any]:
    """Pointer to the page numbers of a sequence, and its tokens. More than its pages hold stop the launch, as pages do
    that are not in the list."""
    columns = fx.Int64(sizes.columns)
    if lists:
        first, end = [index_at(tensors["starts"], sequence + i) for i in range(2)]
        first = require_within(first, 0, columns + 1).to(fx.Int64)
        columns = require_within(end, first, columns + 1).to(fx.Int64) - first
    else:
        first = fx.Int64(sequence) * sizes.table_stride
    context = uniform(require_within(index_at(tensors["lengths"], sequence), 0, columns * page + 1))
    return fx.get_iter(tensors["table"]) + first, context
