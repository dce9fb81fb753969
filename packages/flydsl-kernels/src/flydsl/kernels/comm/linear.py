"""Linear layers of which every rank has a share of the weight: the two halves of a tensor-parallel block.

``y = RowParallelLinear(act(ColumnParallelLinear(x)))`` moves one all-reduce between ranks, at its end; or, where every
rank keeps its rows of the activations between blocks, an all-gather at its beginning and a reduce-scatter at its end.
Product and collective are one kernel (:mod:`.products`); operands that it does not take, and those that need gradients,
are computed one after the other. Why a call is taken apart is reported once.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist

from .. import ops
from .gradient import differentiated
from .group import communicator, report
from .products import PeerProduct, peer_product

__all__ = ["ColumnParallelLinear", "RowParallelLinear", "all_gather_linear", "linear_all_reduce",
           "linear_reduce_scatter"]

_DTYPES = {torch.float16: "f16", torch.bfloat16: "bf16"}


def _one_kernel(kind: str, x: Any, weight: Any, bias: Any, group: Any) -> PeerProduct | None:
    """The fused product of matrices, or None where it must be taken apart."""
    ranks = dist.get_world_size(group)
    if ranks == 1 or differentiated(x, weight, *([] if bias is None else [bias])):
        return None
    try:
        if x.dtype not in _DTYPES or weight.dtype != x.dtype:
            raise ValueError(f"f16 and bf16 are supported, got {x.dtype} and {weight.dtype}")
        (m, k), n = x.shape, weight.shape[0]
        found = communicator(group)
        return peer_product(f"linear with {kind}", found.target, kind, ranks, m, n, k, _DTYPES[x.dtype],
                            bias is not None, found.most_bytes)
    except ValueError as error:
        report(f"a linear layer and its {kind} are two kernels: {error}")
        return None


def _fused(config: PeerProduct, x: Any, weight: Any, bias: Any, rows: int, group: Any) -> Any:
    out = x.new_empty(rows, weight.shape[0])
    communicator(group).product(config, x.contiguous(), weight.contiguous(), bias, out)
    return out


def _empty(x: Any, weight: Any, bias: Any, rows: int) -> Any:
    """The result where there is nothing to multiply: of no rows or columns, or the bias of an empty sum; else None."""
    if rows and weight.numel() or differentiated(x, weight, *([] if bias is None else [bias])):
        return None
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(f"linear: x of {x.shape[-1]} columns and a weight of {weight.shape[1]} do not fit each other")
    out = x.new_zeros(rows, weight.shape[0])
    return out if bias is None else out + bias


def linear_all_reduce(x: Any, weight: Any, bias: Any = None, group: Any = None) -> Any:
    """``all_reduce(x weight^T) + bias``: x (..., k) and weight (n, k) are this rank's shares of k; (..., n).

    Raises as :func:`flydsl.kernels.ops.all_reduce`.
    """
    count = math.prod(x.shape[:-1])
    found = _empty(x, weight, bias, count)
    if found is not None:
        return found.reshape(*x.shape[:-1], weight.shape[0])
    rows = x.reshape(count, x.shape[-1])
    config = _one_kernel("all_reduce", rows, weight, bias, group)
    if config is None:
        return ops.all_reduce(ops.linear(x, weight, bias if dist.get_rank(group) == 0 else None), group)
    return _fused(config, rows, weight, bias, rows.shape[0], group).reshape(*x.shape[:-1], -1)


def linear_reduce_scatter(x: Any, weight: Any, bias: Any = None, group: Any = None) -> Any:
    """``reduce_scatter(x weight^T) + bias``: of (m, k) this rank's (m / ranks, n).

    Raises as :func:`flydsl.kernels.ops.reduce_scatter`.
    """
    ranks = dist.get_world_size(group)
    if x.shape[0] % ranks:
        raise ValueError(f"linear_reduce_scatter: rows must be a multiple of the {ranks} ranks, got {tuple(x.shape)}")
    found = _empty(x, weight, bias, x.shape[0] // ranks)
    if found is not None:
        return found
    config = _one_kernel("reduce_scatter", x, weight, bias, group)
    if config is None:
        return ops.reduce_scatter(ops.linear(x, weight, bias if dist.get_rank(group) == 0 else None), group)
    return _fused(config, x, weight, bias, x.shape[0] // config.ranks, group)


def all_gather_linear(x: Any, weight: Any, bias: Any = None, group: Any = None) -> Any:
    """``all_gather(x) weight^T + bias``: x is this rank's (m, k), of which every rank has as many; (ranks * m, n).

    Raises as :func:`flydsl.kernels.ops.all_gather`.
    """
    found = _empty(x, weight, bias, x.shape[0] * dist.get_world_size(group))
    if found is not None:
        return found
    config = _one_kernel("all_gather", x, weight, bias, group)
    if config is None:
        return ops.linear(ops.all_gather(x, group), weight, bias)
    return _fused(config, x, weight, bias, x.shape[0] * config.ranks, group)


def _share(size: int, group: Any, what: str) -> slice:
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    if size % ranks:
        raise ValueError(f"{what}: {size} must be a multiple of the {ranks} ranks")
    return slice(rank * size // ranks, (rank + 1) * size // ranks)


class ColumnParallelLinear(torch.nn.Module):
    """``x weight^T + bias`` for this rank's rows of the weight: x is the whole, the result this rank's columns.

    Args:
        weight, bias: of the whole layer; this rank's share is copied.
        group: the process group.
        gather: every rank gets the columns of all.
        rows: x is this rank's rows (m, k), which are gathered first.
    """

    def __init__(self, weight: Any, bias: Any = None, group: Any = None, gather: bool = False,
                 rows: bool = False) -> None:
        super().__init__()
        share = _share(weight.shape[0], group, "ColumnParallelLinear: rows of the weight")
        self.weight = torch.nn.Parameter(weight[share].clone(), requires_grad=False)
        self.bias = None if bias is None else torch.nn.Parameter(bias[share].clone(), requires_grad=False)
        self.group, self.gather, self.rows = group, gather, rows

    def forward(self, x: Any) -> Any:
        """(..., k) to (..., n / ranks), or with `gather` (..., n); with `rows` (m, k) to (ranks * m, ...)."""
        if self.rows:
            y = all_gather_linear(x, self.weight, self.bias, self.group)
        else:
            y = ops.linear(x, self.weight, self.bias)
        if not self.gather:
            return y
        columns = y.reshape(math.prod(y.shape[:-1]), y.shape[-1]).T.contiguous()
        whole = ops.all_gather(columns, self.group)
        return whole.T.reshape(*y.shape[:-1], whole.shape[0])


class RowParallelLinear(torch.nn.Module):
    """``x weight^T + bias`` for this rank's columns of the weight: x is this rank's share, the result the whole.

    Args:
        weight, bias: of the whole layer; this rank's share of the weight is copied.
        group: the process group.
        rows: the result is this rank's rows of the whole: (m, k / ranks) to (m / ranks, n).
    """

    def __init__(self, weight: Any, bias: Any = None, group: Any = None, rows: bool = False) -> None:
        super().__init__()
        share = _share(weight.shape[1], group, "RowParallelLinear: columns of the weight")
        self.weight = torch.nn.Parameter(weight[:, share].clone(), requires_grad=False)
        self.bias = None if bias is None else torch.nn.Parameter(bias.clone(), requires_grad=False)
        self.group, self.rows = group, rows

    def forward(self, x: Any) -> Any:
        """(..., k / ranks) to (..., n); with `rows` (m, k / ranks) to (m / ranks, n)."""
        function = linear_reduce_scatter if self.rows else linear_all_reduce
        return function(x, self.weight, self.bias, self.group)
