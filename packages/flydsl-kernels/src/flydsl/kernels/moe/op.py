"""Routing of arrays."""

from __future__ import annotations

import math
from typing import Any

from ..host.arrays import as_rows, contiguous, statistic
from ..host.dtypes import dtype_name
from ..op import Gradient, Op, Plan, Result
from ..target import Target
from .gating import build_route_module, build_topk_gating_softmax_module

__all__ = ["OPS"]


def _logits(logits: Any, where: str) -> tuple[str, Any]:
    """dtype and contiguous rows of a matrix (tokens, experts)."""
    dtype = dtype_name(logits, where)
    if len(logits.shape) != 2:
        raise ValueError(f"{where}: the logits must be (tokens, experts), got shape {tuple(logits.shape)}")
    return dtype, as_rows(logits, where)


def _plan_gating(target: Target, gating: Any, topk: int, renormalize: bool) -> Plan | None:
    dtype, rows = _logits(gating, "topk_gating_softmax")
    tokens, experts = gating.shape
    run = build_topk_gating_softmax_module(experts, topk, dtype, renormalize, target=target)
    return Plan(lambda: run, lambda *outs: (rows, *outs, tokens)) if tokens else None


def _gating_reference(gating: Any, topk: int, renormalize: bool) -> tuple[Any, ...]:
    import torch

    values, indices = torch.sort(gating.double().softmax(-1), stable=True, dim=-1, descending=True)
    values, indices = values[:, :topk], indices[:, :topk]
    tokens = gating.shape[0]
    sources = torch.arange(topk)[None, :] * tokens + torch.arange(tokens)[:, None]
    return values / values.sum(-1, keepdim=True) if renormalize else values, indices.double(), sources.double()


TOPK_GATING_SOFTMAX = Op(
    "topk_gating_softmax", "(Tensor gating, int topk, bool renormalize=True) -> (Tensor, Tensor, Tensor)",
    "`(weights, indices, token_expert_indices)` of (tokens, E) values; of equal ones the lower expert first",
    results=lambda gating, topk, renormalize: tuple(
        Result((gating.shape[0], topk), kind) for kind in ("f32", "i32", "i32")),
    plan=_plan_gating, reference=_gating_reference, widths=(16, 37),
    sample=lambda draw, m, n, topk=2, dtype="f32": (draw.normal(m, n, dtype=dtype), topk, True),
    bench=lambda target, rows: [(f"topk_gating_softmax top {k}", (4096, experts), {"topk": k, "dtype": "bf16"})
                                for experts, k in ((256, 8), (160, 6))],
)


# ------------------------------------------------------------------------------------------- route


def _plan_route(target: Target, logits: Any, topk: int, scoring: str, bias: Any, num_groups: int, topk_groups: int,
                renormalize: bool, scale: float) -> Plan | None:
    dtype, rows = _logits(logits, "route")
    tokens, experts = logits.shape
    run = build_route_module(experts, topk, dtype, scoring=scoring, bias=bias is not None, groups=num_groups,
                             kept_groups=topk_groups, renormalize=renormalize, scale=float(scale), target=target)
    addend = None if bias is None else statistic(contiguous(bias), (experts,), "route: bias")
    return Plan(lambda: run, lambda *outs: (rows, addend, *outs, tokens)) if tokens else None


def route_scores(logits: Any, scoring: str) -> Any:
    """The scores of logits, a torch tensor of the same dtype."""
    from torch.nn import functional

    if scoring == "softmax":
        return logits.softmax(-1)
    return logits.sigmoid() if scoring == "sigmoid" else functional.softplus(logits).sqrt()


def _route_reference(logits: Any, topk: int, scoring: str, bias: Any, num_groups: int, topk_groups: int,
                     renormalize: bool, scale: float) -> tuple[Any, ...]:
    import torch

    scores = route_scores(logits.double(), scoring)
    choice = scores if bias is None else scores + bias.double()
    if num_groups > 1:
        grouped = choice.unflatten(-1, (num_groups, -1))
        marks = grouped.amax(-1) if bias is None else grouped.topk(2)[0].sum(-1)
        kept = torch.sort(marks, stable=True, dim=-1, descending=True)[1][:, :topk_groups]
        out = torch.ones_like(marks, dtype=torch.bool).scatter(-1, kept, False)
        choice = grouped.masked_fill(out[..., None], -math.inf).flatten(-2)
    ids = torch.sort(choice, stable=True, dim=-1, descending=True)[1][:, :topk]
    weights = scores.gather(-1, ids)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-20) if renormalize else weights
    return weights * scale, ids.double()


def _save_route(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    logits, _, ctx.scoring, _, _, _, ctx.renormalize, ctx.scale = inputs
    ctx.save_for_backward(logits, output[1])
    ctx.mark_non_differentiable(output[1])


def _route_gradient(ctx: Any, g: Any, _: Any) -> tuple[Any, ...]:
    import torch

    logits, ids = ctx.saved_tensors
    x, at = logits.float(), ids.long()
    scores = route_scores(x, ctx.scoring)
    g = g * ctx.scale
    if ctx.renormalize:
        chosen = scores.gather(-1, at)
        total = chosen.sum(-1, keepdim=True).clamp_min(1e-20)
        g = (g - (g * chosen).sum(-1, keepdim=True) / total) / total
    full = torch.zeros_like(scores).scatter(-1, at, g)
    if ctx.scoring == "softmax":
        dx = scores * (full - (scores * full).sum(-1, keepdim=True))
    elif ctx.scoring == "sigmoid":
        dx = scores * (1 - scores) * full
    else:
        dx = x.sigmoid() / (2 * scores) * full
    return dx.to(logits.dtype), *[None] * 7


ROUTE = Op(
    "route",
    '(Tensor logits, int topk, str scoring="softmax", Tensor? bias=None, int num_groups=1, int topk_groups=1, '
    "bool renormalize=True, float scale=1.0) -> (Tensor, Tensor)",
    """`(weights, ids)` of the k best experts by their scores (of logits plus a bias, in the best groups)

    Args:
        logits: (tokens, E) f32, f16 or bf16.
        topk: k, the experts of a token.
        scoring: "softmax", "sigmoid" or "sqrtsoftplus", in f32.
        bias: f32 (E,), added to the scores for the choice only.
        num_groups, topk_groups: experts are chosen from the best `topk_groups` of `num_groups` groups of consecutive
            ones. A group is as good as its best expert, or with a bias as the sum of its two best.
        renormalize: divide the weights by their sum (of at least 1e-20).
        scale: factor of the weights.

    Returns:
        weights f32 and ids i32, both (tokens, k), the best first; of equal scores the lower expert first. Without a
        bias the order is that of the logits, exactly.
    """,
    results=lambda logits, topk, *_: (Result((logits.shape[0], topk), "f32"), Result((logits.shape[0], topk), "i32")),
    plan=_plan_route, reference=_route_reference, widths=(16, 37), gradient=Gradient(_route_gradient, _save_route),
    sample=lambda draw, m, n, topk=2, dtype="f32", scoring="softmax", bias=False, groups=(1, 1): (
        draw.normal(m, n, dtype=dtype), topk, scoring, draw.normal(n) if bias else None, *groups, True, 1.0),
    bench=lambda target, rows: [
        ("route sigmoid 8 of 256 in 4 of 8 groups", (4096, 256),
         {"topk": 8, "dtype": "bf16", "scoring": "sigmoid", "bias": True, "groups": (8, 4)})],
)

OPS = [TOPK_GATING_SOFTMAX, ROUTE]
