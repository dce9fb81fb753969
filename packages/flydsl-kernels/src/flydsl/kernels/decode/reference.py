"""Definitions in float64 (torch)."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["paged_attention"]


def _tokens(cache: Any, scale: Any, pages: Any, length: int) -> Any:
    """Keys or values of a sequence [length, key heads, dim], dequantised."""
    _, page, heads, dim = cache.shape
    rows = cache[pages].double()
    if scale is not None:
        token = scale.numel() > heads
        rows = rows * (scale.double().reshape(-1, heads, page)[pages].transpose(1, 2)[..., None] if token else
                       scale.double().reshape(-1, 1))
    return rows.reshape(-1, heads, dim)[:length]


def paged_attention(q: Any, k_cache: Any, v_cache: Any, block_table: Any, seqlens: Any, scale: float | None = None,
                    window_left: int = -1, window_right: int = -1, softcap: float = 0.0, sink: Any = None,
                    k_scale: Any = None, v_scale: Any = None, out_dtype: Any = None) -> tuple[Any, ...]:
    """The result [B, Sq, H, Dv] of the operation's arguments; values may have other columns than keys."""
    import torch

    batch, queries, heads, dim = q.shape
    page, group = k_cache.shape[1], heads // k_cache.shape[2]
    out = torch.zeros((batch, queries, heads, v_cache.shape[3]), dtype=torch.float64)
    for b in range(batch):
        length = int(seqlens[b])
        pages = block_table[b, : -(-length // page)].long()
        keys, values = (_tokens(c, s, pages, length).repeat_interleave(group, 1)
                        for c, s in ((k_cache, k_scale), (v_cache, v_scale)))
        scores = torch.einsum("ihd,jhd->hij", q[b].double(), keys) * (dim**-0.5 if scale is None else scale)
        if softcap:
            scores = softcap * (scores / softcap).tanh()
        newest = torch.arange(length - queries, length)[:, None]
        seen = torch.arange(length)[None] <= newest
        if window_left >= 0:
            seen = seen & (torch.arange(length)[None] >= newest - window_left)
        scores = scores.masked_fill(~seen, -math.inf)
        extra = torch.full((heads, queries, 1), -math.inf, dtype=torch.float64)
        if sink is not None:
            extra = sink.double()[:, None, None].expand_as(extra)
        whole = torch.cat([scores, extra], -1)
        top = whole.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float64).min)
        weights = (whole - top).exp()
        total = weights.sum(-1, keepdim=True)
        share = torch.where(total > 0, weights / total, 0.0)[..., :length]
        # A weight of 0 hides a value, whatever it is.
        hidden = torch.where(seen.any(0)[:, None, None], values, 0.0)
        out[b] = torch.einsum("hij,jhd->ihd", share, hidden)
    return (out,)
