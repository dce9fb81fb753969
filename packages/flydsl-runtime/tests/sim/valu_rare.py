"""Vector instructions that compilers seldom emit, added to the table of valu_table.py."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from number_formats import FLOATS, decode, encode
from valu_table import add, fma, halves, mul, octets, op, pair, sext, to_int


def clamp(v: int, low: int, high: int) -> int:
    """`v`, limited."""
    return max(low, min(high, v))


def cube(x: float, y: float, z: float) -> str:
    """The axis of the largest component; the later one wins among equals."""
    if abs(z) >= abs(x) and abs(z) >= abs(y):
        return "z"
    return "y" if abs(y) >= abs(x) else "x"


def cube_id(x: float, y: float, z: float) -> float:
    """Number of the face."""
    axis = cube(x, y, z)
    return float("xyz".index(axis) * 2 + ({"x": x, "y": y, "z": z}[axis] < 0))


def cube_s(x: float, y: float, z: float) -> float:
    """Horizontal coordinate in the face."""
    return {"z": -x if z < 0 else x, "y": x, "x": z if x < 0 else -z}[cube(x, y, z)]


def cube_t(x: float, y: float, z: float) -> float:
    """Vertical coordinate in the face."""
    return {"z": -y, "y": -z if y < 0 else z, "x": -y}[cube(x, y, z)]


def lit(x: float, y: float, z: float) -> float:
    """A product for lighting: the lowest number where `y` or `z` tell that there is no light."""
    lowest = -struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
    dark = math.isnan(y) or y <= lowest or math.isnan(z) or z <= 0
    return lowest if dark else mul(x, y)


def norm(value: float, bits: int, signed: bool) -> int:
    """A float as a normalised integer."""
    if math.isnan(value):
        return 0
    top = (1 << (bits - signed)) - 1
    limited = max(-1.0 if signed else 0.0, min(1.0, value))
    return round(Fraction(limited) * top)


def narrow(value: float, ty: str) -> int:
    """`value` in 16 bits; a NaN keeps its sign and the upper part of its payload."""
    if math.isnan(value):
        bits, m = struct.unpack("<Q", struct.pack("<d", value))[0], FLOATS[ty][1]
        return bits >> 48 & 0x8000 | encode(math.nan, ty) | bits >> (52 - m) & ((1 << m) - 1)
    return encode(value, ty)


def toward_zero(value: float) -> int:
    """An f16 that is no larger than `value`."""
    if not math.isfinite(value):
        return narrow(value, "f16")
    bits = encode(value, "f16")
    if bits & 0x7FFF == 0x7C00 or abs(decode(bits, "f16")) > abs(value):
        bits -= 1
    return bits


def masked_sad(a: int, b: int) -> int:
    """Sum of the differences of the bytes whose reference `b` is not zero."""
    return sum(abs(x - y) for x, y in zip(octets(a), octets(b), strict=True) if y)


def quad(f: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    """Four sums over windows of the eight bytes, each added to a half of the last operand."""

    def sums(a: int, b: int, c: int) -> int:
        parts = [f(a >> 8 * k & 0xFFFFFFFF, b) + (c >> 16 * k & 0xFFFF) for k in range(4)]
        return sum((p & 0xFFFF) << 16 * k for k, p in enumerate(parts))

    return sums


@cache
def two_over_pi(bits: int) -> int:
    """floor(2 / pi * 2**bits), with Machin's formula."""
    guard = bits + 64

    def arctan_inverse(n: int) -> int:
        total = term = (1 << guard) // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (2 << (guard + bits)) // pi


def trig_preop(a: float, segment: int) -> Fraction:
    """53 bits of 2 / pi for the reduction of an operand of this exponent."""
    exponent = encode(a, "f64") >> 52 & 0x7FF
    shift = (segment & 31) * 53 + max(0, exponent - 1077)
    whole = (two_over_pi(1201) << shift) >> (1201 - 53) & ((1 << 53) - 1)
    return Fraction(whole) * Fraction(2) ** (-53 - shift + (128 if exponent >= 1968 else 0))


