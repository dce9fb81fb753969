"""Waves that take turns: groups, priorities, split barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flydsl._mlir import ir

from .. import coop, gpu
from .._lazy import LazyModule
from .._target import require_arch, target_arch, target_warp_size
from ..enum import AtomicOrdering, SyncScope
from ..meta import dsl_loc_tracing
from ..numeric import Int32
from ..rocdl.universal import readfirstlane, s_barrier, s_setprio, s_wait_dscnt, sched_barrier
from ..rocdl.utils import emit, i32_type
from ..rocdl.waits import s_waitcnt

_flow = LazyModule("flydsl.compiler.control_flow")
_WORKGROUP = -1  # number of the barrier that every wave of the workgroup is a member of


@dsl_loc_tracing
def wave_index() -> Any:
    """Number of this wave in its workgroup, in a scalar register: branches on it are branches of whole waves."""
    return Int32(readfirstlane(i32_type(), (coop._linear_thread() // target_warp_size()).ir_value()))


class WaveGroups:
    """The waves of a workgroup in groups of neighbours, which may do different things or take turns.

    Args:
        count: number of groups; it must divide the number of waves.

    Raises:
        ValueError: it does not.
    """

    def __init__(self, count: int = 2) -> None:
        x, y, z = gpu.known_block_size()
        waves = -(-x * y * z // target_warp_size())
        if count < 1 or waves % count:
            raise ValueError(f"{waves} waves do not divide into {count} groups")
        self.count, self.waves = count, waves // count
        self.index = wave_index() // self.waves

    def only(self, group: int, body: Callable[[], Any]) -> None:
        """Let one group execute `body`, which must not contain a barrier."""
        _flow.scf_if_dispatch(self.index == group, lambda: body() and None)

    def stagger(self) -> None:
        """Let each group run one turn behind the one before it, from here to `join`."""
        for later in range(1, self.count):
            _flow.scf_if_dispatch(self.index >= later, lambda: s_barrier())

    def join(self) -> None:
        """End `stagger`: all groups have passed as many barriers."""
        for later in range(1, self.count):
            _flow.scf_if_dispatch(self.index < later, lambda: s_barrier())

    @contextmanager
    def turn(self, priority: int = 1) -> Iterator[None]:
        """Code that one group at a time executes at a raised priority, between two barriers of the workgroup."""
        fenced(lds_barrier)
        s_setprio(priority)
        yield
        sched_barrier(0)
        s_setprio(0)
        fenced(s_barrier)


def fenced(emit_barrier: Callable[[], None]) -> None:
    """A barrier that the scheduler moves nothing across: matrix instructions stay on their side."""
    sched_barrier(0)
    emit_barrier()
    sched_barrier(0)


@dsl_loc_tracing
def lds_barrier() -> None:
    """Workgroup barrier that orders LDS accesses only: copies and loads from global memory stay in flight.

    `fx.barrier` orders all memory, for which it waits for every direct copy to LDS (and, on gfx12, every load).
    """
    _memory_order()
    if target_arch().startswith("gfx12"):
        s_wait_dscnt(0)
    else:
        s_waitcnt(lgkmcnt=0)
    s_barrier()
    _memory_order()


def _memory_order() -> None:
    """Keep the compiler from moving memory accesses across; no instruction."""
    from ..llvm import memory_fence

    memory_fence(syncscope=SyncScope.SingleThread, ordering=AtomicOrdering.AcqRel)


@dsl_loc_tracing
def barrier_arrive() -> None:
    """First half of a workgroup barrier (gfx12): this wave has done its LDS accesses before here, and goes on.

    Every wave that arrives must `barrier_wait` before it arrives again. ValueError on gfx9, whose barrier is one
    instruction: use `fx.barrier`.
    """
    require_arch("a split barrier", "gfx12", instead="; use fx.barrier()")
    _memory_order()
    s_wait_dscnt(0)
    emit("s.barrier.signal", attributes={"id": _id(32)})
    _memory_order()


@dsl_loc_tracing
def barrier_wait() -> None:
    """Second half of a workgroup barrier: wait until every wave has arrived."""
    require_arch("a split barrier", "gfx12", instead="; use fx.barrier()")
    _memory_order()
    emit("s.barrier.wait", attributes={"id": _id(16)})
    sched_barrier(0)
    _memory_order()


def _id(bits: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), _WORKGROUP)
