"""Routing: the best experts of the tokens of an array, and their weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..host.arrays import as_rows, flat_of
from ..host.config import require
from ..host.dtypes import dtype_name
from ..host.models import Model
from ..op import Gradient, Op, Plan, Result
from ..target import Target
from .kernel import route_config, route_launcher

__all__ = ["OPS", "ROUTE", "TOPK_GATING_SOFTMAX"]


def _plan(where: str, target: Target, logits: Any, topk: int, bias: Any, absent: tuple[None, ...],
          **options: Any) -> Plan | None:
    """Routing of logits; `absent` stands for the results that there are not."""
    dtype = dtype_name(logits, where)
    require(where, len(logits.shape) == 2,
            f"the logits must be (tokens, experts), got shape {tuple(logits.shape)}")
    rows, (tokens, experts) = as_rows(logits, where), logits.shape
    config = route_config(where, target, experts, topk, dtype, bias=bias is not None, **options)
    addend = flat_of(bias, f"{where}: bias", "f32", (experts,))
    return Plan(lambda: route_launcher(config), lambda *out: (rows, addend, *out, *absent, tokens)) if tokens else None


def _plan_route(target: Target, logits: Any, topk: int, scoring: str, bias: Any, num_groups: int, topk_groups: int,
                renormalize: bool, scale: float) -> Plan | None:
    return _plan("route", target, logits, topk, bias, (None,), scoring=scoring, groups=num_groups,
                 kept_groups=topk_groups, renormalize=renormalize, scale=float(scale))


def _scores(logits: Any, scoring: str) -> Any:
    """The scores of logits, a torch tensor of the same dtype."""
    from torch.nn import functional

    if scoring == "softmax":
        return logits.softmax(-1)
    return logits.sigmoid() if scoring == "sigmoid" else functional.softplus(logits).sqrt()


def _weights(scores: Any, ids: Any, renormalize: bool, scale: float) -> Any:
    """Those of chosen experts."""
    weights = scores.gather(-1, ids)
    return scale * (weights / weights.sum(-1, keepdim=True).clamp_min(1e-20) if renormalize else weights)


def _route_reference(logits: Any, topk: int, scoring: str, bias: Any, num_groups: int, topk_groups: int,
                     renormalize: bool, scale: float) -> tuple[Any, ...]:
    import torch

    scores = _scores(logits.double(), scoring)
    choice = scores if bias is None else scores + bias.double()
    if num_groups > 1:
        grouped = choice.unflatten(-1, (num_groups, -1))
        marks = grouped.amax(-1) if bias is None else grouped.topk(2)[0].sum(-1)
        kept = torch.sort(marks, stable=True, dim=-1, descending=True)[1][:, :topk_groups]
        out = torch.ones_like(marks, dtype=torch.bool).scatter(-1, kept, False)
        choice = grouped.masked_fill(out[..., None], -math.inf).flatten(-2)
    ids = torch.sort(choice, stable=True, dim=-1, descending=True)[1][:, :topk]
    return _weights(scores, ids, renormalize, scale), ids.double()


def _save_route(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    logits, _, ctx.scoring, _, _, _, ctx.renormalize, ctx.scale = inputs
    ctx.save_for_backward(logits, output[1])
    ctx.mark_non_differentiable(output[1])


def _route_gradient(ctx: Any, g: Any, _: Any) -> tuple[Any, ...]:
    """That of the definition, for the experts that were chosen."""
    from torch.func import vjp

    logits, ids = ctx.saved_tensors
    made: Any = vjp(lambda x: _weights(_scores(x, ctx.scoring), ids.long(), ctx.renormalize, ctx.scale),
                    logits.float())
    return made[1](g)[0].to(logits.dtype), *[None] * 7


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
    plan=_plan_route, reference=_route_reference, widths=(16, 37),
    gradient=Gradient(_route_gradient, _save_route, of=("logits",)),
    sample=lambda draw, m, n, topk=2, dtype="f32", scoring="softmax", bias=False, groups=(1, 1): (
        draw.normal(m, n, dtype=dtype), topk, scoring, draw.normal(n) if bias else None, *groups, True, 1.0),
    bench=lambda target, rows: [
        ("route sigmoid 8 of 256 in 4 of 8 groups", (4096, 256),
         {"topk": 8, "dtype": "bf16", "scoring": "sigmoid", "bias": True, "groups": (8, 4)})],
)


def _gating_reference(gating: Any, topk: int, renormalize: bool) -> tuple[Any, ...]:
    import torch

    tokens = gating.shape[0]
    sources = torch.arange(topk)[None, :] * tokens + torch.arange(tokens)[:, None]
    return *_route_reference(gating, topk, "softmax", None, 1, 1, renormalize, 1.0), sources.double()


def _model_calls(op: Op, draw: Any, model: Model) -> Iterable[tuple[Any, ...]]:
    """The router of a mixture of experts."""
    for dtype in ("bf16", "f32") if model.experts else ():
        yield draw.normal(1, model.experts, dtype=dtype), model.topk, True


TOPK_GATING_SOFTMAX = Op(
    "topk_gating_softmax", "(Tensor gating, int topk, bool renormalize=True) -> (Tensor, Tensor, Tensor)",
    "`(weights, indices, token_expert_indices)` of (tokens, E) values; of equal ones the lower expert first",
    results=lambda gating, topk, renormalize: tuple(
        Result((gating.shape[0], topk), kind) for kind in ("f32", "i32", "i32")),
    plan=lambda target, gating, topk, renormalize: _plan("topk_gating_softmax", target, gating, topk, None, (),
                                                         renormalize=renormalize),
    reference=_gating_reference, widths=(16, 37),
    sample=lambda draw, m, n, topk=2, dtype="f32": (draw.normal(m, n, dtype=dtype), topk, True),
    bench=lambda target, rows: [(f"topk_gating_softmax top {k}", (4096, experts), {"topk": k, "dtype": "bf16"})
                                for experts, k in ((256, 8), (160, 6))],
    prebuilt=_model_calls,
)

OPS = [TOPK_GATING_SOFTMAX, ROUTE]
