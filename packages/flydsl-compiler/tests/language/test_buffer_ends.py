"""Buffer tensors whose end, or whose rows, split a word of 32 bits: every element is copied, and nothing behind them.

The code for arrays of whole words has the wide accesses that it always had.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch
from flydsl.tracing.diagnostics import DSLCompileError

ARCH = get_rocm_arch().split(":")[0]
TYPES = {"f16": np.float16, "u8": np.uint8, "i16": np.int16, "f32": np.float32, "bool": np.bool_}


@flyc.kernel
def copy_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, how: fx.Constexpr[str]):
    t = fx.thread_idx.x
    if fx.const_expr("view" in how):
        X, Y = [fx.make_view(fx.get_iter(v), fx.make_layout(n, 1)) for v in (X, Y)]
    X, Y = fx.rocdl.make_buffer_tensor(X), fx.rocdl.make_buffer_tensor(Y)
    x, y = [fx.logical_divide(v, fx.make_layout(4, 1)) for v in (X, Y)]
    if fx.const_expr("vector" in how):
        y[None, t].store(x[None, t].load())
    else:
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy(4 * X.dtype.width), X.dtype)
        r = fx.make_rmem_tensor(4, X.dtype)
        if fx.const_expr("call" in how):
            fx.copy_atom_call(atom, x[None, t], r)
            fx.copy_atom_call(atom, r, y[None, t])
        elif fx.const_expr("loop" in how):
            for i in range(2):
                if i == t // 32:
                    fx.copy(atom, x[None, i * 32 + t % 32], r)
                    fx.copy(atom, r, y[None, i * 32 + t % 32])
        else:
            fx.copy(atom, x[None, t], r)
            fx.copy(atom, r, y[None, t])


@flyc.jit
def copy(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, how: fx.Constexpr[str]):
    copy_kernel(X, Y, n, how).launch(grid=1, block=64)


def arrays(n: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers without a zero, and poison of which the first `n` elements are to be written."""
    dtype = TYPES[kind]
    return (np.random.default_rng(n).integers(1, 100, n)).astype(dtype), np.zeros(n + 8, dtype)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("how", ["copy", "vector", "call", "loop", "copy of a view", "vector of a view"])
@pytest.mark.parametrize("static", [False, True])
def test_every_element(how: str, kind: str, static: bool) -> None:
    if kind == "bool" and "vector" not in how:
        pytest.skip("copy atoms move Booleans one at a time")
    # A static view of one element stands for an address: the atom says what moves.
    for n in (203, 256, 201, 202, *(() if static else (1,))):
        x, whole = arrays(n, kind)
        y = whole[:n]
        copy(*((flyc.from_dlpack(x), flyc.from_dlpack(y)) if static else (x, y)), n, how)
        np.testing.assert_array_equal(y, x, f"{n} elements")
        assert not whole[n:].any(), f"{n} elements"


