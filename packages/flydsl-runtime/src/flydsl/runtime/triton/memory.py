"""The memory of torch tensors: what a launch may reach, and by which name it is told of."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

#: Tables of pointers (grouped GEMM) are short; longer tensors of integers are data.
_TABLE = 1 << 16


@dataclass(frozen=True)
class Array:
    """A range of host memory, and the tensor in it: name, type, address of the first element, shape and strides."""

    base: int
    bytes: int
    name: str = ""
    type: str = ""
    data: int = 0
    item_bytes: int = 1
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


def array_of(tensor: Any, name: str) -> Array | None:
    """The storage of a CPU tensor; None for an object whose size is not known.

    Raises ValueError for a tensor on another device.
    """
    tensor = getattr(tensor, "base", tensor) if not hasattr(tensor, "untyped_storage") else tensor
    if not hasattr(tensor, "untyped_storage"):
        return None
    if tensor.device.type != "cpu":
        raise ValueError(f"argument {name!r} is on {tensor.device}: kernels on the simulator take CPU tensors")
    storage = tensor.untyped_storage()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Array(storage.data_ptr(), storage.nbytes(), name, dtype, tensor.data_ptr(), tensor.element_size(),
                 tuple(tensor.shape), tuple(tensor.stride()))


def tables(tensors: list[Any]) -> tuple[list[Array], list[int]]:
    """What short tensors of 64-bit integers point to: storages of live tensors, and addresses of other memory.

    Such a tensor is how a kernel is given many matrices. Numbers that are no addresses of tensors are kept apart, since
    the program may have made them of memory by other means; one that is no address opens nothing.
    """
    values: set[int] = set()
    for tensor in tensors:
        if str(getattr(tensor, "dtype", "")) in ("torch.int64", "torch.uint64") and tensor.numel() <= _TABLE:
            values.update(v for v in tensor.flatten().tolist() if v > 0xFFFFFFFF)
    if not values:
        return [], []
    import torch

    found: list[Array] = []
    for candidate in gc.get_objects():
        # The type is asked: objects that stand for others would load them.
        if not issubclass(type(candidate), torch.Tensor) or candidate.device.type != "cpu" or candidate.is_sparse:
            continue
        storage = candidate.untyped_storage()
        low, size = storage.data_ptr(), storage.nbytes()
        inside = {value for value in values if low <= value < low + size}
        if inside:
            values -= inside
            found.append(Array(low, size))
    return found, sorted(values)
