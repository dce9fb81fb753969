"""ops.add on the device (the simulator where there is no GPU) against NumPy."""

import numpy as np
import pytest

from flydsl.kernels import ops
from flydsl.kernels.elementwise import build_add_module


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(1, 8), (4, 128), (5, 136), (33, 1000), (100, 64)])
def test_add_equals_numpy(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    a, b = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(ops.add(a, b), a + b)


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
        (np.zeros(8, np.float32), np.zeros(8, np.float32), ValueError, "rank 1"),
        (np.zeros((4, 6), np.float32), np.zeros((4, 6), np.float32), ValueError, "multiple of 4"),
        (np.zeros((8, 8), np.float32).T[:4], np.zeros((4, 8), np.float32), ValueError, "row-major"),
    ],
)
def test_unsupported_operands_are_refused(a, b, error, text):
    with pytest.raises(error, match=text):
        ops.add(a, b)


def test_unknown_dtype_of_builder():
    with pytest.raises(ValueError, match="f32, f16, bf16"):
        build_add_module("f64")
