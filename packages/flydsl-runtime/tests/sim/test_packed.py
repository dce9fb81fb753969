"""Packed instructions: which half or dword of each source a result takes, negation, and the arithmetic."""

from __future__ import annotations

import random

import numpy as np
import pytest
from asmlib import Bench, Program
from number_formats import decode, encode, is_nan, samples
from test_valu import invalid_lines
from valu_table import add, fma, highest, lowest, maximum, minimum, mul, sext

SELECTS = [(a, b) for a in (0, 1) for b in (0, 1)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_pk_mov_takes_each_dword_by_op_sel_alone(sim, build_dir, arch):
    """D.lo = S0[op_sel[0]], D.hi = S1[op_sel[1]], whatever op_sel_hi says."""
    programs = [
        Program(
            f"mov{a}{b}{h}", f"  v_pk_mov_b32 v[2:3], v[8:9], v[10:11] op_sel:[{a},{b}] op_sel_hi:[{h},{h}]", 4, 2, 2
        )
        for a, b in SELECTS
        for h in (0, 1)
    ]
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(3).integers(0, 2**32, (4, 64), np.uint32)
    for a, b in SELECTS:
        for h in (0, 1):
            got = bench.run(f"mov{a}{b}{h}", rows)
            np.testing.assert_array_equal(got, np.stack([rows[a], rows[2 + b]]))


FLOAT_OPS = {"add": (2, add), "mul": (2, mul), "fma": (3, fma), "min": (2, lowest), "max": (2, highest),
             "min_num": (2, lowest), "max_num": (2, highest), "minimum": (2, minimum), "maximum": (2, maximum),
             "min3_num": (3, lambda a, b, c: lowest(lowest(a, b), c)),
             "max3_num": (3, lambda a, b, c: highest(highest(a, b), c)),
             "minimum3": (3, lambda a, b, c: minimum(minimum(a, b), c)),
             "maximum3": (3, lambda a, b, c: maximum(maximum(a, b), c))}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_packed_floats(sim, build_dir, arch):
    """v_pk_*_f16 and v_pk_*_f32 with random op_sel, op_sel_hi, neg_lo and neg_hi."""
    rng = random.Random(arch)
    cases = []
    for ty in ("f16", "f32", "bf16"):
        for name, (count, f) in FLOAT_OPS.items():
            for k in range(4):
                flags = [[rng.randint(0, 1) if k else default for _ in range(count)] for default in (0, 1, 0, 0)]
                regs = [f"v[{8 + 2 * n}:{9 + 2 * n}]" if ty == "f32" else f"v{8 + 2 * n}" for n in range(count)]
                words = zip(("op_sel", "op_sel_hi", "neg_lo", "neg_hi"), flags, strict=True)
                more = " ".join(f"{w}:{v}".replace(", ", ",") for w, v in words)
                out = "v[2:3]" if ty == "f32" else "v2"
                cases.append((ty, f, flags, f"v_pk_{name}_{ty} {out}, {', '.join(regs)} {more}"))
    wrong = invalid_lines(arch, [c[3] for c in cases])
    cases = [c for n, c in enumerate(cases) if n not in wrong]
    assert len(cases) >= 20
    bench = Bench(sim, arch, [Program(f"p{n}", f"  {c[3]}\n", 6, 2, 2) for n, c in enumerate(cases)], build_dir)
    for n, (ty, f, (lo, hi, neg_lo, neg_hi), text) in enumerate(cases):
        width = 32 if ty == "f32" else 16
        quiet = {"f16": 0x200, "bf16": 0x40}.get(ty, 0)
        # f32 denormals are flushed in this harness: numbers near one.
        values = [v | quiet if is_nan(v, ty) else v for v in samples(ty, rng, 12 * bench.wave)]
        if ty == "f32":
            values = [rng.getrandbits(1) << 31 | rng.randint(100, 150) << 23 | rng.getrandbits(23) for _ in values]
        lanes = np.array(values, np.uint64).reshape(3, 2, 2, bench.wave)
        rows = (lanes[:, :, 0] | (lanes[:, :, 1] << np.uint64(16) if width == 16 else np.uint64(0))).astype(np.uint32)
        got = bench.run(f"p{n}", rows.reshape(6, bench.wave))
        for lane in range(bench.wave):
            for half, (select, negate) in enumerate(((lo, neg_lo), (hi, neg_hi))):
                args = []
                for k in range(len(select)):
                    bits = int(lanes[k, 0, select[k], lane] if width == 16 else lanes[k, select[k], 0, lane])
                    args.append(decode(bits ^ negate[k] << (width - 1), ty))
                want = encode(f(*args), ty)
                bits = int(got[0, lane]) >> 16 * half & 0xFFFF if width == 16 else int(got[half, lane])
                if ty == "f32" and want & 0x7F800000 == 0:  # a result that is flushed
                    want &= 0x80000000
                same = is_nan(bits, ty) if is_nan(want, ty) else bits == want
                assert same, f"{text}: lane {lane} half {half} {args}: {bits:#x}, expected {want:#x}"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_dot_products_of_16_bit_integers(sim, build_dir, arch):
    """v_dot2_{i32_i16,u32_u16} wrap without the clamp bit."""
    programs = [Program(f"dot{s}", f"  v_dot2_{t} v2, v8, v9, v10\n", 3, 2, 1)
                for s, t in ((0, "u32_u16"), (1, "i32_i16"))]
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(3).integers(0, 2**32, (3, 64), np.uint32)
    for signed in (0, 1):
        got = bench.run(f"dot{signed}", rows)[0].tolist()
        for (a, b, c), value in zip(rows.T.tolist(), got, strict=True):
            x, y = ([sext(v >> k, 16) if signed else v >> k & 0xFFFF for k in (0, 16)] for v in (a, b))
            assert value == (x[0] * y[0] + x[1] * y[1] + c) & 0xFFFFFFFF
