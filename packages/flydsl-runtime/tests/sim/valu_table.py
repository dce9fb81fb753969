"""What vector instructions compute, as plain Python functions of one lane's operands.

An `Op` names the instruction on each architecture (first spelling that the assembler accepts), the types of
the result and the operands, and a function of decoded values. Integer functions return the unbounded result:
wrapping it, or saturating it when the clamp bit is set, is the harness's work. Floating results are rounded
once by the harness.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from number_formats import INTS, Number, decode, encode


@dataclass(frozen=True)
class Op:
    """One instruction: `names` in order of preference, types, and the value of the result."""

    names: tuple[str, ...]
    dst: str
    src: tuple[str, ...]
    value: Callable[..., Number]
    saturates: bool = False
    keeps_high: bool = False  #: a 16-bit result leaves the other half alone on gfx9 as well
    carry: str = ""  #: "in", "out", "inout": VCC is an operand or a result
    rounds: bool = True  #: a floating result that follows the usual output modifiers


OPS: list[Op] = []


def op(names: str, types: str, value: Callable[..., Number], **more) -> None:
    """Adds an instruction; `types` is "result operand operand ..."."""
    dst, *src = types.split()
    OPS.append(Op(tuple(names.split("|")), dst, tuple(src), value, **more))


def sext(v: int, bits: int) -> int:
    """The low `bits` of `v` as a signed number."""
    v &= (1 << bits) - 1
    return v - (1 << bits) if v >> (bits - 1) else v


def halves(v: int, signed: bool = False) -> tuple[int, int]:
    """The two 16-bit halves of a dword."""
    lo, hi = v & 0xFFFF, v >> 16 & 0xFFFF
    return (sext(lo, 16), sext(hi, 16)) if signed else (lo, hi)


def pair(lo: int, hi: int) -> int:
    """A dword of two halves."""
    return (lo & 0xFFFF) | (hi & 0xFFFF) << 16


def octets(v: int) -> list[int]:
    """The four bytes of a dword."""
    return [v >> k & 255 for k in (0, 8, 16, 24)]


def fma(a: float, b: float, c: float) -> Number:
    """a * b + c, exactly; zeros have IEEE's sign."""
    if math.isfinite(a) and math.isfinite(b) and math.isinf(c):
        return c  # whatever the product would overflow to
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return exact
    product = math.copysign(1.0, a) * math.copysign(1.0, b)
    return -0.0 if product < 0 and math.copysign(1.0, c) < 0 and (a == 0 or b == 0) and c == 0 else 0.0


def add(a: float, b: float) -> Number:
    """a + b, exactly."""
    return fma(a, 1.0, b)


def mul(a: float, b: float) -> Number:
    """a * b, exactly, with IEEE's zeros."""
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b
    return Fraction(a) * Fraction(b)


def less(a: float, b: float) -> bool:
    """a < b with -0 below +0."""
    return (a, math.copysign(1.0, a)) < (b, math.copysign(1.0, b))


def lowest(a: float, b: float) -> float:
    """The smaller; a NaN loses."""
    return b if math.isnan(a) else a if math.isnan(b) or less(a, b) else b


def highest(a: float, b: float) -> float:
    """The larger; a NaN loses."""
    return b if math.isnan(a) else a if math.isnan(b) or less(b, a) else b


def minimum(a: float, b: float) -> float:
    """The smaller; a NaN wins."""
    return math.nan if math.isnan(a) or math.isnan(b) else lowest(a, b)


def maximum(a: float, b: float) -> float:
    """The larger; a NaN wins."""
    return math.nan if math.isnan(a) or math.isnan(b) else highest(a, b)


def median(a: float, b: float, c: float) -> float:
    """The larger one without the first that equals the largest, where zeros are equal; the smallest of the numbers if
    there is a NaN."""
    if any(map(math.isnan, (a, b, c))):
        return lowest(lowest(a, b), c)
    left = [a, b, c]
    left.remove(max(left))
    return max(left, key=lambda x: (x, math.copysign(1.0, x)))


