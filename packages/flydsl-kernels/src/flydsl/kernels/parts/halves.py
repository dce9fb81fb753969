"""Weights of 4 bits, and activations, as the 16-bit floats that matrix instructions take: words of two of these."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..target import Target
from .packed import bytes_of, e8m0_value, high_halves, unpack
from .runs import runs_of

__all__ = ["conversion_cost", "dequantised", "fp4_table", "fp4_to_bf16", "fp4_to_half", "int4_to_bf16"]

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


def _words_of(values: Any, element: Any) -> Any:
    """Words of an even number of f32 as 16-bit floats: word by word, since a vector of these that a loop carries would
    be taken apart into single elements."""
    pairs = [pair.to(element) for pair in runs_of(values, 2)]
    return fx.Vector.from_elements([pair.bitcast(fx.Int32)[0] for pair in pairs], fx.Int32)


def _bf16_words(values: Any) -> Any:
    """Words of bf16 of an even number of f32, to nearest even, by integers; NaN must be the usual one."""
    bits = values.bitcast(fx.Int32)
    return high_halves(bits + (((bits >> 16) & 1) + 0x7FFF))


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
        return _words_of(values, FLOATS[dtype])
    raised = kind == "u4"
    if target.tensor_moves and dtype == stored == "bf16":
        return int4_to_bf16(word, scale, raised)
    values = _scaled_int4(word, scale.to(fx.Float32), raised, target.fp8_name if target.matrix == "mfma" else None)
    if dtype == "bf16" and not target.mx:  # there is no instruction for it
        return _bf16_words(values)
    return _words_of(values, FLOATS[dtype])


def conversion_cost(kind: str, target: Target) -> int:
    """Vector instructions of :func:`dequantised`, about, on architectures whose order of the loop has places for
    them."""
    if kind == "fp4":
        return 4 if target.converts_fp4 else 21
    return 15 if target.mx else 30
