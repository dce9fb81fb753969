"""Builders of routing, and of gating by softmax."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.route.kernel import route_config, route_launcher
from flydsl.kernels.target import Target, builder

__all__ = ["build_route_module", "build_topk_gating_softmax_module"]


@builder
def build_route_module(num_experts: int, topk: int, dtype_str: str = "bf16", *, target: Target, **options: Any):
    """``launch(logits, bias, weights, indices, num_tokens, *, stream=None)``.

    Args:
        num_experts: E, columns of logits (num_tokens, E).
        topk: k <= E chosen experts of a token.
        dtype_str: of the logits: ``"f32"``, ``"f16"`` or ``"bf16"``.
        options: scoring, bias (whether there is one: f32[E]), groups, kept_groups, renormalize, scale, as in
            :class:`RouteConfig`.

    weights are f32 and indices i32, (num_tokens, k), from the best expert on; of equal ones the lower comes first. A
    token with a NaN, or without a finite softmax, gets the first experts with NaN weights.

    Raises:
        ValueError: an argument is not supported.
    """
    run = route_launcher(route_config("build_route_module", target, num_experts, topk, dtype_str, **options))

    @flyc.jit
    def route(logits, bias, weights, indices, num_tokens: fx.Int32, *, stream: fx.Stream = fx.Stream(None)):
        run(logits, bias, weights, indices, None, num_tokens, stream)

    return route


@builder
def build_topk_gating_softmax_module(num_experts: int, topk: int, dtype_str: str = "bf16", renormalize: bool = True, *,
                                     target: Target):
    """``launch(gating, weights, indices, token_expert_indices, num_tokens, *, stream=None)``.

    Args:
        num_experts: E, columns of gating (num_tokens, E).
        topk: k <= E chosen experts of a token.
        dtype_str: of gating: ``"f32"``, ``"f16"`` or ``"bf16"``.
        renormalize: divide the k weights by their sum.

    A token with a NaN, or without a finite maximum, gets the first k experts with NaN weights.
    weights is f32, indices and token_expert_indices i32 (or their bits as f32), all (num_tokens, k). Of equal values
    the lower expert comes first; ``token_expert_indices[t, j] = j * num_tokens + t``.

    Raises:
        ValueError: an argument is not supported.
    """
    run = route_launcher(route_config("build_topk_gating_softmax_module", target, num_experts, topk, dtype_str,
                                      renormalize=renormalize))

    @flyc.jit
    def topk_gating_softmax(gating, weights, indices, token_expert_indices, num_tokens: fx.Int32, *,
                            stream: fx.Stream = fx.Stream(None)):
        run(gating, None, weights, indices, token_expert_indices, num_tokens, stream)

    return topk_gating_softmax
