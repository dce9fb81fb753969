"""Vector instructions whose results or operands do not fit the table of test_valu.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from asmlib import Bench, Program, rdna
from number_formats import decode
from test_valu import MASKS, invalid_lines
from valu_rare import masked_sad
from valu_table import sext

WORDS = 8  # v8..v15 are operands, v16..v20 results
CHOICE = 0x5A5AA5C3  # s22


@dataclass(frozen=True)
class Case:
    """``value(registers of the lane, lane, wave)`` gives the results from v16 on."""

    text: str
    value: Callable[[list[int], int, int], list[int]]
    others: bool = False  #: the registers are those of all lanes


def byte_at(old: int, which: int, byte: int) -> int:
    """`old` with one byte replaced."""
    return old & ~(255 << 8 * (which & 3)) | byte << 8 * (which & 3)


def picked(bits: int) -> Callable[[list[int], int, int], list[int]]:
    """Sixteen elements of a table of sixteen; the low ones are those of the second operand."""

    def value(r: list[int], _lane: int, _wave: int) -> list[int]:
        words = bits // 2
        high = 2 if bits == 8 else 1
        # v[8:9] (or v8) holds the high elements, v[10:11] and on the low ones, v[14:15] the choice.
        low = [r[2 + k] for k in range(words - high)]
        table = sum(w << 32 * k for k, w in enumerate(low + [r[k] for k in range(high)]))
        choice = r[6] | r[7] << 32
        out = sum((table >> bits * (choice >> 4 * k & 15) & (1 << bits) - 1) << bits * k for k in range(16))
        return [out >> 32 * k & 0xFFFFFFFF for k in range(words)]

    return value


def saturated(low: int, high: int) -> Callable[[list[int], int, int], list[int]]:
    """Four bytes as nibbles, limited."""

    def value(r: list[int], _lane: int, _wave: int) -> list[int]:
        return [sum((max(low, min(high, sext(r[0] >> 8 * k, 8) if low else r[0] >> 8 * k & 255)) & 15) << 4 * k
                    for k in range(4))]

    return value


def cases() -> list[Case]:
    """All of them; the assembler knows which exist."""

    def sums(r: list[int], _lane: int, _wave: int) -> list[int]:
        window = r[0] | r[1] << 32
        return [masked_sad(window >> 8 * k & 0xFFFFFFFF, r[2]) + r[4 + k] & 0xFFFFFFFF for k in range(4)]

    def narrow(r: list[int], _lane: int, _wave: int) -> list[int]:
        value = decode(r[0], "f32")
        number = 0 if value != value or value <= 0 else 255 if value >= 255 else round(value)
        return [byte_at(r[3], r[2], number)]

    def signs(r: list[int], _lane: int, _wave: int) -> list[int]:
        return [(r[0] & 0xFFFF ^ 0x8000) | (r[1] & 0x7FFF) << 16]

    def turned(r: list[int], _lane: int, _wave: int) -> list[int]:
        return [(r[0] >> 16 | 0x8000) | (r[1] & 0xFFFF ^ 0x8000) << 16]

    found = [
        Case("v_pack_b32_f16 v16, -v8, |v9|", signs),
        Case("v_pack_b32_f16 v16, -|v8|, -v9 op_sel:[1,0,0]", turned),
        Case("v_cndmask_b16_e64 v16, -v8, |v9|, s22",
             lambda r, lane, w: [r[1] & 0x7FFF if CHOICE >> lane & 1 else r[0] & 0xFFFF ^ 0x8000]),
        Case("v_mqsad_u32_u8 v[16:19], v[8:9], v10, v[12:15]", sums),
        Case("v_cvt_pk_u8_f32 v16, v8, v10, v11", narrow),
        Case("v_sat_pk4_i4_i8 v16, v8", saturated(-8, 7)),
        Case("v_sat_pk4_u4_u8 v16, v8", saturated(0, 15)),
        Case("v_perm_pk16_b4_u4 v[16:17], v8, v10, v[14:15]", picked(4)),
        Case("v_perm_pk16_b6_u4 v[16:18], v8, v[10:11], v[14:15]", picked(6)),
        Case("v_perm_pk16_b8_u4 v[16:19], v[8:9], v[10:11], v[14:15]", picked(8)),
        Case("v_permlane_idx_gen_b32 v16, v8, s20", lambda r, lane, w: [lane // 8 * 8 + r[0] % 8]),
    ]
    shuffles = {"bcast": lambda i, k: k % 8, "up": lambda i, k: i - k if k <= i else i,
                "down": lambda i, k: i + k if i + k < 8 else i, "xor": lambda i, k: i ^ k}
    for name, f in shuffles.items():  # groups of s20 = 8 lanes, by s21 = 3
        found.append(Case(f"v_permlane_{name}_b32 v16, v8, s21, s20",
                          lambda r, lane, w, f=f: [r[lane // 8 * 8 + f(lane % 8, 3)][0]], True))
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201", "gfx1250"])
def test_rare_vectors(sim, build_dir, arch):
    """Results under a partial EXEC; the registers behind them keep what they had."""
    wave = 32 if rdna(arch) else 64
    mask = MASKS[wave][1]
    candidates = cases()
    wrong = invalid_lines(arch, [c.text for c in candidates])
    chosen = [c for n, c in enumerate(candidates) if n not in wrong]
    assert len(chosen) >= (12 if arch == "gfx1250" else 4), [c.text for c in chosen]
    programs = []
    for n, case in enumerate(chosen):
        code = "".join(f"  v_mov_b32 v{16 + k}, {k}\n" for k in range(5)) + "  s_mov_b32 s20, 8\n  s_mov_b32 s21, 3\n"
        code += f"  s_mov_b32 s22, {CHOICE:#x}\n"
        code += f"  s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}\n  s_mov_b32 exec_hi, {mask >> 32:#x}\n  {case.text}\n"
        programs.append(Program(f"r{n}", code + "  s_mov_b64 exec, -1\n", WORDS, 16, 5))
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(11).integers(0, 2**32, (WORDS, wave), np.uint32)
    rows[0, ::3] = np.linspace(-20, 300, len(rows[0, ::3]), dtype=np.float32).view(np.uint32)
    lanes = rows.T.tolist()
    for n, case in enumerate(chosen):
        got = bench.run(f"r{n}", rows).T.tolist()
        for lane in range(wave):
            want = list(range(5))
            if mask >> lane & 1:
                values = case.value(lanes if case.others else lanes[lane], lane, wave)
                want[: len(values)] = values
            assert got[lane] == want, (case.text, lane, got[lane], want)
