"""The sum over the slots of a token, of the results of its experts."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS
from ..parts.convert import e8m0_value
from ..parts.epilogue import FAR
from ..parts.index import cdiv, div
from ..parts.memory import Buffer

__all__ = ["FP8_GROUP", "ReduceConfig", "launch_reduce", "reduce_launcher"]

THREADS = 256
ACCESS_BITS = 128
FP8_GROUP = 8  # values of a scale


@dataclass(frozen=True)
class ReduceConfig(KernelConfig):
    """``y[t] = sum over slots of x[t topk + slot]``, in f32.

    Attributes:
        n: columns.
        dtype, out: of x and y; rows of ``"fp8"`` are n values and behind them an e8m0 byte for each 8 of them.
        experts: slots of experts that are not in 0 .. experts - 1 are left out; 0: every slot counts.
        mask: as are those whose expert is masked.
    """

    topk: int
    n: int
    dtype: str
    out: str
    experts: int = 0
    mask: bool = False

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def vector(self) -> int:
        """Elements of a thread."""
        if self.dtype == "fp8":
            return math.gcd(self.n, 2 * FP8_GROUP)
        return math.gcd(self.n, ACCESS_BITS // max(FLOATS[self.dtype].width, FLOATS[self.out].width))

    @property
    def row(self) -> int:
        """Elements of a row of x: values, of fp8 bytes with those of the scales."""
        return self.n + self.n // FP8_GROUP if self.dtype == "fp8" else self.n

    def grid(self, m: Any) -> tuple[Any, ...]:
        return m, cdiv(self.n, THREADS * self.vector)

    def extents(self, tokens: Any) -> dict[str, Extent]:
        """What a launch takes of its operands."""
        slots = fx.Int64(tokens) * self.topk
        found = {"x": Extent(slots * self.row, FLOATS.get(self.dtype, fx.Int8)),
                 "y": Extent(fx.Int64(tokens) * self.n, FLOATS[self.out])}
        if self.experts:
            found["ids"] = Extent(slots, fx.Int32)
        if self.mask:
            found["mask"] = Extent(self.experts, fx.Int32)
        return found


def _fp8_values(x: Buffer, start: Any, column: Any, width: int, config: ReduceConfig) -> Any:
    """f32 values of columns of a row of bytes that begins at `start`."""
    piece = math.gcd(config.row, width)  # what is aligned in every row
    values, scales = [], div(column, FP8_GROUP) + config.n
    for i in range(0, width, FP8_GROUP):
        factor = e8m0_value(x.load(start + scales + i // FP8_GROUP, 1)[0].to(fx.Uint8).to(fx.Int32))
        for j in range(i, i + FP8_GROUP, min(piece, FP8_GROUP)):
            codes = x.load(start + column + j, min(piece, FP8_GROUP)).bitcast(config.target.fp8).to(fx.Float32)
            values += [codes[k] * factor for k in range(codes.numel)]
    return fx.Vector.from_elements(values, fx.Float32)


@flyc.kernel
def _reduce_kernel(tensors, config: fx.Constexpr):
    token, width, n = fx.block_idx.x, config.vector, config.n
    column = (fx.block_idx.y * THREADS + fx.thread_idx.x) * width
    element, size = FLOATS.get(config.dtype, fx.Int8), config.topk * config.row
    x = Buffer(tensors["x"], element, fx.Int64(token) * size, size)
    y = Buffer(tensors["y"], FLOATS[config.out], fx.Int64(token) * n, n)
    ids: Any = None
    mask: Any = None
    if fx.const_expr(config.experts > 0):
        ids = Buffer(tensors["ids"], fx.Int32, fx.Int64(token) * config.topk, config.topk)
    if fx.const_expr(config.mask):
        mask = Buffer(tensors["mask"], fx.Int32, None, config.experts)
    values = []
    for slot in fx.range_constexpr(config.topk):
        counts = column < n
        if fx.const_expr(config.experts > 0):
            expert = ids.load(slot, 1)[0]
            counts = counts & (expert >= 0) & (expert < config.experts)
            if fx.const_expr(config.mask):
                counts = counts & (mask.load(fx.max(expert, 0), 1)[0] != 0)
        # What does not count is read past the end, as zero.
        if fx.const_expr(config.dtype == "fp8"):
            values.append(_fp8_values(x, counts.select(slot * config.row, FAR), column, width, config))
        else:
            values.append(x.load(counts.select(slot * n + column, FAR // (x.element.width // 8)), width))
    total = values[0].to(fx.Float32)
    for value in values[1:]:
        total = total + value.to(fx.Float32)
    y.store((column < n).select(column, FAR // (y.element.width // 8)), total.to(y.element))


def launch_reduce(tensors: dict[str, Any], tokens: Any, config: ReduceConfig, stream: Any) -> None:
    """From a jit function; tensors: x (tokens topk, n), y (tokens, n), as configured ids (tokens, topk) and mask. A
    call is refused whose operands do not fit."""
    config.target.require_traced()
    require_operands(tensors, config.extents(tokens))
    _reduce_kernel(tensors, config).launch(grid=config.grid(tokens), block=THREADS, stream=stream)


@functools.cache  # the configuration has the target
def reduce_launcher(config: ReduceConfig) -> Any:
    """``launch(X, Y, expert_mask, topk_ids, m_tokens, stream=None)``, with None for what the configuration has not."""

    @flyc.jit
    def moe_reduction(X, Y, expert_mask, topk_ids, m_tokens: fx.Int32,  # noqa: N803
                      stream: fx.Stream = fx.Stream(None)):
        if m_tokens > 0:
            launch_reduce(dict(x=X, y=Y, mask=expert_mask, ids=topk_ids), m_tokens, config, stream)

    return moe_reduction