def whole(f: Callable[[float], int], a: float) -> float:
    """A rounding to an integral value, which keeps the sign of zero."""
    return math.copysign(float(f(a)), a) if math.isfinite(a) else a


def fract(ty: str) -> Callable[[float], Number]:
    """x - floor(x), kept below one."""
    limit = decode(encode(1.0, ty) - 1, ty)
    return lambda a: min(Fraction(a) - math.floor(a), Fraction(limit)) if math.isfinite(a) else math.nan


def to_int(a: float, lo: int, hi: int, rounding: Callable[[float], int] = math.trunc) -> int:
    """Conversion to an integer that saturates; NaN gives zero."""
    if math.isnan(a):
        return 0
    return hi if a >= hi else lo if a <= lo else max(lo, min(hi, rounding(a)))


def ldexp(a: float, n: int) -> Number:
    """a * 2**n, exactly."""
    n = max(-5000, min(5000, n))
    return Fraction(a) * Fraction(2) ** n if math.isfinite(a) and a else a


def high(v: int, bits: int = 32) -> int:
    """The part of a product above `bits`."""
    return v >> bits


def leading(v: int, w: int = 32) -> int:
    """Zeros above the highest one; -1 if there is none."""
    return w - v.bit_length() if v else -1


def perm(a: int, b: int, s: int) -> int:
    """v_perm_b32."""
    source = octets(b) + octets(a)
    out = 0
    for k, c in enumerate(octets(s)):
        if c < 8:
            v = source[c]
        elif c < 12:
            v = 255 if source[2 * (c - 8) + 1] & 0x80 else 0
        else:
            v = 0 if c == 12 else 255
        out |= v << (8 * k)
    return out


def bfe(a: int, o: int, n: int, signed: bool) -> int:
    """Bit field of `n` bits at `o`."""
    o, n = o & 31, n & 31
    field = (a >> o) & ((1 << n) - 1)  # `a` is a signed Python int for the signed form
    return 0 if n == 0 else sext(field, n) if signed else field


def each(f: Callable[..., int], signed: bool = False) -> Callable[..., int]:
    """A packed operation of halves."""
    return lambda *args: pair(*(f(*x) for x in zip(*(halves(a, signed) for a in args), strict=True)))


def sad(a: int, b: int) -> int:
    """Sum of absolute differences of bytes."""
    return sum(abs(x - y) for x, y in zip(octets(a), octets(b), strict=True))


def saturated(value: int, ty: str) -> int:
    """`value` brought into the range of the integer type `ty`."""
    bits, signed = INTS[ty]
    low = -(1 << (bits - 1)) if signed else 0
    return max(low, min(value, low + (1 << bits) - 1))


