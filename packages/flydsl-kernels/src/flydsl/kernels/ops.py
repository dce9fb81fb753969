"""Functional forms of the kernels: arrays in, fresh arrays out.

Arrays are NumPy arrays or torch tensors. Torch tensors go through ``torch.ops.flydsl.*``, so that autograd, fake
tensors and ``torch.compile`` see one operator; NumPy arrays launch directly.
"""

from __future__ import annotations

from typing import Any

from .common.arrays import is_torch
from .elementwise import functional as _elementwise
from .moe import functional as _moe
from .norm import functional as _norm
from .norm.config import EPS
from .quant import functional as _quant
from .softmax import functional as _softmax

__all__ = [
    "add", "blockscale_gemm", "dequantize", "dequantize_int4", "dequantize_mx", "fused_add_layernorm",
    "fused_add_layernorm_quant", "fused_add_rmsnorm", "fused_add_rmsnorm_bwd", "fused_add_rmsnorm_fwd",
    "fused_add_rmsnorm_quant", "gemm", "layernorm", "layernorm_bwd", "layernorm_fwd", "layernorm_quant", "linear",
    "mx_gemm", "pack_int4", "preshuffle_gemm", "quantize_int4", "quantize_mx", "quantize_per_block",
    "quantize_per_group", "quantize_per_tensor", "quantize_per_token", "rmsnorm", "rmsnorm_bwd", "rmsnorm_fwd",
    "rmsnorm_quant", "scaled_gemm", "softmax", "softmax_bwd", "topk_gating_softmax", "unpack_int4",
]  # fmt: skip


def _torch() -> Any:
    """The namespace ``torch.ops.flydsl``, registered."""
    import torch

    from . import torch_ops  # noqa: F401 - registers the operators

    return torch.ops.flydsl


def _autocast(*arrays: Any) -> tuple[Any, ...]:
    """The floating-point operands of a matrix product in the dtype of torch's autocast, where that is on."""
    import torch

    kind = arrays[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return arrays
    dtype = torch.get_autocast_dtype(kind)
    return tuple(a.to(dtype) if a is not None and a.is_floating_point() else a for a in arrays)


def _differentiated(*arrays: Any) -> bool:
    import torch

    return torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arrays)


