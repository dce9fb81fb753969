"""Matrix products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..gemm import functional as gemm
from ..gemm import scaled
from ..gemm.layouts import tag
from .registry import fake, operator


@operator("gemm")
def _gemm(a: Tensor, b: Tensor, bias: Tensor | None, layout: str, out_dtype: torch.dtype | None = None) -> Tensor:
    return gemm.gemm(a, b, None if bias is None else bias.contiguous(), layout, out_dtype)


@fake(_gemm)
def _(a: Tensor, b: Tensor, bias: Tensor | None, layout: str, out_dtype: torch.dtype | None = None) -> Tensor:
    m = a.shape[0] if layout[0] == "n" else a.shape[1]
    n = b.shape[1] if layout[1] == "n" else b.shape[0]
    return a.new_empty((m, n), dtype=out_dtype)


def _gemm_save(ctx: Any, inputs: Any, output: Tensor) -> None:
    a, b, bias, ctx.layout, _ = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(a, b)


def _gemm_gradient(ctx: Any, g: Tensor) -> tuple:
    # With C = A B: dA = G B^T, dB = A^T G, each stored as its operand is. A letter says how the stored matrix is read.
    a, b = ctx.saved_tensors
    g = g.to(a.dtype).contiguous()
    a_letter, b_letter = ctx.layout
    flip = {"n": "t", "t": "n"}
    da = db = dbias = None
    if ctx.needs_input_grad[0]:
        da = _gemm(g, b, None, "n" + flip[b_letter]) if a_letter == "n" else _gemm(b, g, None, b_letter + "t")
    if ctx.needs_input_grad[1]:
        db = _gemm(a, g, None, flip[a_letter] + "n") if b_letter == "n" else _gemm(g, a, None, "t" + a_letter)
    if ctx.bias_dtype is not None and ctx.needs_input_grad[2]:
        dbias = g.sum(0, dtype=torch.float32).to(ctx.bias_dtype)
    return da, db, dbias, None, None


_gemm.register_autograd(_gemm_gradient, setup_context=_gemm_save)


@operator("linear_inference")
def _linear_inference(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return gemm.linear(x, weight, None if bias is None else bias.contiguous(), shuffle=True)


@fake(_linear_inference)
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _tagged(b: Tensor, layout: str) -> Tensor:
    # The tag is an attribute of the tensor object, which a copy does not have; a caller that knows better says so.
    return tag(b.detach(), layout) if layout else b


@operator("preshuffle_gemm")
def _preshuffle_gemm(a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None,
                     activation: str, out_dtype: torch.dtype, layout: str = "") -> Tensor:  # fmt: skip
    return gemm.preshuffle_gemm(a, _tagged(b, layout), scale_a, scale_b, bias, activation, out_dtype)


@fake(_preshuffle_gemm)
def _(a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None, activation: str,
      out_dtype: torch.dtype, layout: str = "") -> Tensor:  # fmt: skip
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)


@operator("blockscale_gemm")
def _blockscale_gemm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype,
                     layout: str = "") -> Tensor:  # fmt: skip
    return gemm.blockscale_gemm(a, _tagged(b, layout), scale_a, scale_b, out_dtype)


@fake(_blockscale_gemm)
def _(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype, layout: str = "") -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)


@operator("scaled_gemm")
def _scaled_gemm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype) -> Tensor:
    return scaled.scaled_gemm(a, b, scale_a, scale_b, out_dtype)


@fake(_scaled_gemm)
def _(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)


@operator("mx_gemm")
def _mx_gemm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, a_dtype: str, b_dtype: str,
             out_dtype: torch.dtype) -> Tensor:  # fmt: skip
    return scaled.mx_gemm(a, b, scale_a, scale_b, a_dtype, b_dtype, out_dtype)


@fake(_mx_gemm)
def _(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, a_dtype: str, b_dtype: str,
      out_dtype: torch.dtype) -> Tensor:  # fmt: skip
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)
