"""Math functions and conversions on the device, against float64 NumPy (and torch for 8-bit floats)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

VECTORISED = np.vectorize


def _round_half_away(v: Any) -> Any:
    return np.copysign(np.floor(np.abs(v) + 0.5), v)


# name: reference, lowest and highest argument
FUNCTIONS: dict[str, tuple[Any, float, float]] = {
    "absf": (np.abs, -9, 9), "ceil": (np.ceil, -9, 9), "floor": (np.floor, -9, 9), "trunc": (np.trunc, -9, 9),
    "round": (_round_half_away, -4, 4), "roundeven": (np.round, -4, 4), "sqrt": (np.sqrt, 0.01, 90),
    "rsqrt": (lambda v: 1 / np.sqrt(v), 0.01, 90), "cbrt": (np.cbrt, -20, 20), "exp": (np.exp, -20, 20),
    "exp2": (np.exp2, -20, 20), "expm1": (np.expm1, -5, 5), "log": (np.log, 0.01, 90), "log2": (np.log2, 0.01, 90),
    "log10": (np.log10, 0.01, 90), "log1p": (np.log1p, -0.9, 9), "sin": (np.sin, -6, 6), "cos": (np.cos, -6, 6),
    "tan": (np.tan, -1.4, 1.4), "asin": (np.arcsin, -0.99, 0.99), "acos": (np.arccos, -0.99, 0.99),
    "atan": (np.arctan, -9, 9), "sinh": (np.sinh, -5, 5), "cosh": (np.cosh, -5, 5), "tanh": (np.tanh, -5, 5),
    "asinh": (np.arcsinh, -9, 9), "acosh": (np.arccosh, 1.01, 9), "atanh": (np.arctanh, -0.99, 0.99),
    "erf": (np.vectorize(math.erf), -3, 3), "erfc": (np.vectorize(math.erfc), -2, 2),
}


def _near(out: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    error = np.abs(out - want) / np.maximum(np.abs(want), 1e-2)
    assert error.max() <= tolerance, (error.max(), int(error.argmax()))


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_unary(run: Any, name: str) -> None:
    reference, low, high = FUNCTIONS[name]
    x = np.linspace(low, high, 64).astype(np.float32)
    _near(run(f"Y[t] = fx.{name}(X[t])", x=x), reference(x.astype(np.float64)), 2e-5)


@pytest.mark.parametrize(
    ("call", "reference"),
    [
        ("fx.powf(X[t], fx.Float32(2.5))", lambda v: v**2.5),
        ("X[t] ** 3.0", lambda v: v**3),
        ("fx.fpowi(X[t], fx.Int32(3))", lambda v: v**3),
        ("fx.Float32(t ** 2)", lambda v: np.arange(64) ** 2),
        ("fx.atan2(X[t] - 3.0, X[t] - 2.0)", lambda v: np.arctan2(v - 3, v - 2)),
        ("fx.copysign(X[t], X[t] - 3.0)", lambda v: np.copysign(v, v - 3)),
        ("fx.fma(X[t], X[t], X[t])", lambda v: v * v + v),
        ("fx.clampf(X[t], fx.Float32(2.0), fx.Float32(4.0))", lambda v: np.clip(v, 2, 4)),
        ("fx.sincos(X[t])[0] + fx.sincos(X[t])[1]", lambda v: np.sin(v) + np.cos(v)),
        ("fx.exp2(fx.Float32x2([X[t], 1.0]))[0]", np.exp2),
        ("fx.exp(X[t].to(fx.Float16)).to(fx.Float32)", lambda v: np.exp(v.astype(np.float16).astype(np.float64))),
        ("fx.Float32(fx.rocdl.exp2(fx.T.f32, X[t]))", np.exp2),
        ("fx.Float32(fx.rocdl.rcp(fx.T.f32, X[t]))", lambda v: 1 / v),
    ],
)
def test_several_arguments(run: Any, call: str, reference: Any) -> None:
    x = np.linspace(0.3, 6, 64).astype(np.float32)
    tolerance = 1e-3 if "Float16" in call else 2e-5
    _near(run(f"Y[t] = {call}", x=x), reference(x.astype(np.float64)), tolerance)


@pytest.mark.parametrize("call", ["ctlz", "cttz", "ctpop", "absi"])
def test_integers(run: Any, call: str) -> None:
    reference = {"ctlz": lambda v: 32 - v.bit_length(), "cttz": lambda v: (v & -v).bit_length() - 1,
                 "ctpop": lambda v: v.bit_count(), "absi": abs}[call]
    x = np.random.default_rng(0).integers(1, 2**31 - 1, 64).astype(np.int32)
    np.testing.assert_array_equal(run(f"Y[t] = fx.{call}(X[t])", x=x), [reference(int(v)) for v in x])


def test_predicates(run: Any) -> None:
    x = np.zeros(64, np.float32)
    x[:5] = [np.nan, np.inf, -np.inf, 1e-40, 2.0]
    body = ("Y[t] = fx.isnan(X[t]).select(1.0, 0.0) + fx.isinf(X[t]).select(2.0, 0.0) + "
            "fx.isfinite(X[t]).select(4.0, 0.0) + fx.isnormal(X[t]).select(8.0, 0.0)")
    np.testing.assert_array_equal(run(body, x=x)[:6], [1, 2, 2, 4, 12, 4])


def test_sizes_of_grid_and_block(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(Y: fx.Tensor):
    t = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    bx, by, bz = fx.block_dim
    gx, gy, gz = fx.grid_dim
    Y[t] = bx + 1000 * by + 2000 * bz + 10000 * gx + 100000 * gy + 1000000 * gz

@flyc.jit
def run(Y: fx.Tensor, n: fx.Int32):
    k(Y).launch(grid=(n, 1, 1), block=(64, 1, 1))

@flyc.jit
def run_dynamic(Y: fx.Tensor, n: fx.Int32, threads: fx.Int32):
    k(Y).launch(grid=n, block=threads)
""")
    for call, threads in ((lambda y: module.run(y, 3), 64), (lambda y: module.run_dynamic(y, 3, 32), 32)):
        y = np.zeros(3 * threads, np.int32)
        call(y)
        np.testing.assert_array_equal(y, np.full(3 * threads, threads + 3000 + 30000 + 100000 + 1000000))


