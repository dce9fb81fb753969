"""Memory that the ranks of a group share: scoped accesses, and a barrier between the same workgroup of every rank.

A rank's shared memory begins with signals, which only the barrier touches; :data:`HEADER` bytes on follows the payload.

* The barrier counts: workgroup b of every rank keeps the number of its barriers (`epoch`) in its own memory and writes
  it, with a signature of the call, to its place in the memory of every peer. Numbers only grow, so nothing is reset.
* Payload stores of the workgroup come before the signal by a release at system scope; reads of the peers' payload come
  after it by an acquire. A plain store as a signal, or a fence of a smaller scope, would leave the payload in a cache.
* A rank that does not come, or comes with another call, is noted in the status, and the peers are told to give up.
  Who waits looks at the own status too: when one workgroup has failed, no other one waits for its limit. The host
  notes there which ranks' processes have ended.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import align_up
from ..parts.memory import Buffer, pointer
from .system import SYSTEM, fence, load, store

__all__ = ["ABSENT", "BLOCKS", "DEAD", "DIED", "FAILED", "HEADER", "HOST", "MISMATCH", "MOST_RANKS", "PLACES",
           "QUITS", "SHORT", "STATUS", "Peers", "one_after_another"]

MOST_RANKS = 8
PLACES = 512  # workgroups that may use barriers
BLOCKS = 80  # and those of an exchange, which saturate the links
STATUS = PLACES * (MOST_RANKS * 8 + 4)  # where the status lies: epochs and signals come before it
DEAD, HOST = 1, 4  # i32 behind the status: ranks whose process has ended (bits), the host's copy on the simulator
HOST_ADDRESS = 8  # bytes behind the status: where the host reads it
QUITS = STATUS + 64  # i32 of each rank: whether it has given up, for those who wait for something else than a barrier
HEADER = -(-(QUITS + 4 * MOST_RANKS) // 4096) * 4096
# Status: a rank did not come, came with another call, gave up, has ended, or gives fewer rows than it has received.
ABSENT, MISMATCH, FAILED, DIED, SHORT = 1, 2, 3, 4, 5
GAVE_UP = 0x7FFFFFFF  # an epoch that no barrier reaches
TICKS = 100_000_000  # of the steady clock in a second


def one_after_another(sizes: dict[str, int]) -> dict[str, int]:
    """Byte offsets of the parts of a payload, and under ``"end"`` its size; each part begins at whole 256 bytes."""
    places, at = dict[str, int](), 0
    for name, size in sizes.items():
        places[name] = at
        at = align_up(at + size, 256)
    return {**places, "end": at}


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

    def healthy(self) -> Any:
        """Whether nothing has gone wrong on this rank so far."""
        return fx.Int32(load(self.base(self.rank, fx.Int64, STATUS))) == 0

    def wait_for(self, counters: Any, goal: Any) -> None:
        """Wait until each of ``counters[rank]`` in the own memory has reached its goal: what the ranks have counted
        there (by atomic additions of system scope, behind a release) is visible afterwards.

        Args:
            counters: pointer to an Int32 of each rank.
            goal: Int32; thread r waits for that of rank r.
        """
        _wait_for(self, counters, goal)
        fx.barrier()

    def signal_of(self, rank: Any, sender: Any) -> Any:
        """Where `sender` leaves its epoch and signature in the memory of a rank."""
        place = PLACES * 4 + (fx.block_idx.x * MOST_RANKS + sender) * 8
        return self.base(rank, fx.Int64, place)

    def failed(self, problem: Any, rank: Any) -> None:
        """Note a problem with a rank, and tell all the others that nothing will come from this one."""
        _note(self, fx.Int32(problem) | (rank << 8))
        for peer in fx.range_constexpr(self.ranks):
            store(self.signal_of(peer, self.rank), fx.Int64(GAVE_UP))
            store(self.base(peer, fx.Int32, QUITS) + self.rank, fx.Int32(1))


@flyc.jit
def _note(peers, problem):
    """The first problem stays; the host reads it at a place of its own."""
    _, first = fx.llvm.atomic_cas(peers.base(peers.rank, fx.Int32, STATUS), fx.Int32(0), problem, syncscope=SYSTEM)
    if first:
        address = peers.base(peers.rank, fx.Int64, STATUS + HOST_ADDRESS).load()
        store(fx.inttoptr(fx.PointerType.get(fx.Int32.ir_type, fx.AddressSpace.Global, 4), address), problem)


@flyc.jit
def _meet(peers):
    lane = fx.thread_idx.x
    status = peers.base(peers.rank, fx.Int64, STATUS)  # and the ranks that have ended in its upper half
    # Who gave up stays away from every further barrier, and does not let the others wait at theirs.
    healthy = fx.Int32(load(status)) == 0
    if (lane < peers.ranks) & healthy:
        counter = peers.base(peers.rank, fx.Int32) + fx.block_idx.x
        epoch = counter.load() + 1
        fence(fx.AtomicOrdering.Release)
        store(peers.signal_of(lane, peers.rank), (fx.Int64(peers._signature) << 32) | fx.Int64(epoch))
        mine = peers.signal_of(peers.rank, lane)
        begin, late, seen, noted = fx.rocdl.steady_clock(), fx.Int64(0), fx.Int64(0), fx.Int64(0)
        left = fx.Int32(0)  # the other workgroups failed, or the rank of this lane has ended
        while (fx.Int32(seen) < epoch) & (left == 0) & (late < fx.Int64(peers._limit) * TICKS):
            fx.rocdl.s_sleep(1)
            noted = load(status)
            left = fx.Int32(noted) | ((fx.Int32(noted >> 32) >> lane) & 1)
            seen = load(mine)  # after the status: what a rank signalled before it ended counts
            late = fx.rocdl.steady_clock() - begin
        arrived = fx.Int32(seen)
        if arrived < epoch:
            peers.failed((left == 0).select(fx.Int32(ABSENT), fx.Int32(DIED)), lane)
        if arrived == GAVE_UP:
            peers.failed(FAILED, lane)
        if (arrived == epoch) & (fx.Int32(seen >> 32) != peers._signature):
            peers.failed(MISMATCH, lane)
        fence(fx.AtomicOrdering.Acquire)
        if lane == peers.rank:
            counter.store(epoch)


@flyc.jit
def _wait_for(peers, counters, goal):
    lane = fx.thread_idx.x
    status = peers.base(peers.rank, fx.Int64, STATUS)
    if (lane < peers.ranks) & (fx.Int32(load(status)) == 0):
        quits = peers.base(peers.rank, fx.Int32, QUITS) + lane
        begin, late, seen, noted = fx.rocdl.steady_clock(), fx.Int64(0), load(counters + lane), fx.Int64(0)
        left, quit = fx.Int32(0), fx.Int32(0)
        while (seen < goal) & (left == 0) & (quit == 0) & (late < fx.Int64(peers._limit) * TICKS):
            fx.rocdl.s_sleep(1)
            noted, quit = load(status), load(quits)
            left = fx.Int32(noted) | ((fx.Int32(noted >> 32) >> lane) & 1)
            seen = load(counters + lane)  # after the others: what was counted before a rank ended is there
            late = fx.rocdl.steady_clock() - begin
        if seen < goal:
            problem = (left == 0).select(fx.Int32(ABSENT), fx.Int32(DIED))
            peers.failed((quit == 0).select(problem, fx.Int32(FAILED)), lane)
        fence(fx.AtomicOrdering.Acquire)
