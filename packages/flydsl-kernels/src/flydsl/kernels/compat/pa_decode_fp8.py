"""Paged decode attention with the names and arguments of existing callers (torch tensors, changed in place).

Keys are [blocks, Hkv, D/x, block, x], values [blocks, Hkv, D, block] or [blocks, Hkv, block/x, D, x] (either of them in
every function: the rank tells), f16, bf16 or the chip's fp8. Scratch that callers pass is used as memory: what is in it
afterwards is only for the function that reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl.kernels.decode.arrays import Caches, caches_of
from flydsl.kernels.decode.builders import build_combine_module, build_paged_attention_module
from flydsl.kernels.decode.kernel import sizes_of
from flydsl.kernels.decode.schedule import FIELDS, build_metadata_module, most_partials, most_pieces
from flydsl.kernels.decode.work import build_paged_work_module, build_reduce_module
from flydsl.kernels.host.arrays import allocate, contiguous, launch, span, strides_of
from flydsl.kernels.host.config import require
from flydsl.kernels.host.dtypes import dtype_name
from flydsl.kernels.parts.index import cdiv
from flydsl.kernels.target import Target, kept, target

from .mla_fwd_decode import flydsl_mla_reduce_v1, require_partials

if TYPE_CHECKING:
    import torch

__all__ = [
    "compile_pa_decode_metadata", "compile_pa_decode_sw", "compile_pa_decode_sw_reduce", "compile_pa_decode_tile",
    "compile_pa_metadata_reduce", "compile_pa_metadata_v1", "get_pa_metadata", "get_recommended_splits",
    "pa_decode_ps_launch", "pa_decode_tile", "pa_metadata_reduce",
]

PARTITION = 256  # tokens
METADATA_BLOCK = 1024  # tokens of a block for which the metadata scheduler is taken
GRID = 2  # workgroups of a compute unit that stay

Scratch = tuple[Any, Any]  # parts of the rows, and the logarithms of their weights


def get_recommended_splits(num_sequences: int, num_kv_heads: int, split_kv_blocks: int = 1, *, sliding_window: int = 0,
                           context_partition_size: int = PARTITION, query_length: int = 1) -> int:
    """Workgroups that share a context: two for each compute unit in all, 4 to 8 of a sequence; with a window, the
    partitions that it can touch."""
    if sliding_window > 0:
        return cdiv(sliding_window + query_length - 1, context_partition_size) + 1
    wanted = cdiv(2 * target().compute_units, max(num_sequences * num_kv_heads * split_kv_blocks, 1))
    return min(max(wanted * split_kv_blocks, 4), 8)


@dataclass(frozen=True)
class _Operands:
    """Checked arguments of a call.

    Attributes:
        table: of page numbers, a row a sequence, or one list with `starts`.
        scales: of keys and of values, or what stands for them; `kinds`: of these.
    """

    where: str
    target: Target
    query: Any
    caches: Caches
    lengths: Any
    table: Any
    starts: Any
    scales: tuple[Any, Any]
    kinds: tuple[str, str]

    @property
    def batch(self) -> int:
        return self.lengths.shape[0]

    @property
    def queries(self) -> int:
        return self.query.shape[0] // max(self.batch, 1)

    @property
    def group(self) -> int:
        return self.query.shape[1] // self.caches.heads

    @property
    def options(self) -> dict[str, Any]:
        """Static ones of both builders."""
        return {**self.caches.options, "key_scales": self.kinds[0], "value_scales": self.kinds[1],
                "lists": self.starts is not None}

    def static(self, out: Any) -> tuple[Any, ...]:
        """The first arguments of both builders."""
        require(self.where, math.prod(out.shape) == math.prod(self.query.shape),
                f"the output must have the shape {tuple(self.query.shape)} of the query, got {tuple(out.shape)}")
        return (self.query.shape[2], self.group, self.queries, dtype_name(self.query, self.where), self.caches.kind,
                dtype_name(out, f"{self.where}: output"), self.caches.page)

    @property
    def places(self) -> tuple[int, ...]:
        """Strides of the table and the caches, and how many pages there are."""
        columns = self.table.shape[-1]
        apart = strides_of(self.table)[0] if self.starts is None and columns else 0
        return (apart, columns, self.caches.pages, *self.caches.strides)


def _operands(where: str, query: Any, key_cache: Any, value_cache: Any, lengths: Any, table: Any, starts: Any,
              key_scale: Any, value_scale: Any) -> _Operands:
    require(where, len(query.shape) == 3 and len(lengths.shape) == 1 and lengths.shape[0] > 0
            and query.shape[0] % lengths.shape[0] == 0, "query must be [sequences * query length, heads, D] and "
            f"context_lengths [sequences], got {tuple(query.shape)} and {tuple(lengths.shape)}")
    dtype, found = dtype_name(query, where, ("f16", "bf16")), target()
    caches = caches_of(where, found, key_cache, value_cache, dtype, query.shape[1], query.shape[2])
    batch = lengths.shape[0]
    if starts is None:
        require(where, len(table.shape) == 2 and table.shape[0] == batch,
                f"block_tables must be [{batch}, blocks of a sequence], got {tuple(table.shape)}")
    else:
        require(where, tuple(starts.shape) == (batch + 1,),
                f"kv_indptr must be ({batch + 1},), got {tuple(starts.shape)}")
        require(where, len(table.shape) == 1, f"kv_page_indices must be one list, got {tuple(table.shape)}")
        starts, table = contiguous(starts), contiguous(table)
    lengths = contiguous(lengths)
    (key_scale, of_keys), (value_scale, of_values) = (caches.scale(where, name, scale, lengths) for name, scale in (
        ("key_scale", key_scale), ("value_scale", value_scale)))
    return _Operands(where, found, contiguous(query), caches, lengths, table, starts, (key_scale, value_scale),
                     (of_keys, of_values))


def _factor(softmax_scale: float | None, dim: int) -> float:
    return float(dim**-0.5 if softmax_scale is None else softmax_scale)


def _scratch(given: _Operands, parts: int, partial: Any, logs: Any) -> Scratch:
    """Memory for parts of rows: the caller's, or new."""
    rows, dim = math.prod(given.query.shape[:2]) * parts, given.query.shape[2]
    for name, array, count in (("temporary output", partial, rows * dim), ("maximum of logits", logs, rows)):
        require(given.where, array is None or array.numel() >= count and array.is_contiguous(),
                f"the {name} must be contiguous with {count} elements or more, got "
                f"{None if array is None else tuple(array.shape)}")
    if partial is None:
        partial = allocate(given.target, given.query, (rows * dim,), dtype_name(given.query, given.where))
    if logs is None:
        logs = allocate(given.target, given.query, (rows,), "f32")
    return partial.view(-1), logs.view(-1)


