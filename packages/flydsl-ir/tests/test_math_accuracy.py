"""Accuracy and special cases of math operations, measured on the device of flydsl.runtime."""

import ctypes
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

runtime = pytest.importorskip("flydsl.runtime", reason="needs flydsl-runtime for a device")

_spec = importlib.util.spec_from_file_location(
    "math_accuracy", Path(__file__).resolve().parents[1] / "tools" / "math_accuracy.py"
)
math_accuracy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(math_accuracy)

#: Largest error in ulp that docs/concepts/code-generation.md states.
BOUNDS = {name: 4.0 for name in math_accuracy.CASES} | {
    "exp": 1.0, "exp2": 1.0, "sqrt": 0.51, "log2": 1.0, "powf": 1.0, "cbrt": 1.0, "rsqrt": 1.5, "sin": 2.0, "cos": 2.0,
}


@pytest.fixture(scope="module")
def hip():
    return ctypes.CDLL(str(runtime.library_path()))


@pytest.mark.parametrize("name", math_accuracy.CASES)
def test_error_bound(hip, name):
    error, where = math_accuracy.measure(hip, name, runtime.device_info().arch, 64 * 256)
    assert error <= BOUNDS[name], f"{error} ulp at {where}"


@pytest.mark.parametrize("name", math_accuracy.CASES64)
def test_error_bound_of_f64(hip, name):
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("no float wider than float64 on this host")
    if name in ("erf", "erfc"):
        pytest.importorskip("mpmath")
    error, where = math_accuracy.measure(hip, name, runtime.device_info().arch, 64 * 32, "f64")
    assert error <= 3, f"{error} ulp at {where}"


def launch_f64(hip, body, x, y):
    """``body`` on the device; x and y are repeated to whole waves."""
    count = len(x)
    x, y = (np.resize(np.array(a, np.float64), -count % 64 + count) for a in (x, y))
    result = np.full_like(x, 77)
    math_accuracy.launch(hip, math_accuracy.compile_body(body, runtime.device_info().arch, "f64"), [x, y, result])
    return result[:count]


def assert_same(result, expected, ulp=3):
    same = (result == expected) & (np.signbit(result) == np.signbit(expected)) | np.isnan(result) & np.isnan(expected)
    with np.errstate(all="ignore"):
        close = np.abs(result - expected) <= ulp * np.spacing(np.abs(expected))
    wrong = ~(same | close & (expected != 0))
    assert not wrong.any(), (np.flatnonzero(wrong)[:8], result[wrong][:8], expected[wrong][:8])


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308, 3e-9]
REFERENCES = {"powf": np.power, "atan2": np.arctan2, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan,
              "acosh": np.arccosh, "asinh": np.arcsinh, "atanh": np.arctanh}


@pytest.mark.parametrize("name", [n for n in math_accuracy.CASES if n not in math_accuracy.BINARY])
def test_special_values_of_f64(hip, name):
    result = launch_f64(hip, f"%z = math.{name} %x : f64", SPECIAL, SPECIAL)
    reference = REFERENCES.get(name) or math_accuracy.CASES[name][0]
    with np.errstate(all="ignore"):
        expected = reference(np.array(SPECIAL))
    assert_same(result, expected)


ZERO_OF_ZERO = ("asin", "asinh", "atan", "atanh", "cbrt", "erf", "expm1", "log1p", "sin", "sinh", "sqrt", "tan", "tanh")


@pytest.mark.parametrize("name", ZERO_OF_ZERO)
def test_zeros_keep_their_sign_in_f32(hip, name):
    x, result = np.resize(np.array([0.0, -0.0], np.float32), 64), np.full(64, 7, np.float32)
    arch = runtime.device_info().arch
    math_accuracy.launch(hip, math_accuracy.compile_body(f"%z = math.{name} %x : f32", arch), [x, x, result])
    assert (result == 0).all() and (np.signbit(result) == np.signbit(x)).all()


