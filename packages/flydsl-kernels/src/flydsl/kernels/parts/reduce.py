"""Reductions over the lanes that share a row; several values go together and share the barrier. Floats are compared by
integers in their order, in which a NaN has a place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .rows import Held, Place, fold

__all__ = [
    "LOWEST", "NAN_KEY", "Lds", "add", "amax_of", "argmax_of", "better", "block_combine", "block_reduce", "columns_of",
    "key_value", "lane_combine", "lane_reduce", "magnitude", "number_key", "order_key", "reduce_rows",
    "wave_combine", "wave_reduce",
]

Combine = Callable[[list[Any], Iterable[Any]], list[Any]]
LOWEST, NAN_KEY = -(1 << 31), 0x7FFFFFFF  # below all values, and that of any NaN
INFINITY = 0x7F800000
NOWHERE = 0x7FFFFFFF


class Lds:
    """Static LDS of a kernel; make one at its start."""

    def __init__(self) -> None:
        self._allocator = fx.SharedAllocator()

    def array(self, element: Any, count: int) -> Any:
        """An uninitialised array of `count` elements, aligned to 16 bytes."""
        array: Any = fx.Array  # subscripted through its metaclass, which type checkers do not follow
        return self._allocator.allocate(array[element, count, 16]).peek()

    def storage(self, kind: Any) -> Any:
        """What a class of `fx.coop` needs."""
        return self._allocator.allocate(kind.SharedStorage)


def add(a: Any, b: Any) -> Any:
    return a + b


def magnitude(x: Any) -> Any:
    """|x| of f32 as its bits: integers in the order of the magnitudes, infinity above the numbers and NaN above it.

    A maximum of these keeps a NaN, which the floating-point maximum of most targets would drop.
    """
    return x.bitcast(fx.Int32) & 0x7FFFFFFF


def _each(op: Callable[[Any, Any], Any]) -> Combine:
    return lambda a, b: [op(x, y) for x, y in zip(a, b, strict=True)]


def wave_combine(values: Sequence[Any], combine: Combine, width: int) -> list[Any]:
    """Combine values that belong together, as ``combine(values, others)``, over groups of `width` lanes; every lane
    gets the result."""
    out, step = list(values), width // 2
    while step:
        out = combine(out, (fx.shuffle_xor(v, step, width) for v in out))
        step //= 2
    return out


@flyc.jit
def block_combine(values: Sequence[Any], combine: Combine, thread: Any, threads: int, lds: Lds) -> list:
    """Combine values that belong together (f32 or i32) over the workgroup; every lane gets the result. One barrier.

    Uses fresh LDS, so consecutive reductions need no barrier between them.
    """
    wave = fx.num_warp_threads()
    waves = threads // wave
    partial = wave_combine(values, combine, wave)
    if fx.const_expr(waves == 1):
        return partial
    slots = [lds.array(fx.Int32 if isinstance(v, fx.Int32) else fx.Float32, waves) for v in partial]
    if thread % wave == 0:
        for i in fx.range_constexpr(len(partial)):
            slots[i][thread // wave] = partial[i]
    fx.barrier()
    total = [slot[0] for slot in slots]
    for w in fx.range_constexpr(1, waves):
        total = combine(total, [slot[w] for slot in slots])
    return total


def lane_combine(values: Sequence[Any], combine: Combine, lanes: int, thread: Any, lds: Lds) -> list[Any]:
    """The same over `lanes` lanes of a wave, or of a workgroup that has as many."""
    if lanes <= fx.num_warp_threads():
        return wave_combine(values, combine, lanes)
    return block_combine(values, combine, thread, lanes, lds)


def wave_reduce(values: Sequence[Any], op: Callable[[Any, Any], Any], width: int) -> list[Any]:
    """Combine each value over groups of `width` lanes; every lane gets the result."""
    return wave_combine(values, _each(op), width)


def lane_reduce(values: Sequence[Any], op: Callable[[Any, Any], Any], lanes: int, thread: Any, lds: Lds) -> list[Any]:
    """Combine each value as :func:`lane_combine`."""
    return lane_combine(values, _each(op), lanes, thread, lds)


def block_reduce(values: Sequence[Any], op: Callable[[Any, Any], Any], thread: Any, threads: int, lds: Lds) -> list:
    """Combine each value (f32 or i32) over the workgroup; every lane gets the result. One barrier."""
    return block_combine(values, _each(op), thread, threads, lds)


def reduce_rows(place: Place, values: Sequence[Any], op: Callable[[Any, Any], Any], lds: Lds) -> list[Any]:
    """Combine each value over the lanes of a row; every lane of the row gets the result."""
    return lane_reduce(values, op, place.plan.lanes, place.thread, lds)


def amax_of(place: Place, row: Any, keep: bool, lds: Lds) -> Any:
    """Largest magnitude of a row of f32 vectors (as :class:`Held`), NaN if it holds one; every lane gets it."""
    tiles, zero = place.plan.tiles, fx.full(place.plan.vec, 0, fx.Int32)
    top = fold(tiles, keep, zero, lambda total, i: fx.max(total, place.masked(i, magnitude(row[i]), 0)))
    (bits,) = reduce_rows(place, [top.reduce("max")], fx.max, lds)
    return bits.bitcast(fx.Float32)


# ------------------------------------------------------------------------------------------- order


def order_key(x: Any) -> Any:
    """Int32 in the order of f32 values: equal for equal values (-0 and 0 too), and the largest for NaN."""
    with fx.fastmath("none"):
        bits = (x + 0.0).bitcast(fx.Int32)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (magnitude(x) > INFINITY).select(fx.full_like(key, NAN_KEY), key)


def number_key(x: Any) -> Any:
    """The :func:`order_key` of f32 values that are not NaN."""
    bits = (x == 0.0).select(0.0, x).bitcast(fx.Int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def better(a: Iterable[Any], b: Iterable[Any]) -> list[Any]:
    """The one of two (key, number, ...) with the larger key, of equal ones the lower number."""
    a, b = list(a), list(b)
    wins = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return [wins.select(y, x) for x, y in zip(a, b, strict=True)]


def key_value(key: Any) -> Any:
    """The f32 of an :func:`order_key`."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).bitcast(fx.Float32)


def columns_of(place: Place, tile: Any) -> Any:
    """Int32 vector of the columns that a lane holds in a tile."""
    vec = place.plan.vec
    first = place.unit(tile) * vec
    return fx.Vector.from_elements([first + i for i in range(vec)], fx.Int32)


def argmax_of(place: Place, keys: Held, keep: bool, lds: Lds) -> tuple[Any, Any]:
    """The largest Int32 of a row and the first column that holds it; every lane gets both.

    Args:
        keys: of the row; ``LOWEST`` past its end.
    """
    tiles, vec = place.plan.tiles, place.plan.vec
    top = fold(tiles, keep, fx.full(vec, LOWEST, fx.Int32), lambda best, i: fx.max(best, keys[i]))
    (top,) = reduce_rows(place, [top.reduce("max")], fx.max, lds)

    def first(best: Any, i: Any) -> Any:
        columns = columns_of(place, i)
        return fx.min(best, (keys[i] == top).select(columns, fx.full_like(columns, NOWHERE)))

    at = fold(tiles, keep, fx.full(vec, NOWHERE, fx.Int32), first)
    (at,) = reduce_rows(place, [at.reduce("min")], fx.min, lds)
    return top, at
