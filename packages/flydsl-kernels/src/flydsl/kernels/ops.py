"""Functional forms of the kernels: arrays in, fresh arrays out.

Arrays are NumPy arrays or torch tensors. Torch tensors go through ``torch.ops.flydsl.*``, so that autograd, fake tensors
and ``torch.compile`` see one operator; NumPy arrays launch directly.
"""

from __future__ import annotations

from typing import Any

from .common.arrays import as_rows, empty, is_torch, launch
from .common.dtypes import FLOATS, dtype_name
from .elementwise import build_add_module
from .elementwise.add import VECTOR_BITS
from .norm import functional as _norm
from .norm.config import EPS
from .quant import functional as _quant
from .softmax import functional as _softmax

__all__ = [
    "add", "dequantize", "fused_add_layernorm", "fused_add_layernorm_quant", "fused_add_rmsnorm",
    "fused_add_rmsnorm_bwd", "fused_add_rmsnorm_fwd", "fused_add_rmsnorm_quant", "layernorm", "layernorm_bwd",
    "layernorm_fwd", "layernorm_quant", "quantize_per_block", "quantize_per_group", "quantize_per_tensor",
    "quantize_per_token", "rmsnorm", "rmsnorm_bwd", "rmsnorm_fwd", "rmsnorm_quant", "softmax", "softmax_bwd",
]  # fmt: skip


def _torch() -> Any:
    """The namespace ``torch.ops.flydsl``, registered."""
    import torch

    from . import torch_ops  # noqa: F401 - registers the operators

    return torch.ops.flydsl


def _differentiated(*arrays: Any) -> bool:
    import torch

    return torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arrays)


def add(a: Any, b: Any, *, stream: Any = None) -> Any:
    """``a + b`` for two row-major matrices of shape (rows, cols).

    Args:
        a, b: float32, float16 or bfloat16 matrices of equal shape and dtype; ``cols`` is a multiple of the elements
            in 128 bits (4 for float32, 8 for the 16-bit types).
        stream: where to launch; the default stream if None.

    Returns:
        A new array of the same kind, shape and dtype.

    Raises:
        TypeError: dtypes differ or are not supported.
        ValueError: shapes differ, are not two-dimensional, or are not supported.
    """
    dtype = dtype_name(a, "add")
    if dtype_name(b, "add") != dtype:
        raise TypeError(f"add: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"add: operands must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if len(a.shape) != 2:
        raise ValueError(f"add: operands must be matrices (rank 2), got rank {len(a.shape)}")
    vector = VECTOR_BITS // FLOATS[dtype].width
    if a.shape[1] % vector:
        raise ValueError(f"add: the number of columns must be a multiple of {vector} for {dtype}, got {a.shape[1]}")
    for name, operand in (("a", a), ("b", b)):
        contiguous = operand.is_contiguous() if is_torch(operand) else operand.flags["C_CONTIGUOUS"]
        if not contiguous:
            raise ValueError(f"add: operand {name} must be row-major contiguous")
    out = empty(a, tuple(a.shape), dtype)
    if 0 not in a.shape:
        launch(build_add_module(dtype), a, as_rows(a, "add"), as_rows(b, "add"), out, *a.shape, stream=stream)
    return out


# ------------------------------------------------------------------------------------------- softmax


def softmax(x: Any) -> Any:
    """Softmax over the last dimension, of any size; f32, f16 or bf16; differentiable in torch."""
    return _torch().softmax(x) if is_torch(x) else _softmax.softmax_fwd(x)


def softmax_bwd(dy: Any, y: Any) -> Any:
    """Gradient of :func:`softmax` from its output: ``y * (dy - sum(dy * y))``."""
    return _torch().softmax_bwd(dy, y) if is_torch(y) else _softmax.softmax_bwd(dy, y)


# ------------------------------------------------------------------------------------------- norms


def rmsnorm_fwd(x: Any, weight: Any, eps: float = EPS, store_rstd: bool = False) -> tuple[Any, Any]:
    """``(out, rstd)`` of RMS norm over the last dimension; rstd is f32 of ``x.shape[:-1]``, None unless asked for."""
    if not is_torch(x):
        return _norm.rmsnorm_fwd(x, weight, eps, store_rstd)
    out, rstd = _torch().rmsnorm_fwd(x, weight, eps, store_rstd)
    return out, rstd if store_rstd else None


def rmsnorm_bwd(x: Any, weight: Any, dout: Any, rstd: Any) -> tuple[Any, Any]:
    """``(dx, dw)``; dw has the weight's dtype."""
    return (_torch() if is_torch(x) else _norm).rmsnorm_bwd(x, weight, dout, rstd)


def rmsnorm(x: Any, weight: Any, eps: float = EPS) -> Any:
    """``x * rsqrt(mean(x**2) + eps) * weight`` over the last dimension; differentiable in torch."""
    if not is_torch(x):
        return _norm.rmsnorm_fwd(x, weight, eps)[0]
    return _torch().rmsnorm_fwd(x, weight, eps, _differentiated(x, weight))[0]


def fused_add_rmsnorm_fwd(x: Any, residual: Any, weight: Any, eps: float = EPS) -> tuple[Any, Any, Any]:
    """``(out, residual_out, rstd)``: ``residual_out = x + residual`` rounded, out its RMS norm."""
    run = _torch().fused_add_rmsnorm_fwd if is_torch(x) else _norm.fused_add_rmsnorm_fwd
    return run(x, residual, weight, eps)


def fused_add_rmsnorm_bwd(added: Any, weight: Any, dout: Any, rstd: Any, dresidual_out: Any = None) -> tuple:
    """``(dx, dx, dw)``: gradients of input and residual are one tensor; `added` is the forward's residual_out."""
    if not is_torch(added):
        return _norm.fused_add_rmsnorm_bwd(added, weight, dout, rstd, dresidual_out)
    dx, dw = _torch().fused_add_rmsnorm_bwd(added, weight, dout, rstd, dresidual_out)
    return dx, dx, dw


def fused_add_rmsnorm(x: Any, residual: Any, weight: Any, eps: float = EPS, prenorm: bool = True) -> Any:
    """``(out, residual_out)`` with `prenorm`, else out; differentiable in torch."""
    out, residual_out, _ = fused_add_rmsnorm_fwd(x, residual, weight, eps)
    return (out, residual_out) if prenorm else out


def layernorm_fwd(x: Any, weight: Any, bias: Any, eps: float = EPS, store_stats: bool = False) -> tuple:
    """``(out, mean, rstd)`` of layer norm over the last dimension; the f32 statistics are None unless asked for."""
    if not is_torch(x):
        return _norm.layernorm_fwd(x, weight, bias, eps, store_stats)
    out, mean, rstd = _torch().layernorm_fwd(x, weight, bias, eps, store_stats)
    return (out, mean, rstd) if store_stats else (out, None, None)


def layernorm_bwd(x: Any, weight: Any, dout: Any, mean: Any, rstd: Any) -> tuple[Any, Any, Any]:
    """``(dx, dw, db)``; dw and db have the weight's dtype."""
    return (_torch() if is_torch(x) else _norm).layernorm_bwd(x, weight, dout, mean, rstd)


def layernorm(x: Any, weight: Any, bias: Any, eps: float = EPS) -> Any:
    """``(x - mean) * rsqrt(var + eps) * weight + bias`` over the last dimension; differentiable in torch."""
    if not is_torch(x):
        return _norm.layernorm_fwd(x, weight, bias, eps)[0]
    return _torch().layernorm_fwd(x, weight, bias, eps, _differentiated(x, weight, bias))[0]


def fused_add_layernorm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = EPS) -> tuple[Any, Any]:
    """``(out, residual_out)``: ``residual_out = x + residual`` rounded, out its layer norm."""
    run = _torch().fused_add_layernorm_fwd if is_torch(x) else _norm.fused_add_layernorm_fwd
    return run(x, residual, weight, bias, eps)


