"""Collectives of tensors, over ``torch.distributed`` process groups."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ..host.arrays import as_rows, is_torch, vector
from ..host.dtypes import FLOATS
from ..norm.config import EPS, make_config
from ..op import Form
from ..parts.peers import MOST_RANKS
from ..target import target
from .config import PACK_BYTES
from .group import DEFAULT_BYTES, communicator

__all__ = ["OPS"]


def _dtype(x: Any) -> str | None:
    name = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(str(x.dtype).removeprefix("torch."))
    return name if name in FLOATS else None


def _group_of(name: str, x: Any, group: Any) -> tuple[int, Any]:
    """Ranks of a group, and torch.distributed. TypeError and RuntimeError for what is no collective."""
    import torch.distributed as dist

    if not is_torch(x):
        raise TypeError(f"{name}: a torch tensor is needed, got {type(x).__name__}")
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(f"{name}: torch.distributed.init_process_group must be called first")
    return dist.get_world_size(group), dist


def _reason(x: Any, ranks: int, summed: bool, size: int) -> str:
    """Why our kernels do not take an operand; empty if they do."""
    if ranks > MOST_RANKS:
        return f"{ranks} ranks, at most {MOST_RANKS} are supported"
    if summed and _dtype(x) is None:
        return f"{x.dtype} is none of f32, f16, bf16"
    return f"{size} bytes, at most {DEFAULT_BYTES} are exchanged" if size > DEFAULT_BYTES else ""


@functools.cache
def _report(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


def _falls_back(name: str, x: Any, ranks: int, summed: bool, group: Any, dist: Any) -> bool:
    """Whether the group's own backend has to do it, which is reported once."""
    reason = _reason(x, ranks, summed, x.numel() * x.element_size())
    if reason:
        _report(f"{name} is done by the backend {dist.get_backend(group)}: {reason}")
    return bool(reason)


def _packed(x: Any, parts: int) -> Any:
    """A flat copy in `parts` equal shares, each of whole packs; the operand itself if it is so already."""
    flat = x.contiguous().reshape(parts, -1)
    unit = PACK_BYTES // x.element_size()
    missing = -flat.shape[1] % unit
    aligned = flat.data_ptr() % 4 == 0
    if missing:
        padded = flat.new_zeros(parts, flat.shape[1] + missing)
        padded[:, : flat.shape[1]] = flat
        return padded
    return flat if aligned else flat.clone()


