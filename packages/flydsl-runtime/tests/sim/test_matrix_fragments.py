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


REGISTERS = 48  # of the products of test_neighbours_are_as_if_alone
ALONE = "  s_mov_b32 s20, 0\n"  # what products do not run across
KINDS = {
    "gfx942": ("v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x32_fp8_fp8", "v_mfma_i32_16x16x32_i8",
               "v_mfma_f32_16x16x4_f32"),
    "gfx90a": ("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16bf16_1k"),
    "gfx950": ("v_mfma_f32_16x16x32_bf16", "v_mfma_f32_16x16x32_bf8_fp8"),
    "gfx1100": ("v_wmma_f32_16x16x16_f16", "v_wmma_f16_16x16x16_f16"),
    "gfx1201": ("v_wmma_f32_16x16x16_bf16", "v_wmma_f32_16x16x16_fp8_fp8"),
    "gfx1250": ("v_wmma_f32_16x16x32_bf16", "v_wmma_f32_16x16x64_fp8_bf8"),
}
LARGE = {"gfx942": ("v_mfma_f32_32x32x8_f16",)}
SIZES = {  # registers of A and B, and of C and D
    "v_wmma_f32_16x16x16_f16": (8, 8), "v_wmma_f16_16x16x16_f16": (8, 8), "v_wmma_f32_16x16x16_bf16": (4, 8),
    "v_wmma_f32_16x16x16_fp8_fp8": (2, 8), "v_wmma_f32_16x16x32_bf16": (8, 8), "v_wmma_f32_16x16x64_fp8_bf8": (8, 8),
    "v_mfma_f32_16x16x32_bf16": (4, 4), "v_mfma_f32_32x32x8_f16": (2, 16), "v_mfma_f32_16x16x4_f32": (1, 4),
}


def products(arch: str, seed: int) -> list[str]:
    """Products of one kind after the other, some waits and a vector operation now and then. They read what they have
    read or written before; a branch goes to one that has others before it."""
    rng = np.random.default_rng(seed)

    def tuple_of(count: int) -> str:
        first = FIRST + int(rng.integers(0, (REGISTERS - count) // 2 + 1)) * 2
        return f"v[{first}:{first + count - 1}]"

    lines, kind = ["  s_branch middle\n"], KINDS[arch][0]
    for n in range(60):
        if n == 7:
            lines.append("middle:\n")
        if rng.random() < 0.1:
            kind = str(rng.choice(KINDS[arch]))
        ab, cd = SIZES.get(kind, (2, 4))
        d = tuple_of(cd)
        lines.append(f"  {kind} {d}, {tuple_of(ab)}, {tuple_of(ab)}, {d if rng.random() < 0.8 else tuple_of(cd)}\n")
        if rng.random() < 0.3:
            lines.append("  s_nop 1\n")
        if rng.random() < 0.05:
            lines.append(f"  v_xor_b32 v{FIRST + int(rng.integers(REGISTERS))}, 0x3c00, v{FIRST}\n")
    return lines


@pytest.mark.parametrize("arch", KINDS)
def test_neighbours_are_as_if_alone(sim, build_dir: str, arch: str) -> None:
    """Products that follow each other share the operands that none of them has written."""
    programs = []
    for seed in range(6):
        lines = [line.replace("middle", f"middle{seed}") for line in products(arch, seed)]
        together = Program(f"together{seed}", "".join(lines), REGISTERS, FIRST, REGISTERS)
        apart = "".join(lines).replace(f"middle{seed}", f"apart{seed}").replace("\n", "\n" + ALONE)
        programs += [together, Program(f"alone{seed}", apart, REGISTERS, FIRST, REGISTERS)]
    bench = Bench(sim, arch, programs, build_dir)
    rows = np.random.default_rng(3).integers(0, 2**32, (REGISTERS, bench.wave), dtype=np.uint32)
    rows &= np.uint32(0xBBBBBBBB)  # finite numbers of every format
    for seed in range(6):
        together, alone = (bench.run(f"{name}{seed}", rows) for name in ("together", "alone"))
        assert (together != rows).any()
        assert np.array_equal(together, alone), seed


def loop_body(kind: str, start: str, columns_first: bool) -> tuple[str, int]:
    """Products of a matrix loop, 2 x 4 tiles of D and two steps of k, and the registers that they use."""
    ab, cd = SIZES.get(kind, (2, 4))
    first_b, first_d = FIRST + 4 * ab, FIRST + 12 * ab
    tiles = [(i, j) for i in range(2) for j in range(4)]
    if columns_first:
        tiles.sort(key=lambda tile: tile[1])

    def registers(first: int, count: int) -> str:
        return f"v[{first}:{first + count - 1}]"

    lines = []
    for k in range(2):
        for i, j in tiles:
            d = registers(first_d + (4 * i + j) * cd, cd)
            c = {"D": d, "zero": "0", "other": registers(FIRST, cd)}[start if k == 0 else "D"]
            lines.append(f"  {kind} {d}, {registers(FIRST + (2 * i + k) * ab, ab)}, "
                         f"{registers(first_b + (2 * j + k) * ab, ab)}, {c}\n")
    return "".join(lines), 12 * ab + 8 * cd


@pytest.mark.parametrize("arch", KINDS)
def test_sums_of_a_loop_are_those_of_its_products(sim, build_dir: str, arch: str) -> None:
    """Tiles that are computed side by side, over all steps at once, have the bits of one product after the other."""
    programs, used = [], 0
    for n, kind in enumerate((*KINDS[arch], *LARGE.get(arch, ()))):
        for start in ("D", "zero", "other"):
            for columns_first in (False, True):
                body, registers = loop_body(kind, start, columns_first)
                used = max(used, registers)
                for name, code in (("together", body), ("alone", body.replace("\n", "\n" + ALONE))):
                    programs.append((f"{name}_{n}_{start}_{columns_first:d}", code))
    bench = Bench(sim, arch, [Program(name, code, used, FIRST, used) for name, code in programs], build_dir)
    rng = np.random.default_rng(5)
    special = rng.integers(0, 2**32, (used, bench.wave), dtype=np.uint32)  # with infinities and NaN
    finite = special & np.uint32(0xBBBBBBBB)
    finite[:, ::7] = special[:, ::7] & np.uint32(0x83838383)  # denormal numbers among them
    for rows in (finite, special):
        for (together, _), (alone, _) in zip(programs[::2], programs[1::2], strict=True):
            got = bench.run(together, rows)
            assert (got != rows).any()
            assert np.array_equal(got, bench.run(alone, rows)), together
