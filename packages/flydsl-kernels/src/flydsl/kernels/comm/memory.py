"""The shared memory of a group: allocated once, opened by every rank, watched, given back at the end.

A rank's memory begins with the signals of :mod:`flydsl.kernels.comm.peers`; the payload follows. Whatever goes wrong
on one rank while it is made is an error on all of them, since everyone hears of it before anyone goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import os
import pickle
import selectors
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import flydsl.runtime as rt

from .peers import ABSENT, DEAD, DIED, FAILED, HEADER, HOST, MISMATCH, MOST_RANKS, SHORT, STATUS

__all__ = ["CollectiveError", "ProcessGroup", "Rendezvous", "SharedMemory", "Threads", "is_meeting",
           "meeting_of", "nonempty", "tensor_at"]

TAG = 0x464C59  # of messages between hosts, which no message of a program has by chance
_PROBLEMS = {
    ABSENT: "rank {rank} did not come within {limit} s",
    MISMATCH: "rank {rank} called something else, or with another shape or dtype",
    FAILED: "rank {rank} gave up",
    DIED: "the process of rank {rank} has ended",
    SHORT: "rank {rank} combines fewer rows, or weights, than it has received",
}


class CollectiveError(RuntimeError):
    """A collective did not come to its end. The communicator of the group cannot be used any more."""


class Rendezvous(Protocol):
    """Who belongs together, and a way to tell each other something before there is shared memory."""

    rank: int
    ranks: int

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, by rank; also a barrier."""


class ProcessGroup:
    """A ``torch.distributed`` process group; None for the default one."""

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        self.group, self.rank, self.ranks = group, dist.get_rank(group), dist.get_world_size(group)

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, by rank; also a barrier.

        Raises:
            RuntimeError: a rank cannot be reached. With gloo it names that rank, and comes as soon as its process has
                ended; other backends tell what they know, when they know it.
        """
        import torch.distributed as dist

        values: list[Any] = [None] * self.ranks
        if "cpu:gloo" not in dist.get_backend_config(self.group):
            dist.all_gather_object(values, value, self.group)
            return values
        # From each to each, not around a ring: whoever has lost a rank knows which one it is.
        values[self.rank], gone = value, list[str]()
        sent = self._send(("value", value))
        for other in self._others():
            try:
                kind, values[other] = self._receive(other)
            except RuntimeError as error:
                kind, values[other] = "gone", f"rank {other} has gone: {error}"
            if kind == "gone":
                gone.append(values[other])
        if gone:
            # Who had all values before that rank went waits here next. gloo drops a message whose handle is dropped.
            _farewells.extend(sent + self._send(("gone", f"{gone[0].partition(':')[0]}, says rank {self.rank}")))
            raise RuntimeError("; ".join(gone))
        for work, _ in sent:
            with contextlib.suppress(RuntimeError):  # whoever went after its own value is missed at the next meeting
                work.wait()
        return values

    def _others(self) -> list[int]:
        return [rank for rank in range(self.ranks) if rank != self.rank]

    def _send(self, message: tuple[str, Any]) -> list[Any]:
        """Begin to send to all other ranks that can be reached; the handles keep the messages."""
        import torch
        import torch.distributed as dist

        data, works = torch.frombuffer(bytearray(pickle.dumps(message)), dtype=torch.uint8), list[Any]()
        for other in self._others():
            for part in (torch.tensor([len(data)]), data):
                with contextlib.suppress(RuntimeError):  # it is missed by who waits for its values
                    works.append((dist.isend(part, group=self.group, tag=TAG, group_dst=other), part))
        return works

    def _receive(self, other: int) -> tuple[str, Any]:
        import torch
        import torch.distributed as dist

        size = torch.zeros(1, dtype=torch.int64)
        dist.recv(size, group=self.group, tag=TAG, group_src=other)
        data = torch.empty(int(size), dtype=torch.uint8)
        dist.recv(data, group=self.group, tag=TAG, group_src=other)
        # Of another rank of this program, as torch's own all_gather_object takes its values.
        found: tuple[str, Any] = pickle.loads(data.numpy().tobytes())
        return found


_farewells: list[Any] = []  # messages of this process that other ranks may not have taken yet


class Threads:
    """The ranks are threads of this process, each with a device of its own.

    >>> [a.rank for a in Threads.of(2)]
    [0, 1]
    """

    def __init__(self, rank: int, arrivals: list[list[Any]], barrier: threading.Barrier, limit: float) -> None:
        self.rank, self.ranks = rank, len(arrivals)
        self._arrivals, self._barrier, self._limit = arrivals, barrier, limit

    @classmethod
    def of(cls, ranks: int, limit: float = 30) -> list[Threads]:
        """What each of the threads gets; they wait for each other for `limit` seconds."""
        arrivals: list[list[Any]] = [[] for _ in range(ranks)]
        barrier = threading.Barrier(ranks)
        return [cls(rank, arrivals, barrier, limit) for rank in range(ranks)]

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, by rank; also a barrier. RuntimeError names the ranks that do not come."""
        own = self._arrivals[self.rank]
        own.append(value)
        try:
            self._barrier.wait(self._limit)
        except threading.BrokenBarrierError:
            absent = [rank for rank, values in enumerate(self._arrivals) if len(values) < len(own)]
            late = ", ".join(map(str, absent or [self.rank]))  # nobody else is missing: this one was too late
            raise RuntimeError(f"rank {late} did not come within {self._limit} s") from None
        return [values[len(own) - 1] for values in self._arrivals]


