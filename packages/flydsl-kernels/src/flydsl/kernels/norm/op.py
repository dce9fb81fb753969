"""Norms of arrays. Rows are the last dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..host.arrays import allocate, as_rows, copy_into, flat_of, is_torch, vector
from ..host.dtypes import dtype_name, float_dtype
from ..host.models import Model
from ..op import Form, Gradient, Op, Plan, hidden_rows, like
from ..op import statistic as per_row
from ..target import Target
from . import backward as bwd
from . import layer_builders as ln
from . import reference
from . import rms_builders as rms
from .config import EPS

__all__ = ["OPS"]

F32 = 4
OFFSET = 0.25  # of the weight, in samples


# ------------------------------------------------------------------------------------------- operands


def _rows(where: str, x: Any, *others: Any) -> tuple[str, int, int, list[Any]]:
    """dtype, rows, columns, and the matrices."""
    dtype = dtype_name(x, where)
    for other in others:
        if dtype_name(other, where) != dtype or tuple(other.shape) != tuple(x.shape):
            raise ValueError(f"{where}: operands must have one shape and dtype, got {tuple(x.shape)} {x.dtype} and "
                             f"{tuple(other.shape)} {other.dtype}")
    matrices = [as_rows(a, where) for a in (x, *others)]
    m, n = matrices[0].shape
    return dtype, m, n, matrices


def _vectors(where: str, n: int, dtype: str, weight: Any, bias: Any = None) -> tuple[list[Any], str]:
    """Weight and bias, if there is one, and their dtype."""
    weight, name = vector(weight, n, dtype, f"{where}: weight")
    if bias is None:
        return [weight], name
    bias, bias_name = vector(bias, n, dtype, f"{where}: bias")
    if bias_name != name:
        raise TypeError(f"{where}: weight and bias must have one dtype, got {name} and {bias_name}")
    return [weight, bias], name


def _flat(array: Any) -> Any:
    return array.reshape(-1)


# ------------------------------------------------------------------------------------------- forward


def _plan_rmsnorm(target: Target, x: Any, weight: Any, eps: float, store_rstd: bool, offset: float) -> Plan | None:
    dtype, m, n, (rows,) = _rows("rmsnorm", x)
    vectors, kind = _vectors("rmsnorm", n, dtype, weight)
    if 0 in x.shape:
        return None
    return Plan(lambda: rms.build_rmsnorm_module(n, dtype, store_rstd, eps, weight_dtype_str=kind,
                                                 weight_offset=offset, target=target),
                lambda out, rstd: (rows, *vectors, out, *((_flat(rstd),) if store_rstd else ()), m), by_rows=True)


def _plan_layernorm(target: Target, x: Any, weight: Any, bias: Any, eps: float, store_stats: bool) -> Plan | None:
    dtype, m, n, (rows,) = _rows("layernorm", x)
    vectors, kind = _vectors("layernorm", n, dtype, weight, bias)
    if 0 in x.shape:
        return None
    return Plan(lambda: ln.build_layernorm_module(n, dtype, store_stats, eps, weight_dtype_str=kind, target=target),
                lambda out, *stats: (rows, *vectors, out, *(map(_flat, stats) if store_stats else ()), m), by_rows=True)


def _plan_fused_rmsnorm(target: Target, x: Any, residual: Any, weight: Any, eps: float, offset: float) -> Plan | None:
    dtype, m, n, matrices = _rows("fused_add_rmsnorm", x, residual)
    vectors, kind = _vectors("fused_add_rmsnorm", n, dtype, weight)
    if 0 in x.shape:
        return None
    return Plan(lambda: rms.build_fused_add_rmsnorm_module(n, dtype, True, eps, weight_dtype_str=kind,
                                                           weight_offset=offset, target=target),
                lambda out, added, rstd: (*matrices, *vectors, out, added, _flat(rstd), m), by_rows=True)


def _plan_fused_layernorm(target: Target, x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> Plan | None:
    dtype, m, n, matrices = _rows("fused_add_layernorm", x, residual)
    vectors, kind = _vectors("fused_add_layernorm", n, dtype, weight, bias)
    if 0 in x.shape:
        return None
    return Plan(lambda: ln.build_fused_add_layernorm_module(n, dtype, eps=eps, weight_dtype_str=kind, target=target),
                lambda out, added: (*matrices, *vectors, out, added, m), by_rows=True)


def _quantised(where: str, builders: tuple[Any, Any], target: Target, matrices: tuple[Any, ...], weight: Any, bias: Any,
               x_scale: Any, quant: str, eps: float) -> Plan | None:
    x = matrices[0]
    dtype, m, n, rows = _rows(where, *matrices)
    vectors, kind = _vectors(where, n, dtype, weight, bias)
    if x_scale is not None:
        vectors = [*vectors, vector(x_scale, n, dtype, f"{where}: x_scale")[0]]
    build = builders[x_scale is not None]
    if 0 in x.shape:
        return None
    return Plan(lambda: build(n, dtype, quant, eps=eps, weight_dtype_str=kind, target=target),
                lambda *outs: (*rows, *vectors, *outs[:-1], _flat(outs[-1]), m), by_rows=True)


_RMS = (rms.build_rmsnorm_dynamicquant_module, rms.build_rmsnorm_smoothquant_module)
_ADD_RMS = (rms.build_fused_add_rmsnorm_dynamicquant_module, rms.build_fused_add_rmsnorm_smoothquant_module)
_LAYER = (ln.build_layernorm_dynamicquant_module, ln.build_layernorm_smoothquant_module)
_ADD_LAYER = (ln.build_fused_add_layernorm_dynamicquant_module, ln.build_fused_add_layernorm_smoothquant_module)


# ------------------------------------------------------------------------------------------- backward


def _sums(target: Target, x: Any, n: int, kind: str, count: int) -> list[Any]:
    """f32 arrays for the sums of weight gradients of another dtype; none where the results themselves are f32."""
    return [] if kind == "f32" else [allocate(target, x, (n,), "f32", True) for _ in range(count)]


def _store(gradients: tuple[Any, ...], sums: list[Any]) -> None:
    for gradient, total in zip(gradients, sums, strict=False):
        copy_into(gradient, total)


def _plan_rmsnorm_bwd(where: str, target: Target, x: Any, weight: Any, dout: Any, rstd: Any, *rest: Any) -> Plan | None:
    *residual, offset = rest
    dres = residual[0] if residual else None
    fused = dres is not None
    dtype, m, n, mats = _rows(where, x, dout, *((dres,) if fused else ()))
    (weight,), kind = _vectors(where, n, dtype, weight)
    rstd = flat_of(rstd, f"{where}: rstd", "f32", tuple(x.shape[:-1]))
    if 0 in x.shape:
        return None
    operands = (mats[0], weight, mats[1], *mats[2:], rstd)
    programs = bwd.rmsnorm_bwd_programs(m, n, dtype, target)
    if programs:
        two = bwd.build_fused_add_rmsnorm_bwd_two_stage_module if fused else bwd.build_rmsnorm_bwd_two_stage_module
        scratch = allocate(target, x, (programs * n,), "f32")
        return Plan(lambda: two(n, dtype, programs, kind, weight_offset=offset, target=target),
                    lambda dx, dw: (*operands, dx, dw, scratch, m), by_rows=True)
    one = bwd.build_fused_add_rmsnorm_bwd_module if fused else bwd.build_rmsnorm_bwd_module
    sums = _sums(target, x, n, kind, 1)
    return Plan(lambda: one(n, dtype, kind, weight_offset=offset, target=target),
                lambda dx, dw: (*operands, dx, *(sums or (dw,)), m), by_rows=True, zero=(1,),
                finish=lambda dx, dw: _store((dw,), sums))


def _plan_layernorm_bwd(target: Target, x: Any, weight: Any, dout: Any, mean: Any, rstd: Any) -> Plan | None:
    where = "layernorm_bwd"
    dtype, m, n, (rows, dy) = _rows(where, x, dout)
    (weight,), kind = _vectors(where, n, dtype, weight)
    stats = [flat_of(a, f"{where}: {k}", "f32", tuple(x.shape[:-1])) for k, a in (("mean", mean), ("rstd", rstd))]
    if 0 in x.shape:
        return None
    sums = _sums(target, x, n, kind, 2)
    return Plan(lambda: bwd.build_layernorm_bwd_module(n, dtype, weight_dtype_str=kind, target=target),
                lambda dx, *grads: (rows, weight, dy, *stats, dx, *(sums or grads), m), by_rows=True, zero=(1, 2),
                finish=lambda dx, *grads: _store(grads, sums))


def _dtype_of(x: Any) -> str:
    return float_dtype(dtype_name(x, "workspace"), "workspace")


def _rmsnorm_bwd_workspace(target: Target, x: Any, weight: Any, *_: Any) -> int:
    """Two stages take the partial sums of their programs; one stage f32 sums where the weight has another dtype."""
    n = x.shape[-1]
    programs = bwd.rmsnorm_bwd_programs(x.numel() // n if n else 0, n, _dtype_of(x), target)
    return programs * n * F32 if programs else 0 if _dtype_of(weight) == "f32" else n * F32


def _layernorm_bwd_workspace(target: Target, x: Any, weight: Any, *_: Any) -> int:
    """f32 sums of both weight gradients where the weights have another dtype."""
    return 0 if _dtype_of(weight) == "f32" else 2 * x.shape[-1] * F32


# ------------------------------------------------------------------------------------------- gradients


def _rmsnorm_save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, ctx.eps, ctx.has_rstd, ctx.offset = inputs
    _, rstd = output
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(x, weight, rstd)


def _rmsnorm_gradient(ctx: Any, dout: Any, _: Any) -> tuple:
    x, weight, rstd = ctx.saved_tensors
    if not ctx.has_rstd:  # a caller that did not ask for it but differentiates: compute it again
        rstd = RMSNORM_FWD(x, weight, ctx.eps, True)[1]
    dx, dw = RMSNORM_BWD(x, weight, dout, rstd, ctx.offset)
    return dx, dw, None, None, None


def _fused_save(ctx: Any, inputs: Any, output: Any) -> None:
    _, added, rstd = output
    ctx.offset = inputs[4]
    ctx.mark_non_differentiable(rstd)
    ctx.save_for_backward(added, inputs[2], rstd)


def _fused_gradient(ctx: Any, dout: Any, dresidual: Any, _: Any) -> tuple:
    added, weight, rstd = ctx.saved_tensors
    dx, dw = FUSED_ADD_RMSNORM_BWD(added, weight, dout, rstd, dresidual, ctx.offset)
    return dx, dx, dw, None, None


def _layernorm_save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, ctx.eps, ctx.has_stats = inputs
    _, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    ctx.save_for_backward(x, weight, bias, mean, rstd)


def _layernorm_gradient(ctx: Any, dout: Any, *_: Any) -> tuple:
    x, weight, bias, mean, rstd = ctx.saved_tensors
    if not ctx.has_stats:
        _, mean, rstd = LAYERNORM_FWD(x, weight, bias, ctx.eps, True)
    return (*LAYERNORM_BWD(x, weight, dout, mean, rstd), None, None)


def _fused_layernorm_save(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight, bias)


def _fused_layernorm_gradient(ctx: Any, dout: Any, dresidual: Any) -> tuple:
    added, weight, bias = ctx.saved_tensors
    _, mean, rstd = LAYERNORM_FWD(added, weight, bias, ctx.eps, True)
    dx, dw, db = LAYERNORM_BWD(added, weight, dout, mean, rstd)
    dx = dx + dresidual
    return dx, dx, dw, db, None


# ------------------------------------------------------------------------------------------- functional forms


def _rmsnorm_fwd(op: Op, x: Any, weight: Any, eps: float = EPS, store_rstd: bool = False,
                 weight_offset: float = 0.0) -> tuple[Any, Any]:
    """``(out, rstd)`` of RMS norm over the last dimension; rstd is f32 of ``x.shape[:-1]``, None unless asked for."""
    out, rstd = op(x, weight, eps, store_rstd, weight_offset)
    return out, rstd if store_rstd else None


def _layernorm_fwd(op: Op, x: Any, weight: Any, bias: Any, eps: float = EPS, store_stats: bool = False) -> tuple:
    """``(out, mean, rstd)`` of layer norm over the last dimension; the f32 statistics are None unless asked for."""
    out, mean, rstd = op(x, weight, bias, eps, store_stats)
    return (out, mean, rstd) if store_stats else (out, None, None)


def _fused_add_rmsnorm_bwd(op: Op, added: Any, weight: Any, dout: Any, rstd: Any, dresidual_out: Any = None,
                           weight_offset: float = 0.0) -> tuple:
    """``(dx, dx, dw)``: gradients of input and residual are one tensor; `added` is the forward's residual_out."""
    dx, dw = op(added, weight, dout, rstd, dresidual_out, weight_offset)
    return dx, dx, dw


