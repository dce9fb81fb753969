"""Weights of 4 bits, and activations, as the 16-bit floats that matrix instructions take: words of two of these."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import FLOATS

__all__ = ["bf16_words", "fp4_table", "fp4_to_bf16", "fp4_to_half", "scaled_int4", "words_of"]


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


def fp4_to_half(word: Any, scale: Any, dtype: str) -> Any:
    """Four words of ``"bf16"`` or ``"f16"`` of the eight e2m1 of a word, times a scale byte (i32), by the conversions
    of gfx950."""
    convert = getattr(fx.rocdl, f"cvt_scalef32_pk_{dtype}_fp4")
    element, kind = FLOATS[dtype], getattr(fx.T, f"{dtype}x2")
    factor = (scale << 23).bitcast(fx.Float32)
    pairs = [fx.Vector(convert(kind, word.ir_value(), factor.ir_value(), j), (2,), element) for j in range(4)]
    return fx.Vector.from_elements([pair.bitcast(fx.Int32)[0] for pair in pairs], fx.Int32)


def words_of(values: Any, element: Any) -> Any:
    """Words of an even number of f32 as 16-bit floats: word by word, since a vector of these that a loop carries would
    be taken apart into single elements."""
    pairs = [values.shuffle(values, [i, i + 1]).to(element) for i in range(0, values.numel, 2)]
    return fx.Vector.from_elements([pair.bitcast(fx.Int32)[0] for pair in pairs], fx.Int32)


def bf16_words(values: Any) -> Any:
    """Words of bf16 of an even number of f32, to nearest even, by integers; NaN must be the usual one."""
    bits = values.bitcast(fx.Int32)
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    words = [_bytes_of(rounded[i + 1], rounded[i], 0x07060302) for i in range(0, values.numel, 2)]
    return fx.Vector.from_elements(words, fx.Int32)


#: Bytes 0..15 as e4m3 are so many times their value, with the bias of OCP and the other one.
_CODE_STEPS = {"Float8E4M3FN": 2.0**9, "Float8E4M3FNUZ": 2.0**10}


def scaled_int4(word: Any, scale: Any, raised: bool = False, fp8: str | None = None) -> Any:
    """f32 vector of the eight int4 of a word times a scale: bytes of value + 8 are converted in one instruction each,
    and what is too much is subtracted where it is multiplied. Byte j of the word holds values j and j + 4; if it is of
    `raised` values, what it holds is that sum already, and of values 2 j and 2 j + 1.

    Args:
        fp8: name of the e4m3 of which the architecture converts two in an instruction, where codes up to 15 are steps.
    """
    halves, flip = [], 0 if raised else 0x08080808
    for nibbles in ((word & 0x0F0F0F0F) ^ flip, ((word >> 4) & 0x0F0F0F0F) ^ flip):
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
