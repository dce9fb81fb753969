"""`fx.host_assert`: what a launch needs of its arguments."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt


@flyc.kernel
def fill(out: fx.Tensor, value: fx.Int32):
    out[fx.thread_idx.x] = value


@flyc.jit
def checked(out: fx.Tensor, n: fx.Int32, blocks: fx.Constexpr[int]):
    fill(out, fx.Int32(1)).launch(grid=(1, 1, 1), block=(64, 1, 1))
    fx.host_assert((n % 64 == 0) & (n > 0), "n must be a multiple of 64")
    fx.host_assert(blocks > 0, "blocks must be positive")
    fill(out, n).launch(grid=(blocks, 1, 1), block=(64, 1, 1))


def test_a_condition_of_each_launch():
    out = np.zeros(64, np.int32)
    checked(out, 128, 1)
    assert (out == 128).all()
    for bad in (0, 65):
        out[:] = 0
        with pytest.raises(ValueError, match="n must be a multiple of 64"):
            checked(out, bad, 1)
        rt.synchronize()
        assert (out == 1).all()  # the launch before it was made, the one behind it was not
    checked(out, 64, 1)
    assert (out == 64).all()


def test_a_condition_that_is_known():
    with pytest.raises(ValueError, match="blocks must be positive"):
        checked(np.zeros(64, np.int32), 64, 0)


def test_conditions_on_layouts():
    @flyc.jit
    def launch(x: fx.Tensor):
        fx.host_assert(fx.get_scalar(fx.get(fx.get_stride(x), 1)) == 1, "columns must be consecutive")

    x = np.zeros((8, 8), np.int32)
    launch(x)
    with pytest.raises(AssertionError, match="columns must be consecutive"):
        launch(x.T)


def test_what_is_no_condition():
    @flyc.jit
    def launch(x: fx.Tensor, n: fx.Int32):
        fx.host_assert(n, "n")

    with pytest.raises(TypeError, match="host_assert takes a Boolean"):
        launch(np.zeros(1, np.int32), 3)


def test_in_a_kernel():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        fx.host_assert(fx.thread_idx.x < 64, "lanes")

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=(1, 1, 1), block=(64, 1, 1))

    with pytest.raises(RuntimeError, match="checked on the host"):
        launch(np.zeros(1, np.int32))