def _attend(given: _Operands, output: Any, softmax_scale: float | None, window: int, parts: int,
            scratch: Scratch | None, stream: Any, combined: bool = True) -> None:
    """Attention in `parts` of each context; window: keys that far back are seen, 0: all."""
    split = scratch is not None
    partial, logs = scratch or (output, output)
    module = build_paged_attention_module(
        *given.static(output), window=window > 0, split=split, combined=combined,
        parts_dtype=dtype_name(partial, given.where) if split else "f32", target=given.target, **given.options)
    batch, heads = given.batch, given.query.shape[1]
    table = given.table if given.starts is not None else span(given.table)
    starts = given.lengths if given.starts is None else given.starts
    launch(module, given.query, given.query, span(given.caches.keys), span(given.caches.values), table, given.lengths,
           given.lengths, *given.scales, starts, output, partial, logs, batch,
           sizes_of(heads, parts, given.places, _factor(softmax_scale, given.query.shape[2]), window), stream=stream)


def pa_decode_ps_launch(output: torch.Tensor, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor,
                        context_lengths: torch.Tensor, kv_page_indices: torch.Tensor, kv_indptr: torch.Tensor,
                        softmax_scale: float, key_scale: torch.Tensor | None = None,
                        value_scale: torch.Tensor | None = None, *, sliding_window: int = 0,
                        metadata: dict[str, Any] | None = None, block_tables: torch.Tensor | None = None,
                        max_context_partition_num: int = 0, exp_sums: torch.Tensor | None = None,
                        max_logits: torch.Tensor | None = None, temporary_output: torch.Tensor | None = None,
                        stream: Any = None) -> str:
    """Attention of `query` [B * query length, H, D] to packed caches, to `output`; the name of the path that was taken.

    Args:
        context_lengths: [B]; kv_page_indices: page numbers of all sequences, those of b from ``kv_indptr[b]`` on. More
            tokens than the pages hold, and pages that are not in the list, stop the launch.
        key_scale, value_scale: f32 [1], [Hkv] or [blocks, Hkv, block] (a trailing 1 is allowed).
        sliding_window: w: a query at p sees the keys from p - w on; 0: all.
        metadata: of :func:`get_pa_metadata`, made here if None where blocks have 1024 tokens.
        block_tables: [B, n], instead of the list.
        max_context_partition_num: parts of a context, :func:`get_recommended_splits` if 0.
        exp_sums, max_logits, temporary_output: scratch f32 [B, Hkv, parts, rows] twice and [.., D] of any float type,
            to launch without allocation. `exp_sums` is not needed.

    Raises:
        ValueError: shapes, dtypes or scratch do not fit.
    """
    where = "pa_decode_ps_launch"
    table, starts = (kv_page_indices, kv_indptr) if block_tables is None else (block_tables, None)
    given = _operands(where, query, key_cache, value_cache, context_lengths, table, starts, key_scale, value_scale)
    if sliding_window <= 0 and (metadata is not None or given.caches.page == METADATA_BLOCK):
        if metadata is None:
            metadata = get_pa_metadata(query, key_cache, context_lengths, kv_indptr, query.shape[1], given.caches.heads)
        _by_metadata(given, output, softmax_scale, metadata, stream)
        return "ps_split_reduce"
    parts = max_context_partition_num or get_recommended_splits(
        given.batch, given.caches.heads, sliding_window=sliding_window, query_length=given.queries)
    scratch = _scratch(given, parts, temporary_output, max_logits) if parts > 1 else None
    _attend(given, output, softmax_scale, max(sliding_window, 0), parts, scratch, stream)
    if sliding_window > 0:
        return "ps_sw_partitioned" if parts > 1 else "ps_sw_fused_partitioned"
    return "ps_small_block"


