"""A matrix operand is what its registers hold, however often and in whatever form they were an operand before."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program
from matrixref import decode

INPUTS = 36  # four fragments of two registers: the last is 32 registers behind the first
A, B, OTHER, FAR = FIRST, FIRST + 2, FIRST + 4, FIRST + 32
I8, F8 = 60, 64  # accumulators


def operand(registers: np.ndarray) -> np.ndarray:
    """Bytes of 16 rows (columns) and 32 k of a fragment: lane l has 8 k of row l % 16 from 8 (l // 16)."""
    lanes = np.ascontiguousarray(registers.T).view(np.uint8)
    return lanes.reshape(4, 16, 8).transpose(1, 0, 2).reshape(16, 32)


class Machine:
    """The registers, and the program that changes them, step by step."""

    def __init__(self, rows: np.ndarray) -> None:
        self.v = {FIRST + n: row.copy() for n, row in enumerate(rows)}
        self.code = "".join(f"  v_mov_b32 v{n}, 0\n" for n in range(I8, F8 + 4))
        self.integers, self.floats = np.zeros((16, 16), np.int64), np.zeros((16, 16))

    def codes(self, first: int) -> np.ndarray:
        return operand(np.stack([self.v[first], self.v[first + 1]]))

    def multiply(self, a: int, b: int, kind: str = "i8") -> None:
        x, y = self.codes(a), self.codes(b)
        name, d = ("i32_16x16x32_i8", I8) if kind == "i8" else ("f32_16x16x32_fp8_fp8", F8)
        self.code += f"  v_mfma_{name} v[{d}:{d + 3}], v[{a}:{a + 1}], v[{b}:{b + 1}], v[{d}:{d + 3}]\n"
        if kind == "i8":
            self.integers += x.view(np.int8).astype(np.int64) @ y.view(np.int8).astype(np.int64).T
        else:
            self.floats += decode(x, "fp8", fnuz=True) @ decode(y, "fp8", fnuz=True).T

    def flip(self, register: int, lanes: int = 2**64 - 1) -> None:
        """Changes bits of `register` in some lanes."""
        self.code += (f"  s_mov_b32 exec_lo, {lanes & 0xffffffff:#x}\n  s_mov_b32 exec_hi, {lanes >> 32:#x}\n"
                      f"  v_xor_b32 v{register}, 0x11, v{register}\n  s_mov_b64 exec, -1\n")
        chosen = np.array([lanes >> n & 1 for n in range(64)], bool)
        self.v[register][chosen] ^= 0x11


def steps(m: Machine) -> None:
    for kind in ("i8", "fp8", "i8"):
        m.multiply(A, B, kind)
        m.multiply(A, B, kind)  # the same
        m.multiply(FAR, B, kind)
        m.multiply(A, OTHER, kind)
        m.flip(A + 1)
        m.multiply(A, B, kind)
        m.flip(B + 1, lanes=1 << 63)  # nothing but the last dword
        m.multiply(A, B, kind)
        m.multiply(B, A, kind)
        m.multiply(B, B, kind)
        m.multiply(A, B, "fp8" if kind == "i8" else "i8")  # the same bits mean something else


@pytest.mark.parametrize("arch", ["gfx942"])
def test_operands_are_what_registers_hold(sim, build_dir: str, arch: str) -> None:
    # Magnitudes from 2 to 15 as fp8 and all signs, so that sums of products are exact.
    codes = np.random.default_rng(11).integers(0, 256, (INPUTS, 64, 4), dtype=np.uint8)
    rows = (codes & 0x9f | 0x40).view(np.uint32)[..., 0]
    m = Machine(rows)
    steps(m)
    bench = Bench(sim, arch, [Program("k", m.code, INPUTS, I8, 8)], build_dir)
    for _ in range(2):  # what the first launch knew is not true of the second one
        got = bench.run("k", rows)
        place = np.arange(64)  # lane l has rows 4 (l // 16) .. + 3 of column l % 16
        for want, slots in ((m.integers, got[:4].view(np.int32)), (m.floats, got[4:].view(np.float32))):
            for slot in range(4):
                assert np.array_equal(slots[slot], want[place // 16 * 4 + slot, place % 16]), slot
        rows = rows ^ np.uint32(0x04040404)
        m = Machine(rows)
        steps(m)
