"""MLA by lists of work with the names and arguments of existing callers (torch tensors, changed in place)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flydsl.kernels.decode.kernel import sizes_of
from flydsl.kernels.decode.mla_config import RANK, ROPE
from flydsl.kernels.decode.work import build_mla_work_module, build_reduce_module
from flydsl.kernels.host.arrays import contiguous, launch, span, strides_of
from flydsl.kernels.host.config import require
from flydsl.kernels.host.dtypes import dtype_name

if TYPE_CHECKING:
    import torch

__all__ = ["flydsl_mla_fwd_decode", "flydsl_mla_reduce_v1", "launch_mla_fwd_decode_m16x8_fp8_fp8"]


def flydsl_mla_fwd_decode(query: torch.Tensor, kv_buffer: torch.Tensor, kv_page_indices: torch.Tensor,
                          work_indptr: torch.Tensor, work_info_set: torch.Tensor, final_output: torch.Tensor,
                          split_output: torch.Tensor, split_lse: torch.Tensor, softmax_scale: float) -> None:
    """MLA by pieces that the caller scheduled, of any number of heads, f16, bf16 or fp8, with a page a token.

    Args:
        query: [rows, H, 576]; kv_buffer: [pages, 1, 1, 576]; kv_page_indices: page numbers of tokens.
        work_indptr: [workgroups + 1]: of pieces; work_info_set: i32 [pieces, 8]: batch, first row of the partial result
            (-1: final_output has it all), first and end query row, first and end place in kv_page_indices, two more.
        final_output: [rows, H, 512]; split_output: f32 [partial rows, 1, H, 512]; split_lse: f32 [.., H, 1], natural
            logarithms. :func:`flydsl_mla_reduce_v1` adds them.

    A piece has one query row. Scales of fp8 belong into `softmax_scale` and into what reads the result.

    Raises:
        ValueError: shapes or dtypes do not fit.
    """
    launch_mla_fwd_decode_m16x8_fp8_fp8(query, kv_buffer, kv_page_indices, work_indptr, work_info_set, final_output,
                                        split_output, split_lse, softmax_scale)


def launch_mla_fwd_decode_m16x8_fp8_fp8(query: torch.Tensor, kv: torch.Tensor, page_indices: torch.Tensor,
                                        work_indptr: torch.Tensor, work_info: torch.Tensor, final: torch.Tensor,
                                        split_o: torch.Tensor, split_lse: torch.Tensor, softmax_scale: float,
                                        num_cus: int | None = None, lds_size: int | None = None,
                                        stream: Any = None) -> None:
    """See :func:`flydsl_mla_fwd_decode`. `num_cus` and `lds_size` follow from the lists and the kernel."""
    where, width = "flydsl_mla_fwd_decode", RANK + ROPE
    require(where, len(query.shape) == 3 and query.shape[2] == width and tuple(kv.shape[1:]) == (1, 1, width),
            f"query must be [rows, heads, {width}] and kv_buffer [pages, 1, 1, {width}], got {tuple(query.shape)} and "
            f"{tuple(kv.shape)}")
    heads = query.shape[1]
    require(where, tuple(final.shape) == (query.shape[0], heads, RANK),
            f"final_output must be {(query.shape[0], heads, RANK)}, got {tuple(final.shape)}")
    require_partials(where, split_o, split_lse, heads, RANK)
    kinds = [dtype_name(array, where, ("f16", "bf16", "fp8")) for array in (query, kv)]
    module = build_mla_work_module(heads, *kinds, dtype_name(final, where))
    sizes = sizes_of(heads, 1, (0, 0, kv.shape[0], *(strides_of(kv)[0], 0, 0, 0) * 2), float(softmax_scale))
    launch(module, query, contiguous(query), span(kv), page_indices, work_indptr, contiguous(work_info).view(-1), final,
           split_o, split_lse, work_indptr.shape[0] - 1, page_indices.shape[0], sizes, stream=stream)


def require_partials(where: str, partial: Any, logs: Any, heads: int, dim: int) -> None:
    """ValueError unless partial results are whole rows [heads, dim], each with its logarithms [heads]."""
    rows, rest = divmod(math.prod(partial.shape), heads * dim)
    require(where, rest == 0 and math.prod(logs.shape) >= rows * heads,
            f"partial results must be [rows, {heads}, {dim}] with logarithms [rows, {heads}], got "
            f"{tuple(partial.shape)} and {tuple(logs.shape)}")


def flydsl_mla_reduce_v1(partial_output: torch.Tensor, partial_lse: torch.Tensor, reduce_indptr: torch.Tensor,
                         reduce_final_map: torch.Tensor, reduce_partial_map: torch.Tensor, max_seqlen_q: int,
                         final_output: torch.Tensor, final_lse: torch.Tensor | None = None, num_kv_splits: int = 0,
                         actual_max_splits: int | None = None, *, stream: Any = None, waves_per_eu: int = 4) -> None:
    """Add partial results f32 [rows, .., heads, D] into `final_output` [rows, heads, D], and the logarithms of their
    sums.

    Args:
        partial_lse: f32, natural logarithms, one a row and head; reduce_indptr: [groups + 1], reduce_final_map:
            [groups, 2], reduce_partial_map: see
            :func:`flydsl.kernels.decode.schedule.build_metadata_module`.
        max_seqlen_q: most rows of a group. Limits on splits and `waves_per_eu` are not needed.
    """
    where, (heads, dim) = "flydsl_mla_reduce_v1", final_output.shape[-2:]
    out, rows = dtype_name(final_output, where), math.prod(final_output.shape[:-2])
    require_partials(where, partial_output, partial_lse, heads, dim)
    require(where, final_lse is None or math.prod(final_lse.shape) == rows * heads,
            f"final_lse must have a logarithm for each of {rows} x {heads} rows")
    launch(build_reduce_module(heads, dim, out, logs=final_lse is not None), final_output, partial_output, partial_lse,
           reduce_indptr, contiguous(reduce_final_map).view(-1), reduce_partial_map, final_output,
           partial_lse if final_lse is None else final_lse, reduce_indptr.shape[0] - 1, max_seqlen_q, stream=stream)
