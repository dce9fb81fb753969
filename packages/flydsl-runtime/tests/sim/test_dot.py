"""Dot products of 8-bit floats (gfx12) against float64."""

from __future__ import annotations

import numpy as np
from asmlib import FIRST, Bench, Program
from matrixref import TABLES


def test_dot4_of_bytes(sim, build_dir: str) -> None:
    """v_dot4_f32_{fp8,bf8}_{fp8,bf8}, with the modifiers of the accumulator."""
    cases = [
        (a, b, neg, absolute)
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
        for neg, absolute in ((0, 0), (1, 0), (0, 1), (1, 1))
    ]
    programs = [
        Program(
            f"dot_{a}_{b}_{neg}{absolute}",
            f"  v_dot4_f32_{a}_{b} v20, v{FIRST}, v{FIRST + 1}, v{FIRST + 2} "
            f"neg_lo:[0,0,{neg}] neg_hi:[0,0,{absolute}]\n",
            3,
            20,
            1,
        )
        for a, b, neg, absolute in cases
    ]
    bench = Bench(sim, "gfx1201", programs, build_dir)
    rng = np.random.default_rng(5)
    for p, (a, b, neg, absolute) in zip(programs, cases, strict=True):
        tables = TABLES[a, False], TABLES[b, False]
        codes = [rng.choice(np.flatnonzero(np.isfinite(t)), (32, 4)).astype(np.uint8) for t in tables]
        c = (rng.normal(size=32) * 64).astype(np.float32)
        rows = np.stack([codes[0].view(np.uint32)[:, 0], codes[1].view(np.uint32)[:, 0], c.view(np.uint32)])
        x, y = tables[0][codes[0]], tables[1][codes[1]]
        start = c.astype(np.float64)
        start = np.abs(start) if absolute else start
        start = -start if neg else start
        want = start + (x * y).sum(1)
        size = np.abs(start) + np.abs(x * y).sum(1)
        got = bench.run(p.name, rows)[0].view(np.float32)
        assert np.all(np.abs(got - want) <= 4 * 2.0**-24 * size), p.name