def integers() -> None:
    """Additions, multiplications, shifts, bit operations."""
    op("v_add_u32|v_add_nc_u32", "u32 u32 u32", lambda a, b: a + b, saturates=True)
    op("v_sub_u32|v_sub_nc_u32", "u32 u32 u32", lambda a, b: a - b, saturates=True)
    op("v_subrev_u32|v_subrev_nc_u32", "u32 u32 u32", lambda a, b: b - a, saturates=True)
    op("v_add_i32|v_add_nc_i32", "i32 i32 i32", lambda a, b: a + b, saturates=True)
    op("v_sub_i32|v_sub_nc_i32", "i32 i32 i32", lambda a, b: a - b, saturates=True)
    op("v_add_nc_u64", "u64 u64 u64", lambda a, b: a + b)
    op("v_sub_nc_u64", "u64 u64 u64", lambda a, b: a - b)
    op("v_mul_u64", "u64 u64 u64", lambda a, b: a * b)
    op("v_mul_lo_u32", "u32 u32 u32", lambda a, b: a * b)
    op("v_mul_hi_u32", "u32 u32 u32", lambda a, b: high(a * b))
    op("v_mul_hi_i32", "i32 i32 i32", lambda a, b: high(a * b))
    op("v_mul_u32_u24", "u32 u24 u24", lambda a, b: a * b)
    op("v_mul_i32_i24", "i32 i24 i24", lambda a, b: a * b)
    op("v_mul_hi_u32_u24", "u32 u24 u24", lambda a, b: high(a * b))
    op("v_mul_hi_i32_i24", "i32 i24 i24", lambda a, b: high(a * b))
    op("v_mad_u32_u24", "u32 u24 u24 u32", lambda a, b, c: a * b + c, saturates=True)
    op("v_mad_i32_i24", "i32 i24 i24 i32", lambda a, b, c: a * b + c, saturates=True)
    op("v_mad_u32", "u32 u32 u32 u32", lambda a, b, c: a * b + c)
    op("v_mad_u32_u16", "u32 u16 u16 u32", lambda a, b, c: a * b + c, saturates=True)
    op("v_mad_i32_i16", "i32 i16 i16 i32", lambda a, b, c: a * b + c, saturates=True)
    op("v_lshl_add_u64", "u64 u64 u32 u64", lambda a, b, c: (a << (b & 7)) + c)
    op("v_mad_nc_u64_u32", "u64 u32 u32 u64", lambda a, b, c: a * b + c)
    op("v_mad_nc_i64_i32", "i64 i32 i32 i64", lambda a, b, c: a * b + c)
    op("v_mad_u64_u32|v_mad_co_u64_u32", "u64 u32 u32 u64", lambda a, b, c: a * b + c, carry="out")
    op("v_add_co_u32", "u32 u32 u32", lambda a, b: a + b, carry="out")
    op("v_sub_co_u32", "u32 u32 u32", lambda a, b: a - b, carry="out")
    op("v_subrev_co_u32", "u32 u32 u32", lambda a, b: b - a, carry="out")
    op("v_addc_co_u32|v_add_co_ci_u32", "u32 u32 u32", lambda a, b, c: a + b + c, carry="inout")
    op("v_subb_co_u32|v_sub_co_ci_u32", "u32 u32 u32", lambda a, b, c: a - b - c, carry="inout")
    op("v_subbrev_co_u32|v_subrev_co_ci_u32", "u32 u32 u32", lambda a, b, c: b - a - c, carry="inout")
    op("v_cndmask_b32", "u32 u32 u32", lambda a, b, c: b if c else a, carry="in")
    op("v_mov_b32", "u32 u32", lambda a: a)
    op("v_mov_b64", "u64 u64", lambda a: a)
    op("v_not_b32", "u32 u32", lambda a: ~a)
    op("v_and_b32", "u32 u32 u32", lambda a, b: a & b)
    op("v_or_b32", "u32 u32 u32", lambda a, b: a | b)
    op("v_xor_b32", "u32 u32 u32", lambda a, b: a ^ b)
    op("v_xnor_b32", "u32 u32 u32", lambda a, b: ~(a ^ b))
    op("v_and_or_b32", "u32 u32 u32 u32", lambda a, b, c: a & b | c)
    op("v_or3_b32", "u32 u32 u32 u32", lambda a, b, c: a | b | c)
    op("v_xor3_b32", "u32 u32 u32 u32", lambda a, b, c: a ^ b ^ c)
    op("v_xad_u32", "u32 u32 u32 u32", lambda a, b, c: (a ^ b) + c)
    op("v_bfi_b32", "u32 u32 u32 u32", lambda a, b, c: a & b | ~a & c)
    op("v_bfm_b32", "u32 u32 u32", lambda a, b: ((1 << (a & 31)) - 1) << (b & 31))
    op("v_bfe_u32", "u32 u32 u32 u32", lambda a, o, n: bfe(a, o, n, False))
    op("v_bfe_i32", "i32 i32 u32 u32", lambda a, o, n: bfe(a, o, n, True))
    op("v_bfrev_b32", "u32 u32", lambda a: int(f"{a:032b}"[::-1], 2))
    op("v_bcnt_u32_b32", "u32 u32 u32", lambda a, b: a.bit_count() + b)
    op("v_ffbh_u32|v_clz_i32_u32", "i32 u32", leading)
    op("v_ffbl_b32|v_ctz_i32_b32", "i32 u32", lambda a: (a & -a).bit_length() - 1)
    op("v_ffbh_i32|v_cls_i32", "i32 i32", lambda a: leading(a if a >= 0 else ~a))
    op("v_lshlrev_b32", "u32 u32 u32", lambda a, b: b << (a & 31))
    op("v_lshrrev_b32", "u32 u32 u32", lambda a, b: b >> (a & 31))
    op("v_ashrrev_i32", "i32 u32 i32", lambda a, b: b >> (a & 31))
    op("v_lshlrev_b64", "u64 u32 u64", lambda a, b: b << (a & 63))
    op("v_lshrrev_b64", "u64 u32 u64", lambda a, b: b >> (a & 63))
    op("v_ashrrev_i64", "i64 u32 i64", lambda a, b: b >> (a & 63))
    op("v_lshl_add_u32", "u32 u32 u32 u32", lambda a, b, c: (a << (b & 31)) + c)
    op("v_add_lshl_u32", "u32 u32 u32 u32", lambda a, b, c: (a + b) << (c & 31))
    op("v_lshl_or_b32", "u32 u32 u32 u32", lambda a, b, c: (a << (b & 31)) | c)
    op("v_add3_u32", "u32 u32 u32 u32", lambda a, b, c: a + b + c)
    op("v_alignbit_b32", "u32 u32 u32 u32", lambda a, b, c: (a << 32 | b) >> (c & 31))
    op("v_alignbyte_b32", "u32 u32 u32 u32", lambda a, b, c: (a << 32 | b) >> (8 * (c & 3)))
    op("v_perm_b32", "u32 u32 u32 u32", perm)
    op("v_sad_u8", "u32 u32 u32 u32", lambda a, b, c: sad(a, b) + c)
    op("v_sad_hi_u8", "u32 u32 u32 u32", lambda a, b, c: (sad(a, b) << 16) + c)
    op("v_sad_u16", "u32 u32 u32 u32",
       lambda a, b, c: sum(abs(x - y) for x, y in zip(halves(a), halves(b), strict=True)) + c)
    op("v_sad_u32", "u32 u32 u32 u32", lambda a, b, c: abs(a - b) + c)
    # The sum saturates without a clamp bit: LLVM makes these of saturating additions and of no others.
    for t in ("u32", "i32"):
        for name, pick in (("min", min), ("max", max)):
            op(f"v_add_{name}_{t}", f"{t} {t} {t} {t}",
               lambda a, b, c, t=t, pick=pick: pick(saturated(a + b, t), c))
    for t in ("u32", "i32", "u16", "i16", "u64", "i64"):
        op(f"v_min_{t}", f"{t} {t} {t}", min)
        op(f"v_max_{t}", f"{t} {t} {t}", max)
        op(f"v_min3_{t}", f"{t} {t} {t} {t}", min)
        op(f"v_max3_{t}", f"{t} {t} {t} {t}", max)
        op(f"v_med3_{t}", f"{t} {t} {t} {t}", lambda *v: sorted(v)[1])
        op(f"v_maxmin_{t}", f"{t} {t} {t} {t}", lambda a, b, c: min(max(a, b), c))
        op(f"v_minmax_{t}", f"{t} {t} {t} {t}", lambda a, b, c: max(min(a, b), c))