@pytest.mark.parametrize("name", ["Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2"])
def test_eight_bit_floats(run: Any, name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, {"Float8E4M3FN": "float8_e4m3fn", "Float8E4M3FNUZ": "float8_e4m3fnuz",
                            "Float8E5M2": "float8_e5m2"}[name])
    x = (np.random.default_rng(1).standard_normal(64) * 8).astype(np.float32)
    want = torch.from_numpy(x).to(dtype).to(torch.float32).numpy()
    np.testing.assert_array_equal(run(f"Y[t] = X[t].to(fx.{name}).to(fx.Float32)", x=x), want)
    vector = f"v = fx.Float32x4([X[t], 0.5, -1.5, 2.0]).to(fx.{name}).to(fx.Float32)\nY[t] = v[0] + v[1] + v[2] + v[3]"
    np.testing.assert_array_equal(run(vector, x=x), want + 1)


@pytest.mark.parametrize("name", ["Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2"])
def test_eight_bit_floats_of_doubles_round_once(run: Any, name: str) -> None:
    """Next to the middle of two codes, closer than f32 can tell, each value still goes to its own side."""
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, {"Float8E4M3FN": "float8_e4m3fn", "Float8E4M3FNUZ": "float8_e4m3fnuz",
                            "Float8E5M2": "float8_e5m2"}[name])
    codes = torch.arange(0x60, dtype=torch.uint8).view(dtype).to(torch.float64).numpy()
    lower = np.random.default_rng(3).integers(0, len(codes) - 1, 22)
    middle = (codes[lower] + codes[lower + 1]) / 2
    x = np.concatenate([middle * (1 - 2.0**-40), middle, middle * (1 + 2.0**-40)])[:64]
    even = lower + lower % 2
    want = np.concatenate([codes[lower], codes[even], codes[lower + 1]])[:64]
    sign = np.where(np.arange(64) % 2, -1.0, 1.0)
    got = run(f"Y[t] = X[t].to(fx.{name}).to(fx.Float64)", x=x * sign)
    np.testing.assert_array_equal(got, want * sign)


def test_rounding_to_bfloat16(run: Any) -> None:
    x = (np.arange(64) * 1.01).astype(np.float32)
    bits = x.view(np.uint32)
    even = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(run("Y[t] = X[t].to(fx.BFloat16).to(fx.Float32)", x=x), even)


def test_integer_functions_of_an_index(run: Any) -> None:
    out = run("""
    i = fx.Index(t)
    Y[t] = fx.Int64(i ** 3) + 1000 * (fx.Int64(fx.ctlz(i)) + 1000 * fx.Int64(fx.ctpop(i)))
    """, x=np.arange(64, dtype=np.int64))
    np.testing.assert_array_equal(out, [i**3 + 1000 * (64 - i.bit_length() + 1000 * i.bit_count()) for i in range(64)])
