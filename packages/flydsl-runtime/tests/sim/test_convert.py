"""Conversions between small float formats against the definition of rounding, in exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, isinf, isnan, nan

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program
from matrixref import BITS, TABLES, decode, pack, unpack

FORMATS = {  # mantissa bits, smallest normal exponent, overflow result (None saturates)
    ("fp8", False): (3, -6, nan), ("bf8", False): (2, -14, inf), ("fp8", True): (3, -7, nan),
    ("bf8", True): (2, -15, nan), ("fp6", False): (3, 0, None), ("bf6", False): (2, -2, None),
    ("fp4", False): (1, 0, None), ("f16", False): (10, -14, inf), ("bf16", False): (7, -126, inf),
}
LARGEST = {k: np.nanmax(np.where(np.isinf(v), 0, v)) for k, v in TABLES.items()}
LARGEST["f16", False] = 65504.0
LARGEST["bf16", False] = float(np.array([0x7F7F0000], np.uint32).view(np.float32)[0])


def rounded(x: float, fmt: str, fnuz: bool, random: int | None, scale: int = 0, clamp: bool = False) -> float:
    """x / 2**scale in `fmt`: nearest even, or stochastic by adding random / 2**32 units and truncating."""
    mantissa, lowest, overflow = FORMATS[fmt, fnuz]
    largest = LARGEST[fmt, fnuz]
    x = nan if scale == 128 else x
    if isnan(x):
        return (-largest if np.signbit(x) else largest) if overflow is None else nan
    sign = -1.0 if np.signbit(x) else 1.0
    if isinf(x):
        return sign * (largest if overflow is None else overflow)
    t = Fraction(abs(x)) / Fraction(2) ** scale
    exponent = lowest
    while t >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - mantissa)
    steps = t / unit
    if random is None:
        n = floor(steps)
        rest = steps - n
        n += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2 == 1)
    else:
        n = floor(steps + Fraction(random, 1 << 32))
    value = n * unit
    if value > Fraction(float(largest)):
        return sign * (largest if overflow is None or clamp else overflow)
    return sign * float(value)


def prng(a: int) -> int:
    """v_prng_b32."""
    return (a << 1 & 0xFFFFFFFF) ^ (197 if a >> 31 else 0)


@dataclass(frozen=True)
class Conversion:
    """One instruction form: formats, elements per lane, and where partial registers go."""

    name: str
    source: str
    target: str
    count: int
    sources: int = 1
    stochastic: bool = False
    scale: str = ""  # "", "f32" or "packed"
    mods: str = ""
    source_shift: int = 0  # bit where a partial source starts
    target_shift: int = 0
    both_random_halves: bool = False
    partial: bool = False  # bits outside the result keep their value
    halves: tuple[str, str] = ("", "")  # ".l" or ".h" of the destination and of the first source

    @property
    def label(self) -> str:
        """Kernel name."""
        clean = "".join(c if c.isalnum() else "_" for c in self.mods)
        return f"{self.name[2:]}_{clean}{''.join(self.halves).replace('.', '_')}"


def registers(fmt: str, count: int) -> int:
    """Registers of `count` elements."""
    return (count * BITS[fmt] + 31) // 32


def program(c: Conversion) -> Program:
    """Inputs: old result, sources, random number, scale."""
    out = registers(c.target, c.count)
    per = registers(c.source, c.count // c.sources)
    at, parts = FIRST + out, []

    def take(count: int) -> str:
        nonlocal at
        at += at % 2 if count > 1 else 0
        text = f"v{at}" if count == 1 else f"v[{at}:{at + count - 1}]"
        at += count
        return text

    for _ in range(c.sources):
        parts.append(take(per))
    if c.stochastic:
        parts.append(take(1))
    if c.scale:
        parts.append(take(1))
    result = at + at % 2
    dst = f"v{result}" if out == 1 else f"v[{result}:{result + out - 1}]"
    code = "".join(f"  v_mov_b32 v{result + r}, v{FIRST + r}\n" for r in range(out))
    parts[0] += c.halves[1]
    code += f"  {c.name} {dst}{c.halves[0]}, {', '.join(parts)} {c.mods}\n"
    return Program(c.label, code, at - FIRST, result, out)


def interesting(rng: np.random.Generator, fmt: str, shape: tuple[int, ...], target: str, fnuz: bool) -> np.ndarray:
    """Codes of a source format: ties, corners, random numbers around the target's range."""
    bits = BITS[fmt]
    if bits < 16:
        return rng.integers(0, 1 << bits, shape).astype(np.uint64)
    table = TABLES.get((target, fnuz))
    if table is not None:
        finite = np.sort(table[np.isfinite(table)])
        middle = (finite[1:] + finite[:-1]) / 2
        pool = np.concatenate([finite, middle, np.nextafter(middle.astype(np.float32), np.float32(9e9)), 1.07 * finite])
        values = rng.choice(pool, shape)
        wild = rng.random(shape) < 0.3
        values = np.where(wild, rng.normal(size=shape) * 2.0 ** rng.integers(-12, 6, shape), values)
    else:
        values = rng.normal(size=shape) * 2.0 ** rng.integers(-30, 18, shape)
    flat = values.reshape(-1)
    flat[:6] = [0.0, -0.0, inf, -inf, nan, 1e-40]
    with np.errstate(over="ignore"):
        if fmt == "f16":
            return values.astype(np.float16).view(np.uint16).astype(np.uint64)
        codes = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return codes >> np.uint64(16) if fmt == "bf16" else codes


