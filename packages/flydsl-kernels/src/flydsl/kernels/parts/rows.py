"""Rows of a row-major matrix, spread over the lanes of a workgroup.

A :class:`RowPlan` (host side) says how many lanes share a row and how wide their accesses are. In a kernel,
:class:`Place` is the position of a thread in its rows, and :class:`Rows` and :class:`Columns` read and write that
thread's part of a matrix or of a vector. Every access goes through a buffer descriptor that ends where the rows of the
workgroup end: an element past the end reads as zero and a write to it is dropped. So odd sizes need no second path.

Row r of the workgroup, tile i, lane l: elements ``(i * lanes + l) * vec ... + vec - 1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .index import cdiv, div, mod
from .memory import MOST_BITS, Buffer

__all__ = [
    "THREADS", "Columns", "Held", "Place", "RowPlan", "RowScalars", "Rows", "Units", "each", "fits_registers", "fold",
    "launch_rows", "plan_rows",
]

THREADS = 256  # of a workgroup, unless its rows are long
SMALL_ROW = 2048  # rows up to this length share a workgroup
MAX_THREADS = 1024
RESIDENT_ELEMENTS = 64  # a thread's share of a row up to which the block stays at its size


@dataclass(frozen=True)
class RowPlan:
    """How a workgroup covers rows of `n` elements.

    Attributes:
        n: elements of a row.
        vec: consecutive elements of one access; divides `n`, a power of two.
        lanes: lanes that share a row.
        rows: rows of a workgroup.
        tiles: accesses of a lane.
    """

    n: int
    vec: int
    lanes: int
    rows: int
    tiles: int

    @property
    def threads(self) -> int:
        return self.lanes * self.rows

    @property
    def elements(self) -> int:
        """Elements of a row that one lane holds."""
        return self.tiles * self.vec

    @property
    def ragged(self) -> bool:
        """Whether some lanes of the last tile are past the end of the row."""
        return self.tiles * self.lanes * self.vec != self.n


def plan_rows(n: int, bits: int, wave: int, threads: int = THREADS, vec: int = 0) -> RowPlan:
    """Plan for rows of `n` elements whose widest type has `bits` bits, in accesses of `vec` elements if given.

    Rows of at most 2048 elements are read by at most one wave each, several to a workgroup; longer ones by a whole
    workgroup, which grows beyond `threads` when a lane would hold more than 64 elements.
    """
    vec = vec or math.gcd(n, MOST_BITS // bits)
    units = n // vec
    if n <= SMALL_ROW:
        lanes = min(wave, 1 << (units - 1).bit_length())
        rows = max(THREADS // lanes, 1)
    else:
        lanes, rows = threads, 1
        while lanes < MAX_THREADS and n > RESIDENT_ELEMENTS * lanes:
            lanes *= 2
    return RowPlan(n, vec, lanes, rows, cdiv(units, lanes))


def fits_registers(n: int) -> bool:
    """Whether a row of `n` elements can stay in the registers of its workgroup."""
    return n <= RESIDENT_ELEMENTS * MAX_THREADS


class Place:
    """Position of a thread: which row of the workgroup, which lane of the row.

    Args:
        plan: the plan of the rows.
        m: rows of the matrix (Int32), or None if the grid has exactly one workgroup a row.
        first: first row of this workgroup; by default ``block_idx.x * plan.rows``.
    """

    def __init__(self, plan: RowPlan, m: Any, first: Any = None) -> None:
        self.plan = plan
        thread = fx.thread_idx.x
        self.first = fx.block_idx.x * plan.rows if first is None else first
        if plan.rows == 1:
            self.row, self.lane, self.count = 0, thread, 1
        else:
            self.row, self.lane = div(thread, plan.lanes), mod(thread, plan.lanes)
            self.count = fx.min(m - self.first, plan.rows)
        self.thread = thread

    def unit(self, tile: Any) -> Any:
        """Number of the access within the row."""
        return self.lane + tile * self.plan.lanes

    def inside(self, tile: Any) -> Any:
        """Boolean: this lane's elements of `tile` exist. None if they exist in every lane."""
        plan = self.plan
        if isinstance(tile, int) and (not plan.ragged or tile < plan.tiles - 1):
            return None
        return self.unit(tile) * plan.vec < plan.n if plan.ragged else None

    def offset(self, tile: Any, bits: int) -> Any:
        """Element offset from the first row of the workgroup; past the end of the buffer where not inside."""
        at = self.unit(tile) * self.plan.vec
        if self.plan.rows == 1:
            return at
        # A lane past the end of its row must not reach into the next row.
        ok, at = self.inside(tile), at + self.row * self.plan.n
        return at if ok is None else ok.select(at, (1 << 30) // (bits // 8))

    def masked(self, tile: Any, vector: Any, fill: float) -> Any:
        """`vector` with elements past the end of the row replaced by `fill`."""
        ok = self.inside(tile)
        return vector if ok is None else ok.select(vector, fx.full_like(vector, fill))


class Rows:
    """A thread's part of the workgroup's rows of a matrix of shape (m, plan.n).

    Args:
        start, count: first element and number of elements that the workgroup may access; by default its rows.
    """

    def __init__(self, data: Any, element: Any, place: Place, cache: int = 0, start: Any = None,
                 count: Any = None) -> None:
        plan = place.plan
        self._place, self._cache = place, cache
        if start is None:
            start, count = fx.Int64(place.first) * plan.n, place.count * plan.n
        self._buffer = Buffer(data, element, start, count)
        self.element = element

    def _at(self, tile: Any) -> Any:
        return self._place.offset(tile, self.element.width)

    def load(self, tile: Any) -> Any:
        """Vector of ``plan.vec`` elements of `tile`; zero past the end of the row or matrix."""
        return self._buffer.load(self._at(tile), self._place.plan.vec, cache=self._cache)

    def at(self, column: Any) -> Any:
        """One element of this thread's row, at a column that exists."""
        return self._buffer.load(self._place.row * self._place.plan.n + column, 1)[0]

    def store(self, tile: Any, value: Any) -> None:
        """Store a vector, converted to the element type; elements past the end are dropped."""
        self._buffer.store(self._at(tile), value.to(self.element), self._cache)


class Held:
    """A row that is computed tile by tile; `keep`: once, and kept in registers.

    Args:
        tile: makes the vector of a tile.
        tiles: number of tiles.
        keep: whether every tile is made now.
    """

    def __init__(self, tile: Callable[[Any], Any], tiles: int, keep: bool) -> None:
        self._tile = tile
        self._kept = [tile(i) for i in range(tiles)] if keep else None

    def __getitem__(self, index: Any) -> Any:
        return self._tile(index) if self._kept is None else self._kept[index]


@flyc.jit
def fold(tiles: int, unroll: bool, start: Any, step: Callable[[Any, Any], Any]) -> Any:
    """``step(... step(step(start, 0), 1) ..., tiles - 1)``; a loop in the kernel unless `unroll`."""
    total = start
    if fx.const_expr(unroll):
        for i in fx.range_constexpr(tiles):
            total = step(total, i)
    else:
        for i in range(tiles):
            total = step(total, fx.Int32(i))
    return total


@flyc.jit
def each(tiles: int, unroll: bool, body: Callable[[Any], None]) -> None:
    """``body(i)`` of every tile; a loop in the kernel unless `unroll`."""
    if fx.const_expr(unroll):
        for i in fx.range_constexpr(tiles):
            body(i)
    else:
        for i in range(tiles):
            body(fx.Int32(i))


class Columns(Rows):
    """A thread's part of a vector of ``plan.n`` elements that applies to every row."""

    def __init__(self, data: Any, element: Any, place: Place) -> None:
        self._place, self._cache, self.element = place, 0, element
        self._buffer = Buffer(data, element, None, place.plan.n)

    def _at(self, tile: Any) -> Any:
        return self._place.unit(tile) * self._place.plan.vec

    def add(self, tile: Any, value: Any) -> None:
        """Atomically add an f32 vector; elements past the end are dropped."""
        self._buffer.add(self._at(tile), value)


class RowScalars:
    """One value a row, in a vector of m elements."""

    def __init__(self, data: Any, element: Any, place: Place) -> None:
        self._place, self.element = place, element
        self._buffer = Buffer(data, element, place.first, place.count)

    def load(self) -> Any:
        return self._buffer.load(fx.Int32(self._place.row), 1)[0]

    def store(self, value: Any) -> None:
        """Store the value of this row; called by one lane of the row."""
        self._buffer.store(fx.Int32(self._place.row), fx.Vector.from_elements([value], self.element))


@flyc.jit
def launch_rows(kernel: Callable[[], Any], m: Any, rows: int, threads: int, stream: Any) -> None:
    """From a jit function: launch with a workgroup for every `rows` of `m`, and not at all where m is zero.

    Args:
        kernel: makes the bound kernel.
    """
    if m > 0:
        kernel().launch(grid=fx.ceildiv(m, rows), block=threads, stream=stream)


@dataclass(frozen=True)
class Units:
    """Rows of `count` units, of which a thread has one: threads share nothing, and a workgroup has several rows, or a
    row several workgroups.

    Attributes:
        count: units of a row.
    """

    count: int

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return max(THREADS // self.count, 1)

    @property
    def across(self) -> int:
        """Workgroups of a row, along y."""
        return cdiv(self.count, THREADS)

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for m rows."""
        return (fx.ceildiv(m, self.rows), self.across)

    def place(self) -> tuple[Any, Any]:
        """(row from the workgroup's first, unit) of this thread; either may be past the last one."""
        thread = fx.thread_idx.x + fx.block_idx.y * THREADS
        return (div(thread, self.count), mod(thread, self.count)) if self.rows > 1 else (fx.Int32(0), thread)
