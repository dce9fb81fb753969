"""Modifiers of matrix instructions: broadcasts, swizzles, negation, register files, constants, corner values."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Bench
from matrixref import BITS, operand_place, round_half
from test_matrix import Case, check, compare, operands, reference, result_values, to_rows

SEED = 21


def bench_of(sim, arch: str, cases: list[Case], build_dir: str, wave: int) -> Bench:
    return Bench(sim, arch, [c.program() for c in cases], build_dir, wave)


@pytest.mark.parametrize(
    "name",
    ["v_mfma_f32_32x32x4_2b_f16", "v_mfma_f32_16x16x4_4b_bf16", "v_mfma_i32_4x4x4_16b_i8", "v_mfma_f32_4x4x1_16b_f32"],
)
def test_broadcast_of_a_blocks(sim, build_dir: str, name: str) -> None:
    """cbsz and abid: lane l takes A from lane l % S + S * abid with S = 64 >> cbsz."""
    shape = Case("gfx942", name, 64).shape
    cases = []
    for cbsz in range(1, shape.blocks.bit_length()):
        for abid in {0, 1, (1 << cbsz) - 1}:
            cases.append((cbsz, abid, Case("gfx942", name, 64, f"_{cbsz}_{abid}", mods=f"cbsz:{cbsz} abid:{abid}")))
    bench = bench_of(sim, "gfx942", [c for _, _, c in cases], build_dir, 64)
    rng = np.random.default_rng(SEED)
    for cbsz, abid, case in cases:
        kept = shape.blocks >> cbsz
        take = np.arange(shape.blocks) % kept + kept * abid
        check(bench, case, rng, edit=lambda a, b, c, take=take: (a[take], b, c))


@pytest.mark.parametrize("name", ["v_mfma_f32_32x32x1_2b_f32", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_4x4x4_16b_f16"])
def test_lane_swizzle_of_b(sim, build_dir: str, name: str) -> None:
    """blgp 1..7: B as if its lanes had been permuted before."""
    lane = np.arange(64)
    swizzles = {1: lane % 32, 2: lane % 32 + 32, 3: (lane + 16) % 64} | {
        g: lane % 16 + 16 * (g - 4) for g in range(4, 8)
    }
    cases = {g: Case("gfx942", name, 64, f"_{g}", mods=f"blgp:{g}") for g in swizzles}
    bench = bench_of(sim, "gfx942", list(cases.values()), build_dir, 64)
    rng = np.random.default_rng(SEED)
    for g, case in cases.items():
        data = operands(case, rng, "small")
        rows = to_rows(case, data)
        start, count = case.regs[0], case.regs[1]
        # The reference sees the permuted registers through the plain layout.
        seen = rows.copy()
        seen[start : start + count] = rows[start : start + count][:, swizzles[g]]
        s = case.shape
        for x in range(s.blocks):
            for j in range(s.n):
                for k in range(s.k):
                    at, slot = operand_place("gfx942", s, "b", s.b, j, k, x, 64)
                    bit = slot * BITS[s.b]
                    data["b"][x, k, j] = int(seen[start + bit // 32, at]) >> (bit % 32) & ((1 << BITS[s.b]) - 1)
        want, size = reference(case, data)
        compare(case, result_values(case, bench.run(case.label, rows)), want, size, exact=True)


@pytest.mark.parametrize("name", ["v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"])
def test_negation_of_doubles(sim, build_dir: str, name: str) -> None:
    """blgp of the f64 instructions negates A, B and C."""
    cases = {g: Case("gfx950", name, 64, f"_{g}", mods=f"neg:[{g & 1},{g >> 1 & 1},{g >> 2}]") for g in range(8)}
    bench = bench_of(sim, "gfx950", list(cases.values()), build_dir, 64)
    rng = np.random.default_rng(SEED)
    for g, case in cases.items():
        signs = [-1.0 if g >> i & 1 else 1.0 for i in range(3)]
        check(bench, case, rng, edit=lambda a, b, c, s=signs: (a * s[0], b * s[1], c * s[2]))


@pytest.mark.parametrize(
    ("arch", "wave", "name"),
    [
        ("gfx1201", 32, "v_wmma_f32_16x16x16_f16"),
        ("gfx1201", 64, "v_wmma_f16_16x16x16_f16"),
        ("gfx1250", 32, "v_wmma_f32_16x16x32_bf16"),
        ("gfx1250", 32, "v_wmma_f16_16x16x64_fp8_bf8"),
        ("gfx1250", 32, "v_wmma_f32_16x16x4_f32"),
    ],
)
def test_negation_of_wmma_operands(sim, build_dir: str, arch: str, wave: int, name: str) -> None:
    """neg_lo and neg_hi: halves of A and B change sign; C takes negation and absolute value."""
    halves = "f16" in name.split("_", 4)[-1] or name.endswith("bf16")
    settings = [(0, 0, c) for c in range(1, 4)] + ([(3, 3, 0), (1, 2, 0), (2, 0, 2)] if halves else [])
    cases = []
    for a, b, c in settings:
        lo = f"neg_lo:[{a & 1},{b & 1},{c & 1}]"
        hi = f"neg_hi:[{a >> 1},{b >> 1},{c >> 1}]"
        cases.append(((a, b, c), Case(arch, name, wave, f"_{a}{b}{c}", mods=f"{lo} {hi}")))
    bench = bench_of(sim, arch, [c for _, c in cases], build_dir, wave)
    rng = np.random.default_rng(SEED)

    def flip(x: np.ndarray, bits: int, axis: int) -> np.ndarray:
        # Within a register neighbours are neighbouring k in every layout.
        sign = np.where(np.arange(x.shape[axis]) % 2 == 0, -1.0 if bits & 1 else 1.0, -1.0 if bits & 2 else 1.0)
        return x * (sign[None, None, :] if axis == 2 else sign[None, :, None])

    for (a, b, c), case in cases:

        def edit(x, y, z, a=a, b=b, c=c):
            z = np.abs(z) if c & 2 else z
            return flip(x, a, 2), flip(y, b, 1), -z if c & 1 else z

        check(bench, case, rng, edit=edit)


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("gfx1201", "v_wmma_i32_16x16x16_iu8"),
        ("gfx1201", "v_wmma_i32_16x16x32_iu4"),
        ("gfx1250", "v_wmma_i32_16x16x64_iu8"),
        ("gfx1201", "v_swmmac_i32_16x16x64_iu4"),
        ("gfx1250", "v_swmmac_i32_16x16x128_iu8"),
    ],
)
def test_signs_and_saturation_of_integers(sim, build_dir: str, arch: str, name: str) -> None:
    """neg_lo makes A or B signed; clamp saturates the final sum."""
    cases = []
    for signs in ((False, True), (True, False), (True, True)):
        for clamp in (False, True):
            mods = f"neg_lo:[{int(signs[0])},{int(signs[1])},0]" + (" clamp" if clamp else "")
            cases.append(
                (signs, clamp, Case(arch, name, 32, f"_{int(signs[0])}{int(signs[1])}{int(clamp)}", mods=mods))
            )
    bench = bench_of(sim, arch, [c for _, _, c in cases], build_dir, 32)
    rng = np.random.default_rng(SEED)
    for signs, clamp, case in cases:
        data = operands(case, rng, "small")
        near = rng.choice(np.array([0x7FFFFFF0, 0x80000010, 0x7FFF0000, 5], np.uint64), data["c"].shape)
        data["c"] = near
        want, size = reference(case, data, signs)
        if clamp:
            want = np.clip(want, -(1 << 31), (1 << 31) - 1)
        rows = bench.run(case.label, to_rows(case, data))
        compare(case, result_values(case, rows), want, size, exact=True)


def test_index_keys(sim, build_dir: str) -> None:
    """abid, cbsz and index_key choose the field of the sparse index."""
    for arch, wave, name, mods in [
        (
            "gfx942",
            64,
            "v_smfmac_f32_16x16x32_f16",
            [(k, f"cbsz:0 abid:{k}") for k in range(4)] + [(0, "cbsz:1 abid:3")],
        ),
        ("gfx942", 64, "v_smfmac_i32_32x32x32_i8", [(k, f"cbsz:0 abid:{k}") for k in range(2)]),
        ("gfx950", 64, "v_smfmac_f32_32x32x32_bf16", [(k, f"cbsz:0 abid:{k}") for k in range(2)]),
        ("gfx1201", 32, "v_swmmac_f32_16x16x32_f16", [(k, f"index_key:{k}") for k in range(2)]),
        ("gfx1201", 32, "v_swmmac_i32_16x16x32_iu4", [(k, f"index_key:{k}") for k in range(2)]),
        ("gfx1201", 64, "v_swmmac_f16_16x16x32_f16", [(k, f"index_key:{k}") for k in range(4)]),
    ]:
        cases = [Case(arch, name, wave, f"_k{n}", mods=m, key=k) for n, (k, m) in enumerate(mods)]
        bench = bench_of(sim, arch, cases, build_dir, wave)
        rng = np.random.default_rng(SEED)
        for case in cases:
            check(bench, case, rng, signs=(False, False) if "iu" in name else (True, True))


def test_accumulation_registers(sim, build_dir: str) -> None:
    """A, C and D in AGPRs."""
    names = ["v_mfma_f32_32x32x8_f16", "v_mfma_f64_16x16x4_f64", "v_mfma_i32_16x16x32_i8", "v_mfma_f32_32x32x1_2b_f32"]
    cases = [Case("gfx942", n, 64, "_acc", agpr=True) for n in names[:3]]
    bench = bench_of(sim, "gfx942", cases, build_dir, 64)
    for case in cases:
        check(bench, case, np.random.default_rng(SEED))


def test_constant_accumulator(sim, build_dir: str) -> None:
    """Inline constants for C."""
    for arch, wave, names in [
        ("gfx942", 64, ["v_mfma_f32_32x32x8_f16", "v_mfma_f64_16x16x4_f64", "v_mfma_f32_4x4x1_16b_f32"]),
        ("gfx950", 64, ["v_mfma_f32_32x32x64_f8f6f4"]),
        ("gfx1201", 32, ["v_wmma_f16_16x16x16_f16", "v_wmma_f32_16x16x16_bf16"]),
        ("gfx1250", 32, ["v_wmma_bf16_16x16x32_bf16", "v_wmma_f32_16x16x128_f8f6f4"]),
    ]:
        cases = [
            Case(arch, n, wave, f"_c{i}", ("fp8", "fp8") if "f8f6f4" in n else None, constant=text)
            for n in names
            for i, text in enumerate(("0", "1.0", "-4.0"))
        ]
        bench = bench_of(sim, arch, cases, build_dir, wave)
        for case in cases:
            check(bench, case, np.random.default_rng(SEED))


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("gfx942", "v_mfma_f32_16x16x16_f16"),
        ("gfx950", "v_mfma_f32_32x32x16_bf16"),
        ("gfx950", "v_mfma_f32_16x16x32_fp8_bf8"),
        ("gfx942", "v_mfma_f32_16x16x32_bf8_fp8"),
        ("gfx1201", "v_wmma_f32_16x16x16_f16"),
        ("gfx1250", "v_wmma_f16_16x16x32_f16"),
    ],
)
def test_special_values(sim, build_dir: str, arch: str, name: str) -> None:
    """NaN, infinities, denormals and overflow propagate as in IEEE arithmetic; NaN results are canonical."""
    wave = 32 if arch.startswith("gfx12") else 64
    case = Case(arch, name, wave, "_special")
    bench = bench_of(sim, arch, [case], build_dir, wave)
    rng = np.random.default_rng(SEED)
    specials = {
        "f16": [0x7C00, 0xFC00, 0x7E01, 0x0001, 0x83FF, 0x7BFF, 0x8000],
        "bf16": [0x7F80, 0xFF80, 0x7FC1, 0x0001, 0x0080, 0x8000],
        "fp8": [0x7F, 0x80, 0x01, 0x7E],
        "bf8": [0x7C, 0xFC, 0x7D, 0x80, 0x01],
    }
    for trial in range(4):
        data = operands(case, rng, "small")
        for side, fmt in (("a", case.a), ("b", case.b)):
            flat = data[side].reshape(-1)
            spots = rng.choice(flat.size, 3 + trial, replace=False)
            flat[spots] = rng.choice(np.array(specials[fmt], np.uint64), spots.size)
        with np.errstate(invalid="ignore", over="ignore"):
            want, _ = reference(case, data)
            want = round_half(want, case.shape.d) if case.shape.d in ("f16", "bf16") else want
        rows = bench.run(case.label, to_rows(case, data))
        got = result_values(case, rows)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=case.label)
        np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want), err_msg=case.label)
        np.testing.assert_array_equal(np.isneginf(got), np.isneginf(want), err_msg=case.label)
        if case.shape.d == "f32":
            assert set(rows[np.isnan(rows.view(np.float32))]) <= {0x7FC00000}


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_extreme_scales(sim, build_dir: str, arch: str) -> None:
    """Block scales at the ends of their range, and the NaN scale."""
    wave = 64 if arch == "gfx950" else 32
    name = "v_mfma_scale_f32_16x16x128_f8f6f4" if arch == "gfx950" else "v_wmma_scale_f32_16x16x128_f8f6f4"
    case = Case(arch, name, wave, "_x", ("fp8", "fp8"))
    bench = bench_of(sim, arch, [case], build_dir, wave)
    rng = np.random.default_rng(SEED)
    for sa, sb in ((254, 0), (0, 254), (1, 250), (240, 14), (127, 127)):
        data = operands(case, rng, "real")
        data["sa"][:], data["sb"][:] = sa, sb
        want, size = reference(case, data)
        compare(case, result_values(case, bench.run(case.label, to_rows(case, data))), want, size, exact=False)
    data = operands(case, rng, "small")
    data["sa"][3, 1] = 255
    got = result_values(case, bench.run(case.label, to_rows(case, data)))[0]
    assert np.all(np.isnan(got[3]))
    assert not np.isnan(np.delete(got, 3, 0)).any()


@pytest.mark.parametrize("fmt", [1, 2])
def test_scale_formats_of_gfx1250(sim, build_dir: str, fmt: int) -> None:
    """Unsigned e5m3 and e4m3 scales."""
    mods = f"matrix_a_scale_fmt:{fmt} matrix_b_scale_fmt:{fmt}"
    case = Case("gfx1250", "v_wmma_scale_f32_16x16x128_f8f6f4", 32, "_f", ("fp8", "fp8"), mods=mods)
    bench = bench_of(sim, "gfx1250", [case], build_dir, 32)
    data = operands(case, np.random.default_rng(SEED), "small")
    rng = np.random.default_rng(SEED)
    low, high, bias, mantissa = (100, 140, 15, 8) if fmt == 1 else (40, 80, 7, 8)
    values = {}
    for key in ("sa", "sb"):
        data[key] = rng.integers(low, high, data[key].shape)
        values[key] = (1 + data[key] % mantissa / mantissa) * 2.0 ** (data[key] // mantissa - bias)
    rows = bench.run(case.label, to_rows(case, data))
    codes = dict(data)
    codes["sa"] = np.log2(values["sa"]) + 127
    codes["sb"] = np.log2(values["sb"]) + 127
    want, size = reference(case, codes)
    compare(case, result_values(case, rows), want, size, exact=False)


def test_overlap_of_c_and_d(sim, build_dir: str) -> None:
    """D may start inside C's registers: the result is as if C had been read first."""
    case = Case("gfx942", "v_mfma_f32_16x16x16_f16", 64, "_overlap")
    p = case.program()
    start_c = 8 + case.regs[0] + case.regs[1]
    code = (
        f"  v_mfma_f32_16x16x16_f16 v[{start_c + 2}:{start_c + 5}], v[8:9], v[10:11], v[{start_c}:{start_c + 3}]\n"
        + "  s_nop 15\n"
        + "".join(f"  v_mov_b32 v{p.result + 2 + r}, v{start_c + 2 + r}\n" for r in range(4))
    )
    bench = Bench(sim, "gfx942", [type(p)(p.name, code, p.inputs + 2, p.result + 2, 4)], build_dir, 64)
    code_program = bench.programs[p.name]
    data = operands(case, np.random.default_rng(SEED), "small")
    rows = np.zeros((code_program.inputs, 64), np.uint32)
    rows[: p.inputs] = to_rows(case, data)
    want, size = reference(case, data)
    compare(case, result_values(case, bench.run(p.name, rows)), want, size, exact=True)
