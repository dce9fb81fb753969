"""Attention by its definition, in double precision."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["attention", "attention_backward", "one", "paged_rows"]


def paged_rows(cache: Any, table: Any, length: int) -> Any:
    """Rows (length, heads, columns) of a sequence from pages [pages, page, heads, columns]."""
    page = cache.shape[1]
    return cache[table[: -(-length // page)].long()].reshape(-1, *cache.shape[2:])[:length]


def one(q: Any, k: Any, v: Any, *, scale: float, left: int, right: int, softcap: float, bias: Any, slopes: Any,
        sink: Any) -> tuple[Any, Any]:
    """(out [Sq, H, Dv], lse [H, Sq]) of one sequence: q [Sq, H, D], k [Skv, Hkv, D], v [Skv, Hkv, Dv]."""
    import torch

    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    place = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    key = torch.arange(k.shape[0])[None]
    if bias is not None:
        scores = scores + bias
    if slopes is not None:
        scores = scores - slopes[:, None, None] * (place - key).abs()
    hidden = torch.zeros_like(key > place)
    if right >= 0:
        hidden = hidden | (key > place + right)
    if left >= 0:
        hidden = hidden | (key < place - left)
    scores = scores.masked_fill(hidden, -math.inf)
    if sink is not None:
        scores = torch.cat([scores, sink[:, None, None].expand(-1, scores.shape[1], 1)], -1)
    if not scores.shape[-1]:
        return q.new_zeros(*q.shape[:2], v.shape[-1]), q.new_full((q.shape[1], q.shape[0]), -math.inf)
    largest = scores.detach().amax(-1, keepdim=True)
    power = torch.exp(scores - torch.where(largest.isinf(), 0.0, largest))
    total = power.sum(-1, keepdim=True)
    weights = (power / torch.where(total == 0, 1.0, total))[..., : k.shape[0]]
    lse = (total.log() + torch.where(largest.isinf(), 0.0, largest))[..., 0]
    return torch.einsum("hij,jhd->ihd", weights, v), lse


def attention(q: Any, k: Any, v: Any, bias: Any = None, alibi_slopes: Any = None, sink: Any = None,
              cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, block_table: Any = None, seqlens_k: Any = None,
              q_descale: Any = None, k_descale: Any = None, v_descale: Any = None, scale: float | None = None,
              left: int = -1, right: int = -1, softcap: float = 0.0, max_seqlen_q: int = 0,
              num_splits: int = 1) -> tuple[Any, Any]:
    """(out, lse) of the operands of ``torch.ops.flydsl.attention_fwd``."""
    import torch

    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    packed = cu_seqlens_q is not None
    batch = (len(cu_seqlens_q) - 1) if packed else q.shape[0]
    q, k, v = (x.double() for x in (q, k, v))
    outs, lses = [], []
    for b in range(batch):
        begin, end = (int(x) for x in cu_seqlens_q[b : b + 2]) if packed else (0, q.shape[1])
        mine = q[begin:end] if packed else q[b]
        if block_table is not None:
            keys, values = (paged_rows(x, block_table[b], int(seqlens_k[b])) for x in (k, v))
        elif cu_seqlens_k is not None:
            first, last = (int(x) for x in cu_seqlens_k[b : b + 2])
            keys, values = k[first:last], v[first:last]
        else:
            length = k.shape[1] if seqlens_k is None else int(seqlens_k[b])
            keys, values = k[b, :length], v[b, :length]
        mine, keys, values = (_descaled(x, d, b) for x, d in ((mine, q_descale), (keys, k_descale),
                                                              (values, v_descale)))
        addend, slopes = bias, alibi_slopes
        if bias is not None:
            of_rows = bias[begin:end] if packed else bias[b % len(bias)] if bias.dim() == 4 else bias
            addend = of_rows[..., : keys.shape[0]].double()
        if slopes is not None:
            slopes = (slopes[b] if slopes.dim() == 2 else slopes).double()
        out, lse = one(mine, keys, values, scale=scale, left=left, right=right, softcap=softcap, bias=addend,
                       slopes=slopes, sink=None if sink is None else sink.double())
        outs.append(out)
        lses.append(lse)
    if packed:
        return torch.cat(outs), torch.cat(lses, 1)
    return torch.stack(outs), torch.stack(lses)


def attention_backward(dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, bias: Any = None,
                       alibi_slopes: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
                       scale: float | None = None, left: int = -1, right: int = -1, softcap: float = 0.0,
                       max_seqlen_q: int = 0) -> tuple[Any, ...]:
    """Gradients by q, k and v."""
    import torch

    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    with torch.enable_grad():
        results = attention(wide[0], wide[1], wide[2], bias, alibi_slopes, None, cu_seqlens_q, cu_seqlens_k,
                            scale=scale, left=left, right=right, softcap=softcap)
        found = torch.autograd.grad(results, wide, (dout.double(), dlse.double()), allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(wide, found, strict=True))


def _descaled(x: Any, descale: Any, b: int) -> Any:
    """x [S, H, D] times a scale for all, or one for each sequence and head."""
    if descale is None:
        return x
    descale = descale.double()
    if descale.dim() < 2:
        return x * descale.reshape(())
    return x * descale[b].repeat_interleave(x.shape[1] // descale.shape[1])[:, None]
