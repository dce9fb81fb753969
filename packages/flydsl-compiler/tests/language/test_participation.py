"""Exchanges between threads, copies and views that not all threads or bytes are there for: refused at their line."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.tracing.diagnostics import DSLCompileError

Run = Callable[..., np.ndarray]

EXCHANGES = {
    "workgroup": "g = fx.convert_layout(f, fx.make_layout((128, 4), (4, 1)), thread_values=tv)",
    "waves": "g = fx.reduce(f, 0, 'ADD', thread_values=tv)",
    "block": "g = [fx.coop.BlockReduce[fx.Float32, 128](f[0], 'ADD', storage=memory)]",
    "lanes": "g = fx.reduce(f, 0, 'ADD', thread_values=lanes)",
}
EXCHANGE = """
tv = fx.ThreadValues(fx.make_layout((128, 4), (1, 128)), (128, 4))
lanes = fx.ThreadValues(fx.make_layout(((16, 8), 4), ((1, 64), 16)), (16, 32))
memory = fx.SharedAllocator().allocate(fx.coop.BlockReduce[fx.Float32, 128].SharedStorage)
f = fx.make_rmem_tensor(4, fx.Float32)
f.fill(1.0)
Y[t] = 0.0
{condition}:
    {exchange}
    Y[t] = g[0]
"""
RIGHT = {"workgroup": 1.0, "waves": 128.0, "block": 128.0, "lanes": 16.0}


@pytest.mark.parametrize("condition", ["if t < 100", "if ~(t >= 40)", "for i in range(t % 4)",
                                       "if t % 2 + fx.Int32(1) > 1"])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_exchange_of_some_threads(exchange: str, condition: str, run: Run) -> None:
    body = EXCHANGE.format(condition=condition, exchange=EXCHANGES[exchange])
    with pytest.raises(ValueError, match="an exchange between threads takes .* only some of them come here"):
        run(body, block=128)


@pytest.mark.parametrize("condition", ["if t < 128", "if n > 3", "for i in range(2)", "if fx.block_idx.x == 0"])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_exchange_of_all_threads(exchange: str, condition: str, run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = run(EXCHANGE.format(condition=condition, exchange=EXCHANGES[exchange]), block=128)
    np.testing.assert_array_equal(out, RIGHT[exchange])


def test_lanes_of_whole_groups(run: Run) -> None:
    """16 lanes exchange: a branch that 32 of them enter leaves none of a group out."""
    out = run(EXCHANGE.format(condition="if t < 32", exchange=EXCHANGES["lanes"]), block=128)
    np.testing.assert_array_equal(out, [16.0] * 32 + [0.0] * 96)


def test_an_exchange_behind_a_guard_of_run_time(run: Run) -> None:
    body = EXCHANGE.format(condition="if t + fx.block_idx.x * 128 < n", exchange=EXCHANGES["waves"])
    with pytest.warns(UserWarning, match="whether a thread comes here depends on its index and on run-time values"):
        out = run(body, block=128, n=128)
    np.testing.assert_array_equal(out, 128.0)


# --------------------------------------------------------------------------- thread-value layouts that are given


def test_thread_values_of_the_language(run: Run) -> None:
    """A layout of the language, and one number for a tile of one mode."""
    out = run("""
    tv = fx.ThreadValues(fx.make_layout((64, 2), (1, 64)), 128)
    f = fx.make_rmem_tensor(2, fx.Float32)
    for i in fx.range_constexpr(2):
        f[i] = X[t + 64 * i]
    g = fx.convert_layout(f, fx.make_layout((64, 2), (2, 1)), thread_values=tv)
    for i in fx.range_constexpr(2):
        Y[2 * t + i] = g[i]
    """, x=np.arange(128, dtype=np.float32), y=np.zeros(128, np.float32))
    np.testing.assert_array_equal(out, np.arange(128))


def test_broadcasts_have_the_order_of_the_fragment(run: Run) -> None:
    """Tuple indices, too: row i of the tile holds 10 i + j, and each thread has 2 x 4 of it."""
    out = run("""
    tv = fx.ThreadValues(fx.make_layout((64, (2, 4)), (8, (1, 2))), (2, 256))
    f = fx.make_rmem_tensor((2, 4), fx.Float32)
    for i in fx.range_constexpr(2):
        for j in fx.range_constexpr(4):
            f[i, j] = fx.Float32(10.0 * i + j)
    rows = fx.reduce(f, 1, "MAX", thread_values=tv)
    spread = fx.broadcast_to(rows, tv)
    for i in fx.range_constexpr(2):
        for j in fx.range_constexpr(4):
            Y[t * 8 + i * 4 + j] = f.load()[i, j] - spread[i, j] + (f.load() - spread)[i, j]
    """, y=np.zeros(512, np.float32))
    np.testing.assert_array_equal(out.reshape(64, 2, 4), np.broadcast_to(2.0 * np.arange(-3, 1), (64, 2, 4)))


@pytest.mark.parametrize("call", ["fx.convert_layout(f, L, thread_values=L)", "fx.reduce(f, 0, 'ADD', thread_values=L)",
                                  "fx.layout_conversion(f, L, thread_values=(64, 2))"])
def test_a_layout_without_a_tile(call: str, run: Run) -> None:
    """It had been ignored in favour of what the fragment knew."""
    with pytest.raises(TypeError, match=r"thread_values= is an fx.ThreadValues\(layout, tile\)"):
        run(f"L = fx.make_layout((64, 2), (1, 64))\nf = fx.make_rmem_tensor(2, fx.Float32)\nf.fill(1.0)\n{call}")


# --------------------------------------------------------------------------- copies of more or fewer threads

COPY = """
atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
copy = fx.make_tiled_copy_tv(atom, fx.make_ordered_layout(({threads}, 4), (1, 0)),
                             fx.make_ordered_layout((1, 4), (1, 0)))
