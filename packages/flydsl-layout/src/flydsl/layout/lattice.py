"""Whether sums of steps can coincide, decided at any size.

Two coordinates of a layout share an index if and only if some ``x != 0`` with ``|x_j| < extent_j`` has
``sum x_j d_j == 0``.  The solutions form a lattice; whether it has a vector inside that box is asked of its reduced
basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Vector = list[int]


def is_injective_sum(modes: Sequence[tuple[int, int]]) -> bool:
    """Whether ``sum c_j d_j`` differs for all ``0 <= c_j < s_j``; ``modes`` are (d, s), in any order."""
    steps = sorted((abs(d), s) for d, s in modes if s > 1)
    if not steps:
        return True
    if steps[0][0] == 0:
        return False
    reach, nested = 0, True
    for d, s in steps:
        nested = nested and d > reach
        reach += d * (s - 1)
    if nested:
        return True
    if prod(s for _, s in steps) > reach + 1:
        return False  # more coordinates than indices
    steps = _merged(steps)
    while steps and steps[-1][0] > (reach := reach - steps[-1][0] * (steps[-1][1] - 1)):
        steps.pop()  # a step longer than all others together has to be taken equally often
    widths = [s - 1 for _, s in steps]
    if not steps:
        return True
    # Few layouts come this far, and the module's rational numbers take 3 ms to import.
    from .reduction import meets_box

    return not meets_box(_relations([d for d, _ in steps]), widths)


def _merged(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted steps, where one that continues another (``d, s`` and ``d * s, t``) lengthens it: ``d, s * t``."""
    out: list[tuple[int, int]] = []
    for d, s in steps:
        at = next((i for i, (e, t) in enumerate(out) if e * t == d), None)
        if at is None:
            out.append((d, s))
        else:
            out[at] = (out[at][0], out[at][1] * s)
    return out


def _relations(d: Sequence[int]) -> list[Vector]:
    """A basis of the integer vectors ``x`` with ``sum x_j d_j == 0``, for positive ``d``."""
    value = list(d)
    unit = [[int(i == j) for j in range(len(d))] for i in range(len(d))]
    while len(live := [i for i, v in enumerate(value) if v]) > 1:
        least = min(live, key=lambda i: value[i])
        for i in live:
            if i != least:
                q = value[i] // value[least]
                value[i] -= q * value[least]
                unit[i] = [x - q * y for x, y in zip(unit[i], unit[least], strict=True)]
    return [u for u, v in zip(unit, value, strict=True) if not v]
