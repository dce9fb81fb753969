"""Minima, maxima and clamping of NaNs of both kinds, bit for bit, under the modes that govern them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program
from number_formats import FLOATS, decode, is_nan, width
from test_valu import invalid_lines


def corners(ty: str) -> list[int]:
    """Zeros, numbers, infinities, quiet and signalling NaNs with payloads."""
    e, m = FLOATS[ty]
    sign, top, one = 1 << (e + m), ((1 << e) - 1) << m, ((1 << (e - 1)) - 1) << m
    return [0, sign, one, sign | one + (1 << m), top, sign | top, top | 1 << (m - 1) | 5, sign | top | 1 << (m - 1),
            top | 3, sign | top | 9]


def quiet(bits: int, ty: str) -> int:
    """A NaN made quiet."""
    return bits | 1 << (FLOATS[ty][1] - 1)


def pick(rule: str, high: bool, ty: str, a: int, b: int) -> int:
    """Minimum or maximum of two encodings: ``ieee`` and ``plain`` are gfx9's, ``number`` and ``propagate`` gfx12's."""
    nan_a, nan_b = is_nan(a, ty), is_nan(b, ty)
    if rule == "ieee":
        for v in (a, b):
            if is_nan(v, ty) and quiet(v, ty) != v:
                return quiet(v, ty)
    if rule == "propagate" and (nan_a or nan_b):
        return quiet(a if nan_a else b, ty)
    if nan_a and nan_b:
        return quiet(a, ty) if rule == "number" else b
    if nan_a or nan_b:
        return b if nan_a else a
    sign = 1 << (width(ty) - 1)
    order = [(decode(v, ty), not v & sign) for v in (a, b)]  # -0 is below +0
    return (b if order[1] > order[0] else a) if high else (b if order[1] < order[0] else a)


def three(rule: str, kind: str, ty: str, v: tuple[int, ...]) -> int:
    """min3, max3 and med3 are nested. The median of anything with a NaN is the minimum, else the larger of what is left
    without the first operand that equals the maximum, whatever the signs of zeros."""
    low = pick(rule, False, ty, pick(rule, False, ty, v[0], v[1]), v[2])
    high = pick(rule, True, ty, pick(rule, True, ty, v[0], v[1]), v[2])
    if kind == "max3":
        return high
    if kind == "min3" or any(is_nan(x, ty) for x in v):
        return low
    first = next(k for k, x in enumerate(v) if decode(x, ty) == decode(high, ty))
    return pick(rule, True, ty, *(x for k, x in enumerate(v) if k != first))


def cases(gfx12: bool) -> list[tuple[str, str, str]]:
    """(mnemonic, kind, type)."""
    found = []
    for ty in ("f32", "f16", "f64"):
        tail = f"num_{ty}" if gfx12 else ty
        found += [(f"v_{kind}_{tail}", kind, ty) for kind in ("min", "max", "min3", "max3", "med3")]
        found += [(f"v_{kind}_{ty}", kind, ty) for kind in ("minimum", "maximum")]
    return found


@pytest.mark.parametrize("ieee", [1, 0])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_minima_of_nans(sim, build_dir, arch, ieee):
    """Every combination of corner operands; MODE.IEEE exists on gfx9."""
    gfx12 = arch.startswith("gfx12")
    if gfx12 and not ieee:
        pytest.skip("gfx12 has no IEEE mode")
    rule = "number" if gfx12 else "ieee" if ieee else "plain"
    chosen, texts = [], []
    for name, kind, ty in cases(gfx12):
        regs = [f"v[{FIRST + 2 * k}:{FIRST + 2 * k + 1}]" if ty == "f64" else f"v{FIRST + 2 * k}" for k in range(3)]
        out = "v[2:3]" if ty == "f64" else "v2"
        chosen.append((kind, ty))
        texts.append(f"{name} {out}, {', '.join(regs[: 3 if kind[-1] == '3' else 2])}")
    wrong = invalid_lines(arch, texts)
    mode = "" if gfx12 else f"  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), {ieee}\n"
    mode += "  s_denorm_mode 15\n" if gfx12 else "  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15\n"
    keep = [n for n in range(len(texts)) if n not in wrong]
    assert len(keep) >= 12
    programs = [Program(f"m{n}", f"  v_mov_b32 v2, 0\n{mode}  {texts[n]}\n", 6, 2, 2) for n in keep]
    bench = Bench(sim, arch, programs, build_dir)
    for n in keep:
        kind, ty = chosen[n]
        count = 3 if kind[-1] == "3" else 2
        combinations = list(itertools.product(corners(ty), repeat=count))
        for start in range(0, len(combinations), bench.wave):
            group = combinations[start : start + bench.wave]
            rows = np.zeros((6, bench.wave), np.uint32)
            for lane, values in enumerate(group):
                for k, v in enumerate(values):
                    rows[2 * k, lane], rows[2 * k + 1, lane] = v & 0xFFFFFFFF, v >> 32
            got = bench.run(f"m{n}", rows).astype(np.uint64)
            for lane, values in enumerate(group):
                bits = int(got[0, lane] | (got[1, lane] << np.uint64(32) if ty == "f64" else np.uint64(0)))
                if count == 3:
                    want = three(rule, kind, ty, values)
                elif kind in ("minimum", "maximum"):
                    want = pick("propagate", kind == "maximum", ty, *values)
                else:
                    want = pick(rule, kind == "max", ty, *values)
                if is_nan(want, ty) and ty == "f16":  # payloads of halves are not kept bit for bit
                    assert is_nan(bits & 0xFFFF, ty) and quiet(bits, ty) == bits, (texts[n], list(map(hex, values)))
                    continue
                assert bits == want, (texts[n], list(map(hex, values)), hex(bits), hex(want))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("dx10", [1, 0])
def test_clamp_of_nans(sim, build_dir, arch, dx10):
    """The clamp bit turns NaN into 0; gfx9 keeps it when MODE.DX10_CLAMP is off."""
    gfx12 = arch.startswith("gfx12")
    if gfx12 and not dx10:
        pytest.skip("gfx12 always clamps NaN to 0")
    mode = "" if gfx12 else f"  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), {dx10}\n"
    ops = {"f32": "v_add_f32 v2, v8, v9 clamp", "f16": "v_add_f16 v2, v8, v9 clamp",
           "f64": "v_mul_f64 v[2:3], v[8:9], 1.0 clamp", "pk": "v_pk_add_f16 v2, v8, v9 clamp"}
    programs = [Program(t, f"  v_mov_b32 v3, 0\n{mode}  {o}\n", 2, 2, 2) for t, o in ops.items()]
    bench = Bench(sim, arch, programs, build_dir)
    values = [np.nan, 0.25, -1.0, 3.0, np.inf, -np.inf, 0.0, 1.0]
    want = np.array([np.nan if not dx10 else 0, 0.25, 0, 1, 1, 0, 0, 1])
    lanes = np.resize(values, bench.wave)
    expected = np.resize(want, bench.wave)
    rows = np.zeros((2, bench.wave), np.uint32)
    rows[0] = lanes.astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(bench.run("f32", rows)[0].view(np.float32), expected)
    half = lanes.astype(np.float16).view(np.uint16).astype(np.uint32)
    rows[0] = half
    np.testing.assert_array_equal(bench.run("f16", rows)[0].astype(np.uint16).view(np.float16), expected)
    rows[0] = half | half << 16
    packed = np.ascontiguousarray(bench.run("pk", rows)[0]).view(np.float16).reshape(-1, 2)
    np.testing.assert_array_equal(packed, np.stack([expected, expected], 1))
    wide = lanes.astype(np.float64).view(np.uint64)
    got = bench.run("f64", np.stack([wide & 0xFFFFFFFF, wide >> 32]).astype(np.uint32)).astype(np.uint64)
    np.testing.assert_array_equal((got[0] | got[1] << np.uint64(32)).view(np.float64), expected)
