"""Scalar floats of gfx12: units that share their arithmetic with vector instructions, literals, ordered comparisons."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from asmlib import Bench, Program
from number_formats import decode, encode, is_nan, samples, width
from test_valu import invalid_lines
from valu_rare import toward_zero
from valu_table import fma

ARCHS = ["gfx1200", "gfx1201", "gfx1250"]
UNITS = ("exp", "log", "rcp", "rsq", "sqrt")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("ty", ["f16", "f32"])
def test_scalar_units(sim, build_dir, arch, ty):
    """v_s_* gives the bits of the vector instruction, whose accuracy has a test of its own, whatever EXEC says."""
    programs = []
    for unit in UNITS:
        code = f"  v_{unit}_{ty} v2, v8\n  v_and_b32 v2, {'0xffff' if ty == 'f16' else '-1'}, v2\n"
        code += "  s_mov_b32 s40, 0\nloop_NAME:\n  v_readlane_b32 s20, v8, s40\n  s_mov_b32 exec_lo, 0\n"
        code += f"  v_s_{unit}_{ty} s21, s20\n  s_mov_b32 exec_lo, -1\n  s_mov_b32 m0, s40\n"
        code += "  v_writelane_b32 v3, s21, m0\n  s_add_u32 s40, s40, 1\n  s_cmp_lt_u32 s40, 32\n"
        programs.append(Program(unit, (code + "  s_cbranch_scc1 loop_NAME\n").replace("NAME", unit), 1, 2, 2))
    assert not invalid_lines(arch, [f"v_s_{unit}_{ty} s21, s20" for unit in UNITS])
    bench = Bench(sim, arch, programs, build_dir)
    rng = random.Random(ty)
    for unit in UNITS:
        got = bench.run(unit, np.array([samples(ty, rng, 32)], np.uint32))
        np.testing.assert_array_equal(got[1], got[0], err_msg=unit)


def operands(ty: str, rng: random.Random) -> list[int]:
    """Three samples, quiet where they are NaN."""
    quiet = {"f16": 0x200, "f32": 0x400000}[ty]
    return [b | quiet if is_nan(b, ty) else b for b in samples(ty, rng, 3)]


@pytest.mark.parametrize("arch", ARCHS)
def test_literals_and_packing(sim, build_dir, arch):
    """s_fmaak, s_fmamk, s_cvt_pk_rtz_f16_f32, and the comparisons that ask whether there is a NaN."""
    rng = random.Random(arch)
    cases = []
    k = 0x40490FDB
    for _ in range(40):
        a, b, _c = operands("f32", rng)
        literal = decode(k, "f32")
        values = decode(a, "f32"), decode(b, "f32")
        added, scaled = fma(*values, literal), fma(values[0], literal, values[1])
        cases.append((f"s_fmaak_f32 s30, s20, s21, {k:#x}", a, b, encode(added, "f32"), "f32"))
        cases.append((f"s_fmamk_f32 s30, s20, {k:#x}, s21", a, b, encode(scaled, "f32"), "f32"))
        packed = toward_zero(values[0]) | toward_zero(values[1]) << 16
        if not is_nan(a, "f32") and not is_nan(b, "f32"):
            cases.append(("s_cvt_pk_rtz_f16_f32 s30, s20, s21", a, b, packed, "u32"))
        for ty in ("f16", "f32"):
            x, y, _z = operands(ty, rng)
            unordered = is_nan(x, ty) or is_nan(y, ty)
            for name, want in (("o", not unordered), ("u", unordered)):
                cases.append((f"s_cmp_{name}_{ty} s20, s21\n  s_cselect_b32 s30, 1, 0", x, y, int(want), "u32"))
    programs = []
    for n, (text, a, b, _want, _ty) in enumerate(cases):
        code = f"  s_denorm_mode 15\n  s_mov_b32 s20, {a:#x}\n  s_mov_b32 s21, {b:#x}\n  {text}\n  v_mov_b32 v2, s30\n"
        programs.append(Program(f"s{n}", code, 1, 2, 1))
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.zeros((1, 32), np.uint32)
    for n, (text, a, b, want, ty) in enumerate(cases):
        got = int(bench.run(f"s{n}", rows)[0, 0])
        same = is_nan(got, ty) if ty == "f32" and is_nan(want, ty) else got == want & ((1 << width(ty)) - 1)
        assert same, (text, hex(a), hex(b), hex(got), hex(want))


def test_toward_zero_is_exact():
    """The reference above: the neighbour of the value on the side of zero."""
    rng = random.Random(1)
    for bits in samples("f32", rng, 2000):
        value = decode(bits, "f32")
        if value == value and abs(value) < 65504:
            near = decode(toward_zero(value), "f16")
            step = max(Fraction(abs(value)) / 1024, Fraction(1, 2**24))
            assert abs(near) <= abs(value) and Fraction(abs(value)) - Fraction(abs(near)) <= step
