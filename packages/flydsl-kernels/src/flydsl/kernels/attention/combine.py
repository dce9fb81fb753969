"""Contexts in parts: how many there are, and how a wave for each query row adds up what the workgroups stored of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dtypes import element_of
from ..op import Result
from ..parts.index import cdiv
from ..parts.memory import pointer
from ..target import Target
from .row_sum import RowSum

__all__ = ["CombineConfig", "Parts", "add_parts", "choose_parts", "combine_kernel", "parts_of"]

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


def parts_of(lines: int, columns: int, parts: int, dtype: str = "f32") -> tuple[Result, ...]:
    """Scratch for what each of `parts` has of a line: its columns, and a logarithm. None of a single one."""
    count = lines * parts
    return (Result((count * columns,), dtype), Result((count,), "f32")) if parts > 1 else ()


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


@dataclass(frozen=True)
class Parts:
    """Partial results of one line: the i-th of `count` is row ``row(i)`` of `data` [.., dim] and of `logs`, natural
    logarithms of the sums of weights."""

    data: Any
    logs: Any
    count: Any
    row: Callable[[Any], Any]

    def weight(self, i: Any) -> RowSum:
        return RowSum.of_score(fx.make_view(self.logs + self.row(i), fx.make_layout(1, 1))[0])

    def values(self, i: Any, column: Any, config: CombineConfig) -> Any:
        """Of a lane, f32."""
        first = self.data + fx.Int64(self.row(i)) * config.dim + column
        return fx.make_view(first, fx.make_layout(config.columns, 1)).load().to(fx.Float32)


@flyc.jit
def add_parts(parts, sink, out, end_log, config):
    """A wave adds the parts of a line, one or more: ``sum_i e**log_i part_i / sum_i e**log_i``, 0 where all are -inf.

    Args:
        sink: f32 that counts as another logarithm, of a part of zeros, or None.
        out: pointer to the columns of the line; end_log: to f32, of the logarithm of the denominator, or None.
    """
    lane, columns = fx.thread_idx.x, config.columns
    at = fx.min(lane * columns, config.dim - columns)  # lanes too many repeat the last columns
    start = RowSum.of([] if sink is None else [RowSum.of_score(sink)])
    base, total = start.base, start.total
    sums = fx.full(columns, 0.0, fx.Float32)
    for i in range(0, parts.count, unroll=UNROLL):
        part, values = parts.weight(i), parts.values(i, at, config)
        larger = fx.maxnumf(base, part.base)
        before, weight = RowSum(base, total).decay(larger), part.decay(larger)
        sums = sums * before + values * weight
        total = total * before + weight
        base = larger
    end = RowSum(base, total)
    if lane * columns < config.dim:
        fx.make_view(out + at, fx.make_layout(columns, 1)).store((sums * end.share()).to(out.element_type))
    if fx.const_expr(end_log is not None):
        if lane == 0:
            fx.make_view(end_log, fx.make_layout(1, 1))[0] = end.log


@flyc.kernel
def combine_kernel(data, lse, sink, out, logs, heads: fx.Int32, rows: fx.Int32, count: fx.Int32,
                   config: fx.Constexpr):
    """Wave (line): adds its `count` parts, [line, part]. Lines are [sequences, rows, heads]; `logs` are [sequences,
    heads, rows]."""
    line = fx.block_idx.x
    head, row = line % heads, line // heads
    first = fx.Int64(line) * count
    parts = Parts(pointer(data, element_of(config.parts)), pointer(lse, fx.Float32), count, lambda i: first + i)
    own = pointer(sink, fx.Float32)[head] if config.sink else None
    place = fx.Int64(row // rows * heads + head) * rows + row % rows
    log = pointer(logs, fx.Float32) + place if config.logs else None
    add_parts(parts, own, pointer(out, element_of(config.out)) + fx.Int64(line) * config.dim, log, config)