def _exchange(kind: str, x: Any, group: Any, parts: int, rows: int, dtype: str = "bytes") -> Any:
    """The result as `rows` shares of the size of one of the operand's `parts`."""
    packed = _packed(x, parts)
    out = packed.new_empty(rows, packed.shape[1])
    communicator(group).exchange(kind, packed, out, dtype)
    return out[:, : x.numel() // parts]


def all_reduce(x: Any, group: Any = None) -> Any:
    """Sum of a tensor over the ranks of a process group, on every rank, in f32 and rounded once.

    All ranks have the same bits. f32, f16 and bf16 on 2 to 8 ranks of one machine; other operands are summed by the
    group's own backend, which is reported once.

    Raises:
        CollectiveError: a rank did not come in time, or called something else.
        RuntimeError: there is no process group.
    """
    ranks, dist = _group_of("all_reduce", x, group)
    if ranks == 1 or not x.numel():
        return x.clone()
    if _falls_back("all_reduce", x, ranks, True, group, dist):
        out = x.clone()
        dist.all_reduce(out, group=group)
        return out
    kind = communicator(group).all_reduce_kind(x)
    return _exchange(kind, x, group, 1, 1, str(_dtype(x))).reshape(x.shape)


def all_gather(x: Any, group: Any = None) -> Any:
    """The tensors of all ranks, concatenated along the first dimension: ``(ranks * n, ...)``. Any dtype.

    Raises as :func:`all_reduce`.
    """
    import torch

    ranks, dist = _group_of("all_gather", x, group)
    if not len(x.shape):
        raise ValueError("all_gather: a tensor of rank 1 or more is needed, got a scalar")
    if ranks == 1 or not x.numel():
        return torch.cat([x] * ranks)
    if _falls_back("all_gather", x, ranks, False, group, dist):
        out = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(out, x.contiguous(), group=group)
        return torch.cat(out)
    return _exchange("all_gather", x, group, 1, ranks).reshape(ranks * x.shape[0], *x.shape[1:])


def _divisible(name: str, x: Any, ranks: int) -> None:
    if not len(x.shape) or x.shape[0] % ranks:
        raise ValueError(f"{name}: the first dimension must be a multiple of the {ranks} ranks, got shape "
                         f"{tuple(x.shape)}")


def reduce_scatter(x: Any, group: Any = None) -> Any:
    """This rank's share, along the first dimension, of the sum over the ranks: ``(n / ranks, ...)``.

    Raises as :func:`all_reduce`; ValueError if n is no multiple of the ranks.
    """
    ranks, dist = _group_of("reduce_scatter", x, group)
    _divisible("reduce_scatter", x, ranks)
    shape = (x.shape[0] // ranks, *x.shape[1:])
    if ranks == 1 or not x.numel():
        return x.clone()
    if _falls_back("reduce_scatter", x, ranks, True, group, dist):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total.chunk(ranks)[dist.get_rank(group)].clone()
    return _exchange("reduce_scatter", x, group, ranks, 1, str(_dtype(x))).reshape(shape)


def all_to_all(x: Any, group: Any = None) -> Any:
    """Share r of the result is this rank's share of rank r's tensor; shares along the first dimension. Any dtype.

    Raises as :func:`reduce_scatter`.
    """
    import torch

    ranks, dist = _group_of("all_to_all", x, group)
    _divisible("all_to_all", x, ranks)
    if ranks == 1 or not x.numel():
        return x.clone()
    if _falls_back("all_to_all", x, ranks, False, group, dist):
        every = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(every, x.contiguous(), group=group)
        return torch.cat([e.chunk(ranks)[dist.get_rank(group)] for e in every])
    return _exchange("all_to_all", x, group, ranks, ranks).reshape(x.shape)


def all_reduce_rmsnorm(x: Any, residual: Any, weight: Any, eps: float = EPS, group: Any = None) -> tuple[Any, Any]:
    """``(out, residual_out)``: `residual_out = all_reduce(x) + residual` rounded, out its RMS norm times `weight`.

    One kernel, bit by bit the same as the operations one after another. Rows are the last dimension.

    Raises as :func:`all_reduce`; ValueError and TypeError if the operands do not fit each other.
    """
    from .. import ops

    where = "all_reduce_rmsnorm"
    ranks, dist = _group_of(where, x, group)
    if ranks == 1 or not x.numel() or _falls_back(where, x, ranks, True, group, dist):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return ops.fused_add_rmsnorm(total, residual, weight, eps)
    if residual.shape != x.shape or residual.dtype != x.dtype:
        raise ValueError(f"{where}: x and residual must have one shape and dtype, got {tuple(x.shape)} {x.dtype} and "
                         f"{tuple(residual.shape)} {residual.dtype}")
    rows, added_rows = as_rows(x, where), as_rows(residual, where)
    n, dtype = rows.shape[1], str(_dtype(x))
    weight, weight_dtype = vector(weight, n, dtype, f"{where}: weight")
    norm = make_config(where, target(), n, dtype, weight_dtype=weight_dtype, eps=eps, fused=True)
    out, added = rows.new_empty(rows.shape), rows.new_empty(rows.shape)
    communicator(group).reduced_norm(norm, rows, added_rows, weight, out, added)
    return out.reshape(x.shape), added.reshape(x.shape)


OPS = [Form(f.__name__, f) for f in (all_reduce, all_gather, reduce_scatter, all_to_all, all_reduce_rmsnorm)]
