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
    "Float8E4M3FNUZ": (4, 3, 8, 240.0, np.nan), "Float6E2M3FN": (2, 3, 1, 7.5, 7.5),
    "Float6E3M2FN": (3, 2, 3, 28.0, 28.0), "Float4E2M1FN": (2, 1, 1, 6.0, 6.0),
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
