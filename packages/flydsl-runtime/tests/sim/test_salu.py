"""Scalar instructions against plain Python: results and SCC, for random and corner operands.

A kernel loops over the lanes of its input registers: each lane is one sample, moved to scalar registers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble
from number_formats import FLOATS, INTS, Number, decode, encode, is_nan, samples, width
from test_valu import invalid_lines
from valu_table import add, fma, highest, lowest, maximum, minimum, mul, sext, to_int, whole

INPUTS, KEEP = 6, None


@dataclass(frozen=True)
class Scalar:
    """`scc(result, *operands)` is the new SCC; None leaves it. `old` operands read the destination."""

    names: tuple[str, ...]
    dst: str
    src: tuple[str, ...]
    value: Callable[..., Number]
    scc: Callable[..., int] | None
    reads_scc: bool = False
    old: bool = False


OPS: list[Scalar] = []


def op(names: str, types: str, value: Callable, scc: Callable | None = KEEP, **more) -> None:
    """Adds an instruction; `types` is "result operand ...", "-" for none."""
    dst, *src = types.split()
    OPS.append(Scalar(tuple(names.split("|")), dst, tuple(src), value, scc, **more))


def nonzero(result: Number, *_: Number) -> int:
    """SCC of logic operations."""
    return int(result != 0)


def outside(ty: str) -> Callable[..., int]:
    """SCC of additions: carry, borrow or signed overflow."""
    bits, signed = INTS[ty]
    low = -(1 << (bits - 1)) if signed else 0
    return lambda r, *_: int(not low <= r < low + (1 << bits))


def masked(f: Callable[..., int], w: int) -> Callable[..., int]:
    """Wraps a result to `w` bits before SCC looks at it."""
    return lambda *a: f(*a) & ((1 << w) - 1)


def field(v: int, spec: int, w: int, signed: bool) -> int:
    """s_bfe: offset in the low bits of `spec`, width in bits 22:16."""
    o, n = spec & (w - 1), spec >> 16 & 0x7F
    n = min(n, w - o) if n else 0
    part = v >> o & ((1 << n) - 1)
    return 0 if n == 0 else sext(part, n) if signed else part


def quad(v: int, w: int) -> int:
    """A bit for each four bits."""
    return sum(1 << k // 4 for k in range(0, w, 4) if v >> k & 15)


def whole_quads(v: int, w: int) -> int:
    """Every four bits set if any of them is."""
    return sum(15 << k for k in range(0, w, 4) if v >> k & 15)


def integers() -> None:
    """Arithmetic, logic, shifts, comparisons."""
    for t in ("u32", "i32"):
        n = t[0]
        op(f"s_add_{t}" + (f"|s_add_co_{t}"), f"{t} {t} {t}", lambda a, b: a + b, outside(t))
        op(f"s_sub_{t}" + (f"|s_sub_co_{t}"), f"{t} {t} {t}", lambda a, b: a - b, outside(t))
        op(f"s_min_{t}", f"{t} {t} {t}", min, lambda r, a, b: int(a < b))
        op(f"s_max_{t}", f"{t} {t} {t}", max, lambda r, a, b: int(a >= b))
        op(f"s_mul_hi_{t}", f"{t} {t} {t}", lambda a, b: (a * b) >> 32)
        for w in (32, 64):
            op(f"s_bfe_{n}{w}", f"{n}{w} {n}{w} u32", lambda v, s, w=w, g=n == "i": field(v, s, w, g), nonzero)
    op("s_addc_u32|s_add_co_ci_u32", "u32 u32 u32", lambda a, b, c: a + b + c, outside("u32"), reads_scc=True)
    op("s_subb_u32|s_sub_co_ci_u32", "u32 u32 u32", lambda a, b, c: a - b - c, outside("u32"), reads_scc=True)
    op("s_mul_i32", "u32 u32 u32", lambda a, b: a * b)
    op("s_mul_u64", "u64 u64 u64", lambda a, b: a * b)
    op("s_add_u64|s_add_nc_u64", "u64 u64 u64", lambda a, b: a + b)
    op("s_sub_u64|s_sub_nc_u64", "u64 u64 u64", lambda a, b: a - b)
    op("s_absdiff_i32", "u32 i32 i32", lambda a, b: abs(sext(a - b, 32)), nonzero)
    op("s_abs_i32", "u32 i32", abs, nonzero)
    for k in (1, 2, 3, 4):
        op(f"s_lshl{k}_add_u32", "u32 u32 u32", lambda a, b, k=k: (a << k) + b, outside("u32"))
    for w in (32, 64):
        b = f"u{w}"
        for name, f in {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
                        "andn2": lambda x, y: x & ~y, "and_not1": lambda x, y: x & ~y, "orn2": lambda x, y: x | ~y,
                        "or_not1": lambda x, y: x | ~y, "nand": lambda x, y: ~(x & y), "nor": lambda x, y: ~(x | y),
                        "xnor": lambda x, y: ~(x ^ y)}.items():
            op(f"s_{name}_b{w}", f"{b} {b} {b}", masked(f, w), nonzero)
        op(f"s_not_b{w}", f"{b} {b}", masked(lambda x: ~x, w), nonzero)
        op(f"s_lshl_b{w}", f"{b} {b} u32", masked(lambda x, n, w=w: x << (n & (w - 1)), w), nonzero)
        op(f"s_lshr_b{w}", f"{b} {b} u32", lambda x, n, w=w: x >> (n & (w - 1)), nonzero)
        op(f"s_ashr_i{w}", f"i{w} i{w} u32", lambda x, n, w=w: x >> (n & (w - 1)), nonzero)
        op(f"s_bfm_b{w}", f"{b} u32 u32", lambda n, o, w=w: ((1 << (n & (w - 1))) - 1) << (o & (w - 1)))
        op(f"s_mov_b{w}", f"{b} {b}", lambda x: x)
        op(f"s_brev_b{w}", f"{b} {b}", lambda x, w=w: int(f"{x:0{w}b}"[::-1], 2))
        op(f"s_wqm_b{w}", f"{b} {b}", lambda x, w=w: whole_quads(x, w), nonzero)
        op(f"s_quadmask_b{w}", f"{b} {b}", lambda x, w=w: quad(x, w), nonzero)
        op(f"s_cselect_b{w}", f"{b} {b} {b}", lambda x, y, c: x if c else y, reads_scc=True)
        op(f"s_cmov_b{w}", f"{b} {b}", lambda x, old, c: x if c else old, reads_scc=True, old=True)
        op(f"s_bcnt1_i32_b{w}", f"u32 {b}", lambda x: x.bit_count(), nonzero)
        op(f"s_bcnt0_i32_b{w}", f"u32 {b}", lambda x, w=w: w - x.bit_count(), nonzero)
        op(f"s_ff1_i32_b{w}|s_ctz_i32_b{w}", f"i32 {b}", lambda x: (x & -x).bit_length() - 1)
        op(
            f"s_ff0_i32_b{w}",
            f"i32 {b}",
            masked(lambda x, w=w: (~x & -(~x)).bit_length() - 1 if x != 2**w - 1 else -1, 32),
        )
        op(f"s_flbit_i32_b{w}|s_clz_i32_u{w}", f"i32 {b}", lambda x, w=w: w - x.bit_length() if x else -1)
        name = f"s_flbit_i32{'_i64' if w == 64 else ''}|s_cls_i32{'_i64' if w == 64 else ''}"
        op(name, f"i32 i{w}", lambda x, w=w: -1 if x in (0, -1) else w - (x if x >= 0 else ~x).bit_length())
        op(f"s_bitset0_b{w}", f"{b} u32", lambda n, old, w=w: old & ~(1 << (n & (w - 1))), old=True)
        op(f"s_bitset1_b{w}", f"{b} u32", lambda n, old, w=w: old | 1 << (n & (w - 1)), old=True)
        op(f"s_bitcmp0_b{w}", f"- {b} u32", lambda x, n, w=w: 0, lambda r, x, n, w=w: 1 - (x >> (n & (w - 1)) & 1))
        op(f"s_bitcmp1_b{w}", f"- {b} u32", lambda x, n, w=w: 0, lambda r, x, n, w=w: x >> (n & (w - 1)) & 1)
    op("s_bitreplicate_b64_b32", "u64 u32", lambda x: sum(3 << 2 * k for k in range(32) if x >> k & 1))
    op("s_sext_i32_i8", "i32 u32", lambda x: sext(x, 8))
    op("s_sext_i32_i16", "i32 u32", lambda x: sext(x, 16))
    for k, (x, y) in {"ll": (0, 0), "lh": (0, 16), "hh": (16, 16), "hl": (16, 0)}.items():
        op(f"s_pack_{k}_b32_b16", "u32 u32 u32", lambda a, b, x=x, y=y: (a >> x & 0xFFFF) | (b >> y & 0xFFFF) << 16)
    tests = {"eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
             "lt": lambda a, b: a < b, "le": lambda a, b: a <= b}
    for name, f in tests.items():
        for t in ("i32", "u32", "u64"):
            op(f"s_cmp_{name}_{t}", f"- {t} {t}", lambda a, b: 0, lambda r, a, b, f=f: int(f(a, b)))
        for t in ("f32", "f16"):
            op(f"s_cmp_{name}_{t}", f"- {t} {t}", lambda a, b: 0,
               lambda r, a, b, f=f, n=name: int(a == a and b == b and f(a, b)))
            negated = {"eq": "nlg", "lg": "neq", "gt": "ngt", "ge": "nge", "lt": "nlt", "le": "nle"}[name]
            g = tests["lg"] if name == "eq" else tests["eq"] if name == "lg" else f
            op(f"s_cmp_{negated}_{t}", f"- {t} {t}", lambda a, b: 0,
               lambda r, a, b, f=g: int(a != a or b != b or not f(a, b)))


def floats() -> None:
    """The scalar floating-point unit of gfx12."""
    for t in ("f32", "f16"):
        op(f"s_add_{t}", f"{t} {t} {t}", add)
        op(f"s_sub_{t}", f"{t} {t} {t}", lambda a, b: add(a, -b))
        op(f"s_mul_{t}", f"{t} {t} {t}", mul)
        op(f"s_fmac_{t}", f"{t} {t} {t}", fma, old=True)
        op(f"s_min_num_{t}", f"{t} {t} {t}", lowest)
        op(f"s_max_num_{t}", f"{t} {t} {t}", highest)
        op(f"s_minimum_{t}", f"{t} {t} {t}", minimum)
        op(f"s_maximum_{t}", f"{t} {t} {t}", maximum)
        op(f"s_floor_{t}", f"{t} {t}", lambda a: whole(math.floor, a))
        op(f"s_ceil_{t}", f"{t} {t}", lambda a: whole(math.ceil, a))
        op(f"s_trunc_{t}", f"{t} {t}", lambda a: whole(math.trunc, a))
        op(f"s_rndne_{t}", f"{t} {t}", lambda a: whole(round, a))
    op("s_cvt_f32_i32", "f32 i32", float)
    op("s_cvt_f32_u32", "f32 u32", float)
    op("s_cvt_i32_f32", "i32 f32", lambda a: to_int(a, -(2**31), 2**31 - 1))
    op("s_cvt_u32_f32", "u32 f32", lambda a: to_int(a, 0, 2**32 - 1))
    op("s_cvt_f16_f32", "f16 f32", lambda a: a)
    op("s_cvt_f32_f16", "f32 f16", lambda a: a)
    op("s_cvt_hi_f32_f16", "f32 u32", lambda a: decode(a >> 16, "f16"))


integers()
floats()


def pair(first: int, ty: str) -> str:
    """Operand name of a type at a scalar register."""
    return f"s[{first}:{first + 1}]" if width(ty) == 64 else f"s{first}"


def line(scalar: Scalar, name: str) -> str:
    """Assembly: operands at s20 and s22, result at s24."""
    operands = [pair(20 + 2 * n, t) for n, t in enumerate(scalar.src)]
    if scalar.dst != "-":
        operands.insert(0, pair(24, scalar.dst))
    return f"{name} {', '.join(operands)}"


def kernel(scalar: Scalar, text: str, wave: int) -> str:
    """A loop over the lanes: v8..v11 operands, v12 the destination's old value (also for its high half), v13 SCC."""
    code = "  s_mov_b32 s40, 0\n.Lloop_NAME:\n"
    for n in range(4):
        code += f"  v_readlane_b32 s{20 + n}, v{8 + n}, s40\n"
    code += "  v_readlane_b32 s24, v12, s40\n  s_mov_b32 s25, s24\n  v_readlane_b32 s30, v13, s40\n"
    code += f"  s_mov_b32 m0, s40\n  s_cmp_lg_u32 s30, 0\n  {text}\n  s_cselect_b32 s31, 1, 0\n"
    for n, s in enumerate((24, 25, 31)):
        code += f"  v_writelane_b32 v{2 + n}, s{s}, m0\n"
    return code + f"  s_add_u32 s40, s40, 1\n  s_cmp_lt_u32 s40, {wave}\n  s_cbranch_scc1 .Lloop_NAME\n"