def meeting_of(group: Any) -> Rendezvous:
    """A rendezvous as it is, or that of a process group, which has a `gather` of its own."""
    return group if is_meeting(group) else ProcessGroup(group)


def is_meeting(group: Any) -> bool:
    """Whether it is a :class:`Rendezvous`, and not a process group or None."""
    return hasattr(group, "gather") and hasattr(group, "ranks")


@dataclass(frozen=True)
class _Member:
    """What a rank tells the others of itself."""

    machine: str
    process: int
    processes: str  # the name space of the process number
    layout: tuple[Any, ...]
    address: int
    handle: bytes
    problem: str


class SharedMemory:
    """`nbytes` of payload on every rank, that all ranks address.

    Args:
        where: who asks, for errors.
        meeting: the group.
        nbytes: of payload, the same on every rank.
        limit: seconds that a kernel waits for another rank.
        own: this rank's memory of ``HEADER + nbytes``, which stays the caller's; None: it is allocated, and given back
            at the end.
        layout: anything else that must be the same on every rank, as named values.

    Raises:
        ValueError: the group has more ranks than are supported, ranks on other machines, or ranks that do not agree.
        CollectiveError: a rank cannot allocate or open the memory.
    """

    def __init__(self, where: str, meeting: Rendezvous, nbytes: int, limit: int, own: int | None = None,
                 **layout: Any) -> None:
        self.rank, self.ranks, self.limit = meeting.rank, meeting.ranks, limit
        self._opened, self._own, self.problem, self._watch = list[int](), 0, "", _Watch()
        self._lent, self._where, self._meeting = own is not None, where, meeting
        if not 2 <= self.ranks <= MOST_RANKS:
            raise ValueError(f"{where}: 2 to {MOST_RANKS} ranks are supported, the group has {self.ranks}")
        agreed = tuple({"the call": where, "bytes": nbytes, **layout}.items())
        handle, problem = b"", ""
        try:
            self._own = rt.malloc(HEADER + nbytes, uncached=True) if own is None else own
            rt.memset(self._own, 0, HEADER)
            rt.synchronize()
            handle = rt.ipc_handle(self._own)
        except rt.HipError as error:
            problem = str(error)
        own_member = _Member(_machine(), os.getpid(), _process_space(), agreed, self._own, handle, problem)
        try:
            members = _gather(where, meeting, own_member)
            _agree(where, members)
            self._take(self._open(where, members, meeting))
            _gather(where, meeting, None)  # no kernel signals before all headers are made
            self._watch.start(self._own, self.rank, members)
        except BaseException:
            self.close()
            raise
        _open.add(self)

    def _take(self, bases: list[int]) -> None:
        """Make what kernels and the host need of the memory of all ranks."""
        import torch

        device = "cuda" if rt.kind() == "rocm" else "cpu"
        self.bases = torch.tensor(bases, dtype=torch.int64, device=device)
        # Problems are written where the host reads them without waiting for the device.
        self._host = torch.zeros(2, dtype=torch.int32, pin_memory=True) if device == "cuda" else None
        self._word = self._own + STATUS + 4 * HOST if self._host is None else self._host.data_ptr()
        rt.memcpy(self._own + STATUS + 8, torch.tensor([self._word]), 8)

    def _open(self, where: str, members: list[_Member], meeting: Rendezvous) -> list[int]:
        bases, problem = list[int](), ""
        for rank, member in enumerate(members):
            try:
                same = member.process == os.getpid() and member.processes == _process_space()
                bases.append(member.address if same else rt.open_ipc(member.handle))
                if not same:
                    self._opened.append(bases[-1])
            except (rt.HipError, ValueError) as error:
                problem = problem or f"the memory of rank {rank} cannot be opened: {error}"
        for rank, text in enumerate(_gather(where, meeting, problem)):
            if text:
                raise CollectiveError(f"{where}: rank {rank}: {text}")
        return bases

    @property
    def closed(self) -> bool:
        return not self._own

    def at(self, rank_offset: int) -> int:
        """Address of a byte of this rank's own payload."""
        return self._own + HEADER + rank_offset

    def require_open(self, name: str) -> None:
        """CollectiveError if nothing can be exchanged any more, with what went wrong before."""
        if not self._own:
            raise CollectiveError(self.problem or f"{name}: the communicator is closed")

    def meet(self) -> None:
        """Wait on the host for all ranks. CollectiveError if they cannot meet; the memory is closed then."""
        try:
            _gather(self._where, self._meeting, None)
        except BaseException:
            self.close()
            raise

    def check(self, call: str) -> None:
        """Raise what kernels have noted so far; the device is not waited for.

        With one simulated device every launch has ended when it returns, so the call that fails raises. On a device,
        and for a captured graph, it is a later call, or an explicit :meth:`Communicator.check`.
        """
        if not self._own:
            return
        noted = ctypes.c_int32.from_address(self._word).value
        if noted:
            text = _PROBLEMS[noted & 0xFF].format(rank=noted >> 8, limit=self.limit)
            self.problem = f"rank {self.rank}, {call}: {text}"
            self.close()
            raise CollectiveError(self.problem)

    def close(self) -> None:
        """Give the memory back. The other ranks must not be in an exchange."""
        self._watch.stop()
        for address in self._opened:
            rt.close_ipc(address)
        if self._own and not self._lent:
            rt.free(self._own)
        self._opened, self._own = [], 0
        _open.discard(self)


