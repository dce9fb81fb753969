"""Relayouts, reductions, scans and broadcasts of fragments against NumPy, over generated thread-value layouts.

Every generated case runs on the architectures of `ARCHITECTURES`, one process each. ``FRAGMENT_CASES=100`` generates
so many of each kind.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.layout as fl
from flydsl.runtime.device import get_rocm_arch
from flydsl.tracing.diagnostics import DSLCompileError

HERE = Path(__file__)
ARCHITECTURES = ("gfx942", "gfx950", "gfx1201", "gfx1250")
ARCH = get_rocm_arch().split(":")[0]
CLASSES = {"float32": fx.Float32, "float16": fx.Float16, "int8": fx.Int8, "int32": fx.Int32, "float64": fx.Float64}


def factors(n: int) -> list[int]:
    return [p for p in (2, 3) for _ in range(20) if n % p == 0 and not (n := n // p) % 1] if n > 1 else []


def random_layout(rng: random.Random, tile: tuple[int, int], threads: int, waves: bool) -> fl.Layout:
    """A random thread-value layout of a tile; threads beyond its elements hold copies.

    With `waves` its modes divide the threads into waves, as reductions need it.
    """
    steps: list[tuple[int, int]] = []
    room = 1
    for extent in tile:
        inner = room
        for p in factors(extent):
            steps.append((p, inner))
            inner *= p
        room *= extent
    rng.shuffle(steps)
    mine: list[tuple[int, int]] = []
    left = threads
    for step in list(steps):
        if left % step[0] == 0 and rng.random() < 0.8:
            mine.append(step)
            steps.remove(step)
            left //= step[0]
    mine += [(p, 0) for p in factors(left)]
    rng.shuffle(mine)
    mine.sort(key=lambda step: waves and step[0])
    sides = [mine or [(1, 0)], steps or [(1, 0)]]
    shape, stride = ([tuple(s[i] for s in side) for side in sides] for i in (0, 1))
    return fl.Layout(tuple(shape), tuple(stride))


@flyc.kernel
def fragment_k(X: fx.Tensor, Y: fx.Tensor, source: fx.Constexpr, target: fx.Constexpr, what: fx.Constexpr,
               options: fx.Constexpr):
    """Load a fragment by its layout, do something with it, store the values of each thread."""
    t = fx.thread_idx.x
    tv = fx.ThreadValues(fl.parse_layout(source[0]), source[1])
    places = tv.as_layout()
    fragment = fx.make_rmem_tensor(tv.value_shape, X.dtype)
    values = [X[fx.get_scalar(fx.crd2idx((t, i), places))] for i in fx.range_constexpr(tv.values)]
    fragment.store(fx.Vector.from_elements(values, X.dtype))
    if fx.const_expr(what == "convert"):
        result = fx.convert_layout(fragment, fx.ThreadValues(fl.parse_layout(target[0]), target[1]),
                                   thread_values=tv).load()
    elif fx.const_expr(what == "reduce"):
        mode, op = options
        small = fx.reduce(fragment, mode, op, thread_values=tv)
        result = fx.broadcast_to(small, tv)
        if fx.const_expr(fx.rank(small.shape) == fx.rank(fragment.shape) > 1):
            # It kept the modes: the plain broadcast names the same values.
            result = fx.max(small.load(), small.load().broadcast_to(fragment.shape.to_py_value()))
    else:
        mode, op, exclusive = options
        result = fx.scan(fragment, mode, op, exclusive=exclusive, thread_values=tv).load()
    for i in fx.range_constexpr(result.numel):
        Y[t * result.numel + i] = result[i]


@flyc.jit
def fragment_run(X: fx.Tensor, Y: fx.Tensor, source: fx.Constexpr, target: fx.Constexpr, what: fx.Constexpr,
                 options: fx.Constexpr, threads: fx.Constexpr):
    fragment_k(X, Y, source, target, what, options).launch(grid=1, block=threads)


def positions(layout: fl.Layout) -> np.ndarray:
    threads, values = layout[0].size(), layout[1].size()
    return np.array([[int(layout((t, v))) for v in range(values)] for t in range(threads)])


def execute(x: np.ndarray, source: fl.Layout, tile: tuple[int, int], what: str, target: fl.Layout | None = None,
            options: tuple = ()) -> tuple[np.ndarray, np.ndarray]:
    """What the device computes, and the positions of those values."""
    where = positions(source if target is None else target)
    y = np.full(where.size, 77, x.dtype)
    target_text = () if target is None else (str(target), tile)
    fragment_run(x, y, (str(source), tile), target_text, what, options, where.shape[0])
    return y.reshape(where.shape), where


def cases(seed: int, count: int, waves: bool = True) -> list[tuple[Any, ...]]:
    rng = random.Random(f"{seed} {ARCH}")
    out = []
    for _ in range(int(os.environ.get("FRAGMENT_CASES", count))):
        tile = rng.choice([(16, 16), (8, 32), (32, 16), (4, 64), (64, 8), (12, 32), (1, 128)])
        threads = rng.choice([64, 64, 128, 256, 192] if math.prod(tile) % 3 == 0 else [64, 64, 128, 256])
        out.append((rng, tile, random_layout(rng, tile, threads, waves), random_layout(rng, tile, threads, waves)))
    return out


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_generated_relayouts(device: Any, dtype: str) -> None:
    for _, tile, source, target in cases(1 + len(dtype), 6, waves=False):
        x = np.random.default_rng(0).integers(-100, 100, math.prod(tile)).astype(dtype)
        found, where = execute(x, source, tile, "convert", target)
        np.testing.assert_array_equal(found, x[where], f"{source} -> {target}")


FUNCTIONS = {"ADD": np.add, "MAX": np.maximum, "MIN": np.minimum}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_generated_reductions(device: Any, dtype: str) -> None:
    for rng, tile, source, _ in cases(2, 6):
        x = np.random.default_rng(0).integers(-4, 5, math.prod(tile)).astype(dtype)  # sums are exact in any order
        mode, op = rng.choice((0, 1)), rng.choice(list(FUNCTIONS))
        square = x.reshape(tile[::-1]).T
        exact = np.broadcast_to(FUNCTIONS[op].reduce(square, axis=mode, keepdims=True), tile).T.reshape(-1)
        found, where = execute(x, source, tile, "reduce", options=(mode, op))
        np.testing.assert_array_equal(found, exact[where], f"{op} of {source} along {mode}")


@pytest.mark.parametrize("exclusive", [False, True])
def test_generated_scans(device: Any, exclusive: bool) -> None:
    for rng, tile, source, _ in cases(3, 6):
        x = np.random.default_rng(0).integers(-4, 5, math.prod(tile)).astype(np.int32)
        mode = rng.choice((0, 1))
        square = x.reshape(tile[::-1]).T
        exact = np.cumsum(square, axis=mode) - (square if exclusive else 0)
        found, where = execute(x, source, tile, "scan", options=(mode, "ADD", exclusive))
        np.testing.assert_array_equal(found, exact.T.reshape(-1)[where], f"{source} along {mode}")


CARRIED = {
    "for": "for i in range(n):\n    d = fx.make_fragment_like(c)\n    d.store(c.load() + 1.0)\n    c = d",
    "asked for in the loop": """
