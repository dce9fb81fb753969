"""Static floats: every class rounds to the nearest of its numbers, and static arithmetic is that of the class."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl.expr as fx

pytestmark = pytest.mark.l0_backend_agnostic

# class -> (exponent bits, mantissa bits, bias, largest code of a finite number)
SMALL = {
    fx.Float8E5M2: (5, 2, 15, 0x7B), fx.Float8E4M3: (4, 3, 7, 0x77), fx.Float8E4M3FN: (4, 3, 7, 0x7E),
    fx.Float8E4M3FNUZ: (4, 3, 8, 0x7F), fx.Float8E5M2FNUZ: (5, 2, 16, 0x7F), fx.Float8E4M3B11FNUZ: (4, 3, 11, 0x7F),
    fx.Float6E2M3FN: (2, 3, 1, 0x1F), fx.Float6E3M2FN: (3, 2, 3, 0x1F), fx.Float4E2M1FN: (2, 1, 1, 0x7),
}
SATURATING = (fx.Float6E2M3FN, fx.Float6E3M2FN, fx.Float4E2M1FN)
INFINITE = (fx.Float8E5M2, fx.Float8E4M3)


def _codes(cls: Any) -> Iterator[tuple[int, float]]:
    """Code and value of the numbers from 0, and of the one past the largest as if the format went on."""
    _, mantissa, bias, last = SMALL[cls]
    for code in range(last + 2):
        exponent, fraction = code >> mantissa, code & ((1 << mantissa) - 1)
        if exponent == 0:
            yield code, fraction * 2.0 ** (1 - bias - mantissa)
        else:
            yield code, (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)


def _nearest(cls: Any, x: float) -> float:
    codes = list(_codes(cls))
    code, value = min(codes, key=lambda c: (abs(c[1] - abs(x)), c[0] & 1))
    if code > SMALL[cls][3] or math.isinf(x):
        value = codes[-2][1] if cls in SATURATING else math.inf if cls in INFINITE else math.nan
    return math.copysign(value, x)


def _equal(a: float, b: float) -> bool:
    return math.isnan(a) and math.isnan(b) or a == b


@pytest.mark.parametrize("cls", SMALL, ids=str)
def test_small_floats_are_the_nearest_number(cls: Any) -> None:
    values = [v for _, v in _codes(cls)]
    between = [(a + b) / 2 for a, b in zip(values, values[1:], strict=False)]
    for x in [*values, *between, *(math.nextafter(m, 0) for m in between), *(math.nextafter(m, 9e9) for m in between),
              1e9, math.inf]:
        for signed in (x, -x):
            assert _equal(cls(signed).value, _nearest(cls, signed)), signed


def test_powers_of_two() -> None:
    one = fx.Float8E8M0FNU
    assert [one(x).value for x in (1.0, 1.4, 1.6, 3.0, 6.0, 0.0, -0.0)] == [1, 1, 2, 4, 8, 2.0**-127, 2.0**-127]
    assert one(1.5).value == 2.0 and one(0.75).value == 1.0  # a tie takes the larger
    assert one(1.5 * 2.0**-127).value == 2.0**-126
    for x in (-1.0, math.inf, math.nan, 2.0**128, 1.6 * 2.0**127):
        assert math.isnan(one(x).value)


@given(st.floats(width=64, allow_nan=False))
def test_wide_floats_are_numpys(x: float) -> None:
    with np.errstate(all="ignore"):
        assert fx.Float16(x).value == float(np.float16(x))
        assert fx.Float32(x).value == float(np.float32(x))
    assert fx.Float64(x).value == x


@given(st.integers(-(2**200), 2**200))
def test_integers_round_once(x: int) -> None:
    def nearest(digits: int) -> float:
        excess = max(0, abs(x).bit_length() - digits)
        head, rest = abs(x) >> excess, abs(x) & ((1 << excess) - 1)
        half = 1 << (excess - 1) if excess else 1
        head += rest > half or rest == half and head & 1
        value = head << excess
        return math.copysign(math.inf if value.bit_length() > 128 else float(value), x)

    assert fx.Float32(x).value == nearest(24)
    assert fx.BFloat16(x).value == nearest(8)
    assert fx.Float64(x).value == float(x)


OPERATIONS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.floordiv]


@pytest.mark.parametrize("op", OPERATIONS)
@given(st.floats(width=32), st.floats(width=32))
def test_float32_arithmetic_is_numpys(op: Any, a: float, b: float) -> None:
    if b == 0 and op in (operator.truediv, operator.mod, operator.floordiv):
        with pytest.raises(ZeroDivisionError):
            op(fx.Float32(a), fx.Float32(b))
        return
    with np.errstate(all="ignore"):
        want = float(op(np.float32(a), np.float32(b)))
    got = op(fx.Float32(a), fx.Float32(b)).value
    assert _equal(got, want) and (got != 0 or math.copysign(1, got) == math.copysign(1, want))


def test_each_step_is_rounded() -> None:
    assert fx.Float32(0.1).value == struct.unpack("f", struct.pack("f", 0.1))[0] != 0.1
    assert fx.Float16(2049.0).value == 2048.0
    assert (fx.Float16(2048.0) + fx.Float16(1.0) + fx.Float16(1.0)).value == 2048.0
    assert (fx.Float32(2**24) + 1.0 - fx.Float32(2**24)).value == 0.0
    assert (fx.Float64(1.0) * 0.1).value == 0.1  # a literal is exact until its class is known
    assert (fx.Float64(1.0) * fx.Float32(0.1)).value == fx.Float32(0.1).value
    assert (fx.Int32(2**31 - 1) / fx.Int32(1)).value == 2.0**31
    assert fx.Float32(10.0) ** fx.Float32(60.0) == math.inf
    assert math.isnan((fx.Float32(-8.0) ** fx.Float32(0.5)).value)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_division_identity(a: int, b: int) -> None:
    if b == 0:
        return
    x, y = fx.Int32(a), fx.Int32(b)
    assert (x // y * y + x % y).value == a
    assert tuple(v.value for v in divmod(x, y)) == ((x // y).value, (x % y).value)
    assert (x % y).value == a % b
    assert (x // y).value == fx.Int32(a // b).value


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 200))
def test_shifts_beyond_the_width(a: int, n: int) -> None:
    assert (fx.Int32(a) << n).value == fx.Int32(a << n).value
    assert (fx.Int32(a) >> n).value == a >> n
    assert (fx.Uint32(a) >> n).value == (a & 0xFFFFFFFF) >> n