@pytest.mark.parametrize("name", math_accuracy.BINARY)
def test_special_pairs_of_f64(hip, name):
    values = [*SPECIAL, 2.0, -2.0, 3.0, -3.0, 2.0**53 + 2, -(2.0**53) - 2, 1e10, 1e-200]
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    result = launch_f64(hip, f"%z = math.{name} %x, %y : f64", x, y)
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](x, y)
    assert_same(result, expected)


def test_exact_results_of_f64(hip):
    """Results that are representable come out exactly."""
    roots = np.arange(1.0, 65)
    np.testing.assert_array_equal(launch_f64(hip, "%z = math.cbrt %x : f64", roots**3, roots), roots)
    powers = np.arange(-22.0, 23)
    exponents = np.arange(-1074.0, 1024, 17)
    result = launch_f64(hip, "%z = math.log2 %x : f64", np.exp2(exponents), exponents)
    np.testing.assert_array_equal(result, exponents)
    np.testing.assert_array_equal(launch_f64(hip, "%z = math.exp2 %x : f64", exponents, exponents), np.exp2(exponents))
    result = launch_f64(hip, "%z = math.log10 %x : f64", 10.0 ** powers[22:], powers[22:])
    np.testing.assert_array_equal(result, powers[22:])
    result = launch_f64(hip, "%z = math.powf %x, %y : f64", np.full(34, 3.0), np.arange(34.0))
    np.testing.assert_array_equal(result, 3.0 ** np.arange(34))


def test_integer_power_and_pairs_of_f64(hip):
    x, y = np.array([2.0, -3.0, 0.5, 10.0]), np.array([10.0, 3.0, -4.0, 22.0])
    result = launch_f64(hip, "%m = arith.fptosi %y : f64 to i32\n%z = math.fpowi %x, %m : f64, i32", x, y)
    np.testing.assert_array_equal(result, x**y)
    result = launch_f64(hip, "%u, %w = math.sincos %x : f64\n%z = arith.divf %u, %w : f64", x, y)
    np.testing.assert_allclose(result, np.tan(x), rtol=1e-15)


def test_vectors_of_f64(hip):
    body = """%v = vector.from_elements %x, %y, %y, %x : vector<2x2xf64>
      %w = math.erf %v : vector<2x2xf64>
      %u = vector.extract %w[0, 0] : f64 from vector<2x2xf64>
      %k = vector.extract %w[1, 0] : f64 from vector<2x2xf64>
      %z = arith.subf %u, %k : f64"""
    x, y = np.linspace(-2, 2, 64), np.linspace(0.1, 1.3, 64)
    erf = np.vectorize(math.erf)
    np.testing.assert_allclose(launch_f64(hip, body, x, y), erf(x) - erf(y), rtol=0, atol=1e-15)


def pairs(values):
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, np.float32), np.array(values, np.float32)))
    padding = -len(x) % 64
    return (np.concatenate([a, np.ones(padding, np.float32)]).astype(np.float32) for a in (x, y))


@pytest.mark.parametrize(("name", "reference"), [("powf", np.power), ("atan2", np.arctan2)])
def test_special_values_of_two_arguments(hip, name, reference):
    inf, nan = np.inf, np.nan
    x, y = pairs([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, inf, -inf, nan, 1e-40, 3e38, 1e10, -1e10])
    result = np.full_like(x, 77)
    math_accuracy.launch(hip, math_accuracy.compile_operation(name, runtime.device_info().arch), [x, y, result])
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
        close = np.abs(result - expected) <= 4 * np.spacing(np.abs(expected))
    same = (result == expected) & (np.signbit(result) == np.signbit(expected)) | np.isnan(result) & np.isnan(expected)
    wrong = ~(same | close)
    assert not wrong.any(), list(zip(x[wrong], y[wrong], result[wrong], expected[wrong], strict=True))[:8]