for i in range(n):
    d = fx.make_fragment_like(c)
    d.store(c.load() + fx.broadcast_to(fx.reduce(c, 1, "MAX"), c) * 0.0 + 1.0)
    c = d""",
    "branch": """
for i in range(n):
    d = fx.make_fragment_like(c)
    d.store(c.load() + 1.0)
    if i >= 0:
        c = d""",
    "nested": """
for i in range(n):
    for j in range(1):
        d = fx.make_fragment_like(c)
        d.store(c.load() + 1.0)
        c = d""",
    "while": """
i = fx.Int32(0)
while i < n:
    d = fx.make_fragment_like(c)
    d.store(c.load() + 1.0)
    c = d
    i += 1""",
    "explicit": """
for i, state in range(0, n, 1, init=[c]):
    d = fx.make_fragment_like(c)
    d.store(state[0].load() + 1.0)
    c = yield [d]""",
}
ACCUMULATOR = """
mma = fx.make_tiled_mma(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 4, fx.Float32)), fx.make_layout((1, 1, 1), (1, 1, 1)))
c = mma.get_slice(t).make_fragment_C((16, 16))
c.fill(1.0)
"""


@pytest.mark.parametrize("loop", CARRIED)
@pytest.mark.skipif(ARCH != "gfx942", reason="of the language, not of an architecture")
def test_a_fragment_that_is_assigned_anew_keeps_its_layout(run: Any, loop: str) -> None:
    out = run(ACCUMULATOR + CARRIED[loop] + "\nY[t] = fx.reduce(c, 1, 'ADD').load()[0]", n=3)
    np.testing.assert_array_equal(out, np.full(64, 16 * 4.0))


@pytest.mark.parametrize("statement, message", [
    ("s = fx.reduce(c, 1, 'ADD')", "has the thread-value layout .* which its body relies on, but the one that"),
    ("pass", "thread-value layout of .* is not known"),
])
@pytest.mark.skipif(ARCH != "gfx942", reason="of the language, not of an architecture")
def test_another_layout_in_a_loop_is_found(run: Any, statement: str, message: str) -> None:
    loop = f"for i in range(n):\n    {statement}\n    d = fx.make_rmem_tensor(c.layout, fx.Float32)\n"
    loop += "    d.fill(2.0)\n    c = d"
    with pytest.raises(ValueError, match=message):
        run(ACCUMULATOR + loop + "\nY[t] = fx.reduce(c, 1, 'ADD').load()[0]")


@pytest.mark.parametrize("statement, message", [
    ("fx.reduce(fx.make_rmem_tensor(4, fx.Float32), 0, 'ADD')", "is not known"),
    ("fx.reduce(f, 2, 'ADD')", "no mode 2"),
    ("fx.convert_layout(f, fx.make_layout((64, 8), (1, 64)))", "leaves the tile"),
    ("fx.convert_layout(f, fx.make_layout((64, 4), (1, 64)), modes=(0, 0))", "permutation"),
    ("fx.convert_layout(f, fx.ThreadValues(fl.parse_layout('(64,4):(1,64)'), (8, 32)))", "keeps the tile"),
    ("fx.broadcast_to(f, fx.reduce(f, 0, 'MAX'))", "cannot be broadcast"),
    ("mma.get_slice(t).make_fragment_C((16, 24))", "no repetition"),
    ("mma.get_slice(t).make_fragment_C((16,))", "two positive ints"),
])
@pytest.mark.skipif(ARCH != "gfx942", reason="messages are of the language, not of an architecture")
def test_refused(load: Any, device: Any, statement: str, message: str) -> None:
    module = load(f"""
        import flydsl.layout as fl

        @flyc.kernel
        def k(X: fx.Tensor, mma: fx.TiledMma):
            t = fx.thread_idx.x
            f = mma.get_slice(t).make_fragment_C((16, 16))
            f.fill(1.0)
            g = {statement}
            X[t] = f[0, 0, 0]

        @flyc.jit
        def run(X: fx.Tensor):
            mma = fx.make_tiled_mma(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
                                    fx.make_layout((1, 1, 1), (0, 0, 0)))
            k(X, mma).launch(grid=1, block=64)
    """)
    with pytest.raises(ValueError, match=message):
        module.run(np.zeros(64, np.float32))


@pytest.mark.skipif("FLYDSL_TEST_ONE_ARCH" in os.environ, reason="this is the process for one architecture")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_on_every_architecture(arch: str) -> None:
    run_on(arch, HERE, FLYDSL_TEST_ONE_ARCH="1", FLYDSL_SIM_CHECK="oob,race,uninit")


def source_maps(wave: int) -> dict[str, list[tuple[int, ...]]]:
    """Lane exchanges by the instruction that should make them on gfx942."""
    lanes = range(wave)
    shuffled = list(lanes)
    random.Random(5).shuffle(shuffled)
    return {
        "none": [tuple(lanes)],
        "dpp": [tuple(i ^ 1 for i in lanes), tuple(i ^ 2 for i in lanes), tuple(i // 4 * 4 for i in lanes),
                tuple(i ^ 8 for i in lanes), tuple(i ^ 15 for i in lanes), tuple(i ^ 7 for i in lanes),
                tuple(i // 16 * 16 + (i - 3) % 16 for i in lanes), tuple(i // 16 * 16 + 5 for i in lanes)],
        "swizzle": [tuple(i ^ 16 for i in lanes), tuple(i ^ 4 for i in lanes), tuple(i & ~31 | 9 for i in lanes)],
        "bpermute": [tuple(i ^ (wave // 2 + 1) for i in lanes) if wave == 64 else tuple(shuffled), tuple(shuffled),
                     tuple((i + 5) % wave for i in lanes)],
    }


@flyc.kernel
def exchange_k(Y: fx.Tensor, source: fx.Constexpr):
    from flydsl.expr.fragments.lanes import find_exchange

    t = fx.thread_idx.x
    Y[t] = fx.Int32(find_exchange(source).emit((t * 3 + 1).ir_value()))


@flyc.jit
def exchange_run(Y: fx.Tensor, source: fx.Constexpr, wave: fx.Constexpr):
    exchange_k(Y, source).launch(grid=1, block=wave)


def test_exchanges(device: Any) -> None:
    from flydsl.expr.fragments.lanes import find_exchange

    wave = 64 if ARCH.startswith("gfx9") else 32
    for name, maps in source_maps(wave).items():
        for source in maps:
            y = np.full(wave, -1, np.int32)
            exchange_run(y, source, wave)
            np.testing.assert_array_equal(y, np.array(source) * 3 + 1, str(source))
            if ARCH == "gfx942":
                assert find_exchange(source, ARCH).name == name, source


def instruction(arch: str) -> Any:
    """A 16-bit matrix instruction with f32 sums, and the order of K in which it takes what it has summed."""
    if arch == "gfx942":
        return fx.rocdl.MFMA(16, 16, 16, fx.Float16), None
    if arch == "gfx950":  # a lane has 8 values of K: 4 of each of two blocks of rows of a product before
        return fx.rocdl.MFMA(16, 16, 32, fx.Float16), fx.make_layout((4, 2, 4), (1, 16, 4))
    return fx.rocdl.WMMA(16, 16, 16 if arch == "gfx1201" else 32, fx.Float16), None


@flyc.kernel
def chain_k(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, D: fx.Tensor, mma: fx.TiledMma, second: fx.TiledMma):
    """D = (A B^T)^T' C^T by an accumulator that becomes operand B of the next product, without an instruction."""
    t = fx.thread_idx.x
    first, then = mma.get_slice(t), second.get_slice(t)
    a, b = first.make_fragment_A((64, 32)), first.make_fragment_B((32, 32))
    sums = first.make_fragment_C((64, 32))
    load = fx.make_copy_atom(fx.UniversalCopy16b(), fx.Float16)

    def fetch(make, mma_, tensor, fragment):
        copy = make(load, mma_).get_slice(t)
        fx.copy(load, copy.partition_S(tensor), copy.retile(fragment))

    fetch(fx.make_tiled_copy_A, mma, A, a)
    fetch(fx.make_tiled_copy_B, mma, B, b)
    sums.fill(0.0)
    fx.gemm(mma, sums, a, b, sums)
    half = fx.make_fragment_like(sums, fx.Float16)
    half.store(sums.load().to(fx.Float16))
    target = then.make_fragment_B((32, 64))
    assert not fx.layout_conversion(half, target, modes=(1, 0)).instructions
    p = fx.convert_layout(half, target, modes=(1, 0))
    c, result = then.make_fragment_A((16, 64)), then.make_fragment_C((16, 32))
    fetch(fx.make_tiled_copy_A, second, C, c)
    result.fill(0.0)
    fx.gemm(second, result, c, p, result)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy_d = fx.make_tiled_copy_C(store, second).get_slice(t)
    fx.copy(store, copy_d.retile(result), copy_d.partition_D(D))


