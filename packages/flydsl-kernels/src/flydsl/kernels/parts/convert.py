"""Conversions of f32 vectors to the narrow storage types of quantised tensors."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..target import Target, target

__all__ = ["INT4_MAX", "INT8_MAX", "ROUNDINGS", "quantised_max", "round_bf16_stochastic", "scale_of", "to_quantised"]

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
