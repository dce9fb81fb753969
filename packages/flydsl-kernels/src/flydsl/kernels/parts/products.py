"""The products of a wave in one tile: fragments of A and B, by parts. With f32 scales of 128 k they are scaled behind
the matrix instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import flydsl.expr as fx

from .mainloop import KTile, Multiply
from .matrix import SCALE_BLOCK, MatrixOp
from .operand import Fragments
from .schedule import Tally, hot_loop_schedule

__all__ = ["BlockScaledProducts", "Factors", "TileProducts", "part_rows"]

OPEN_SUMS = 3  # complete partial sums that wait to be added, which a tile leaves to the next


def part_rows(m_repeat: int) -> int:
    """Rows of fragments of a part."""
    return 2 if m_repeat % 2 == 0 else 1


class TileProducts:
    """``acc[mi * n_tiles + ni] += A[mi] B[ni]`` for the 16 x 16 tiles of a wave.

    A part is `size` rows of tiles and the k of one call of the instruction; the parts of a call follow each other.

    Args:
        op: the instruction.
        m_tiles, n_tiles: 16 x 16 tiles of the wave; `calls` of the instruction along k of a tile.
        a, b: fragments, from LDS or from registers.
        size: rows of a part; None: the usual.
        scales: ``scales(t, held)`` gives ``of(call)``: for each row of tiles, and for each column, a scale of the
            instruction; None: it takes none.
        columns_first: order of the products of a part.
        first_block: in the tile, of what comes from LDS.
        stepped: each call has an order of its own; that of a tile could read so far ahead that registers do not
            suffice.
    """

    spans = 1  # calls of the instruction whose sums a part has

    def __init__(self, op: MatrixOp, tally: Tally, m_tiles: int, n_tiles: int, calls: int, a: Fragments, b: Fragments,
                 *, size: int | None = None, scales: Callable[[KTile, list[Any]], Any] | None = None,
                 columns_first: bool = False, first_block: Any = 0, stepped: bool = False) -> None:
        self.op, self.tally, self.m_tiles, self.n_tiles = op, tally, m_tiles, n_tiles
        self.a, self.b, self.size = a, b, size or part_rows(m_tiles)
        self.groups = m_tiles // self.size
        self.parts = calls * self.groups
        # As much arithmetic as products would be gathered where it is first possible, were the order that of a tile.
        self._stepped = stepped or b.converts > m_tiles * op.instructions
        self._scales, self._first = scales, first_block
        self.places = [(i, ni) for i in range(self.size) for ni in range(n_tiles)]
        if columns_first:
            self.places.sort(key=lambda place: place[::-1])

    def place(self, part: int) -> tuple[int, int]:
        """(call, first row of tiles) of a part."""
        return part // self.groups, part % self.groups * self.size

    def zero(self) -> Any:
        """Cleared accumulators."""
        return [self.op.zero() for _ in range(self.m_tiles * self.n_tiles)]

    def _rows(self, where: Any, call: int, rows: range) -> list[list[Any]]:
        """Chunks of A of a call, from a stage of LDS or what is held: ``[tile][block]``."""
        return self._chunks(self.a, where, call, self.spans * self.op.blocks, rows)

    def _columns(self, where: Any, call: int) -> list[list[Any]]:
        """The same of B."""
        return self._chunks(self.b, where, call, self.spans * self.op.b_blocks, range(self.n_tiles))

    def _chunks(self, source: Fragments, where: Any, call: int, count: int, tiles: range) -> list[list[Any]]:
        first = self._first if source.reads else 0
        self.tally.add("ds_read", len(tiles) * count * source.reads)
        return [[source.read(where, tile, first + (call * count + i)) for i in range(count)] for tile in tiles]

    def ready(self, held: list[Any]) -> Any:
        """B of the first call, if it is converted. Not where nothing goes through LDS: loads of the tile after the next
        would wait for it."""
        return self._converted(held, 0) if self.b.converts and self.a.reads else []

    def _converted(self, held: list[Any], call: int) -> list[list[Any]]:
        self.tally.add("valu", self.b.converts * self.n_tiles if self.b.placed else 0)
        return self._columns(held, call)

    def read(self, stage: Any, part: int, ready: Any = None) -> Any:
        """(rows of A, B before the first products of a call), in the order in which they are multiplied."""
        call, first = self.place(part)
        left, right = self._rows(stage, call, range(first, first + 1)) if self.a.reads else [], ready or []
        if first == 0 and self.b.reads:
            right = self._columns(stage, call)
        if self.a.reads:
            left += self._rows(stage, call, range(first + 1, first + self.size))
        return left, right

    def of(self, t: KTile, stage: Any, held: list[Any], last: bool) -> Multiply:
        """``multiply(acc, part, fragments)`` of a tile."""
        kept: dict[int, Any] = {}  # B, by call
        scales_of = self._scales(t, held) if self._scales else None

        def multiply(acc: list[Any], part: int, fragments: Any) -> list[Any]:
            out, (call, first) = list(acc), self.place(part)
            if call not in kept:
                kept[call] = self._operands(fragments[1] or self._columns(held, call))
            if self.b.converts and first == 0 and call + 1 < self.parts // self.groups:
                kept[call + 1] = self._operands(self._converted(held, call + 1))
            left = self._operands(fragments[0] or self._rows(held, call, range(first, first + self.size)))
            right = kept[call]
            rows, columns = scales_of(call) if scales_of else ([], [])
            places = [(first + i) * self.n_tiles + ni for i, ni in self.places]
            sums = self.op.multiply_all([
                (left[i], right[ni], out[at], (rows[first + i], columns[ni]) if scales_of else None)
                for (i, ni), at in zip(self.places, places, strict=True)])
            for at, value in zip(places, sums, strict=True):
                out[at] = value
            self.tally.add("mfma", len(places) * self.op.instructions)
            if self._stepped and part + 1 < self.parts and self.place(part + 1)[0] != call:
                counts = self.tally.take()
                hot_loop_schedule(counts).emit(counts)
                fx.rocdl.sched_barrier(0)  # nothing goes past this point
            return out

        return multiply

    def _operands(self, tiles: list[list[Any]]) -> list[list[Any]]:
        return [self.op.operand(chunks) for chunks in tiles]


class Factors(Protocol):
    """What sums over 128 k are multiplied by.

    Attributes:
        width: rows of a lane whose factors are together.
        reads: from LDS, of those of a strip; 0: they are held.
    """

    width: int
    reads: int

    def of(self, where: Any, block: int, row: int) -> list[Any]:
        """From a stage of LDS, or of what is held: for each strip of columns, or fewer that strips share, the factors
        of a row of tiles over a block of 128 k; from LDS vectors of those of `width` rows."""


class BlockScaledProducts(TileProducts):
    """Products whose sums over 128 k are scaled and added in f32.

    A part has the k of a scale: the partial sums of its rows are complete at its end, and are added a few matrix
    instructions later, when they are there. So the accumulators are (sums, complete partial sums with their factors).

    Args:
        op, m_tiles, n_tiles, calls, a, b, first_block: as of :class:`TileProducts`.
        factors: those that are held are in the source of the loop after that of B.
        together: those of a part are computed one after the other: where they are in another bank of registers than the
            sums, each would change the bank twice.
    """

    def __init__(self, op: MatrixOp, tally: Tally, m_tiles: int, n_tiles: int, calls: int, a: Fragments, b: Fragments,
                 factors: Factors, first_block: Any = 0, together: bool = False) -> None:
        self.spans = SCALE_BLOCK * op.element_bytes // (op.block_bytes * op.blocks)
        super().__init__(op, tally, m_tiles, n_tiles, calls // self.spans, a, b,
                         size=max(part_rows(m_tiles) // self.spans, 1), first_block=first_block)
        self._factors, self._together = factors, together
        count = m_tiles * n_tiles
        # Where the complete partial sums belong that a tile leaves for the next.
        self._left_over = list(range(count - min(OPEN_SUMS, count), count))

    def zero(self) -> Any:
        return [super().zero(), [[self.op.zero(), fx.full(1, 0.0, fx.Float32)] for _ in self._left_over]]

    def read(self, stage: Any, part: int, ready: Any = None) -> Any:
        """(rows of A, factors of the rows that follow by row and strip)."""
        left, _ = super().read(stage, part)
        (block, first), factors, width = self.place(part), [], self._factors.width
        if self._factors.reads and first % width == 0:
            factors = [self._factors.of(stage, block, first + i) for i in range(0, self.size, width)]
            self.tally.add("ds_read", sum(map(len, factors)))
        return left, factors

    def of(self, t: KTile, stage: Any, held: list[Any], last: bool) -> Multiply:
        at = list(self._left_over)  # of the sums that wait
        factors: dict[tuple[int, int], list[Any]] = {}  # by block and row of tiles

        def settle(acc: Any, most: int) -> None:
            """Add the oldest of the complete partial sums, until at most `most` are left."""
            total, waiting = acc
            while len(waiting) > most:
                place, (value, factor) = at.pop(0), waiting.pop(0)
                self.tally.add("valu", value.numel // self.op.packed)
                total[place] = fx.math.fma(fx.full(value.numel, factor[0], fx.Float32), value, total[place])

        def ask(block: int, rows: range) -> None:
            """Compute the factors of rows that are not known yet."""
            for row in rows:
                if (block, row) not in factors:
                    factors[block, row] = self._factors.of(held[1], block, row)
                    self.tally.add("valu", len({id(f) for f in factors[block, row]}))  # strips may share one

        def multiply(given: Any, part: int, fragments: Any) -> Any:
            acc, (block, first) = [list(given[0]), list(given[1])], self.place(part)
            left, read = fragments
            for i, group in enumerate(read):
                for inside in range(self._factors.width):
                    row = first + i * self._factors.width + inside
                    factors[block, row] = [v.shuffle(v, [inside]) for v in group]
            left = left or self._rows(held, block, range(first, first + self.size))
            sums = self._partial(left, self._columns(held, block))
            if self._together:
                ask(block, range(first, first + self.size))
            for (i, ni), value in zip(self.places, sums, strict=True):
                settle(acc, OPEN_SUMS)
                ask(block, range(first + i, first + i + 1))
                of_row = factors[block, first + i]
                at.append((first + i) * self.n_tiles + ni)
                acc[1].append([value, of_row[ni * len(of_row) // self.n_tiles]])
            if part == self.parts - 1:
                settle(acc, 0 if last else len(self._left_over))
            return acc

        return multiply

    def _partial(self, left: list[Any], right: list[Any]) -> list[Any]:
        """The sums over a block of 128 k of the products of a part."""
        count, sums = self.op.blocks, [self.op.zero() for _ in self.places]
        for c in range(self.spans):
            part = slice(c * count, (c + 1) * count)
            rows, columns = ([self.op.operand(chunks[part]) for chunks in side] for side in (left, right))
            sums = self.op.multiply_all([(rows[i], columns[ni], acc, None)
                                         for (i, ni), acc in zip(self.places, sums, strict=True)])
        self.tally.add("mfma", len(self.places) * self.spans * self.op.instructions)
        return sums