def expected(c: Conversion, x: float, random: int, scale: int, fnuz: bool) -> float:
    """The value of one result element."""
    if BITS[c.target] < BITS[c.source]:
        return rounded(x, c.target, fnuz and BITS[c.target] == 8, random if c.stochastic else None, scale)
    value = nan if scale == 128 else x * 2.0**scale
    if c.target == "f32":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return rounded(value, c.target, False, None)


def check(bench: Bench, c: Conversion, rng: np.random.Generator, lane_scale=None) -> None:
    """Runs one conversion on a wave of random elements and compares every bit that it defines."""
    wave, fnuz = bench.wave, bench.arch == "gfx942"
    out = registers(c.target, c.count)
    codes = interesting(rng, c.source, (wave, c.count), c.target, fnuz)
    randoms = rng.integers(0, 1 << 32, wave, dtype=np.uint64)
    scales = rng.integers(-6, 7, wave)
    scales[:3] = [-127, 127, 128]
    p = bench.programs[c.label]
    rows = np.zeros((p.inputs, 64), np.uint32)
    old = rng.integers(0, 1 << 32, (out, 64), dtype=np.uint64).astype(np.uint32)
    rows[:out] = old
    at = out
    per = registers(c.source, c.count // c.sources)
    bits = BITS[c.source]
    for n in range(c.sources):
        at += (FIRST + at) % 2 if per > 1 else 0
        part = codes[:, n :: c.sources]
        if c.count == 1 or (bits < 16 and c.count * bits < 32):
            value = sum(part[:, s] << np.uint64(s * bits) for s in range(part.shape[1]))
            noise = rng.integers(0, 1 << 32, wave, dtype=np.uint64)
            mask = np.uint64(((1 << bits * part.shape[1]) - 1) << c.source_shift)
            rows[at, :wave] = (noise & ~mask) | (value << np.uint64(c.source_shift) & mask)
        else:
            places = {(lane, s): int(part[lane, s]) for lane in range(wave) for s in range(part.shape[1])}
            rows[at : at + per] = pack(places, bits, per)
        at += per
    if c.stochastic:
        rows[at, :wave] = randoms
        at += 1
    if c.scale == "f32":
        noise = rng.integers(0, 1 << 23, wave)
        rows[at, :wave] = (scales + 127) << 23 | noise
    elif c.scale == "packed":
        rows[at, :wave] = rng.integers(120, 135, (wave, 4)).astype(np.uint8).view(np.uint32)[:, 0]
        scales = lane_scale(rows[at]) - 127
    got = bench.run(c.label, rows[:, :wave])
    values = decode(codes, c.source, fnuz)
    size = BITS[c.target]
    for lane in range(wave):
        random = int(randoms[lane])
        for s in range(c.count):
            use = random if not c.both_random_halves else (random << 16 & 0xFFFFFFFF if s == 0 else random & 0xFFFF0000)
            want = expected(c, float(values[lane, s]), use, int(scales[lane]) if c.scale else 0, fnuz)
            bit = s * size + c.target_shift
            code = int(got[bit // 32, lane]) >> (bit % 32) if size < 32 else int(got[s, lane])
            if size < 32 and bit % 32 + size > 32:
                code |= int(got[bit // 32 + 1, lane]) << (32 - bit % 32)
            code &= (1 << size) - 1
            value = float(decode(np.array([code], np.uint64), c.target, fnuz)[0])
            same = (isnan(value) and isnan(want)) or (value == want and (fnuz or np.signbit(value) == np.signbit(want)))
            assert same, (c.label, lane, s, float(values[lane, s]), int(scales[lane]), hex(use), value, want)
            if not c.both_random_halves:
                random = prng(random)
    if c.partial:
        mask = np.uint32((((1 << size * c.count) - 1) << c.target_shift) & 0xFFFFFFFF)
        np.testing.assert_array_equal(got[0] & ~mask, old[0, :wave] & ~mask, err_msg=c.label)


def op_sel(bits: dict[int, int], length: int) -> str:
    """op_sel:[...] with the given bits set."""
    return "op_sel:[" + ",".join(str(bits.get(i, 0)) for i in range(length)) + "]"


def simple(arch: str) -> list[Conversion]:
    """Unscaled conversions of fp8 and bf8."""
    cases = []
    gfx12 = arch.startswith("gfx12")
    for f in ("fp8", "bf8"):
        for half in (0, 1):
            mods = op_sel({2: half}, 3)
            cases.append(
                Conversion(f"v_cvt_pk_{f}_f32", "f32", f, 2, 2, mods=mods, target_shift=16 * half, partial=True)
            )
        for byte in range(4):
            mods = f"byte_sel:{byte}" if gfx12 else op_sel({2: byte & 1, 3: byte >> 1}, 4)
            cases.append(
                Conversion(
                    f"v_cvt_sr_{f}_f32", "f32", f, 1, stochastic=True, mods=mods, target_shift=8 * byte, partial=True
                )
            )
            if gfx12:
                cases.append(Conversion(f"v_cvt_f32_{f}", f, "f32", 1, mods=mods, source_shift=8 * byte))
            else:
                cases.append(
                    Conversion(f"v_cvt_f32_{f}_sdwa", f, "f32", 1, mods=f"src0_sel:BYTE_{byte}", source_shift=8 * byte)
                )
        for half in (0, 1):
            if gfx12:
                cases.append(
                    Conversion(f"v_cvt_pk_f32_{f}", f, "f32", 2, mods=op_sel({0: half}, 2), source_shift=16 * half)
                )
            else:
                name = f"v_cvt_pk_f32_{f}_sdwa"
                cases.append(Conversion(name, f, "f32", 2, mods=f"src0_sel:WORD_{half}", source_shift=16 * half))
    if arch == "gfx950":
        for f in ("f16", "bf16"):
            for half in (0, 1):
                mods = op_sel({2: half}, 3)
                cases.append(
                    Conversion(
                        f"v_cvt_sr_{f}_f32",
                        "f32",
                        f,
                        1,
                        stochastic=True,
                        mods=mods,
                        target_shift=16 * half,
                        partial=True,
                    )
                )
    if arch == "gfx1250":
        for f in ("fp8", "bf8"):
            cases.append(Conversion(f"v_cvt_pk_{f}_f16", "f16", f, 2, partial=True))
            for byte in range(4):
                mods = f"byte_sel:{byte}"
                cases.append(Conversion(f"v_cvt_f16_{f}", f, "f16", 1, mods=mods, source_shift=8 * byte))
                name = f"v_cvt_sr_{f}_f16"
                cases.append(
                    Conversion(name, "f16", f, 1, stochastic=True, mods=mods, target_shift=8 * byte, partial=True)
                )
            cases.append(Conversion(f"v_cvt_pk_f16_{f}", f, "f16", 2))
        for f in ("f16", "bf16"):
            cases.append(Conversion(f"v_cvt_sr_pk_{f}_f32", "f32", f, 2, 2, stochastic=True, both_random_halves=True))
    return cases


def scaled_gfx950() -> list[Conversion]:
    """v_cvt_scalef32_*."""
    cases, p = [], "v_cvt_scalef32_"
    for w in ("f32", "f16", "bf16"):
        two = 2 if w == "f32" else 1
        for f in ("fp8", "bf8"):
            for half in (0, 1):
                mods = op_sel({two + 1: half}, two + 2)
                cases.append(Conversion(f"{p}pk_{f}_{w}", w, f, 2, two, False, "f32", mods, 0, 16 * half, partial=True))
                mods = op_sel({0: half}, 3)
                cases.append(Conversion(f"{p}pk_{w}_{f}", f, w, 2, 1, False, "f32", mods, 16 * half))
            for byte in range(4):
                mods = op_sel({2: byte & 1, 3: byte >> 1}, 4)
                cases.append(Conversion(f"{p}sr_{f}_{w}", w, f, 1, 1, True, "f32", mods, 0, 8 * byte, partial=True))
                if w != "bf16":
                    mods = op_sel({0: byte & 1, 1: byte >> 1}, 3)
                    cases.append(
                        Conversion(f"{p}{w}_{f}", f, w, 1, 1, False, "f32", mods, 8 * byte, partial=w == "f16")
                    )
        for byte in range(4):
            mods = op_sel({2: byte & 1, 3: byte >> 1}, 4)
            cases.append(Conversion(f"{p}pk_fp4_{w}", w, "fp4", 2, two, False, "f32", mods, 0, 8 * byte, partial=True))
            cases.append(Conversion(f"{p}sr_pk_fp4_{w}", w, "fp4", 2, 1, True, "f32", mods, 0, 8 * byte, partial=True))
            mods = op_sel({0: byte & 1, 1: byte >> 1}, 3)
            cases.append(Conversion(f"{p}pk_{w}_fp4", "fp4", w, 2, 1, False, "f32", mods, 8 * byte))
        for f in ("fp6", "bf6"):
            name = f"{p}2xpk16_{f}_f32" if w == "f32" else f"{p}pk32_{f}_{w}"
            cases.append(Conversion(name, w, f, 32, two, False, "f32"))
            cases.append(Conversion(f"{p}sr_pk32_{f}_{w}", w, f, 32, 1, True, "f32"))
            cases.append(Conversion(f"{p}pk32_{w}_{f}", f, w, 32, 1, False, "f32"))
    cases.append(Conversion(f"{p}f16_fp8", "fp8", "f16", 1, 1, False, "f32", op_sel({2: 1}, 3), 0, 16, partial=True))
    return cases


def scaled_gfx1250() -> list[Conversion]:
    """v_cvt_scale_* and v_cvt_scalef32_* of gfx1250."""
    cases = []
    for w in ("f32", "f16", "bf16"):
        for f in ("fp8", "bf8", "fp4", "fp6", "bf6"):
            count = 16 if f in ("fp6", "bf6") else 8
            pk = f"pk{count}"
            cases.append(Conversion(f"v_cvt_scalef32_{pk}_{f}_{w}", w, f, count, 1, False, "f32"))
            cases.append(Conversion(f"v_cvt_scalef32_sr_{pk}_{f}_{w}", w, f, count, 1, True, "f32"))
            for sel in (0, 2, 6, 8, 14) if f in ("fp8", "bf8") else (0, 1, 2, 4, 6):
                mods = f"scale_sel:{sel}"
                cases.append(Conversion(f"v_cvt_scale_{pk}_{w}_{f}", f, w, count, 1, False, "packed", mods))
    return cases


def packed_scale(c: Conversion):
    """Scale byte of each lane from the scale register, by the rules of scale_sel."""
    sel = int(c.mods.split(":")[1]) if c.scale == "packed" else 0

    def pick(row: np.ndarray) -> np.ndarray:
        result = np.zeros(32, np.int64)
        for lane in range(32):
            if c.source in ("fp8", "bf8") and sel == 8:  # neighbours, as Triton uses it
                half, byte = 0, lane // 16
            elif c.source in ("fp8", "bf8"):
                half, byte = sel >> 3, sel >> 1 & 3
            elif sel & 1:  # blocks of 16
                half, byte = sel >> 2, (sel >> 1 & 1) + (2 if lane >= 16 else 0)
            else:
                half, byte = sel >> 2, (sel >> 1 & 1) * 2 + (1 if lane >= 16 else 0)
            result[lane] = int(row[16 * half + lane % 16]) >> (8 * byte) & 0xFF
        return result

    return pick


@pytest.mark.parametrize(("arch", "wave"), [("gfx942", 64), ("gfx950", 64), ("gfx1201", 32), ("gfx1250", 32)])
def test_conversions(sim, build_dir: str, arch: str, wave: int) -> None:
    """Every conversion with every destination and source part."""
    cases = simple(arch)
    cases += scaled_gfx950() if arch == "gfx950" else scaled_gfx1250() if arch == "gfx1250" else []
    bench = Bench(sim, arch, [program(c) for c in cases], build_dir, wave)
    rng = np.random.default_rng(11)
    for c in cases:
        check(bench, c, rng, packed_scale(c))


@pytest.mark.parametrize("arch", ["gfx1201", "gfx1250"])
def test_register_halves(sim, build_dir: str, arch: str) -> None:
    """16-bit operands written as .l and .h (real-true16)."""
    cases = []
    for f in ("fp8", "bf8"):
        for h, shift in ((".l", 0), (".h", 16)):
            cases.append(
                Conversion(f"v_cvt_pk_{f}_f32", "f32", f, 2, 2, target_shift=shift, partial=True, halves=(h, ""))
            )
            cases.append(Conversion(f"v_cvt_pk_f32_{f}", f, "f32", 2, source_shift=shift, halves=("", h)))
            if arch == "gfx1250":
                cases.append(
                    Conversion(f"v_cvt_pk_{f}_f16", "f16", f, 2, target_shift=shift, partial=True, halves=(h, ""))
                )
                cases.append(Conversion(f"v_cvt_pk_f16_{f}", f, "f16", 2, source_shift=shift, halves=("", h)))
                for byte in (0, 3):
                    mods = f"byte_sel:{byte}"
                    cases.append(
                        Conversion(f"v_cvt_f16_{f}", f, "f16", 1, mods=mods, source_shift=8 * byte, target_shift=shift,
                                   partial=True, halves=(h, ""))
                    )
                    cases.append(
                        Conversion(f"v_cvt_sr_{f}_f16", "f16", f, 1, stochastic=True, mods=mods, source_shift=shift,
                                   target_shift=8 * byte, partial=True, halves=("", h))
                    )
    bench = Bench(sim, arch, [program(c) for c in cases], build_dir, 32, ("-mattr=+real-true16",))
    rng = np.random.default_rng(12)
    for c in cases:
        check(bench, c, rng)


def test_unpack_helper_reads_what_pack_wrote() -> None:
    """The harness itself: packing and unpacking of fields that cross registers."""
    places = {(lane, s): (lane * 7 + s * 3) % 64 for lane in range(64) for s in range(32)}
    rows = pack(places, 6, 6)
    for (lane, s), code in places.items():
        bit = s * 6
        value = int(rows[bit // 32, lane]) >> (bit % 32)
        if bit % 32 > 26:
            value |= int(rows[bit // 32 + 1, lane]) << (32 - bit % 32)
        assert value & 63 == code
    assert unpack(rows, 5, 0, 6) == 35


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201"])
def test_overflow_mode(sim, build_dir: str, arch: str) -> None:
    """MODE.FP16_OVFL: finite values that overflow become the largest number; infinities do not."""
    programs = [
        Program(
            f"{f}_{bit}",
            f"  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), {bit}\n"
            f"  v_mov_b32 v20, 0\n  v_cvt_pk_{f}_f32 v20, v{FIRST}, v{FIRST + 1}\n",
            2,
            20,
            1,
        )
        for f in ("fp8", "bf8")
        for bit in (0, 1)
    ]
    bench = Bench(sim, arch, programs, build_dir)
    fnuz = arch == "gfx942"
    rows = np.zeros((2, bench.wave), np.float32)
    rows[0], rows[1] = 1e6, -inf
    rows[0, 1], rows[0, 2] = -7e5, 1.5
    for f in ("fp8", "bf8"):
        for bit in (0, 1):
            codes = bench.run(f"{f}_{bit}", rows.view(np.uint32))[0]
            got = decode(codes & 0xFF, f, fnuz)
            want = [rounded(float(x), f, fnuz, None, clamp=bool(bit)) for x in rows[0]]
            np.testing.assert_array_equal(got, want)
            infinite = decode(codes >> 8 & 0xFF, f, fnuz)
            np.testing.assert_array_equal(infinite, rounded(-inf, f, fnuz, None))


def test_normalised_halves_round_once(sim, build_dir):
    """Every half in [0, 1]: a product rounded to float before it is rounded to an integer is off by one for some."""
    bench = Bench(sim, "gfx942", [Program(f"norm_{sign}", f"  v_cvt_norm_{sign}16_f16 v20, v{FIRST}", 1, 20, 1)
                                  for sign in "iu"], build_dir)
    halves = np.arange(0x3C00 + 64, dtype=np.uint32)[: 0x3C40 // 64 * 64].reshape(-1, 1, 64)
    for sign, top in (("i", 32767), ("u", 65535)):
        got = np.concatenate([bench.run(f"norm_{sign}", rows)[0] for rows in halves]) & 0xFFFF
        exact = np.minimum(halves.ravel().astype(np.uint16).view(np.float16).astype(np.float64), 1.0) * top
        assert np.array_equal(got, np.rint(exact).astype(np.uint32))
