"""Norms of arrays (NumPy or torch): fresh arrays out. Rows are the last dimension."""

from __future__ import annotations

from typing import Any

from ..common.arrays import as_rows, empty, launch, statistic, vector, zeros
from ..common.dtypes import dtype_name
from . import backward as bwd
from . import layer_builders as ln
from . import rms_builders as rms
from .config import EPS

__all__ = [
    "fused_add_layernorm_fwd", "fused_add_layernorm_quant", "fused_add_rmsnorm_bwd", "fused_add_rmsnorm_fwd",
    "fused_add_rmsnorm_quant", "layernorm_bwd", "layernorm_fwd", "layernorm_quant", "rmsnorm_bwd", "rmsnorm_fwd",
    "rmsnorm_quant",
]  # fmt: skip


def _rows(where: str, x: Any, *others: Any) -> tuple[str, int, int, list[Any]]:
    dtype = dtype_name(x, where)
    for other in others:
        if dtype_name(other, where) != dtype or tuple(other.shape) != tuple(x.shape):
            raise ValueError(f"{where}: operands must have one shape and dtype, got {tuple(x.shape)} {x.dtype} and "
                             f"{tuple(other.shape)} {other.dtype}")  # fmt: skip
    matrices = [as_rows(a, where) for a in (x, *others)]
    m, n = matrices[0].shape
    return dtype, m, n, matrices


def _bias(where: str, bias: Any, n: int, dtype: str, weight_dtype: str) -> Any:
    bias, bias_dtype = vector(bias, n, dtype, f"{where}: bias")
    if bias_dtype != weight_dtype:
        raise TypeError(f"{where}: weight and bias must have one dtype, got {weight_dtype} and {bias_dtype}")
    return bias


def _outer(x: Any) -> tuple[int, ...]:
    return tuple(x.shape[:-1])


def rmsnorm_fwd(x: Any, weight: Any, eps: float = EPS, store_rstd: bool = False, *, stream: Any = None) -> tuple:
    """``(out, rstd)`` of RMS norm over the last dimension; rstd is f32 of shape ``x.shape[:-1]``, or None.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not agree.
    """
    dtype, m, n, (rows,) = _rows("rmsnorm", x)
    weight, weight_dtype = vector(weight, n, dtype, "rmsnorm: weight")
    out = empty(x, tuple(x.shape), dtype)
    rstd = empty(x, _outer(x), "f32") if store_rstd else None
    if 0 not in x.shape:
        run = rms.build_rmsnorm_module(n, dtype, store_rstd, eps, weight_dtype_str=weight_dtype)
        extra = () if rstd is None else (rstd.reshape(m),)
        launch(run, x, rows, weight, out, *extra, m, stream=stream)
    return out, rstd


def fused_add_rmsnorm_fwd(x: Any, residual: Any, weight: Any, eps: float = EPS, store_rstd: bool = True, *,
                          stream: Any = None) -> tuple:  # fmt: skip
    """``(out, residual_out, rstd)``: ``residual_out = x + residual`` rounded, out its RMS norm."""
    dtype, m, n, (rows, res) = _rows("fused_add_rmsnorm", x, residual)
    weight, weight_dtype = vector(weight, n, dtype, "fused_add_rmsnorm: weight")
    out, res_out = (empty(x, tuple(x.shape), dtype) for _ in range(2))
    rstd = empty(x, _outer(x), "f32") if store_rstd else None
    if 0 not in x.shape:
        run = rms.build_fused_add_rmsnorm_module(n, dtype, store_rstd, eps, weight_dtype)
        extra = () if rstd is None else (rstd.reshape(m),)
        launch(run, x, rows, res, weight, out, res_out, *extra, m, stream=stream)
    return out, res_out, rstd


