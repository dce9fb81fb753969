"""Conversions of f32 vectors to the narrow storage types of quantised tensors."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..target import Target, target
from .packed import high_halves, pack_fp8
from .runs import run_of

__all__ = ["INT4_MAX", "INT8_MAX", "ROUNDINGS", "from_quantised", "quantised_max", "round_bf16_stochastic",
           "scale_of", "to_quantised", "widened"]

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


def _whole_words(x: Any) -> Any:
    """A vector of what four are a word of, with zeros up to whole words."""
    more = -x.numel % 4
    return fx.Vector.from_elements([*x, *[x.dtype(0)] * more], x.dtype) if more else x


def _to_fp8(x: Any, element: Any) -> Any:
    words = fx.Vector.from_elements(pack_fp8(list(_whole_words(x))), fx.Int32)
    return run_of(words.bitcast(element), 0, x.numel)


def to_quantised(x: Any, name: str, rounding: str, target: Target) -> Any:
    """Vector of ``"i8"`` or ``"i4"`` in bytes (rounded as told) or of the native ``"fp8"`` (nearest even), from scaled
    f32 values.

    Values beyond the range saturate. NaN stays NaN in fp8 and becomes 0 in the integer types.
    """
    if name == "fp8":
        return _to_fp8(_clamp(x, target.fp8_max), target.fp8)
    if rounding == "nearest":
        x = fx.math.roundeven(x)
    return _clamp(x, quantised_max(name, target)).to(fx.Int8)


def from_quantised(x: Any, name: str) -> Any:
    """f32 vector of a vector of bytes (i8) that hold ``"i8"`` or the native ``"fp8"``."""
    if name == "i8":
        return x.to(fx.Float32)
    values = []
    for word in _whole_words(x).bitcast(fx.Int32):
        for half in (False, True):
            pair = fx.rocdl.cvt_pk_f32_fp8(fx.T.vec(2, fx.T.f32), word, half)
            values += [fx.Float32(pair[i]) for i in range(2)]
    return fx.Vector.from_elements(values[: x.numel], fx.Float32)


_ONE_E8M0 = 127  # a scale of 2**0


def widened(x: Any, element: Any, target: Target) -> Any:
    """A vector of the native fp8 as f16 or bf16, which hold every number of it: by eights, by pairs or through f32, as
    the architecture has instructions."""
    half = element is fx.Float16
    if target.fp8_together == 8 and x.numel % 8 == 0:
        convert = fx.rocdl.cvt_scale_pk8_f16_fp8 if half else fx.rocdl.cvt_scale_pk8_bf16_fp8
        pairs, each = x.bitcast(fx.Int32), 8
        vectors = [convert(fx.T.vec(each, element.ir_type),
                           fx.Vector.from_elements([pairs[i], pairs[i + 1]], fx.Int32), fx.Int32(_ONE_E8M0), 0)
                   for i in range(0, pairs.numel, 2)]
    elif target.fp8_together == 2 and x.numel % 4 == 0:
        convert = fx.rocdl.cvt_scalef32_pk_f16_fp8 if half else fx.rocdl.cvt_scalef32_pk_bf16_fp8
        each = 2
        vectors = [convert(fx.T.vec(each, element.ir_type), word, fx.Float32(1.0), upper)
                   for word in x.bitcast(fx.Int32) for upper in (False, True)]
    else:
        return _widened_through_f32(x, element)
    words = [fx.Vector(v, (each,), element).bitcast(fx.Int32) for v in vectors]
    return fx.Vector.from_elements([w[i] for w in words for i in range(w.numel)], fx.Int32).bitcast(element)


def _widened_through_f32(x: Any, element: Any) -> Any:
    values = from_quantised(x.bitcast(fx.Int8), "fp8")
    if element is not fx.Float16:
        return high_halves(values.bitcast(fx.Int32)).bitcast(element)  # the low halves are zero
    pairs = [fx.Vector(fx.rocdl.cvt_pkrtz(fx.T.vec(2, fx.T.f16), values[i], values[i + 1]), (2,), fx.Float16)
             for i in range(0, values.numel, 2)]
    return fx.Vector.from_elements([pair.bitcast(fx.Int32)[0] for pair in pairs], fx.Int32).bitcast(element)


def round_bf16_stochastic(value: Any, bits16: Any) -> Any:
    """f32 to bf16 by adding 16 random bits below the last place and cutting off."""
    word = value.bitcast(fx.Uint32) + bits16
    return (word >> 16).to(fx.Uint16).bitcast(fx.BFloat16)