@flyc.kernel
def rows_kernel(X: fx.Tensor, Y: fx.Tensor):
    """Pairs of elements of the rows of a matrix with rows of odd length, and their last elements."""
    t = fx.thread_idx.x
    X, Y = fx.rocdl.make_buffer_tensor(X), fx.rocdl.make_buffer_tensor(Y)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float16)
    r = fx.make_rmem_tensor(2, fx.Float16)
    x, y = fx.flat_divide(X, (1, 2)), fx.flat_divide(Y, (1, 2))
    if t < 8:
        fx.copy(atom, x[0, None, t // 2, t % 2], r)
        fx.copy(atom, r, y[0, None, t // 2, t % 2])
    else:
        Y[t - 8, 4] = X[t - 8, 4]


@flyc.jit
def copy_rows(X: fx.Tensor, Y: fx.Tensor):
    rows_kernel(X, Y).launch(grid=1, block=12)


def test_rows_of_odd_length() -> None:
    """The array has whole words, but the accesses of its odd rows do not begin at one."""
    whole = np.zeros((4, 7), np.float16)
    numbers = np.arange(1, 29).astype(np.float16)
    for x in (numbers[:20].reshape(4, 5), numbers.reshape(4, 7)[:, :5]):
        for y in (np.zeros((4, 5), np.float16), whole[:, :5]):
            y[...] = 0
            copy_rows(x, y)
            np.testing.assert_array_equal(y, x)
    assert not whole[:, 5:].any()


@flyc.kernel
def predicated_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, call: fx.Constexpr[bool]):
    """Every second group of four elements that is not all behind the end."""
    t = fx.thread_idx.x
    X, Y = fx.rocdl.make_buffer_tensor(X), fx.rocdl.make_buffer_tensor(Y)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(4 * X.dtype.width), X.dtype)
    r = fx.make_rmem_tensor(fx.make_layout((4, 2), (1, 4)), X.dtype)
    pred = fx.make_rmem_tensor(2, fx.Boolean)
    r.fill(77)
    for j in fx.range_constexpr(2):
        pred[j] = (8 * t + 4 * j < n) & ((2 * t + j) % 2 == 0)
    x, y = [fx.logical_divide(fx.flat_divide(v, fx.make_tile(8))[None, t], fx.make_layout(4, 1)) for v in (X, Y)]
    if fx.const_expr(call):
        for j in fx.range_constexpr(2):
            p = fx.make_rmem_tensor(1, fx.Boolean)
            p[0] = pred[j]
            fx.copy_atom_call(atom, x[None, j], r[None, j], pred=p)
            fx.copy_atom_call(atom, r[None, j], y[None, j], pred=p)
    else:
        fx.copy(atom, x, r, pred=pred)
        fx.copy(atom, r, y, pred=pred)
    if t == 0:
        Y[0] = r[0, 1]  # what a false predicate leaves as it was


@flyc.jit
def copy_predicated(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, call: fx.Constexpr[bool]):
    predicated_kernel(X, Y, n, call).launch(grid=1, block=32)


@pytest.mark.parametrize("kind", ["f16", "u8", "f32"])
@pytest.mark.parametrize("call", [False, True])
def test_predicates(kind: str, call: bool) -> None:
    for n in (203, 201, 256):
        x, whole = arrays(n, kind)
        copy_predicated(x, whole[:n], n, call)
        wanted = np.where(np.arange(n) // 4 % 2 == 0, x, 0)
        wanted[0] = 77
        np.testing.assert_array_equal(whole[:n], wanted, f"{n} elements")
        assert not whole[n:].any()


@flyc.kernel
def tile_kernel(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, tiled: fx.TiledCopy, how: fx.Constexpr[str],
                vec: fx.Constexpr[int]):
    """A tile of which only the first `rows` rows are copied; an access of `vec` elements has one predicate."""
    if fx.const_expr(how == "buffer"):
        X, Y = fx.rocdl.make_buffer_tensor(X), fx.rocdl.make_buffer_tensor(Y)
    make = fx.rocdl.BufferCopy if fx.const_expr(how == "buffer") else fx.UniversalCopy
    atom = fx.make_copy_atom(make(vec * 16), fx.Float16)
    thread = tiled.get_slice(fx.thread_idx.x)
    x, y = thread.partition_S(X), thread.partition_D(Y)
    places = thread.partition_S(fx.make_view((0, 0), fx.make_identity_layout(X.shape)))
    places = places[(0, None), None, None]  # one for each access
    pred = fx.make_fragment_like(places, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(pred.shape).unpack()):
        pred[i] = fx.elem_less(places[i], (rows, 1000))
    r = fx.make_fragment_like(x)
    r.fill(0)
    fx.copy(atom, x, r, pred=pred)
    fx.copy(atom, r, y, pred=pred)


@flyc.jit
def copy_tile(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, values: fx.Constexpr[tuple[int, int]],
              how: fx.Constexpr[str], vec: fx.Constexpr[int]):
    atom = fx.make_copy_atom(fx.UniversalCopy(vec * 16), fx.Float16)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 2), (2, 1)),
                                  fx.make_layout(values, (1, values[0]) if vec == 1 else (values[1], 1)))
    tile_kernel(X, Y, rows, tiled, how, vec).launch(grid=1, block=8)


@pytest.mark.parametrize("how", ["buffer", "global"])
@pytest.mark.parametrize(("values", "vec"), [((2, 2), 1), ((1, 4), 2), ((2, 4), 2)])
def test_predicates_of_tiles(values: tuple[int, int], vec: int, how: str) -> None:
    """Each access of a thread has a predicate of its own, whatever the shape of the values and of the array."""
    tile = (4 * values[0], 2 * values[1])
    for width in (tile[1], tile[1] + 1):  # whole words, or rows that split them
        if width != tile[1] and how == "global" and vec > 1:
            continue  # rows of odd length are not aligned for the access
        x = np.arange(1, 1 + tile[0] * width).astype(np.float16).reshape(tile[0], width)[:, :tile[1]]
        for rows in (tile[0] - 1, 1):
            y = np.zeros_like(x)
            with rt.checked("oob") as report:
                copy_tile(flyc.from_dlpack(x), flyc.from_dlpack(y), rows, values, how, vec)
            assert not report
            np.testing.assert_array_equal(y[:rows], x[:rows])
            assert not y[rows:].any()


@flyc.kernel
def misfit_kernel(X: fx.Tensor):
    x = fx.logical_divide(fx.rocdl.make_buffer_tensor(X), fx.make_layout(2, 1))
    fx.copy(fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float16), fx.make_fragment_like(x), x,
            pred=fx.make_rmem_tensor(3, fx.Boolean))


@flyc.jit
def misfit(X: fx.Tensor):
    misfit_kernel(X).launch(grid=1, block=1)


