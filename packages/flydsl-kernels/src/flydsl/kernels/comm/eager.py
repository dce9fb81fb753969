"""Collectives of tensors as they run: by our kernels, or by the group's own backend, which is reported."""

from __future__ import annotations

from typing import Any

from ..host.arrays import is_torch, span
from .config import PACK_BYTES
from .group import DEFAULT_BYTES, Communicator, communicator, float_name, report
from .peers import MOST_RANKS

__all__ = [
    "all_gather_of", "all_reduce_of", "all_to_all_of", "exchanged", "falls_back", "group_of", "reason_against",
    "reduce_scatter_of",
]


def group_of(name: str, x: Any, group: Any) -> tuple[int, Any]:
    """Ranks of a group, and torch.distributed. TypeError and RuntimeError for what is no collective."""
    import torch.distributed as dist

    if not is_torch(x):
        raise TypeError(f"{name}: a torch tensor is needed, got {type(x).__name__}")
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(f"{name}: torch.distributed.init_process_group must be called first")
    return dist.get_world_size(group), dist


def reason_against(x: Any, ranks: int, summed: bool) -> str:
    """Why our kernels do not take an operand; empty if they do."""
    size = x.numel() * x.element_size()
    if ranks > MOST_RANKS:
        return f"{ranks} ranks, at most {MOST_RANKS} are supported"
    if summed and float_name(x) is None:
        return f"{x.dtype} is none of f32, f16, bf16"
    return f"{size} bytes, at most {DEFAULT_BYTES} are exchanged" if size > DEFAULT_BYTES else ""


def falls_back(name: str, x: Any, ranks: int, summed: bool, group: Any, dist: Any) -> bool:
    """Whether the group's own backend has to do it, which is reported once."""
    reason = reason_against(x, ranks, summed)
    if reason:
        report(f"{name} is done by the backend {dist.get_backend(group)}: {reason}")
    return bool(reason)


def _packed(x: Any, parts: int) -> Any:
    """A flat copy in `parts` equal shares, each of whole packs; the operand itself if it is so already."""
    import torch

    flat = span(x.resolve_conj().resolve_neg().contiguous()).reshape(parts, -1)
    raw = flat.view(torch.uint8)  # torch moves the elements of some dtypes as bytes alone
    missing = -raw.shape[1] % PACK_BYTES
    if missing:
        padded = raw.new_zeros(parts, raw.shape[1] + missing)
        padded[:, : raw.shape[1]] = raw
        return padded.view(x.dtype)
    return flat if flat.data_ptr() % 4 == 0 else raw.clone().view(x.dtype)


def exchanged(through: Communicator, kind: str, x: Any, parts: int, rows: int, dtype: str = "bytes",
              fp8: bool = False) -> Any:
    """The result as `rows` shares of the size of one of the operand's `parts`."""
    packed = _packed(x, parts)
    out = packed.new_empty(rows, packed.shape[1])
    through.exchange(kind, packed, out, dtype, fp8=fp8)
    return out[:, : x.numel() // parts]


def all_reduce_of(x: Any, group: Any, fp8: bool = False) -> Any:
    ranks, dist = group_of("all_reduce", x, group)
    if ranks == 1 or not x.numel():
        return x.clone()
    if falls_back("all_reduce", x, ranks, True, group, dist):
        out = x.clone()
        dist.all_reduce(out, group=group)
        return out
    through = communicator(group)
    kind = through.all_reduce_kind(x, fp8)
    return exchanged(through, kind, x, 1, 1, str(float_name(x)), fp8).reshape(x.shape)


def all_gather_of(x: Any, group: Any) -> Any:
    import torch

    ranks, dist = group_of("all_gather", x, group)
    if not len(x.shape):
        raise ValueError("all_gather: a tensor of rank 1 or more is needed, got a scalar")
    if ranks == 1 or not x.numel():
        return torch.cat([x] * ranks)
    if falls_back("all_gather", x, ranks, False, group, dist):
        out = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(out, x.contiguous(), group=group)
        return torch.cat(out)
    return exchanged(communicator(group), "all_gather", x, 1, ranks).reshape(ranks * x.shape[0], *x.shape[1:])


def _divisible(name: str, x: Any, ranks: int) -> None:
    if not len(x.shape) or x.shape[0] % ranks:
        raise ValueError(f"{name}: the first dimension must be a multiple of the {ranks} ranks, got shape "
                         f"{tuple(x.shape)}")


def reduce_scatter_of(x: Any, group: Any) -> Any:
    ranks, dist = group_of("reduce_scatter", x, group)
    _divisible("reduce_scatter", x, ranks)
    shape = (x.shape[0] // ranks, *x.shape[1:])
    if ranks == 1 or not x.numel():
        return x.reshape(shape).clone() if ranks == 1 else x.new_empty(shape)
    if falls_back("reduce_scatter", x, ranks, True, group, dist):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total.chunk(ranks)[dist.get_rank(group)].clone()
    through = communicator(group)
    return exchanged(through, "reduce_scatter", x, ranks, 1, str(float_name(x))).reshape(shape)


def all_to_all_of(x: Any, group: Any) -> Any:
    import torch

    ranks, dist = group_of("all_to_all", x, group)
    _divisible("all_to_all", x, ranks)
    if ranks == 1 or not x.numel():
        return x.clone()
    if falls_back("all_to_all", x, ranks, False, group, dist):
        every = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(every, x.contiguous(), group=group)
        return torch.cat([e.chunk(ranks)[dist.get_rank(group)] for e in every])
    return exchanged(communicator(group), "all_to_all", x, ranks, ranks).reshape(x.shape)
