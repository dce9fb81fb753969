"""Loads of what nothing writes while a kernel runs."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.ir


@flyc.kernel
def gather(Table, X, Out, behind: fx.Constexpr):  # noqa: N803
    Out[fx.thread_idx.x] = fx.Int32(0)
    fx.rocdl.s_barrier()
    start = fx.get_iter(Table) + fx.block_idx.x
    number = fx.generic_load(start, invariant=True) if behind else start.load()
    Out[fx.thread_idx.x] = X[number * 64 + fx.thread_idx.x]


@pytest.mark.parametrize("invariant", [True, False])
def test_a_uniform_address_behind_a_store_and_a_barrier(invariant):
    @flyc.jit
    def run(Table, X, Out, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        gather(Table, X, Out, invariant).launch(grid=1, block=64, stream=stream)

    table, x, out = np.array([3], np.int32), np.arange(512, dtype=np.int32), np.zeros(64, np.int32)
    run(table, x, out)
    np.testing.assert_array_equal(out, x[192:256])
    text = flydsl.ir.disassemble(flyc.compile(run, table, x, out).artifact.hsaco)
    vector = sum("global_load" in line or "buffer_load" in line for line in text.splitlines())
    assert vector == (1 if invariant else 2)


@flyc.kernel
def refused(Table, how: fx.Constexpr):  # noqa: N803
    pointer = fx.get_iter(Table)
    if fx.const_expr(how == "shared"):
        pointer = fx.SharedAllocator(static=False).allocate(fx.Array[fx.Int32, 4]).ptr
    order = fx.AtomicOrdering.Monotonic if how == "atomic" else fx.AtomicOrdering.NotAtomic
    fx.generic_load(pointer, invariant=True, memory_order=order, volatile=how == "volatile")


@pytest.mark.parametrize("how", ["shared", "atomic", "volatile"])
def test_what_may_change_is_not_invariant(how):
    @flyc.jit
    def run(Table, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        refused(Table, how).launch(grid=1, block=64, stream=stream)

    with pytest.raises(ValueError, match="an invariant load is a plain one of global memory"):
        run(np.zeros(4, np.int32))
