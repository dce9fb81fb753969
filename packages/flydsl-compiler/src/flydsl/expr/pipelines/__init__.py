"""Multi-stage pipelines of a loop over tiles, and waves that take turns.

``for step in fx.pipeline_range(pipeline)`` is the loop; a `Pipeline` has producers, which say how a tile comes into
its stage. Prologue, tail, waits and barriers follow from them.
"""

from __future__ import annotations

from .producers import Direct, Registers, Staged, TensorMove
from .schedule import Pipeline, Step, pipeline_range
from .waves import NamedBarrier, WaveGroups, barrier_arrive, barrier_wait, lds_barrier, wave_index

__all__ = [
    "Direct", "NamedBarrier", "Pipeline", "Registers", "Staged", "Step", "TensorMove", "WaveGroups", "barrier_arrive",
    "barrier_wait", "lds_barrier", "pipeline_range", "wave_index",
]