@flyc.jit
def chain(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, D: fx.Tensor, arch: fx.Constexpr):
    op, order = instruction(arch)
    atom, one = fx.make_mma_atom(op), fx.make_layout((1, 1, 1), (0, 0, 0))
    mma = fx.make_tiled_mma(atom, one)
    second = mma if fx.const_expr(order is None) else fx.make_tiled_mma(atom, one, fx.make_tile(None, None, order))
    chain_k(A, B, C, D, mma, second).launch(grid=1, block=fx.size(mma.thr_layout_vmnk).unpack())


@pytest.mark.skipif(ARCH not in ARCHITECTURES, reason="no matrix instruction in this test")
def test_accumulator_becomes_operand_for_nothing(device: Any) -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (32, 32), (16, 64)))
    d = np.full((16, 32), np.nan, np.float32)
    chain(*(flyc.from_dlpack(x) for x in (a, b, c, d)), ARCH)
    np.testing.assert_array_equal(d, c.astype(float) @ (a.astype(float) @ b.astype(float).T).astype(np.float16))


SOFTMAX = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, mma: fx.TiledMma):
    t = fx.thread_idx.x
    io = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy = fx.make_tiled_copy_C(io, mma).get_slice(t)
    scores = mma.get_slice(t).make_fragment_C((64, 64))
    fx.copy(io, copy.partition_S(fx.flat_divide(X, (64, 64))[None, None, 0, 0]), copy.retile(scores))
    largest = fx.reduce(scores, {mode}, "MAX")
    scores.store(fx.exp((scores.load() - {largest}) * 1.0))
    total = fx.reduce(scores, {mode}, "ADD")
    scores.store(scores.load() / {total})
    fx.copy(io, copy.retile(scores), copy.partition_D(fx.flat_divide(Y, (64, 64))[None, None, 0, 0]))

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    matrix = fx.rocdl.{matrix}(16, 16, {depth}, fx.Float16)
    waves = fx.make_layout((4, 1, 1), (1, 0, 0))
    k(X, Y, fx.make_tiled_mma(fx.make_mma_atom(matrix), waves)).launch(grid=1, block=4 * fx.num_warp_threads())
