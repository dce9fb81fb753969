"""Sorting under the names and with the arguments of existing callers (torch tensors, changed in place)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.host.arrays import launch
from flydsl.kernels.host.config import require
from flydsl.kernels.moe.sorting import (
    ROUND,
    build_moe_sorting_module,
    launch_sort,
    shares,
    sort_config,
    sort_workspace,
)
from flydsl.kernels.route.kernel import route_config
from flydsl.kernels.target import Target, builder, target

if TYPE_CHECKING:
    import torch

__all__ = [
    "build_softmax_sorting_module", "compile_moe_sorting", "compile_moe_sorting_oneshot_fused",
    "moe_softmax_sort_flydsl", "moe_sorting_flydsl", "moe_sorting_get_workspace_size",
]

CLEAR_GROUPS = 256  # most workgroups that zero memory


@builder
def compile_moe_sorting(*, num_experts: int, topk: int, max_tokens: int = 128, unit_size: int = 32,
                        has_mask: bool = False, target: Any) -> tuple[Any, Any, Any]:
    """Launchers of :func:`build_moe_sorting_module` as (for few tokens, for more, for many): the last two are one that
    counts first. `max_tokens` changes nothing."""
    one, several = (build_moe_sorting_module(num_experts, topk, unit_size, one, has_mask, target=target)
                    for one in (True, False))
    return one, several, several


@builder
def build_softmax_sorting_module(num_experts: int, topk: int, dtype_str: str, block: int = 32, renormalize: bool = True,
                                 has_mask: bool = False, limited: bool = False, *, target: Target):
    """Gating by softmax and sorting in one launch, for few tokens: ``launch.config.route.tokens`` and 256 entries at
    most. ``launch(logits, sorted_ids, sorted_weights, sorted_experts, valid, mask, local_tokens, clear, tokens,
    clear_chunks, clear_groups, stream=None)``, as :func:`build_moe_sorting_module`.

    Raises:
        ValueError: an argument is not supported, or a token does not fit a wave.
    """
    where = "build_softmax_sorting_module"
    route = route_config(where, target, num_experts, topk, dtype_str, renormalize=renormalize)
    require(where, route.lanes <= route.wave, f"{num_experts} experts do not fit the lanes of a wave")
    config = sort_config(where, target, num_experts, topk, block, mask=has_mask, limited=limited, route=route)

    @flyc.jit
    def softmax_sorting(logits, sorted_ids, sorted_weights, sorted_experts, valid, mask, local_tokens, clear,
                        tokens: fx.Int32, clear_chunks: fx.Int32, clear_groups: fx.Int32,
                        stream: fx.Stream = fx.Stream(None)):
        tensors = dict(logits=logits, sorted_ids=sorted_ids, sorted_weights=sorted_weights,
                       sorted_experts=sorted_experts, valid=valid, mask=mask, local_tokens=local_tokens)
        launch_sort(tensors, tokens, fx.Int32(1), fx.Int32(1), config, stream, (clear, clear_chunks, clear_groups))

    softmax_sorting.config = config  # type: ignore[attr-defined]  # what the launcher was built from, for tools
    return softmax_sorting


compile_moe_sorting_oneshot_fused = build_softmax_sorting_module


def moe_sorting_get_workspace_size(M: int, E: int, topk: int, unit_size: int = 32) -> int:  # noqa: N803
    """i32 elements of the workspace of :func:`moe_sorting_flydsl`."""
    return sort_workspace(M, topk, E)


def _cleared(buffer: torch.Tensor | None) -> tuple[Any, int, int]:
    """A buffer as i32, its chunks of 16 bytes, and workgroups that zero it."""
    size = 0 if buffer is None else buffer.numel() * buffer.element_size()
    if buffer is None or size == 0:
        return None, 0, 0
    if size % 16:
        raise ValueError(f"moe_buf must be a multiple of 16 bytes, got {size}")
    import torch

    chunks = size // 16
    return buffer.view(-1).view(torch.int32), chunks, min(-(-chunks // ROUND), CLEAR_GROUPS)


def moe_sorting_flydsl(topk_ids: torch.Tensor, topk_weights: torch.Tensor, sorted_ids: torch.Tensor,
                       sorted_weights: torch.Tensor, sorted_expert_ids: torch.Tensor, num_valid_ids: torch.Tensor,
                       moe_buf: torch.Tensor | None, num_experts: int, unit_size: int = 32,
                       expert_mask: torch.Tensor | None = None, num_local_tokens: torch.Tensor | None = None,
                       workspace: torch.Tensor | None = None) -> None:
    """Sort into the given tensors, as :func:`flydsl.kernels.ops.moe_sort`, and zero `moe_buf`.

    Args:
        num_local_tokens: i32[1]: so many tokens count.
        workspace: i32, of :func:`moe_sorting_get_workspace_size` elements; made if it is needed and not given.

    Raises:
        ValueError: the workspace is too small, or `moe_buf` no multiple of 16 bytes.
    """
    tokens, topk = topk_ids.shape
    groups, rounds = shares(tokens, topk)
    words = sort_workspace(tokens, topk, num_experts)
    if words and workspace is None:
        workspace = topk_ids.new_empty(words)  # i32 as they are
    if workspace is not None and workspace.numel() < words:
        raise ValueError(f"moe_sorting_flydsl: the workspace must have {words} i32, got {workspace.numel()}")
    run = build_moe_sorting_module(num_experts, topk, unit_size, groups == 1, expert_mask is not None,
                                   num_local_tokens is not None)
    clear, chunks, clear_groups = _cleared(moe_buf)
    launch(run, topk_ids, topk_ids, topk_weights, sorted_ids, sorted_weights, sorted_expert_ids, num_valid_ids,
           expert_mask, num_local_tokens, workspace if words else None, clear, tokens, groups, rounds, chunks,
           clear_groups)


def moe_softmax_sort_flydsl(gating_logits: torch.Tensor, sorted_ids: torch.Tensor, sorted_weights: torch.Tensor,
                            sorted_expert_ids: torch.Tensor, num_valid_ids: torch.Tensor,
                            moe_buf: torch.Tensor | None, num_experts: int, topk: int, dtype_str: str, unit_size: int,
                            expert_mask: torch.Tensor | None = None, renormalize: bool = True,
                            num_local_tokens: torch.Tensor | None = None) -> None:
    """Gating by softmax and sorting: one launch for few tokens, otherwise two.

    Args:
        gating_logits: (T, experts) of `dtype_str`: ``"f32"``, ``"f16"`` or ``"bf16"``.
        renormalize: divide the `topk` weights of a token by their sum.
        others: as of :func:`moe_sorting_flydsl`.

    Raises:
        ValueError: as of :func:`moe_sorting_flydsl`, or no such numbers of experts and `topk`.
    """
    tokens, found = gating_logits.shape[0], target()
    route = route_config("moe_softmax_sort_flydsl", found, num_experts, topk, dtype_str, renormalize=renormalize)
    if route.lanes > route.wave or tokens > route.tokens or tokens * topk > ROUND:
        from flydsl.kernels import ops

        weights, ids, _ = ops.topk_gating_softmax(gating_logits, topk, renormalize)  # type: ignore[attr-defined]
        moe_sorting_flydsl(ids, weights, sorted_ids, sorted_weights, sorted_expert_ids, num_valid_ids, moe_buf,
                           num_experts, unit_size, expert_mask, num_local_tokens)
        return
    fused = build_softmax_sorting_module(num_experts, topk, dtype_str, unit_size, renormalize,
                                         expert_mask is not None, num_local_tokens is not None, target=found)
    clear, chunks, clear_groups = _cleared(moe_buf)
    launch(fused, gating_logits, gating_logits, sorted_ids, sorted_weights, sorted_expert_ids, num_valid_ids,
           expert_mask, num_local_tokens, clear, tokens, chunks, clear_groups)
