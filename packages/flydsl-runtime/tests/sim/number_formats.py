"""Number formats for expected values: bits to exact values and back, in plain Python.

Values are ints for integer types and floats (or Fractions) for floating types; nothing here is shared
with the simulator.
"""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

#: exponent bits, mantissa bits of the floating types
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
#: (bits, signed) of the integer types
INTS = {f"{s}{w}": (w, s == "i") for s in "ui" for w in (16, 24, 32, 64)}

Number = int | float | Fraction


def width(ty: str) -> int:
    """Bits of a type."""
    return sum(FLOATS[ty]) + 1 if ty in FLOATS else INTS[ty][0]


def decode(bits: int, ty: str) -> int | float:
    """The value of the low bits of `bits`."""
    bits &= (1 << width(ty)) - 1
    if ty in INTS:
        w, signed = INTS[ty]
        return bits - (1 << w) if signed and bits >> (w - 1) else bits
    e, m = FLOATS[ty]
    exponent, fraction = bits >> m & ((1 << e) - 1), bits & ((1 << m) - 1)
    sign = -1.0 if bits >> (e + m) else 1.0
    bias = (1 << (e - 1)) - 1
    if exponent == (1 << e) - 1:
        if not fraction:
            return sign * math.inf
        # The Python float keeps the sign and the payload of a NaN.
        return struct.unpack("<d", struct.pack("<Q", bits >> (e + m) << 63 | 0x7FF << 52 | fraction << (52 - m)))[0]
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - m)
    return sign * math.ldexp(fraction + (1 << m), exponent - bias - m)


def encode(value: Number, ty: str) -> int:
    """The bits of `value`, wrapped (integers) or rounded to nearest even (floats). NaN has one encoding."""
    if ty in INTS:
        return int(value) & ((1 << width(ty)) - 1)
    e, m = FLOATS[ty]
    bias, top = (1 << (e - 1)) - 1, ((1 << e) - 1) << m
    if isinstance(value, float):
        if math.isnan(value):
            return top | 1 << (m - 1)
        sign = int(math.copysign(1.0, value) < 0) << (e + m)
        if math.isinf(value):
            return sign | top
        value = Fraction(value)
    else:
        sign = int(value < 0) << (e + m)
    size = abs(Fraction(value))
    if size == 0:
        return sign
    exponent = max(math.frexp(float(size))[1] - 1 if size < 2**1000 else 1023, 1 - bias)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > 1 - bias and size < Fraction(2) ** exponent:
        exponent -= 1
    units = round(size / Fraction(2) ** (exponent - m))  # Fraction rounds to even
    if exponent == 1 - bias:
        return sign | min(units, top)  # denormal, or rounded up to the least normal number
    return sign | min(((exponent + bias) << m) + units - (1 << m), top)


def is_nan(bits: int, ty: str) -> bool:
    """Whether an encoding of a floating type is NaN."""
    e, m = FLOATS[ty]
    return bits >> m & ((1 << e) - 1) == (1 << e) - 1 and bits & ((1 << m) - 1) != 0


def samples(ty: str, rng: random.Random, count: int) -> list[int]:
    """Random and corner encodings of a type."""
    w = width(ty)
    ones = (1 << w) - 1
    if ty in INTS:
        corners = [0, 1, 2, ones, ones - 1, 1 << (w - 1), (1 << (w - 1)) - 1, 31, 32, 33, 255, 0x8000, 0x7FFF]
        make = [
            lambda: rng.getrandbits(w),
            lambda: rng.getrandbits(rng.randint(1, w)),
            lambda: ones ^ rng.getrandbits(6),
        ]
    else:
        e, m = FLOATS[ty]
        top = ((1 << e) - 1) << m
        one = ((1 << (e - 1)) - 1) << m
        corners = [0, 1, (1 << m) - 1, 1 << m, one, one | 1, one + (1 << (m - 1)), top - 1, top, top | 1 << (m - 1)]
        corners += [c | 1 << (w - 1) for c in corners]
        near = one >> m
        make = [
            lambda: rng.getrandbits(w),
            lambda: rng.getrandbits(1) << (w - 1) | (near + rng.randint(-4, 6)) << m | rng.getrandbits(m),
            lambda: rng.getrandbits(1) << (w - 1) | (near + rng.randint(-1, m)) << m | rng.getrandbits(3) << (m - 3),
        ]
    return [rng.choice(corners) & ones if rng.random() < 0.3 else rng.choice(make)() for _ in range(count)]