def pa_decode_tile(output: torch.Tensor, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor,
                   block_tables: torch.Tensor, context_lengths: torch.Tensor, key_scale: torch.Tensor | None,
                   value_scale: torch.Tensor | None, softmax_scale: float | None = None, stream: Any = None, *,
                   num_partitions: int | None = None, pmax: torch.Tensor | None = None,
                   psum: torch.Tensor | None = None, pout: torch.Tensor | None = None) -> None:
    """The same with a table of blocks [B, n], in `num_partitions` parts (as many as suit if None).

    Args:
        pmax, pout: scratch: f32 [B, Hkv, parts, rows], and [.., D] of any float type. `psum` is not needed.
    """
    given = _operands("pa_decode_tile", query, key_cache, value_cache, context_lengths, block_tables, None, key_scale,
                      value_scale)
    parts = num_partitions or get_recommended_splits(given.batch, given.caches.heads, query_length=given.queries)
    scratch = _scratch(given, parts, pout, pmax) if parts > 1 else None
    _attend(given, output, softmax_scale, 0, parts, scratch, stream)


# ------------------------------------------------------------------------------------------- metadata


def get_pa_metadata(query: torch.Tensor, key_cache: torch.Tensor, context_lengths: torch.Tensor,
                    kv_indptr: torch.Tensor | None, num_query_heads: int, num_kv_heads: int,
                    partition_size: int = PARTITION, *, per_token_kv: bool | None = None,
                    grid_multiplier: int | None = None) -> dict[str, Any]:
    """How contexts are divided among workgroups that stay, and memory for the partial results.

    Args:
        query: [B * query length, H, D]; context_lengths: [B].
        grid_multiplier: workgroups of a compute unit, 2 if None.

    Returns:
        What :mod:`flydsl.kernels.decode.schedule` says, on the device, as ``work_indptr``, ``work_info_flat``,
        ``partition_indptr``, ``reduce_indptr``, ``reduce_final_map``, ``reduce_partial_map``; ``num_sm`` workgroups;
        ``partial_output`` f32 [rows, 1, H, D], ``partial_lse`` f32 [rows, 1, H, 1], and their strides
        ``stride_po_row``, ``stride_po_head``, ``stride_lse_row``; ``partition_size``. Everything is of one kernel on
        `context_lengths`, so the same memory serves other lengths: :func:`compile_pa_metadata_v1`.
    """
    batch, found = context_lengths.shape[0], target()
    queries, dim = query.shape[0] // max(batch, 1), query.shape[2]
    groups = max(found.compute_units * (grid_multiplier or GRID), num_kv_heads)
    bins = groups // num_kv_heads
    rows = (most_partials(bins) + 1) * queries

    def integers(count: int) -> Any:
        return allocate(found, query, (count,), "i32")

    result: dict[str, Any] = {
        "work_indptr": integers(groups + 1),
        "work_info_flat": integers(num_kv_heads * most_pieces(batch, bins) * FIELDS),
        "partition_indptr": integers(batch + 1), "reduce_indptr": integers(batch + 1),
        "reduce_final_map": integers(2 * batch), "reduce_partial_map": integers(max(most_partials(bins), 1)),
        "num_sm": groups, "partition_size": partition_size,
        "partial_output": allocate(found, query, (rows, 1, num_query_heads, dim), "f32"),
        "partial_lse": allocate(found, query, (rows, 1, num_query_heads, 1), "f32"),
        "stride_po_row": num_query_heads * dim, "stride_po_head": dim, "stride_lse_row": num_query_heads,
    }
    scheduler = compile_pa_metadata_v1(num_cu=groups, num_heads_k=num_kv_heads, gqa=num_query_heads // num_kv_heads,
                                       kv_granularity=partition_size, query_length=queries)
    launch(scheduler, query, contiguous(context_lengths), *(result[name] for name in (
        "work_indptr", "work_info_flat", "partition_indptr", "reduce_indptr", "reduce_final_map",
        "reduce_partial_map")), batch)
    return result


