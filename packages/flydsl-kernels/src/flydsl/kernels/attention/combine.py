"""Contexts in parts: how many there are, and the kernel in which a wave for each query row adds up what the workgroups
stored of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dtypes import element_of
from ..parts.index import cdiv
from ..parts.mathx import LOG2E, exp2
from ..parts.memory import pointer
from ..parts.reduce import add, fmax, wave_reduce
from ..target import Target

__all__ = ["LOWEST", "CombineConfig", "choose_parts", "combine_kernel"]

LOWEST = -1e30  # finite stand-in for the maximum of nothing: exp2(-inf - LOWEST) is 0, not NaN
MOST_PARTS = 256
EVEN = 0.95  # share of the compute units' time that is worth no further parts
UNROLL = 8  # parts whose loads are under way together


def choose_parts(target: Target, units: int, most: int, resident: int | None = None, enough: float = EVEN) -> int:
    """Shares of the context of each of `units`, `most` at most: as few as give the compute units the `resident`
    workgroups that hide the latency of memory, and all about the same number; what comes nearest otherwise."""
    resident = resident or (2 if target.wave == 64 else 4)
    best, found = 1, 0.0
    for parts in range(1, max(min(most, MOST_PARTS), 1) + 1):
        groups = units * parts
        even = groups / (max(cdiv(groups, target.compute_units), resident) * target.compute_units)
        if even > found:
            best, found = parts, even
        if even >= enough:
            break
    return best


@dataclass(frozen=True)
class CombineConfig(KernelConfig):
    """Sum of the `parts` (of that dtype) of rows of `dim` columns, to type `out`; `sink`: with a weight of its own for
    each head; `logs`: and the logarithms of the sums of weights."""

    dim: int
    out: str
    sink: bool
    parts: str = "f32"
    logs: bool = False

    @property
    def threads(self) -> int:
        return self.target.wave

    @property
    def columns(self) -> int:
        """Of a lane."""
        return 1 << (cdiv(self.dim, self.threads) - 1).bit_length()


@flyc.kernel
def combine_kernel(parts_out, lse, sink, out, logs, heads: fx.Int32, rows: fx.Int32, parts: fx.Int32,
                   config: fx.Constexpr):
    """``out[line] = sum_p 2**lse[line, p] parts_out[line, p] / sum_p 2**lse[line, p]``; 0 where all are -inf.

    Lines are [sequences, rows, heads]. `logs` [sequences, heads, rows] gets the natural logarithms of the denominators.
    """
    lane, line = fx.thread_idx.x, fx.block_idx.x
    first = pointer(lse, fx.Float32) + fx.Int64(line) * parts

    def log(part):
        return fx.make_view(first + part, fx.make_layout(1, 1))[0]

    steps = fx.ceildiv(parts, config.threads)
    top = fx.Float32(LOWEST)
    for i in range(steps):
        top = fmax(top, log(fx.min(i * config.threads + lane, parts - 1)))
    if fx.const_expr(config.sink):
        own = pointer(sink, fx.Float32)[line % heads] * LOG2E
        top = fmax(top, own)
    (top,) = wave_reduce([top], fmax, config.threads)
    whole = fx.Float32(0.0)
    for i in range(steps):
        part = i * config.threads + lane
        whole = whole + (part < parts).select(exp2(log(fx.min(part, parts - 1)) - top), 0.0)
    (whole,) = wave_reduce([whole], add, config.threads)
    if fx.const_expr(config.sink):
        whole = whole + exp2(own - top)

    columns = config.columns
    at = fx.min(lane * columns, config.dim - columns)  # lanes too many repeat the last columns
    data = pointer(parts_out, element_of(config.parts)) + fx.Int64(line) * parts * config.dim + at
    total = fx.full(columns, 0.0, fx.Float32)
    for step in range(fx.ceildiv(parts, UNROLL)):  # parts too many repeat the last one, with no weight
        loaded = []
        for i in fx.range_constexpr(UNROLL):
            part = fx.min(step * UNROLL + i, parts - 1)
            values = fx.make_view(data + fx.Int64(part) * config.dim, fx.make_layout(columns, 1)).load()
            loaded.append((values.to(fx.Float32), log(part)))
        for i in fx.range_constexpr(UNROLL):
            values, lse_of = loaded[i]
            total = total + values * (step * UNROLL + i < parts).select(exp2(lse_of - top), 0.0)
    total = total * (whole > 0.0).select(1.0 / whole, 0.0)
    element = element_of(config.out)
    target = pointer(out, element) + fx.Int64(line) * config.dim + at
    if lane * columns < config.dim:
        fx.make_view(target, fx.make_layout(columns, 1)).store(total.to(element))
    if fx.const_expr(config.logs):
        if lane == 0:
            head, row = line % heads, line // heads
            place = fx.Int64(row // rows * heads + head) * rows + row % rows
            log_of_sum = (top + fx.math.log2(whole)) * math.log(2.0)
            pointer(logs, fx.Float32)[place] = (whole > 0.0).select(log_of_sum, -math.inf)