def short_integers() -> None:
    """16-bit integers, alone and packed."""
    for t, s in (("u16", False), ("i16", True)):
        op(f"v_add_{t}|v_add_nc_{t}", f"{t} {t} {t}", lambda a, b: a + b, saturates=True)
        op(f"v_sub_{t}|v_sub_nc_{t}", f"{t} {t} {t}", lambda a, b: a - b, saturates=True)
        op(f"v_mad_{t}", f"{t} {t} {t} {t}", lambda a, b, c: a * b + c, saturates=True, keeps_high=True)
        op(f"v_mad_legacy_{t}", f"{t} {t} {t} {t}", lambda a, b, c: a * b + c, saturates=True)
        op(f"v_pk_add_{t}", "u32 u32 u32", each(lambda a, b: a + b, s))
        op(f"v_pk_sub_{t}", "u32 u32 u32", each(lambda a, b: a - b, s))
        op(f"v_pk_mad_{t}", "u32 u32 u32 u32", each(lambda a, b, c: a * b + c, s))
        op(f"v_pk_min_{t}", "u32 u32 u32", each(min, s))
        for name, pick in (("min", min), ("max", max)):
            op(f"v_pk_add_{name}_{t}", "u32 u32 u32 u32",
               each(lambda a, b, c, t=t, pick=pick: pick(saturated(a + b, t), c), s))
        op(f"v_pk_max_{t}", "u32 u32 u32", each(max, s))
    op("v_subrev_u16", "u16 u16 u16", lambda a, b: b - a, saturates=True)
    op("v_mul_lo_u16", "u16 u16 u16", lambda a, b: a * b)
    op("v_lshlrev_b16", "u16 u16 u16", lambda a, b: b << (a & 15))
    op("v_lshrrev_b16", "u16 u16 u16", lambda a, b: b >> (a & 15))
    op("v_ashrrev_i16", "i16 u16 i16", lambda a, b: b >> (a & 15))
    op("v_and_b16", "u16 u16 u16", lambda a, b: a & b)
    op("v_or_b16", "u16 u16 u16", lambda a, b: a | b)
    op("v_xor_b16", "u16 u16 u16", lambda a, b: a ^ b)
    op("v_not_b16", "u16 u16", lambda a: ~a)
    op("v_pack_b32_f16", "u32 u16 u16", pair, rounds=False)
    op("v_pk_mul_lo_u16", "u32 u32 u32", each(lambda a, b: a * b))
    op("v_pk_lshlrev_b16", "u32 u32 u32", each(lambda a, b: b << (a & 15)))
    op("v_pk_lshrrev_b16", "u32 u32 u32", each(lambda a, b: b >> (a & 15)))
    op("v_pk_ashrrev_i16", "u32 u32 u32", each(lambda a, b: b >> (a & 15), True))
    for signed, name in ((False, "u"), (True, "i")):
        t, n = ("i32", "i") if signed else ("u32", "u")
        b8 = lambda v, s=signed: [sext(x, 8) if s else x for x in octets(v & 0xFFFFFFFF)]  # noqa: E731
        dot4 = lambda a, b, c, f=b8: sum(x * y for x, y in zip(f(a), f(b), strict=True)) + c  # noqa: E731
        op(f"v_dot4_{n}32_{name}8", f"{t} {t} {t} {t}", dot4, saturates=True)
        b4 = lambda v, s=signed: [sext(v >> k, 4) if s else v >> k & 15 for k in range(0, 32, 4)]  # noqa: E731
        dot8 = lambda a, b, c, f=b4: sum(x * y for x, y in zip(f(a), f(b), strict=True)) + c  # noqa: E731
        op(f"v_dot8_{n}32_{name}4", f"{t} {t} {t} {t}", dot8, saturates=True)