def test_a_predicate_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="fits neither the 1 calls of mode 0 of .* nor its 4 groups"):
        misfit(flyc.from_dlpack(np.zeros(9, np.float16)[:7]))


class Scaler:
    @flyc.jit
    def copy(self, X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
        copy_kernel(X, Y, n, "vector").launch(grid=1, block=64)


def test_methods() -> None:
    scaler = Scaler()
    for n in (203, 256, 201):
        x, whole = arrays(n, "f16")
        scaler.copy(x, whole[:n], n)
        np.testing.assert_array_equal(whole[:n], x)
        assert not whole[n:].any()


one_architecture = pytest.mark.skipif(ARCH != "gfx942", reason="of the language, not of an architecture")


def accesses(compiled: Any) -> set[str]:
    """Buffer loads and stores of the machine code."""
    from flydsl.runtime import disasm

    return set(re.findall(r"buffer_(?:load|store)_\w+", str(disasm(compiled.artifact.hsaco))))


@one_architecture
@pytest.mark.parametrize("how", ["copy", "vector"])
def test_whole_words_are_copied_as_before(how: str) -> None:
    x, y = arrays(256, "f16")
    assert accesses(flyc.compile(copy, x, y[:256], 256, how)) == {"buffer_load_dwordx2", "buffer_store_dwordx2"}
    split = flyc.compile(copy.with_hints({"partial_words": True}), x, y[:256], 256, how)
    assert accesses(split) == {"buffer_load_ushort", "buffer_store_short"}
    split(x[:203], y[:203], 203, how)
    np.testing.assert_array_equal(y[:203], x[:203])
    assert not y[203:].any()


@one_architecture
def test_compiled_objects_say_so() -> None:
    x, y = arrays(256, "f16")
    compiled = flyc.compile(copy, x, y[:256], 256, "copy")
    with pytest.raises(ValueError, match=r"argument 'X'.*whole 32-bit words.*extent of dimension 0 is 203 elements.*"
                                         r"bounds=True.*\"partial_words\": True"):
        compiled(x[:203], y[:203], 203, "copy")
    rows = flyc.compile(copy_rows, np.zeros((4, 6), np.float16), np.zeros((4, 6), np.float16))
    with pytest.raises(ValueError, match="argument 'Y'.*stride of dimension 0 is 5 elements"):
        rows(np.zeros((4, 6), np.float16), np.zeros((4, 5), np.float16))


@one_architecture
@pytest.mark.parametrize("given", ["max_size=True", "num_records_bytes=512"])
def test_a_size_that_is_given_is_taken(given: str, load: Callable[[str], Any], device: None) -> None:
    """Whoever gives a size knows where the resource ends: one compile for all arrays."""
    module = load(f"""
    @flyc.kernel
    def k(X: fx.Tensor, Y: fx.Tensor):
        x = fx.logical_divide(fx.rocdl.make_buffer_tensor(X, {given}), fx.make_layout(4, 1))
        fx.logical_divide(Y, fx.make_layout(4, 1))[None, fx.thread_idx.x].store(x[None, fx.thread_idx.x].load())

    @flyc.jit
    def run(X: fx.Tensor, Y: fx.Tensor):
        k(X, Y).launch(grid=1, block=32)
    """)
    x, y = arrays(256, "f16")
    for n in (203, 256):
        module.run(x[:n], y)
        np.testing.assert_array_equal(y[:128], x[:128])
    assert module.run.cache_info().misses <= 1


@one_architecture
def test_direct_loads_of_split_words_are_refused(load: Callable[[str], Any], device: None) -> None:
    module = load("""
    @flyc.kernel
    def k(X: fx.Tensor, Y: fx.Tensor):
        t = fx.thread_idx.x
        x = fx.logical_divide(fx.rocdl.make_buffer_tensor(X), fx.make_layout(2, 1))
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 128, 16]).peek().view(fx.make_layout(128, 1))
        atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float16)
        fx.copy(atom, x[None, t], fx.logical_divide(lds, fx.make_layout(2, 1))[None, 0])
        fx.barrier()
        Y[2 * t] = lds[2 * t]

    @flyc.jit
    def run(X: fx.Tensor, Y: fx.Tensor):
        k(X, Y).launch(grid=1, block=64)
    """)
    x, y = arrays(128, "f16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.run(x, y)
    np.testing.assert_array_equal(y[:128:2], x[::2])
    with pytest.raises(DSLCompileError, match="a direct load into LDS moves whole words.*copy through registers"):
        module.run(x[:127], y)


@pytest.mark.skipif("FLYDSL_TEST_ONE_ARCH" in os.environ, reason="this is the process for one architecture")
@pytest.mark.parametrize("arch", ["gfx950", "gfx1201", "gfx1250"])
def test_on_every_architecture(arch: str) -> None:
    run_on(arch, Path(__file__), FLYDSL_TEST_ONE_ARCH="1", FLYDSL_SIM_CHECK="oob,uninit")