def compile_pa_metadata_v1(*, num_cu: int, num_heads_k: int, gqa: int, kv_granularity: int = PARTITION,
                           query_length: int = 1) -> Any:
    """:func:`flydsl.kernels.decode.schedule.build_metadata_module`."""
    return build_metadata_module(num_cu, num_heads_k, gqa, query_length, kv_granularity)


def _by_metadata(given: _Operands, output: Any, softmax_scale: float | None, metadata: dict[str, Any],
                 stream: Any, reduced: bool = True) -> None:
    _, heads, dim = given.query.shape
    require_partials(given.where, metadata["partial_output"], metadata["partial_lse"], heads, dim)
    module = build_paged_work_module(*given.static(output), granularity=metadata["partition_size"],
                                     target=given.target, **given.options)
    table = given.table if given.starts is not None else span(given.table)
    launch(module, given.query, given.query, span(given.caches.keys), span(given.caches.values), table,
           given.lengths if given.starts is None else given.starts, given.lengths, *given.scales, output,
           metadata["partial_output"], metadata["partial_lse"], metadata["work_indptr"], metadata["work_info_flat"],
           metadata["partition_indptr"], metadata["num_sm"], given.batch,
           sizes_of(heads, 1, given.places, _factor(softmax_scale, dim)), stream=stream)
    if reduced:
        pa_metadata_reduce(partial_output=metadata["partial_output"], partial_lse=metadata["partial_lse"],
                           reduce_indptr=metadata["reduce_indptr"], reduce_final_map=metadata["reduce_final_map"],
                           reduce_partial_map=metadata["reduce_partial_map"], max_seqlen_q=given.queries,
                           final_output=output, num_query_heads=heads, head_dim=dim, stream=stream)


