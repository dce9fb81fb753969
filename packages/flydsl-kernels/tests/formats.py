"""Number formats by their definitions: the values of all codes in f64, and rounding to the nearest of them."""

from __future__ import annotations

import math

import numpy as np


def _small_float(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    """Value of a sign-exponent-mantissa code without special values."""
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = -1.0 if code >> (mantissa_bits + exponent_bits) else 1.0
    fraction = mantissa / (1 << mantissa_bits)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


def e4m3fn() -> np.ndarray:
    """OCP fp8: no infinity, all mantissa and exponent bits set is NaN; largest 448."""
    return np.array([math.nan if c & 0x7F == 0x7F else _small_float(c, 4, 3, 7) for c in range(256)])


def e4m3fnuz() -> np.ndarray:
    """fp8 of CDNA3: bias 8, no negative zero (that code is NaN); largest 240."""
    return np.array([math.nan if c == 0x80 else _small_float(c, 4, 3, 8) for c in range(256)])


def e2m1() -> np.ndarray:
    """OCP fp4."""
    return np.array([_small_float(c, 2, 1, 1) for c in range(16)])


def e8m0(byte: np.ndarray) -> np.ndarray:
    """OCP scales: ``2**(b - 127)``, 255 is NaN."""
    byte = np.asarray(byte).astype(np.int64)
    return np.where(byte == 255, np.nan, np.ldexp(1.0, byte - 127))


def nearest(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Each value rounded to the nearest of the table's, ties to the even code, saturating; NaN stays."""
    half = len(table) // 2
    positive = table[:half]
    positive = positive[~np.isnan(positive)]
    magnitude = np.abs(np.asarray(x, dtype=np.float64))
    above = np.minimum(np.searchsorted(positive, magnitude), len(positive) - 1)
    below = np.maximum(above - 1, 0)
    up, down = positive[above] - magnitude, magnitude - positive[below]
    pick = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    return np.where(np.isnan(x), np.nan, np.copysign(positive[pick], x))