def rmsnorm_quant(x: Any, weight: Any, x_scale: Any = None, quant_dtype: str = "i8", eps: float = EPS) -> tuple:
    """``(q, scale)`` of the RMS norm, times ``x_scale[n]`` if given; ``"i8"`` or ``"fp8"``, one f32 scale a row."""
    run = _torch() if is_torch(x) else _norm
    return run.rmsnorm_quant(x, weight, x_scale, quant_dtype, eps)


def fused_add_rmsnorm_quant(x: Any, residual: Any, weight: Any, x_scale: Any = None, quant_dtype: str = "i8",
                            eps: float = EPS) -> tuple:  # fmt: skip
    """``(q, residual_out, scale)``."""
    run = _torch() if is_torch(x) else _norm
    return run.fused_add_rmsnorm_quant(x, residual, weight, x_scale, quant_dtype, eps)


def layernorm_quant(x: Any, weight: Any, bias: Any, x_scale: Any = None, quant_dtype: str = "i8",
                    eps: float = EPS) -> tuple:  # fmt: skip
    """``(q, scale)`` of the layer norm, times ``x_scale[n]`` if given."""
    run = _torch() if is_torch(x) else _norm
    return run.layernorm_quant(x, weight, bias, x_scale, quant_dtype, eps)


def fused_add_layernorm_quant(x: Any, residual: Any, weight: Any, bias: Any, x_scale: Any = None,
                              quant_dtype: str = "i8", eps: float = EPS) -> tuple:  # fmt: skip
    """``(q, residual_out, scale)``."""
    run = _torch() if is_torch(x) else _norm
    return run.fused_add_layernorm_quant(x, residual, weight, bias, x_scale, quant_dtype, eps)


# ------------------------------------------------------------------------------------------- quantisation


def quantize_per_token(x: Any, quant_dtype: str = "i8") -> tuple[Any, Any]:
    """``(q, scale)``: one f32 scale of shape ``x.shape[:-1]`` a row, ``max|x| / Qmax`` (1 for a zero row)."""
    return (_torch() if is_torch(x) else _quant).quantize_per_token(x, quant_dtype)


def quantize_per_group(x: Any, quant_dtype: str = "fp8", *, transposed_scale: bool = False) -> tuple[Any, Any]:
    """``(q, scale)`` with a scale per row and 128 columns: f32 (m, n/128), or (n/128, m) transposed."""
    if is_torch(x):
        return _torch().quantize_per_group(x, quant_dtype, transposed_scale)
    return _quant.quantize_per_group(x, quant_dtype, transposed_scale=transposed_scale)


def quantize_per_block(x: Any, quant_dtype: str = "fp8") -> tuple[Any, Any]:
    """``(q, scale)`` with a scale per 128 x 128 block: f32 (ceil(m/128), ceil(n/128))."""
    return (_torch() if is_torch(x) else _quant).quantize_per_block(x, quant_dtype)


def quantize_per_tensor(x: Any, quant_dtype: str = "fp8") -> tuple[Any, Any]:
    """``(q, scale[1])`` with one scale."""
    return _torch().quantize_per_tensor(x, quant_dtype) if is_torch(x) else _quant.quantize_per_tensor(
        x, None, quant_dtype)  # fmt: skip


def dequantize(q: Any, scale: Any, dtype: str = "f32") -> Any:
    """``q * scale`` in `dtype`: a scale for all, per row, or per row and equal group of columns."""
    return (_torch() if is_torch(q) else _quant).dequantize(q, scale, dtype)
