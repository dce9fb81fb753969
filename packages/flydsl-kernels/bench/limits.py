"""What binds a launch: how much of what it could do each unit of the chip does, by the simulator's timing model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

#: Counts of ``Timing`` that grow with the length of a launch; its other fields describe the chip or the model.
GROWING = ("cycles", "microseconds", "memory_cycles", "sample_cycles", "wave_cycles", "valu_busy", "matrix_busy",
           "lds_busy", "l1_busy", "tensor_busy", "matrix_flops")
MATRIX, VECTOR = "matrix unit", "vector ALU"  # as the timing model names them


def limits(launch: Any, shorter: Any = None, *, shared: bool = False) -> dict[str, float]:
    """Shares of what each unit can do, 0 to 1: a launch waits for the unit with the largest.

    Args:
        launch, shorter: profiles with timing. With `shorter`, a launch of as many workgroups, the shares are those of
            the middle of a launch, the difference of the two; without, of all of it.
        shared: whether matrix instructions take the vector ALU, as on gfx11 and gfx12: its share counts them too.
    """
    timing, moved = launch.timing, launch.traffic()["l2"]
    if shorter is not None:
        timing = replace(timing, **{name: getattr(timing, name) - getattr(shorter.timing, name) for name in GROWING})
        moved -= shorter.traffic()["l2"]
    found = {unit: share for unit, share in timing.utilisation().items() if share > 0}
    # The model gives each compute unit its own share of L2, and follows some of the workgroups on one of them. What the
    # others move on average may be more.
    followed = moved * timing.sample_groups / math.prod(launch.raw["grid"])
    found["L2"] = min(followed / (timing.sample_cycles * launch.raw["machine"]["l2_bytes_per_clk"]), 1.0)
    if shared:
        found[VECTOR] = found.get(VECTOR, 0.0) + found.get(MATRIX, 0.0)
    return found


def binding(shares: dict[str, float]) -> str:
    """The unit with the largest share; of equal ones the matrix unit, which the others serve."""
    return max(shares, key=lambda unit: (round(shares[unit], 3), unit == MATRIX))