def integers() -> None:
    """Byte sums, saturating packs, widening."""
    op("v_lerp_u8", "u32 u32 u32 u32", lambda *v: sum(
        (x + y + (z & 1) >> 1) << 8 * k for k, (x, y, z) in enumerate(zip(*map(octets, v), strict=True))))
    op("v_msad_u8", "u32 u32 u32 u32", lambda a, b, c: masked_sad(a, b) + c)
    op("v_qsad_pk_u16_u8", "u64 u64 u32 u64",
       quad(lambda a, b: sum(abs(x - y) for x, y in zip(octets(a), octets(b), strict=True))))
    op("v_mqsad_pk_u16_u8", "u64 u64 u32 u64", quad(masked_sad))
    op("v_sat_pk_u8_i16", "u16 u32", lambda a: sum(clamp(h, 0, 255) << 8 * k for k, h in enumerate(halves(a, True))))
    op("v_cvt_pk_i16_i32", "u32 i32 i32", lambda a, b: pair(*(clamp(v, -(2**15), 2**15 - 1) for v in (a, b))))
    op("v_cvt_pk_u16_u32", "u32 u32 u32", lambda a, b: pair(min(a, 0xFFFF), min(b, 0xFFFF)))
    for t, low, high in (("i8", -128, 127), ("u8", 0, 255)):
        op(f"v_ashr_pk_{t}_i32", "u16 i32 i32 u32", lambda a, b, s, low=low, high=high: sum(
            (clamp(v >> (s & 31), low, high) & 255) << 8 * k for k, v in enumerate((a, b))))
    op("v_cvt_off_f32_i4", "f32 u32", lambda a: Fraction(sext(a, 4), 16))
    op("v_mad_i64_i32|v_mad_co_i64_i32", "i64 i32 i32 i64", lambda a, b, c: a * b + c, carry="out")
    op("v_cvt_i32_i16", "i32 i16", lambda a: a)
    op("v_cvt_u32_u16", "u32 u16", lambda a: a)
    op("v_prng_b32", "u32 u32", lambda a: a << 1 ^ (197 if a >> 31 else 0))
    for t, s in (("u16", False), ("i16", True)):
        for name, f in (("max", max), ("min", min)):
            op(f"v_pk_{name}3_{t}", "u32 u32 u32 u32", lambda *v, f=f, s=s: pair(
                *(f(x) for x in zip(*(halves(a, s) for a in v), strict=True))))


def floats() -> None:
    """Cube faces, zero rules of old graphics interfaces, packing conversions."""
    op("v_cubeid_f32", "f32 f32 f32 f32", cube_id)
    op("v_cubema_f32", "f32 f32 f32 f32", lambda x, y, z: mul(2.0, {"x": x, "y": y, "z": z}[cube(x, y, z)]))
    op("v_cubesc_f32", "f32 f32 f32 f32", cube_s)
    op("v_cubetc_f32", "f32 f32 f32 f32", cube_t)
    op("v_mul_legacy_f32|v_mul_dx9_zero_f32", "f32 f32 f32", lambda a, b: 0.0 if a == 0 or b == 0 else mul(a, b))
    op("v_mullit_f32", "f32 f32 f32 f32", lit)
    op("v_fma_dx9_zero_f32", "f32 f32 f32 f32", lambda a, b, c: c if a == 0 or b == 0 else fma(a, b, c))
    op("v_mad_f16", "f16 f16 f16 f16", lambda a, b, c: add(decode(encode(mul(a, b), "f16"), "f16"), c), keeps_high=True)
    op("v_mad_legacy_f16", "f16 f16 f16 f16", lambda a, b, c: add(decode(encode(mul(a, b), "f16"), "f16"), c))
    op("v_fma_legacy_f16", "f16 f16 f16 f16", fma)
    op("v_trig_preop_f64", "f64 f64 u32", trig_preop, rounds=False)
    for t in ("f16", "f32"):
        for sign, s in (("i", True), ("u", False)):
            op(f"v_cvt_pknorm_{sign}16_{t}|v_cvt_pk_norm_{sign}16_{t}", f"u32 {t} {t}",
               lambda a, b, s=s: pair(norm(a, 16, s), norm(b, 16, s)), rounds=False)
    for sign, s in (("i", True), ("u", False)):
        op(f"v_cvt_norm_{sign}16_f16", f"{sign}16 f16", lambda a, s=s: norm(a, 16, s), rounds=False)
        low, high = (-(2**15), 2**15 - 1) if s else (0, 2**16 - 1)
        op(f"v_cvt_pk_{sign}16_f32", "u32 f32 f32",
           lambda a, b, low=low, high=high: pair(to_int(a, low, high), to_int(b, low, high)), rounds=False)
    op("v_cvt_pk_f16_f32", "u32 f32 f32", lambda a, b: narrow(a, "f16") | narrow(b, "f16") << 16, rounds=False)
    op("v_cvt_pk_bf16_f32", "u32 f32 f32", lambda a, b: narrow(a, "bf16") | narrow(b, "bf16") << 16, rounds=False)
    op("v_cvt_f32_bf16", "f32 bf16", lambda a: a)
    op("v_cvt_pkrtz_f16_f32|v_cvt_pk_rtz_f16_f32", "u32 f32 f32",
       lambda a, b: toward_zero(a) | toward_zero(b) << 16, rounds=False)


integers()
floats()
