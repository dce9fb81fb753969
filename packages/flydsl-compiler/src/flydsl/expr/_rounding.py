"""Rounding of Python numbers to a float type: what a static value is, so that it equals the dynamic one.

To nearest, ties to even. What exceeds the largest number becomes infinity where the format has one, else NaN,
else the largest number: the rule of the conversions on the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class _Format:
    """A binary format: `precision` counts the leading bit, `emin` is the exponent of the smallest normal number."""

    precision: int
    emin: int
    largest: float
    overflow: str = "inf"  # or "nan", or "largest"
    signed_zero: bool = True


_FORMATS = {
    "Float": _Format(24, -126, (2 - 2.0**-23) * 2.0**127),
    "Float32": _Format(24, -126, (2 - 2.0**-23) * 2.0**127),
    "Float16": _Format(11, -14, 65504.0),
    "BFloat16": _Format(8, -126, (2 - 2.0**-7) * 2.0**127),
    "Float8E5M2": _Format(3, -14, 57344.0),
    "Float8E4M3": _Format(4, -6, 240.0),
    "Float8E4M3FN": _Format(4, -6, 448.0, "nan"),
    "Float8E4M3FNUZ": _Format(4, -7, 240.0, "nan", signed_zero=False),
    "Float8E5M2FNUZ": _Format(3, -15, 57344.0, "nan", signed_zero=False),
    "Float8E4M3B11FNUZ": _Format(4, -10, 30.0, "nan", signed_zero=False),
    "Float6E2M3FN": _Format(4, 0, 7.5, "largest"),
    "Float6E3M2FN": _Format(3, -2, 28.0, "largest"),
    "Float4E2M1FN": _Format(2, 0, 6.0, "largest"),
}


def _round_int(x: int) -> float:
    """A float that rounds to any format of at most 51 bits as the integer does (its last place is sticky)."""
    excess = abs(x).bit_length() - 53
    if excess <= 0:
        return float(x)
    head = abs(x) >> excess
    sticky = int(head << excess != abs(x))
    try:
        return math.copysign(math.ldexp(head | sticky, excess), x)
    except OverflowError:
        return math.copysign(math.inf, x)


def _to_power_of_two(x: float) -> float:
    """f8E8M0FNU: powers of two from 2**-127, without sign and zero.

    A tie takes the larger: with one digit neither neighbour is even (IEEE 754-2019, 4.3.1).
    """
    if math.isnan(x) or x < 0 or math.isinf(x):
        return math.nan
    if x < 1.5 * 2.0**-127:
        return 2.0**-127
    mantissa, exponent = math.frexp(x)
    code = exponent - 1 + 127
    if mantissa >= 0.75:
        code += 1
    return math.nan if code > 254 else math.ldexp(1.0, code - 127)


def round_to(name: str, x: int | float) -> float:
    """`x` rounded to the float class of that name (`Float64` keeps it)."""
    fmt = _FORMATS.get(name)
    if isinstance(x, int):
        x = float(x) if fmt is None and name == "Float64" else _round_int(int(x))
    if name == "Float8E8M0FNU":
        return _to_power_of_two(x)
    if fmt is None:
        return x
    if math.isnan(x):
        return math.copysign(fmt.largest, x) if fmt.overflow == "largest" else x
    magnitude = abs(x)
    if 0 < magnitude < 2 * fmt.largest:
        exponent = max(math.frexp(magnitude)[1] - 1, fmt.emin) - (fmt.precision - 1)
        magnitude = math.ldexp(round(math.ldexp(magnitude, -exponent)), exponent)
    if magnitude > fmt.largest:
        magnitude = {"inf": math.inf, "nan": math.nan, "largest": fmt.largest}[fmt.overflow]
    if magnitude == 0 and not fmt.signed_zero:
        return 0.0
    return math.copysign(magnitude, x)


def extremes(name: str) -> tuple[float, float]:
    """The lowest and the highest value of the float class of that name: infinities where it has them."""
    if name == "Float8E8M0FNU":
        return 2.0**-127, 2.0**127
    fmt = _FORMATS.get(name)
    highest = math.inf if fmt is None or fmt.overflow == "inf" else fmt.largest
    return -highest, highest
