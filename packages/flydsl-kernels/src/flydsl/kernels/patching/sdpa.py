"""``torch.nn.functional.scaled_dot_product_attention`` by the attention kernel, for whatever a model calls it from.

Calls are seen by a torch function mode. ``torch.compile`` cannot trace all of torch below one, so compiled models keep
torch's function (those of ``MultiheadAttention`` run the kernel there too).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.overrides import TorchFunctionMode

from .. import ops as _ops
from ..attention.config import LARGEST

__all__ = ["Redirected", "refuse_sdpa", "sdpa"]

ops: Any = _ops  # its forms are made from declarations


def refuse_sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
                dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                enable_gqa: bool = False) -> str:
    """Why a call cannot use the kernel, or ""."""
    tensors = (query, key, value)
    if any(t.dim() != 4 or t.is_nested for t in tensors):
        return f"shapes {', '.join(str(tuple(t.shape)) for t in tensors)}: [B, H, S, D] is needed"
    if query.dtype not in (torch.float16, torch.bfloat16) or any(t.dtype != query.dtype for t in tensors):
        return f"dtypes {', '.join(str(t.dtype) for t in tensors)}: all must be float16 or all bfloat16"
    if any(t.device != query.device for t in tensors):
        return "operands on several devices"
    if dropout_p:
        return f"dropout of {dropout_p}"
    if max(query.shape[-1], value.shape[-1]) > LARGEST:
        return f"heads of {query.shape[-1]} columns, at most {LARGEST} are supported"
    if any(t.shape[0] != query.shape[0] for t in tensors) or key.shape[1] != value.shape[1] or (
            key.shape[1] not in (1, query.shape[1]) and not (enable_gqa and query.shape[1] % key.shape[1] == 0)):
        return f"shapes {', '.join(str(tuple(t.shape)) for t in tensors)} are broadcast"
    if attn_mask is not None and attn_mask.requires_grad:
        return "a mask that needs a gradient"
    return ""


def sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
         dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
         enable_gqa: bool = False) -> torch.Tensor:
    """The function, of arguments that :func:`refuse_sdpa` has nothing against."""
    rows, keys = query.shape[-2], key.shape[-2]
    window = (-1, -1)
    if is_causal:  # from the first row and key, where the kernel counts from the last ones
        key, value = key[:, :, :rows], value[:, :, :rows]
        window = (-1, rows - key.shape[-2])
    bias = None
    if attn_mask is not None:
        bias = attn_mask
        if bias.dtype == torch.bool:
            bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(~bias, -math.inf)
        elif bias.dtype not in (torch.float16, torch.bfloat16):
            bias = bias.float()
        bias = bias.expand(*bias.shape[:-2], rows, keys)[..., : key.shape[-2]]
        if bias.dim() == 1:
            bias = bias.expand(rows, -1)
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    return ops.attention(q, k, v, scale=scale, window=window, bias=bias).transpose(1, 2)


class Redirected(TorchFunctionMode):
    """While it is entered, calls of the function go to `call` ``(*arguments, **options)``."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return self._call(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))
