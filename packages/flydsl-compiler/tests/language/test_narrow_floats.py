"""Arithmetic, comparisons and conversions of 4, 6 and 8-bit floats against the definition of the formats."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

pytestmark = pytest.mark.usefixtures("device")

#: Bits of exponent and mantissa, bias, and the largest finite number, beyond which a result is ``over``.
FORMATS = {
    "Float8E4M3FN": (4, 3, 7, 448.0, np.nan), "Float8E5M2": (5, 2, 15, 57344.0, np.inf),
    "Float8E4M3FNUZ": (4, 3, 8, 240.0, np.nan), "Float8E5M2FNUZ": (5, 2, 16, 57344.0, np.nan),
    "Float6E2M3FN": (2, 3, 1, 7.5, 7.5), "Float6E3M2FN": (3, 2, 3, 28.0, 28.0),
    "Float4E2M1FN": (2, 1, 1, 6.0, 6.0),
}


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    """The numbers of the format next to x: to nearest, ties to even."""
    _, mantissa, bias, largest, over = FORMATS[name]
    exponent = np.maximum(np.frexp(np.where(x == 0, 1, x))[1] - 1, 1 - bias)
    unit = 2.0 ** (exponent - mantissa)
    near = np.round(x / unit) * unit
    return np.where(abs(near) > largest, np.copysign(over, x), near)


@flyc.kernel
def compute_kernel(X: fx.Tensor, N: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, name: fx.Constexpr[str]):
    t = fx.thread_idx.x
    cls = getattr(fx, name)
    x, y = X[t].to(cls), X[63 - t].to(cls)
    results = [x + y, x - y, x * y, -x, abs(x), fx.max(x.to(fx.Float32), 1.0), cls(N[t]), cls(fx.Uint8(t)),
               cls(N[t].to(fx.Int64)), (N[t] > 0).select(x, y), fx.Vector.from_elements([x, y], cls).reduce("add")]
    for i, result in enumerate(results):
        Y[i, t] = result.to(fx.Float32)
    for i, number in enumerate([x.to(fx.Int32), fx.Int32(x < y), fx.Int32(fx.Boolean(x)), fx.Int32(x == y),
                                fx.Vector.from_elements([x, y], cls).to(fx.Int32)[1]]):
        Z[i, t] = number


@flyc.jit
def compute(X: fx.Tensor, N: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, name: fx.Constexpr[str]):
    compute_kernel(X, N, Y, Z, name).launch(grid=1, block=64)


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic(name: str) -> None:
    rng = np.random.default_rng(7)
    x = (rng.integers(-16, 17, 64) / 8).astype(np.float32)
    n = rng.integers(-9, 10, 64).astype(np.int32)
    n[:2] = (2**30 + 1, -(2**20) - 1)
    y, z = np.zeros((11, 64), np.float32), np.zeros((5, 64), np.int32)
    compute(x, n, y, z, name)
    a = rounded(x.astype(np.float64), name)
    b = a[::-1]
    expected: list[Any] = [op(a, b) for op in (operator.add, operator.sub, operator.mul)]
    expected += [-a, abs(a), np.maximum(a, 1), n.astype(float), np.arange(64.0), n.astype(float)]
    expected += [np.where(n > 0, a, b), a + b]
    exact = [rounded(e, name) if k != 5 else e for k, e in enumerate(expected)]
    np.testing.assert_array_equal(y, np.array(exact, np.float32))
    np.testing.assert_array_equal(z, [np.trunc(a), a < b, a != 0, a == b, np.trunc(b)])


def values(name: str) -> np.ndarray:
    """The numbers of all codes."""
    exponent, mantissa, bias, largest, _ = FORMATS[name]
    codes = np.arange(2 ** (1 + exponent + mantissa))
    field, fraction = codes >> mantissa & 2**exponent - 1, codes & 2**mantissa - 1
    magnitude = np.where(field == 0, fraction * 2.0 ** (1 - bias - mantissa),
                         (1 + fraction * 2.0**-mantissa) * 2.0 ** (field - bias))
    beyond = np.where((name == "Float8E5M2") & (fraction == 0), np.inf, np.nan)
    signed = np.where(magnitude > largest, beyond, magnitude) * np.where(codes >> exponent + mantissa, -1, 1)
    return np.where(name.endswith("UZ") & (signed == 0) & (codes > 0), np.nan, signed)


@flyc.kernel
def convert_kernel(X: fx.Tensor, Y: fx.Tensor, held: fx.Constexpr[int], lanes: fx.Constexpr[int],
                   old: fx.Constexpr[str], new: fx.Constexpr[str]):
    """Elements of `X`, `held` numbers of the old type in each, as vectors of `lanes` of the new one; 0: as scalars."""
    thread, n = fx.block_idx.x * 64 + fx.thread_idx.x, max(lanes, 1)
    loaded = [X[thread * (n // held) + i] for i in range(n // held)]
    if fx.const_expr(lanes == 0):
        results = [loaded[0].bitcast(getattr(fx, old)).to(getattr(fx, new))]
    else:
        x = fx.Vector.from_elements(loaded, loaded[0].dtype)
        if fx.const_expr(x.dtype is not getattr(fx, old)):
            x = x.bitcast(getattr(fx, old))
        results = list(x.to(getattr(fx, new)))
    for i in fx.range_constexpr(n):
        Y[thread * n + i] = results[i].to(fx.Float64)


@flyc.jit
def convert(X: fx.Tensor, Y: fx.Tensor, held: fx.Constexpr[int], lanes: fx.Constexpr[int], old: fx.Constexpr[str],
            new: fx.Constexpr[str], blocks: fx.Int32):
    convert_kernel(X, Y, held, lanes, old, new).launch(grid=blocks, block=64)


def whole_blocks(x: np.ndarray, lanes: int) -> tuple[np.ndarray, int]:
    blocks = -(-x.size // (64 * max(lanes, 1)))
    return np.resize(x, blocks * 64 * max(lanes, 1)), blocks


WHOLE_BYTES = [name for name in FORMATS if "Float6" not in name]


@pytest.mark.parametrize("wide", ["Float16", "BFloat16", "Float32", "Float64"])
@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_every_code_widens_exactly(name: str, wide: str) -> None:
    """Alone, and in vectors that instructions of two or eight convert as a whole or with a rest."""
    held = 2 if "Float4" in name else 1
    number = values(name)
    for lanes in (2, 6, 8, 16) if held == 2 else (0, 2, 3, 8, 12):
        order, blocks = whole_blocks(np.arange(number.size), lanes)
        x = (order[::2] | order[1::2] << 4 if held == 2 else order).astype(np.uint8)
        y = np.full(order.size, -7.5)
        convert(x, y, held, lanes, name, wide, blocks)
        np.testing.assert_array_equal(y, number[order])


@pytest.mark.parametrize("wide", ["Float16", "Float32", "Float64"])
@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_narrowing_rounds_to_nearest_even(name: str, wide: str) -> None:
    rng = np.random.default_rng(3)
    number = values(name)
    finite = np.unique(number[np.isfinite(number)])
    ties = (finite[1:] + finite[:-1]) / 2
    given = [finite, ties, ties * (1 + 2.0**-9), ties * (1 - 2.0**-9), np.linspace(finite[-1], 1.3 * finite[-1], 40),
             rng.standard_normal(200) * 2.0 ** rng.integers(-14, 10, 200), [0.0, -0.0, np.inf, -np.inf, 1e-7, -1e-7]]
    with np.errstate(over="ignore"):
        given = np.concatenate(given).astype(wide.lower())
    for lanes in (1, 2, 6, 8):
        x, blocks = whole_blocks(given, lanes)
        y = np.full(x.size, -7.5)
        convert(x, y, 1, lanes, wide, name, blocks)
        expected = rounded(x.astype(np.float64), name) + (0.0 if name.endswith("UZ") else -0.0)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(np.signbit(y[y == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_nan_becomes_nan_or_the_largest(name: str) -> None:
    x, y = np.full(256, np.nan, np.float32), np.full(256, -7.5)
    convert(x, y, 1, 4, "Float32", name, 1)
    np.testing.assert_array_equal(abs(y), 6.0 if "Float4" in name else np.nan)