@pytest.mark.parametrize("name", [n for n in math_accuracy.CASES if n not in math_accuracy.BINARY])
def test_special_values(hip, name):
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, -5000.0, -1e5]
    x = np.resize(np.array(values, np.float32), 64)
    result = np.full_like(x, 77)
    math_accuracy.launch(hip, math_accuracy.compile_operation(name, runtime.device_info().arch), [x, x.copy(), result])
    with np.errstate(all="ignore"):
        expected = math_accuracy.CASES[name][0](x.astype(np.float64)).astype(np.float32)
        close = np.abs(result - expected) <= 4 * np.spacing(np.abs(expected))
    same = (result == expected) | np.isnan(result) & np.isnan(expected)
    wrong = ~(same | close)
    assert not wrong.any(), list(zip(x[wrong], result[wrong], expected[wrong], strict=True))[:8]


def directed(value: float, mode: str) -> np.float16:
    """The f16 that ``value`` is rounded to."""
    nearest = np.float16(value)
    below = nearest if np.float64(nearest) <= value else np.nextafter(nearest, np.float16(-np.inf))
    above = nearest if np.float64(nearest) >= value else np.nextafter(nearest, np.float16(np.inf))
    if mode != "to_nearest_away":
        return {"upward": above, "downward": below, "toward_zero": below if value > 0 else above}[mode]
    low, high = value - np.float64(below), np.float64(above) - value
    return (above if high <= low else below) if value > 0 else (below if low <= high else above)


@pytest.mark.parametrize("mode", ["upward", "downward", "toward_zero", "to_nearest_away"])
def test_rounding_modes(hip, mode):
    rng = np.random.default_rng(3)
    values = [rng.choice((-1, 1)) * 2.0 ** rng.uniform(-10, 15) for _ in range(120)]
    values += [1 + 2.0**-11, -1 - 2.0**-11, 1 + 3 * 2.0**-11, -1 - 3 * 2.0**-11, 2.0, -0.5, 0.0, -0.0]  # ties, exact
    x = np.array(values, np.float32)
    result = np.full_like(x, 77)
    body = f"%h = arith.truncf %x {mode} : f32 to f16\n%z = arith.extf %h : f16 to f32"
    math_accuracy.launch(hip, math_accuracy.compile_body(body, runtime.device_info().arch), [x, x.copy(), result])
    np.testing.assert_array_equal(result, np.array([directed(float(v), mode) for v in x], np.float32))


def test_clamp(hip):
    x = np.tile(np.array([-2, -0.5, 0, 0.5, 2, np.inf, -np.inf, np.nan], np.float32), 8)
    result = np.full_like(x, 77)
    body = (
        "%low = arith.constant -1.0 : f32\n%high = arith.constant 1.0 : f32\n%z = math.clampf %x to [%low, %high] : f32"
    )
    math_accuracy.launch(hip, math_accuracy.compile_body(body, runtime.device_info().arch), [x, x.copy(), result])
    np.testing.assert_array_equal(result, np.clip(x, -1, 1))


def test_integer_power(hip):
    x = np.tile(np.array([0, 1, -1, 2, -2, 3, 7, -5], np.float32), 8)
    y = np.repeat(np.array([0, 1, 2, 3, 5, 8, -1, -2], np.float32), 8)
    result = np.full_like(x, 77)
    body = (
        "%u = arith.fptosi %x : f32 to i32\n%w = arith.fptosi %y : f32 to i32\n"
        "%power = math.ipowi %u, %w : i32\n%z = arith.sitofp %power : i32 to f32"
    )
    math_accuracy.launch(hip, math_accuracy.compile_body(body, runtime.device_info().arch), [x, y, result])
    defined = ~((x == 0) & (y < 0))
    expected = [int(float(a) ** float(b)) if b >= 0 or a != 0 else 0 for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(result[defined], np.array(expected, np.float32)[defined])


def test_remainder(hip):
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-1000, 1000, 64).astype(np.float32), rng.uniform(0.5, 9, 64).astype(np.float32)
    result = np.full_like(x, 77)
    math_accuracy.launch(hip, math_accuracy.compile_body("%z = arith.remf %x, %y : f32", runtime.device_info().arch),
                         [x, y, result])
    np.testing.assert_array_equal(result, np.fmod(x, y))
