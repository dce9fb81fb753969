"""Tensors that all ranks of a group address: allocated by each, and made known to the others by a rendezvous.

>>> x = comm.empty(4096, dtype=torch.bfloat16)      # doctest: +SKIP
>>> shared = comm.rendezvous(x)                     # doctest: +SKIP
>>> shared.all_reduce_(x)                           # doctest: +SKIP

The names are those of ``torch.distributed._symmetric_memory``. What lies in such memory is summed where it is: every
rank reads its share of all ranks and writes the sum to all of them. Nothing else is copied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt

from ..host.arrays import launch
from ..target import Target, target
from .config import IN_PLACE, PACK_BYTES, exchange_config
from .exchange import build_in_place
from .group import TIME_LIMIT, float_name, report, signature
from .memory import SharedMemory, is_meeting, meeting_of, tensor_at
from .peers import HEADER, PLACES, Peers

__all__ = ["Symmetric", "empty", "rendezvous"]

PAGE = 4096


class _Allocation:
    """Memory of :func:`empty`, by the address of its payload."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = -(-max(nbytes, 1) // PAGE) * PAGE
        self.base = rt.malloc(HEADER + self.nbytes, uncached=True)
        self.met: tuple[Any, Symmetric] | None = None

    @property
    def payload(self) -> int:
        return self.base + HEADER

    def release(self) -> None:
        """Give the memory back, which no tensor names any more."""
        _allocations.pop(self.payload, None)
        if self.met is not None:
            self.met[1].close()
        rt.free(self.base)


_allocations: dict[int, _Allocation] = {}


def empty(*size: Any, dtype: Any = None) -> Any:
    """An uninitialised tensor in memory that can be shared; torch's default dtype if none is given.

    Args:
        size: as of ``torch.empty``. All ranks that are to share it allocate as much.

    Raises:
        HipError: there is not enough memory.
    """
    import torch

    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else size
    dtype = dtype or torch.get_default_dtype()
    nbytes = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    made = _Allocation(nbytes)
    _allocations[made.payload] = made
    flat = tensor_at(made.payload, (made.nbytes,), torch.uint8, made.release)
    return flat[:nbytes].view(dtype).view(shape)


def rendezvous(tensor: Any, group: Any = None) -> Symmetric:
    """Make the memory of a tensor known to all ranks of a process group, which all of them call together.

    Args:
        tensor: of :func:`empty`, or a view of such a tensor. A second call for its memory gives the same object.
        group: a process group, None for the default one, or another rendezvous as of
            :class:`~flydsl.kernels.comm.Communicator`.

    Raises:
        ValueError: the tensor is none of :func:`empty`, its memory belongs to another group, or the ranks do not agree
            about its size; 2 to 8 ranks of one machine are supported.
        CollectiveError: memory cannot be shared.
    """
    start = tensor.untyped_storage().data_ptr()
    found = _allocations.get(start)
    if found is None:
        raise ValueError("rendezvous: the tensor must be one of comm.empty (or a view of it): other memory cannot be "
                         "opened by the other ranks")
    if found.met is not None and not found.met[1].memory.closed:
        if found.met[0] is not group:
            raise ValueError("rendezvous: the memory of this tensor belongs to another group already")
        return found.met[1]
    made = Symmetric(found, group)
    found.met = group, made
    return made


@flyc.kernel
def barrier_kernel(bases, rank: fx.Int32, channel: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                   ranks: fx.Constexpr[int]):
    """The workgroup of number `channel` meets those of the other ranks."""
    peers = Peers(bases, rank, ranks, signature, limit)
    if fx.block_idx.x == channel:
        peers.meet()


