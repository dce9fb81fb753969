"""Bounded accesses of global memory, and of LDS; the GEMMs move chunks of 16 bytes, as vectors of four i32."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flydsl.expr as fx
from flydsl.expr.rocdl import tdm_ops

from ..host.dtypes import FLOATS, require_element
from .runs import run_of

__all__ = ["MOST_BITS", "WORDS", "Buffer", "addresses_here", "float_element", "lds_read", "lds_write", "move_rows",
           "pointer", "put", "read_at", "taken", "write_at"]

WORDS = 4  # i32 of a chunk
MOST_BITS = 128  # of an access


def pointer(data: Any, element: Any) -> Any:
    """Global pointer to the storage of a tensor or pointer argument, seen as elements of `element`.

    TypeError if they cannot be (:func:`require_element`).
    """
    start = data if isinstance(data, fx.Pointer) else fx.get_iter(data)
    given = start.element_type
    if given is element:
        return start
    require_element(given, element, bytes_of_any=True)
    if start.alignment >= element.width // 8:
        return fx.recast_iter(element, start)
    space = fx.AddressSpace.Global
    return fx.inttoptr(fx.PointerType.get(element.ir_type, space, element.width // 8), fx.ptrtoint(start))


def addresses_here(arguments: Iterable[Any]) -> None:
    """Load the addresses of the tensors and pointers among the arguments here, all at once: the compiler otherwise
    loads each behind the branches before its first use, where the wave waits once more."""
    starts = [data if isinstance(data, fx.Pointer) else fx.get_iter(data) for data in arguments
              if isinstance(data, fx.Pointer | fx.Tensor)]
    fx.rocdl.used_here(*(fx.ptrtoint(start) for start in starts))


def float_element(data: Any, default: Any) -> Any:
    """Element class of a float argument as it was passed; `default` if it is not f32, f16 or bf16."""
    start = data if isinstance(data, fx.Pointer) else fx.get_iter(data)
    return start.element_type if start.element_type in FLOATS.values() else default


def taken(atom: Any, start: Any, n: int, **state: Any) -> Any:
    """The vector of `n` elements at a pointer that one call of a copy atom loads."""
    register = fx.make_rmem_tensor(n, start.element_type)
    fx.copy(atom, fx.make_view(start, fx.make_layout(n, 1)), register, **state)
    return register.load()


def put(atom: Any, start: Any, value: Any) -> None:
    """Store a vector at a pointer by one call of a copy atom."""
    register = fx.make_rmem_tensor(value.numel, start.element_type)
    register.store(value)
    fx.copy(atom, register, fx.make_view(start, fx.make_layout(value.numel, 1)))


class Buffer:
    """Bounded view of global memory, addressed in elements of one type.

    Args:
        data: tensor or pointer argument.
        element: element class.
        start: first element (64 bits), or None.
        count: elements that may be accessed; reads beyond give zero, writes are dropped.
    """

    def __init__(self, data: Any, element: Any, start: Any, count: Any) -> None:
        base = pointer(data, element)
        base = base if start is None else base + start
        records = count * element.width // 8 if isinstance(count, int) else fx.Int64(count) * (element.width // 8)
        self.element, self.base = element, fx.rocdl.make_buffer_ptr(base, records)
        self.pointer, self.count = base, count

    def view(self, at: Any, n: int) -> Any:
        """`n` elements at `at`."""
        return fx.make_view(self.base + at, fx.make_layout(n, 1))

    def load(self, at: Any, n: int, soffset: Any = None, cache: int = 0) -> Any:
        """Vector of `n` elements at `at`, plus the wave-uniform `soffset`; more than 16 bytes in several accesses."""
        if n * self.element.width > MOST_BITS:
            half = n // 2
            low, high = self.load(at, half, soffset, cache), self.load(at + half, half, soffset, cache)
            return low.shuffle(high, list(range(n)))
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy(n * self.element.width, cache), self.element)
        return taken(atom, self.base + at, n, **({} if soffset is None else {"soffset": soffset}))

    def store(self, at: Any, value: Any, cache: int = 0) -> None:
        """Store a vector of the element type; more than 16 bytes in several accesses."""
        if value.numel * self.element.width > MOST_BITS:
            half = value.numel // 2
            self.store(at, run_of(value, 0, half), cache)
            self.store(at + half, run_of(value, half, value.numel - half), cache)
            return
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy(value.numel * self.element.width, cache), self.element)
        put(atom, self.base + at, value)

    def store_one(self, at: Any, value: Any) -> None:
        """Store one value, converted to the element type."""
        self.store(at, fx.Vector.from_elements([value.to(self.element)], self.element))

    def add(self, at: Any, vector: Any) -> None:
        """Atomic adds of a vector: pairs of 16-bit values, or single f32."""
        step = 1 if vector.dtype.width == 32 else 2
        kind = fx.rocdl.BufferAtomicAdd(self.element) if step == 1 else fx.rocdl.BufferAtomicPkAdd(self.element)
        atom = fx.make_copy_atom(kind, self.element)
        for i in range(0, vector.numel, step):
            put(atom, self.base + (at + i), run_of(vector, i, step))


def move_rows(source: Buffer, count: Any, stride: Any, first: Any, shape: tuple[int, int], padding: int, waves: int,
              target: Any) -> None:
    """Start a tensor move of rows of a buffer to LDS (gfx1250): each of `waves` has a share. Rows from `count` on are
    zero.

    Args:
        stride: elements between rows; `first`: the first row.
        shape: rows and columns; `padding`: elements that are left out in LDS behind each row.
    """
    tdm_ops.tensor_load_2d(tdm_ops.make_tensor_descriptor_2d(
        source.pointer, target, (first, 0), shape, (stride, 1), shape, source.element.width // 8, shape[1], padding,
        waves, oob_outer_bound=count))


def _at_once(start: Any, n: int) -> Any:
    """The atom of an access of `n` elements at a pointer."""
    return fx.make_copy_atom(fx.UniversalCopy(n * start.element_type.width), start.element_type)


def read_at(start: Any, n: int = WORDS) -> Any:
    """Vector of `n` elements at a pointer, read at once."""
    return taken(_at_once(start, n), start, n)


def write_at(start: Any, value: Any) -> None:
    """Store a vector at a pointer, at once."""
    put(_at_once(start, value.numel), start, value)


def lds_read(base: Any, at: Any, n: int = WORDS) -> Any:
    """Vector of `n` elements of LDS at `at`, read at once."""
    return read_at(base + at, n)


def lds_write(base: Any, at: Any, value: Any) -> None:
    """Store a vector in LDS at `at`, at once."""
    write_at(base + at, value)
