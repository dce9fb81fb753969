"""The activation of gate and up where several workgroups share their product: of the sums, once these are whole."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.host.config import KernelConfig, require
from flydsl.kernels.host.dense import Extent, require_operands
from flydsl.kernels.host.dtypes import FLOATS, float_dtype
from flydsl.kernels.moe.rows import TOKEN
from flydsl.kernels.parts.epilogue import GATED, gated
from flydsl.kernels.parts.memory import Buffer, pointer
from flydsl.kernels.parts.rows import THREADS, Units
from flydsl.kernels.target import Target

__all__ = ["SlotGate", "slot_gate", "slot_gate_launcher"]


@dataclass(frozen=True)
class SlotGate(KernelConfig):
    """``y[slot] = act(gate) * up``, times the routing weight if `weighted`, of the slots that sorting has placed.

    Attributes:
        n: columns of y.
        out: dtype of y; the sums are f32.
        activation, limit: see :func:`~flydsl.kernels.parts.epilogue.gated`.
    """

    topk: int
    n: int
    out: str
    activation: str
    limit: float | None
    weighted: bool

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def vector(self) -> int:
        """Elements of a thread."""
        return math.gcd(self.n, 4)

    @property
    def units(self) -> Units:
        """The vectors of a row."""
        return Units(self.n // self.vector)

    def extents(self, tokens: Any) -> dict[str, Extent]:
        """What a launch takes of its operands; of the sorted ones only the kind is known."""
        slots = fx.Int64(tokens) * (self.topk * self.n)
        weights = {"weights": Extent(0, fx.Float32)} if self.weighted else {}
        return {"sums": Extent(slots * 2, fx.Float32), "y": Extent(slots, FLOATS[self.out]),
                "rows": Extent(0, fx.Int32), "valid": Extent(1, fx.Int32), **weights}


def slot_gate(where: str, target: Target, **fields: Any) -> SlotGate:
    """A checked configuration. ValueError says what is not supported."""
    config = SlotGate(target=target, **fields)
    float_dtype(config.out, where)
    require(where, config.activation in GATED,
            f"the activation must be one of {', '.join(GATED)}, got {config.activation!r}")
    require(where, config.limit is None or config.limit > 0, f"the limit must be positive, got {config.limit}")
    return config


@flyc.kernel
def _slot_gate_kernel(tensors, tokens: fx.Int32, sorted_rows: fx.Int32, config: fx.Constexpr):
    n, vec = config.n, config.vector
    row, unit = config.units.place()
    place = fx.block_idx.x * config.units.rows + row
    total = fx.min(pointer(tensors["valid"], fx.Int32).load(), sorted_rows)
    name = Buffer(tensors["rows"], fx.Int32, None, total).load(place, 1)[0]
    token, slot = name & TOKEN, (name >> 24) & 0xFF
    if (place < total) & (token < tokens) & (unit < config.units.count):
        at, column = fx.Int64(token) * config.topk + slot, unit * vec
        sums = Buffer(tensors["sums"], fx.Float32, at * (2 * n), 2 * n)
        value = gated(sums.load(column, vec), sums.load(column + n, vec), config.activation, config.limit)
        if fx.const_expr(config.weighted):
            value = value * Buffer(tensors["weights"], fx.Float32, None, total).load(place, 1)[0]
        out = Buffer(tensors["y"], FLOATS[config.out], at * n, n)
        out.store(column, value.to(out.element))


@functools.cache  # the configuration has the target
def slot_gate_launcher(config: SlotGate) -> Any:
    """``launch(sums, y, rows, weights, valid, tokens, sorted_rows, stream=None)``.

    sums are f32 (tokens, topk, 2 n), all of gate first, y (tokens, topk, n); the others are those of ``moe_sort``.
    """

    @flyc.jit
    def slot_gate(sums, y, rows, weights, valid, tokens: fx.Int32, sorted_rows: fx.Int32,
                  stream: fx.Stream = fx.Stream(None)):
        tensors = {"sums": sums, "y": y, "rows": rows, "weights": weights, "valid": valid}
        config.target.require_traced()
        require_operands(tensors, config.extents(tokens))
        if sorted_rows > 0:
            _slot_gate_kernel(tensors, tokens, sorted_rows, config).launch(
                grid=config.units.grid(sorted_rows), block=THREADS, stream=stream)

    return slot_gate
