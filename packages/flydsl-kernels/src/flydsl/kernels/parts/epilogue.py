"""What happens to accumulators: pure steps, and one walk over rows and columns that stores apply.

A step takes (value, row, column) to a value in f32: a scale, a bias, an activation, a residual, a routing weight. What
it needs of a row or of a column is loaded once for it, in :meth:`Step.rows` and :meth:`Step.column`. :func:`pieces`
walks over the accumulators of a lane and applies the steps; a store takes its pieces: directly (:func:`store_tile`),
through LDS (`cshuffle`), atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .mathx import gelu, relu, silu
from .memory import Buffer
from .random import philox4x32, round_bf16_stochastic
from .rows import float_element

__all__ = ["ACTIVATE", "FAR", "Activate", "Bias", "Epilogue", "Multiply", "Piece", "Residual", "ScaleBoth", "ScaleRows",
           "Step", "TilePlace", "pieces", "store_tile"]

FAR = 1 << 30  # a byte offset beyond any tile of C

VECTOR = 4  # f32 of 16 bytes

ACTIVATE: dict[str, Callable[[Any], Any]] = {"none": lambda x: x, "relu": relu, "silu": silu, "gelu": gelu}


# ------------------------------------------------------------------------------------------- steps


class Step:
    """A pure step of an epilogue.

    Values are single f32, or vectors of consecutive columns; what is of a column then is a vector too. Rows and columns
    are those of C.
    """

    def rows(self, first: Any, count: int) -> list[Any]:
        """What it needs of each of `count` rows."""
        return [None] * count

    def column(self, column: Any, count: int) -> Any:
        """What it needs of a column, or of `count` columns (a multiple of four) as a vector."""
        return None

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        """The value after it, in row `row` and (from) column `column`."""
        raise NotImplementedError


def _floats(data: Any, column: Any, count: int, n: int) -> Any:
    """f32 of one column, or a vector of several, of a vector of any float type."""
    element = float_element(data, fx.Float32)
    buffer = Buffer(data, element, None, n)
    if count == 1:
        return buffer.load(column, 1)[0].to(fx.Float32)
    parts = [buffer.load(column + i, VECTOR).to(fx.Float32) for i in range(0, count, VECTOR)]
    return fx.Vector.from_elements([part[i] for part in parts for i in range(VECTOR)], fx.Float32)


def _singles(data: Any, first: Any, count: int, total: Any) -> list[Any]:
    buffer = Buffer(data, fx.Float32, None, total)
    return [buffer.load(first + i, 1)[0] for i in range(count)]


@dataclass(frozen=True)
class Multiply(Step):
    """``value * factor``, a number."""

    factor: float

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        return value * self.factor


@dataclass(frozen=True)
class ScaleRows(Step):
    """``value * scale[row]``, f32[m]: a scale of activations, or a routing weight."""

    scale: Any
    m: Any

    def rows(self, first: Any, count: int) -> list[Any]:
        return _singles(self.scale, first, count, self.m)

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        return value * of_row


@dataclass(frozen=True)
class ScaleBoth(Step):
    """``value * (scale_a[row] * scale_b[column])``, f32[m] and f32[n]."""

    scale_a: Any
    scale_b: Any
    m: Any
    n: int

    def rows(self, first: Any, count: int) -> list[Any]:
        return _singles(self.scale_a, first, count, self.m)

    def column(self, column: Any, count: int) -> Any:
        return _floats(self.scale_b, column, count, self.n)

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        return value * (of_column * of_row if _is_vector(of_column) else of_row * of_column)


@dataclass(frozen=True)
class Bias(Step):
    """``value + bias[column]``, of any float type."""

    bias: Any
    n: int

    def column(self, column: Any, count: int) -> Any:
        return _floats(self.bias, column, count, self.n)

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        return value + of_column


@dataclass(frozen=True)
class Activate(Step):
    """``act(value)``; one of ``ACTIVATE``."""

    name: str

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        return ACTIVATE[self.name](value)


@dataclass(frozen=True)
class Residual(Step):
    """``value + residual[row, column]``, row-major (m, n) of any float type; single values only."""

    residual: Any
    m: Any
    n: int

    def apply(self, value: Any, row: Any, column: Any, of_row: Any, of_column: Any) -> Any:
        element = float_element(self.residual, fx.Float32)
        source = Buffer(self.residual, element, None, fx.Int64(self.m) * self.n)
        at = (column < self.n).select(row * self.n + column, FAR // (element.width // 8))
        return value + source.load(at, 1)[0].to(fx.Float32)


def _is_vector(value: Any) -> bool:
    return isinstance(value, fx.Vector)


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

    def rows(self, first: Any, count: int) -> list[tuple[Any, ...]]:
        """What the steps need, for each of `count` rows."""
        return list(zip(*(step.rows(first, count) for step in self.steps), strict=True)) or [()] * count

    def columns(self, column: Any, count: int = 1) -> list[Any]:
        """What the steps need of a column, or of `count` as vectors."""
        return [step.column(column, count) for step in self.steps]

    def apply(self, value: Any, row: Any, column: Any, rows: Sequence[Any],
              columns: Sequence[Any]) -> Any:
        """The value, or vector of values, after all steps, in f32."""
        value = value.to(fx.Float32)
        for step, of_row, of_column in zip(self.steps, rows, columns, strict=True):
            value = step.apply(value, row, column, of_row, of_column)
        return value


# ------------------------------------------------------------------------------------------- the walk


@dataclass(frozen=True)
class TilePlace:
    """Where the accumulators of a lane belong in C.

    Attributes:
        m, n: size of C; `row` is the first row of the workgroup, `rows` how many of them exist.
        tile_rows: first row of each 16-row tile of the wave, from `row`.
        columns: column of this lane in each of its 16-column tiles.
        group: lane group, ``lane // 16``.
        acc_len: values of a lane in an accumulator: consecutive rows of one column.
        ragged: columns may be past the end.
        row_of: None, or where the accumulators are of the transposed product: the row (from `row`) of a tile of which
            a lane holds `acc_len` columns from ``columns[ni]``.
    """

    m: Any
    n: int
    row: Any
    rows: Any
    tile_rows: Sequence[Any]
    columns: Sequence[Any]
    group: Any
    acc_len: int
    ragged: bool = False
    row_of: Callable[[int], Any] | None = None

    def out(self, c: Any, element: Any) -> Buffer:
        """C from the workgroup's first row, bounded by the rows that exist."""
        return Buffer(c, element, fx.Int64(self.row) * self.n, self.rows * self.n)

    def offset(self, row: Any, column: Any, element_bytes: int, further: Any = 0) -> Any:
        """Element offset in :meth:`out` of a row (from `row`) and a column, `column` and `further` ones on; beyond its
        end past the last column."""
        at = row * self.n + column + further
        return (column + further < self.n).select(at, FAR // element_bytes) if self.ragged else at


@dataclass(frozen=True)
class Piece:
    """A value of C, or a vector of consecutive columns.

    Attributes:
        tile: number of its 16-row tile in the wave.
        inside: its row in the tile, where a lane's values are of one column.
        index: which of the lane's values in the accumulator.
        row: from the workgroup's first; `column` of C.
    """

    tile: int
    inside: Any
    index: int
    row: Any
    column: Any
    value: Any


def column_terms(epilogue: Epilogue, place: TilePlace) -> list[list[Any]]:
    """What the steps need of the lane's columns."""
    count = 1 if place.row_of is None else place.acc_len
    return [epilogue.columns(column, count) for column in place.columns]


def pieces(acc: Sequence[Any], epilogue: Epilogue, place: TilePlace, terms: list[list[Any]],
           tiles: Iterable[int] | None = None) -> Iterator[Piece]:
    """The values of C of the accumulators ``[mi * len(place.columns) + ni]``, after the steps, tile by tile.

    Args:
        terms: of :func:`column_terms`.
        tiles: of the wave's 16-row tiles, all by default.
    """
    across = len(place.columns)
    for mi in range(len(acc) // across) if tiles is None else tiles:
        if place.row_of is not None:
            row = place.row_of(mi)
            (rows,) = epilogue.rows(place.row + row, 1)
            for ni, column in enumerate(place.columns):
                value = epilogue.apply(acc[mi * across + ni], place.row + row, column, rows, terms[ni])
                yield Piece(mi, None, 0, row, column, value)
            continue
        inside = place.group * place.acc_len
        first = place.tile_rows[mi] + inside
        factors = epilogue.rows(place.row + first, place.acc_len)
        for ni, column in enumerate(place.columns):
            for i in range(place.acc_len):
                value = epilogue.apply(acc[mi * across + ni][i], place.row + first + i, column, factors[i], terms[ni])
                yield Piece(mi, inside + i, i, first + i, column, value)


def store_tile(c: Any, element: Any, acc: Sequence[Any], epilogue: Epilogue, place: TilePlace,
               put: Callable[[Buffer, Any, Any], None] = Buffer.store) -> None:
    """Store the accumulators, one element a lane at a time, or 16 bytes where a lane holds consecutive columns.

    Rows past the end are dropped by the bounds of C, columns past the end by an offset beyond them. Where
    `place.row_of` is given, ``put(c, at, vector)`` stores consecutive columns, or adds them.
    """
    out, terms = place.out(c, element), column_terms(epilogue, place)
    words = None
    with fx.fastmath("contract"):
        for piece in pieces(acc, epilogue, place, terms):
            value, at = piece.value, place.offset(piece.row, piece.column, element.width // 8)
            if place.row_of is not None:
                _store_vector(out, at, value.to(element), put)
                continue
            if epilogue.seed is not None:
                if piece.index == 0:
                    words = philox4x32(epilogue.seed, (place.row + piece.row) * place.n + piece.column)
                assert words is not None
                bits = words[piece.index // 2] >> (16 * (piece.index % 2))
                value = round_bf16_stochastic(value, bits & 0xFFFF)
            out.store_one(at, value)


def _store_vector(out: Buffer, at: Any, value: Any, put: Callable[[Buffer, Any, Any], None]) -> None:
    width = min(value.numel, 128 // out.element.width)
    for i in range(0, value.numel, width):
        put(out, at + i, value if width == value.numel else value.shuffle(value, list(range(i, i + width))))
