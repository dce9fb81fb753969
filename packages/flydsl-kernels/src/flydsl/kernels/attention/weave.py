"""A product of a tile with other work between its matrix instructions, in the order in which it is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import flydsl.expr as fx

__all__ = ["TileProduct", "Work", "count_of", "do", "parts_of", "reads_ahead", "weave"]


AHEAD = 4  # reads from LDS before the product that needs them
UNSPLIT = 3  # instructions behind a barrier without halves


@dataclass(frozen=True)
class Work:
    """A few instructions.

    Attributes:
        run: emits them.
        slots: vector instructions that they are, one of a quarter of the rate counted as four.
    """

    run: Callable[[], Any]
    slots: int = 1


class TileProduct:
    """``sums += tile b^T`` for a tile in LDS: its instructions one by one.

    Args:
        mma: tiled product of a `thread`; `sums`: fragment.
        a: fragment of the tile, or the shape of one of its own, which copy atom `read` reads.
        begun: reads from LDS that have been started.
        parked: what reads `b` from LDS, too, as many for each copy of `a`.
    """

    def __init__(self, mma: Any, sums: Any, a: Any, read: Any, tile: Any, thread: Any, begun: int = 0,
                 parked: Sequence[Callable[[], Any]] = ()) -> None:
        if isinstance(a, tuple):
            a = mma.get_slice(thread).make_fragment_A(a)
        copy = fx.make_tiled_copy_A(read, mma).get_slice(thread)
        source, target = copy.partition_S(tile), copy.retile(a)
        self._mma, self._sums, self._a = mma, sums, a
        self._rows, self._depth, self._copies = count_of(a, 1), count_of(a, 2), count_of(target, 2)
        self._parked = len(parked) // self._copies
        self._reads: list[Callable[[], Any]] = []
        for k in range(self._copies):
            self._reads += parked[k * self._parked : (k + 1) * self._parked]
            self._reads += [partial(fx.copy, read, source[None, m, k], target[None, m, k]) for m in range(self._rows)]
        self._read = begun

    def read(self, count: int) -> None:
        """Let `count` reads from LDS have been started."""
        for start in self._reads[self._read : count]:
            start()
        self._read = max(self._read, count)

    def products(self, b: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
        """The instructions, each with the number of reads that it needs."""
        sums, rows, columns = map(parts_of, (self._sums, self._a, b))
        each = self._parked + self._rows  # reads of a copy
        for k in range(self._depth):
            for m in range(self._rows):
                for n in range(count_of(b, 1)):
                    yield k * self._copies // self._depth * each + self._parked + m + 1, partial(
                        fx.gemm, self._mma, sums(m, n), rows(m, k), columns(n, k), sums(m, n))


def parts_of(fragment: Any) -> Callable[[int, int], Any]:
    """Of a row and a column of a fragment, the elements of one instruction, which follow each other; looked up once."""
    consecutive = fx.make_layout(count_of(fragment, 0), 1)
    return cache(lambda row, column: fx.make_view(fx.get_iter(fragment[None, row, column]), consecutive))


def count_of(fragment: Any, mode: int) -> int:
    """Of instructions, along a mode of a fragment."""
    return int(fx.size(fx.get_shape(fragment)[mode]).unpack())


def reads_ahead(b: Any, ahead: int = AHEAD) -> int:
    """Reads that are started before a product with an operand of one block of rows, or of several: fewer, as each is
    for several products."""
    return ahead if count_of(b, 1) == 1 else ahead * 3 // 4


def weave(product: TileProduct, b: Any, others: Sequence[Work] = (), copies: Sequence[Work] = (), first: int = 0,
          following: TileProduct | None = None, ahead: int = AHEAD, turn: Any = None,
          stores: Sequence[Work] = (), early: bool = False, split: bool = True) -> None:
    """Emit a product, what it needs read some reads before, and other work spread over its instructions.

    Args:
        b: operand in registers.
        first: instructions before the first of `others`.
        following: a product of which the first reads are started among the last instructions of this.
        ahead: reads from LDS before the product that needs them, of one block of rows; fewer where each is for several.
        turn: step of a pipeline (for an operand of several blocks) whose turn is among the last instructions, behind
            the last reads of this product: the wave arrives at the barrier some instructions before it waits there, and
            `following` is read behind it. `early`: it arrives at the barrier before it reads for this product. `split`:
            the barrier has two halves; else it is passed so early that the last reads are there by then.
        stores: writes to LDS, in pieces: all of them in one place would keep the others' reads waiting.
    """
    products, blocks = list(product.products(b)), count_of(b, 1)
    ahead = reads_ahead(b, ahead)
    count = len(products)
    behind = blocks if split else UNSPLIT
    arrival = count if early else min(2 * blocks, count - 1)  # instructions that are left then
    # Copies have been started when the wave arrives, and what is stored is there when the others wait for it.
    stored = min(count * 4 // 5, count - arrival if turn is not None else count)
    shares = zip(_shares(others, count, first), _shares(copies, count),
                 [*_shares(stores, stored), *[[]] * (count - stored)], strict=True)
    for i, ((needed, multiply), (other, copied, written)) in enumerate(zip(products, shares, strict=True)):
        product.read(needed + ahead)
        left = count - i
        if turn is not None and left == arrival and split:
            turn.arrive()
        elif turn is not None and left == behind:
            turn.advance()
        if following is not None and (turn is None or left <= behind):
            following.read(max(ahead - (left - 1) // blocks, 0))
        multiply()
        do([*copied, *written, *other])
        fx.rocdl.sched_barrier(0)


def _shares(work: Sequence[Work], count: int, first: int = 0) -> list[list[Work]]:
    """Work in order, as much of it in each of `count` places from `first` on."""
    total, done = sum(w.slots for w in work), 0
    shares: list[list[Work]] = [[] for _ in range(count)]
    for w in work:
        shares[first + min(done * (count - first) // total, count - first - 1)].append(w)
        done += w.slots
    return shares


def do(work: Sequence[Work]) -> None:
    """All of it, in order."""
    for piece in work:
        piece.run()