def floats() -> None:
    """Arithmetic, minima and roundings of every floating type."""
    for t in ("f16", "f32", "f64"):
        op(f"v_add_{t}", f"{t} {t} {t}", add)
        op(f"v_mul_{t}", f"{t} {t} {t}", mul)
        op(f"v_fma_{t}", f"{t} {t} {t} {t}", fma, keeps_high=True)
        op(f"v_min_{t}|v_min_num_{t}", f"{t} {t} {t}", lowest)
        op(f"v_max_{t}|v_max_num_{t}", f"{t} {t} {t}", highest)
        op(f"v_minimum_{t}", f"{t} {t} {t}", minimum)
        op(f"v_maximum_{t}", f"{t} {t} {t}", maximum)
        op(f"v_floor_{t}", f"{t} {t}", lambda a: whole(math.floor, a))
        op(f"v_ceil_{t}", f"{t} {t}", lambda a: whole(math.ceil, a))
        op(f"v_trunc_{t}", f"{t} {t}", lambda a: whole(math.trunc, a))
        op(f"v_rndne_{t}", f"{t} {t}", lambda a: whole(round, a))
        op(f"v_fract_{t}", f"{t} {t}", fract(t))
        op(f"v_frexp_mant_{t}", f"{t} {t}", lambda a: math.frexp(a)[0] if math.isfinite(a) else a)
        e = "i16" if t == "f16" else "i32"
        op(f"v_frexp_exp_{e}_{t}", f"{e} {t}", lambda a: math.frexp(a)[1] if math.isfinite(a) else 0)
        op(f"v_ldexp_{t}", f"{t} {t} {e}", ldexp)
    for t in ("f16", "f32"):
        op(f"v_sub_{t}", f"{t} {t} {t}", lambda a, b: add(a, -b))
        op(f"v_subrev_{t}", f"{t} {t} {t}", lambda a, b: add(b, -a))
        op(f"v_min3_{t}|v_min3_num_{t}", f"{t} {t} {t} {t}", lambda a, b, c: lowest(lowest(a, b), c))
        op(f"v_max3_{t}|v_max3_num_{t}", f"{t} {t} {t} {t}", lambda a, b, c: highest(highest(a, b), c))
        op(f"v_med3_{t}|v_med3_num_{t}", f"{t} {t} {t} {t}", median)
        op(f"v_minimum3_{t}", f"{t} {t} {t} {t}", lambda a, b, c: minimum(minimum(a, b), c))
        op(f"v_maximum3_{t}", f"{t} {t} {t} {t}", lambda a, b, c: maximum(maximum(a, b), c))
        op(f"v_maxmin_num_{t}", f"{t} {t} {t} {t}", lambda a, b, c: lowest(highest(a, b), c))
        op(f"v_minmax_num_{t}", f"{t} {t} {t} {t}", lambda a, b, c: highest(lowest(a, b), c))
        op(f"v_maximumminimum_{t}", f"{t} {t} {t} {t}", lambda a, b, c: minimum(maximum(a, b), c))
        op(f"v_minimummaximum_{t}", f"{t} {t} {t} {t}", lambda a, b, c: maximum(minimum(a, b), c))


