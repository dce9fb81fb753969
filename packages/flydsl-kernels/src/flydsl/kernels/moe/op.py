"""Gating of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..host.arrays import as_rows
from ..host.dtypes import dtype_name
from ..host.models import Model
from ..op import Op, Plan, Result
from ..target import Target
from .gating import build_topk_gating_softmax_module

__all__ = ["OPS"]


def _plan(target: Target, gating: Any, topk: int, renormalize: bool) -> Plan | None:
    where = "topk_gating_softmax"
    dtype = dtype_name(gating, where)
    if len(gating.shape) != 2:
        raise ValueError(f"{where}: gating must be (tokens, experts), got shape {tuple(gating.shape)}")
    tokens, experts = gating.shape
    run = build_topk_gating_softmax_module(experts, topk, dtype, renormalize, target=target)
    rows = as_rows(gating, where)
    return Plan(lambda: run, lambda *outs: (rows, *outs, tokens)) if tokens else None


def _reference(gating: Any, topk: int, renormalize: bool) -> tuple[Any, ...]:
    import torch

    values, indices = torch.sort(gating.double().softmax(-1), stable=True, dim=-1, descending=True)
    values, indices = values[:, :topk], indices[:, :topk]
    tokens = gating.shape[0]
    sources = torch.arange(topk)[None, :] * tokens + torch.arange(tokens)[:, None]
    return values / values.sum(-1, keepdim=True) if renormalize else values, indices.double(), sources.double()


def _model_calls(op: Op, draw: Any, model: Model) -> Iterable[tuple[Any, ...]]:
    """The router of a mixture of experts."""
    for dtype in ("bf16", "f32") if model.experts else ():
        yield draw.normal(1, model.experts, dtype=dtype), model.topk, True


TOPK_GATING_SOFTMAX = Op(
    "topk_gating_softmax", "(Tensor gating, int topk, bool renormalize=True) -> (Tensor, Tensor, Tensor)",
    "`(weights, indices, token_expert_indices)` of (tokens, E) values; of equal ones the lower expert first",
    results=lambda gating, topk, renormalize: tuple(
        Result((gating.shape[0], topk), kind) for kind in ("f32", "i32", "i32")),
    plan=_plan, reference=_reference, widths=(16, 37),
    sample=lambda draw, m, n, topk=2, dtype="f32": (draw.normal(m, n, dtype=dtype), topk, True),
    bench=lambda target, rows: [(f"topk_gating_softmax top {k}", (4096, experts), {"topk": k, "dtype": "bf16"})
                                for experts, k in ((256, 8), (160, 6))],
    prebuilt=_model_calls,
)

OPS = [TOPK_GATING_SOFTMAX]