def _rmsnorm_bwd(where: str, x: Any, weight: Any, dout: Any, rstd: Any, dres: Any, stream: Any) -> tuple:
    fused = dres is not None
    dtype, m, n, mats = _rows(where, x, dout, *((dres,) if fused else ()))
    weight, weight_dtype = vector(weight, n, dtype, f"{where}: weight")
    rstd = statistic(rstd, _outer(x), f"{where}: rstd")
    dx = empty(x, tuple(x.shape), dtype)
    if 0 in x.shape:
        return dx, zeros(x, (n,), weight_dtype)
    operands = [mats[0], weight, mats[1], *mats[2:], rstd]
    programs = bwd.rmsnorm_bwd_programs(m, n, dtype)
    if programs:
        build = bwd.build_fused_add_rmsnorm_bwd_two_stage_module if fused else bwd.build_rmsnorm_bwd_two_stage_module
        dw, scratch = empty(x, (n,), weight_dtype), empty(x, (programs * n,), "f32")
        launch(build(n, dtype, programs, weight_dtype), x, *operands, dx, dw, scratch, m, stream=stream)
        return dx, dw
    build = bwd.build_fused_add_rmsnorm_bwd_module if fused else bwd.build_rmsnorm_bwd_module
    dw = zeros(x, (n,), "f32")
    launch(build(n, dtype, weight_dtype), x, *operands, dx, dw, m, stream=stream)
    return dx, dw if weight_dtype == "f32" else _cast(dw, weight)


def _cast(array: Any, like: Any) -> Any:
    return array.to(like.dtype) if hasattr(array, "new_empty") else array.astype(like.dtype)


def rmsnorm_bwd(x: Any, weight: Any, dout: Any, rstd: Any, *, stream: Any = None) -> tuple:
    """``(dx, dw)`` from the forward's input and rstd; dw has the weight's dtype."""
    return _rmsnorm_bwd("rmsnorm_bwd", x, weight, dout, rstd, None, stream)


def fused_add_rmsnorm_bwd(added: Any, weight: Any, dout: Any, rstd: Any, dresidual_out: Any = None, *,
                          stream: Any = None) -> tuple:  # fmt: skip
    """``(dx, dx, dw)``: gradients of input and residual are one tensor. `added` is the forward's residual_out."""
    dx, dw = _rmsnorm_bwd("fused_add_rmsnorm_bwd", added, weight, dout, rstd, dresidual_out, stream)
    return dx, dx, dw


def layernorm_fwd(x: Any, weight: Any, bias: Any, eps: float = EPS, store_stats: bool = False, *,
                  stream: Any = None) -> tuple:  # fmt: skip
    """``(out, mean, rstd)`` of layer norm over the last dimension; statistics are f32 of ``x.shape[:-1]``, or None."""
    dtype, m, n, (rows,) = _rows("layernorm", x)
    weight, weight_dtype = vector(weight, n, dtype, "layernorm: weight")
    bias = _bias("layernorm", bias, n, dtype, weight_dtype)
    out = empty(x, tuple(x.shape), dtype)
    mean, rstd = (empty(x, _outer(x), "f32") if store_stats else None for _ in range(2))
    if 0 not in x.shape:
        run = ln.build_layernorm_module(n, dtype, store_stats, eps, weight_dtype_str=weight_dtype)
        extra = () if mean is None or rstd is None else (mean.reshape(m), rstd.reshape(m))
        launch(run, x, rows, weight, bias, out, *extra, m, stream=stream)
    return out, mean, rstd


def layernorm_bwd(x: Any, weight: Any, dout: Any, mean: Any, rstd: Any, *, stream: Any = None) -> tuple:
    """``(dx, dw, db)``; dw and db have the weight's dtype."""
    dtype, m, n, (rows, dy) = _rows("layernorm_bwd", x, dout)
    weight, weight_dtype = vector(weight, n, dtype, "layernorm_bwd: weight")
    mean, rstd = (statistic(a, _outer(x), f"layernorm_bwd: {k}") for k, a in (("mean", mean), ("rstd", rstd)))
    dx, dw, db = empty(x, tuple(x.shape), dtype), zeros(x, (n,), "f32"), zeros(x, (n,), "f32")
    if 0 not in x.shape:
        run = bwd.build_layernorm_bwd_module(n, dtype, weight_dtype_str=weight_dtype)
        launch(run, x, rows, weight, dy, mean, rstd, dx, dw, db, m, stream=stream)
    return (dx, dw, db) if weight_dtype == "f32" else (dx, _cast(dw, weight), _cast(db, weight))


