"""Workgroup clusters (gfx1250)."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, rocdl, scf
from flydsl.tracing.lazy import gpu as gpu_dialect
from flydsl.tracing.locations import dsl_loc_tracing

from .._emit import to_index
from . import universal
from .utils import i32_type, operand

__all__ = [
    "CLUSTER_BARRIER_ID", "CLUSTER_WAIT_ALL", "cluster_barrier", "cluster_signal_once_per_wg", "cluster_wait",
    "compute_cluster_position", "compute_mcast_masks", "is_wave_leader",
]

CLUSTER_BARRIER_ID = -3
CLUSTER_WAIT_ALL = -3


@dsl_loc_tracing
def is_wave_leader() -> Any:
    """Whether this is wave 0 of the workgroup: raw i1."""
    return arith.cmpi(arith.CmpIPredicate.eq, universal.wave_id(), operand(0))


@dsl_loc_tracing
def cluster_signal_once_per_wg() -> None:
    """Wave 0 signals the cluster barrier."""
    branch = scf.IfOp(is_wave_leader())
    with ir.InsertionPoint(branch.then_block):
        rocdl.s_barrier_signal(ir.IntegerAttr.get(i32_type(), CLUSTER_BARRIER_ID))
        scf.yield_([])


@dsl_loc_tracing
def cluster_wait() -> None:
    rocdl.s_barrier_wait(ir.IntegerAttr.get(ir.IntegerType.get_signless(16), CLUSTER_WAIT_ALL))


@dsl_loc_tracing
def cluster_barrier() -> None:
    """Barrier over all workgroups of the cluster."""
    gpu_dialect.barrier()
    cluster_signal_once_per_wg()
    cluster_wait()


@dsl_loc_tracing
def compute_cluster_position() -> tuple[Any, Any]:
    """Position of the workgroup in its cluster along x and y, as index values."""
    return to_index(universal.cluster_workgroup_id_x()), to_index(universal.cluster_workgroup_id_y())


@dsl_loc_tracing
def compute_mcast_masks(local_x: Any, local_y: Any, cluster_m: int, cluster_n: int) -> tuple[Any, Any]:
    """Multicast masks of a workgroup at (`local_x`, `local_y`) of a cluster of ``cluster_m`` along x and ``cluster_n``
    along y: i32, or numbers for a position in numbers.

    Workgroup (x, y) has bit ``x + y * cluster_m``, its number in the cluster. The first mask has the workgroups of the
    same x (they share an A tile), the second those of the same y (they share a B tile).
    """
    same_x, same_y = sum(1 << (n * cluster_m) for n in range(cluster_n)), (1 << cluster_m) - 1
    if isinstance(local_x, int) and isinstance(local_y, int):
        return same_x << local_x, same_y << (local_y * cluster_m)
    i32 = i32_type()
    x, y = (arith.index_cast(i32, v) if str(v.type) == "index" else v for v in map(operand, (local_x, local_y)))
    return arith.shli(operand(same_x), x), arith.shli(operand(same_y), arith.muli(y, operand(cluster_m)))