def _differentiated(*arrays: Any) -> bool:
    import torch

    return torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arrays)


def _filled(x: Any, given: Any, value: float, other: Any = None) -> Any:
    """The vector, or where it is None one of `value` of the dtype of `other` (of x by default)."""
    return x.new_full(x.shape[-1:], value, dtype=(x if other is None else other).dtype) if given is None else given


def rmsnorm(x: Any, weight: Any, eps: float = EPS, weight_offset: float = 0.0) -> Any:
    """``x * rsqrt(mean(x**2) + eps) * (weight + weight_offset)`` over the last dimension; differentiable in torch.

    The offset is 1 for weights that are differences from one (Gemma). Without a weight (None, torch only) the factor is
    one.
    """
    if not is_torch(x):
        return RMSNORM_FWD(x, weight, eps, False, weight_offset)[0]
    weight = _filled(x, weight, 1.0 - weight_offset)
    return RMSNORM_FWD(x, weight, eps, _differentiated(x, weight), weight_offset)[0]


def layernorm(x: Any, weight: Any, bias: Any, eps: float = EPS) -> Any:
    """``(x - mean) * rsqrt(var + eps) * weight + bias`` over the last dimension; differentiable in torch.

    Without a weight or bias (None, torch only) it is all ones or zeros.
    """
    if not is_torch(x):
        return LAYERNORM_FWD(x, weight, bias, eps)[0]
    weight = _filled(x, weight, 1.0, bias)
    bias = _filled(x, bias, 0.0, weight)
    return LAYERNORM_FWD(x, weight, bias, eps, _differentiated(x, weight, bias))[0]


