"""Accuracy and special cases of math operations, measured on the device of flydsl.runtime."""

import ctypes
import importlib.util
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
}  # fmt: skip


@pytest.fixture(scope="module")
def hip():
    return ctypes.CDLL(str(runtime.library_path()))


@pytest.mark.parametrize("name", math_accuracy.CASES)
def test_error_bound(hip, name):
    error, where = math_accuracy.measure(hip, name, runtime.device_info().arch, 64 * 256)
    assert error <= BOUNDS[name], f"{error} ulp at {where}"


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
    same = (result == expected) & (np.signbit(result) == np.signbit(expected)) | np.isnan(result) & np.isnan(expected)
    close = np.abs(result - expected) <= 4 * np.spacing(np.abs(expected))
    wrong = ~(same | close)
    assert not wrong.any(), list(zip(x[wrong], y[wrong], result[wrong], expected[wrong], strict=True))[:8]


@pytest.mark.parametrize("name", [n for n in math_accuracy.CASES if n not in math_accuracy.BINARY])
def test_special_values(hip, name):
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5], np.float32)
    x = np.tile(values, 8)
    result = np.full_like(x, 77)
    math_accuracy.launch(hip, math_accuracy.compile_operation(name, runtime.device_info().arch), [x, x.copy(), result])
    with np.errstate(all="ignore"):
        expected = math_accuracy.CASES[name][0](x.astype(np.float64)).astype(np.float32)
    same = (result == expected) | np.isnan(result) & np.isnan(expected)
    close = np.abs(result - expected) <= 4 * np.spacing(np.abs(expected))
    wrong = ~(same | close)
    assert not wrong.any(), list(zip(x[wrong], result[wrong], expected[wrong], strict=True))[:8]
