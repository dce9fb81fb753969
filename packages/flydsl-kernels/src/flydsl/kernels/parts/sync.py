"""Barriers of workgroups and clusters, and waits for tensor copies (gfx1250)."""

from __future__ import annotations

import flydsl.expr as fx

__all__ = ["pipeline_fence", "pipeline_fence_signal", "pipeline_fence_wait", "workgroup_barrier"]

WORKGROUP_BARRIER = -1


def workgroup_barrier(use_cluster: bool = False) -> None:
    """A barrier of the workgroup, or of all workgroups of its cluster."""
    if use_cluster:
        fx.rocdl.cluster.cluster_barrier()
    else:
        fx.barrier()


def pipeline_fence(outstanding: int = 0, use_cluster: bool = False) -> None:
    """Wait until at most `outstanding` tensor copies of this wave are under way, then for the other waves.

    Orders LDS: what this wave loads into registers stays in flight.
    """
    fx.rocdl.s_wait_tensorcnt(outstanding)
    if use_cluster:
        fx.rocdl.cluster.cluster_barrier()
    else:
        fx.lds_barrier()


def pipeline_fence_signal(outstanding: int = 0, use_cluster: bool = False) -> None:
    """The first half of :func:`pipeline_fence`: wait for copies, and tell the others."""
    fx.rocdl.s_wait_tensorcnt(outstanding)
    if use_cluster:
        fx.rocdl.cluster.cluster_signal_once_per_wg()
    else:
        fx.rocdl.s_barrier_signal(WORKGROUP_BARRIER)


def pipeline_fence_wait(use_cluster: bool = False) -> None:
    """The second half of :func:`pipeline_fence`: wait for the others."""
    if use_cluster:
        fx.rocdl.cluster.cluster_wait()
    else:
        fx.rocdl.s_barrier_wait(WORKGROUP_BARRIER)
