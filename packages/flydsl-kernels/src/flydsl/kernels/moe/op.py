"""Mixtures of experts of arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..elementwise.gated import activation_reference
from ..op import Gradient, Op, Plan, Result, like, scratch_of
from ..target import MATRIX_ARCHS, Target
from .config import FORMATS
from .experts import plan_experts
from .gradient import plan_gradient
from .sort_op import MOE_SORT, sample_routing
from .tuned import TUNING

__all__ = ["MOE", "OPS"]


def _plan(target: Target, *arguments: Any) -> Plan | None:
    return plan_experts(target, *arguments)[1]


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
    archs=MATRIX_ARCHS, tolerance=2.0**-6, workspace=None, sample=_sample_moe_bwd,
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
        w1_scale, w2_scale: of the rows (E, 2 inter) and (E, model) of "fp8", "int8" and "int4", also with a dimension
            of 1 behind, or one an expert (E,); of its blocks for "fp8_block". f32, f16, bf16 or e8m0.
        b1, b2: (E, 2 inter) and (E, model), any float type.
        expert_mask: i32, i64 or bool (experts of all ranks,): those of zero add nothing; the weights are those of the
            others.

    Returns:
        (tokens, model) of the dtype of x. Sums are f32; the activation and each slot's result are rounded to x's type.
    """,
    results=lambda x, *_: (Result((x.shape[0], x.shape[1]), x.dtype),),
    plan=_plan, reference=_moe_reference, widths=(64, 72),
    sample=_sample_moe, tolerance=2.0**-7, numpy=False, archs=MATRIX_ARCHS,
    gradient=Gradient(_moe_gradient, _save_moe, of=("x", "w1", "w2", "weights", "b1", "b2")),
    workspace=partial(scratch_of, _plan),
    bench=lambda target, rows: [
        (f"moe 2 of 8, {tokens} tokens", (tokens, 2048), {"experts": 8, "inter": 1024}) for tokens in (16, 2048)],
    flops=lambda x, w1, w2, weights, ids, *_: 6 * ids.shape[0] * ids.shape[1] * w2.shape[1] * w2.shape[2],
    tuning=TUNING,
)

OPS = [MOE_SORT, MOE, MOE_BWD]