def conversions() -> None:
    """Conversions between integers and floats of full width."""
    for t, (lo, hi) in {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1)}.items():
        for f in ("f32", "f64"):
            op(f"v_cvt_{f}_{t}", f"{f} {t}", float)
            op(f"v_cvt_{t}_{f}", f"{t} {f}", lambda a, lo=lo, hi=hi: to_int(a, lo, hi), rounds=False)
    for t, (lo, hi) in {"i16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1)}.items():
        op(f"v_cvt_f16_{t}", f"f16 {t}", float)
        op(f"v_cvt_{t}_f16", f"{t} f16", lambda a, lo=lo, hi=hi: to_int(a, lo, hi), rounds=False)
    for k in range(4):
        op(f"v_cvt_f32_ubyte{k}", "f32 u32", lambda a, k=k: float(a >> (8 * k) & 255))
    for a, b in (("f16", "f32"), ("f32", "f16"), ("f32", "f64"), ("f64", "f32")):
        op(f"v_cvt_{a}_{b}", f"{a} {b}", lambda v: v)
    op("v_cvt_rpi_i32_f32|v_cvt_nearest_i32_f32", "i32 f32",
       lambda a: to_int(a, -(2**31), 2**31 - 1, lambda x: math.floor(Fraction(x) + Fraction(1, 2))))
    op("v_cvt_flr_i32_f32|v_cvt_floor_i32_f32", "i32 f32", lambda a: to_int(a, -(2**31), 2**31 - 1, math.floor))


integers()
short_integers()
floats()
conversions()