def fused_add_rmsnorm(x: Any, residual: Any, weight: Any, eps: float = EPS, prenorm: bool = True,
                      weight_offset: float = 0.0) -> Any:
    """``(out, residual_out)`` with `prenorm`, else out; differentiable in torch. The offset is that of `rmsnorm`."""
    out, residual_out, _ = FUSED_ADD_RMSNORM_FWD(x, residual, weight, eps, weight_offset)
    return (out, residual_out) if prenorm else out


def fused_add_layernorm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = EPS) -> tuple[Any, Any]:
    """``(out, residual_out)``: ``residual_out = x + residual`` rounded, out its layer norm; differentiable in torch."""
    return FUSED_ADD_LAYERNORM_FWD(x, residual, weight, bias, eps)


# ------------------------------------------------------------------------------------------- declarations


def _sample(matrices: int, vectors: int, *last: Any) -> Callable[..., tuple[Any, ...]]:
    """Matrices (2, m, n), vectors (n), then the rest; options choose the dtype and the smooth scale."""

    def draw_them(draw: Any, m: int, n: int, dtype: str = "f32", smooth: bool = True) -> tuple[Any, ...]:
        given = [draw.normal(2, m, n, dtype=dtype) for _ in range(matrices)]
        given += [draw.normal(n, dtype=dtype) for _ in range(vectors)]
        rest = [draw.normal(n, dtype=dtype) if smooth else None] if last[:1] == ("smooth",) else list(last[:1])
        return (*given, *rest, *last[1:])

    return draw_them


