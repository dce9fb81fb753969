"""Waves that take turns: groups, priorities, split barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.ir_walk import in_block, named
from flydsl.tracing.lazy import LazyModule
from flydsl.tracing.locations import dsl_loc_tracing

from .. import coop, gpu
from .._target import require_feature, target_row, target_warp_size
from ..enum import AtomicOrdering, SyncScope
from ..numeric import Int32
from ..rocdl.universal import readfirstlane, s_barrier, s_setprio, s_wait_dscnt, sched_barrier
from ..rocdl.utils import emit, i32_type
from ..rocdl.waits import s_waitcnt

_flow = LazyModule("flydsl.control.flow")
_WORKGROUP = -1  # number of the barrier that every wave of the workgroup is a member of


@dsl_loc_tracing
def wave_index() -> Any:
    """Number of this wave in its workgroup, in a scalar register: branches on it are branches of whole waves."""
    return Int32(readfirstlane(i32_type(), (coop._linear_thread() // target_warp_size()).ir_value()))


def _wave_count() -> int:
    """Waves of the workgroup."""
    x, y, z = gpu.known_block_size()
    return -(-x * y * z // target_warp_size())


class WaveGroups:
    """The waves of a workgroup in groups of neighbours, which may do different things or take turns.

    Args:
        count: number of groups; it must divide the number of waves.

    Raises:
        ValueError: it does not.
    """

    def __init__(self, count: int = 2) -> None:
        waves = _wave_count()
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


#: What may move across the end of the starts of a step, as a mask of ``sched_barrier``: vector (2) and scalar (4)
#: arithmetic, transcendental functions (0x400), stores (0x40) and LDS (0x80); no loads and no matrix instructions.
_AROUND_LOADS = 0x2 | 0x4 | 0x40 | 0x80 | 0x400


@contextmanager
def pinned(wanted: bool) -> Iterator[None]:
    """Keep the loads that were started before the block in front of the matrix instructions of the block.

    The scheduler counts on no latency across a barrier, and sinks loads to where their results are stored to LDS. A
    block that says itself what is scheduled where (``sched_group_barrier``, ``iglp_opt``) is left to that.
    """
    if not wanted:
        yield
        return
    mask = ir.IntegerAttr.get(i32_type(), _AROUND_LOADS)
    mark = ir.Operation.create("rocdl.sched.barrier", attributes={"mask": mask})
    yield
    if any(_schedules(op) for op in _behind(mark)):
        mark.erase()


def _behind(op: Any) -> list[Any]:
    """The operations of a block behind one of it."""
    block = in_block(op.block)
    return block[block.index(op) + 1 :]


def _schedules(op: Any) -> bool:
    """Whether an operation, or one inside of it, tells the scheduler where instructions go."""
    names = ("rocdl.sched.group.barrier", "rocdl.iglp.opt")
    return op.name in names or bool(named(op, *names))


@dsl_loc_tracing
def lds_barrier() -> None:
    """Workgroup barrier that orders LDS accesses only: copies and loads from global memory stay in flight.

    `fx.barrier` orders all memory, for which it waits for every direct copy to LDS (and, on gfx12, every load).
    """
    _memory_order()
    if target_row().has("split_wait_counters"):
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
    require_feature("a split barrier", "split_barriers", "; use fx.barrier()")
    _memory_order()
    s_wait_dscnt(0)
    barrier_signal()


def barrier_signal() -> None:
    """First half of a workgroup barrier for which LDS accesses that are on the way do not count."""
    _memory_order()
    emit("s.barrier.signal", attributes={"id": _id(32)})
    _memory_order()


@dsl_loc_tracing
def barrier_wait() -> None:
    """Second half of a workgroup barrier: wait until every wave has arrived."""
    require_feature("a split barrier", "split_barriers", "; use fx.barrier()")
    _memory_order()
    emit("s.barrier.wait", attributes={"id": _id(16)})
    sched_barrier(0)
    _memory_order()


def _id(bits: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), _WORKGROUP)


class NamedBarrier:
    """A barrier of some waves of a workgroup (gfx1250). A wave is a member of one at a time, by `join`.

    Made by all waves together; it contains a workgroup barrier. ValueError on another target, or for a number of
    waves that the workgroup does not have.

    Args:
        waves: number of members. The barrier opens when so many have arrived.
    """

    def __init__(self, waves: int) -> None:
        require_feature("a named barrier", "named_barriers", "; use fx.barrier()")
        if not 1 <= waves <= _wave_count():
            raise ValueError(f"a named barrier of {waves} waves in a workgroup of {_wave_count()}")
        self.waves = waves
        self._pointer = _named_barrier()
        _flow.scf_if_dispatch(wave_index() == 0, lambda: self._emit("s.barrier.init"))
        fenced(lds_barrier)

    def _emit(self, name: str) -> None:
        members = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), self.waves)
        emit(name, [self._pointer], {} if name.endswith("join") else {"memberCnt": members})

    @dsl_loc_tracing
    def join(self) -> None:
        """Make this wave a member."""
        self._emit("s.barrier.join")

    @dsl_loc_tracing
    def arrive(self) -> None:
        """This member has done its LDS accesses before here, and goes on."""
        _memory_order()
        s_wait_dscnt(0)
        self._emit("s.barrier.signal.var")
        _memory_order()

    @dsl_loc_tracing
    def wait(self) -> None:
        """Wait until all members have arrived."""
        _memory_order()
        emit("s.barrier.wait", attributes={"id": ir.IntegerAttr.get(ir.IntegerType.get_signless(16), 1)})
        sched_barrier(0)
        _memory_order()


def _named_barrier() -> ir.Value:
    """Address of a new barrier variable of the kernel's module."""
    function = ir.InsertionPoint.current.block.owner
    while function.operation.name not in ("gpu.func", "func.func"):
        function = function.operation.parent
    module = function.operation.parent
    block = module.operation.regions[0].blocks[0]
    used = sum(op.operation.name == "llvm.mlir.global" for op in block.operations)
    name = f"named_barrier_{used}"
    with ir.InsertionPoint.at_block_begin(block):
        ir.Operation.create("llvm.mlir.global", regions=1, attributes={
            "sym_name": ir.StringAttr.get(name), "addr_space": ir.Attribute.parse("3 : i32"),
            "global_type": ir.TypeAttr.get(ir.Type.parse('!llvm.target<"amdgcn.named.barrier", 0>')),
            "linkage": ir.Attribute.parse("#llvm.linkage<internal>")})
    pointer = ir.Type.parse("!llvm.ptr<3>")
    op = ir.Operation.create("llvm.mlir.addressof", results=[pointer],
                             attributes={"global_name": ir.FlatSymbolRefAttr.get(name)})
    return op.result
