"""The products of a wave in one tile: fragments of A and B from LDS, by parts, or from registers. With f32 scales of
128 k they are scaled behind the matrix instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx

from .mainloop import KTile, Multiply
from .matrix import SCALE_BLOCK, MatrixOp
from .operand import Fragments
from .schedule import Tally, hot_loop_schedule

__all__ = ["BlockScaledProducts", "TileProducts", "part_rows"]

OPEN_SUMS = 3  # complete partial sums that wait to be added, which a tile leaves to the next

Source = Fragments | Callable[..., list[Any]]


def part_rows(m_repeat: int) -> int:
    """Rows of fragments of a part."""
    return 2 if m_repeat % 2 == 0 else 1


class TileProducts:
    """``acc[mi * n_tiles + ni] += A[mi] B[ni]`` for the 16 x 16 tiles of a wave.

    A part is `size` rows of tiles and the k of one call of the instruction; the parts of a call follow each other.

    Args:
        op: the instruction.
        m_tiles, n_tiles: 16 x 16 tiles of the wave; `calls` of the instruction along k of a tile.
        a, b: fragments from LDS, or ``b(held, ni, call)``: the chunks of a tile and call of what is held.
        size: rows of a part; None: the usual.
        scales: ``scales(t, held)`` gives ``of(call)``: for each row of tiles, and for each column, a scale of the
            instruction; None: it takes none.
        columns_first: order of the products of a part.
        first_block: number of A's and B's first block of k in the tile.
        converts: vector instructions in which what is held of B becomes the chunks of a call, for a column of tiles.
            They are issued beside the matrix instructions of the call before; 0: where they are needed.
        stepped: each call has an order of its own; that of a tile could read so far ahead that registers do not
            suffice.
    """

    def __init__(self, op: MatrixOp, tally: Tally, m_tiles: int, n_tiles: int, calls: int, a: Source, b: Source, *,
                 size: int | None = None, scales: Callable[[KTile, list[Any]], Any] | None = None,
                 columns_first: bool = False, first_block: Any = 0, converts: int = 0, stepped: bool = False) -> None:
        self.op, self.tally, self.m_tiles, self.n_tiles = op, tally, m_tiles, n_tiles
        self.a, self.b, self.size = a, b, size or part_rows(m_tiles)
        self.groups = m_tiles // self.size
        self.parts, self._converts = calls * self.groups, converts
        # As much arithmetic as products would be gathered where it is first possible, were the order that of a tile.
        self._stepped = stepped or converts > m_tiles * op.instructions
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

    def blocks(self, call: int, count: int) -> list[Any]:
        """Numbers of the blocks of k of a call."""
        return [self._first + (call * count + i) for i in range(count)]

    def _read(self, source: Fragments, stage: Any, tiles: range, call: int, count: int) -> list[list[Any]]:
        """Fragments of a call, from LDS: ``[tile][block]``."""
        blocks = self.blocks(call, count)
        self.tally.add("ds_read", len(tiles) * len(blocks) * source.reads)
        return [[source(stage, tile, block) for block in blocks] for tile in tiles]

    def ready(self, held: list[Any]) -> Any:
        """B of the first call, if it is converted. Not where nothing goes through LDS: loads of the tile after the next
        would wait for it."""
        return self._converted(held, 0) if self._converts and isinstance(self.a, Fragments) else []

    def _converted(self, held: list[Any], call: int) -> list[Any]:
        self.tally.add("valu", self._converts * self.n_tiles)
        return self._right(None, held, call)

    def read(self, stage: Any, part: int, ready: Any = None) -> Any:
        """(rows of A, B before the first products of a call), in the order in which they are multiplied."""
        call, first = self.place(part)
        left, right = [], ready or []
        if isinstance(self.a, Fragments):
            left = self._read(self.a, stage, range(first, first + 1), call, self.op.blocks)
        if first == 0 and isinstance(self.b, Fragments):
            right = self._right(stage, [], call)
        if isinstance(self.a, Fragments):
            left += self._read(self.a, stage, range(first + 1, first + self.size), call, self.op.blocks)
        return left, right

    def _right(self, stage: Any, held: list[Any], call: int) -> list[list[Any]]:
        """B of a call."""
        if isinstance(self.b, Fragments):
            return self._read(self.b, stage, range(self.n_tiles), call, self.op.b_blocks or self.op.blocks)
        return [self.b(held, ni, call) for ni in range(self.n_tiles)]

    def of(self, t: KTile, stage: Any, held: list[Any], last: bool) -> Multiply:
        """``multiply(acc, part, fragments)`` of a tile."""
        kept: dict[int, Any] = {}  # B, by call
        scales_of = self._scales(t, held) if self._scales else None

        def multiply(acc: list[Any], part: int, fragments: Any) -> list[Any]:
            out, (call, first) = list(acc), self.place(part)
            if call not in kept:
                kept[call] = [self.op.operand(chunks) for chunks in fragments[1] or self._right(stage, held, call)]
            if self._converts and first == 0 and call + 1 < self.parts // self.groups:
                kept[call + 1] = [self.op.operand(chunks) for chunks in self._converted(held, call + 1)]
            if isinstance(self.a, Fragments):
                left = [self.op.operand(chunks) for chunks in fragments[0]]
            else:
                left = [self.op.operand(self.a(held, first + i, call)) for i in range(self.size)]
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


class BlockScaledProducts(TileProducts):
    """Products whose sums over 128 k are scaled and added in f32.

    A part has the k of a scale: the partial sums of its rows are complete at its end, and are added a few matrix
    instructions later, when they are there. So the accumulators are (sums, complete partial sums with their factors).

    Args:
        op, m_tiles, n_tiles: as of :class:`TileProducts`; `blocks` are chunks of a row of a tile of k.
        a: fragments from LDS, or as `of_b`.
        of_b: ``of_b(held, ni, block, count)``: the `count` chunks of a block of 128 k.
        factors: ``factors(held, block, row)``: what the sums of a row of tiles over a block of 128 k are multiplied by,
            for each strip of columns, or fewer that strips share.
        apart: rows of a lane that follow each other.
        first_block: as of :class:`TileProducts`.
        in_lds: ``factors(stage, block, row)`` are in a stage of LDS, vectors of `apart` rows from that one on.
    """

    def __init__(self, op: MatrixOp, tally: Tally, m_tiles: int, n_tiles: int, blocks: int, a: Any, of_b: Any,
                 factors: Callable[..., list[Any]], apart: int = 1, first_block: Any = 0,
                 in_lds: bool = False) -> None:
        self._calls = SCALE_BLOCK * op.element_bytes // (op.block_bytes * op.blocks)  # of the instruction, in a part
        self._of_b = of_b
        super().__init__(op, tally, m_tiles, n_tiles, blocks // op.blocks // self._calls, a, of_b,
                         size=max(part_rows(m_tiles) // self._calls, 1), first_block=first_block)
        self._apart, self._factors, self._in_lds = apart, factors, in_lds
        count = m_tiles * n_tiles
        # Where the complete partial sums belong that a tile leaves for the next.
        self._left_over = list(range(count - min(OPEN_SUMS, count), count))

    def zero(self) -> Any:
        return [super().zero(), [[self.op.zero(), fx.full(1, 0.0, fx.Float32)] for _ in self._left_over]]

    def blocks(self, call: int, count: int) -> list[Any]:
        return super().blocks(call, count * self._calls)

    def read(self, stage: Any, part: int, ready: Any = None) -> Any:
        """(rows of A, factors of the rows that follow by row and strip)."""
        left, _ = super().read(stage, part)
        (block, first), factors, apart = self.place(part), [], self._apart
        if self._in_lds and first % apart == 0:
            factors = [self._factors(stage, block, first + i) for i in range(0, self.size, apart)]
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
                self.tally.add("valu", 2)  # packed
                total[place] = fx.math.fma(value, fx.full(value.numel, factor[0], fx.Float32), total[place])

        def multiply(given: Any, part: int, fragments: Any) -> Any:
            acc, (block, first) = [list(given[0]), list(given[1])], self.place(part)
            left, read = fragments
            for i, group in enumerate(read):
                for inside in range(self._apart):
                    row = first + i * self._apart + inside
                    factors[block, row] = [v.shuffle(v, [inside]) for v in group]
            if not isinstance(self.a, Fragments):
                left = [self.a(held, first + i, block, self.op.blocks * self._calls) for i in range(self.size)]
            sums = self._partial(left, held, block)
            for (i, ni), value in zip(self.places, sums, strict=True):
                settle(acc, OPEN_SUMS)
                if (block, first + i) not in factors:
                    factors[block, first + i] = self._factors(held[1], block, first + i)
                    self.tally.add("valu", len({id(f) for f in factors[block, first + i]}))  # strips may share one
                of_row = factors[block, first + i]
                at.append((first + i) * self.n_tiles + ni)
                acc[1].append([value, of_row[ni * len(of_row) // self.n_tiles]])
            if part == self.parts - 1:
                settle(acc, 0 if last else len(self._left_over))
            return acc

        return multiply

    def _partial(self, left: list[Any], held: list[Any], block: int) -> list[Any]:
        """The sums over a block of 128 k of the products of a part."""
        count, sums = self.op.blocks, [self.op.zero() for _ in self.places]
        right = [self._of_b(held, ni, block, count * self._calls) for ni in range(self.n_tiles)]
        for c in range(self._calls):
            part = slice(c * count, (c + 1) * count)
            rows, columns = ([self.op.operand(chunks[part]) for chunks in side] for side in (left, right))
            sums = self.op.multiply_all([(rows[i], columns[ni], acc, None)
                                         for (i, ni), acc in zip(self.places, sums, strict=True)])
        self.tally.add("mfma", len(self.places) * self._calls * self.op.instructions)
        return sums
