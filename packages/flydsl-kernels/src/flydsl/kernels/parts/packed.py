"""Packed 4-bit and microscaled values: words of eight int4 or fp4, or four fp8 bytes, and f32.

The formats are those of the OCP microscaling specification.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..target import Target

__all__ = ["PER_WORD", "bytes_of", "e8m0_value", "high_halves", "int4_chunk", "microscale", "pack_fp4", "pack_int4",
           "pack_micro", "unpack"]

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