def pa_metadata_reduce(*, partial_output: torch.Tensor, partial_lse: torch.Tensor, reduce_indptr: torch.Tensor,
                       reduce_final_map: torch.Tensor, reduce_partial_map: torch.Tensor, max_seqlen_q: int,
                       final_output: torch.Tensor, num_query_heads: int, head_dim: int, stream: Any = None) -> None:
    """Add partial results f32 [rows, .., heads, D] by their natural logarithms into the rows of `final_output`."""
    flydsl_mla_reduce_v1(partial_output, partial_lse, reduce_indptr, reduce_final_map, reduce_partial_map, max_seqlen_q,
                         final_output.view(-1, num_query_heads, head_dim), stream=stream)


# ------------------------------------------------------------------------------------------- launchers


@dataclass(frozen=True)
class _Compiled:
    """What a launcher was made for; a call with other operands is an error."""

    head_dim: int
    query_group_size: int
    query_length: int
    query_dtype: str
    per_token_kv: bool
    trans_v: bool
    softmax_scale: float | None = None
    sliding_window: int = 0
    parts: int = 1
    block_size: int | None = None

    def operands(self, where: str, *arguments: Any) -> _Operands:
        given = _operands(where, *arguments)
        found = {"head_dim": given.query.shape[2], "query_group_size": given.group, "query_length": given.queries,
                 "query_dtype": dtype_name(given.query, where), "trans_v": len(arguments[2].shape) == 5,
                 "per_token_kv": given.kinds[0] == "token"}
        if self.block_size is not None:
            found["block_size"] = given.caches.page
        wrong = [f"{name} {getattr(self, name)}, not {value}" for name, value in found.items()
                 if getattr(self, name) != value]
        require(where, not wrong, f"the launcher was made for {'; '.join(wrong)}")
        return given


class _Tile(_Compiled):
    def __call__(self, output: Any, query: Any, key_cache: Any, value_cache: Any, block_tables: Any,
                 context_lengths: Any, key_scale: Any = None, value_scale: Any = None, pout: Any = None,
                 pmax: Any = None, psum: Any = None, stream: Any = None) -> None:
        given = self.operands("pa_decode_tile", query, key_cache, value_cache, context_lengths, block_tables, None,
                              key_scale, value_scale)
        scratch = _scratch(given, self.parts, pout, pmax) if self.parts > 1 else None
        _attend(given, output, self.softmax_scale, 0, self.parts, scratch, stream)


@kept
def compile_pa_decode_tile(head_dim: int, query_group_size: int, block_size: int, num_partitions: int,
                           softmax_scale: float | None = None, query_dtype: str = "bf16", per_token_kv: bool = False,
                           query_length: int = 1, trans_v: bool = False) -> Any:
    """``launch(output, query, key_cache, value_cache, block_tables, context_lengths, key_scale=None, value_scale=None,
    pout=None, pmax=None, psum=None, stream=None)``: :func:`pa_decode_tile` of one kind of operands."""
    return _Tile(head_dim, query_group_size, query_length, query_dtype, per_token_kv, trans_v, softmax_scale, 0,
                 num_partitions, block_size)


