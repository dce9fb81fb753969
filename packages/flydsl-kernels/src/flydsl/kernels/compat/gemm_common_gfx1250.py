"""Older name of parts of GEMM kernels of gfx1250: LDS copies, barriers, waits for tensor copies, activations."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.expr.rocdl.cluster import compute_mcast_masks
from flydsl.kernels.parts.mathx import sigmoid
from flydsl.kernels.parts.memory import lds_read, lds_write

__all__ = [
    "compute_mcast_masks", "fmax_f32", "fmin_f32", "fused_silu_swiglu_elem", "make_lds_copy_ops", "pipeline_fence",
    "pipeline_fence_signal", "pipeline_fence_wait", "workgroup_barrier",
]

SWIGLU_SLOPE = 1.702
WORKGROUP_BARRIER = -1


def make_lds_copy_ops(bits: int) -> tuple[Any, Any]:
    """``(load, store)`` of `bits` (32, 64 or 128) of LDS at once.

    ``load(pointer, at)`` gives a vector, ``store(pointer, at, vector)`` writes one; `at` counts elements.

    Raises:
        ValueError: another width.
    """
    if bits not in (32, 64, 128):
        raise ValueError(f"make_lds_copy_ops: 32, 64 or 128 bits, got {bits}")

    def load(pointer: Any, at: Any) -> Any:
        return lds_read(pointer, at, bits // pointer.element_type.width)

    def store(pointer: Any, at: Any, value: Any) -> None:
        if value.numel * pointer.element_type.width != bits:
            raise ValueError(f"the vector must have {bits} bits, got {value.numel} elements")
        lds_write(pointer, at, value)

    return load, store


def fmin_f32(a: Any, b: Any) -> Any:
    """The smaller of two f32; a NaN loses."""
    return fx.minnumf(a, b)


def fmax_f32(a: Any, b: Any) -> Any:
    """The larger of two f32; a NaN loses."""
    return fx.maxnumf(a, b)


def fused_silu_swiglu_elem(g: Any, u: Any, *, swiglu: bool, limit_f32: Any, neg_limit_f32: Any) -> Any:
    """Gate and up values to one: ``g sigmoid(1.702 g) (u + 1)`` with `swiglu`, else ``g sigmoid(g) u``.

    Args:
        g, u: f32; first ``g = min(g, limit)`` and ``u = clamp(u, -limit, limit)``.
        limit_f32, neg_limit_f32: the limit and its negative.
    """
    g = fmin_f32(g, limit_f32)
    u = fmax_f32(fmin_f32(u, limit_f32), neg_limit_f32)
    if swiglu:
        return g * sigmoid(g * SWIGLU_SLOPE) * (u + 1.0)
    return g * sigmoid(g) * u


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
