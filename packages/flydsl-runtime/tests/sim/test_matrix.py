"""MFMA, SMFMAC, WMMA and SWMMAC against float64 products through the ISA's lane layouts."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program
from matrixref import BITS, decode, operand_place, pack, parse, registers, result_place, round_half, unpack

F8 = [f"{x}_{y}" for x in ("fp8", "bf8") for y in ("fp8", "bf8")]


def _gfx9_common() -> list[str]:
    names = [
        f"v_mfma_f32_{shape}_{t}"
        for t in ("f16", "bf16")
        for shape in ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x8", "16x16x16")
    ]
    names += [f"v_mfma_f32_{s}_f32" for s in ("32x32x1_2b", "16x16x1_4b", "4x4x1_16b", "32x32x2", "16x16x4")]
    names += [f"v_mfma_i32_{s}_i8" for s in ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x16", "16x16x32")]
    names += [f"v_mfma_f32_{s}_{t}" for s in ("32x32x16", "16x16x32") for t in F8]
    names += ["v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"]
    names += [f"v_smfmac_f32_{s}_{t}" for s in ("16x16x32", "32x32x16") for t in ("f16", "bf16")]
    names += [f"v_smfmac_f32_{s}_{t}" for s in ("16x16x64", "32x32x32") for t in F8]
    return names + ["v_smfmac_i32_16x16x64_i8", "v_smfmac_i32_32x32x32_i8"]


def _wmma(prefix: str, k: int, wide: bool) -> list[str]:
    names = [
        f"{prefix}_{d}_16x16x{k}_{t}" for d, t in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("bf16", "bf16"))
    ]
    return names + ([f"{prefix}_bf16f32_16x16x{k}_bf16"] if wide else [])


NAMES = {
    "gfx942": _gfx9_common() + ["v_mfma_f32_16x16x8_xf32", "v_mfma_f32_32x32x4_xf32"],
    "gfx950": _gfx9_common()
    + [f"v_mfma_f32_{s}_{t}" for s in ("16x16x32", "32x32x16") for t in ("f16", "bf16")]
    + ["v_mfma_i32_16x16x64_i8", "v_mfma_i32_32x32x32_i8"]
    + [f"v_smfmac_f32_{s}_{t}" for s in ("16x16x64", "32x32x32") for t in ("f16", "bf16")]
    + [f"v_smfmac_f32_{s}_{t}" for s in ("16x16x128", "32x32x64") for t in F8]
    + ["v_smfmac_i32_16x16x128_i8", "v_smfmac_i32_32x32x64_i8"],
    "gfx90a": [n for n in _gfx9_common() if "smfmac" not in n and "8" not in n.split("_")[-1]]
    + ["v_mfma_i32_32x32x4_2b_i8", "v_mfma_i32_16x16x4_4b_i8", "v_mfma_i32_4x4x4_16b_i8"]
    + ["v_mfma_i32_32x32x8_i8", "v_mfma_i32_16x16x16_i8"]
    + [f"v_mfma_f32_{s}_bf16" for s in ("32x32x2_2b", "16x16x2_4b", "4x4x2_16b", "32x32x4", "16x16x8")],
    "gfx1100": _wmma("v_wmma", 16, False) + ["v_wmma_i32_16x16x16_iu8", "v_wmma_i32_16x16x16_iu4"],
    "gfx1201": _wmma("v_wmma", 16, False)
    + [f"v_wmma_f32_16x16x16_{t}" for t in F8]
    + ["v_wmma_i32_16x16x16_iu8", "v_wmma_i32_16x16x16_iu4", "v_wmma_i32_16x16x32_iu4"]
    + _wmma("v_swmmac", 32, False)
    + [f"v_swmmac_f32_16x16x32_{t}" for t in F8]
    + ["v_swmmac_i32_16x16x32_iu8", "v_swmmac_i32_16x16x32_iu4", "v_swmmac_i32_16x16x64_iu4"],
    "gfx1250": ["v_wmma_f32_16x16x4_f32", "v_wmma_i32_16x16x64_iu8", "v_swmmac_i32_16x16x128_iu8"]
    + _wmma("v_wmma", 32, True)
    + [f"v_wmma_{d}_16x16x{k}_{t}" for d in ("f32", "f16") for k in (64, 128) for t in F8]
    + _wmma("v_swmmac", 64, True)
    + [f"v_swmmac_{d}_16x16x128_{t}" for d in ("f32", "f16") for t in F8],
}
MIXED = {
    "gfx950": ["v_mfma_{}f32_16x16x128_f8f6f4", "v_mfma_{}f32_32x32x64_f8f6f4"],
    "gfx1250": ["v_wmma_{}f32_16x16x128_f8f6f4", "v_wmma_{}f32_32x16x128_f4"],
}
FORMATS = ["fp8", "bf8", "fp6", "bf6", "fp4"]


def span(first: int, count: int, kind: str = "v") -> str:
    """Register tuple syntax."""
    return f"{kind}{first}" if count == 1 else f"{kind}[{first}:{first + count - 1}]"


def spelled(arch: str, text: str) -> str:
    """Assembly in the spelling of gfx90a, which has no separators and says which bf16 it means."""
    if arch != "gfx90a":
        return text
    name, rest = text.split(" ", 1)
    shape = parse(name)
    wide = {(32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1)}
    kind = "_1k" if shape.a == "bf16" and (shape.m, shape.k, shape.blocks) in wide else ""
    return f"v_mfma_{shape.d}_{shape.m}x{shape.n}x{shape.k}{shape.a}{kind} {rest}"


class Case:
    """An instruction with operands in registers, as assembly and as operand data."""

    def __init__(self, arch: str, name: str, wave: int, tag: str = "", fmts: tuple[str, str] | None = None,
                 mods: str = "", agpr: bool = False, constant: str = "", key: int = 0, half: int = 0) -> None:
        self.arch, self.wave, self.mods, self.constant, self.key, self.half = arch, wave, mods, constant, key, half
        self.shape = s = parse(name)
        self.a, self.b = fmts or (s.a, s.b)
        self.regs = [registers(arch, s, side, fmt, wave) for side, fmt in (("a", self.a), ("b", self.b), ("c", s.c))]
        self.index_regs = 0
        if s.sparse:
            self.index_bits = 2 * s.m * s.k // 2 // wave
            self.index_regs = 2 if self.index_bits > 32 else 1
        self.scale_regs = {0: 0, 32: 1, 16: 2}[s.scale]
        self.label = f"{name[2:]}_w{wave}{tag}"
        self.agpr = agpr

    def program(self) -> Program:
        """Assembly between loading the operands and storing the result."""
        s = self.shape
        at, starts = FIRST, []
        for count in (*self.regs, self.index_regs, self.scale_regs, self.scale_regs):
            starts.append(at)
            at += count
        dregs = registers(self.arch, s, "c", s.d, self.wave)
        result = at + at % 2
        a, b, c = (span(starts[i], self.regs[i]) for i in range(3))
        gfx9 = self.arch.startswith("gfx9")
        code = ""
        if s.sparse:
            tied = span(result, self.regs[2])  # C and D share a tuple, also when D is narrower
            code = "".join(f"  v_mov_b32 v{result + r}, v{starts[2] + r}\n" for r in range(self.regs[2]))
            text = f"{s.name} {tied}, {a}, {b}, {span(starts[3], self.index_regs)}"
        else:
            text = f"{s.name} {span(result, dregs)}, {a}, {b}, {self.constant or c}"
        if s.scale:
            text += f", {span(starts[4], self.scale_regs)}, {span(starts[5], self.scale_regs)}"
        if self.agpr:
            for first, count, to in ((starts[0], self.regs[0], 0), (starts[2], self.regs[2], 40)):
                code += "".join(f"  v_accvgpr_write_b32 a{to + r}, v{first + r}\n" for r in range(count))
            text = f"{s.name} {span(64, dregs, 'a')}, {span(0, self.regs[0], 'a')}, {b}, {span(40, self.regs[2], 'a')}"
        text = f"  {spelled(self.arch, text)} {self.mods}\n"
        if gfx9:  # EXEC must not matter
            text = "  s_mov_b64 exec, 5\n" + text + "  s_mov_b64 exec, -1\n"
        code += text
        if self.agpr:
            code += "".join(f"  v_accvgpr_read_b32 v{result + r}, a{64 + r}\n" for r in range(dregs))
        if gfx9:
            code += "  s_nop 15\n"
        return Program(self.label, code, at - FIRST, result, dregs)


def random_codes(rng: np.random.Generator, fmt: str, shape: tuple[int, ...], style: str, fnuz: bool) -> np.ndarray:
    """Codes of random elements: 'small' integers, 'real' numbers, or 'any' code."""
    bits = BITS[fmt]
    if fmt in ("i8", "iu8", "iu4"):
        return rng.integers(0, 1 << bits, shape).astype(np.uint64)
    if fmt == "i32":
        return rng.integers(0, 1 << 32, shape).astype(np.uint64)
    if bits >= 16:
        values = rng.integers(-3, 4, shape).astype(np.float64) if style == "small" else rng.normal(size=shape)
        if style == "any":
            values *= 2.0 ** rng.integers(-20, 10, shape)
        if fmt == "f64":
            return values.view(np.uint64)
        if fmt == "f16":
            return values.astype(np.float16).view(np.uint16).astype(np.uint64)
        codes = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return codes >> np.uint64(16) if fmt == "bf16" else codes
    every = np.arange(1 << bits, dtype=np.uint64)
    values = decode(every, fmt, fnuz)
    if style == "small":
        every = every[np.isin(values, np.arange(-2, 3))]
    else:
        every = every[np.isfinite(values)]
    return rng.choice(every, shape)


def operands(case: Case, rng: np.random.Generator, style: str) -> dict[str, np.ndarray]:
    """Random A (blocks, M, K kept), B (blocks, K, N), C (blocks, M, N) codes, index positions and scale bytes."""
    s = case.shape
    fnuz = case.arch == "gfx942"
    kept = s.k // 2 if s.sparse else s.k
    data = {
        "a": random_codes(rng, case.a, (s.blocks, s.m, kept), style, fnuz),
        "b": random_codes(rng, case.b, (s.blocks, s.k, s.n), style, fnuz),
        "c": random_codes(rng, s.c, (s.blocks, s.m, s.n), style, fnuz),
    }
    if s.sparse:
        first = rng.integers(0, 3, (s.m, kept // 2))
        second = rng.integers(first + 1, 4)
        data["index"] = np.stack([first, second], -1).reshape(s.m, kept)
    if s.scale:
        low, high = (126, 129) if style == "small" else (110, 140)
        data["sa"] = rng.integers(low, high, (s.m, s.k // s.scale))
        data["sb"] = rng.integers(low, high, (s.n, s.k // s.scale))
    return data


def to_rows(case: Case, data: dict[str, np.ndarray], scale_select: tuple[int, int] = (0, 0)) -> np.ndarray:
    """Input registers in the order that Case.program reads them."""
    s, arch, wave = case.shape, case.arch, case.wave
    kept = data["a"].shape[2]
    blocks, m, n, k = range(s.blocks), range(s.m), range(s.n), range(s.k)
    place = operand_place
    a = {
        place(arch, s, "a", case.a, i, q, x, wave): int(data["a"][x, i, q])
        for x in blocks
        for i in m
        for q in range(kept)
    }
    b = {place(arch, s, "b", case.b, j, q, x, wave): int(data["b"][x, q, j]) for x in blocks for j in n for q in k}
    c = {result_place(arch, s, i, j, x, wave, case.half): int(data["c"][x, i, j]) for x in blocks for i in m for j in n}
    parts = [pack(a, BITS[case.a], case.regs[0]), pack(b, BITS[case.b], case.regs[1]), pack(c, BITS[s.c], case.regs[2])]
    if arch.startswith("gfx11"):
        parts[:2] = [np.tile(rows[:, :16], 4) for rows in parts[:2]]
    if s.sparse:
        slots = {}
        for i in m:
            for q in range(kept):
                lane, slot = place(arch, s, "a", case.a, i, q, 0, wave)
                slots[lane, slot] = int(data["index"][i, q])
        # The field that `key` selects; other fields hold other positions.
        fields = max(1, 32 // case.index_bits)
        rows = np.random.default_rng(5).integers(0, 1 << 32, (case.index_regs, 64), dtype=np.uint64).astype(np.uint32)
        bits = pack(slots, 2, case.index_regs)
        mask = np.uint32((1 << min(32, case.index_bits)) - 1)
        shift = np.uint32(case.key % fields * case.index_bits)
        parts.append((rows & ~(mask << shift)) | bits << shift)
    for n_side, (key, dim) in enumerate((("sa", s.m), ("sb", s.n))):
        if not s.scale:
            continue
        rows = np.random.default_rng(n_side).integers(0, 256, (case.scale_regs, 64, 4))
        for q in range(s.k // s.scale):
            for i in range(dim):
                if arch == "gfx950":
                    rows[0, dim * q + i, scale_select[n_side]] = data[key][i, q]
                else:
                    lane = i if dim == 32 else i + 16 * scale_select[n_side]
                    rows[q // 4, lane, q % 4] = data[key][i, q]
        parts.append(rows.astype(np.uint8).view(np.uint32).reshape(case.scale_regs, 64))
    return np.concatenate(parts)[:, :wave]


def reference(case: Case, data: dict[str, np.ndarray], signs: tuple[bool, bool] = (True, True),
              edit=lambda a, b, c: (a, b, c)) -> tuple[np.ndarray, np.ndarray]:
    """D and the sum of absolute products, (blocks, M, N); integers stay integers."""
    s = case.shape
    fnuz = case.arch == "gfx942"
    a = decode(data["a"], case.a, fnuz, signs[0])
    b = decode(data["b"], case.b, fnuz, signs[1])
    c = decode(data["c"], s.c)
    a, b, c = edit(a, b, c)
    if s.sparse:
        dense = np.zeros((s.blocks, s.m, s.k), a.dtype)
        for i in range(s.m):
            for q in range(s.k // 2):
                dense[0, i, 4 * (q // 2) + data["index"][i, q]] = a[0, i, q]
        a = dense
    if s.scale:
        a = a * np.repeat(2.0 ** (data["sa"] - 127.0), s.scale, axis=1)[None]
        b = b * np.repeat(2.0 ** (data["sb"] - 127.0), s.scale, axis=1).T[None]
    return a @ b + c, np.abs(a) @ np.abs(b) + np.abs(c)


def result_values(case: Case, rows: np.ndarray) -> np.ndarray:
    """Decoded D (blocks, M, N)."""
    s = case.shape
    out = np.zeros((s.blocks, s.m, s.n), np.uint64)
    for x in range(s.blocks):
        for i in range(s.m):
            for j in range(s.n):
                lane, slot = result_place(case.arch, s, i, j, x, case.wave, case.half)
                out[x, i, j] = unpack(rows, lane, slot, BITS[s.d])
    return decode(out, s.d)


def compare(case: Case, got: np.ndarray, want: np.ndarray, size: np.ndarray, exact: bool) -> None:
    """Equality for integers and exact data, else the error bound of a float accumulation."""
    s = case.shape
    if s.d == "i32":
        want = (want + (1 << 31)) % (1 << 32) - (1 << 31)
    elif s.d in ("f16", "bf16"):
        want = round_half(want, s.d)
    elif exact:
        want = want.astype(np.float32).astype(np.float64) if s.d == "f32" else want
    if s.d == "i32" or exact:
        np.testing.assert_array_equal(got, want, err_msg=case.label)
        return
    unit = {"f32": 2.0**-24, "f64": 2.0**-53, "f16": 2.0**-10, "bf16": 2.0**-7}[s.d]
    bound = (s.k + 1) * 2.0 ** (-53 if s.d == "f64" else -24) * size + unit * np.abs(want) + 1e-45
    with np.errstate(invalid="ignore"):
        good = (np.abs(got - want) <= bound) | (got == want)
    assert np.all(good), (s.name, got[~good], want[~good])


def check(bench: Bench, case: Case, rng: np.random.Generator, styles=("small", "real"), **kw) -> None:
    """Runs a case on random operands of every style."""
    select = kw.pop("scale_select", (0, 0))
    for style in styles:
        data = operands(case, rng, style)
        if case.constant:
            value = {"0": 0.0, "1.0": 1.0, "-4.0": -4.0, "7": 7}[case.constant]
            code = {"i32": value, "f32": np.float32(value).view(np.uint32), "f16": np.float16(value).view(np.uint16)}
            code["bf16"] = np.float32(value).view(np.uint32) >> 16
            code["f64"] = np.float64(value).view(np.uint64)
            data["c"][:] = np.uint64(code[case.shape.c])
        rows = bench.run(case.label, to_rows(case, data, select))
        want, size = reference(case, data, **kw)
        compare(case, result_values(case, rows), want, size, exact=style == "small")


WAVES = [("gfx90a", 64), ("gfx942", 64), ("gfx950", 64), ("gfx1100", 32), ("gfx1100", 64), ("gfx1201", 32),
         ("gfx1201", 64), ("gfx1250", 32)]


def build(sim, arch: str, wave: int, cases: list[Case], build_dir: str) -> Bench:
    """One code object with every case."""
    return Bench(sim, arch, [c.program() for c in cases], build_dir, wave)


@pytest.mark.parametrize(("arch", "wave"), WAVES)
def test_products(sim, build_dir: str, arch: str, wave: int) -> None:
    """Every instruction with plain operands: exact on small integers, within the bound on random numbers."""
    cases = [Case(arch, n, wave) for n in NAMES[arch]]
    bench = build(sim, arch, wave, cases, build_dir)
    rng = np.random.default_rng(3)
    for case in cases:
        signs = (False, False) if "iu" in case.shape.a else (True, True)
        check(bench, case, rng, styles=("small", "real", "any"), signs=signs)


@pytest.mark.parametrize("wave", [32, 64])
def test_halves_of_gfx11(sim, build_dir: str, wave: int) -> None:
    """op_sel puts 16-bit C and D into the upper halves of their registers; the lower ones stay."""
    cases = [Case("gfx1100", n, wave, "_high", mods="op_sel:[0,0,1]", half=1)
             for n in ("v_wmma_f16_16x16x16_f16", "v_wmma_bf16_16x16x16_bf16")]
    bench = build(sim, "gfx1100", wave, cases, build_dir)
    for case in cases:
        check(bench, case, np.random.default_rng(3))


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_mixed_formats(sim, build_dir: str, arch: str) -> None:
    """f8f6f4 with every pair of formats, with and without scales."""
    wave = 64 if arch == "gfx950" else 32
    cases = []
    for pattern in MIXED[arch]:
        scales = ["", "scale_"] + (["scale16_"] if arch == "gfx1250" else [])
        f4 = pattern.endswith("_f4")
        for scale in scales:
            for x, fa in enumerate(FORMATS):
                for y, fb in enumerate(FORMATS):
                    if f4 and (x, y) != (4, 4):
                        continue
                    select = ((x + y) % 4, (x + 2 * y) % 4) if arch == "gfx950" else (x % 2, y % 2)
                    mods = ""
                    if arch == "gfx950":
                        mods = f"cbsz:{x} blgp:{y}"
                        if scale:
                            lo, hi = [v & 1 for v in select], [v >> 1 for v in select]
                            mods = f"op_sel:[{lo[0]},{lo[1]},0] op_sel_hi:[{hi[0]},{hi[1]},0] " + mods
                    else:
                        if not f4:
                            mods = f"matrix_a_fmt:{x} matrix_b_fmt:{y}"
                        if scale:
                            mods += f" matrix_a_scale:{select[0]} matrix_b_scale:{select[1]}"
                    case = Case(arch, pattern.format(scale), wave, f"_{fa}_{fb}", (fa, fb), mods)
                    cases.append((case, select))
    bench = build(sim, arch, wave, [c for c, _ in cases], build_dir)
    rng = np.random.default_rng(4)
    for case, select in cases:
        check(bench, case, rng, scale_select=select)
