"""Reference of the matrix instructions: formats, lane layouts and products, written from the ISA documents.

Nothing here is shared with the simulator. Layouts are (lane, slot) of an element; slot 0 is the lowest bits of the
lowest register and elements are packed densely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

BITS = {
    "f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "i8": 8, "iu8": 8,
    "fp6": 6, "bf6": 6, "fp4": 4, "f4": 4, "iu4": 4,
}


def small_float(exponent: int, mantissa: int, bias: int, special: str) -> np.ndarray:
    """Values of every code of a sign-exponent-mantissa format, from its definition."""
    width = 1 + exponent + mantissa
    values = np.zeros(1 << width)
    for code in range(1 << width):
        sign = -1.0 if code >> (width - 1) else 1.0
        e = code >> mantissa & ((1 << exponent) - 1)
        m = code & ((1 << mantissa) - 1)
        v = (m / 2**mantissa) * 2.0 ** (1 - bias) if e == 0 else (1 + m / 2**mantissa) * 2.0 ** (e - bias)
        top = (1 << exponent) - 1
        if special == "ieee" and e == top:
            v = np.inf if m == 0 else np.nan
        if special == "fn" and e == top and m == (1 << mantissa) - 1:
            v = np.nan
        values[code] = sign * v
        if special == "fnuz" and code == 1 << (width - 1):
            values[code] = np.nan
    return values


TABLES = {
    ("fp8", True): small_float(4, 3, 8, "fnuz"),
    ("bf8", True): small_float(5, 2, 16, "fnuz"),
    ("fp8", False): small_float(4, 3, 7, "fn"),
    ("bf8", False): small_float(5, 2, 15, "ieee"),
    ("fp6", False): small_float(2, 3, 1, "none"),
    ("bf6", False): small_float(3, 2, 3, "none"),
    ("fp4", False): small_float(2, 1, 1, "none"),
}


def decode(codes: np.ndarray, fmt: str, fnuz: bool = False, signed: bool = True) -> np.ndarray:
    """Codes (any unsigned dtype) to float64 values; integers for integer formats."""
    if fmt == "f64":
        return codes.astype(np.uint64).view(np.float64)
    if fmt in ("f32", "xf32"):
        bits = codes.astype(np.uint32)
        if fmt == "xf32":
            bits = (bits + 0xFFF + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)
        return bits.view(np.float32).astype(np.float64)
    if fmt == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    if fmt == "bf16":
        return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if fmt in ("i8", "iu8", "iu4", "i32"):
        v = codes.astype(np.int64)
        half = 1 << (BITS[fmt] - 1)
        return np.where(v >= half, v - 2 * half, v) if signed else v
    return TABLES[("fp4" if fmt == "f4" else fmt), fnuz and fmt in ("fp8", "bf8")][codes.astype(np.int64)]


def round_half(x: np.ndarray, fmt: str) -> np.ndarray:
    """float64 to the values of f16 or bf16, nearest even."""
    if fmt == "f16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float64)
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.nan, rounded.view(np.float32).astype(np.float64))


@dataclass(frozen=True)
class Shape:
    """One instruction as its name describes it."""

    name: str
    family: str  # mfma, smfmac, wmma, swmmac
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    c: str
    d: str
    scale: int  # k per scale

    @property
    def sparse(self) -> bool:
        """A holds two of four elements."""
        return self.family in ("smfmac", "swmmac")


_NAME = re.compile(
    r"v_(?P<fam>mfma|smfmac|wmma|swmmac)_(?P<scale>scale16_|scale_)?(?P<d>f64|f32|f16|bf16f32|bf16|i32)_"
    r"(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?:(?P<blocks>\d+)b_)?(?P<types>\w+)$"
)


def parse(name: str) -> Shape:
    """Shape and types out of a mnemonic."""
    g = _NAME.match(name)
    assert g, name
    types = g["types"].split("_")
    a, b = types[0], types[-1]
    c, d = ("f32", "bf16") if g["d"] == "bf16f32" else (g["d"], g["d"])
    scale = {"scale_": 32, "scale16_": 16, None: 0}[g["scale"]]
    m, n, k, blocks = (int(g[x] or 1) for x in ("m", "n", "k", "blocks"))
    return Shape(name, g["fam"], m, n, k, blocks, a, b, c, d, scale)


# (dim, K, blocks, bits) -> lane and slot of row i, step k, block b on gfx9.
GFX9_OPERANDS = {
    (32, 8, 1, 16): lambda i, k, b: (i + 32 * (k // 4), k % 4),
    (16, 16, 1, 16): lambda i, k, b: (i + 16 * (k // 4), k % 4),
    (32, 16, 1, 16): lambda i, k, b: (i + 32 * (k // 8), k % 8),
    (16, 32, 1, 16): lambda i, k, b: (i + 16 * (k // 8), k % 8),
    (16, 32, 1, 8): lambda i, k, b: (i + 16 * (k // 8), k % 8),
    (32, 16, 1, 8): lambda i, k, b: (i + 32 * (k // 8), k % 8),
    (16, 64, 1, 8): lambda i, k, b: (i + 16 * (k // 16), k % 16),
    (32, 32, 1, 8): lambda i, k, b: (i + 32 * (k // 16), k % 16),
    (32, 2, 1, 32): lambda i, k, b: (i + 32 * k, 0),
    (16, 4, 1, 32): lambda i, k, b: (i + 16 * k, 0),
    (32, 4, 1, 32): lambda i, k, b: (i + 32 * (k // 2), k % 2),
    (16, 8, 1, 32): lambda i, k, b: (i + 16 * (k // 2), k % 2),
    (32, 1, 2, 32): lambda i, k, b: (i + 32 * b, 0),
    (16, 1, 4, 32): lambda i, k, b: (i + 16 * b, 0),
    (4, 1, 16, 32): lambda i, k, b: (i + 4 * b, 0),
    (32, 4, 2, 16): lambda i, k, b: (i + 32 * b, k),
    (16, 4, 4, 16): lambda i, k, b: (i + 16 * b, k),
    (4, 4, 16, 16): lambda i, k, b: (i + 4 * b, k),
    (32, 4, 2, 8): lambda i, k, b: (i + 32 * b, k),
    (16, 4, 4, 8): lambda i, k, b: (i + 16 * b, k),
    (4, 4, 16, 8): lambda i, k, b: (i + 4 * b, k),
    (32, 2, 2, 16): lambda i, k, b: (i + 32 * b, k),
    (16, 2, 4, 16): lambda i, k, b: (i + 16 * b, k),
    (4, 2, 16, 16): lambda i, k, b: (i + 4 * b, k),
    (32, 4, 1, 16): lambda i, k, b: (i + 32 * (k // 2), k % 2),
    (16, 8, 1, 16): lambda i, k, b: (i + 16 * (k // 2), k % 2),
    (32, 8, 1, 8): lambda i, k, b: (i + 32 * (k // 4), k % 4),
    (16, 16, 1, 8): lambda i, k, b: (i + 16 * (k // 4), k % 4),
    (16, 4, 1, 64): lambda i, k, b: (i + 16 * k, 0),
    (4, 4, 4, 64): lambda i, k, b: (i + 4 * b + 16 * k, 0),
}


def operand_place(arch: str, s: Shape, side: str, fmt: str, i: int, k: int, b: int, wave: int) -> tuple[int, int]:
    """(lane, slot) of A[i, k] (or B[k, i]); for sparse A, k counts the kept elements."""
    bits, steps = BITS[fmt], s.k
    if side == "a" and s.sparse:
        steps //= 2
    if arch.startswith("gfx11"):  # in every 16 lanes
        return i, k
    if arch.startswith("gfx9"):
        dim = s.m
        if s.family == "mfma" and fmt in ("fp8", "bf8") and s.k * dim == 2048:  # f8f6f4 shapes
            return i + dim * (k // 16 % (64 // dim)), 16 * (k // (16 * (64 // dim))) + k % 16
        if bits < 8:
            return i + dim * (k // 32), k % 32
        if s.sparse:
            per = steps * dim // 64
            return i + dim * (k // per), k % per
        return GFX9_OPERANDS[dim, s.k, s.blocks, bits](i, k, b)
    if arch.startswith("gfx120"):
        groups = wave // 16
        per = steps // groups
        return i + 16 * (k // per), k % per
    # gfx1250: chunks alternate between the halves. Sparse operands only need the same half in A and B.
    chunk = {32: 2, 16: 8, 8: 16, 6: 32, 4: 32}[bits]
    if s.sparse:
        chunk = steps // 2
    slot = chunk * (k // (2 * chunk)) + k % chunk
    if s.m == 32 and side == "a":
        return i % 16 + 16 * (k // chunk % 2), slot + 64 * (i // 16)
    return i + 16 * (k // chunk % 2), slot


def result_place(arch: str, s: Shape, i: int, j: int, b: int, wave: int, half: int = 0) -> tuple[int, int]:
    """(lane, slot) of D[i, j] of block b; slots count elements of the result type. half: which one on gfx11."""
    if arch.startswith("gfx11"):
        groups, fit = wave // 16, 32 // BITS[s.d]
        return 16 * (i % groups) + j, i // groups * fit + half
    if arch.startswith("gfx9"):
        if s.d == "f64":
            return (16 * (i % 4) + j, i // 4) if s.m == 16 else (16 * i + 4 * b + j, 0)
        if s.m == 32:
            return 32 * (i // 4 % 2) + j, 16 * b + 4 * (i // 8) + i % 4
        if s.m == 16:
            return 16 * (i // 4) + j, 4 * b + i % 4
        return 4 * b + j, i
    if wave == 64:
        return 32 * (i // 4 % 2) + 16 * (i // 8) + j, i % 4
    return 16 * (i // 8 % 2) + j, 8 * (i // 16) + i % 8


def pack(places: dict[tuple[int, int], int], bits: int, regs: int) -> np.ndarray:
    """Register rows (regs, 64) from codes at (lane, slot)."""
    rows = np.zeros((regs, 64), np.uint64)
    for (lane, slot), code in places.items():
        bit = slot * bits
        if bits == 64:
            rows[2 * slot, lane] |= np.uint64(code & 0xFFFFFFFF)
            rows[2 * slot + 1, lane] |= np.uint64(code >> 32)
            continue
        value = int(code) << (bit % 32)
        rows[bit // 32, lane] |= np.uint64(value & 0xFFFFFFFF)
        if value >> 32:
            rows[bit // 32 + 1, lane] |= np.uint64(value >> 32)
    return rows.astype(np.uint32)


def unpack(rows: np.ndarray, lane: int, slot: int, bits: int) -> int:
    """The code at (lane, slot)."""
    if bits == 64:
        return int(rows[2 * slot, lane]) | int(rows[2 * slot + 1, lane]) << 32
    bit = slot * bits
    return int(rows[bit // 32, lane]) >> (bit % 32) & ((1 << bits) - 1)


def registers(arch: str, s: Shape, side: str, fmt: str, wave: int) -> int:
    """Registers of an operand."""
    if arch.startswith("gfx11"):
        return s.m * s.n // wave if side == "c" else s.k * BITS[fmt] // 32
    count = {"a": s.m * s.k // (2 if s.sparse else 1), "b": s.n * s.k, "c": s.m * s.n}[side] * s.blocks // wave
    return (count * BITS[fmt] + 31) // 32
