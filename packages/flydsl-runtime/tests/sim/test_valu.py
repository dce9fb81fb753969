"""Every vector instruction of valu_table.py in every form, against plain Python.

Forms: plain registers, constants, source and output modifiers, halves of registers, DPP, SDWA, saturation; each
under a full and a partial EXEC, with a destination whose old contents are known.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import valu_rare  # noqa: F401  (adds to OPS)
from asmlib import Program, module_text
from hiplib import LLVM, assemble
from number_formats import FLOATS, INTS, decode, encode, is_nan, samples, width
from valu_table import OPS, Op, sext

SOURCE, OLD, CARRY, RESULT = (8, 10, 12), 14, 16, 20
INPUTS = 9
MASKS = {32: (0xFFFFFFFF, 0x7FFE5BF1), 64: (0xFFFFFFFFFFFFFFFF, 0xF7FE5BF17DC03AFF)}
Lanes = list[int]


@dataclass
class Form:
    """One instruction text and what it does to raw operands and the result."""

    op: Op
    text: str
    exec_: int
    operands: Callable[[list[Lanes], int, int], list[int]]
    neg: tuple[int, ...] = (0, 0, 0)
    abs_: tuple[int, ...] = (0, 0, 0)
    clamp: bool = False
    high: int = 0  #: op_sel of the destination
    written: Callable[[int], bool] = field(default=lambda lane: True)
    sdwa: tuple[str, str] | None = None  #: dst_sel, dst_unused


def register(first: int, ty: str) -> str:
    """The operand name of a type at a register."""
    return f"v[{first}:{first + 1}]" if width(ty) == 64 else f"v{first}"


def plain(rows: list[Lanes], op: Op, lane: int) -> list[int]:
    """Raw operands of a lane, low register first."""
    return [rows[2 * n][lane] | (rows[2 * n + 1][lane] << 32 if width(t) == 64 else 0) for n, t in enumerate(op.src)]


def dpp_source(ctrl: str, lane: int, wave: int) -> int | None:
    """The lane that `lane` reads, or None."""
    name, _, value = ctrl.partition(":")
    i, row = lane % 16, lane - lane % 16
    if name in ("quad_perm", "dpp8"):
        group = 4 if name == "quad_perm" else 8
        return lane - lane % group + int(value.strip("[]").split(",")[lane % group])
    n = int(value or 0)
    inside = {"row_shl": i + n, "row_shr": i - n}
    if name in inside:
        return row + inside[name] if 0 <= inside[name] < 16 else None
    return {
        "row_ror": row + (i - n) % 16,
        "row_mirror": row + 15 - i,
        "row_half_mirror": lane - lane % 8 + 7 - lane % 8,
        "row_newbcast": row + n,
        "row_share": row + n,
        "row_xmask": row + (i ^ n),
        "row_bcast": (row - 1 if row else None) if n == 15 else (31 if lane >= 32 else None),
        "wave_shl": lane + 1 if lane + 1 < wave else None,
        "wave_ror": (lane - 1) % wave,
    }[name]


def forms(op: Op, name: str, arch: str, rng: random.Random) -> list[Form]:
    """The candidate forms of an instruction; the assembler decides which of them exist."""
    wave = 32 if arch.startswith("gfx12") else 64
    full, part = MASKS[wave]
    vcc = "vcc" if wave == 64 else "vcc_lo"
    dst = register(RESULT, op.dst)
    regs = [register(SOURCE[n], t) for n, t in enumerate(op.src)]
    srcs = op.src[:2] if op.carry in ("in", "inout") else op.src
    out = f"{dst}, {vcc}" if op.carry in ("out", "inout") else dst
    tail = f", {vcc}" if op.carry in ("in", "inout") else ""
    base: Callable = lambda rows, lane, _exec: plain(rows, op, lane)  # noqa: E731

    def text(operands: list[str], suffix: str = "", extra: str = "") -> str:
        return f"{name}{suffix} {out}, {', '.join(operands)}{tail} {extra}".strip()

    found = [Form(op, text(regs[: len(srcs)]), mask, base) for mask in (full, part)]
    # constants as first operand
    ty = op.src[0]
    constants = ["0.5", "-4.0", "0", "1.0", "0.15915494309189532"] if ty in FLOATS else ["0", "-16", "64", "17"]
    for c in rng.sample(constants, 2):
        value = encode(float(c), ty) if ty in FLOATS else int(c) & 0xFFFFFFFFFFFFFFFF
        if c.startswith("0.159"):
            value = {"f16": 0x3118, "bf16": 0x3E23, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}.get(ty, 0)

        def constant(rows: list[Lanes], lane: int, _exec: int, value: int = value) -> list[int]:
            return [value, *plain(rows, op, lane)[1:]]

        found.append(Form(op, text([c, *regs[1 : len(srcs)]]), part, constant))
    literal = encode(3.1415927, "f32") if ty == "f32" else 0x1234
    if width(ty) <= 32 and ty != "f16":
        found.append(
            Form(op, text([hex(literal), *regs[1 : len(srcs)]]), full, lambda r, n, _: [literal, *plain(r, op, n)[1:]])
        )
    # source modifiers and clamp
    if all(t in FLOATS for t in op.src):
        for _ in range(3):
            neg = tuple(rng.randint(0, 1) for _ in op.src)
            absolute = tuple(rng.randint(0, 1) for _ in op.src)
            names = [f"{'-' if n else ''}{f'|{r}|' if a else r}" for r, n, a in zip(regs, neg, absolute, strict=True)]
            clamp = op.dst in FLOATS and op.rounds and rng.random() < 0.5
            found.append(Form(op, text(names, "", "clamp" if clamp else ""), part, base, neg, absolute, clamp))
    if op.saturates:
        found.append(Form(op, text(regs, "_e64" if len(regs) < 3 else "", "clamp"), part, base, clamp=True))
    # halves of registers
    if all(width(t) == 16 for t in op.src) and width(op.dst) <= 32:
        for _ in range(3):
            sel = [rng.randint(0, 1) for _ in op.src]
            high = rng.randint(0, 1) if width(op.dst) == 16 else 0

            def half(rows: list[Lanes], lane: int, _exec: int, sel: list[int] = sel) -> list[int]:
                return [v >> (16 * s) for v, s in zip(plain(rows, op, lane), sel, strict=True)]

            wanted = [*sel, high] if width(op.dst) == 16 else [*sel, 0]
            suffix = "_e64" if len(regs) < 3 else ""
            found.append(Form(op, text(regs, suffix, f"op_sel:{wanted}".replace(" ", "")), part, half, high=high))
    # lane permutes of the first operand
    controls = ["quad_perm:[2,0,3,1]", "row_shl:3", "row_shr:5", "row_ror:7", "row_mirror", "row_half_mirror"]
    controls += ["row_newbcast:6", "row_bcast:15", "row_bcast:31", "wave_shl:1", "wave_ror:1"] if wave == 64 else []
    controls += ["row_share:9", "row_xmask:5"] * 2 + ["dpp8:[7,1,0,5,2,6,3,4]"] if wave == 32 else []
    for ctrl in rng.sample(controls, 4):
        bound, inactive = rng.randint(0, 1), rng.randint(0, 1) if wave == 32 else 0
        rows_mask, banks = rng.choice([15, 11, 13]) & (2 ** (wave // 16) - 1), rng.choice([15, 7, 14])
        dpp8 = ctrl.startswith("dpp8")
        if dpp8:
            rows_mask, banks, bound = 15, 15, 1
        extra = ctrl if dpp8 else f"{ctrl} row_mask:{rows_mask:#x} bank_mask:{banks:#x}" + " bound_ctrl:1" * bound
        extra += " fi:1" if inactive else ""

        def valid(lane: int, mask: int, ctrl: str = ctrl, inactive: int = inactive) -> int | None:
            s = dpp_source(ctrl, lane, wave)
            return s if s is not None and (inactive or mask >> s & 1) else None

        def permuted(rows: list[Lanes], lane: int, mask: int, valid: Callable = valid) -> list[int]:
            s = valid(lane, mask)
            first = plain(rows, op, s)[0] if s is not None else 0
            return [first, *plain(rows, op, lane)[1:]]

        def kept(lane: int, valid: Callable = valid, r: int = rows_mask, b: int = banks, bound: int = bound) -> bool:
            return bool(
                r >> (lane // 16) & 1 and b >> (lane % 16 // 4) & 1 and (bound or valid(lane, part) is not None)
            )

        for suffix in ("_dpp", "_e64_dpp"):
            found.append(Form(op, text(regs[: len(srcs)], suffix, extra), part, permuted, written=kept))
    # byte and word selects
    if wave == 64 and len(op.src) <= 2 and (ty in INTS or ty == "f16") and not op.carry:
        whole = (
            ["WORD_0", "WORD_1"]
            if ty in FLOATS
            else ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"]
        )
        for _ in range(4):
            sel = [rng.choice(whole) for _ in op.src]
            signed = [rng.randint(0, 1) if t in INTS and s != "DWORD" else 0 for t, s in zip(op.src, sel, strict=True)]
            dsel = rng.choice(whole if op.dst in INTS else ["WORD_0", "WORD_1"] if op.dst == "f16" else ["DWORD"])
            unused = rng.choice(["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])

            def chosen(rows: list[Lanes], lane: int, _exec: int, sel: list = sel, signed: list = signed) -> list[int]:
                out = []
                for v, s, g in zip(plain(rows, op, lane), sel, signed, strict=True):
                    bits = {"B": 8, "W": 16, "D": 32}[s[0]]
                    v = v >> (bits * int(s[-1]) if bits < 32 else 0) & ((1 << bits) - 1)
                    out.append(sext(v, bits) & 0xFFFFFFFF if g else v)
                return out

            names = [f"sext({r})" if g else r for r, g in zip(regs, signed, strict=True)]
            selects = " ".join(f"src{n}_sel:{s}" for n, s in enumerate(sel))
            extra = f"dst_sel:{dsel} dst_unused:{unused} {selects}"
            found.append(Form(op, text(names, "_sdwa", extra), part, chosen, sdwa=(dsel, unused)))
    return found


def invalid_lines(arch: str, lines: list[str]) -> set[int]:
    """Indices of the lines that the assembler does not accept."""
    command = [str(LLVM / "llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    return {int(n) - 1 for n in re.findall(r"^<stdin>:(\d+):\d+: error", done.stderr, re.MULTILINE)}


def expected(form: Form, rows: list[Lanes], lane: int, gfx12: bool) -> tuple[int, int, int, bool]:
    """Both result registers, the carry, and whether the result is a NaN."""
    op = form.op
    old, old_high = rows[OLD - 8][lane], rows[OLD - 7][lane]
    if not (form.exec_ >> lane & 1 and form.written(lane)):
        return old, old_high, 0, False
    values = []
    for n, (raw, ty) in enumerate(zip(form.operands(rows, lane, form.exec_), op.src, strict=False)):
        if ty in FLOATS:
            sign = 1 << (width(ty) - 1)
            raw = raw & (2 * sign - 1)
            raw = raw & ~sign if form.abs_[n] else raw
            raw = raw ^ sign if form.neg[n] else raw
        values.append(decode(raw, ty))
    if op.carry in ("in", "inout"):
        values = [*values[:2], rows[CARRY - 8][lane] & 1]
    value = op.value(*values)
    carry = int(op.carry in ("out", "inout") and not 0 <= value < 1 << width(op.dst))
    if op.dst in INTS and form.clamp:
        bits, signed = INTS[op.dst]
        low = -(1 << (bits - 1)) if signed else 0
        value = max(low, min(value, low + (1 << bits) - 1))
    if op.dst in FLOATS and form.clamp:
        rounded = decode(encode(value, op.dst), op.dst)
        value = 0.0 if math.isnan(rounded) or rounded <= 0 else min(rounded, 1.0)
    bits = encode(value, op.dst)
    nan = op.dst in FLOATS and is_nan(bits, op.dst)
    if width(op.dst) == 64:
        return bits & 0xFFFFFFFF, bits >> 32, carry, nan
    if form.sdwa:
        sel, unused = form.sdwa
        n = {"B": 8, "W": 16, "D": 32}[sel[0]]
        at, field_ = (n * int(sel[-1]) if n < 32 else 0), (1 << n) - 1
        rest = old & ~(field_ << at) if unused == "UNUSED_PRESERVE" else 0
        if unused == "UNUSED_SEXT" and bits >> (n - 1) & 1:
            rest = 0xFFFFFFFF << (at + n) & 0xFFFFFFFF
        return (bits & field_) << at | rest if n < 32 else bits & 0xFFFFFFFF, old_high, carry, nan
    if width(op.dst) == 16:
        if form.high:
            bits = bits << 16 | old & 0xFFFF
        elif gfx12 or op.keeps_high:
            bits |= old & 0xFFFF0000
    return bits, old_high, carry, nan


def input_rows(op: Op, wave: int, rng: random.Random) -> np.ndarray:
    """Registers v8.. for one launch."""
    rows = np.array([[rng.getrandbits(32) for _ in range(64)] for _ in range(INPUTS)], np.uint32)
    for n, ty in enumerate(op.src):
        kind = "u32" if ty.endswith("24") else ty
        bits = samples(kind, rng, wave)
        if ty in FLOATS:  # signalling NaNs are another subject
            bits = [b | 1 << (FLOATS[ty][1] - 1) if is_nan(b, ty) else b for b in bits]
        for lane, b in enumerate(bits):
            upper = rng.getrandbits(16)
            upper |= 0x200 if ty == "f16" and is_nan(upper, ty) else 0
            rows[2 * n, lane] = (b | (upper << 16 if width(ty) == 16 else 0)) & 0xFFFFFFFF
            if width(ty) == 64:
                rows[2 * n + 1, lane] = b >> 32
    return rows


def code_of(group: list[Form], wave: int) -> str:
    """Each form with its preparation and the store of its results."""
    vcc = "vcc" if wave == 64 else "vcc_lo"
    text = "  v_mul_u32_u24 v1, 3, v0\n"
    for form in group:
        text += f"  v_mov_b32 v20, v{OLD}\n  v_mov_b32 v21, v{OLD + 1}\n  v_and_b32 v22, 1, v{CARRY}\n"
        text += f"  v_cmp_ne_u32 {vcc}, 0, v22\n  s_mov_b32 exec_lo, {form.exec_ & 0xFFFFFFFF:#x}\n"
        text += f"  s_mov_b32 exec_hi, {form.exec_ >> 32:#x}\n  {form.text}\n"
        text += f"  s_mov_b64 exec, -1\n  v_cndmask_b32 v22, 0, 1, {vcc}\n"
        text += f"  global_store_{'dwordx3' if wave == 64 else 'b96'} v1, v[20:22], s[6:7]\n"
        text += "  s_add_u32 s6, s6, 768\n  s_addc_u32 s7, s7, 0\n"
    return text


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_vector_instructions(sim, build_dir, arch):
    """Two launches of every form; at least one form of every operation exists somewhere."""
    gfx12 = arch.startswith("gfx12")
    wave = 32 if gfx12 else 64
    rng = random.Random(arch)
    # On gfx12 these names mean the forms whose signs are modifiers.
    other = {"v_dot4_i32_i8", "v_dot8_i32_i4"} if gfx12 else set()
    candidates = [f for op in OPS for name in op.names if name not in other for f in forms(op, name, arch, rng)]
    wrong = invalid_lines(arch, [f.text for f in candidates])
    groups: dict[int, list[Form]] = defaultdict(list)
    for n, form in enumerate(candidates):
        if n not in wrong:
            groups[OPS.index(form.op)].append(form)
    programs = [Program(f"op{n}", code_of(g, wave), INPUTS, RESULT, 0) for n, g in groups.items()]
    directives = "\n  .amdhsa_float_denorm_mode_32 3\n.end_amdhsa_kernel"
    sim.set_arch(arch)
    module = sim.load(
        assemble(module_text(arch, programs, wave).replace("\n.end_amdhsa_kernel", directives), arch, build_dir)
    )
    failures = []
    for n, group in groups.items():
        bad = 0
        for _ in range(2):
            rows = input_rows(OPS[n], wave, rng)
            out = np.zeros((len(group), 64, 3), np.uint32)
            sim.launch(sim.function(module, f"op{n}"), (1,), (wave,), [rows, out])
            lanes = rows.tolist()
            for form, got in zip(group, out.tolist(), strict=True):
                for lane in range(wave):
                    low, high, carry, nan = expected(form, lanes, lane, gfx12)
                    g = got[lane]
                    if nan:
                        upper = form.high or (form.sdwa and form.sdwa[0] == "WORD_1")
                        value = g[0] | g[1] << 32 if width(form.op.dst) == 64 else g[0] >> (16 if upper else 0)
                        same = is_nan(value & ((1 << width(form.op.dst)) - 1), form.op.dst)
                    else:
                        same = (g[0], g[1]) == (low, high)
                    if form.op.carry in ("out", "inout"):
                        same = same and g[2] == carry
                    if not same and bad < 3:
                        bad += 1
                        inputs = [hex(v) for v in form.operands(lanes, lane, form.exec_)]
                        failures.append(
                            f"{form.text}: lane {lane} {inputs} old {lanes[OLD - 8][lane]:#x}: "
                            f"{g[1]:#x}:{g[0]:#x} carry {g[2]}, expected {high:#x}:{low:#x} carry {carry}"
                        )
                        break
    covered = {OPS[n].names for n in groups}
    assert len(covered) > (180 if gfx12 else 170), sorted(op.names for op in OPS if op.names not in covered)
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:200])