def _sample_bwd(stats: int, *last: Any, fused: bool = False) -> Callable[..., tuple[Any, ...]]:
    def draw_them(draw: Any, m: int, n: int, dtype: str = "f32") -> tuple[Any, ...]:
        x, dout = (draw.normal(2, m, n, dtype=dtype) for _ in range(2))
        weight = draw.normal(n, dtype=dtype)
        _, mean, rstd = reference.normal(x, weight, weight if stats == 2 else None, EPS)
        more = (draw.normal(2, m, n, dtype=dtype),) if fused else ()
        return (x, weight, dout, *((mean.float(), rstd.float())[2 - stats :]), *more, *last)

    return draw_them


def _bench(name: str, share: int = 1, **options: Any) -> Callable[..., Any]:
    return lambda target, rows: [(name, (rows // 2 // share, 8192), {"dtype": "bf16", **options})]


_WIDTHS = (96, 101)
_QUANT = 'Tensor? x_scale=None, str quant_dtype="i8", float eps=1e-5'
_STEP = 0.51 / 127  # of values in units of the largest of a row


def _with_statistics_or_not(op: Op, draw: Any, model: Model) -> Iterator[tuple[Any, ...]]:
    """For training and for inference."""
    for *operands, _ in hidden_rows(op, draw, model):
        yield from ((*operands, True), (*operands, False))


def _rmsnorm_prebuilt(op: Op, draw: Any, model: Model) -> Iterator[tuple[Any, ...]]:
    """For training and for inference."""
    for x, weight, eps, *_ in hidden_rows(op, draw, model):
        yield from ((x, weight, eps, statistic, 0.0) for statistic in (True, False))


RMSNORM_BWD = Op(
    "rmsnorm_bwd", "(Tensor x, Tensor weight, Tensor dout, Tensor rstd, float weight_offset=0.0) -> (Tensor, Tensor)",
    "`(dx, dw)` of RMS norm from its input and rstd; dw has the weight's dtype",
    results=lambda x, weight, *_: (like(x), like(weight)),
    plan=partial(_plan_rmsnorm_bwd, "rmsnorm_bwd"),
    sample=_sample_bwd(1, OFFSET), widths=_WIDTHS, workspace=_rmsnorm_bwd_workspace, stable=False,
    reference=lambda x, weight, dout, rstd, offset: reference.gradients(x, weight, dout, False, EPS, offset=offset),
    bench=_bench("rmsnorm_bwd", 4),
    prebuilt=hidden_rows,
)

RMSNORM_FWD = Op(
    "rmsnorm_fwd",
    "(Tensor x, Tensor weight, float eps=1e-5, bool store_rstd=False, float weight_offset=0.0) -> (Tensor, Tensor)",
    "`(out, rstd)` of RMS norm over the last dimension; rstd is f32, one a row, on request",
    results=lambda x, weight, eps, store_rstd, _: (like(x), per_row(x, store_rstd)), plan=_plan_rmsnorm,
    sample=_sample(1, 1, EPS, True, OFFSET), widths=_WIDTHS, form=_rmsnorm_fwd,
    reference=lambda x, weight, eps, store_rstd, offset: reference.normal(x, weight.double() + offset, None, eps)[::2],
    gradient=Gradient(_rmsnorm_gradient, _rmsnorm_save), bench=_bench("rmsnorm"), prebuilt=_rmsnorm_prebuilt,
)

FUSED_ADD_RMSNORM_BWD = Op(
    "fused_add_rmsnorm_bwd",
    "(Tensor added, Tensor weight, Tensor dout, Tensor rstd, Tensor? dresidual_out=None, "
    "float weight_offset=0.0) -> (Tensor, Tensor)",
    "`(dx, dw)` from the rounded sum that the forward gave; dx is that of input and residual",
    results=lambda added, weight, *_: (like(added), like(weight)),
    plan=partial(_plan_rmsnorm_bwd, "fused_add_rmsnorm_bwd"),
    sample=_sample_bwd(1, OFFSET, fused=True), widths=_WIDTHS, workspace=_rmsnorm_bwd_workspace, stable=False,
    form=_fused_add_rmsnorm_bwd,
    reference=lambda added, weight, dout, rstd, dres, offset: reference.gradients(
        added, weight, dout, False, EPS, dres, offset),
)

FUSED_ADD_RMSNORM_FWD = Op(
    "fused_add_rmsnorm_fwd",
    "(Tensor x, Tensor residual, Tensor weight, float eps=1e-5, float weight_offset=0.0) -> (Tensor, Tensor, Tensor)",
    "`(out, residual_out, rstd)`: `residual_out = x + residual` rounded, out its RMS norm",
    results=lambda x, residual, weight, *_: (like(x), like(x), per_row(x)), plan=_plan_fused_rmsnorm,
    sample=_sample(2, 1, EPS, OFFSET), widths=_WIDTHS, reference=reference.fused_rmsnorm,
    gradient=Gradient(_fused_gradient, _fused_save), bench=_bench("fused_add_rmsnorm"),
    prebuilt=hidden_rows,
)

LAYERNORM_BWD = Op(
    "layernorm_bwd",
    "(Tensor x, Tensor weight, Tensor dout, Tensor mean, Tensor rstd) -> (Tensor, Tensor, Tensor)",
    "`(dx, dw, db)` of layer norm; dw and db have the weight's dtype",
    results=lambda x, weight, *_: (like(x), like(weight), like(weight)), plan=_plan_layernorm_bwd,
    sample=_sample_bwd(2), widths=_WIDTHS, workspace=_layernorm_bwd_workspace, stable=False,
    reference=lambda x, weight, dout, mean, rstd: reference.gradients(x, weight, dout, True, EPS),
    bench=_bench("layernorm_bwd", 4),
    prebuilt=hidden_rows,
)

LAYERNORM_FWD = Op(
    "layernorm_fwd",
    "(Tensor x, Tensor weight, Tensor bias, float eps=1e-5, bool store_stats=False) -> (Tensor, Tensor, Tensor)",
    "`(out, mean, rstd)` of layer norm over the last dimension; the statistics are f32, one a row, on request",
    results=lambda x, weight, bias, eps, store_stats: (like(x), per_row(x, store_stats), per_row(x, store_stats)),
    plan=_plan_layernorm, sample=_sample(1, 2, EPS, True), widths=_WIDTHS, form=_layernorm_fwd,
    reference=lambda x, weight, bias, eps, store_stats: reference.normal(x, weight, bias, eps),
    gradient=Gradient(_layernorm_gradient, _layernorm_save), bench=_bench("layernorm"),
    prebuilt=_with_statistics_or_not,
)

FUSED_ADD_LAYERNORM_FWD = Op(
    "fused_add_layernorm_fwd",
    "(Tensor x, Tensor residual, Tensor weight, Tensor bias, float eps=1e-5) -> (Tensor, Tensor)",
    "`(out, residual_out)`: `residual_out = x + residual` rounded, out its layer norm",
    results=lambda x, residual, weight, bias, eps: (like(x), like(x)), plan=_plan_fused_layernorm,
    sample=_sample(2, 2, EPS), widths=_WIDTHS, public=False, reference=reference.fused_layernorm,
    gradient=Gradient(_fused_layernorm_gradient, _fused_layernorm_save), bench=_bench("fused_add_layernorm"),
    prebuilt=hidden_rows,
)

RMSNORM_QUANT = Op(
    "rmsnorm_quant", f"(Tensor x, Tensor weight, {_QUANT}) -> (Tensor, Tensor)",
    "`(q, scale)` of the RMS norm, times `x_scale[n]` if given; `\"i8\"` or `\"fp8\"`, one f32 scale a row",
    results=lambda x, weight, x_scale, quant, eps: (like(x, quant), per_row(x)),
    plan=lambda target, x, weight, *rest: _quantised("rmsnorm_quant", _RMS, target, (x,), weight, None, *rest),
    sample=_sample(1, 1, "smooth", "i8", EPS), widths=_WIDTHS,
    reference=reference.quantised(1, False), decode=reference.decode, tolerance=_STEP,
    bench=_bench("rmsnorm_dynamicquant i8", smooth=False),
    prebuilt=hidden_rows,
)

FUSED_ADD_RMSNORM_QUANT = Op(
    "fused_add_rmsnorm_quant", f"(Tensor x, Tensor residual, Tensor weight, {_QUANT}) -> (Tensor, Tensor, Tensor)",
    "`(q, residual_out, scale)` of the RMS norm of the rounded sum",
    results=lambda x, residual, weight, x_scale, quant, eps: (like(x, quant), like(x), per_row(x)),
    plan=lambda target, x, residual, weight, *rest: _quantised("fused_add_rmsnorm_quant", _ADD_RMS, target,
                                                               (x, residual), weight, None, *rest),
    sample=_sample(2, 1, "smooth", "i8", EPS), widths=_WIDTHS,
    reference=reference.quantised(2, False), decode=reference.decode, tolerance=_STEP,
    bench=_bench("fused_add_rmsnorm_smoothquant i8"),
    prebuilt=hidden_rows,
)

LAYERNORM_QUANT = Op(
    "layernorm_quant", f"(Tensor x, Tensor weight, Tensor bias, {_QUANT}) -> (Tensor, Tensor)",
    "`(q, scale)` of the layer norm, times `x_scale[n]` if given",
    results=lambda x, weight, bias, x_scale, quant, eps: (like(x, quant), per_row(x)),
    plan=lambda target, x, weight, bias, *rest: _quantised("layernorm_quant", _LAYER, target, (x,), weight, bias,
                                                           *rest),
    sample=_sample(1, 2, "smooth", "i8", EPS), widths=_WIDTHS,
    reference=reference.quantised(1, True), decode=reference.decode, tolerance=_STEP,
    bench=_bench("layernorm_dynamicquant i8", smooth=False),
    prebuilt=hidden_rows,
)

FUSED_ADD_LAYERNORM_QUANT = Op(
    "fused_add_layernorm_quant",
    f"(Tensor x, Tensor residual, Tensor weight, Tensor bias, {_QUANT}) -> (Tensor, Tensor, Tensor)",
    "`(q, residual_out, scale)` of the layer norm of the rounded sum",
    results=lambda x, residual, weight, bias, x_scale, quant, eps: (like(x, quant), like(x), per_row(x)),
    plan=lambda target, x, residual, weight, bias, *rest: _quantised("fused_add_layernorm_quant", _ADD_LAYER, target,
                                                                     (x, residual), weight, bias, *rest),
    sample=_sample(2, 2, "smooth", "i8", EPS), widths=_WIDTHS,
    reference=reference.quantised(2, True), decode=reference.decode, tolerance=_STEP,
    bench=_bench("fused_add_layernorm_smoothquant i8"),
    prebuilt=hidden_rows,
)

OPS = [
    RMSNORM_FWD, RMSNORM_BWD, FUSED_ADD_RMSNORM_FWD, FUSED_ADD_RMSNORM_BWD, LAYERNORM_FWD, LAYERNORM_BWD,
    FUSED_ADD_LAYERNORM_FWD, RMSNORM_QUANT, FUSED_ADD_RMSNORM_QUANT, LAYERNORM_QUANT, FUSED_ADD_LAYERNORM_QUANT,
    Form("rmsnorm", rmsnorm, (
        "rmsnorm", "(Tensor x, Tensor weight, float eps=1e-5, float weight_offset=0.0) -> Tensor",
        lambda x, weight, eps=EPS, offset=0.0: RMSNORM_FWD(x, weight, eps, True, offset)[0])),
    Form("layernorm", layernorm, ("layernorm", "(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor",
                                  lambda x, weight, bias, eps=EPS: LAYERNORM_FWD(x, weight, bias, eps, True)[0])),
    Form("fused_add_rmsnorm", fused_add_rmsnorm), Form("fused_add_layernorm", fused_add_layernorm),
]
