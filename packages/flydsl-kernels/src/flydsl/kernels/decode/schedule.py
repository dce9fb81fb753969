"""The metadata scheduler: contexts of all sequences are laid end to end and cut evenly for the workgroups.

A context is a number of *partitions* (of 256 tokens, say), one at least. The partitions of a key head, sequence after
sequence, are divided among *bins*, workgroups that stay for the whole launch: the first ones take one more than the
others. So a sequence may be cut into *pieces*; the pieces of one that is cut are partial results, which
:mod:`.work` adds afterwards. Everything follows from running sums of partitions, pieces and partial results over the
sequences, so one wave does it, a sequence a lane.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..parts.indices import index_at, require_within
from ..parts.memory import pointer
from ..target import Target, builder

__all__ = ["FIELDS", "build_metadata_module", "most_partials", "most_pieces"]

#: i32 of a piece: batch, row of the partial result or -1, first and end query, first and end partition, 0, heads.
FIELDS = 8


def most_pieces(batch: int, bins: int) -> int:
    """Of a key head: a cut adds one."""
    return batch + bins - 1


def most_partials(bins: int) -> int:
    """Pieces of sequences that are cut: a cut makes two of one at most."""
    return 2 * (bins - 1)


@dataclass(frozen=True)
class MetadataConfig(KernelConfig):
    """`bins` for each of `heads` key heads, of `groups` workgroups in all; `group` query heads a key head; `queries`
    tokens of a sequence; partitions of `granularity` tokens."""

    groups: int
    heads: int
    group: int
    queries: int
    granularity: int

    @property
    def bins(self) -> int:
        return self.groups // self.heads


def _before(value: Any, lane: Any, wave: int) -> Any:
    """Sum of an Int32 over the lanes before this one."""
    total, step = value, 1
    while step < wave:
        total = total + (lane >= step).select(fx.shuffle_idx(total, fx.max(lane - step, 0), wave), 0)
        step *= 2
    return total - value


class Bins:
    """Which partitions of a key head belong to a bin."""

    def __init__(self, config: MetadataConfig, total: Any) -> None:
        self.share, self.larger = total // config.bins, total % config.bins

    def first(self, which: Any) -> Any:
        """Partition that a bin begins with; behind the last one for bins with nothing."""
        return which * self.share + fx.min(which, self.larger)

    def of(self, partition: Any) -> Any:
        """Bin of a partition."""
        border = self.larger * (self.share + 1)
        return (partition < border).select(partition // (self.share + 1),
                                           self.larger + (partition - border) // fx.max(self.share, 1))


@flyc.jit
def _partitions(lengths, sequence, batch, config):
    """Of a sequence: one at least, none of what is no sequence."""
    context = index_at(lengths, fx.min(sequence, batch - 1))
    context = require_within(context, 0, 1 << 31)
    return (sequence < batch).select(fx.max((context + (config.granularity - 1)) // config.granularity, 1), 0)


@flyc.jit
def _write(tensors, config, bins, sequence, start, count, item, partial, items):
    """The pieces of a sequence whose `count` partitions begin at `start`: from number `item` on, of `items` a head."""
    info, starts, map_ = [pointer(tensors[name], fx.Int32) for name in ("info", "work_indptr", "partial_map")]
    first = bins.of(start)
    pieces = bins.of(start + count - 1) - first + 1
    for piece in range(pieces):
        which = first + piece
        begin, end = fx.max(start, bins.first(which)), fx.min(start + count, bins.first(which + 1))
        row = (partial + piece) * config.queries
        if pieces > 1:
            map_[partial + piece] = row
        for head in range(config.heads):
            place = head * items + item + piece
            if begin == bins.first(which):
                starts[head * config.bins + which] = place
            heads = (((head + 1) * config.group) << 16) | (head * config.group)
            fields = [sequence, (pieces > 1).select(row, -1), sequence * config.queries,
                      (sequence + 1) * config.queries, begin, end, fx.Int32(0), heads]
            for i in fx.range_constexpr(FIELDS):
                info[place * FIELDS + i] = fields[i]


@flyc.jit
def _walk(lengths, batch, config, bins=None, visit=None):
    """Partitions of all sequences and, of `bins`, their pieces and partial results. Each lane takes every 64th (32nd)
    sequence, and may ``visit(sequence, first partition, partitions, first piece, first partial result)``."""
    lane, wave = fx.thread_idx.x, config.target.wave
    start, item, partial = fx.Int32(0), fx.Int32(0), fx.Int32(0)
    for step in range(fx.ceildiv(batch, wave)):
        sequence = step * wave + lane
        mine = _partitions(lengths, sequence, batch, config)
        first = start + _before(mine, lane, wave)
        if fx.const_expr(bins is not None):
            pieces = (mine > 0).select(bins.of(first + fx.max(mine, 1) - 1) - bins.of(first) + 1, 0)
            cut = (pieces > 1).select(pieces, 0)
            at, row = item + _before(pieces, lane, wave), partial + _before(cut, lane, wave)
            if fx.const_expr(visit is not None):
                visit(sequence, first, mine, at, row)
            item, partial = [fx.shuffle_idx(x, wave - 1, wave) for x in (at + pieces, row + cut)]
        start = fx.shuffle_idx(first + mine, wave - 1, wave)
    return start, item, partial


@flyc.jit
def _record(tensors, config, batch, bins, items, sequence, first, count, at, row):
    """A sequence: where its partitions begin, its partial results, and what they are added to; and its pieces."""
    partitions, reduces, finals = [
        pointer(tensors[name], fx.Int32) for name in ("partition_indptr", "reduce_indptr", "final_map")]
    if sequence < batch:
        partitions[sequence] = first
        reduces[sequence] = row
        finals[2 * sequence] = sequence * config.queries
        finals[2 * sequence + 1] = (sequence + 1) * config.queries
        _write(tensors, config, bins, sequence, first, count, at, row, items)


@flyc.kernel
def metadata_kernel(tensors, batch: fx.Int32, config: fx.Constexpr):
    """One wave."""
    lane, lengths = fx.thread_idx.x, tensors["lengths"]
    partitions, groups, reduces = [
        pointer(tensors[name], fx.Int32) for name in ("partition_indptr", "work_indptr", "reduce_indptr")]
    total, _, _ = _walk(lengths, batch, config)
    bins = Bins(config, total)
    _, items, partial = _walk(lengths, batch, config, bins)
    _walk(lengths, batch, config, bins, functools.partial(_record, tensors, config, batch, bins, items))
    if lane == 0:
        partitions[batch] = total
        reduces[batch] = partial
    # Bins with nothing, workgroups beyond the bins, and the end.
    used = fx.min(total, config.bins)
    for i in range(lane, config.groups + 1, config.target.wave):
        head = fx.min(i // config.bins, config.heads)
        if (head == config.heads) | (i - head * config.bins >= used):
            groups[i] = fx.min(head + 1, config.heads) * items


@builder
def build_metadata_module(groups: int, heads: int, group: int, queries: int = 1, granularity: int = 256, *,
                          target: Target) -> Any:
    """``launch(Lengths, WorkIndptr, WorkInfo, PartitionIndptr, ReduceIndptr, FinalMap, PartialMap, batch,
    stream=None)``: all but Lengths (int32 or int64) are i32 and written.

    Args:
        groups: workgroups; `heads`: key heads, of `group` query heads each; `queries`: tokens of a sequence.
        granularity: tokens of a partition.

    Of `bins` = groups // heads: workgroup ``head * bins + i`` has the pieces from ``WorkIndptr[..]`` to the next, of
    ``WorkInfo [heads * most_pieces(batch, bins), 8]``: batch, first row of its partial result (-1: it is the result),
    first and end query row, first and end partition (counted over all sequences), 0, ``end << 16 | first`` query head.
    Sequence b has partitions from ``PartitionIndptr[b]`` and partial results ``PartialMap[ReduceIndptr[b]:
    ReduceIndptr[b + 1]]``, rows of as many query tokens each, for the rows ``FinalMap[2 b: 2 b + 2]``.

    Raises:
        ValueError: there are fewer workgroups than key heads.
    """
    require("build_metadata_module", groups >= heads >= 1 and group >= 1 and queries >= 1 and granularity >= 1,
            f"groups >= heads, group, queries and granularity must be positive, got {groups}, {heads}, {group}, "
            f"{queries} and {granularity}")
    config = MetadataConfig(groups, heads, group, queries, granularity, target=target)

    @flyc.jit
    def pa_metadata(Lengths, WorkIndptr, WorkInfo, PartitionIndptr, ReduceIndptr, FinalMap, PartialMap,  # noqa: N803
                    batch: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"lengths": Lengths, "work_indptr": WorkIndptr, "info": WorkInfo, "partition_indptr": PartitionIndptr,
                   "reduce_indptr": ReduceIndptr, "final_map": FinalMap, "partial_map": PartialMap}
        metadata_kernel(tensors, batch, config).launch(grid=1, block=target.wave, stream=stream)

    return pa_metadata
