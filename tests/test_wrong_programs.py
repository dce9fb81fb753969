"""Mistakes that users make, through the whole stack: each is an exception at the user's line, never a wrong result."""

import re
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch

SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


def run(kernel, block=64, tensor=None):
    @flyc.jit
    def launch(C: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(C).launch(grid=1, block=block, stream=stream)

    launch(np.zeros((64, 64), np.float32) if tensor is None else tensor)
    rt.synchronize()


@flyc.kernel
def store_of_another_type(C: fx.Tensor):
    r = fx.make_rmem_tensor(4, fx.Float16)
    r.store(fx.full(4, 1.0, fx.Float32))  # here: convert it with .to()


@flyc.kernel
def too_much_lds(C: fx.Tensor):
    big = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 100000, 16]).peek()  # here: 400000 bytes
    C[0, 0] = big[fx.thread_idx.x]


@flyc.kernel
def value_of_one_branch(C: fx.Tensor):
    if fx.thread_idx.x < 4:
        y = C[0, 0] + 1
    C[0, 0] = y  # here: y is not defined


@flyc.kernel
def type_changes_in_loop(C: fx.Tensor):
    total = fx.Float32(0)
    for i in range(10):  # here: total .* expected Float32
        total = i
    C[0, 0] = total


@flyc.kernel
def coordinate_too_long(C: fx.Tensor):
    C[0, 0] = C[0, 0, 0]  # here: 3 entries .* rank 2


@flyc.kernel
def list_at_a_run_time_index(C: fx.Tensor):
    numbers = [1.0, 2.0, 3.0]
    C[0, 0] = fx.Float32(numbers[fx.thread_idx.x])  # here: only known at run time


@flyc.kernel
def buffer_copy_of_a_plain_tensor(C: fx.Tensor):
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    fx.copy_atom_call(atom, fx.logical_divide(C[0, None], fx.make_layout(1, 1))[None, 0],  # here: buffer_desc
                      fx.make_rmem_tensor(1, fx.Float32))


@flyc.kernel
def fragment_of_run_time_shape(C: fx.Tensor):
    fx.make_fragment_like(C)  # here: static shape


MISTAKES = [store_of_another_type, too_much_lds, value_of_one_branch, type_changes_in_loop, coordinate_too_long,
            list_at_a_run_time_index, buffer_copy_of_a_plain_tensor, fragment_of_run_time_shape]


@pytest.mark.parametrize("kernel", MISTAKES, ids=lambda kernel: kernel.__name__)
def test_mistake_is_told_at_its_line(kernel):
    start = next(i for i, line in enumerate(SOURCE) if line.startswith(f"def {kernel.__name__}("))
    line = next(i for i in range(start, len(SOURCE)) if "# here: " in SOURCE[i])
    expected = SOURCE[line].split("# here: ")[1]
    with pytest.raises(Exception) as caught:
        run(kernel)
    text = str(caught.value)
    assert re.search(expected, text), text
    assert f"line {line + 1}" in text, text
    assert __file__ in text
    assert "site-packages" not in text and "/flydsl/" not in text.replace(__file__, ""), text


@flyc.kernel
def past_the_end(C: fx.Tensor):
    C[fx.thread_idx.x + 100, 0] = fx.Float32(1.0)


def test_writing_past_an_array_is_an_exception_and_leaves_the_process_alone():
    around = np.zeros((600, 64), np.float32)
    with pytest.raises(rt.HipError, match="past_the_end.*write of 4 bytes.*not in any allocation"):
        run(past_the_end, tensor=around[:64].copy())
    assert not around.any()
    run(past_the_end, tensor=around)  # the device goes on working
    assert around[100:164, 0].all()


def test_wrong_number_of_threads():
    @flyc.kernel(known_block_size=[128, 1, 1])
    def kernel(C: fx.Tensor):
        C[0, fx.thread_idx.x] = fx.Float32(1.0)

    with pytest.raises(Exception, match="128"):
        run(kernel, block=64)


def test_too_many_threads():
    @flyc.kernel
    def kernel(C: fx.Tensor):
        C[0, 0] = fx.Float32(1.0)

    with pytest.raises(Exception, match="2048|1024"):
        run(kernel, block=2048)


def test_tensor_of_another_type_is_a_new_specialisation():
    @flyc.kernel
    def kernel(C: fx.Tensor):
        C[0, fx.thread_idx.x] = C[1, fx.thread_idx.x] + C[1, fx.thread_idx.x]

    for dtype in (np.float32, np.float16, np.int32, np.int64):
        c = np.zeros((2, 64), dtype)
        c[1] = np.arange(64)
        run(kernel, tensor=c)
        np.testing.assert_array_equal(c[0], 2 * np.arange(64), err_msg=f"{dtype} on {get_rocm_arch()}")
