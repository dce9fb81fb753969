"""Packed 4-bit and microscaled values: words of eight int4 or fp4, or four fp8 bytes, and f32.

Integer arithmetic only, so that every architecture reads them; the formats are those of the OCP microscaling
specification.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.expr as fx

__all__ = [
    "PER_WORD", "bf16_words", "e8m0_value", "fp4_table", "fp4_to_bf16", "pack_fp4", "pack_int4", "scaled_int4",
    "unpack",
]

#: Elements of a 32-bit word.
PER_WORD = {"i4": 8, "fp4": 8, "e4m3": 4}


def pack_int4(values: list[Any]) -> Any:
    """The word of eight signed integers -8..7: byte j holds value j (low half) and value j + 4 (high half)."""
    word = fx.Int32(0)
    for j in range(4):
        byte = (values[j].to(fx.Int32) & 0xF) | ((values[j + 4].to(fx.Int32) & 0xF) << 4)
        word = word | (byte << (8 * j))
    return word


def pack_fp4(values: list[Any]) -> Any:
    """The word of eight f32 as e2m1, rounded to the nearest (ties to even codes), saturating at 6."""
    word = fx.Int32(0)
    for i, value in enumerate(values):
        size = abs(value)
        # The codes are even steps of 0.5, 1 and 2 from 0, 2 and 4 on.
        near, middle, far = (fx.math.roundeven(size * step).to(fx.Int32) for step in (2.0, 1.0, 0.5))
        code = fx.min((size < 2.0).select(near, (size < 4.0).select(middle + 2, far + 4)), 7)
        word = word | ((code | ((value.bitcast(fx.Int32) >> 28) & 8)) << (4 * i))
    return word


def _int4(word: Any, i: int) -> Any:
    shift = 8 * (i % 4) + 4 * (i // 4)
    return ((word << (28 - shift)) >> 28).to(fx.Float32)


def _fp4(word: Any, i: int) -> Any:
    code = (word >> (4 * i)) & 0xF
    magnitude = code & 7
    # Bits of a normal e2m1 number, moved to the exponent and mantissa of f32; 0.5 is its only other value than 0.
    normal = ((magnitude << 22) + (126 << 23)).bitcast(fx.Float32)
    value = (magnitude < 2).select(magnitude.to(fx.Float32) * 0.5, normal)
    return _signed(value, (code & 8) << 28)


def _e4m3(word: Any, i: int) -> Any:
    code = (word >> (8 * i)) & 0xFF
    magnitude = code & 0x7F
    normal = ((magnitude << 20) + (120 << 23)).bitcast(fx.Float32)
    value = (magnitude < 8).select(magnitude.to(fx.Float32) * 2.0**-9, normal)
    return _signed((magnitude == 0x7F).select(math.nan, value), (code & 0x80) << 24)


def _signed(value: Any, sign: Any) -> Any:
    return (value.bitcast(fx.Int32) | sign).bitcast(fx.Float32)


_DECODERS = {"i4": _int4, "fp4": _fp4, "e4m3": _e4m3}


def unpack(words: Any, kind: str) -> Any:
    """f32 vector of the elements of a vector of words: ``"i4"``, ``"fp4"`` (e2m1) or ``"e4m3"`` (OCP)."""
    decode, count = _DECODERS[kind], PER_WORD[kind]
    values = [decode(words[w], i) for w in range(words.numel) for i in range(count)]
    return fx.Vector.from_elements(values, fx.Float32)


def e8m0_value(byte: Any) -> Any:
    """``2**(b - 127)`` of a scale byte (i32, 0..255); 255 is NaN."""
    bits = (byte == 0).select(fx.Int32(1 << 22), byte << 23)
    return (byte == 255).select(fx.Int32(0x7FC00000), bits).bitcast(fx.Float32)


_MAGNITUDES = (0x3F000000, 0x3FC03F80, 0x40404000, 0x40C04080)  # bf16 of 0, 0.5, 1, 1.5, 2, 3, 4, 6, in pairs


def _bytes_of(high: Any, low: Any, selector: Any) -> Any:
    """Bytes 0-3 of `low` and 4-7 of `high`, by the numbers in the bytes of the selector."""
    return fx.Int32(fx.rocdl.perm_b32(fx.Int32(high), fx.Int32(low), fx.Int32(selector)))


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
    return [_bytes_of(pairs[i + 1], pairs[i], selector) for selector in (0x07050301, 0x06040200) for i in (0, 2)]


def fp4_to_bf16(word: Any, table: list[Any]) -> Any:
    """Four words of bf16 of the eight e2m1 of a word, by byte permutations: times the scale of the table."""
    halves = []
    for codes, sign in ((word, word << 4), (word >> 4, word)):  # of even and of odd numbers
        selector = codes & 0x07070707
        high = _bytes_of(table[1], table[0], selector) | (sign & -0x7F7F7F80)
        low = _bytes_of(table[3], table[2], selector)
        halves.append([_bytes_of(high, low, pair) for pair in (0x05010400, 0x07030602)])
    even, odd = halves
    words = [_bytes_of(odd[i], even[i], pair) for i in (0, 1) for pair in (0x05040100, 0x07060302)]
    return fx.Vector.from_elements(words, fx.Int32)


def bf16_words(values: Any) -> Any:
    """Words of bf16 of an even number of f32, to nearest even, by integers; NaN must be the usual one."""
    bits = values.bitcast(fx.Int32)
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    words = [_bytes_of(rounded[i + 1], rounded[i], 0x07060302) for i in range(0, values.numel, 2)]
    return fx.Vector.from_elements(words, fx.Int32)


def scaled_int4(word: Any, scale: Any) -> Any:
    """f32 vector of the eight int4 of a word times a scale: bytes of value + 8 are converted in one instruction each,
    and what is too much is subtracted where it is multiplied."""
    values = []
    for nibbles in (word, word >> 4):
        raised = (nibbles & 0x0F0F0F0F) ^ 0x08080808
        values += [((raised >> (8 * i)) & 0xFF).to(fx.Uint32).to(fx.Float32) for i in range(4)]
    vector = fx.Vector.from_elements(values, fx.Float32)
    return fx.math.fma(vector, fx.full_like(vector, scale), fx.full_like(vector, scale * -8.0))