def fused_add_layernorm_fwd(x: Any, residual: Any, weight: Any, bias: Any, eps: float = EPS, *,
                            stream: Any = None) -> tuple:  # fmt: skip
    """``(out, residual_out)``: ``residual_out = x + residual`` rounded, out its layer norm."""
    dtype, m, n, (rows, res) = _rows("fused_add_layernorm", x, residual)
    weight, weight_dtype = vector(weight, n, dtype, "fused_add_layernorm: weight")
    bias = _bias("fused_add_layernorm", bias, n, dtype, weight_dtype)
    out, res_out = (empty(x, tuple(x.shape), dtype) for _ in range(2))
    if 0 not in x.shape:
        run = ln.build_fused_add_layernorm_module(n, dtype, eps=eps, weight_dtype_str=weight_dtype)
        launch(run, x, rows, res, weight, bias, out, res_out, m, stream=stream)
    return out, res_out


def _quantised(where: str, builders: tuple[Any, Any], x: Any, residual: Any, vectors: list[Any], x_scale: Any,
               quant: str, eps: float, stream: Any) -> tuple:  # fmt: skip
    fused, smooth = residual is not None, x_scale is not None
    dtype, m, n, mats = _rows(where, x, *((residual,) if fused else ()))
    weight, weight_dtype = vector(vectors[0], n, dtype, f"{where}: weight")
    vectors = [weight, *(_bias(where, bias, n, dtype, weight_dtype) for bias in vectors[1:])]
    out, scale = empty(x, tuple(x.shape), quant), empty(x, _outer(x), "f32")
    res_out = empty(x, tuple(x.shape), dtype) if fused else None
    if smooth:
        vectors = [*vectors, vector(x_scale, n, dtype, f"{where}: x_scale")[0]]
    if 0 not in x.shape:
        run = builders[smooth](n, dtype, quant, eps=eps, weight_dtype_str=weight_dtype)
        outs = (out, res_out, scale.reshape(m)) if fused else (out, scale.reshape(m))
        launch(run, x, *mats, *vectors, *outs, m, stream=stream)
    return (out, res_out, scale) if fused else (out, scale)


def rmsnorm_quant(x: Any, weight: Any, x_scale: Any = None, quant: str = "i8", eps: float = EPS, *,
                  stream: Any = None) -> tuple:  # fmt: skip
    """``(q, scale)`` of the RMS norm, times ``x_scale[n]`` if given; quant is ``"i8"`` or ``"fp8"``."""
    builders = (rms.build_rmsnorm_dynamicquant_module, rms.build_rmsnorm_smoothquant_module)
    return _quantised("rmsnorm_quant", builders, x, None, [weight], x_scale, quant, eps, stream)


def fused_add_rmsnorm_quant(x: Any, residual: Any, weight: Any, x_scale: Any = None, quant: str = "i8",
                            eps: float = EPS, *, stream: Any = None) -> tuple:  # fmt: skip
    """``(q, residual_out, scale)``."""
    builders = (rms.build_fused_add_rmsnorm_dynamicquant_module, rms.build_fused_add_rmsnorm_smoothquant_module)
    return _quantised("fused_add_rmsnorm_quant", builders, x, residual, [weight], x_scale, quant, eps, stream)


def layernorm_quant(x: Any, weight: Any, bias: Any, x_scale: Any = None, quant: str = "i8", eps: float = EPS, *,
                    stream: Any = None) -> tuple:  # fmt: skip
    """``(q, scale)`` of the layer norm, times ``x_scale[n]`` if given."""
    builders = (ln.build_layernorm_dynamicquant_module, ln.build_layernorm_smoothquant_module)
    return _quantised("layernorm_quant", builders, x, None, [weight, bias], x_scale, quant, eps, stream)


def fused_add_layernorm_quant(x: Any, residual: Any, weight: Any, bias: Any, x_scale: Any = None, quant: str = "i8",
                              eps: float = EPS, *, stream: Any = None) -> tuple:  # fmt: skip
    """``(q, residual_out, scale)``."""
    builders = (ln.build_fused_add_layernorm_dynamicquant_module, ln.build_fused_add_layernorm_smoothquant_module)
    return _quantised("fused_add_layernorm_quant", builders, x, residual, [weight, bias], x_scale, quant, eps, stream)