@functools.cache
def build_barrier(ranks: int, wave: int, target: Target) -> Any:
    """``launch(bases, rank, channel, signature, limit, stream=None)``."""

    @flyc.jit
    def symmetric_barrier(bases, rank: fx.Int32, channel: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                          stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        barrier_kernel(bases, rank, channel, signature, limit, ranks).launch(
            grid=channel + 1, block=wave, stream=stream)

    return symmetric_barrier


class Symmetric:
    """The memory of a tensor on every rank of a group; see :func:`rendezvous`.

    Attributes:
        rank, world_size: of the group.
        buffer_ptrs: addresses of the memory of each rank, as this process sees them.
        buffer_size: bytes of each.
    """

    def __init__(self, allocation: _Allocation, group: Any) -> None:
        meeting = meeting_of(group)
        self._group, self._target = group, target()
        self.memory = SharedMemory("rendezvous", meeting, allocation.nbytes, TIME_LIMIT, own=allocation.base)
        self.rank, self.world_size, self.buffer_size = meeting.rank, meeting.ranks, allocation.nbytes
        self.buffer_ptrs = [base + HEADER for base in self.memory.bases.tolist()]

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype: Any, storage_offset: int = 0) -> Any:
        """A tensor of the memory of a rank, from element `storage_offset` on; good until :meth:`close`.

        Raises:
            ValueError: it does not lie within the memory.
        """
        import torch

        size = torch.empty(0, dtype=dtype).element_size()
        end = (storage_offset + math.prod(sizes)) * size
        if not 0 <= rank < self.world_size or storage_offset < 0 or end > self.buffer_size:
            raise ValueError(f"get_buffer: {tuple(sizes)} {dtype} from element {storage_offset} of rank {rank}: there "
                             f"are {self.buffer_size} bytes on each of {self.world_size} ranks")
        self.memory.require_open("get_buffer")
        return tensor_at(self.buffer_ptrs[rank] + storage_offset * size, sizes, dtype)

    def barrier(self, channel: int = 0, stream: Any = None) -> None:
        """Wait on the stream for all ranks; what they stored before is visible afterwards. Channels (0 to 511) do not
        wait for each other.

        Raises:
            CollectiveError: a rank did not come in time, or called something else.
        """
        if not 0 <= channel < PLACES:
            raise ValueError(f"barrier: channels are 0 to {PLACES - 1}, got {channel}")
        self._ready("barrier")
        launch(build_barrier(self.world_size, self._target.wave, self._target), self.memory.bases, self.memory.bases,
               self.rank, channel, signature(f"barrier {channel}"), self.memory.limit, stream=stream)
        self.memory.check("barrier")

    def all_reduce_(self, x: Any, stream: Any = None) -> Any:
        """Sum a contiguous view of the memory over the ranks, in place, in f32 and rounded once; returns it.

        f32, f16 and bf16 of whole packs of 16 bytes, at the same place on every rank; what else it may be is summed by
        the group's own backend, which is reported once.

        Raises:
            CollectiveError: a rank did not come, or called something else. ValueError: x does not lie in the memory.
        """
        size, offset = x.numel() * x.element_size(), x.data_ptr() - self.buffer_ptrs[self.rank]
        if not size:
            return x
        if not 0 <= offset <= self.buffer_size - size:
            raise ValueError("all_reduce_: the tensor must be a view of the memory of this rendezvous")
        self._ready("all_reduce_")
        dtype = float_name(x)
        reason = "" if dtype is not None else f"{x.dtype} is none of f32, f16, bf16"
        if not reason and (size % PACK_BYTES or offset % PACK_BYTES or not x.is_contiguous()):
            reason = f"{tuple(x.shape)} with strides {x.stride()} is not made of whole packs of {PACK_BYTES} bytes"
        if reason:
            return self._by_backend(x, reason)
        config = exchange_config("all_reduce_", self._target, IN_PLACE, self.world_size, str(dtype))
        packs = size // PACK_BYTES
        part = config.part(packs)
        call = f"all_reduce_ {tuple(x.shape)} {x.dtype} at {offset}"
        launch(build_in_place(config), x, self.memory.bases, self.rank, packs, part, offset, signature(call),
               self.memory.limit, config.grid(part)[0], stream=stream)
        self.memory.check(call)
        return x

    def _by_backend(self, x: Any, reason: str) -> Any:
        import torch.distributed as dist

        if is_meeting(self._group):
            raise ValueError(f"all_reduce_: {reason}, and there is no process group whose backend could do it")
        report(f"all_reduce_ is done by the backend {dist.get_backend(self._group)}: {reason}")
        total = x.contiguous()
        dist.all_reduce(total, group=self._group)
        return x.copy_(total)

    def _ready(self, name: str) -> None:
        self.memory.require_open(name)
        self.memory.check(f"before {name}")

    def close(self) -> None:
        """Close the other ranks' memory; this rank's lives as long as its tensors. The others must not be in a call."""
        self.memory.close()
