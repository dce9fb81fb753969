"""Packed 2 x 32-bit instructions: which dword of each source a result takes."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Bench, Program

SELECTS = [(a, b) for a in (0, 1) for b in (0, 1)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_pk_mov_takes_each_dword_by_op_sel_alone(sim, build_dir, arch):
    """D.lo = S0[op_sel[0]], D.hi = S1[op_sel[1]], whatever op_sel_hi says."""
    programs = [
        Program(f"mov{a}{b}{h}", f"  v_pk_mov_b32 v[2:3], v[8:9], v[10:11] op_sel:[{a},{b}] op_sel_hi:[{h},{h}]",
                4, 2, 2)
        for a, b in SELECTS
        for h in (0, 1)
    ]
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(3).integers(0, 2**32, (4, 64), np.uint32)
    for a, b in SELECTS:
        for h in (0, 1):
            got = bench.run(f"mov{a}{b}{h}", rows)
            np.testing.assert_array_equal(got, np.stack([rows[a], rows[2 + b]]))