def add(a: Any, b: Any, *, stream: Any = None) -> Any:
    """``a + b`` for two row-major matrices of shape (rows, cols); differentiable in torch (without `stream`).

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
    if is_torch(a) and is_torch(b) and stream is None:
        return _torch().add(a, b)
    return _elementwise.add(a, b, stream=stream)


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


def _vector(x: Any, weight: Any, value: float, like: Any = None) -> Any:
    """The weight, or where it is None a vector of `value` of the dtype of `like` (of x by default)."""
    return x.new_full(x.shape[-1:], value, dtype=(x if like is None else like).dtype) if weight is None else weight


def rmsnorm(x: Any, weight: Any, eps: float = EPS) -> Any:
    """``x * rsqrt(mean(x**2) + eps) * weight`` over the last dimension; differentiable in torch.

    Without a weight (None, torch only) it is all ones.
    """
    if not is_torch(x):
        return _norm.rmsnorm_fwd(x, weight, eps)[0]
    weight = _vector(x, weight, 1.0)
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
    """``(x - mean) * rsqrt(var + eps) * weight + bias`` over the last dimension; differentiable in torch.

    Without a weight or bias (None, torch only) it is all ones or zeros.
    """
    if not is_torch(x):
        return _norm.layernorm_fwd(x, weight, bias, eps)[0]
    weight = _vector(x, weight, 1.0, bias)
    bias = _vector(x, bias, 0.0, weight)
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
    """``(q, scale)`` with a scale per row and 128 columns: f32 (m, ceil(n/128)), or its transpose."""
    if is_torch(x):
        return _torch().quantize_per_group(x, quant_dtype, transposed_scale)
    return _quant.quantize_per_group(x, quant_dtype, transposed_scale=transposed_scale)


def quantize_per_block(x: Any, quant_dtype: str = "fp8") -> tuple[Any, Any]:
    """``(q, scale)`` with a scale per 128 x 128 block: f32 (ceil(m/128), ceil(n/128))."""
    return (_torch() if is_torch(x) else _quant).quantize_per_block(x, quant_dtype)


def quantize_per_tensor(x: Any, quant_dtype: str = "fp8", scale: Any = None) -> tuple[Any, Any]:
    """``(q, scale[1])`` with one scale: the given one (a number or one f32), or ``max|x| / Qmax``."""
    if is_torch(x):
        if isinstance(scale, int | float):
            scale = x.new_full((1,), scale, dtype=_torch_dtype("f32"))
        return _torch().quantize_per_tensor(x, quant_dtype, scale)
    return _quant.quantize_per_tensor(x, scale, quant_dtype)


def dequantize(q: Any, scale: Any, dtype: str = "f32", granularity: str = "") -> Any:
    """``q * scale`` in `dtype`, of int8 or fp8: a scale for all, per row, per row and group of columns (128, or equal
    groups), or per 128 x 128 block, by the shape of `scale`.

    Where the shape fits two of them (a ValueError), say which: ``"tensor"``, ``"token"``, ``"group"`` or ``"block"``.
    """
    return (_torch() if is_torch(q) else _quant).dequantize(q, scale, dtype, granularity)


def quantize_int4(x: Any, group: int = 32, *, transposed_scale: bool = False, scale_dtype: str = "f32",
                  rounding: str = "nearest") -> tuple[Any, Any]:  # fmt: skip
    """``(packed, scale)``: int4 (..., n/2) bytes in the order of :func:`pack_int4`, a scale per row and `group` columns
    (0: per row), f32 or bf16 (m, ceil(n/group)) or its transpose, of ``max|x| / 7``."""
    if is_torch(x):
        return _torch().quantize_int4(x, group, transposed_scale, scale_dtype, rounding)
    return _quant.quantize_int4(x, group, transposed_scale=transposed_scale, scale_dtype=scale_dtype,
                                rounding=rounding)  # fmt: skip


def dequantize_int4(packed: Any, scale: Any, group: int = 32, dtype: str = "f32", *,
                    transposed_scale: bool = False) -> Any:  # fmt: skip
    """Values (..., n) in `dtype` of what :func:`quantize_int4` gave."""
    if is_torch(packed):
        return _torch().dequantize_int4(packed, scale, group, dtype, transposed_scale)
    return _quant.dequantize_int4(packed, scale, group, dtype, transposed_scale=transposed_scale)


def pack_int4(values: Any) -> Any:
    """int8 values -8..7 (..., n) as bytes (..., n/2): of eight, byte j holds j (low half) and j + 4 (high half).

    What is packed from a torch tensor made by ``shuffle_weight`` is a weight for :func:`preshuffle_gemm`.
    """
    if not is_torch(values):
        return _quant.pack_int4(values)
    from .gemm.layouts import tag_packed

    return tag_packed(_torch().pack_int4(values), values)


def unpack_int4(packed: Any) -> Any:
    """The int8 values (..., n) of packed bytes (..., n/2)."""
    return (_torch() if is_torch(packed) else _quant).unpack_int4(packed)


def quantize_mx(x: Any, mode: str = "fp4") -> tuple[Any, Any]:
    """``(bytes, scale)`` of bf16 (..., n) on gfx950: packed e2m1 (..., n/2) or e4m3fn (..., n), e8m0 (..., n/32)."""
    return (_torch() if is_torch(x) else _quant).quantize_mx(x, mode)


def dequantize_mx(q: Any, scale: Any, mode: str = "fp4", dtype: str = "bf16") -> Any:
    """Values (..., n) in `dtype` of microscaled bytes, ``"fp4"`` or ``"fp8"``, with e8m0 scales; any architecture."""
    return (_torch() if is_torch(q) else _quant).dequantize_mx(q, scale, mode, dtype)


# ------------------------------------------------------------------------------------------- GEMM, gating


def _torch_dtype(dtype: Any) -> Any:
    """A torch dtype of it or its name; None stays."""
    import torch

    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    from .common.dtypes import FLOATS

    names = dict(zip(FLOATS, (torch.float32, torch.float16, torch.bfloat16), strict=True))
    found = names.get(str(dtype)) or getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"gemm: out_dtype {dtype!r} is not a dtype")
    return found


def gemm(a: Any, b: Any, bias: Any = None, layout: str = "nt", out_dtype: Any = None) -> Any:
    """``op(a) op(b) + bias`` of f16 or bf16 matrices with f32 accumulation; differentiable in torch.

    A letter of `layout` per operand: ``n`` stored as it is (M x K, K x N), ``t`` stored transposed. "nt" is the usual
    (M, K) activations with a weight (N, K). `out_dtype` float32 gives an f32 result. Operands follow torch's autocast.
    """
    if is_torch(a):
        return _torch().gemm(*_autocast(a, b, bias), layout, _torch_dtype(out_dtype))
    from .gemm.dense import gemm_a16w16

    return gemm_a16w16(a, b, None, bias, layout=layout, out_dtype=out_dtype)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x weight^T + bias`` of f16 or bf16 torch tensors, x (..., K), weight (N, K).

    Differentiable. Where no gradient is wanted and the size allows it, the preshuffle GEMM runs with a shuffled copy of
    the weight, which is made again when the weight changes. Operands follow torch's autocast.
    """
    given = weight
    x, weight, bias = _autocast(x, weight, bias)
    if _differentiated(x, weight, bias) or weight is not given:  # a converted weight is a new tensor every time
        return _torch().linear(x, weight, bias)
    return _torch().linear_inference(x, weight, bias)


