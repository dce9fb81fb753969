"""Results of parts of a context become one: of the waves of a workgroup through LDS, of workgroups by a second kernel.

A part gives, for each query row, the weighted values divided by the sum of the weights, and the natural logarithm of
that sum, ``lse``: -inf where nothing was visible. Parts with weights e**lse add up to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.row_sum import RowSum
from ..attention.scores import Band
from ..host.dtypes import element_of
from ..parts.index import div, mod
from ..parts.memory import lds_read, lds_write, pointer
from ..parts.reduce import Lds
from .config import BLOCK, DecodeConfig, PagedConfig

__all__ = ["Place", "Results", "merge_waves"]


@dataclass(frozen=True)
class Place:
    """Where the rows of a wave belong.

    Attributes:
        first: the first of the key head's rows (tokens x heads of the group) in the wave.
        sequence, head: of the workgroup; `heads` is the number of query heads.
        part, parts: number of the share of the context, of how many.
        token: row [batch * tokens] of the sequence's first token, if not that of all sequences alike.
    """

    config: DecodeConfig
    first: Any
    sequence: Any
    head: Any
    heads: Any
    part: Any
    parts: Any
    token: Any = None

    @classmethod
    def of(cls, config: DecodeConfig, head: Any, block: Any, sequence: Any, heads: Any, part: Any = 0, parts: Any = 1,
           token: Any = None) -> Place:
        """Of a wave of the workgroup that has block number `block` of the rows of a head, while tracing."""
        group = block if config.groups == 1 else block * config.groups + fx.wave_index() // config.sharing
        return cls(config, group * config.wave_rows, sequence, head, heads, part, parts, token)

    def query_head(self, row: Any) -> Any:
        """Of a row of the workgroup."""
        return self.head * self.config.group + mod(fx.Int32(self.first + row), self.config.group)

    def query(self, row: Any) -> Any:
        """Number of a row's token among those that are decoded."""
        return div(self.first + row, self.config.group)

    def exists(self, row: Any) -> Any:
        return self.first + row < self.config.head_rows

    def band(self, share: Any, reach: Any) -> Band:
        """The tokens of a share of a context that rows see; with a window, as far back as the reach."""
        config, newest = self.config, share.context - self.config.queries  # of the first query
        return Band(0, config.queries, share.end, newest - reach if config.left else None, newest,
                    lambda row: fx.min(self.query(row), config.queries - 1))

    def line(self, row: Any) -> Any:
        """Row of q and of the result [batch * tokens * heads]."""
        first = self.sequence * self.config.queries if self.token is None else self.token
        return (first + self.query(row)) * self.heads + self.query_head(row)

    def query_rows(self, data: Any, words: int) -> Callable[[int, Any], Any]:
        """Function of (n, row) to the pointer to row `row` of the n-th instruction's queries, of so many words. Rows
        that do not exist are the last."""
        start, last, m = pointer(data, fx.Int32), self.config.head_rows - 1 - self.first, self.config.matrix.m
        return lambda n, row: start + fx.Int64(self.line(fx.min(n * m + row, last))) * words

    def part_line(self, row: Any) -> Any:
        """Row of the parts [batch * tokens * heads, parts]."""
        return self.line(row) * self.parts + self.part


class Results:
    """What a workgroup stores: rows of the result or, of a context that is cut, partial results and the natural
    logarithms of their weights.

    Args:
        tensors: ``"out"`` [.., columns], and for what is cut ``"parts"`` [.., columns] and ``"lse"``.
        place: of rows in the result; partial: among the partial results, if elsewhere.
        cut: whether the context is, as a constant or at run time.
    """

    def __init__(self, tensors: dict[str, Any], place: Place, cut: Any, partial: Place | None = None):
        config = place.config
        self.place, self.partial, self.columns, self.cut = place, partial or place, config.dim, cut
        self.logs = cut is not False  # whether logarithms are stored
        self.out = None if cut is True else pointer(tensors["out"], element_of(config.out))
        self.parts = pointer(tensors["parts"], element_of(config.parts_dtype)) if self.logs else None
        self.lse = pointer(tensors["lse"], fx.Float32) if self.logs else None

    def store(self, row: Any, column: Any, values: Any) -> None:
        """Values (f32) of consecutive columns of a row of the workgroup."""
        whole, part = [fx.Int64(line) * self.columns + column for line in self._lines(row)]
        _store(self.cut, self.parts, part, self.out, whole, values)

    def store_log(self, row: Any, log: Any) -> None:
        """That of a row, where a partial result is stored."""
        _store(self.cut, self.lse, self._lines(row)[1], None, 0, fx.Vector.from_elements([log], fx.Float32))

    def _lines(self, row: Any) -> tuple[Any, Any]:
        """Of the result, and of the partial results."""
        return self.place.line(row), self.partial.part_line(row)


