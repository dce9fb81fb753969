"""The forward of a patched ``torch.nn.MultiheadAttention``: projections and heads by kernels.

With `need_weights` the products of the heads are torch's and their softmax is a kernel.

torch computes such a module in one function that reads the weights of its parts, so replacing the parts has no effect.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from .. import ops
from .sdpa import refuse_sdpa, sdpa

__all__ = ["attention", "refuse_attention", "refuse_attention_call"]


def refuse_attention(m: nn.MultiheadAttention) -> str:
    """Why a module cannot use the kernels, or ""."""
    if not m._qkv_same_embed_dim:
        return "queries, keys and values have different sizes"
    if m.bias_k is not None or m.add_zero_attn:
        return "it appends a row to keys and values (add_bias_kv or add_zero_attn)"
    return "" if m.embed_dim % 8 == 0 else f"embed_dim must be a multiple of 8, got {m.embed_dim}"


def refuse_attention_call(m: nn.MultiheadAttention, query: Any, key: Any = None, value: Any = None,
                          key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
                          average_attn_weights: bool = True, is_causal: bool = False) -> str:
    """Why a call cannot use the kernels, or ""."""
    tensors = (query, key, value)
    if not all(isinstance(t, torch.Tensor) for t in tensors):
        return "query, key and value must be tensors"
    if any(t.is_nested for t in tensors):
        return "nested tensors"
    if m.training and m.dropout:
        return f"dropout of {m.dropout} in training"
    if any(t.dim() != query.dim() or t.shape[-1] != m.embed_dim for t in tensors) or query.dim() not in (2, 3):
        return f"shapes {', '.join(str(tuple(t.shape)) for t in tensors)} with embed_dim {m.embed_dim}"
    if any(t.device != query.device for t in (*tensors, m.in_proj_weight)):
        return "operands on several devices"
    if is_causal and attn_mask is None:
        return "is_causal without a mask"
    why = _refuse_sizes(m, query, key, value, key_padding_mask, attn_mask)
    if why:
        return why
    kind = query.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        return "" if dtype in (torch.float16, torch.bfloat16) else f"autocast to {dtype}"
    dtypes = {t.dtype for t in (*tensors, m.in_proj_weight)}
    if dtypes not in ({torch.float16}, {torch.bfloat16}):
        return f"dtypes {', '.join(sorted(map(str, dtypes)))}: all must be float16 or all bfloat16"
    return ""


def _refuse_sizes(m: nn.MultiheadAttention, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                  padding: torch.Tensor | None, mask: torch.Tensor | None) -> str:
    """Why operands do not fit each other, or "": torch says so, where ours would be broadcast."""
    def sizes(x: torch.Tensor) -> tuple[int, int]:
        """Batch and rows."""
        batch, rows = x.shape[:2] if x.dim() == 3 else (1, x.shape[0])
        return (batch, rows) if m.batch_first or x.dim() == 2 else (rows, batch)

    (batch, rows), (_, keys) = sizes(query), sizes(key)
    if not sizes(key) == sizes(value) == (batch, keys):
        return f"shapes {', '.join(str(tuple(t.shape)) for t in (query, key, value))} do not fit each other"
    paddings: tuple[tuple[int, ...], ...] = ((batch, keys) if query.dim() == 3 else (keys,),)
    masks: tuple[tuple[int, ...], ...] = (rows, keys), (batch * m.num_heads, rows, keys)
    for name, given, shapes in (("key_padding_mask", padding, paddings), ("attn_mask", mask, masks)):
        if given is None:
            continue
        if given.dtype != torch.bool and not given.is_floating_point():
            return f"{name} of dtype {given.dtype}"
        if tuple(given.shape) not in shapes:
            return f"{name} of shape {tuple(given.shape)}: {' or '.join(map(str, shapes))} is needed"
    return ""


def _projected(m: nn.MultiheadAttention, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple:
    weight, bias, e = m.in_proj_weight, m.in_proj_bias, m.embed_dim
    if query is key and key is value:
        return ops.linear(query, weight, bias).split(e, -1)
    return tuple(ops.linear(x, weight[i * e : (i + 1) * e], None if bias is None else bias[i * e : (i + 1) * e])
                 for i, x in enumerate((query, key, value)))


def _as_addend(mask: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return None if mask is None else mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)


def _mask(m: nn.MultiheadAttention, q: torch.Tensor, attn_mask: torch.Tensor | None,
          padding: torch.Tensor | None) -> torch.Tensor | None:
    """What is added to the scores (batch, heads, L, S): both masks together; True and -inf exclude."""
    attn_mask, padding = _as_addend(attn_mask, q), _as_addend(padding, q)
    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.view(-1, m.num_heads, *attn_mask.shape[1:])
    if padding is None:
        return attn_mask
    padding = padding.view(-1, 1, 1, padding.shape[-1])
    return padding if attn_mask is None else attn_mask + padding


def attention(m: nn.MultiheadAttention, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              key_padding_mask: torch.Tensor | None = None, need_weights: bool = True,
              attn_mask: torch.Tensor | None = None, average_attn_weights: bool = True,
              is_causal: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The module's forward: its arguments, its ``(output, weights)``. `is_causal` says that the mask is causal."""
    heads, batched, first = m.num_heads, query.dim() == 3, m.batch_first

    def by_heads(x: torch.Tensor) -> torch.Tensor:
        x = x if batched else x.unsqueeze(0)
        x = x if first or not batched else x.transpose(0, 1)
        return x.unflatten(-1, (heads, m.head_dim)).transpose(1, 2)

    q, k, v = (by_heads(x) for x in _projected(m, query, key, value))
    mask = _mask(m, q, attn_mask, key_padding_mask)
    weights = None
    if need_weights:
        scores = (q * (1.0 / math.sqrt(m.head_dim))) @ k.transpose(-1, -2)
        weights = ops.softmax(scores if mask is None else scores + mask)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = (F.scaled_dot_product_attention if refuse_sdpa(q, k, v, mask) else sdpa)(q, k, v, mask)
    out = out.transpose(1, 2).flatten(-2)
    out = out if first or not batched else out.transpose(0, 1)
    out = ops.linear(out, m.out_proj.weight, m.out_proj.bias)
    return (out, weights) if batched else (out[0], None if weights is None else weights[0])