"""


@pytest.mark.parametrize("mode", [0, 1])
def test_values_meet_those_of_the_same_elements(load: Any, mode: int) -> None:
    """A reduced fragment is combined lane by lane only where the lanes are about the same rows or columns."""
    given = dict(mode=mode, matrix="MFMA" if ARCH.startswith("gfx9") else "WMMA",
                 depth=16 if ARCH in ("gfx942", "gfx1201") else 32)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    exact = np.exp(x.astype(float))
    exact /= exact.sum(axis=mode, keepdims=True)

    def computed(largest: str, total: str) -> np.ndarray:
        y = np.full((64, 64), np.nan, np.float32)
        load(SOFTMAX.format(largest=largest, total=total, **given)).run(x, y)
        return y

    # The reduced fragment keeps the modes of the fragment, so the plain form is the broadcast that it looks like.
    for name in ("fx.broadcast_to({}, scores)", "{}.load()"):
        np.testing.assert_allclose(computed(name.format("largest"), name.format("total")), exact, rtol=1e-4)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_reduced_fragment_has_the_modes_of_the_fragment(load: Any, mode: int) -> None:
    source = SOFTMAX.format(mode=mode, matrix="MFMA" if ARCH.startswith("gfx9") else "WMMA", largest="largest.load()",
                            total="total.load()", depth=16 if ARCH in ("gfx942", "gfx1201") else 32)
    module = load(source.replace("    total =", "    seen.append((scores.shape.to_py_value(), "
                                 "largest.shape.to_py_value()))\n    total =") + "\nseen = []\n")
    module.run(np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32))
    (values, rows, columns), reduced = module.seen[0]
    lanes_follow_columns = ARCH.startswith("gfx9")  # the values of one instruction are then along the rows
    assert (rows, columns) == (1, 4)
    if mode == 1:
        assert reduced == (values if lanes_follow_columns else ANY, 1, 1)
    else:
        assert reduced == (((1, 1) if lanes_follow_columns else ANY), 1, 4)


def test_values_of_other_elements_do_not_meet(load: Any) -> None:
    """Without its second mode, a fragment of row sums would be matched with the columns: an error."""
    with pytest.raises(DSLCompileError, match=r"other elements of the tile \(4, 4\); fx.broadcast_to"):
        load("""
import flydsl.layout as fl
@flyc.kernel
def k(Y: fx.Tensor):
    whole = fx.ThreadValues(fl.parse_layout("(64,(4,4)):(0,(1,4))"), (4, 4))
    f = fx.make_fragment_like(fx.make_rmem_tensor((4, 4), fx.Float32))
    f.fill(1.0)
    f = fx.convert_layout(f, whole, thread_values=whole)
    sums = fx.convert_layout(fx.reduce(f, 1, "ADD"), fx.make_layout((64, 4), (0, 1)))
    Y[fx.thread_idx.x] = (f.load() - sums.load())[0]

@flyc.jit
def run(Y: fx.Tensor):
    k(Y).launch(grid=1, block=64)
""").run(np.zeros(64, np.float32))