def expected(scalar: Scalar, regs: list[int]) -> tuple[int, int, int, bool]:
    """Low and high register of the result, SCC, NaN; `regs` are the six input registers of a lane."""
    values = []
    for n, t in enumerate(scalar.src):
        raw = regs[2 * n] | (regs[2 * n + 1] << 32 if width(t) == 64 else 0)
        values.append(decode(raw, t))
    old, scc = regs[4], int(regs[5] != 0)
    more = []
    if scalar.old:
        more.append(decode(old | old << 32, scalar.dst))
    if scalar.reads_scc:
        more.append(scc)
    result = scalar.value(*values, *more)
    new_scc = scc if scalar.scc is None else scalar.scc(result, *values)
    if scalar.dst == "-":
        return old, old, new_scc, False
    bits = encode(result, scalar.dst)
    high = bits >> 32 if width(scalar.dst) == 64 else old
    return bits & 0xFFFFFFFF, high, new_scc, scalar.dst in FLOATS and is_nan(bits, scalar.dst)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_scalar_instructions(sim, build_dir, arch):
    """Four launches (128 or 256 samples) of every operation that the architecture has."""
    wave = 32 if arch.startswith("gfx12") else 64
    rng = random.Random(arch)
    candidates = [(s, line(s, name)) for s in OPS for name in s.names]
    wrong = invalid_lines(arch, [text for _, text in candidates])
    chosen = [c for n, c in enumerate(candidates) if n not in wrong]
    programs = []
    for n, (scalar, text) in enumerate(chosen):
        code = kernel(scalar, text, wave).replace("NAME", f"s{n}")
        programs.append(Program(f"s{n}", code, INPUTS, 2, 3))
    directives = "\n  .amdhsa_float_denorm_mode_32 3\n.end_amdhsa_kernel"
    source = module_text(arch, programs, wave).replace("\n.end_amdhsa_kernel", directives)
    sim.set_arch(arch)
    module = sim.load(assemble(source, arch, build_dir))
    failures = []
    for n, (scalar, text) in enumerate(chosen):
        for _ in range(4):
            rows = np.array([[rng.getrandbits(32) for _ in range(64)] for _ in range(INPUTS)], np.uint32)
            rows[5] &= 1
            for k, ty in enumerate(scalar.src):
                for lane, b in enumerate(samples(ty, rng, wave)):
                    if ty in FLOATS and is_nan(b, ty):
                        b |= 1 << (FLOATS[ty][1] - 1)
                    rows[2 * k, lane] = b & 0xFFFFFFFF
                    if width(ty) == 64:
                        rows[2 * k + 1, lane] = b >> 32
            out = np.zeros((3, 64), np.uint32)
            sim.launch(sim.function(module, f"s{n}"), (1,), (wave,), [rows, out])
            for lane in range(wave):
                low, high, scc, nan = expected(scalar, rows[:, lane].tolist())
                got = out[:, lane].tolist()
                same = is_nan(got[0], scalar.dst) if nan else got[:2] == [low, high]
                if not same or got[2] != scc:
                    failures.append(f"{text}: {[hex(v) for v in rows[:, lane].tolist()]} gives {got[1]:#x}:{got[0]:#x} "
                                    f"scc {got[2]}, expected {high:#x}:{low:#x} scc {scc}")
                    break
            else:
                continue
            break
    assert len(chosen) > (95 if wave == 64 else 150), len(chosen)
    assert not failures, "\n".join(failures)
