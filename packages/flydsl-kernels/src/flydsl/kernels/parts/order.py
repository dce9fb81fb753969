"""The order of floats as integers, and where the largest value of a row is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flydsl.expr as fx

from .reduce import Lds, imax, magnitude, reduce_rows
from .rows import Held, Place, fold

__all__ = ["LOWEST", "NAN_KEY", "argmax_of", "better", "columns_of", "key_value", "number_key", "order_key"]

LOWEST, NAN_KEY = -(1 << 31), 0x7FFFFFFF  # below all values, and that of any NaN
INFINITY = 0x7F800000
NOWHERE = 0x7FFFFFFF


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
    top = fold(tiles, keep, fx.full(vec, LOWEST, fx.Int32), lambda best, i: imax(best, keys[i]))
    (top,) = reduce_rows(place, [top.reduce("max")], imax, lds)

    def first(best: Any, i: Any) -> Any:
        columns = columns_of(place, i)
        return fx.min(best, (keys[i] == top).select(columns, fx.full_like(columns, NOWHERE)))

    at = fold(tiles, keep, fx.full(vec, NOWHERE, fx.Int32), first)
    (at,) = reduce_rows(place, [at.reduce("min")], fx.min, lds)
    return top, at
