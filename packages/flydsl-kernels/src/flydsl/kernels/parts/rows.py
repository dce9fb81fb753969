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

from ..host.dtypes import FLOATS
from .index import div, mod

__all__ = [
    "Columns", "Held", "Place", "RowPlan", "RowScalars", "Rows", "each", "fits_registers", "float_element", "fold",
    "launch_rows", "pointer", "plan_rows",
]

ACCESS_BITS = 128
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


def plan_rows(n: int, bits: int, wave: int, threads: int = 256, vec: int = 0) -> RowPlan:
    """Plan for rows of `n` elements whose widest type has `bits` bits, in accesses of `vec` elements if given.

    Rows of at most 2048 elements are read by at most one wave each, several to a workgroup; longer ones by a whole
    workgroup, which grows beyond `threads` when a lane would hold more than 64 elements.
    """
    vec = vec or math.gcd(n, ACCESS_BITS // bits)
    units = n // vec
    if n <= SMALL_ROW:
        lanes = min(wave, 1 << (units - 1).bit_length())
        rows = max(256 // lanes, 1)
    else:
        lanes, rows = threads, 1
        while lanes < MAX_THREADS and n > RESIDENT_ELEMENTS * lanes:
            lanes *= 2
    return RowPlan(n, vec, lanes, rows, -(-units // lanes))


def fits_registers(n: int) -> bool:
    """Whether a row of `n` elements can stay in the registers of its workgroup."""
    return n <= RESIDENT_ELEMENTS * MAX_THREADS


def _check_row_major(data: Any, n: int) -> None:
    """ValueError if the consecutive elements of a matrix of `n` columns are known to lie in another dimension."""
    if n == 1 or isinstance(data, fx.Pointer):
        return
    stride = fx.get_layout(data).stride
    steps = [s.get_static_leaf_int if s.is_leaf and s.is_static else None for s in stride] if stride.rank > 1 else []
    if steps and steps[-1] != 1 and 1 in steps:
        raise ValueError(f"the kernel needs row-major matrices, but an argument has the layout {fx.get_layout(data)}")


def pointer(data: Any, element: Any) -> Any:
    """Global pointer to the storage of a tensor or pointer argument, seen as elements of `element`.

    Integers stand for any type of their bytes (fp8 as int8, int32 as float32). TypeError if one of f32, f16 and bf16 is
    passed for another: that would be a wrong launch.
    """
    start = data if isinstance(data, fx.Pointer) else fx.get_iter(data)
    given = start.element_type
    if given is element:
        return start
    floats = tuple(FLOATS.values())
    if given in floats and element in floats:
        raise TypeError(f"the kernel was built for {element.__name__}, but an argument holds {given.__name__}")
    if start.alignment >= element.width // 8:
        return fx.recast_iter(element, start)
    space = fx.AddressSpace.Global
    return fx.inttoptr(fx.PointerType.get(element.ir_type, space, element.width // 8), fx.ptrtoint(start))


def float_element(data: Any, default: Any) -> Any:
    """Element class of a float argument as it was passed; `default` if it is not f32, f16 or bf16."""
    start = data if isinstance(data, fx.Pointer) else fx.get_iter(data)
    return start.element_type if start.element_type in FLOATS.values() else default


class _Bounded:
    """Accesses of `vec` elements to a bounded buffer."""

    def __init__(self, data: Any, element: Any, vec: int, start: Any, count: Any, cache: int = 0) -> None:
        base = pointer(data, element)
        if start is not None:
            base = base + start
        records = count * element.width // 8 if isinstance(count, int) else fx.Int64(count) * (element.width // 8)
        self.element, self.vec = element, vec
        self._base = fx.rocdl.make_buffer_ptr(base, records)
        chunk = min(vec, ACCESS_BITS // element.width)
        self._atom = fx.make_copy_atom(fx.rocdl.BufferCopy(chunk * element.width, cache), element)
        pieces = vec // chunk
        self._shape: Any
        self._stride: Any
        self._shape, self._stride = ((chunk, pieces), (1, chunk)) if pieces > 1 else (chunk, 1)

    def _view(self, offset: Any) -> Any:
        return fx.make_view(self._base + offset, fx.make_layout(self._shape, self._stride))

    def read(self, offset: Any) -> Any:
        """Vector of `vec` elements at element `offset`."""
        register = fx.make_rmem_tensor(self._shape, self.element)
        fx.copy(self._atom, self._view(offset), register)
        return register.load().reshape((self.vec,))

    def read_one(self, offset: Any) -> Any:
        """The element at `offset`."""
        register = fx.make_rmem_tensor(1, self.element)
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy(self.element.width, 0), self.element)
        fx.copy(atom, fx.make_view(self._base + offset, fx.make_layout(1, 1)), register)
        return register.load()[0]

    def write(self, offset: Any, value: Any) -> None:
        """Store `vec` elements at element `offset`."""
        register = fx.make_rmem_tensor(self._shape, self.element)
        register.store(value.reshape(self._shape))
        fx.copy(self._atom, register, self._view(offset))

    def add(self, offset: Any, value: Any) -> None:
        """Atomically add `vec` elements, one by one."""
        atom = fx.make_copy_atom(fx.rocdl.BufferAtomicAdd(self.element), self.element)
        for i in range(self.vec):
            register = fx.make_rmem_tensor(1, self.element)
            register.store(fx.Vector.from_elements([value[i]], self.element))
            fx.copy(atom, register, fx.make_view(self._base + (offset + i), fx.make_layout(1, 1)))


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
            self.row, self.lane, self.count = None, thread, 1
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
        if self.row is None:
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
        self._place, self._bits = place, element.width
        if start is None:
            start, count = fx.Int64(place.first) * plan.n, place.count * plan.n
        _check_row_major(data, plan.n)
        self._buffer = _Bounded(data, element, plan.vec, start, count, cache)
        self.element = element

    def load(self, tile: Any) -> Any:
        """Vector of ``plan.vec`` elements of `tile`; zero past the end of the row or matrix."""
        return self._buffer.read(self._place.offset(tile, self._bits))

    def at(self, column: Any) -> Any:
        """One element of this thread's row, at a column that exists."""
        row = 0 if self._place.row is None else self._place.row * self._place.plan.n
        return self._buffer.read_one(row + column)

    def store(self, tile: Any, value: Any) -> None:
        """Store a vector, converted to the element type; elements past the end are dropped."""
        self._buffer.write(self._place.offset(tile, self._bits), value.to(self.element))


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


class Columns:
    """A thread's part of a vector of ``plan.n`` elements that applies to every row."""

    def __init__(self, data: Any, element: Any, place: Place) -> None:
        self._place, self.element = place, element
        self._buffer = _Bounded(data, element, place.plan.vec, None, place.plan.n)

    def load(self, tile: Any) -> Any:
        """Vector of ``plan.vec`` elements; zero past the end."""
        return self._buffer.read(self._place.unit(tile) * self._place.plan.vec)

    def store(self, tile: Any, value: Any) -> None:
        """Store a vector, converted to the element type; elements past the end are dropped."""
        self._buffer.write(self._place.unit(tile) * self._place.plan.vec, value.to(self.element))

    def add(self, tile: Any, value: Any) -> None:
        """Atomically add an f32 vector; elements past the end are dropped."""
        self._buffer.add(self._place.unit(tile) * self._place.plan.vec, value)


class RowScalars:
    """One value a row, in a vector of m elements."""

    def __init__(self, data: Any, element: Any, place: Place) -> None:
        self._place, self.element = place, element
        self._buffer = _Bounded(data, element, 1, place.first, place.count)

    def _at(self) -> Any:
        return fx.Int32(0) if self._place.row is None else self._place.row

    def load(self) -> Any:
        return self._buffer.read(self._at())[0]

    def store(self, value: Any) -> None:
        """Store the value of this row; called by one lane of the row."""
        self._buffer.write(self._at(), fx.Vector.from_elements([value], self.element))


@flyc.jit
def launch_rows(kernel: Callable[[], Any], m: Any, rows: int, threads: int, stream: Any) -> None:
    """From a jit function: launch with a workgroup for every `rows` of `m`, and not at all where m is zero.

    Args:
        kernel: makes the bound kernel.
    """
    if m > 0:
        kernel().launch(grid=fx.ceildiv(m, rows), block=threads, stream=stream)
