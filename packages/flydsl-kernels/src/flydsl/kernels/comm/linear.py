"""Linear layers of which every rank has a share of the weight: the two halves of a tensor-parallel block.

``y = RowParallelLinear(act(ColumnParallelLinear(x)))`` moves one all-reduce between ranks, at its end.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .. import ops

__all__ = ["ColumnParallelLinear", "RowParallelLinear"]


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
    """

    def __init__(self, weight: Any, bias: Any = None, group: Any = None, gather: bool = False) -> None:
        super().__init__()
        share = _share(weight.shape[0], group, "ColumnParallelLinear: rows of the weight")
        self.weight = torch.nn.Parameter(weight[share].clone(), requires_grad=False)
        self.bias = None if bias is None else torch.nn.Parameter(bias[share].clone(), requires_grad=False)
        self.group, self.gather = group, gather

    def forward(self, x: Any) -> Any:
        """(..., k) to (..., n / ranks), or with `gather` (..., n)."""
        y = ops.linear(x, self.weight, self.bias)
        if not self.gather:
            return y
        columns = y.reshape(-1, y.shape[-1]).T.contiguous()
        return ops.all_gather(columns, self.group).T.reshape(*x.shape[:-1], -1)


class RowParallelLinear(torch.nn.Module):
    """``x weight^T + bias`` for this rank's columns of the weight: x is this rank's share, the result the whole.

    Args:
        weight, bias: of the whole layer; this rank's share of the weight is copied.
        group: the process group.
    """

    def __init__(self, weight: Any, bias: Any = None, group: Any = None) -> None:
        super().__init__()
        share = _share(weight.shape[1], group, "RowParallelLinear: columns of the weight")
        self.weight = torch.nn.Parameter(weight[:, share].clone(), requires_grad=False)
        # Once: the products of the ranks are added.
        mine = bias is not None and dist.get_rank(group) == 0
        self.bias = torch.nn.Parameter(bias.clone(), requires_grad=False) if mine else None
        self.group = group

    def forward(self, x: Any) -> Any:
        """(..., k / ranks) to (..., n)."""
        return ops.all_reduce(ops.linear(x, self.weight, self.bias), self.group)
