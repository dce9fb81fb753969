"""Decode attention by lists of work: workgroups that stay take the pieces of contexts that a scheduler gave them
(:mod:`.schedule`), and what was cut is added by a second kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.combine import CombineConfig, Parts, add_parts
from ..cache.pages import context_of
from ..host.config import require
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS, element_of
from ..parts.indices import index_at, require_within, uniform
from ..parts.memory import pointer
from ..target import Target, builder
from .config import paged_config
from .kernel import Share, Sizes, attend_pages
from .merge import Place, Results
from .mla_config import mla_config
from .mla_kernel import attend_latents
from .schedule import FIELDS

__all__ = ["build_mla_work_module", "build_paged_work_module", "build_reduce_module"]


class Piece:
    """One of the list: its fields, each the same in all lanes."""

    def __init__(self, tensors: dict[str, Any], at: Any) -> None:
        info = pointer(tensors["info"], fx.Int32) + at * FIELDS
        self.batch, self.row, self.query, _, self.begin, self.end, _, self.heads = [
            uniform((info + i).load()) for i in range(FIELDS)]

    def results(self, tensors: dict[str, Any], place: Place) -> Results:
        """For rows of a place. Partial results are [rows, heads, dim] from the piece's first row on."""
        return Results(tensors, place, self.row >= 0, replace(place, token=fx.max(self.row, 0)))


@flyc.jit
def _pieces(tensors, group):
    """First and end number of a workgroup's pieces."""
    return tuple(uniform(index_at(tensors["work_indptr"], group + i).to(fx.Int32)) for i in range(2))


@flyc.kernel
def paged_work_kernel(tensors, sizes, batch: fx.Int32, granularity: fx.Int32, config: fx.Constexpr):
    """Workgroup (list, row block)."""
    group, block, _ = fx.block_idx
    first, end = _pieces(tensors, group)
    for number in range(first, end):
        piece = Piece(tensors, number)
        sequence = require_within(piece.batch.to(fx.Int64), 0, batch.to(fx.Int64))
        head = (piece.heads & 0xFFFF) // config.group
        place = Place.of(config, head, block, 0, sizes.heads, token=piece.query)
        table, context = context_of(tensors, sequence, sizes, config.page, config.lists)
        before = uniform(index_at(tensors["partition_indptr"], sequence).to(fx.Int32))
        begin = (piece.begin - before) * granularity
        until = fx.min((piece.end - before) * granularity, context)
        tiles = fx.ceildiv(fx.max(until - begin, 0), config.step)
        share = Share(table, context, fx.Int32(0), begin, until, tiles)
        attend_pages(tensors, sizes, config, share, piece.results(tensors, place))


@flyc.kernel
def mla_work_kernel(tensors, sizes, entries: fx.Int64, config: fx.Constexpr):
    """Workgroup (row block, list); tokens of a piece are numbered in the list of pages of one token."""
    block, group, _ = fx.block_idx
    first, end = _pieces(tensors, group)
    for number in range(first, end):
        piece = Piece(tensors, number)
        begin = require_within(piece.begin.to(fx.Int64), 0, entries + 1)
        until = require_within(piece.end.to(fx.Int64), begin.to(fx.Int64), entries + 1)
        place = Place.of(config, 0, block, 0, sizes.heads, token=piece.query)
        table, tokens = fx.get_iter(tensors["table"]) + begin, until - begin
        share = Share.of(table, tokens, config.keys)
        attend_latents(tensors, sizes, config, share, piece.results(tensors, place))
        fx.lds_barrier()  # the next piece takes the same places in LDS


def _require_lists(indptr: Any, info: Any, groups: Any) -> None:
    """From a jit function: a call is refused that has no piece list for each workgroup, or pieces of other integers."""
    require_operands({"work_indptr": indptr, "work_info": info},
                     {"work_indptr": Extent(groups + 1), "work_info": Extent(0, fx.Int32)})


