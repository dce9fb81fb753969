"""Groups of columns of a matrix: the unit that has one scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..parts.index import cdiv, div, mod
from ..parts.memory import pointer
from ..parts.rows import Place, RowPlan, Rows, plan_rows

__all__ = ["GroupPlan", "Groups", "plan_groups"]

FAR = 1 << 30  # a byte offset past the end of every buffer


@dataclass(frozen=True)
class GroupPlan:
    """How workgroups cover rows of `n` columns cut into groups; the last group of a row may be shorter.

    Attributes:
        n: columns.
        size: columns of a group.
        rows: the lanes of a group, as for a row of `size` elements.
        block_rows: rows that share a scale.
        transposed: scales are stored (groups, row blocks) instead of (row blocks, groups).
    """

    n: int
    size: int
    rows: RowPlan
    block_rows: int = 1
    transposed: bool = False

    @property
    def count(self) -> int:
        """Groups of a row."""
        return cdiv(self.n, self.size)


def plan_groups(n: int, size: int, bits: int, wave: int, threads: int, vec: int = 0, **options: Any) -> GroupPlan:
    """Plan for groups of `size` columns of elements of `bits` bits; accesses of `vec` elements if given.

    Raises:
        ValueError: `vec` elements do not divide the columns and the group.
    """
    vec = vec or math.gcd(n, size, 128 // bits)
    if n % vec or size % vec:
        raise ValueError(f"{n} columns in groups of {size} cannot be accessed in vectors of {vec}")
    return GroupPlan(n, size, plan_rows(size, bits, wave, threads, vec), **options)


class Groups(Place):
    """Position of a thread: which group of the workgroup, which lane of it. Groups are numbered row by row.

    Args:
        plan: the plan of the groups.
        m: rows of the matrix (Int32).
    """

    def __init__(self, plan: GroupPlan, m: Any) -> None:
        super().__init__(plan.rows, m * plan.count)
        self.groups, self.m = plan, m
        self.number = self.first + self.row
        self.matrix_row, self.group = div(self.number, plan.count), mod(self.number, plan.count)
        self.base_row = div(self.first, plan.count)

    @property
    def span(self) -> Any:
        """Rows of the matrix that the workgroup touches."""
        return fx.min(self.m - self.base_row, cdiv(self.plan.rows, self.groups.count) + 1)

    def offset(self, tile: Any, bits: int) -> Any:
        """Element offset from the first row that the workgroup touches; past every buffer where there is no element."""
        column = self.unit(tile) * self.plan.vec
        ok = self.inside(tile)
        if self.groups.count > 1:
            column = column + self.group * self.groups.size
        if self.groups.n % self.groups.size:
            exists = column < self.groups.n
            ok = exists if ok is None else ok & exists
        at = (self.matrix_row - self.base_row) * self.groups.n + column
        return at if ok is None else ok.select(at, FAR // (bits // 8))

    def elements(self, data: Any, element: Any, cache: int = 0) -> Rows:
        """This thread's part of a matrix (m, n) of elements."""
        n = self.groups.n
        return Rows(data, element, self, cache, fx.Int64(self.base_row) * n, self.span * n)

    def words(self, data: Any, per_word: int) -> Words:
        """This thread's part of a matrix (m, n) of elements that are packed into 32-bit words."""
        return Words(data, self, per_word)

    @property
    def scale_at(self) -> Any:
        """Index of this group's scale."""
        plan = self.groups
        row = div(self.matrix_row, plan.block_rows)
        if plan.transposed:
            blocks = (self.m + (plan.block_rows - 1)) // plan.block_rows if plan.block_rows > 1 else self.m
            return self.group * blocks + row
        return row * plan.count + self.group

    @property
    def exists(self) -> Any:
        """Boolean: the group is inside the matrix."""
        return self.number < self.m * self.groups.count


class Words:
    """Packed elements, `per_word` to an i32; an access is ``plan.vec`` elements, whole words."""

    def __init__(self, data: Any, place: Groups, per_word: int) -> None:
        self._place, self._per_word = place, per_word
        self._count = place.plan.vec // per_word
        row_words = place.groups.n // per_word
        base = pointer(data, fx.Int32) + fx.Int64(place.base_row) * row_words
        self._base = fx.rocdl.make_buffer_ptr(base, fx.Int64(place.span) * (row_words * 4))
        self._atom = fx.make_copy_atom(fx.rocdl.BufferCopy(self._count * 32), fx.Int32)

    def _view(self, tile: Any) -> Any:
        at = div(self._place.offset(tile, 8), self._per_word)
        return fx.make_view(self._base + at, fx.make_layout(self._count, 1))

    def load(self, tile: Any) -> Any:
        """Vector of words; zero past the end."""
        register = fx.make_rmem_tensor(self._count, fx.Int32)
        fx.copy(self._atom, self._view(tile), register)
        return register.load()

    def store(self, tile: Any, words: list[Any]) -> None:
        """Store words; past the end they are dropped."""
        register = fx.make_rmem_tensor(self._count, fx.Int32)
        register.store(fx.Vector.from_elements(words, fx.Int32))
        fx.copy(self._atom, register, self._view(tile))
