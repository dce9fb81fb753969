"""ops.add on the device (the simulator where there is no GPU) against NumPy."""

import numpy as np
import pytest

from flydsl.kernels import ops
from flydsl.kernels.elementwise import build_add_module

pytestmark = pytest.mark.each_wave_size


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(1, 8), (4, 128), (5, 136), (33, 1000), (100, 64), (), (1,), (7,), (3, 5), (8, 3),
                                   (4, 1023), (2, 3, 40), (128, 33)])
def test_add_equals_numpy(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    a, b = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(ops.add(a, b), a + b)


@pytest.mark.parametrize("first", [0, 1, 2, 4, 8])
def test_operands_that_begin_anywhere(first):
    a, b = np.random.default_rng(5).standard_normal((2, 200)).astype(np.float16)
    np.testing.assert_array_equal(ops.add(a[first : first + 160], b[:160]), a[first : first + 160] + b[:160])


def test_operands_of_any_stride():
    a, b = np.random.default_rng(6).standard_normal((2, 24, 20)).astype(np.float32)
    np.testing.assert_array_equal(ops.add(a.T, b.T), (a + b).T)
    np.testing.assert_array_equal(ops.add(a[::2, 1::3], b[::-2, 1::3]), a[::2, 1::3] + b[::-2, 1::3])


def test_the_launcher_leaves_memory_after_the_matrix_alone():
    rows, cols = 3, 20
    whole = np.full((rows + 1) * cols, 7.0, np.float32)
    out = whole[: rows * cols].reshape(rows, cols)
    a = np.random.default_rng(0).standard_normal((rows, cols)).astype(np.float32)
    build_add_module("f32")(a, a, out, rows, cols)
    np.testing.assert_array_equal(out, a + a)
    np.testing.assert_array_equal(whole[rows * cols :], 7.0)


def test_empty_matrix_needs_no_launch():
    assert ops.add(np.empty((0, 8), np.float32), np.empty((0, 8), np.float32)).shape == (0, 8)


def test_operands_are_left_alone():
    a = np.ones((4, 8), np.float32)
    ops.add(a, a)
    np.testing.assert_array_equal(a, 1)


@pytest.mark.parametrize(
    ("a", "b", "error", "text"),
    [
        (np.zeros((4, 8), np.float64), np.zeros((4, 8), np.float64), TypeError, "float64 is not supported"),
        (np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float16), TypeError, "one dtype"),
        (np.zeros((4, 8), np.float32), np.zeros((8, 4), np.float32), ValueError, "one shape"),
    ],
)
def test_unsupported_operands_are_refused(a, b, error, text):
    with pytest.raises(error, match=text):
        ops.add(a, b)


@pytest.mark.parametrize("vector", [0, 3, 8])
def test_unknown_vector_of_builder(vector):
    with pytest.raises(ValueError, match="vector must be a power of two of at most 4 for f32"):
        build_add_module("f32", vector)


def test_unknown_dtype_of_builder():
    with pytest.raises(ValueError, match="f32, f16, bf16"):
        build_add_module("f64")
