"""Operators on rows: addition, softmax, norms, gating."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..elementwise import functional as elementwise
from ..moe import functional as moe
from ..norm import functional as norm
from ..softmax import functional as softmax
from .registry import fake, operator, optional, statistic

# ------------------------------------------------------------------------------------------- addition


@operator("add")
def _add(a: Tensor, b: Tensor) -> Tensor:
    return elementwise.add(a, b)


@fake(_add)
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape)


def _add_save(ctx: Any, inputs: Any, output: Tensor) -> None:
    pass


def _add_gradient(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
    return dy, dy


_add.register_autograd(_add_gradient, setup_context=_add_save)


# ------------------------------------------------------------------------------------------- softmax


@operator("softmax")
def _softmax(x: Tensor) -> Tensor:
    return softmax.softmax_fwd(x)


@fake(_softmax)
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@operator("softmax_bwd")
def _softmax_bwd(dy: Tensor, y: Tensor) -> Tensor:
    return softmax.softmax_bwd(dy, y)


@fake(_softmax_bwd)
def _(dy: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def _softmax_save(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(output)


def _softmax_gradient(ctx: Any, dy: Tensor) -> Tensor:
    return _softmax_bwd(dy, ctx.saved_tensors[0])


_softmax.register_autograd(_softmax_gradient, setup_context=_softmax_save)


# ------------------------------------------------------------------------------------------- RMS norm


@operator("rmsnorm_fwd")
def _rmsnorm_fwd(x: Tensor, weight: Tensor, eps: float, store_rstd: bool) -> tuple[Tensor, Tensor]:
    out, rstd = norm.rmsnorm_fwd(x, weight, eps, store_rstd)
    return out, optional(rstd, x)


@fake(_rmsnorm_fwd)
def _(x: Tensor, weight: Tensor, eps: float, store_rstd: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), statistic(x, store_rstd)


@operator("rmsnorm_bwd")
def _rmsnorm_bwd(x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    return norm.rmsnorm_bwd(x, weight, dout, rstd)


@fake(_rmsnorm_bwd)
def _(x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _rmsnorm_save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, eps, store_rstd = inputs
    _, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.eps, ctx.has_rstd = eps, store_rstd
    ctx.save_for_backward(x, weight, rstd)


def _rstd_of(ctx: Any, x: Tensor, weight: Tensor, rstd: Tensor) -> Tensor:
    # A caller that did not ask for rstd but differentiates: compute it again.
    return rstd if ctx.has_rstd else _rmsnorm_fwd(x, weight, ctx.eps, True)[1]


def _rmsnorm_gradient(ctx: Any, dout: Tensor, _: Any) -> tuple:
    x, weight, rstd = ctx.saved_tensors
    dx, dw = _rmsnorm_bwd(x, weight, dout, _rstd_of(ctx, x, weight, rstd))
    return dx, dw, None, None


_rmsnorm_fwd.register_autograd(_rmsnorm_gradient, setup_context=_rmsnorm_save)


@operator("fused_add_rmsnorm_fwd")
def _fused_add_rmsnorm_fwd(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return norm.fused_add_rmsnorm_fwd(x, residual, weight, eps, True)


@fake(_fused_add_rmsnorm_fwd)
def _(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), statistic(x)


@operator("fused_add_rmsnorm_bwd")
def _fused_add_rmsnorm_bwd(added: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor,
                           dresidual_out: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    dx, _, dw = norm.fused_add_rmsnorm_bwd(added, weight, dout, rstd, dresidual_out)
    return dx, dw


@fake(_fused_add_rmsnorm_bwd)
def _(added: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor,
      dresidual_out: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    return added.new_empty(added.shape), weight.new_empty(weight.shape)


def _fused_save(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, weight, _ = inputs
    _, added, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(added, weight, rstd)


def _fused_gradient(ctx: Any, dout: Tensor, dresidual: Tensor | None, _: Any) -> tuple:
    added, weight, rstd = ctx.saved_tensors
    dx, dw = _fused_add_rmsnorm_bwd(added, weight, dout, rstd, dresidual)
    return dx, dx, dw, None


_fused_add_rmsnorm_fwd.register_autograd(_fused_gradient, setup_context=_fused_save)


# ------------------------------------------------------------------------------------------- layer norm


@operator("layernorm_fwd")
def _layernorm_fwd(x: Tensor, weight: Tensor, bias: Tensor, eps: float,
                   store_stats: bool) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out, mean, rstd = norm.layernorm_fwd(x, weight, bias, eps, store_stats)
    return out, optional(mean, x), optional(rstd, x)


@fake(_layernorm_fwd)
def _(x: Tensor, weight: Tensor, bias: Tensor, eps: float, store_stats: bool) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), statistic(x, store_stats), statistic(x, store_stats)


@operator("layernorm_bwd")
def _layernorm_bwd(x: Tensor, weight: Tensor, dout: Tensor, mean: Tensor,
                   rstd: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return norm.layernorm_bwd(x, weight, dout, mean, rstd)


@fake(_layernorm_bwd)
def _(x: Tensor, weight: Tensor, dout: Tensor, mean: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape)


def _layernorm_save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, eps, store_stats = inputs
    _, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    ctx.eps, ctx.has_stats, ctx.bias_dtype = eps, store_stats, bias.dtype
    ctx.save_for_backward(x, weight, bias, mean, rstd)


def _layernorm_gradient(ctx: Any, dout: Tensor, *_: Any) -> tuple:
    x, weight, bias, mean, rstd = ctx.saved_tensors
    if not ctx.has_stats:
        _, mean, rstd = _layernorm_fwd(x, weight, bias, ctx.eps, True)
    dx, dw, db = _layernorm_bwd(x, weight, dout, mean, rstd)
    return dx, dw, db, None, None


_layernorm_fwd.register_autograd(_layernorm_gradient, setup_context=_layernorm_save)


@operator("fused_add_layernorm_fwd")
def _fused_add_layernorm_fwd(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor,
                             eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return norm.fused_add_layernorm_fwd(x, residual, weight, bias, eps)


@fake(_fused_add_layernorm_fwd)
def _(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _fused_layernorm_save(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight, bias)


def _fused_layernorm_gradient(ctx: Any, dout: Tensor, dresidual: Tensor) -> tuple:
    added, weight, bias = ctx.saved_tensors
    _, mean, rstd = _layernorm_fwd(added, weight, bias, ctx.eps, True)
    dx, dw, db = _layernorm_bwd(added, weight, dout, mean, rstd)
    dx = dx + dresidual
    return dx, dx, dw, db, None


_fused_add_layernorm_fwd.register_autograd(_fused_layernorm_gradient, setup_context=_fused_layernorm_save)


# ------------------------------------------------------------------------------------------- gating


@operator("topk_gating_softmax")
def _topk_gating_softmax(gating: Tensor, topk: int, renormalize: bool) -> tuple[Tensor, Tensor, Tensor]:
    return moe.topk_gating_softmax(gating, topk, renormalize)


@fake(_topk_gating_softmax)
def _(gating: Tensor, topk: int, renormalize: bool) -> tuple[Tensor, Tensor, Tensor]:
    shape = (gating.shape[0], topk)
    weights = gating.new_empty(shape, dtype=torch.float32)
    return weights, gating.new_empty(shape, dtype=torch.int32), gating.new_empty(shape, dtype=torch.int32)
