"""Routing of arrays, and mixtures of experts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..host.arrays import as_rows, flat_of
from ..host.config import require
from ..host.dtypes import dtype_name
from ..host.models import Model
from ..op import Gradient, Op, Plan, Result, like
from ..target import Target
from .activation import activation_reference
from .config import ARCHS, FORMATS
from .experts import plan_experts, scratch_bytes
from .gating import route_config, route_launcher
from .gradient import plan_gradient
from .mlp import MLP
from .sort_op import MOE_SORT, sample_routing
from .tuned import TUNING

__all__ = ["MOE", "OPS", "moe_workspace"]


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

# ------------------------------------------------------------------------------------------- gating by softmax


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


# ------------------------------------------------------------------------------------------- experts


def moe_workspace(target: Target, *arguments: Any) -> int:
    """Bytes of the workspace for arguments of `moe`."""
    config, plan = plan_experts(target, *arguments)
    return scratch_bytes(config, arguments[0].shape[0]) if plan else 0


def _moe_reference(x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, limit: Any, quant: str,
                   w1_scale: Any, w2_scale: Any, b1: Any, b2: Any, expert_mask: Any, interleaved: bool) -> tuple[Any]:
    import torch

    from .reference import row_values, weight_values

    out, number = torch.zeros(x.shape, dtype=torch.float64), 0
    rows, up, down = row_values(x, w1, quant), weight_values(w1, w1_scale, quant), weight_values(w2, w2_scale, quant)
    marks = [1] * w1.shape[0] if expert_mask is None else expert_mask.tolist()
    for expert, mark in enumerate(marks):
        if not mark:
            continue
        tokens, slots = torch.nonzero(ids == expert, as_tuple=True)
        inner = rows[tokens] @ up[number].T
        inner = inner if b1 is None else inner + b1[number].double()
        gate, linear = (inner[:, 0::2], inner[:, 1::2]) if interleaved else inner.chunk(2, -1)
        inner = activation_reference(gate, linear, activation, limit)
        inner = inner if FORMATS[quant].a is None else row_values(inner.to(x.dtype), w2, quant)
        y = inner @ down[number].T
        y = y if b2 is None else y + b2[number].double()
        out = out.index_add(0, tokens, y * weights.double()[tokens, slots][:, None])
        number += 1
    return (out,)


def _sample_moe(draw: Any, m: int, n: int, experts: int = 4, inter: int = 40, topk: int = 2,
                dtype: str = "bf16", quant: str = "none") -> tuple[Any, ...]:
    from .reference import sample_weight

    ids, weights = sample_routing(draw, m, experts, topk)
    x = draw.normal(m, n, dtype=dtype)
    w1, scale1 = sample_weight(draw, quant, experts, 2 * inter, n, dtype)
    w2, scale2 = sample_weight(draw, quant, experts, n, inter, dtype)
    return x, w1, w2, weights, ids, "silu", None, quant, scale1, scale2, None, None, None, False


def _save_moe(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    (x, w1, w2, weights, ids, ctx.activation, ctx.limit, ctx.quant, _, _, b1, b2, mask, ctx.interleaved) = inputs
    ctx.save_for_backward(x, w1, w2, weights, ids, b1, b2, mask)


def _moe_gradient(ctx: Any, g: Any) -> tuple[Any, ...]:
    if ctx.quant != "none":
        raise ValueError(f"moe: there is no gradient of quant={ctx.quant!r}")
    x, w1, w2, weights, ids, b1, b2, mask = ctx.saved_tensors
    dx, dw1, dw2, dweights, db1, db2 = MOE_BWD(g, x, w1, w2, weights, ids, ctx.activation, ctx.limit, b1, b2, mask,
                                               ctx.interleaved)
    return (dx, dw1, dw2, dweights, *[None] * 6, None if b1 is None else db1, None if b2 is None else db2, None, None)


def _moe_bwd_results(dy: Any, x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, limit: Any, b1: Any,
                     b2: Any, *_: Any) -> tuple[Result, ...]:
    return (like(x), like(w1), like(w2), like(weights), *(Result((0,), "f32") if b is None else like(b)
                                                          for b in (b1, b2)))


def _moe_bwd_reference(dy: Any, x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, limit: Any, b1: Any,
                       b2: Any, mask: Any, interleaved: bool) -> tuple[Any, ...]:
    import torch

    with torch.enable_grad():
        given = [None if t is None else t.detach().double().requires_grad_() for t in (x, w1, w2, weights, b1, b2)]
        x, w1, w2, weights, b1, b2 = given
        (y,) = _moe_reference(x, w1, w2, weights, ids, activation, limit, "none", None, None, b1, b2, mask, interleaved)
        wanted = [t for t in given if t is not None]
        found = iter(torch.autograd.grad(y, wanted, dy.double(), allow_unused=True))
    made = [None if t is None else next(found) for t in given]
    return tuple(torch.zeros(0 if t is None else t.shape, dtype=torch.float64) if d is None else d
                 for t, d in zip(given, made, strict=True))


def _sample_moe_bwd(draw: Any, m: int, n: int, dtype: str = "bf16") -> tuple[Any, ...]:
    x, w1, w2, *rest = _sample_moe(draw, m, n, dtype=dtype)[:7]
    biases = draw.normal(*w1.shape[:2]), draw.normal(*w2.shape[:2])
    return draw.normal(m, n, dtype=dtype), x, w1, w2, *rest, *biases, None, False


MOE_BWD = Op(
    "moe_bwd",
    "(Tensor dy, Tensor x, Tensor w1, Tensor w2, Tensor weights, Tensor ids, str activation, float? limit, "
    "Tensor? b1, Tensor? b2, Tensor? expert_mask, bool interleaved) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "Gradients of `moe` of x, w1, w2, weights, b1 and b2 (of no elements where there is no bias)",
    results=_moe_bwd_results, plan=plan_gradient, reference=_moe_bwd_reference, widths=(64,), public=False, numpy=False,
    archs=ARCHS, tolerance=2.0**-6, workspace=None, sample=_sample_moe_bwd,
)

MOE = Op(
    "moe",
    '(Tensor x, Tensor w1, Tensor w2, Tensor weights, Tensor ids, str activation="silu", float? limit=None, '
    'str quant="none", Tensor? w1_scale=None, Tensor? w2_scale=None, Tensor? b1=None, Tensor? b2=None, '
    "Tensor? expert_mask=None, bool interleaved=False) -> Tensor",
    """Sum over slots of `weights[t, s] * (activation(x w1^T + b1) w2^T + b2)` with the weights of expert `ids[t, s]`

    Args:
        x: (tokens, model), f16 or bf16.
        w1: (E, 2 inter, model), gate rows first (alternating if `interleaved`); w2: (E, model, inter). Their order
            for the kernel is made once and kept while they live.
        weights, ids: (tokens, k), f32 and i32 of :func:`route`, or another float and i64 as torch has them. A slot
            whose expert does not exist adds nothing.
        activation: "silu" or "gelu" (by tanh) of gate, times up; "swiglu": ``g sigmoid(1.702 g) (u + 1)``; "situ":
            ``tanh(g) sigmoid(g) tanh(u)``.
        limit: gate is clamped at it from above and up at both sides, before the activation; 7 by default for "swiglu".
        b1, b2: (E, 2 inter) and (E, model), any float type.
        expert_mask: i32 (experts of all ranks,): those of zero add nothing; the weights are those of the others.

    Returns:
        (tokens, model) of the dtype of x. Sums are f32; the activation and each slot's result are rounded to x's type.
    """,
    results=lambda x, *_: (Result((x.shape[0], x.shape[1]), x.dtype),),
    plan=lambda target, *arguments: plan_experts(target, *arguments)[1], reference=_moe_reference, widths=(64, 72),
    sample=_sample_moe, tolerance=2.0**-7, numpy=False, archs=ARCHS,
    gradient=Gradient(_moe_gradient, _save_moe, of=("x", "w1", "w2", "weights", "b1", "b2")),
    workspace=moe_workspace,
    bench=lambda target, rows: [
        (f"moe 2 of 8, {tokens} tokens", (tokens, 2048), {"experts": 8, "inter": 1024}) for tokens in (16, 2048)],
    flops=lambda x, w1, w2, weights, ids, *_: 6 * ids.shape[0] * ids.shape[1] * w2.shape[1] * w2.shape[2],
    tuning=TUNING,
)

OPS = [TOPK_GATING_SOFTMAX, ROUTE, MOE_SORT, MOE, MOE_BWD, MLP]
