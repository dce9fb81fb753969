"""Definitions in float64 (torch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["added", "decode", "fused_layernorm", "fused_rmsnorm", "gradients", "normal", "quantised"]


def normal(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """(norm, mean, rstd) in float64: of RMS norm without a bias."""
    x = x.double()
    mean = x.mean(-1) if bias is not None else x.new_zeros(x.shape[:-1])
    centred = x - mean[..., None]
    rstd = (centred.pow(2).mean(-1) + eps).rsqrt()
    out = centred * rstd[..., None] * weight.double()
    return out if bias is None else out + bias.double(), mean, rstd


def added(x: Any, residual: Any) -> Any:
    return (x.double() + residual.double()).to(x.dtype)


def fused_rmsnorm(x: Any, residual: Any, weight: Any, eps: float, offset: float) -> tuple[Any, ...]:
    total = added(x, residual)
    out, _, rstd = normal(total, weight.double() + offset, None, eps)
    return out, total, rstd


def fused_layernorm(x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any]:
    total = added(x, residual)
    return normal(total, weight, bias, eps)[0], total


def gradients(x: Any, weight: Any, dout: Any, bias: bool, eps: float, dres: Any = None,
               offset: float = 0.0) -> tuple[Any, ...]:
    """By autograd of the definition; `eps` is what makes the rstd the given one."""
    import torch

    x, weight = (t.detach().double().requires_grad_() for t in (x, weight))
    vectors = [weight, torch.zeros_like(weight).requires_grad_()] if bias else [weight]
    out, _, _ = normal(x, weight + offset, vectors[1] if bias else None, eps)
    dx, *others = torch.autograd.grad(out, (x, *vectors), dout.double())
    return (dx if dres is None else dx + dres.double(), *others)


def quantised(matrices: int, bias: bool) -> Callable[..., tuple[Any, ...]]:
    """The norm that is quantised, of so many matrices (a second one is added), their sum if there are two, and the
    scale of each row."""

    def reference(*arguments: Any) -> tuple[Any, ...]:
        x = arguments[0] if matrices == 1 else added(*arguments[:2])
        *vectors, x_scale, _, eps = arguments[matrices:]
        out, _, _ = normal(x, vectors[0], vectors[1] if bias else None, eps)
        out = out if x_scale is None else out * x_scale.double()
        return (out, *((x,) if matrices == 2 else ()), out.abs().amax(-1) / 127)

    return reference


def decode(arguments: Any, results: Any) -> tuple[Any, ...]:
    """The values that results of a quantised norm stand for, in place of what is stored."""
    q, *others, scale = results
    return (q.double() * scale.double()[..., None], *others, scale)
