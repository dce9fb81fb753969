"""Memory that the ranks of a group share: scoped accesses, and a barrier between the same workgroup of every rank.

A rank's shared memory begins with signals, which only the barrier touches; :data:`HEADER` bytes on follows the payload.

* The barrier counts: workgroup b of every rank keeps the number of its barriers (`epoch`) in its own memory and writes
  it, with a signature of the call, to its place in the memory of every peer. Numbers only grow, so nothing is reset.
* Payload stores of the workgroup come before the signal by a release at system scope; reads of the peers' payload come
  after it by an acquire. A plain store as a signal, or a fence of a smaller scope, would leave the payload in a cache.
* A rank that does not come, or comes with another call, is noted in the status, and the peers are told to give up.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .memory import Buffer
from .rows import pointer

__all__ = ["ABSENT", "BLOCKS", "FAILED", "HEADER", "MISMATCH", "MOST_RANKS", "STATUS", "Peers", "SYSTEM"]

SYSTEM = ""  # LLVM's name of the scope of all devices and the host
MOST_RANKS = 8
BLOCKS = 80  # workgroups that may use barriers
STATUS = BLOCKS * (MOST_RANKS * 8 + 4)  # where the status lies: epochs and signals come before it
HEADER = -(-(STATUS + 16) // 4096) * 4096
ABSENT, MISMATCH, FAILED = 1, 2, 3  # status: a rank did not come, came with another call, or gave up
GAVE_UP = 0x7FFFFFFF  # an epoch that no barrier reaches
TICKS = 100_000_000  # of the steady clock in a second


class Peers:
    """The group as a workgroup sees it.

    Args:
        bases: i64 tensor of the addresses of the ranks' shared memory, by rank; this rank's own among them.
        rank, ranks: this rank, and how many there are (static, at most :data:`MOST_RANKS`).
        signature: of the call, the same on every rank, an Int32.
        limit: seconds after which a rank counts as absent, an Int32.
    """

    def __init__(self, bases: Any, rank: Any, ranks: int, signature: Any, limit: Any) -> None:
        self._bases, self.rank, self.ranks = pointer(bases, fx.Int64), rank, ranks
        self._signature, self._limit = signature, limit

    def base(self, rank: Any, element: Any, offset: Any = 0) -> Any:
        """Pointer into the shared memory of a rank, `offset` bytes from its beginning."""
        address = (self._bases + rank).load() + fx.Int64(offset)
        return fx.inttoptr(fx.PointerType.get(element.ir_type, fx.AddressSpace.Global, element.width // 8), address)

    def payload(self, rank: Any, element: Any, offset: Any, count: Any) -> Buffer:
        """`count` elements of a rank's payload, bounded."""
        return Buffer(self.base(rank, element, fx.Int64(offset) + HEADER), element, None, count)

    def meet(self) -> None:
        """Wait for this workgroup of every rank. What they wrote before it is visible afterwards."""
        fx.barrier()  # the stores of all waves of the workgroup
        _meet(self)
        fx.barrier()

    def signal_of(self, rank: Any, sender: Any) -> Any:
        """Where `sender` leaves its epoch and signature in the memory of a rank."""
        place = BLOCKS * 4 + (fx.block_idx.x * MOST_RANKS + sender) * 8
        return self.base(rank, fx.Int64, place)

    def failed(self, problem: int, rank: Any) -> None:
        """Note a problem with a rank, and tell all the others that nothing will come from this one."""
        status = self.base(self.rank, fx.Int32, STATUS)
        fx.llvm.atomic_cas(status, fx.Int32(0), problem | (rank << 8), syncscope=SYSTEM)
        for peer in fx.range_constexpr(self.ranks):
            _send(self.signal_of(peer, self.rank), fx.Int64(GAVE_UP))


def _send(place: Any, value: Any) -> None:
    fx.llvm.generic_store(place, value, memory_order=fx.AtomicOrdering.Monotonic, syncscope=SYSTEM)


@flyc.jit
def _meet(peers):
    lane = fx.thread_idx.x
    # Who gave up stays away from every further barrier, and does not let the others wait at theirs.
    healthy = fx.llvm.generic_load(peers.base(peers.rank, fx.Int32, STATUS), memory_order=fx.AtomicOrdering.Monotonic,
                                   syncscope=SYSTEM) == 0
    if (lane < peers.ranks) & healthy:
        counter = peers.base(peers.rank, fx.Int32) + fx.block_idx.x
        epoch = counter.load() + 1
        fx.llvm.memory_fence(syncscope=SYSTEM, ordering=fx.AtomicOrdering.Release)
        _send(peers.signal_of(lane, peers.rank), (fx.Int64(peers._signature) << 32) | fx.Int64(epoch))
        mine = peers.signal_of(peers.rank, lane)
        begin, late, seen = fx.rocdl.steady_clock(), fx.Int64(0), fx.Int64(0)
        while (fx.Int32(seen) < epoch) & (late < fx.Int64(peers._limit) * TICKS):
            fx.rocdl.s_sleep(1)
            seen = fx.llvm.generic_load(mine, memory_order=fx.AtomicOrdering.Monotonic, syncscope=SYSTEM)
            late = fx.rocdl.steady_clock() - begin
        arrived = fx.Int32(seen)
        if arrived < epoch:
            peers.failed(ABSENT, lane)
        if arrived == GAVE_UP:
            peers.failed(FAILED, lane)
        if (arrived == epoch) & (fx.Int32(seen >> 32) != peers._signature):
            peers.failed(MISMATCH, lane)
        fx.llvm.memory_fence(syncscope=SYSTEM, ordering=fx.AtomicOrdering.Acquire)
        if lane == peers.rank:
            counter.store(epoch)
