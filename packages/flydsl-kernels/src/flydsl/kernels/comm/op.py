"""Collectives of tensors, over ``torch.distributed`` process groups."""

from __future__ import annotations

import functools
from typing import Any

from ..host.arrays import allocate, as_rows, is_torch, vector
from ..norm.config import EPS, make_config
from ..op import Form
from ..target import target
from .eager import all_gather_of, all_reduce_of, all_to_all_of, falls_back, group_of, reduce_scatter_of
from .gradient import differentiated, with_gradient
from .group import communicator, float_name

__all__ = ["OPS"]


def _graph_is_made(x: Any) -> bool:
    """Whether torch.compile follows this call."""
    if not is_torch(x):
        return False
    import torch

    return torch.compiler.is_compiling()


def _collective(name: str, x: Any, group: Any, fp8: bool = False) -> Any:
    from .compiled import collective

    return collective(name, x, group, fp8)


def all_reduce(x: Any, group: Any = None, fp8: bool = False) -> Any:
    """Sum of a tensor over the ranks of a process group, on every rank, in f32 and rounded once.

    All ranks have the same bits. f32, f16 and bf16 on 2 to 8 ranks of one machine; other operands are summed by the
    group's own backend, which is reported once. With `fp8` the operands (and the gradients) travel in 8 bits, with a
    scale of every 128 elements: half of the bytes of f16, at a relative error of 2**-4 of each operand.

    Raises:
        CollectiveError: a rank did not come in time, or called something else.
        RuntimeError: there is no process group.
    """
    if _graph_is_made(x):
        return _collective("all_reduce", x, group, fp8)
    forward, backward = (functools.partial(f, fp8=fp8) for f in (all_reduce_of, all_reduce))
    return with_gradient(forward, backward, x, group)


def all_gather(x: Any, group: Any = None) -> Any:
    """The tensors of all ranks, concatenated along the first dimension: ``(ranks * n, ...)``. Any dtype.

    Raises as :func:`all_reduce`.
    """
    if _graph_is_made(x):
        return _collective("all_gather", x, group)
    return with_gradient(all_gather_of, reduce_scatter, x, group)


def reduce_scatter(x: Any, group: Any = None) -> Any:
    """This rank's share, along the first dimension, of the sum over the ranks: ``(n / ranks, ...)``.

    Raises as :func:`all_reduce`; ValueError if n is no multiple of the ranks.
    """
    if _graph_is_made(x):
        return _collective("reduce_scatter", x, group)
    return with_gradient(reduce_scatter_of, all_gather, x, group)


def all_to_all(x: Any, group: Any = None) -> Any:
    """Share r of the result is this rank's share of rank r's tensor; shares along the first dimension. Any dtype.

    Raises as :func:`reduce_scatter`.
    """
    if _graph_is_made(x):
        return _collective("all_to_all", x, group)
    return with_gradient(all_to_all_of, all_to_all, x, group)


def all_reduce_rmsnorm(x: Any, residual: Any, weight: Any, eps: float = EPS, group: Any = None,
                       weight_offset: float = 0.0) -> tuple[Any, Any]:
    """``(out, residual_out)``: `residual_out = all_reduce(x) + residual` rounded, out its RMS norm times
    ``weight + weight_offset``.

    One kernel, bit by bit the same as the operations one after another (which compute it where a gradient is needed).
    Rows are the last dimension.

    Raises as :func:`all_reduce`; ValueError and TypeError if the operands do not fit each other.
    """
    where = "all_reduce_rmsnorm"
    total = _summed_first(where, x, residual, weight, group)
    if total is not None:
        from .. import ops

        out, added = ops.fused_add_rmsnorm(total, residual, weight, eps, weight_offset=weight_offset)
        return out, added
    out, added, _ = _reduced_norm(where, x, residual, weight, group, eps=eps, weight_offset=weight_offset)
    return out, added


def all_reduce_rmsnorm_quant(x: Any, residual: Any, weight: Any, x_scale: Any = None, quant_dtype: str = "i8",
                             eps: float = EPS, group: Any = None) -> tuple[Any, Any, Any]:
    """``(q, residual_out, scale)``: :func:`all_reduce_rmsnorm` whose result, times `x_scale[n]` if given, is quantised.

    `quant_dtype` is ``"i8"`` or ``"fp8"``, with one f32 scale a row; bit by bit `fused_add_rmsnorm_quant` of the sum.

    Raises as :func:`all_reduce_rmsnorm`.
    """
    where = "all_reduce_rmsnorm_quant"
    total = _summed_first(where, x, residual, weight, group)
    if total is not None:
        from .. import ops

        q, added, scale = ops.fused_add_rmsnorm_quant(total, residual, weight, x_scale, quant_dtype, eps)
        return q, added, scale
    return _reduced_norm(where, x, residual, weight, group, eps=eps, quant=quant_dtype, x_scale=x_scale)


def _summed_first(where: str, x: Any, residual: Any, weight: Any, group: Any) -> Any:
    """The sum, where it is a launch (or several) of its own; None where one kernel does it all."""
    ranks, dist = group_of(where, x, group)
    if differentiated(x, residual, weight) or _graph_is_made(x):
        return all_reduce(x, group)
    if ranks > 1 and x.numel() and not falls_back(where, x, ranks, True, group, dist):
        return None
    total = x.clone()
    if ranks > 1 and x.numel():
        dist.all_reduce(total, group=group)
    return total


def _reduced_norm(where: str, x: Any, residual: Any, weight: Any, group: Any, eps: float, quant: str = "",
                  x_scale: Any = None, weight_offset: float = 0.0) -> tuple[Any, Any, Any]:
    """``(out, residual_out, scale or None)`` in one kernel."""
    if residual.shape != x.shape or residual.dtype != x.dtype:
        raise ValueError(f"{where}: x and residual must have one shape and dtype, got {tuple(x.shape)} {x.dtype} and "
                         f"{tuple(residual.shape)} {residual.dtype}")
    found, rows, added_rows = target(), as_rows(x, where), as_rows(residual, where)
    n, dtype = rows.shape[1], str(float_name(x))
    weight, weight_dtype = vector(weight, n, dtype, f"{where}: weight")
    norm = make_config(where, found, n, dtype, weight_dtype=weight_dtype, eps=eps, fused=True, quant=quant,
                       smooth=x_scale is not None, weight_offset=weight_offset)
    out = allocate(found, rows, tuple(rows.shape), quant) if quant else rows.new_empty(rows.shape)
    tensors = dict(Input=rows, ResidualIn=added_rows, Gamma=weight, Output=out, ResidualOut=rows.new_empty(rows.shape))
    if x_scale is not None:
        tensors["XScale"] = vector(x_scale, n, dtype, f"{where}: x_scale")[0]
    scale = None
    if quant:
        scale = tensors["YScale"] = allocate(found, rows, (rows.shape[0],), "f32")
    communicator(group).reduced_norm(norm, tensors)
    return (out.reshape(x.shape), tensors["ResidualOut"].reshape(x.shape),
            None if scale is None else scale.reshape(x.shape[:-1]))


OPS = [Form(f.__name__, f) for f in (all_reduce, all_gather, reduce_scatter, all_to_all, all_reduce_rmsnorm,
                                     all_reduce_rmsnorm_quant)]