class _Foreign:
    """Device memory by the protocol that torch reads."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


def tensor_at(address: int, shape: Sequence[int], dtype: Any, release: Callable[[], None] | None = None) -> Any:
    """A torch tensor of memory that somebody else owns; `release` is called when no tensor of it is left."""
    import torch

    nbytes = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    if not nbytes and release is None:
        return torch.empty(*shape, dtype=dtype, device="cuda" if rt.kind() == "rocm" else "cpu")
    found: Any
    if rt.kind() == "rocm":
        found = _Foreign(address, nbytes)
        flat = torch.as_tensor(found, device="cuda")
    else:
        found = (ctypes.c_uint8 * nbytes).from_address(address)
        flat = torch.frombuffer(found, dtype=torch.uint8)
    if release is not None:
        weakref.finalize(found, release).atexit = False
    return flat.view(dtype).view(*shape)


def nonempty(x: Any) -> Any:
    """A tensor that has an address, where there are no rows."""
    return x if x.numel() else x.new_empty((1, *x.shape[1:]))


class _Watch:
    """Tells this rank's kernels at once when the process of another rank ends, so that they do not wait in vain.

    A thread sleeps until one of the processes ends; where the system has no descriptors of processes, or they cannot
    be seen (containers), kernels wait for their limit.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] | None = None

    def start(self, own: int, rank: int, members: list[_Member]) -> None:
        selector, ended = selectors.DefaultSelector(), 0
        for other, member in enumerate(members):
            visible = member.processes == members[rank].processes and member.process != os.getpid()
            if visible and hasattr(os, "pidfd_open"):
                try:
                    selector.register(os.pidfd_open(member.process), selectors.EVENT_READ, other)
                except ProcessLookupError:
                    ended |= 1 << other  # since it told its number
                except OSError:
                    continue
        if not selector.get_map() and not ended:
            selector.close()
            return
        self._wake = os.pipe()
        selector.register(self._wake[0], selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=_report_ends, args=(selector, own, rt.current_device(), ended),
                                        daemon=True, name="flydsl-ranks")
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None or self._wake is None:
            return
        os.write(self._wake[1], b"x")
        self._thread.join()
        os.close(self._wake[1])
        self._thread = self._wake = None


def _report_ends(selector: selectors.BaseSelector, own: int, device: Any, ended: int) -> None:
    """Write the bits of the ranks whose processes have ended, first those of which it is known, to the own memory."""
    import numpy as np

    stream = None
    rt.set_device(device)
    while True:
        for key, _ in [] if ended and stream is None else selector.select():
            if key.data is None:
                for other in list(selector.get_map().values()):
                    os.close(other.fd)
                selector.close()
                return
            ended |= 1 << key.data
            selector.unregister(key.fileobj)
            os.close(key.fd)
        # On a stream of its own: a kernel that waits occupies the others.
        stream = stream or rt.Stream()
        rt.memcpy(own + STATUS + 4 * DEAD, np.array([ended], np.int32), 4, stream)
        stream.synchronize()


def _gather(where: str, meeting: Rendezvous, value: Any) -> list[Any]:
    """The value of every rank. CollectiveError if they cannot meet, by whatever the group's backend calls it."""
    try:
        return meeting.gather(value)
    except RuntimeError as error:
        text = f"{where}: rank {meeting.rank} cannot exchange handles with the others: {error}"
        raise CollectiveError(text) from error


def _agree(where: str, members: list[_Member]) -> None:
    """Raise, on every rank alike, what keeps the ranks from sharing memory."""
    for rank, member in enumerate(members):
        if member.problem:
            raise CollectiveError(f"{where}: rank {rank} cannot allocate memory to share: {member.problem}")
    if len({member.machine for member in members}) > 1:
        raise ValueError(f"{where}: the ranks of the group are on several machines")
    for rank, member in enumerate(members):
        for (name, value), (_, first) in zip(member.layout, members[0].layout, strict=False):
            if value != first:
                raise ValueError(f"{where}: all ranks must agree, but {name} is {first} on rank 0 and {value} on rank "
                                 f"{rank}")


def _machine() -> str:
    import socket
    import uuid

    return f"{socket.gethostname()}-{uuid.getnode():x}"


def _process_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


_open: weakref.WeakSet[SharedMemory] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for found in list(_open):
        found.close()
