"""Typed buffer loads and stores: every data and number format of the architecture, against exact arithmetic."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from asmlib import Program, module_text, wait_all
from hiplib import assemble
from number_formats import decode, encode, is_nan
from test_valu import invalid_lines

CELL = 16  # bytes of a lane
OLD = 20  # v20..v23: results, which begin as v8..v11
GFX9_DATA = ["", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8",
             "32_32", "16_16_16_16", "32_32_32", "32_32_32_32"]
GFX9_NUMBER = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "", "FLOAT"]
PACKED = ("10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10")


@dataclass(frozen=True)
class Format:
    """Bits of each component from the lowest, and what they are."""

    data: str
    number: str

    @property
    def bits(self) -> list[int]:
        """AMD names components from the highest bit; those of equal sizes do not show it."""
        return [int(b) for b in reversed(self.data.split("_"))]

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return sum(self.bits) // 8

    @property
    def integer(self) -> bool:
        """Components are read as integers."""
        return self.number in ("UINT", "SINT")


def formats(gfx12: bool) -> list[Format]:
    """The combinations that exist: 32-bit components are not normalised, small floats are in 10_11_11 only."""
    found = []
    for data in GFX9_DATA[1:]:
        for number in filter(None, GFX9_NUMBER):
            small = data in ("10_11_11", "11_11_10")
            if data.startswith("32") and number not in ("UINT", "SINT", "FLOAT"):
                continue
            if number == "FLOAT" and not small and not data.startswith(("16", "32")):
                continue
            if gfx12 and (small and number != "FLOAT" or data == "10_10_10_2" and "SCALED" in number):
                continue
            found.append(Format(data, number))
    return found


def small_float(v: int, bits: int) -> float:
    """Unsigned floats of 10 and 11 bits have the exponent of a half."""
    return decode(v << (15 - bits), "f16")


def component(v: int, bits: int, number: str) -> int:
    """The dword that a load makes of a component."""
    signed = v - (1 << bits) if v >> (bits - 1) else v
    if number == "UINT":
        return v
    if number == "SINT":
        return signed & 0xFFFFFFFF
    if number == "FLOAT":
        if bits == 32:
            return v
        return encode(decode(v, "f16") if bits == 16 else small_float(v, bits), "f32")
    value = {"UNORM": Fraction(v, (1 << bits) - 1), "USCALED": Fraction(v), "SSCALED": Fraction(signed),
             "SNORM": max(Fraction(-1), Fraction(signed, (1 << bits - 1) - 1))}[number]
    return encode(value, "f32")


def texel(form: Format, raw: int) -> list[int]:
    """x, y, z, w of an element; what it lacks is 0, 0, 0, 1."""
    found, at = [], 0
    for b in form.bits:
        found.append(component(raw >> at & (1 << b) - 1, b, form.number))
        at += b
    one = 1 if form.integer else 0x3F800000
    return (found + [0, 0, 0, one][len(found) :])[:4]


def loaded(form: Format, values: list[int], d16: str, old: list[int]) -> list[int]:
    """Registers after a load of `values`."""
    if not d16:
        return values + old[len(values) :]
    halves = [v & 0xFFFF if form.integer else encode(decode(v, "f32"), "f16") for v in values]
    words = [w >> s & 0xFFFF for w in old for s in (0, 16)]
    first = 1 if d16 == "hi" else 0
    words[first : first + len(halves)] = halves
    return [words[2 * k] | words[2 * k + 1] << 16 for k in range(4)]


def stored(form: Format, values: list[float | int]) -> int:
    """The element that a store of x, y, ... makes."""
    raw = at = 0
    for value, b in zip(values, form.bits, strict=False):
        top, half = (1 << b) - 1, (1 << b - 1) - 1
        if form.number == "UINT":
            v = min(value & 0xFFFFFFFF, top)
        elif form.number == "SINT":
            v = max(-half - 1, min(half, value))
        elif form.number == "FLOAT":
            v = encode(value, "f32" if b == 32 else "f16") >> (0 if b >= 16 else 15 - b)
        else:
            low, high, scale = {"UNORM": (0, 1, top), "SNORM": (-1, 1, half), "USCALED": (0, top, 1),
                                "SSCALED": (-half - 1, half, 1)}[form.number]
            v = round(max(Fraction(low), min(Fraction(high), Fraction(value))) * scale)
        raw |= (v & top) << at
        at += b
    return raw


def name(gfx12: bool, typed: bool, verb: str, count: int, d16: str) -> str:
    """Mnemonic of an access to `count` components."""
    tail, half = "xyzw"[:count], {"": "", "lo": "d16_", "hi": "d16_hi_"}[d16]
    middle = f"{half}format_{tail}" if gfx12 else f"format_{half}{tail}"
    return f"{'t' * typed}buffer_{verb}_{middle}"


def cases(gfx12: bool) -> list[tuple[Format, str, int, str, bool, int]]:
    """(format, verb, components, d16, typed, destination select)."""
    found = []
    rng = random.Random(3)
    for form in formats(gfx12):
        for count in range(1, 5):
            for d16 in ("", "lo", "hi"):
                if d16 and form.integer and max(form.bits) > 16:
                    continue  # what happens to the bits above a half is not published
                for verb in ("load", "store"):
                    if verb == "store" and count < len(form.bits):
                        continue  # as little as what is written for components that are not given
                    for typed in (True, False):
                        if d16 == "hi" and (typed or count > 1):
                            continue
                        select = 0o7654 if typed or verb == "store" else rng.choice([0o7654, 0o4567, 0o1504, 0o6670])
                        found.append((form, verb, count, d16, typed, select))
    return found


def sample(form: Format, verb: str, d16: str, rng: random.Random) -> list[float | int]:
    """Values to store: exactly representable ones where the rounding is not published."""
    if form.number == "UINT":
        return [rng.choice([0, 1, 3, 200, rng.getrandbits(16 if d16 else 32)]) for _ in range(4)]
    if form.number == "SINT":
        return [rng.choice([0, -1, -2, 100, rng.getrandbits(16 if d16 else 32) - (1 << (15 if d16 else 31))])
                for _ in range(4)]
    if form.number == "FLOAT":
        return [rng.choice([0.0, 1.0, 0.25, 1.5, 96.0, 2.0**-14] + ([] if form.data in PACKED else [-3.5]))
                for _ in range(4)]
    if "NORM" in form.number:
        return [rng.choice([0.0, 1.0, -1.0, 7.0, -9.0, rng.uniform(-1.2, 1.2)]) for _ in range(4)]
    return [float(rng.choice([0, 1, -1, 5, 127, 129, -128, -200, 2000, 511, -513])) for _ in range(4)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1200", "gfx1201"])
def test_typed_buffers(sim, build_dir, arch):
    """Registers after every load and memory after every store, at an offset within the lane's cell."""
    gfx12 = arch.startswith("gfx12")
    wave = 32 if gfx12 else 64
    rng = random.Random(arch)
    codes: dict[Format, int] = {}
    if gfx12:  # the assembler knows the numbers of the unified formats
        import subprocess

        from hiplib import LLVM

        access = "tbuffer_load_format_x v0, off, s[0:3], null"
        lines = [f"{access} format:[BUF_FMT_{f.data}_{f.number}]" for f in formats(True)]
        done = subprocess.run([str(LLVM / "llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-encoding"],
                              input="\n".join(lines), capture_output=True, text=True, check=True)
        for form, code in zip(formats(True), re.findall(r"encoding: \[(.*)\]", done.stdout), strict=True):
            word = int.from_bytes(bytes(int(b, 16) for b in code.split(",")), "little")
            codes[form] = word >> 55 & 127
    wanted = cases(gfx12)
    assert len(wanted) > (450 if gfx12 else 600)
    text, lines = "  v_lshlrev_b32 v1, 2, v0\n  v_lshlrev_b32 v4, 2, v0\n", []
    four, zero, wait = "b128" if gfx12 else "dwordx4", "null" if gfx12 else "0", wait_all(arch)
    for form, verb, count, d16, typed, select in wanted:
        words = (count + 1) // 2 if d16 else count
        first = OLD if verb == "load" else 8
        data = f"v[{first}:{first + words - 1}]" if words > 1 else f"v{first}"
        kind = ""
        if typed:
            kind = f" format:[BUF_FMT_{form.data}_{form.number}]" if gfx12 else (
                f" format:[BUF_DATA_FORMAT_{form.data},BUF_NUM_FORMAT_{form.number}]")
        line = f"{name(gfx12, typed, verb, count, d16)} {data}, v1, s[12:15], {zero}{kind} offen offset:{CELL * 64}"
        lines.append(line)
        flags = select
        if gfx12:
            flags |= 3 << 28 | (0 if typed else codes[form]) << 12
        elif not typed:
            flags |= GFX9_DATA.index(form.data) << 15 | GFX9_NUMBER.index(form.number) << 12
        text += f"  s_mov_b32 s12, s6\n  s_mov_b32 s13, s7\n  s_mov_b32 s14, -1\n  s_mov_b32 s15, {flags:#x}\n"
        text += f"  global_load_{four} v[8:11], v4, s[6:7]\n{wait}"
        text += "".join(f"  v_mov_b32 v{OLD + k}, v{8 + k}\n" for k in range(4))
        text += f"  {line}\n{wait}"
        if verb == "load":
            text += f"  global_store_{four} v4, v[20:23], s[6:7]\n"
        text += "  s_add_u32 s6, s6, 2048\n  s_addc_u32 s7, s7, 0\n"
    assert not invalid_lines(arch, lines)
    sim.set_arch(arch)
    module = sim.load(assemble(module_text(arch, [Program("typed", text, 0, 20, 0)], wave), arch, build_dir))
    out = np.random.default_rng(2).integers(0, 256, (len(wanted), 2, 64, CELL), np.uint8)
    samples = {}
    for n, (form, verb, _, d16, *_more) in enumerate(wanted):
        for lane in range(wave):
            if verb == "load":
                if lane % 4 == 0:  # corners: all ones, the sign alone
                    out[n, 1, lane] = rng.choice([0, 0xFF, 0x80, 0x7F])
                continue
            values = sample(form, verb, d16, rng)
            samples[n, lane] = values
            if d16:
                ty = "u16" if form.integer else "f16"
                halves = [(v & 0xFFFF) if form.integer else encode(v, ty) for v in values]
                if not form.integer:
                    samples[n, lane] = [decode(h, "f16") for h in halves]
                elif form.number == "SINT":
                    samples[n, lane] = [h - (h >> 15 << 16) for h in halves]
                else:
                    samples[n, lane] = halves
                if d16 == "hi":
                    words = [0xDEAD | halves[0] << 16, 0, 0, 0]
                else:
                    words = [halves[0] | halves[1] << 16, halves[2] | halves[3] << 16, 0, 0]
            else:
                words = [v & 0xFFFFFFFF if form.integer else encode(v, "f32") for v in values]
                if not form.integer:
                    samples[n, lane] = [decode(w, "f32") for w in words]
            out[n, 0, lane] = np.array(words, np.uint32).view(np.uint8)
    before = out.copy()
    sim.launch(sim.function(module, "typed"), (1,), (wave,), [np.zeros(64, np.uint32), out])
    for n, (form, verb, count, d16, _typed, select) in enumerate(wanted):
        for lane in range(wave):
            cell = before[n, 1, lane].tobytes()
            if verb == "store":
                raw = stored(form, samples[n, lane][:count])
                cell = raw.to_bytes(form.size, "little") + cell[form.size :]
                assert out[n, 1, lane].tobytes() == cell, (lines[n], lane, samples[n, lane])
                continue
            one = 1 if form.integer else 0x3F800000
            have = texel(form, int.from_bytes(cell[: form.size], "little"))
            have = [0, one, 0, 0, *have]
            values = [have[select >> 3 * k & 7] for k in range(count)]
            old = before[n, 0, lane].view(np.uint32).tolist()
            want, got = loaded(form, values, d16, old), out[n, 0, lane].view(np.uint32).tolist()
            if got != want and form.number == "FLOAT":  # only the class of a NaN is fixed
                ty = "f16" if d16 else "f32"
                bits = 16 if d16 else 32
                split = [[w >> s & (1 << bits) - 1 for w in ws for s in range(0, 32, bits)] for ws in (got, want)]
                assert all(g == w or is_nan(g, ty) and is_nan(w, ty) for g, w in zip(*split, strict=True)), lines[n]
                continue
            assert got == want, (lines[n], oct(select), lane, cell.hex(), [hex(g) for g in got], [hex(w) for w in want])
