"""Operands of the two products, as lanes load them: whole pieces of rows, wherever the rows are.

The order of K of the first product and that of the columns of the second one (:meth:`PagedConfig.orders`) are
such that the pieces are operands; values are turned within each lane.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div
from .config import ACCESS, BLOCK, DecodeConfig, PagedConfig

__all__ = ["ColumnValues", "Operand", "Pieces", "Values", "WORD"]

WORD = 32  # bits


class Pieces:
    """What a lane loads at a time: consecutive elements of a row, as words (of 16 bits where it is no more).

    Words, not elements: the compiler keeps vectors of bytes in a loop byte by byte.
    """

    def __init__(self, element: Any, chunk: int, *shape: int) -> None:
        bits = chunk * element.width
        self.element, self.word = element, fx.Int32 if bits >= WORD else fx.Int16
        self.each = min(bits, 8 * ACCESS) // self.word.width  # of a load
        self.loads = bits // self.word.width // self.each
        self.words = fx.make_rmem_tensor(((self.each, self.loads), *shape), self.word)
        self.atom = fx.make_copy_atom(fx.UniversalCopy(self.each * self.word.width), self.word)

    def load(self, start: Any, further: Any, *place: int) -> None:
        """Start loading what is `further` elements behind a pointer to words of 32 bits."""
        first = fx.recast_iter(self.word, start) + div(further, self.word.width // self.element.width)
        for i in range(self.loads):
            there: tuple[Any, ...] = ((None, i), *place)
            fx.copy(self.atom, fx.make_view(first + i * self.each, fx.make_layout(self.each, 1)), self.words[there])

    def get(self, config: DecodeConfig, *place: int) -> Any:
        """A piece as a vector of the type of the products."""
        there: tuple[Any, ...] = (None, *place)
        return self.words[there].load().bitcast(self.element).to(config.element)


class Operand:
    """Rows of queries or keys as an operand of the first product: each lane has a row of its own in 16 rows.

    Args:
        side: ``"A"`` (keys) or ``"B"`` (queries).
        element: of memory.
    """

    def __init__(self, config: DecodeConfig, mma: Any, side: str, element: Any, rows: int, columns: int,
                 lane: Any) -> None:
        self.config, self.blocks, piece = config, rows // config.matrix.m, mma.get_slice(lane)
        tile, chunk = (rows, columns), config.key_chunk
        self.step = chunk * config.target.wave // config.matrix.m  # from piece to piece of a lane
        self.fragment = {"A": piece.make_fragment_A, "B": piece.make_fragment_B}[side](tile)
        atom = fx.make_copy_atom(fx.UniversalCopy(chunk * config.element.width), config.element)
        copy = {"A": fx.make_tiled_copy_A, "B": fx.make_tiled_copy_B}[side](atom, mma).get_slice(lane)
        self.target = copy.retile(self.fragment)
        self.row, self.column = [fx.Int32(fx.get_scalar(x)) for x in copy.partition_S(
            fx.make_view((0, 0), fx.make_identity_layout(tile)))[0]]
        self.across = columns // self.step
        self.pieces = Pieces(element, chunk, self.blocks, self.across)

    def load(self, start: Callable[[int, Any], Any], first: Any = 0,
             column: Callable[[Any], Any] | None = None) -> None:
        """Start loading columns from `first`; ``start(n, row)`` points to the words of row `row` of the n-th 16.

        Args:
            column: elements from the first one of a row to one of a number, unless they follow each other.
        """
        for n in range(self.blocks):
            row = start(n, self.row)
            for i in range(self.across):
                at = self.column + (first + i * self.step)
                self.pieces.load(row, at if column is None else column(at), n, i)

    def ready(self) -> Any:
        """The operand, in the type of the products."""
        inner = fx.size(self.target.shape[0][1]).unpack()  # pieces of one step of the instruction
        for n in range(self.blocks):
            for i in range(self.across):
                self.target[(None, i % inner), n, i // inner].store(self.pieces.get(self.config, n, i))
        return self.fragment


class Values:
    """Values, loaded by rows and turned within each lane to the operand of the second product."""

    def __init__(self, config: PagedConfig, mma: Any, element: Any, columns: int, lane: Any) -> None:
        self.config, chunk, lanes = config, config.value_chunk, config.target.wave // BLOCK
        self.tile, self.step = (config.keys, columns), BLOCK * chunk
        self.shape = (config.value_rows, config.keys // BLOCK, columns // self.step)  # token of a block, block, column
        atom = fx.make_copy_atom(fx.UniversalCopy(chunk * config.element.width), config.element)
        self.copy = fx.make_tiled_copy_tv(atom, fx.make_layout((lanes, BLOCK), (BLOCK, 1)),
                                          fx.make_ordered_layout((config.value_rows, chunk), (1, 0)))
        part = self.copy.get_slice(lane).partition_S(fx.make_view((0, 0), fx.make_identity_layout(self.tile)))
        self.row, self.column = [fx.Int32(fx.get_scalar(x)) for x in part[0]]
        self.pieces = self._pieces(element)
        self.operand = mma.thread_values("A", (columns, config.keys))

    def _pieces(self, element: Any) -> Pieces:
        return Pieces(element, self.config.value_chunk, *self.shape)

    def _places(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.shape))

    def load(self, start: Callable[[int, Any], Any]) -> None:
        """Start loading; ``start(n, row)`` points to the words of token `row` of block n."""
        for r, n, m in self._places():
            self.pieces.load(start(n, self.row + r), self.column + m * self.step, r, n, m)

    def ready(self) -> Any:
        """The operand V^T."""
        config, (rows, blocks, across) = self.config, self.shape
        wide = fx.make_rmem_tensor(((config.value_chunk, rows), blocks, across), config.element)
        for r, n, m in self._places():
            wide[(None, r), n, m].store(self.pieces.get(config, r, n, m))
        loaded = self.copy.thread_values(self.tile)
        return fx.convert_layout(wide, self.operand, modes=(1, 0), thread_values=loaded)


class ColumnValues(Values):
    """Values of a cache where those of one feature lie together: what a lane loads is an operand as it is.

    Args:
        column: elements from a feature to the next one.
    """

    def __init__(self, config: PagedConfig, mma: Any, element: Any, columns: int, lane: Any, column: Any) -> None:
        super().__init__(config, mma, element, columns, lane)
        self.stride = column

    def _pieces(self, element: Any) -> Pieces:
        return Pieces(element, *self.shape)

    def load(self, start: Callable[[int, Any], Any]) -> None:
        _, blocks, across = self.shape
        for n in range(blocks):
            token = start(n, self.row)
            for m in range(across):
                self.pieces.load(token, (self.column + m * self.step) * self.stride, n, m)

    def clear(self, first: Any, end: Any) -> None:
        """Make zeros of what was loaded of tokens from `end` on, in a tile that begins with token `first`."""
        whole = first + self.config.keys <= end
        _clear(self.pieces.words, self.pieces.element.width, first + self.row, end, whole)

    def ready(self) -> Any:
        config, (held, blocks, across) = self.config, self.shape
        wide = fx.make_rmem_tensor(((1, held), blocks, across), config.element)
        for n, m in itertools.product(range(blocks), range(across)):
            wide[(0, None), n, m].store(self.pieces.get(config, n, m))
        return fx.convert_layout(wide, self.operand, modes=(1, 0), thread_values=self.copy.thread_values(self.tile))


@flyc.jit
def _clear(words, bits, first, end, whole):
    """Zeros in `words` (((word, 1), block, column) of elements of `bits`) of tokens from `end` on; a lane has those
    from `first`, and all live unless not `whole`."""
    each, per = fx.size(words.shape[0]).unpack(), words.element_type.width // bits
    if ~whole:
        for n in fx.range_constexpr(fx.size(words.shape[1]).unpack()):
            for i in fx.range_constexpr(each):
                live = fx.max(fx.min(end - (first + n * BLOCK + i * per), per), 0)
                mask = (live == per).select(fx.Int32(-1), (fx.Int32(1) << (live * bits)) - 1).to(words.element_type)
                for m in fx.range_constexpr(fx.size(words.shape[2]).unpack()):
                    words[(i, 0), n, m] = words[(i, 0), n, m] & mask
