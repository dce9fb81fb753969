"""Operators with quantised operands or results."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..common.arrays import _dtype
from ..norm import functional as norm
from ..quant import functional as quant
from .registry import fake, operator, statistic


def _rows(x: Tensor) -> Any:
    return math.prod(x.shape[:-1])


def _quant_like(x: Tensor, quant_dtype: str) -> Tensor:
    return x.new_empty(x.shape, dtype=_dtype(x, quant_dtype))


@operator("rmsnorm_quant")
def _rmsnorm_quant(x: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str,
                   eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return norm.rmsnorm_quant(x, weight, x_scale, quant_dtype, eps)


@fake(_rmsnorm_quant)
def _(x: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str, eps: float) -> tuple[Tensor, Tensor]:
    return _quant_like(x, quant_dtype), statistic(x)


@operator("fused_add_rmsnorm_quant")
def _fused_add_rmsnorm_quant(x: Tensor, residual: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str,
                             eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return norm.fused_add_rmsnorm_quant(x, residual, weight, x_scale, quant_dtype, eps)


@fake(_fused_add_rmsnorm_quant)
def _(x: Tensor, residual: Tensor, weight: Tensor, x_scale: Tensor | None, quant_dtype: str,
      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _quant_like(x, quant_dtype), x.new_empty(x.shape), statistic(x)


@operator("layernorm_quant")
def _layernorm_quant(x: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None, quant_dtype: str,
                     eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return norm.layernorm_quant(x, weight, bias, x_scale, quant_dtype, eps)


@fake(_layernorm_quant)
def _(x: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None, quant_dtype: str,
      eps: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _quant_like(x, quant_dtype), statistic(x)


@operator("fused_add_layernorm_quant")
def _fused_add_layernorm_quant(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None,
                               quant_dtype: str, eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return norm.fused_add_layernorm_quant(x, residual, weight, bias, x_scale, quant_dtype, eps)


@fake(_fused_add_layernorm_quant)
def _(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, x_scale: Tensor | None, quant_dtype: str,
      eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _quant_like(x, quant_dtype), x.new_empty(x.shape), statistic(x)


@operator("quantize_per_token")
def _quantize_per_token(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_token(x, quant_dtype)


@fake(_quantize_per_token)
def _(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return _quant_like(x, quant_dtype), statistic(x)


@operator("quantize_per_group")
def _quantize_per_group(x: Tensor, quant_dtype: str, transposed_scale: bool) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_group(x, quant_dtype, transposed_scale=transposed_scale)


@fake(_quantize_per_group)
def _(x: Tensor, quant_dtype: str, transposed_scale: bool) -> tuple[Tensor, Tensor]:
    m, groups = _rows(x), (x.shape[-1] + 127) // 128
    return _quant_like(x, quant_dtype), x.new_empty((groups, m) if transposed_scale else (m, groups),
                                                    dtype=torch.float32)  # fmt: skip


@operator("quantize_per_block")
def _quantize_per_block(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_block(x, quant_dtype)


@fake(_quantize_per_block)
def _(x: Tensor, quant_dtype: str) -> tuple[Tensor, Tensor]:
    m, n = _rows(x), x.shape[-1]
    return _quant_like(x, quant_dtype), x.new_empty(((m + 127) // 128, (n + 127) // 128), dtype=torch.float32)


@operator("quantize_per_tensor")
def _quantize_per_tensor(x: Tensor, quant_dtype: str, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return quant.quantize_per_tensor(x, scale, quant_dtype)


@fake(_quantize_per_tensor)
def _(x: Tensor, quant_dtype: str, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return _quant_like(x, quant_dtype), x.new_empty((1,), dtype=torch.float32)


@operator("dequantize")
def _dequantize(q: Tensor, scale: Tensor, dtype: str, granularity: str = "") -> Tensor:
    return quant.dequantize(q, scale, dtype, granularity)


@fake(_dequantize)
def _(q: Tensor, scale: Tensor, dtype: str, granularity: str = "") -> Tensor:
    return q.new_empty(q.shape, dtype=_dtype(q, dtype))


# ------------------------------------------------------------------------------------------- packed formats


def _groups(n: Any, group: int) -> Any:
    # Arithmetic only, so that symbolic sizes stay symbolic.
    return (n + group - 1) // group if group else 1


@operator("quantize_int4")
def _quantize_int4(x: Tensor, group: int, transposed_scale: bool, scale_dtype: str,
                   rounding: str) -> tuple[Tensor, Tensor]:  # fmt: skip
    return quant.quantize_int4(x, group, transposed_scale=transposed_scale, scale_dtype=scale_dtype, rounding=rounding)


@fake(_quantize_int4)
def _(x: Tensor, group: int, transposed_scale: bool, scale_dtype: str, rounding: str) -> tuple[Tensor, Tensor]:
    m, n, groups = _rows(x), x.shape[-1], _groups(x.shape[-1], group)
    return (x.new_empty((*x.shape[:-1], n // 2), dtype=torch.uint8),
            x.new_empty((groups, m) if transposed_scale else (m, groups), dtype=_dtype(x, scale_dtype)))  # fmt: skip


@operator("dequantize_int4")
def _dequantize_int4(packed: Tensor, scale: Tensor, group: int, dtype: str, transposed_scale: bool) -> Tensor:
    return quant.dequantize_int4(packed, scale, group, dtype, transposed_scale=transposed_scale)


@fake(_dequantize_int4)
def _(packed: Tensor, scale: Tensor, group: int, dtype: str, transposed_scale: bool) -> Tensor:
    return packed.new_empty((*packed.shape[:-1], packed.shape[-1] * 2), dtype=_dtype(packed, dtype))


@operator("pack_int4")
def _pack_int4(values: Tensor) -> Tensor:
    return quant.pack_int4(values)


@fake(_pack_int4)
def _(values: Tensor) -> Tensor:
    return values.new_empty((*values.shape[:-1], values.shape[-1] // 2), dtype=torch.uint8)


@operator("unpack_int4")
def _unpack_int4(packed: Tensor) -> Tensor:
    return quant.unpack_int4(packed)


@fake(_unpack_int4)
def _(packed: Tensor) -> Tensor:
    return packed.new_empty((*packed.shape[:-1], packed.shape[-1] * 2), dtype=torch.int8)


@operator("quantize_mx")
def _quantize_mx(x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    return quant.quantize_mx(x, mode)


@fake(_quantize_mx)
def _(x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    n = x.shape[-1]
    return (x.new_empty((*x.shape[:-1], n // 2 if mode == "fp4" else n), dtype=torch.uint8),
            x.new_empty((*x.shape[:-1], n // 32), dtype=torch.uint8))  # fmt: skip


@operator("dequantize_mx")
def _dequantize_mx(q: Tensor, scale: Tensor, mode: str, dtype: str) -> Tensor:
    return quant.dequantize_mx(q, scale, mode, dtype)


@fake(_dequantize_mx)
def _(q: Tensor, scale: Tensor, mode: str, dtype: str) -> Tensor:
    n = q.shape[-1]
    return q.new_empty((*q.shape[:-1], n * 2 if mode == "fp4" else n), dtype=_dtype(q, dtype))
