"""The matrix instructions of flydsl-layout against the lane layouts that the simulator's numeric tests use.

`packages/flydsl-runtime/tests/sim/matrixref.py` is written from the ISA documents, and the simulator is tested with it
on numbers; here the layout tables of flydsl-layout must put every element in the same lane and slot.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flydsl.layout import mma_atoms

sys.path.insert(0, str(Path(__file__).parent.parent / "packages/flydsl-runtime/tests/sim"))

from matrixref import BITS, operand_place, parse, result_place  # noqa: E402

pytestmark = pytest.mark.one_arch

NAMES = {"f8E4M3FN": "fp8", "f8E5M2": "bf8", "f6E2M3FN": "fp6", "f6E3M2FN": "bf6", "f4E2M1FN": "fp4", "i4": "iu4"}


def elements(layout, rows: int, steps: int) -> dict[tuple[int, int], tuple[int, int, int]]:
    """(lane, slot) -> (row, step, block) of a layout whose indexes run over rows, then steps, then blocks."""
    lanes, slots = layout.shape
    count = lambda s: count(s[0]) * count(s[1:]) if isinstance(s, tuple) and s else 1 if s == () else s  # noqa: E731
    found = {}
    for lane in range(count(lanes)):
        for slot in range(count(slots)):
            index = layout((lane, slot))
            found[lane, slot] = (index % rows, index // rows % steps, index // (rows * steps))
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_layouts_agree(arch: str) -> None:
    """A, B and C of every instruction of the architecture."""
    checked: set[tuple] = set()

    def new(side: str, layout, s, fmt: str) -> bool:
        """Types of one width share their layouts: each is compared once."""
        key = (side, str(layout), s.family, s.m, s.n, s.k, s.blocks, BITS[fmt])
        fresh = key not in checked
        checked.add(key)
        return fresh

    for info in mma_atoms(arch):
        a, b = NAMES.get(info.a_type, info.a_type), NAMES.get(info.b_type, info.b_type)
        parts = info.name.replace("_scale16", "").replace("_scale", "").split("_")
        blocks = "".join(f"_{p}" for p in parts if p.endswith("b") and p[:-1].isdigit())
        s = parse(f"v_{parts[0]}_{parts[1]}_{parts[2]}{blocks}_{a}_{b}")
        wave = 64 if arch.startswith("gfx9") else 32
        if s.sparse and arch == "gfx1250":
            # Names of k differ; what counts is that kept pair p and quad p of B share a half and a position.
            quads = {k: place for place, (j, k, _) in elements(info.hardware_b, s.n, s.k).items() if j == 0}
            found = elements(info.hardware_a, s.m, s.k // 2) if new("a", info.hardware_a, s, a) else {}
            for (lane, slot), (_, k, _) in found.items():
                at, position = quads[k // 2 * 4]
                assert (at // 16, position // 4) == (lane // 16, slot // 2), (info.name, k)
            continue
        for (lane, slot), (i, k, x) in (
            elements(info.hardware_a, s.m, s.k // 2 if s.sparse else s.k) if new("a", info.hardware_a, s, a) else {}
        ).items():
            assert operand_place(arch, s, "a", a, i, k, x, wave) == (lane, slot), (info.name, "A", i, k, x)
        for (lane, slot), (j, k, x) in (
            elements(info.hardware_b, s.n, s.k) if new("b", info.hardware_b, s, b) else {}
        ).items():
            assert operand_place(arch, s, "b", b, j, k, x, wave) == (lane, slot), (info.name, "B", j, k, x)
        for (lane, slot), (i, j, x) in (
            elements(info.hardware_c, s.m, s.n) if new("c", info.hardware_c, s, "f32") else {}
        ).items():
            assert result_place(arch, s, i, j, x, wave) == (lane, slot), (info.name, "C", i, j, x)
    assert len(checked) >= 20
