"""What happens to accumulators: scales, bias, activation, conversion, store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..common.mathx import gelu, relu, silu
from ..common.memory import Buffer
from ..common.random import philox4x32, round_bf16_stochastic
from ..common.rows import float_element
from .matrix import MatrixOp

__all__ = ["ACTIVATE", "FAR", "Epilogue", "TilePlace", "store_tile"]

FAR = 1 << 30  # a byte offset beyond any tile of C

VECTOR = 4  # f32 of 16 bytes

ACTIVATE: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: x, "bias": lambda x: x, "bias_relu": relu, "bias_silu": silu, "bias_gelu": gelu,
}  # fmt: skip


@dataclass(frozen=True)
class TilePlace:
    """Where the accumulators of a lane belong in C.

    Attributes:
        m, n: size of C; `row` is the first row of the workgroup, `rows` how many of them exist.
        tile_rows: first row of each 16-row tile of the wave, from `row`.
        columns: column of this lane in each of its 16-column tiles.
        group: lane group, ``lane // 16``.
        ragged: columns may be past the end.
        row_of: None, or where the accumulators are of the transposed product: the row (from `row`) of a tile of which
            a lane holds `acc_len` columns from ``columns[ni]``.
    """

    m: Any
    n: int
    row: Any
    rows: Any
    tile_rows: list[Any]
    columns: list[Any]
    group: Any
    ragged: bool = False
    row_of: Callable[[int], Any] | None = None


class Epilogue:
    """``act(acc * scale_a[row] * scale_b[column] + bias[column])`` in f32.

    Args:
        tensors: with ``scale_a``, ``scale_b`` if `scaled`, and ``bias`` if the activation's name has one.
        n: columns of C.
        activation: one of ``ACTIVATE``.
        scaled: apply the scales.
        seed: round to bf16 stochastically, with bits that depend on the seed and the place in C (at most eight
            values of a lane and tile); None: to nearest even.
        divisor: power of two by which `acc` is too large; the division is exact.
    """

    def __init__(self, tensors: dict[str, Any], n: int, activation: str, scaled: bool, seed: Any = None,
                 divisor: int = 1) -> None:  # fmt: skip
        self._tensors, self._n, self.seed = tensors, n, seed
        self._activation, self._scaled, self._divisor = activation, scaled, divisor

    def row_factors(self, m: Any, row: Any, count: int) -> Any:
        """Scales of `count` rows from `row`, or None."""
        if not self._scaled:
            return None
        buffer = Buffer(self._tensors["scale_a"], fx.Float32, None, m)
        return [buffer.load(row + i, 1)[0] for i in range(count)]

    def column_terms(self, column: Any) -> tuple[Any, Any]:
        """(scale, bias) of a column; None where there is none."""
        scale = bias = None
        if self._scaled:
            scale = Buffer(self._tensors["scale_b"], fx.Float32, None, self._n).load(column, 1)[0]
        if self._activation != "none":
            data = self._tensors["bias"]
            element = float_element(data, fx.Float32)
            bias = Buffer(data, element, None, self._n).load(column, 1)[0].to(fx.Float32)
        return scale, bias

    def column_scales(self, column: Any, count: int) -> Any:
        """Scales of `count` columns (a multiple of four) from `column` as a vector, or None."""
        if not self._scaled:
            return None
        buffer = Buffer(self._tensors["scale_b"], fx.Float32, None, self._n)
        parts = [buffer.load(column + i, VECTOR) for i in range(0, count, VECTOR)]
        return fx.Vector.from_elements([part[i] for part in parts for i in range(VECTOR)], fx.Float32)

    def apply(self, value: Any, row_scale: Any, column_scale: Any, bias: Any) -> Any:
        """One element of the result, f32."""
        value = value.to(fx.Float32)
        if self._divisor > 1:
            value = value * (1.0 / self._divisor)
        if row_scale is not None:
            value = value * (row_scale * column_scale)
        if bias is not None:
            value = value + bias
        return ACTIVATE[self._activation](value)


def store_tile(c: Any, element: Any, acc: list[Any], epilogue: Epilogue, op: MatrixOp, place: TilePlace,
               put: Callable[[Buffer, Any, Any], None] = Buffer.store) -> None:  # fmt: skip
    """Store the accumulators ``[mi * len(place.columns) + ni]``, one element a lane at a time.

    Rows past the end are dropped by the bounds of C, columns past the end by an offset beyond them. Where
    `place.row_of` is given, ``put(c, at, vector)`` stores consecutive columns, or adds them.
    """
    out = Buffer(c, element, fx.Int64(place.row) * place.n, place.rows * place.n)
    if place.row_of is not None:
        _store_rows(out, acc, epilogue, op, place, put)
        return
    terms = [epilogue.column_terms(column) for column in place.columns]
    with fx.fastmath("contract"):
        for mi, tile_row in enumerate(place.tile_rows):
            first = tile_row + place.group * op.acc_len
            factors = epilogue.row_factors(place.m, place.row + first, op.acc_len) or [None] * op.acc_len
            for ni, column in enumerate(place.columns):
                words = None
                if epilogue.seed is not None:
                    words = philox4x32(epilogue.seed, (place.row + first) * place.n + column)
                for i in range(op.acc_len):
                    value = epilogue.apply(acc[mi * len(place.columns) + ni][i], factors[i], *terms[ni])
                    if words is not None:
                        value = round_bf16_stochastic(value, (words[i // 2] >> (16 * (i % 2))) & 0xFFFF)
                    at = (first + i) * place.n + column
                    if place.ragged:
                        at = (column < place.n).select(at, FAR // (element.width // 8))
                    out.store_one(at, value)


def _store_rows(out: Buffer, acc: list[Any], epilogue: Epilogue, op: MatrixOp, place: TilePlace,
                put: Callable[[Buffer, Any, Any], None]) -> None:  # fmt: skip
    """:func:`store_tile` where a lane holds consecutive columns of a row: scales at most, 16 bytes at a time."""
    assert place.row_of is not None
    width = min(op.acc_len, 128 // out.element.width)
    scales = [epilogue.column_scales(column, op.acc_len) for column in place.columns]
    for mi in range(len(acc) // len(place.columns)):
        row = place.row_of(mi)
        factors = epilogue.row_factors(place.m, place.row + row, 1)
        for ni, column in enumerate(place.columns):
            value = acc[mi * len(place.columns) + ni]
            if factors is not None:
                value = value * (scales[ni] * factors[0])
            value = value.to(out.element)
            for i in range(0, op.acc_len, width):
                part = value if width == op.acc_len else value.shuffle(value, list(range(i, i + width)))
                put(out, row * place.n + column + i, part)
