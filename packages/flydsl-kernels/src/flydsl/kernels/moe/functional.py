"""Gating of arrays: fresh arrays out."""

from __future__ import annotations

from typing import Any

from ..common.arrays import as_rows, empty, launch
from ..common.dtypes import dtype_name
from .gating import build_topk_gating_softmax_module

__all__ = ["topk_gating_softmax"]


def topk_gating_softmax(gating: Any, topk: int, renormalize: bool = True, *, stream: Any = None) -> tuple:
    """``(weights, indices, token_expert_indices)`` of (tokens, E) gating values: f32, i32 and i32 of (tokens, topk).

    Raises:
        TypeError: the dtype is not f32, f16 or bf16.
        ValueError: gating is not a matrix, or topk is not in 1 .. E.
    """
    where = "topk_gating_softmax"
    dtype = dtype_name(gating, where)
    if len(gating.shape) != 2:
        raise ValueError(f"{where}: gating must be (tokens, experts), got shape {tuple(gating.shape)}")
    tokens, experts = gating.shape
    run = build_topk_gating_softmax_module(experts, topk, dtype, renormalize)
    out = tuple(empty(gating, (tokens, topk), kind) for kind in ("f32", "i32", "i32"))
    if tokens:
        launch(run, gating, as_rows(gating, where), *out, tokens, stream=stream)
    return out
