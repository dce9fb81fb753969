"""Results of parts of a context become one: of the waves of a workgroup through LDS, of workgroups by a second kernel.

A part gives, for each query row, the weighted values divided by the sum of the weights, and the logarithm (base 2) of
that sum, ``lse``: -inf where nothing was visible. Parts with weights 2**lse add up to the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.mathx import LOG2E, exp2
from ..parts.memory import lds_read, lds_write
from ..parts.reduce import Lds
from ..parts.rows import pointer
from .config import BLOCK, AttentionConfig

__all__ = ["LOWEST", "Place", "merge_waves"]

LOWEST = -1e30  # finite stand-in for the maximum of nothing: exp2(-inf - LOWEST) is 0, not NaN


@dataclass(frozen=True)
class Place:
    """Where the rows of a workgroup belong.

    Attributes:
        first: the first of the key head's rows (tokens x heads of the group) in the workgroup.
        sequence, head: of the workgroup; `heads` is the number of query heads.
        part, parts: number of the share of the context, of how many.
    """

    config: AttentionConfig
    first: Any
    sequence: Any
    head: Any
    heads: Any
    part: Any
    parts: Any

    def query_head(self, row: Any) -> Any:
        """Of a row of the workgroup."""
        return self.head * self.config.group + mod(fx.Int32(self.first + row), self.config.group)

    def query(self, row: Any) -> Any:
        """Number of a row's token among those that are decoded."""
        return div(self.first + row, self.config.group)

    def exists(self, row: Any) -> Any:
        return self.first + row < self.config.rows

    def line(self, row: Any) -> Any:
        """Row of q and of the result [batch * tokens * heads]."""
        return (self.sequence * self.config.queries + self.query(row)) * self.heads + self.query_head(row)

    def out(self, row: Any) -> Any:
        """Row of what this workgroup stores: of the result, or of the parts [batch * tokens * heads, parts]."""
        line = self.line(row)
        return line * self.parts + self.part if self.config.split else line


@flyc.jit
def _weights(largest, total, tensors, place, lds, lane, wave):
    """For each tile of 16 rows: what this wave's sums are multiplied by, and lse of all waves (of a lane's row)."""
    config, row = place.config, mod(lane, BLOCK)
    maxima, totals = [lds.array(fx.Float32, config.waves * config.tiles * BLOCK) for _ in range(2)]
    for n in fx.range_constexpr(config.tiles):
        if lane < BLOCK:
            at = (wave * config.tiles + n) * BLOCK + row
            maxima[at] = largest[n]
            totals[at] = total[n]
    fx.barrier()
    factors = []
    logs = []
    for n in fx.range_constexpr(config.tiles):
        places = [(w * config.tiles + n) * BLOCK + row for w in range(config.waves)]
        top = fx.Float32(LOWEST)
        for at in places:
            top = fx.maxnumf(top, maxima[at])
        if fx.const_expr(config.sink and not config.split):
            own = (pointer(tensors["sink"], fx.Float32) + place.query_head(n * BLOCK + row)).load() * LOG2E
            top = fx.maxnumf(top, own)
        whole = fx.Float32(0.0)
        for at in places:
            whole = whole + totals[at] * exp2(maxima[at] - top)
        if fx.const_expr(config.sink and not config.split):
            whole = whole + exp2(own - top)
        some = whole > 0.0
        factors.append(some.select(exp2(largest[n] - top) / whole, 0.0))
        logs.append(some.select(top + fx.math.log2(whole), -math.inf))
    return factors, logs


@flyc.jit
def merge_waves(out, tensors, sums, largest, total, place, lane, wave):
    """Add the waves' sums, weighted, and store them.

    Args:
        out: pointer to the rows of the result or of the parts.
        tensors: ``"lse"``, one f32 a part; ``"sink"``, one a query head.
        sums: O^T, values of the second product's accumulators; largest, total: of each tile, of a lane's row.
    """
    config, lds = place.config, Lds()
    unit, chunk, held = config.merge_unit, config.value_chunk, config.value_rows
    factors, logs = _weights(largest, total, tensors, place, lds, lane, wave)
    if fx.const_expr(config.split):
        lse = pointer(tensors["lse"], fx.Float32)
        for n in fx.range_constexpr(config.tiles):
            row = n * BLOCK + lane
            if (wave == 0) & (lane < BLOCK) & place.exists(row):
                fx.make_view(lse + place.out(row), fx.make_layout(1, 1))[0] = logs[n]
    pitch = BLOCK * unit + 4  # f32 of a row in LDS
    shared = lds.array(fx.Float32, config.waves * BLOCK * pitch)
    base = fx.get_iter(shared.view(fx.make_layout(config.waves * BLOCK * pitch, 1)))
    thread, tiles = wave * config.target.wave + lane, config.dim // BLOCK
    for n in fx.range_constexpr(config.tiles):
        for part in fx.range_constexpr(tiles // unit):
            for i in fx.range_constexpr(held):
                values = [sums[i + held * (part * unit + j + tiles * n)] * factors[n] for j in range(unit)]
                at = (wave * BLOCK + mod(lane, BLOCK)) * pitch + (div(lane, BLOCK) * held + i) * unit
                lds_write(base, at, fx.Vector.from_elements(values, fx.Float32))
            fx.barrier()
            for step in fx.range_constexpr(BLOCK * BLOCK // config.threads):
                place_of = thread + step * config.threads
                row, column = div(place_of, BLOCK), mod(place_of, BLOCK)
                whole = lds_read(base, row * pitch + column * unit, unit)
                for w in fx.range_constexpr(1, config.waves):
                    whole = whole + lds_read(base, (w * BLOCK + row) * pitch + column * unit, unit)
                at = column * chunk + part * unit % chunk + part * unit // chunk * (BLOCK * chunk)
                if place.exists(n * BLOCK + row):
                    target = out + fx.Int64(place.out(n * BLOCK + row)) * config.dim + at
                    fx.make_view(target, fx.make_layout(unit, 1)).store(whole.to(out.element_type))
            fx.barrier()
