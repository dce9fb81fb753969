"""Definitions in float64 (torch)."""

from __future__ import annotations

from typing import Any

from ..attention.reference import one, paged_rows

__all__ = ["paged_attention"]


def _tokens(cache: Any, scale: Any, table: Any, length: int) -> Any:
    """Keys or values of a sequence [length, key heads, dim], dequantised."""
    rows, (_, page, heads, _) = paged_rows(cache, table, length).double(), cache.shape
    if scale is None:
        return rows
    if scale.numel() <= heads:
        return rows * scale.double().reshape(-1, 1)
    return rows * paged_rows(scale.reshape(-1, heads, page).transpose(1, 2)[..., None], table, length).double()


def paged_attention(q: Any, k_cache: Any, v_cache: Any, block_table: Any, seqlens: Any, scale: float | None = None,
                    window_left: int = -1, window_right: int = -1, softcap: float = 0.0, sink: Any = None,
                    k_scale: Any = None, v_scale: Any = None, out_dtype: Any = None) -> tuple[Any, ...]:
    """The result [B, Sq, H, Dv] of the operation's arguments; values may have other columns than keys."""
    import torch

    batch, queries, heads, dim = q.shape
    out = torch.zeros((batch, queries, heads, v_cache.shape[3]), dtype=torch.float64)
    for b in range(batch):
        length = int(seqlens[b])
        keys, values = (_tokens(c, s, block_table[b], length) for c, s in ((k_cache, k_scale), (v_cache, v_scale)))
        if window_left >= 0:  # a weight of 0 hides a value, whatever it is
            values[: max(length - queries - window_left, 0)] = 0.0
        out[b], _ = one(q[b].double(), keys, values, scale=dim**-0.5 if scale is None else scale, left=window_left,
                        right=0, softcap=softcap, bias=None, slopes=None, sink=None if sink is None else sink.double())
    return (out,)
