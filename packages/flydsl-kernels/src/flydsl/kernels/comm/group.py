"""The shared memory of a process group: allocated once, opened by every rank, given back at the end."""

from __future__ import annotations

import atexit
import hashlib
import weakref
from typing import Any

import flydsl.runtime as rt

from ..host.arrays import launch
from ..parts.peers import ABSENT, FAILED, HEADER, MISMATCH, STATUS
from ..target import target
from .config import PACK_BYTES, exchange_config
from .exchange import build_exchange
from .fused import ReducedNorm, build_reduced_norm

__all__ = ["CollectiveError", "Communicator", "communicator"]

DEFAULT_BYTES = 64 << 20  # of an operand
TIME_LIMIT = 30  # seconds
_TWO_STAGE_BYTES = {2: 1 << 62, 3: 160 << 10, 4: 160 << 10}  # from where on two stages pay, by ranks; else:
_TWO_STAGE_ELSE = 80 << 10

_PROBLEMS = {
    ABSENT: "rank {rank} did not come within {limit} s",
    MISMATCH: "rank {rank} called something else, or with another shape or dtype",
    FAILED: "rank {rank} gave up",
}


class CollectiveError(RuntimeError):
    """A collective did not come to its end. The communicator of the group cannot be used any more."""


class Communicator:
    """Exchanges between the ranks of a process group on one machine, by kernels that read the peers' memory.

    Handles are exchanged once, when it is made, by the group's own backend. It allocates twice `most_bytes`.

    Args:
        group: a ``torch.distributed`` process group; None for the default one.
        most_bytes: largest operand.
        limit: seconds that a rank waits for the others.

    Raises:
        ValueError: the group has more ranks than are supported, or ranks on other machines.
        HipError: memory cannot be shared.
    """

    def __init__(self, group: Any = None, most_bytes: int = DEFAULT_BYTES, limit: int = TIME_LIMIT) -> None:
        import torch
        import torch.distributed as dist

        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.limit, self.most_bytes, self._opened, self._own = limit, most_bytes, list[int](), 0
        self._target = target()
        exchange_config("Communicator", self._target, "all_gather", self.ranks)
        self._capacity = -(-most_bytes // 4096) * 4096
        size = HEADER + self._capacity + -(-self._capacity // 2 // 4096) * 4096 + 4096
        self._own = rt.malloc(size, uncached=True)
        rt.memset(self._own, 0, HEADER)
        rt.synchronize()
        handles: list[Any] = [None] * self.ranks
        dist.all_gather_object(handles, (_machine(), rt.ipc_handle(self._own)), group)
        if len({machine for machine, _ in handles}) > 1:
            rt.free(self._own)
            raise ValueError("Communicator: the ranks of the group are on several machines")
        bases = []
        for rank, (_, handle) in enumerate(handles):
            bases.append(self._own if rank == self.rank else rt.open_ipc(handle))
            if rank != self.rank:
                self._opened.append(bases[-1])
        device = "cuda" if rt.kind() == "rocm" else "cpu"
        self._bases = torch.tensor(bases, dtype=torch.int64, device=device)
        dist.barrier(group)  # every rank has opened all memory
        self._problem = ""
        _open.add(self)

    def all_reduce_kind(self, x: Any) -> str:
        """How an operand is summed: in one stage, or from some size on in two."""
        two = x.numel() * x.element_size() >= _TWO_STAGE_BYTES.get(self.ranks, _TWO_STAGE_ELSE)
        return "all_reduce_two_stage" if two else "all_reduce"

    def exchange(self, kind: str, x: Any, out: Any, dtype: str = "bytes", stream: Any = None) -> None:
        """Launch an exchange; see :data:`flydsl.kernels.comm.config.KINDS`.

        Args:
            x, out: contiguous tensors of whole packs of 16 bytes, whose sizes fit each other.
            dtype: of sums.
            stream: to launch on; None for that of x.

        Raises:
            CollectiveError: this or an earlier exchange failed: names the rank and what is missing.
            ValueError: the operand is larger than the communicator was made for.
        """
        size = self._checked(kind, x)
        config = exchange_config(kind, self._target, kind, self.ranks, dtype)
        packs, results = size // PACK_BYTES, out.numel() * out.element_size() // PACK_BYTES
        part = config.part(packs)
        call = f"{kind} {tuple(x.shape)} {x.dtype}"
        launch(build_exchange(config), x, x, out, self._bases, self.rank, packs, results, part, self._capacity,
               _signature(call), self.limit, config.grid(part)[0], stream=stream)
        self._check(call)

    def reduced_norm(self, norm: Any, x: Any, residual: Any, weight: Any, out: Any, added: Any) -> None:
        """Launch the sum over the ranks with a residual and an RMS norm.

        Args:
            norm: a :class:`flydsl.kernels.norm.config.NormConfig`.
            x, residual, out, added: contiguous matrices; weight: a vector.

        Raises as :meth:`exchange`.
        """
        self._checked("all_reduce_rmsnorm", x)
        call = f"all_reduce_rmsnorm {tuple(x.shape)} {x.dtype}"
        launch(build_reduced_norm(ReducedNorm(norm, self.ranks)), x, x, residual, weight, out, added, x.shape[0],
               self._bases, self.rank, _signature(call), self.limit)
        self._check(call)

    def _checked(self, name: str, x: Any) -> int:
        """Bytes of an operand, which fit."""
        if not self._own:
            raise CollectiveError(self._problem or f"{name}: the communicator is closed")
        size: int = x.numel() * x.element_size()
        if size > self.most_bytes:
            raise ValueError(f"{name}: the operand has {size} bytes, the communicator was made for {self.most_bytes}")
        return size

    def _check(self, call: str) -> None:
        """On the simulator every launch has ended here; on a device problems show at a later call."""
        import numpy as np

        status = np.zeros(1, np.int32)
        rt.memcpy(status, self._own + STATUS, 4)
        if status[0]:
            problem, rank = int(status[0]) & 0xFF, int(status[0]) >> 8
            text = _PROBLEMS[problem].format(rank=rank, limit=self.limit)
            self._problem = f"rank {self.rank}, {call}: {text}"
            self.close()
            raise CollectiveError(self._problem)

    def close(self) -> None:
        """Give the memory back. The other ranks must not be in an exchange."""
        for address in self._opened:
            rt.close_ipc(address)
        if self._own:
            rt.free(self._own)
        self._opened, self._own = [], 0
        _open.discard(self)


def _signature(call: str) -> int:
    """31 bits that differ for calls that do not fit each other."""
    return int.from_bytes(hashlib.sha256(call.encode()).digest()[:4], "little") >> 1


def _machine() -> str:
    import socket
    import uuid

    return f"{socket.gethostname()}-{uuid.getnode():x}"


_open: weakref.WeakSet[Communicator] = weakref.WeakSet()
_of_group: dict[Any, Communicator] = {}


def communicator(group: Any = None) -> Communicator:
    """The communicator of a process group, made by the first call, which all ranks must make together."""
    import torch.distributed as dist

    key = group if group is not None else dist.group.WORLD
    found = _of_group.get(key)
    if found is None or found._problem == "" and not found._own:
        found = _of_group[key] = Communicator(group)
    return found


@atexit.register
def _close_all() -> None:
    for found in list(_open):
        found.close()
