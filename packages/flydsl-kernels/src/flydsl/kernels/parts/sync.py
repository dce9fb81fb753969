"""Barriers of workgroups and clusters."""

from __future__ import annotations

import flydsl.expr as fx

__all__ = ["workgroup_barrier"]


def workgroup_barrier(use_cluster: bool = False) -> None:
    """A barrier of the workgroup, or of all workgroups of its cluster."""
    if use_cluster:
        fx.rocdl.cluster.cluster_barrier()
    else:
        fx.barrier()