@builder
def build_paged_work_module(dim: int, group: int, queries: int = 1, dtype: str = "bf16", cache: str = "bf16",
                            out: str = "bf16", page: int = 1024, *, granularity: int = 256, key_scales: str = "",
                            value_scales: str = "", key_unit: int = 0, value_unit: int = 0, lists: bool = True,
                            target: Target) -> Any:
    """``launch(Q, K, V, Table, Starts, Lengths, KScale, VScale, Out, Parts, Lse, WorkIndptr, WorkInfo, PartitionIndptr,
    groups, batch, sizes, stream=None)``: paged attention by the pieces of :func:`.schedule.build_metadata_module`.

    Parts is f32 [rows, heads, dim] and Lse f32 [rows, heads], of the rows that the pieces name; logarithms are natural.
    The rest is as in :func:`.builders.build_paged_attention_module`.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_paged_work_module"
    config = paged_config(where, target, dim, group, queries, dtype, cache, out, page, key_scales=key_scales,
                          value_scales=value_scales, key_unit=key_unit, value_unit=value_unit, lists=lists)
    step = config.step
    require(where, granularity % step == 0, f"partitions must be a multiple of {step} tokens, got {granularity}")

    @flyc.jit
    def pa_decode_metadata(Q, K, V, Table, Starts, Lengths, KScale, VScale, Out, Parts, Lse, WorkIndptr,  # noqa: N803
                           WorkInfo, PartitionIndptr, groups: fx.Int32, batch: fx.Int32, sizes: Sizes,  # noqa: N803
                           stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        _require_lists(WorkIndptr, WorkInfo, groups)
        tensors = {"q": Q, "k_cache": K, "v_cache": V, "table": Table, "starts": Starts, "lengths": Lengths,
                   "k_scale": KScale, "v_scale": VScale, "out": Out, "parts": Parts, "lse": Lse,
                   "work_indptr": WorkIndptr, "info": WorkInfo, "partition_indptr": PartitionIndptr}
        require_operands(tensors, {**config.extents(sizes, batch, False),
                                   "partition_indptr": Extent(fx.Int64(batch) + 1)})
        paged_work_kernel(tensors, sizes, batch, fx.Int32(granularity), config, value_attrs=config.hints).launch(
            grid=(groups, config.row_blocks), block=config.threads, stream=stream)

    return pa_decode_metadata


@builder
def build_mla_work_module(heads: int, query: str = "fp8", cache: str = "fp8", out: str = "bf16", *,
                          target: Target) -> Any:
    """``launch(Q, Cache, PageIndices, WorkIndptr, WorkInfo, Out, Parts, Lse, groups, entries, sizes, stream=None)``:
    MLA by a list of pieces, whose begin and end are places in PageIndices, a page a token.

    Q is [rows, heads, 576], Out [rows, heads, 512]; Parts is f32 [partial rows, heads, 512] and Lse f32 [partial rows,
    heads], with natural logarithms. `entries` is the length of PageIndices.

    Raises:
        ValueError: an argument is not supported.
    """
    config = mla_config("build_mla_work_module", target, heads, 1, query, cache, out, 1)

    @flyc.jit
    def mla_decode_work(Q, Cache, PageIndices, WorkIndptr, WorkInfo, Out, Parts, Lse, groups: fx.Int32,  # noqa: N803
                        entries: fx.Int64, sizes: Sizes, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        _require_lists(WorkIndptr, WorkInfo, groups)
        tensors = {"q": Q, "cache": Cache, "table": PageIndices, "q_scale": Lse, "kv_scale": Lse, "out": Out,
                   "parts": Parts, "lse": Lse, "work_indptr": WorkIndptr, "info": WorkInfo}
        require_operands(tensors, config.cache_extents(sizes))
        mla_work_kernel(tensors, sizes, entries, config, value_attrs=config.hints).launch(
            grid=(config.row_blocks, groups), block=config.threads, stream=stream)

    return mla_decode_work


# ------------------------------------------------------------------------------------------- what was cut


@flyc.kernel
def reduce_kernel(tensors, config: fx.Constexpr):
    """Wave (sequence, head, query): nothing of a sequence without partial results."""
    sequence, head, query = fx.block_idx
    heads = fx.grid_dim.y
    first, end = [uniform(index_at(tensors["indptr"], sequence + i).to(fx.Int32)) for i in range(2)]
    final, stop = [uniform(index_at(tensors["final_map"], 2 * sequence + i).to(fx.Int32)) for i in range(2)]

    def row(part):
        return (index_at(tensors["partial_map"], first + part) + query) * heads + head

    if (first < end) & (final + query < stop):
        line = fx.Int64(final + query) * heads + head
        parts = Parts(pointer(tensors["parts"], fx.Float32), pointer(tensors["lse"], fx.Float32), end - first, row)
        log = pointer(tensors["final_lse"], fx.Float32) + line if config.logs else None
        add_parts(parts, None, pointer(tensors["out"], element_of(config.out)) + line * config.dim, log, config)


@builder
def build_reduce_module(heads: int, dim: int, out: str = "bf16", *, logs: bool = False, target: Target) -> Any:
    """``launch(Parts, Lse, Indptr, FinalMap, PartialMap, Out, FinalLse, sequences, queries, stream=None)``: adds the
    partial results (f32 [rows, heads, dim], with natural logarithms f32 [rows, heads]) of sequences that have some.

    Args:
        logs: FinalLse, f32 [rows, heads], is written too; else any tensor.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_reduce_module"
    require(where, out in FLOATS, f"the result must be one of {', '.join(FLOATS)}, got {out!r}")
    require(where, dim >= 1 and dim % 32 == 0, f"dim must be a multiple of 32, got {dim}")
    config = CombineConfig(dim, out, False, logs=logs, target=target)

    @flyc.jit
    def pa_metadata_reduce(Parts, Lse, Indptr, FinalMap, PartialMap, Out, FinalLse, sequences: fx.Int32,  # noqa: N803
                           queries: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        require_operands({"reduce_indptr": Indptr, "reduce_final_map": FinalMap},
                         {"reduce_indptr": Extent(sequences + 1), "reduce_final_map": Extent(sequences * 2)})
        tensors = {"parts": Parts, "lse": Lse, "indptr": Indptr, "final_map": FinalMap, "partial_map": PartialMap,
                   "out": Out, "final_lse": FinalLse}
        reduce_kernel(tensors, config).launch(grid=(sequences, heads, queries), block=config.threads, stream=stream)

    return pa_metadata_reduce
