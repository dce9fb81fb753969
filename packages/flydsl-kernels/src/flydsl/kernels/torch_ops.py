"""``torch.ops.flydsl.*``: the kernels as torch custom operators, with fake rules and gradients.

Every operator returns fresh tensors and launches on the current stream. Importing this module registers them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from .common.arrays import _dtype
from .gemm import functional as gemm
from .moe import functional as moe
from .norm import functional as norm
from .quant import functional as quant
from .softmax import functional as softmax

__all__ = ["NAMES"]


def _op(name: str) -> Any:
    """Decorator: register a pure operator under ``flydsl::name``."""

    def register(function: Any) -> Any:
        NAMES.append(name)
        return custom_op(f"flydsl::{name}", function, mutates_args=())

    return register


NAMES: list[str] = []
EPS = norm.EPS


def _stat(x: Tensor, wanted: bool = True) -> Tensor:
    return x.new_empty(x.shape[:-1] if wanted else (0,), dtype=torch.float32)


def _optional(value: Tensor | None, x: Tensor) -> Tensor:
    return _stat(x, False) if value is None else value


# ------------------------------------------------------------------------------------------- softmax


@_op("softmax")
def _softmax(x: Tensor) -> Tensor:
    return softmax.softmax_fwd(x)


@_softmax.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@_op("softmax_bwd")
def _softmax_bwd(dy: Tensor, y: Tensor) -> Tensor:
    return softmax.softmax_bwd(dy, y)


@_softmax_bwd.register_fake
def _(dy: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def _softmax_save(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(output)


def _softmax_gradient(ctx: Any, dy: Tensor) -> Tensor:
    return _softmax_bwd(dy, ctx.saved_tensors[0])


_softmax.register_autograd(_softmax_gradient, setup_context=_softmax_save)


# ------------------------------------------------------------------------------------------- RMS norm


@_op("rmsnorm_fwd")
def _rmsnorm_fwd(x: Tensor, weight: Tensor, eps: float, store_rstd: bool) -> tuple[Tensor, Tensor]:
    out, rstd = norm.rmsnorm_fwd(x, weight, eps, store_rstd)
    return out, _optional(rstd, x)


@_rmsnorm_fwd.register_fake
def _(x: Tensor, weight: Tensor, eps: float, store_rstd: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), _stat(x, store_rstd)


@_op("rmsnorm_bwd")
def _rmsnorm_bwd(x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    return norm.rmsnorm_bwd(x, weight, dout, rstd)


@_rmsnorm_bwd.register_fake
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


@_op("fused_add_rmsnorm_fwd")
def _fused_add_rmsnorm_fwd(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return norm.fused_add_rmsnorm_fwd(x, residual, weight, eps, True)


@_fused_add_rmsnorm_fwd.register_fake
def _(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), _stat(x)


@_op("fused_add_rmsnorm_bwd")
def _fused_add_rmsnorm_bwd(added: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor,
                           dresidual_out: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    dx, _, dw = norm.fused_add_rmsnorm_bwd(added, weight, dout, rstd, dresidual_out)
    return dx, dw


@_fused_add_rmsnorm_bwd.register_fake
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


@_op("layernorm_fwd")
def _layernorm_fwd(x: Tensor, weight: Tensor, bias: Tensor, eps: float,
                   store_stats: bool) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out, mean, rstd = norm.layernorm_fwd(x, weight, bias, eps, store_stats)
    return out, _optional(mean, x), _optional(rstd, x)


@_layernorm_fwd.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, eps: float, store_stats: bool) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), _stat(x, store_stats), _stat(x, store_stats)


@_op("layernorm_bwd")
def _layernorm_bwd(x: Tensor, weight: Tensor, dout: Tensor, mean: Tensor,
                   rstd: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return norm.layernorm_bwd(x, weight, dout, mean, rstd)


@_layernorm_bwd.register_fake
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


@_op("fused_add_layernorm_fwd")
def _fused_add_layernorm_fwd(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor,
                             eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return norm.fused_add_layernorm_fwd(x, residual, weight, bias, eps)


@_fused_add_layernorm_fwd.register_fake
def _(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


# ------------------------------------------------------------------------------------------- quantised


def _quant_like(x: Tensor, quant_dtype: str) -> Tensor:
    return x.new_empty(x.shape, dtype=_dtype(x, quant_dtype))


@_op("rmsnorm_quant")
def _rmsnorm_quant(x: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str,
                   eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return norm.rmsnorm_quant(x, weight, x_scale, quant_dtype, eps)


@_rmsnorm_quant.register_fake
def _(x: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str, eps: float) -> tuple[Tensor, Tensor]:
    return _quant_like(x, quant_dtype), _stat(x)


@_op("fused_add_rmsnorm_quant")
def _fused_add_rmsnorm_quant(x: Tensor, residual: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str,
                             eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return norm.fused_add_rmsnorm_quant(x, residual, weight, x_scale, quant_dtype, eps)


@_fused_add_rmsnorm_quant.register_fake
def _(x: Tensor, residual: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str,
      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _quant_like(x, quant_dtype), x.new_empty(x.shape), _stat(x)


@_op("layernorm_quant")
def _layernorm_quant(x: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None, quant_dtype: str,
                     eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return norm.layernorm_quant(x, weight, bias, x_scale, quant_dtype, eps)


@_layernorm_quant.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None, quant_dtype: str,
      eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _quant_like(x, quant_dtype), _stat(x)


@_op("fused_add_layernorm_quant")
def _fused_add_layernorm_quant(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None,
                               quant_dtype: str, eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return norm.fused_add_layernorm_quant(x, residual, weight, bias, x_scale, quant_dtype, eps)


@_fused_add_layernorm_quant.register_fake
def _(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None, quant_dtype: str,
      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _quant_like(x, quant_dtype), x.new_empty(x.shape), _stat(x)


@_op("quantize_per_token")
def _quantize_per_token(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_token(x, quant_dtype)


@_quantize_per_token.register_fake
def _(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return _quant_like(x, quant_dtype), _stat(x)


@_op("quantize_per_group")
def _quantize_per_group(x: Tensor, quant_dtype: str, transposed_scale: bool) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_group(x, quant_dtype, transposed_scale=transposed_scale)


@_quantize_per_group.register_fake
def _(x: Tensor, quant_dtype: str, transposed_scale: bool) -> tuple[Tensor, Tensor]:
    m, groups = x.numel() // x.shape[-1], x.shape[-1] // 128
    return _quant_like(x, quant_dtype), x.new_empty((groups, m) if transposed_scale else (m, groups),
                                                    dtype=torch.float32)  # fmt: skip


@_op("quantize_per_block")
def _quantize_per_block(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_block(x, quant_dtype)


@_quantize_per_block.register_fake
def _(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    m, n = x.numel() // x.shape[-1], x.shape[-1]
    return _quant_like(x, quant_dtype), x.new_empty(((m + 127) // 128, (n + 127) // 128), dtype=torch.float32)


@_op("quantize_per_tensor")
def _quantize_per_tensor(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_tensor(x, None, quant_dtype)


@_quantize_per_tensor.register_fake
def _(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return _quant_like(x, quant_dtype), x.new_empty((1,), dtype=torch.float32)


@_op("dequantize")
def _dequantize(q: Tensor, scale: Tensor, dtype: str) -> Tensor:
    return quant.dequantize(q, scale, dtype)


@_dequantize.register_fake
def _(q: Tensor, scale: Tensor, dtype: str) -> Tensor:
    return q.new_empty(q.shape, dtype=_dtype(q, dtype))


# ------------------------------------------------------------------------------------------- GEMM


@_op("gemm")
def _gemm(a: Tensor, b: Tensor, bias: Tensor | None, layout: str) -> Tensor:
    return gemm.gemm(a, b, bias, layout)


@_gemm.register_fake
def _(a: Tensor, b: Tensor, bias: Tensor | None, layout: str) -> Tensor:
    m = a.shape[0] if layout[0] == "n" else a.shape[1]
    n = b.shape[1] if layout[1] == "n" else b.shape[0]
    return a.new_empty((m, n))


def _gemm_save(ctx: Any, inputs: Any, output: Tensor) -> None:
    a, b, bias, ctx.layout = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(a, b)


def _gemm_gradient(ctx: Any, g: Tensor) -> tuple:
    # With C = A B: dA = G B^T, dB = A^T G, each stored as its operand is. A letter says how the stored matrix is read.
    a, b = ctx.saved_tensors
    g = g.contiguous()
    a_letter, b_letter = ctx.layout
    flip = {"n": "t", "t": "n"}
    da = db = dbias = None
    if ctx.needs_input_grad[0]:
        da = _gemm(g, b, None, "n" + flip[b_letter]) if a_letter == "n" else _gemm(b, g, None, b_letter + "t")
    if ctx.needs_input_grad[1]:
        db = _gemm(a, g, None, flip[a_letter] + "n") if b_letter == "n" else _gemm(g, a, None, "t" + a_letter)
    if ctx.bias_dtype is not None and ctx.needs_input_grad[2]:
        dbias = g.sum(0, dtype=torch.float32).to(ctx.bias_dtype)
    return da, db, dbias, None


_gemm.register_autograd(_gemm_gradient, setup_context=_gemm_save)


@_op("linear_inference")
def _linear_inference(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return gemm.linear(x, weight, bias, shuffle=True)


@_linear_inference.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


@_op("preshuffle_gemm")
def _preshuffle_gemm(a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None,
                     activation: str, out_dtype: torch.dtype) -> Tensor:  # fmt: skip
    return gemm.preshuffle_gemm(a, b, scale_a, scale_b, bias, activation, out_dtype)


@_preshuffle_gemm.register_fake
def _(a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None, activation: str,
      out_dtype: torch.dtype) -> Tensor:  # fmt: skip
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)


@_op("blockscale_gemm")
def _blockscale_gemm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype) -> Tensor:
    return gemm.blockscale_gemm(a, b, scale_a, scale_b, out_dtype)


@_blockscale_gemm.register_fake
def _(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)


# ------------------------------------------------------------------------------------------- gating


@_op("topk_gating_softmax")
def _topk_gating_softmax(gating: Tensor, topk: int, renormalize: bool) -> tuple[Tensor, Tensor, Tensor]:
    return moe.topk_gating_softmax(gating, topk, renormalize)


@_topk_gating_softmax.register_fake
def _(gating: Tensor, topk: int, renormalize: bool) -> tuple[Tensor, Tensor, Tensor]:
    shape = (gating.shape[0], topk)
    weights = gating.new_empty(shape, dtype=torch.float32)
    return weights, gating.new_empty(shape, dtype=torch.int32), gating.new_empty(shape, dtype=torch.int32)


# ------------------------------------------------------------------------------------------- short forms


def _define_short_forms() -> Any:
    """``rmsnorm``, ``layernorm`` and ``linear``: composites of the operators above."""
    library = torch.library.Library("flydsl", "FRAGMENT")
    forms: dict[str, tuple[str, Any]] = {
        "rmsnorm": ("(Tensor x, Tensor weight, float eps=1e-5) -> Tensor",
                    lambda x, weight, eps=EPS: _rmsnorm_fwd(x, weight, eps, True)[0]),
        "layernorm": ("(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor",
                      lambda x, weight, bias, eps=EPS: _layernorm_fwd(x, weight, bias, eps, True)[0]),
        "linear": ("(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", _linear),
    }  # fmt: skip
    for name, (schema, function) in forms.items():
        library.define(name + schema)
        library.impl(name, function, "CompositeImplicitAutograd")
        NAMES.append(name)
    return library


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _gemm(x.reshape(-1, x.shape[-1]), weight, bias, "nt").view(*x.shape[:-1], weight.shape[0])


_LIBRARY = _define_short_forms()