class _Window(_Compiled):
    def __call__(self, exp_sums: Any, max_logits: Any, temporary_output: Any, query: Any, key_cache: Any,
                 value_cache: Any, context_lengths: Any, kv_page_indices: Any, kv_indptr: Any, key_scale: Any = None,
                 value_scale: Any = None, stream: Any = None) -> None:
        given = self.operands("compile_pa_decode_sw", query, key_cache, value_cache, context_lengths, kv_page_indices,
                              kv_indptr, key_scale, value_scale)
        scratch = _scratch(given, self.parts, temporary_output, max_logits)
        _attend(given, given.query, self.softmax_scale, self.sliding_window, self.parts, scratch, stream,
                combined=False)


@kept
def compile_pa_decode_sw(sliding_window: int, max_context_partition_num: int, softmax_scale: float | None = None,
                         trans_v: bool = False, query_group_size: int = 16, per_token_kv: bool = False,
                         query_length: int = 1, query_input_dtype: str = "bf16", head_dim: int = 128) -> Any:
    """``launch(exp_sums, max_logits, temporary_output, query, key_cache, value_cache, context_lengths, kv_page_indices,
    kv_indptr, key_scale=None, value_scale=None, stream=None)``: the parts of a window, for
    :func:`compile_pa_decode_sw_reduce`."""
    require("compile_pa_decode_sw", sliding_window > 0, f"sliding_window must be positive, got {sliding_window}")
    return _Window(head_dim, query_group_size, query_length, query_input_dtype, per_token_kv, trans_v, softmax_scale,
                   sliding_window, max_context_partition_num)


@dataclass(frozen=True)
class _WindowReduce:
    parts: int
    head_size: int
    output: str
    logits: str

    def __call__(self, output: Any, exp_sums: Any, max_logits: Any, temporary_output: Any, stream: Any = None) -> None:
        launch(build_combine_module(self.head_size, self.output, self.logits), output, temporary_output.view(-1),
               max_logits.view(-1), output, output.numel() // self.head_size, self.parts, stream=stream)


@kept
def compile_pa_decode_sw_reduce(*, max_context_partition_num: int, query_seq_len: int, query_group_size: int,
                                head_size: int, output_dtype_str: str, logits_dtype_str: str = "bf16") -> Any:
    """``launch(output, exp_sums, max_logits, temporary_output, stream=None)``: adds what :func:`compile_pa_decode_sw`
    stored; `logits_dtype_str` is the dtype of temporary_output."""
    return _WindowReduce(max_context_partition_num, head_size, output_dtype_str, logits_dtype_str)


class _Metadata(_Compiled):
    def __call__(self, output: Any, query: Any, key_cache: Any, value_cache: Any, context_lengths: Any,
                 kv_page_indices: Any, kv_indptr: Any, metadata: dict[str, Any], key_scale: Any = None,
                 value_scale: Any = None, stream: Any = None) -> None:
        given = self.operands("compile_pa_decode_metadata", query, key_cache, value_cache, context_lengths,
                              kv_page_indices, kv_indptr, key_scale, value_scale)
        _by_metadata(given, output, self.softmax_scale, metadata, stream, reduced=False)


@kept
def compile_pa_decode_metadata(softmax_scale: float | None = None, trans_v: bool = False, query_group_size: int = 16,
                               per_token_kv: bool = False, query_length: int = 1, query_input_dtype: str = "bf16",
                               head_dim: int = 128, block_size: int = METADATA_BLOCK,
                               output_dtype_str: str = "bf16") -> Any:
    """``launch(output, query, key_cache, value_cache, context_lengths, kv_page_indices, kv_indptr, metadata,
    key_scale=None, value_scale=None, stream=None)``: the pieces of :func:`get_pa_metadata`; those that were cut are
    added by :func:`pa_metadata_reduce`. The dtype of the result is that of output."""
    return _Metadata(head_dim, query_group_size, query_length, query_input_dtype, per_token_kv, trans_v, softmax_scale,
                     block_size=block_size)


def compile_pa_metadata_reduce(*, query_length: int, num_query_heads: int, head_dim: int, output_dtype_str: str) -> Any:
    """:func:`flydsl.kernels.decode.work.build_reduce_module`."""
    return build_reduce_module(num_query_heads, head_dim, output_dtype_str)
