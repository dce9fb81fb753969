"""VOPD: every pair of operations that one instruction may hold, with sources that the other half overwrites."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from asmlib import Bench, Program
from number_formats import FLOATS, decode, encode, is_nan, width
from test_valu import MASKS, invalid_lines
from valu_table import add, fma, highest, lowest, mul

K = 0x40490FDB  # literal of fmaak and fmamk; both halves must name the same one
X, Y = (8, 13, 18), (11, 16, 21)  # destination and two sources of each half; even and odd, of different banks


def legacy(a: float, b: float) -> float:
    """Multiplication in which zero wins."""
    return 0.0 if a == 0 or b == 0 else mul(a, b)


#: name: (operands behind the destination, type, value of (old destination, operands, vcc bit))
OPS: dict[str, tuple[str, str, Callable]] = {
    "fmac_f32": ("A B", "f32", lambda d, a, b, c: fma(a, b, d)),
    "fmaak_f32": (f"A B {K:#x}", "f32", lambda d, a, b, c: fma(a, b, decode(K, "f32"))),
    "fmamk_f32": (f"A {K:#x} B", "f32", lambda d, a, b, c: fma(a, decode(K, "f32"), b)),
    "mul_f32": ("A B", "f32", lambda d, a, b, c: mul(a, b)),
    "add_f32": ("A B", "f32", lambda d, a, b, c: add(a, b)),
    "sub_f32": ("A B", "f32", lambda d, a, b, c: add(a, -b)),
    "subrev_f32": ("A B", "f32", lambda d, a, b, c: add(b, -a)),
    "mul_dx9_zero_f32": ("A B", "f32", lambda d, a, b, c: legacy(a, b)),
    "mov_b32": ("A", "u32", lambda d, a, b, c: a),
    "cndmask_b32": ("A B", "u32", lambda d, a, b, c: b if c else a),
    "max_num_f32": ("A B", "f32", lambda d, a, b, c: highest(a, b)),
    "min_num_f32": ("A B", "f32", lambda d, a, b, c: lowest(a, b)),
    "add_nc_u32": ("A B", "u32", lambda d, a, b, c: a + b),
    "lshlrev_b32": ("A B", "u32", lambda d, a, b, c: b << (a & 31)),
    "and_b32": ("A B", "u32", lambda d, a, b, c: a & b),
    "lshrrev_b32": ("A B", "u32", lambda d, a, b, c: b >> (a & 31)),
    "ashrrev_i32": ("A B", "u32", lambda d, a, b, c: (b - (b >> 31 << 32)) >> (a & 31)),
    "sub_nc_u32": ("A B", "u32", lambda d, a, b, c: a - b),
}


def half(name: str, regs: tuple[int, int, int]) -> str:
    """Text of one operation."""
    words = OPS[name][0].replace("A", f"v{regs[1]}").replace("B", f"v{regs[2]}").split()
    return f"v_dual_{name} v{regs[0]}, {', '.join(words)}"


def registers(rng: random.Random) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Destinations of different parity, sources from different banks (register number modulo four)."""
    x, y = list(X), list(Y)
    if rng.random() < 0.5:  # each half reads what the other writes
        x[1], y[1] = 11, 8
    return tuple(x), tuple(y)


def near_one(rng: random.Random) -> int:
    """A float whose products neither overflow nor vanish."""
    return rng.getrandbits(1) << 31 | rng.randint(110, 140) << 23 | rng.getrandbits(23)


@pytest.mark.parametrize("arch", ["gfx1200", "gfx1201", "gfx1250"])
def test_dual_operations(sim, build_dir, arch):
    """Both results, from sources as they were before the instruction."""
    rng = random.Random(arch)
    cases = []
    for a in OPS:
        for b in OPS:
            x, y = registers(rng)
            cases.append((f"{half(a, x)} :: {half(b, y)}", a, b, x, y))
    wrong = invalid_lines(arch, [c[0] for c in cases])
    cases = [c for n, c in enumerate(cases) if n not in wrong]
    assert len({c[1] for c in cases}) >= 12 and len({c[2] for c in cases}) >= 15, len(cases)
    mask = MASKS[32][1]
    programs = []
    for n, case in enumerate(cases):
        code = f"  s_denorm_mode 15\n  v_cmp_lt_i32 vcc_lo, 0, v22\n  s_mov_b32 exec_lo, {mask:#x}\n  {case[0]}\n"
        programs.append(Program(f"d{n}", code + "  s_mov_b32 exec_lo, -1\n", 15, 8, 15))
    bench = Bench(sim, arch, programs, build_dir)
    for n, (text, a, b, x, y) in enumerate(cases):
        rows = np.array([[rng.getrandbits(32) for _ in range(32)] for _ in range(15)], np.uint32)
        floats = rng.random() < 0.8
        for row in rows[:14] if floats else []:
            row[:] = [rng.choice([0, 0x80000000, 0x7F800000, 0x7FC00000, 1]) if rng.random() < 0.2 else near_one(rng)
                      for _ in row]
        signalling = (rows & 0x7FC00000 == 0x7F800000) & (rows & 0x3FFFFF != 0)
        rows[signalling] |= 0x400000
        got = bench.run(f"d{n}", rows).tolist()
        want = rows.tolist()
        for lane in range(32):
            if not mask >> lane & 1:
                continue
            c = 0 < int(rows[14, lane]) < 2**31
            for name, (d, s0, s1) in ((a, x), (b, y)):
                _, ty, f = OPS[name]
                values = [decode(int(rows[r - 8, lane]), ty) for r in (d, s0, s1)]
                want[d - 8][lane] = encode(f(*values, c), ty) & ((1 << width(ty)) - 1)
                have = got[d - 8][lane]
                if ty in FLOATS and is_nan(want[d - 8][lane], ty) and is_nan(have, ty):
                    want[d - 8][lane] = have
        assert got == want, (text, [(k + 8, i) for k in range(15) for i in range(32) if got[k][i] != want[k][i]][:4])