whole = fx.make_layout((64, 16), (16, 1))
A, B = [fx.flat_divide(fx.make_view(fx.get_iter(v), whole), ({threads}, 16))[None, None, 0, 0] for v in (X, Y)]
f = fx.make_fragment_like(copy.get_slice(t).partition_S(A))
"""
MOVE = """
thread = copy.get_slice({who})
fx.copy(atom, thread.partition_S(A), f)
fx.copy(atom, f, thread.partition_D(B))
"""


def copied(run: Run, body: str) -> np.ndarray:
    x = np.arange(1024, dtype=np.float32)
    return run(body, x=x, y=np.full(1024, -1, np.float32), block=64).reshape(64, 16)


def test_fewer_threads_than_the_copy_is_of(run: Run) -> None:
    body = COPY.format(threads=32)
    with pytest.raises(DSLCompileError, match="is of 128 threads, but only 64 execute it.*would be left out"):
        copied(run, body + MOVE.format(who="t"))
    out = copied(run, body + MOVE.format(who="t") + MOVE.format(who="t + 64"))
    np.testing.assert_array_equal(out[:32], np.arange(512).reshape(32, 16))
    assert (out[32:] == -1).all()


def test_more_threads_than_the_copy_is_of_along_the_columns(run: Run) -> None:
    """Position 8 of the tile is inside of it, but thread 32 would own row 8 of a tile of 8 rows."""
    body = COPY.format(threads=8)
    with pytest.raises(DSLCompileError, match="is of 32 threads, but 64 execute it"):
        copied(run, body + MOVE.format(who="t"))
    out = copied(run, body + MOVE.format(who="t % 32"))
    np.testing.assert_array_equal(out[:8], np.arange(128).reshape(8, 16))
    assert (out[8:] == -1).all()


def test_fewer_threads_than_the_product_is_of(run: Run) -> None:
    body = """
    atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    mma = fx.make_tiled_mma(atom, fx.make_layout((16, {columns}, 1), (1, 16, 0)))
    thread = mma.get_slice(t)
    c = thread.make_fragment_C((16, 8))
    c.fill(3.0)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy = fx.make_tiled_copy_C(store, mma).get_slice(t)
    fx.copy(store, copy.retile(c), copy.partition_D(fx.make_view(fx.get_iter(Y), fx.make_layout((16, 8), (8, 1)))))
    """
    out = run(body.format(columns=4), y=np.full(128, -1, np.float32))
    np.testing.assert_array_equal(out, 3.0)
    with pytest.raises(DSLCompileError, match="is of 128 threads, but only 64 execute it"):
        run(body.format(columns=8), y=np.full(128, -1, np.float32))


# --------------------------------------------------------------------------- views of more than there is


@pytest.mark.parametrize("view", [
    "memory.view(fx.make_layout((16, 8), (8, 1)))",
    "memory.view(fx.make_layout((8, 8), (9, 1)))",
    "fx.make_view(memory.ptr + 60, fx.make_layout(5, 1))",
    "fx.make_view(fx.recast_iter(fx.Float16, memory.ptr) + 8, fx.make_layout(121, 1))",
    "fx.make_view(fx.get_iter(memory.view(fx.make_layout(64, 1))) + 32, fx.make_layout((8, 5), (1, 8)))",
    "memory.view(fx.make_composed_layout(fx.static(fx.SwizzleType.get(1, 0, 2)), fx.make_layout((9, 8), (8, 1))))",
    "fx.make_view(fx.get_iter(f), fx.make_layout(5, 1))",
    "fx.make_view(fx.get_iter(f) + 1, fx.make_layout((2, 2), (1, 2)))",
    "fx.make_view(fx.get_iter(fx.make_fragment_like(f, fx.Float16)), fx.make_layout((4, 2), (1, 4)))",
])
def test_views_beyond_what_was_allocated(view: str, run: Run) -> None:
    allocate = "memory = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()\n"
    allocate += "f = fx.make_rmem_tensor(4, fx.Float32)\n"
    with pytest.raises(ValueError, match="a view of .* reaches beyond the .* bytes that were allocated"):
        run(allocate + view)


def test_views_of_all_that_was_allocated(run: Run) -> None:
    out = run("""
    memory = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()
    swizzle = fx.static(fx.SwizzleType.get(1, 0, 2))
    memory.view(fx.make_composed_layout(swizzle, fx.make_layout((8, 8), (8, 1))))[t // 8, t % 8] = X[t]
    fx.barrier()
    upper = fx.make_view(memory.ptr + 32, fx.make_layout((4, 8), (8, 1)))
    lower = fx.make_view(fx.recast_iter(fx.Float32, memory.ptr), fx.make_layout(32, 1))
    if t < 32:
        Y[t] = lower[t]
        Y[t + 32] = upper[t // 8, t % 8]
    """)
    places = np.arange(64)
    np.testing.assert_array_equal(out[places ^ (places >> 2 & 1)], places)


def test_views_whose_reach_another_layout_decides(run: Run) -> None:
    """Coordinates are counted by the inner layout, and a mode of stride 0 takes no memory."""
    out = run("""
    memory = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()
    swizzle = fx.static(fx.CoordSwizzleType.get(2, 1, [0], 0, [1]))
    coordinates = fx.make_composed_layout(swizzle, (0, 0), fx.make_identity_layout((16, 4)))
    view = memory.view(fx.make_composed_layout(fx.make_layout((16, 4), (1, 16)), (0, 0), coordinates))
    view[t] = X[t]
    fx.barrier()
    Y[t] = memory.view(fx.make_layout(64, 1))[t]
    swizzle = fx.static(fx.SwizzleType.get(1, 0, 2))
    memory.view(fx.make_composed_layout(swizzle, fx.make_layout((64, 4), (1, 0))))
    """)
    rows, columns = np.arange(64) % 16, np.arange(64) // 16
    np.testing.assert_array_equal(out[rows + 16 * (columns ^ rows >> 1 & 3)], np.arange(64))


# --------------------------------------------------------------------------- atoms


def test_a_universal_copy_of_a_buffer_tensor(run: Run) -> None:
    with pytest.raises(DSLCompileError, match=r"a universal copy takes global memory.*\(fx.rocdl.BufferCopy32b\)"):
        run("""
        A = fx.logical_divide(fx.rocdl.make_buffer_tensor(X), fx.make_layout(1, 1))
        f = fx.make_rmem_tensor(1, fx.Float32)
        fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), A[None, t], f)
        Y[t] = f[0]
        """)


@pytest.mark.parametrize("name, dense", [("SMFMAC", "MFMA"), ("SWMMAC", "WMMA")])
def test_sparse_atoms(name: str, dense: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{name}: sparse matrix atoms are not in the language. Use {dense}"):
        getattr(fx.rocdl, name)(16, 16, 32, fx.Float16)