@flyc.jit
def _store(cut, parts, part, out, whole, values):
    """Values from element `part` of partial results on if a context is cut, else from `whole` of the result, if any."""
    if cut:
        fx.make_view(parts + part, fx.make_layout(values.numel, 1)).store(values.to(parts.element_type))
    else:
        if fx.const_expr(out is not None):
            fx.make_view(out + whole, fx.make_layout(values.numel, 1)).store(values.to(out.element_type))


@flyc.jit
def _weights(found, tensors, place, lds, lane, wave):
    """For each tile of 16 rows: what this wave's sums are multiplied by, and lse of all waves (of a lane's row)."""
    config, row = place.config, mod(lane, BLOCK)
    bases, totals = [lds.array(fx.Float32, config.waves * config.wave_rows) for _ in range(2)]
    for n in fx.range_constexpr(config.blocks):
        if lane < BLOCK:
            at = (wave * config.blocks + n) * BLOCK + row
            bases[at] = found[n].base
            totals[at] = found[n].total
    fx.barrier()
    factors = []
    logs = []
    for n in fx.range_constexpr(config.blocks):
        places = [(w * config.blocks + n) * BLOCK + row for w in range(config.waves)]
        waves = [RowSum(bases[at], totals[at]) for at in places]
        if fx.const_expr(config.sink and not config.split):
            sink = pointer(tensors["sink"], fx.Float32) + place.query_head(n * BLOCK + row)
            waves.append(RowSum.of_score(sink.load()))
        whole = RowSum.of(waves)
        factors.append(whole.share(found[n].decay(whole.base)))
        logs.append(whole.log)
    return factors, logs


def _columns(config: PagedConfig, values: list[Any], lane: Any) -> Iterator[tuple[Any, Any]]:
    """(place in a row of LDS, f32 of a lane) of `merge_unit` blocks of columns of a lane's row: columns that lie
    together in the result, together."""
    held, unit = config.value_rows, config.merge_unit
    first = div(lane, BLOCK) * held
    if config.value_chunk == 1:  # rows of a block are neighbouring columns
        for j in range(unit):
            for i in range(0, held, 4):
                part = values[held * j + i:held * j + i + 4]
                yield j * BLOCK + first + i, fx.Vector.from_elements(part, fx.Float32)
    else:  # rows of neighbouring blocks are
        for i in range(held):
            yield (first + i) * unit, fx.Vector.from_elements(values[i::held], fx.Float32)


@flyc.jit
def merge_waves(results, tensors, sums, found, lane, wave):
    """Add the waves' sums, weighted, and store them.

    Args:
        results: where; tensors: ``"sink"``, one a query head.
        sums: O^T, values of the second product's accumulators; found: the sum of each tile, of a lane's row.
    """
    place, lds = results.place, Lds()
    config = place.config
    unit, chunk, held = config.merge_unit, config.value_chunk, config.value_rows
    factors, logs = _weights(found, tensors, place, lds, lane, wave)
    if fx.const_expr(results.logs):
        for n in fx.range_constexpr(config.blocks):
            row = n * BLOCK + lane
            if (wave == 0) & (lane < BLOCK) & place.exists(row):
                results.store_log(row, logs[n])
    pitch = BLOCK * unit + 4  # f32 of a row in LDS
    shared = lds.array(fx.Float32, config.waves * BLOCK * pitch)
    base = fx.get_iter(shared.view(fx.make_layout(config.waves * BLOCK * pitch, 1)))
    thread, tiles = wave * config.target.wave + lane, config.dim // BLOCK
    for n in fx.range_constexpr(config.blocks):
        for part in fx.range_constexpr(tiles // unit):
            own = [sums[i + held * (part * unit + j + tiles * n)] * factors[n] for j in range(unit)
                   for i in range(held)]
            for at, values in _columns(config, own, lane):
                lds_write(base, (wave * BLOCK + mod(lane, BLOCK)) * pitch + at, values)
            fx.barrier()
            for step in fx.range_constexpr(BLOCK * BLOCK // config.threads):
                place_of = thread + step * config.threads
                row, column = div(place_of, BLOCK), mod(place_of, BLOCK)
                whole = lds_read(base, row * pitch + column * unit, unit)
                for w in fx.range_constexpr(1, config.waves):
                    whole = whole + lds_read(base, (w * BLOCK + row) * pitch + column * unit, unit)
                at = column * unit + part * unit * BLOCK if chunk == 1 else (
                    column * chunk + part * unit % chunk + part * unit // chunk * (BLOCK * chunk))
                if place.exists(n * BLOCK + row):
                    results.store(n * BLOCK + row, at, whole)
            fx.barrier()
