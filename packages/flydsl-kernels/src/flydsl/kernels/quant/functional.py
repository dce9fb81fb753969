"""Quantisation of arrays: fresh arrays out. fp8 results need torch tensors."""

from __future__ import annotations

from typing import Any

from ..common.arrays import as_rows, empty, launch, zeros
from ..common.dtypes import dtype_name
from . import builders as b
from .kernels import GROUP

__all__ = ["dequantize", "quantize_per_block", "quantize_per_group", "quantize_per_tensor", "quantize_per_token"]


def quantize_per_token(x: Any, quant: str = "i8", *, rounding: str = "nearest", stream: Any = None) -> tuple:
    """``(q, scale)``: one f32 scale of shape ``x.shape[:-1]`` a row, ``max|x| / Qmax`` (1 for a zero row).

    Args:
        x: f32, f16 or bf16 of any shape.
        quant: ``"i8"``, or ``"fp8"`` in the architecture's variant.
        rounding: of int8, ``"nearest"`` or ``"trunc"``.
    """
    dtype, rows = dtype_name(x, "quantize_per_token"), as_rows(x, "quantize_per_token")
    q, scale = empty(x, tuple(x.shape), quant), empty(x, tuple(x.shape[:-1]), "f32")
    if 0 not in x.shape:
        m, n = rows.shape
        run, _ = b.build_quant_module(n, dtype, quant, rounding=rounding)
        launch(run, x, rows, q, scale.reshape(m), m, stream=stream)
    return q, scale


def quantize_per_group(x: Any, quant: str = "fp8", *, transposed_scale: bool = False, stream: Any = None) -> tuple:
    """``(q, scale)`` of a matrix with a scale per row and 128 columns: f32 (m, n/128), or (n/128, m) transposed."""
    dtype, rows = dtype_name(x, "quantize_per_group"), as_rows(x, "quantize_per_group")
    m, n = rows.shape
    run = b.build_per_group_quant_module(n, dtype, quant, transposed_scale=transposed_scale)
    q = empty(x, tuple(x.shape), quant)
    scale = empty(x, (n // GROUP, m) if transposed_scale else (m, n // GROUP), "f32")
    if m:
        launch(run, x, rows, q, scale, m, stream=stream)
    return q, scale


def quantize_per_block(x: Any, quant: str = "fp8", *, stream: Any = None) -> tuple:
    """``(q, scale)`` of a matrix with a scale per 128 x 128 block: f32 (ceil(m/128), ceil(n/128))."""
    dtype, rows = dtype_name(x, "quantize_per_block"), as_rows(x, "quantize_per_block")
    m, n = rows.shape
    q, scale = empty(x, tuple(x.shape), quant), empty(x, (-(-m // GROUP), -(-n // GROUP)), "f32")
    if 0 not in x.shape:
        launch(b.build_per_block_quant_module(n, dtype, quant), x, rows, q, scale, m, stream=stream)
    return q, scale


def quantize_per_tensor(x: Any, scale: Any = None, quant: str = "fp8", *, stream: Any = None) -> tuple:
    """``(q, scale[1])``: by the given f32 scale, or by ``max|x| / Qmax``."""
    dtype, rows = dtype_name(x, "quantize_per_tensor"), as_rows(x, "quantize_per_tensor")
    q, amax, dynamic = empty(x, tuple(x.shape), quant), zeros(x, (1,), "f32"), scale is None
    scale = empty(x, (1,), "f32") if dynamic else scale.reshape(1)
    if 0 not in x.shape:
        m, n = rows.shape
        run = b.build_per_tensor_quant_module(n, dtype, quant, dynamic=dynamic)
        launch(run, x, rows, q, scale, amax, m, stream=stream)
    return q, scale


def dequantize(q: Any, scale: Any, dtype: str = "f32", *, stream: Any = None) -> Any:
    """``q * scale`` in `dtype`: a scale for all (one element), per row, or per row and equal group of columns."""
    quant, rows = dtype_name(q, "dequantize", ("i8", "fp8")), as_rows(q, "dequantize")
    m, n = rows.shape
    count = int(scale.numel() if hasattr(scale, "numel") else scale.size)
    per_tensor = count == 1
    groups = 1 if per_tensor else count // max(m, 1)
    if not per_tensor and (groups * m != count or groups == 0 or n % groups):
        raise ValueError(f"dequantize: {count} scales do not fit a matrix of {m} x {n}")
    out = empty(q, tuple(q.shape), dtype)
    if 0 not in q.shape:
        run = b.build_dequant_module(n // groups, dtype, quant, per_tensor=per_tensor)
        launch(run, q, rows, scale.reshape(count), out, m * groups, stream=stream)
    return out
