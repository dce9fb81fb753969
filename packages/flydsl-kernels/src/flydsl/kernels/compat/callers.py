"""The ``flydsl_*`` functions that serving stacks call, under one roof; those of one family live with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl.kernels.common import absent
from flydsl.kernels.gemm_callers import (
    flydsl_8wave_gemm_a8,
    flydsl_batched_gemm_mxfp4,
    flydsl_hgemm,
    flydsl_preshuffle_gemm_a8,
    run_preshuffle_gemm_a8_gfx1250,
)
from flydsl.kernels.moe import (
    flydsl_a16w4_gemm1,
    flydsl_a16w4_gemm2,
    flydsl_mxfp4_gemm1,
    flydsl_mxfp4_gemm2,
    moe_sorting_flydsl,
    moe_sorting_get_workspace_size,
)
from flydsl.kernels.rope import flydsl_qk_norm_rope_quant

from .flash_attn_callers import copy_result, flydsl_flash_attn_func
from .mla_fwd_decode import flydsl_mla_fwd_decode, flydsl_mla_reduce_v1
from .moe_stages import flydsl_moe_stage1, flydsl_moe_stage2

if TYPE_CHECKING:
    import torch

__all__ = [
    "flydsl_8wave_gemm_a8", "flydsl_a16w4_gemm1", "flydsl_a16w4_gemm2", "flydsl_batched_gemm_mxfp4",
    "flydsl_flash_attn_func", "flydsl_flash_attn_varlen_func", "flydsl_grouped_gemm_a8w4_masked", "flydsl_hgemm",
    "flydsl_mla_fwd_decode", "flydsl_mla_reduce_v1", "flydsl_moe_sorting_fwd", "flydsl_moe_stage1",
    "flydsl_moe_stage2", "flydsl_mxfp4_gemm1", "flydsl_mxfp4_gemm2", "flydsl_preshuffle_gemm_a8",
    "flydsl_qk_norm_rope_quant", "run_preshuffle_gemm_a8_gfx1250",
]

flydsl_grouped_gemm_a8w4_masked = absent("flydsl_grouped_gemm_a8w4_masked",
                                         "flydsl_moe_stage1, flydsl_moe_stage2 or flydsl.kernels.ops.moe")

_workspaces: dict[Any, torch.Tensor] = {}


def flydsl_flash_attn_varlen_func(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int,
                                  max_seqlen_k: int, softmax_scale: float | None = None, causal: bool = False,
                                  return_lse: bool = False, dropout_p: float = 0.0,
                                  window_size: tuple[int, ...] = (-1, -1), bias: Any = None, alibi_slopes: Any = None,
                                  deterministic: bool = False, return_attn_probs: bool = False,
                                  block_table: Any = None, out: Any = None, sink: Any = None) -> Any:
    """Attention of packed sequences, q [total, H, D]; with `block_table`, k and v are pages [pages, page, Hkv, D].

    `cu_seqlens_q` and `cu_seqlens_k` are i32 [sequences + 1]; `window_size` is (left, right), -1 without a limit.

    Returns:
        The output [total, H, D] (`out` if that is given), or (output, logarithms of the sums f32 [H, total]) with
        `return_lse`. None, for the caller to take another kernel, where dropout or the probabilities are asked for.

    Raises:
        ValueError: operands that do not fit, or for which this architecture has no kernel.
    """
    if dropout_p or return_attn_probs:
        return None
    from flydsl.kernels import ops

    forms: Any = ops
    lengths = None
    if block_table is not None:
        lengths, cu_seqlens_k = cu_seqlens_k[1:] - cu_seqlens_k[:-1], None
    result = forms.attention(q, k, v, causal=causal, scale=softmax_scale, window=tuple(window_size[:2]), bias=bias,
                             alibi_slopes=alibi_slopes, sink=sink, cu_seqlens_q=cu_seqlens_q,
                             cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q, block_table=block_table,
                             seqlens_k=lengths, return_lse=return_lse)
    found, lse = result if return_lse else (result, None)
    if out is not None:
        found = copy_result("flydsl_flash_attn_varlen_func", out, found)
    return (found, lse) if return_lse else found


def flydsl_moe_sorting_fwd(topk_ids: torch.Tensor, topk_weights: torch.Tensor, sorted_ids: torch.Tensor,
                           sorted_weights: torch.Tensor, sorted_expert_ids: torch.Tensor, num_valid_ids: torch.Tensor,
                           moe_buf: torch.Tensor | None, num_experts: int, unit_size: int = 32,
                           expert_mask: torch.Tensor | None = None,
                           num_local_tokens: torch.Tensor | None = None) -> None:
    """:func:`flydsl.kernels.moe.moe_sorting_flydsl` with a workspace that is kept for the device and its stream.

    Raises:
        ValueError: `moe_buf` is no multiple of 16 bytes.
    """
    words = moe_sorting_get_workspace_size(topk_ids.shape[0], num_experts, topk_ids.shape[1], unit_size)
    workspace = None
    if words:
        key = (topk_ids.device, _stream(topk_ids))
        workspace = _workspaces.get(key)
        if workspace is None or workspace.numel() < words:
            workspace = _workspaces[key] = topk_ids.new_empty(words)
    moe_sorting_flydsl(topk_ids, topk_weights, sorted_ids, sorted_weights, sorted_expert_ids, num_valid_ids, moe_buf,
                       num_experts, unit_size, expert_mask, num_local_tokens, workspace)


def _stream(tensor: torch.Tensor) -> int:
    """The stream that launches on the device of a tensor take: two streams must not share a workspace."""
    if not tensor.is_cuda:
        return 0
    import torch

    return int(torch.cuda.current_stream(tensor.device).cuda_stream)
