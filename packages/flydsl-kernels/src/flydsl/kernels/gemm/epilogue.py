"""What happens to accumulators: scales, bias, activation, conversion, store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx

from ..common.mathx import gelu, relu, silu
from ..common.memory import Buffer
from ..common.rows import float_element
from .matrix import MatrixOp

__all__ = ["ACTIVATE", "Epilogue", "store_tile"]

ACTIVATE: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: x, "bias": lambda x: x, "bias_relu": relu, "bias_silu": silu, "bias_gelu": gelu,
}  # fmt: skip


class Epilogue:
    """``act(acc * scale_a[row] * scale_b[column] + bias[column])`` in f32.

    Args:
        tensors: with ``scale_a``, ``scale_b`` if `scaled`, and ``bias`` if the activation's name has one.
        n: columns of C.
        activation: one of ``ACTIVATE``.
        scaled: apply the scales.
    """

    def __init__(self, tensors: dict[str, Any], n: int, activation: str, scaled: bool) -> None:
        self._tensors, self._n = tensors, n
        self._activation, self._scaled = activation, scaled

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

    def apply(self, value: Any, row_scale: Any, column_scale: Any, bias: Any) -> Any:
        """One element of the result, f32."""
        value = value.to(fx.Float32)
        if row_scale is not None:
            value = value * (row_scale * column_scale)
        if bias is not None:
            value = value + bias
        return ACTIVATE[self._activation](value)


def store_tile(c: Any, element: Any, acc: list[Any], epilogue: Epilogue, op: MatrixOp, config: Any, m: Any, row: Any,
               column: Any, wave: Any, lane_row: Any, group: Any) -> None:  # fmt: skip
    """Store the accumulators ``[mi * n_repeat + ni]`` of waves that interleave strips of 16 columns.

    Rows past `m` are dropped by the bounds of C.
    """
    waves = config.tile_n // (16 * config.n_repeat)
    rows = fx.min(m - row, config.tile_m)
    out = Buffer(c, element, fx.Int64(row) * config.n, rows * config.n)
    columns = [column + (ni * waves + wave) * 16 + lane_row for ni in range(config.n_repeat)]
    terms = [epilogue.column_terms(col) for col in columns]
    with fx.fastmath("contract"):
        for mi in range(config.m_repeat):
            first = mi * 16 + group * op.acc_len
            factors = epilogue.row_factors(m, row + first, op.acc_len) or [None] * op.acc_len
            for ni, col in enumerate(columns):
                for i in range(op.acc_len):
                    value = epilogue.apply(acc[mi * config.n_repeat + ni][i], factors[i], *terms[ni])
                    out.store_one((first + i) * config.n + col, value)