def preshuffle_gemm(a: Any, b: Any, scale_a: Any = None, scale_b: Any = None, bias: Any = None,
                    activation: str = "none", out_dtype: Any = None) -> Any:  # fmt: skip
    """``act(a b^T * scale_a[row] * scale_b[column] + bias)`` with a weight made by ``shuffle_weight``, for int8
    activations also ``pack_int4(shuffle_weight(w))``."""
    import torch

    return _torch().preshuffle_gemm(a, b, scale_a, scale_b, bias, activation, out_dtype or torch.bfloat16)


def blockscale_gemm(a: Any, b: Any, scale_a: Any, scale_b: Any, out_dtype: Any = None) -> Any:
    """fp8 GEMM with scales f32 (K/128, M) of a and (ceil(N/128), K/128) of the shuffled weight b."""
    import torch

    return _torch().blockscale_gemm(a, b, scale_a, scale_b, out_dtype or torch.bfloat16)


def scaled_gemm(a: Any, b: Any, scale_a: Any, scale_b: Any, out_dtype: Any = None) -> Any:
    """``(a b^T) * scale_a[row] * scale_b[column]`` of fp8 torch tensors (..., K) and (N, K) with a plain weight."""
    import torch

    return _torch().scaled_gemm(a, b, scale_a, scale_b, out_dtype or torch.bfloat16)


def mx_gemm(a: Any, b: Any, scale_a: Any, scale_b: Any, a_dtype: str = "fp4", b_dtype: str = "fp4",
            out_dtype: Any = None) -> Any:  # fmt: skip
    """Product of microscaled torch tensors on gfx950 and gfx1250: bytes (..., K/2) or (..., K) and a plain weight
    (N, K/2) or (N, K), with e8m0 scales (..., K/32) and (N, K/32), as :func:`quantize_mx` gives them."""
    import torch

    return _torch().mx_gemm(a, b, scale_a, scale_b, a_dtype, b_dtype, out_dtype or torch.bfloat16)


def topk_gating_softmax(gating: Any, topk: int, renormalize: bool = True) -> tuple[Any, Any, Any]:
    """``(weights, indices, token_expert_indices)`` of (tokens, E) values; of equal ones the lower expert first."""
    run = _torch() if is_torch(gating) else _moe
    return run.topk_gating_softmax(gating, topk, renormalize)
