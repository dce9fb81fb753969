"""What happens to accumulators: pure steps, and one walk over rows and columns that stores apply.

A lane holds consecutive columns of a row of C (:mod:`.matrix`). A step takes a value to a value, vectors of f32: a
scale, a bias, an activation. What it needs of a row or of a column is loaded once for it, in :meth:`Step.row` and
:meth:`Step.column`, and for the whole tile before anything is stored: a load behind a store would wait for that.
:func:`values` walks over the accumulators of a lane and applies the steps; a store takes what it gives: directly
(:func:`store_tile`), through LDS (`cshuffle`), atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .convert import round_bf16_stochastic
from .mathx import gelu, relu, sigmoid, silu, tanh
from .memory import Buffer, float_element
from .runs import run_of

__all__ = ["ACTIVATE", "FAR", "GATED", "SWIGLU_LIMIT", "Activate", "Bias", "Epilogue", "Multiply", "ScaleBoth", "Step",
           "Terms", "TilePlace", "gated", "store_tile", "values"]

FAR = 1 << 30  # a byte offset beyond any tile of C
STORE_BYTES = 16

ACTIVATE: dict[str, Callable[[Any], Any]] = {"none": lambda x: x, "relu": relu, "silu": silu, "gelu": gelu}

GATED = ("silu", "gelu", "swiglu", "situ")
SWIGLU_LIMIT = 7.0


# ------------------------------------------------------------------------------------------- steps


class Step:
    """A pure step of an epilogue. Rows and columns are those of C."""

    def row(self, row: Any) -> Any:
        """What it needs of a row: a number."""
        return None

    def column(self, column: Any, count: int) -> Any:
        """What it needs of `count` columns from `column` on: a vector."""
        return None

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        """The values after it."""
        raise NotImplementedError


def _together(n: int, element: Any) -> int:
    """Elements from a multiple of as many that are aligned in every row of `n` elements, at most 16 bytes."""
    widest = STORE_BYTES * 8 // element.width
    return next(w for w in (8, 4, 2, 1) if w <= widest and n % w == 0)


def _vector(buffer: Buffer, at: Any, count: int, n: int) -> Any:
    """f32 of `count` elements of a row of `n`, loaded as many together as never pass its end."""
    width = min(_together(n, buffer.element), count)
    parts = [buffer.load(at + i, width).to(fx.Float32) for i in range(0, count, width)]
    return fx.Vector.from_elements([part[i] for part in parts for i in range(width)], fx.Float32)


@dataclass(frozen=True)
class Multiply(Step):
    """``value * factor``, a number."""

    factor: float

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return value * self.factor


@dataclass(frozen=True)
class ScaleBoth(Step):
    """``value * (scale_a[row] * scale_b[column])``, f32[m] and f32[n]."""

    scale_a: Any
    scale_b: Any
    m: Any
    n: int

    def row(self, row: Any) -> Any:
        return Buffer(self.scale_a, fx.Float32, None, self.m).load(row, 1)[0]

    def column(self, column: Any, count: int) -> Any:
        return _vector(Buffer(self.scale_b, fx.Float32, None, self.n), column, count, self.n)

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return value * (of_column * of_row)


@dataclass(frozen=True)
class Bias(Step):
    """``value + bias[column]``, of any float type."""

    bias: Any
    n: int

    def column(self, column: Any, count: int) -> Any:
        return _vector(Buffer(self.bias, float_element(self.bias, fx.Float32), None, self.n), column, count, self.n)

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return value + of_column


@dataclass(frozen=True)
class Activate(Step):
    """``act(value)``; one of ``ACTIVATE``."""

    name: str

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return ACTIVATE[self.name](value)


def gated(gate: Any, up: Any, name: str, limit: float | None) -> Any:
    """One of ``GATED`` of vectors of f32.

    silu and gelu: ``f(g) u``, both clamped where there is a limit L: g at L from above, u at both sides; swiglu (of
    GPT-OSS): ``g sigmoid(1.702 g) (u + 1)`` with L = 7 by default; situ: ``tanh(g) sigmoid(g) tanh(u)``.
    """
    if name == "swiglu" and limit is None:
        limit = SWIGLU_LIMIT
    if limit is not None:
        high = fx.full_like(gate, limit)
        gate, up = fx.minimumf(gate, high), fx.maximumf(fx.minimumf(up, high), -high)
    if name == "swiglu":
        return gate * sigmoid(gate * 1.702) * (up + 1.0)
    if name == "situ":
        return tanh(gate) * sigmoid(gate) * tanh(up)
    return ACTIVATE[name](gate) * up


@dataclass(frozen=True)
class Epilogue:
    """Steps in their order.

    Attributes:
        steps: see :class:`Step`.
        seed: round to bf16 stochastically, with bits that depend on the seed and the place in C (at most eight values
            of a lane and tile); None: to nearest even.
    """

    steps: tuple[Step, ...] = ()
    seed: Any = None

    def apply(self, value: Any, of_row: Sequence[Any], of_column: Sequence[Any]) -> Any:
        """The values after all steps, in f32."""
        value = value.to(fx.Float32)
        for step, by_row, by_column in zip(self.steps, of_row, of_column, strict=True):
            value = step.apply(value, by_row, by_column)
        return value


# ------------------------------------------------------------------------------------------- the walk


@dataclass(frozen=True)
class TilePlace:
    """Where the accumulators of a lane belong in C.

    Attributes:
        m, n: size of C; `row` is the first row of the workgroup, `rows` how many of them exist.
        tile_rows: from `row`, this lane's row of each 16-row tile of the wave.
        columns: first column of this lane in each of its 16-column tiles, a multiple of those that it has.
        ragged: columns may be past the end.
        column: first column of the workgroup.
        wave_row: which of the waves along the rows this one is.
    """

    m: Any
    n: int
    row: Any
    rows: Any
    tile_rows: Sequence[Any]
    columns: Sequence[Any]
    ragged: bool = False
    column: Any = 0
    wave_row: Any = 0

    def out(self, c: Any, element: Any) -> Buffer:
        """C from the workgroup's first row, bounded by the rows that exist."""
        return Buffer(c, element, fx.Int64(self.row) * self.n, self.rows * self.n)

    def offset(self, row: Any, column: Any, element_bytes: int, further: Any = 0) -> Any:
        """Element offset in :meth:`out` of a row (from `row`) and a column, `column` and `further` ones on; beyond its
        end past the last column."""
        at = row * self.n + column + further
        return (column + further < self.n).select(at, FAR // element_bytes) if self.ragged else at


class Terms:
    """What the steps need of the rows and columns of a lane, on its way."""

    def __init__(self, epilogue: Epilogue, place: TilePlace, count: int) -> None:
        if epilogue.steps:
            fx.rocdl.sched_barrier(0)  # not among the last products: registers
        self.columns = [[step.column(column, count) for step in epilogue.steps] for column in place.columns]
        self.rows = [[step.row(place.row + row) for step in epilogue.steps] for row in place.tile_rows]


def values(acc: Sequence[Any], epilogue: Epilogue, place: TilePlace, terms: Terms,
           tiles: Iterable[int] | None = None) -> Iterator[tuple[int, Any, Any]]:
    """(tile of rows, first column, vector) of the accumulators ``[mi * len(place.columns) + ni]`` after the steps, of
    the wave's 16-row tiles `tiles` (all by default)."""
    across = len(place.columns)
    for mi in range(len(place.tile_rows)) if tiles is None else tiles:
        for ni, column in enumerate(place.columns):
            yield mi, column, epilogue.apply(acc[mi * across + ni], terms.rows[mi], terms.columns[ni])


def store_tile(c: Any, element: Any, acc: Sequence[Any], epilogue: Epilogue, place: TilePlace,
               put: Callable[[Buffer, Any, Any], None] = Buffer.store) -> None:
    """Store the accumulators, up to 16 bytes at a time where rows of C allow it; ``put(c, at, vector)`` stores
    consecutive columns, or adds them.

    Rows past the end are dropped by the bounds of C, columns past the end by an offset beyond them.
    """
    out, count = place.out(c, element), acc[0].numel
    width = min(_together(place.n, element), count)
    with fx.fastmath("contract"):
        terms = Terms(epilogue, place, count)
        for mi, column, value in values(acc, epilogue, place, terms):
            row = place.tile_rows[mi]
            out_value = _rounded(value, element, epilogue.seed, place, row, column)
            for i in range(0, count, width):
                part = out_value if width == count else run_of(out_value, i, width)
                put(out, place.offset(row, column, element.width // 8, i), part)


def _rounded(value: Any, element: Any, seed: Any, place: TilePlace, row: Any, column: Any) -> Any:
    """Values in the type of C, with a seed by stochastic rounding, whose bits depend on the place of the first."""
    if seed is None:
        return value.to(element)
    words = fx.random.randint4x(seed, (place.row + row) * place.n + column)
    rounded = [round_bf16_stochastic(value[i], (words[i // 2] >> (16 * (i % 2))) & 0xFFFF) for i in range(value.numel)]
    return fx.Vector.from_elements(rounded, fx.BFloat16)
