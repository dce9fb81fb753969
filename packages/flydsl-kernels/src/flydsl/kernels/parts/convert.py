"""Conversions to and from the narrow types of quantised tensors: f32 vectors to int8 and fp8; packed 4-bit and
microscaled values, which are words of eight int4 or fp4, or four fp8 bytes, in the formats of the OCP microscaling
specification; and weights of 4 bits as the 16-bit floats that matrix instructions take.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..target import Target, target
from .runs import runs_of

__all__ = ["INT4_MAX", "INT8_MAX", "PER_WORD", "ROUNDINGS", "bytes_of", "conversion_cost", "dequantised", "e8m0_value",
           "fp4_table", "fp4_to_bf16", "fp4_to_half", "high_halves", "int4_chunk", "int4_to_bf16", "microscale",
           "pack_fp4", "pack_int4", "pack_micro", "quantised_max", "round_bf16_stochastic", "scale_of", "to_quantised",
           "unpack"]

INT8_MAX, INT4_MAX = 127.0, 7.0
SMALLEST_SCALE = 2.0**-126  # below it the reciprocal overflows
ROUNDINGS = ("nearest", "trunc")


def quantised_max(name: str, arch: str | Target | None = None) -> float:
    """Largest magnitude that quantisation maps to: 127 for ``"i8"``, 7 for ``"i4"``, 448 or 240 for ``"fp8"``."""
    return {"i8": INT8_MAX, "i4": INT4_MAX}.get(name) or target(arch).fp8_max


def scale_of(top: Any, name: str, target: Target) -> Any:
    """The scale of values whose largest magnitude is `top`: ``top / Qmax``, and 1 where all are zero.

    Not below 2**-126, where its reciprocal would overflow. NaN and infinity stay: such values dequantise to NaN.
    """
    scale = top / quantised_max(name, target)
    scale = (scale < SMALLEST_SCALE).select(SMALLEST_SCALE, scale)
    return (top == 0.0).select(1.0, scale)


def _clamp(x: Any, limit: float) -> Any:
    high = fx.full_like(x, limit)
    return fx.minimumf(fx.maximumf(x, -high), high)


def to_quantised(x: Any, name: str, rounding: str, target: Target) -> Any:
    """Vector of ``"i8"`` or ``"i4"`` in bytes (rounded as told) or of the native ``"fp8"`` (nearest even), from scaled
    f32 values.

    Values beyond the range saturate. NaN stays NaN in fp8 and becomes 0 in the integer types.
    """
    if name == "fp8":
        return _clamp(x, target.fp8_max).to(target.fp8)
    if rounding == "nearest":
        x = fx.math.roundeven(x)
    return _clamp(x, quantised_max(name, target)).to(fx.Int8)


def round_bf16_stochastic(value: Any, bits16: Any) -> Any:
    """f32 to bf16 by adding 16 random bits below the last place and cutting off."""
    word = value.bitcast(fx.Uint32) + bits16
    return (word >> 16).to(fx.Uint16).bitcast(fx.BFloat16)


# ------------------------------------------------------------------------------------------- packed words

#: Elements of a 32-bit word.
PER_WORD = {"i4": 8, "fp4": 8, "e4m3": 4}


def bytes_of(high: Any, low: Any, selector: Any) -> Any:
    """Bytes 0-3 of `low` and 4-7 of `high`, by the numbers in the bytes of the selector."""
    return fx.Int32(fx.rocdl.perm_b32(fx.Int32(high), fx.Int32(low), fx.Int32(selector)))


def high_halves(words: Any) -> Any:
    """The upper 16 bits of an even number of words, two in a word."""
    pairs = [bytes_of(words[i + 1], words[i], 0x07060302) for i in range(0, words.numel, 2)]
    return fx.Vector.from_elements(pairs, fx.Int32)


def pack_int4(values: list[Any]) -> Any:
    """The word of eight signed integers -8..7: byte j holds value j (low half) and value j + 4 (high half)."""
    word = fx.Int32(0)
    for j in range(4):
        byte = (values[j].to(fx.Int32) & 0xF) | ((values[j + 4].to(fx.Int32) & 0xF) << 4)
        word = word | (byte << (8 * j))
    return word


def int4_chunk(pair: Any) -> Any:
    """Two words of :func:`pack_int4` as a chunk of sixteen int8, each 16 times its value: a nibble in the high half of
    a byte needs no sign extension. Sums of products are exact, and divided with the scale of the row."""
    high = 0xF0F0F0F0 - (1 << 32)  # halves of four bytes
    words = [half for i in range(2) for half in ((pair[i] << 4) & high, pair[i] & high)]
    return fx.Vector.from_elements(words, fx.Int32)


def pack_fp4(values: list[Any]) -> Any:
    """The word of eight f32 as e2m1, rounded to the nearest (ties to even codes), saturating at 6."""
    return fx.Vector.from_elements(values, fx.Float32).to(fx.Float4E2M1FN).bitcast(fx.Int32)[0]


_LARGEST_INVERSE = {"fp4": 0x3E2AAAAB, "fp8": 0x3B124925}  # bits of 1/6 and 1/448
_SMALLEST = 1e-10


def microscale(top: Any, kind: str) -> tuple[Any, Any]:
    """(e8m0 byte, what values are multiplied by) of values up to `top`, an f32 as integer bits: the power of two that
    is not below it divided by the largest number of ``"fp4"`` or ``"fp8"``; 255, the format's NaN, if that is not
    finite."""
    inverse = fx.Int32(_LARGEST_INVERSE[kind]).bitcast(fx.Float32)
    top = fx.max(top, fx.Float32(_SMALLEST).bitcast(fx.Int32))
    bits = (top.bitcast(fx.Float32) * inverse).bitcast(fx.Int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0).select(fx.Int32(1), fx.Int32(0))
    exponent = fx.min(exponent, fx.Int32(255))
    return exponent, ((fx.Int32(254) - exponent) << 23).bitcast(fx.Float32)


def pack_micro(values: list[Any], kind: str, exponent: Any, factor: Any, target: Target) -> list[Any]:
    """Words of f32 values in the scale of :func:`microscale`: eight of ``"fp4"``, four of the native ``"fp8"``."""
    if kind == "fp8" or not target.converts_fp4:
        scaled = fx.Vector.from_elements([value * factor for value in values], fx.Float32)
        return list(scaled.to(target.fp8 if kind == "fp8" else fx.Float4E2M1FN).bitcast(fx.Int32))
    scale, words = (exponent << 23).bitcast(fx.Float32), []
    for i in range(0, len(values), 8):
        word = fx.Int32(0)
        for j in range(4):
            low, high = (values[i + 2 * j + k].ir_value() for k in range(2))
            word = fx.Int32(fx.rocdl.cvt_scalef32_pk_fp4_f32(fx.T.i32, word.ir_value(), low, high, scale.ir_value(), j))
        words.append(word)
    return words


_FLOATS = {"fp4": fx.Float4E2M1FN, "e4m3": fx.Float8E4M3FN}


def unpack(words: Any, kind: str) -> Any:
    """f32 vector of the elements of a vector of words: ``"i4"``, ``"fp4"`` (e2m1) or ``"e4m3"`` (OCP)."""
    if kind in _FLOATS:
        return words.bitcast(_FLOATS[kind]).to(fx.Float32)
    shifts = [28 - 8 * (i % 4) - 4 * (i // 4) for i in range(PER_WORD[kind])]
    return fx.Vector.from_elements([((word << shift) >> 28).to(fx.Float32) for word in words for shift in shifts],
                                   fx.Float32)


def e8m0_value(byte: Any) -> Any:
    """``2**(b - 127)`` of a scale byte (i32, 0..255); 255 is NaN."""
    return byte.to(fx.Int8).bitcast(fx.Float8E8M0FNU).to(fx.Float32)


# ------------------------------------------------------------------------------------------- 16-bit floats

_MAGNITUDES = (0x3F000000, 0x3FC03F80, 0x40404000, 0x40C04080)  # bf16 of 0, 0.5, 1, 1.5, 2, 3, 4, 6, in pairs


def fp4_table(scale: Any) -> list[Any]:
    """For :func:`fp4_to_bf16`, the bf16 of the eight magnitudes of e2m1 times a scale byte: high bytes, low bytes.

    What is beyond bf16 is NaN, as with a scale of NaN; scales below 2**-125 count as that.
    """
    shift = fx.max(scale, 2) - 127
    addend = fx.full(2, (shift << 7).to(fx.Int16), fx.Int16)
    pairs = [(fx.Vector.from_elements([fx.Int32(pair)], fx.Int32).bitcast(fx.Int16) + addend).bitcast(fx.Int32)[0]
             for pair in _MAGNITUDES]
    pairs[0] = pairs[0] & -0x10000  # zero has no exponent
    pairs = [(scale > 252).select(0x7FC07FC0, pair) for pair in pairs]
    return [bytes_of(pairs[i + 1], pairs[i], selector) for selector in (0x07050301, 0x06040200) for i in (0, 2)]


def fp4_to_bf16(word: Any, table: list[Any]) -> Any:
    """Four words of bf16 of the eight e2m1 of a word, by byte permutations: times the scale of the table."""
    halves = []
    for codes, sign in ((word, word << 4), (word >> 4, word)):  # of even and of odd numbers
        selector = codes & 0x07070707
        high = bytes_of(table[1], table[0], selector) | (sign & -0x7F7F7F80)
        low = bytes_of(table[3], table[2], selector)
        halves.append([bytes_of(high, low, pair) for pair in (0x05010400, 0x07030602)])
    even, odd = halves
    words = [bytes_of(odd[i], even[i], pair) for i in (0, 1) for pair in (0x05040100, 0x07060302)]
    return fx.Vector.from_elements(words, fx.Int32)


def fp4_to_half(word: Any, scale: Any, dtype: str, target: Target) -> Any:
    """Four words of ``"bf16"`` or ``"f16"`` of the eight e2m1 of a word, times a scale byte (i32), by the conversions
    of gfx950 (of pairs) or gfx1250 (of all eight)."""
    element = FLOATS[dtype]
    if not target.converts_fp4:
        convert = getattr(fx.rocdl, f"cvt_scale_pk8_{dtype}_fp4")
        # A lane of the upper half takes byte 1 of the lane 16 below.
        scales = scale | (fx.shuffle_xor(scale, 16, target.wave) << 8)
        return fx.Vector(convert(fx.T.vec(8, element.ir_type), word, scales, 0), (8,), element).bitcast(fx.Int32)
    convert = getattr(fx.rocdl, f"cvt_scalef32_pk_{dtype}_fp4")
    factor = (scale << 23).bitcast(fx.Float32)
    pairs = [fx.Vector(convert(fx.T.vec(2, element.ir_type), word, factor, j), (2,), element) for j in range(4)]
    return fx.Vector.from_elements([pair.bitcast(fx.Int32)[0] for pair in pairs], fx.Int32)


def _words_of(values: Any, dtype: str, target: Target) -> Any:
    """Words of an even number of f32 as 16-bit floats, to nearest even: word by word, since a vector of these that a
    loop carries would be taken apart into single elements. NaN must be the usual one."""
    if dtype == "bf16" and not target.mx:  # there is no instruction for it
        bits = values.bitcast(fx.Int32)
        return high_halves(bits + (((bits >> 16) & 1) + 0x7FFF))
    pairs = [pair.to(FLOATS[dtype]) for pair in runs_of(values, 2)]
    return fx.Vector.from_elements([pair.bitcast(fx.Int32)[0] for pair in pairs], fx.Int32)


#: Bytes 0..15 as e4m3 are so many times their value, with the bias of OCP and the other one.
_CODE_STEPS = {"Float8E4M3FN": 2.0**9, "Float8E4M3FNUZ": 2.0**10}


def _raised_bytes(word: Any, raised: bool) -> tuple[Any, Any]:
    """The int4 of a word, 8 more than their value, as bytes: of the low and of the high half of each byte."""
    flip = 0 if raised else 0x08080808
    return (word & 0x0F0F0F0F) ^ flip, ((word >> 4) & 0x0F0F0F0F) ^ flip


def int4_to_bf16(word: Any, scale: Any, raised: bool = False) -> Any:
    """Four words of bf16 of the eight int4 of a word (see :func:`_scaled_int4`) times a scale of bf16, by instructions
    of gfx1250: rounded once, since 8 times a scale is exact."""
    low, high = _raised_bytes(word, raised)
    if raised:
        low, high = bytes_of(high, low, 0x05010400), bytes_of(high, low, 0x07030602)
    values = fx.rocdl.cvt_scale_pk8_bf16_fp8(
        fx.T.vec(8, fx.BFloat16.ir_type), fx.Vector.from_elements([low, high], fx.Int32), fx.Int32(127 + 9), 0)
    addend = (scale.to(fx.Float32) * -8.0).to(fx.BFloat16)
    factors, addends = (fx.full(8, value, fx.BFloat16) for value in (scale, addend))
    return fx.math.fma(fx.Vector(values, (8,), fx.BFloat16), factors, addends).bitcast(fx.Int32)


def _scaled_int4(word: Any, scale: Any, raised: bool, fp8: str | None) -> Any:
    """f32 vector of the eight int4 of a word times a scale: bytes of value + 8 are converted in one instruction each,
    and what is too much is subtracted where it is multiplied. Byte j of the word holds values j and j + 4; if it is of
    `raised` values, what it holds is that sum already, and of values 2 j and 2 j + 1.

    Args:
        fp8: name of the e4m3 of which the architecture converts two in an instruction, where codes up to 15 are steps.
    """
    halves = []
    for nibbles in _raised_bytes(word, raised):
        if fp8 is None:
            halves.append([((nibbles >> (8 * i)) & 0xFF).to(fx.Uint32).to(fx.Float32) for i in range(4)])
            continue
        pairs = [fx.Vector(fx.rocdl.cvt_pk_f32_fp8(fx.T.f32x2, nibbles, bool(i)), (2,), fx.Float32) for i in (0, 1)]
        halves.append([pair[i] for pair in pairs for i in (0, 1)])
    low, high = halves
    values = [v for pair in zip(low, high, strict=True) for v in pair] if raised else low + high
    factor = scale if fp8 is None else scale * _CODE_STEPS[fp8]
    factors, addends = fx.full(2, factor, fx.Float32), fx.full(2, scale * -8.0, fx.Float32)
    pairs = [fx.Vector.from_elements(values[i : i + 2], fx.Float32) for i in range(0, 8, 2)]
    pairs = [fx.math.fma(pair, factors, addends) for pair in pairs]
    return fx.Vector.from_elements([pair[i] for pair in pairs for i in (0, 1)], fx.Float32)


def dequantised(word: Any, kind: str, scale: Any, stored: str, dtype: str, target: Target) -> Any:
    """Four words of ``"f16"`` or ``"bf16"``: the eight weights of a word times the scale of their group.

    Args:
        kind: of the weights: ``"fp4"``, whose scales are ``"e8m0"``; ``"i4"`` or ``"u4"`` (8 more than their value).
        stored: the type of a scale.
    """
    if stored == "e8m0":
        byte = scale.to(fx.Int32) & 0xFF
        if target.mx:
            return fp4_to_half(word, byte, dtype, target)
        if dtype == "bf16":
            return fp4_to_bf16(word, fp4_table(byte))
        values = unpack(fx.Vector.from_elements([word], fx.Int32), "fp4") * e8m0_value(byte)
        return _words_of(values, dtype, target)
    raised = kind == "u4"
    if target.tensor_moves and dtype == stored == "bf16":
        return int4_to_bf16(word, scale, raised)
    values = _scaled_int4(word, scale.to(fx.Float32), raised, target.fp8_name if target.matrix == "mfma" else None)
    return _words_of(values, dtype, target)


def conversion_cost(kind: str, target: Target) -> int:
    """Vector instructions of :func:`dequantised`, about, on architectures whose order of the loop has places for
    them."""
    if kind == "fp4":
        return 4 if target.converts_fp4 else 21
    return 15 if target.mx else 30
