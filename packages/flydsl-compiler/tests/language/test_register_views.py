"""Register and memory views of any static layout as vectors: load, store, fill, broadcasting, reductions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

DTYPES = {"Float32": "float32", "Float16": "float16", "Int32": "int32", "Uint8": "uint8", "Float64": "float64"}


def _flat(shape: Any) -> list[int]:
    return [shape] if isinstance(shape, int) else [leaf for mode in shape for leaf in _flat(mode)]


def _size(shape: Any) -> int:
    return math.prod(_flat(shape))


def _nested(r: random.Random, leaves: list[Any]) -> tuple[Any, ...]:
    if len(leaves) >= 2 and r.random() < 0.4:
        at = r.randrange(len(leaves) - 1)
        return (*leaves[:at], tuple(leaves[at : at + 2]), *leaves[at + 2 :])
    return tuple(leaves)


def _layout(r: random.Random) -> tuple[Any, Any, int]:
    """Shape and stride of a random injective layout (permuted, with gaps and modes of one element), and its cosize."""
    extents = [r.choice([1, 1, 2, 2, 3, 4]) for _ in range(r.randint(1, 4))]
    order = list(range(len(extents)))
    r.shuffle(order)
    strides, step = [0] * len(extents), 1
    for leaf in order:
        step *= 2 if r.random() < 0.2 else 1
        strides[leaf] = step if extents[leaf] > 1 else r.choice([0, 1, step])
        step *= extents[leaf]
    seed = r.randrange(1 << 30)
    shape, stride = (_nested(random.Random(seed), leaves) for leaves in (extents, strides))
    return shape, stride, step


@pytest.mark.parametrize("seed", range(24))
def test_views_as_vectors(seed: int, load: Callable[[str], Any], device: None) -> None:
    r = random.Random(seed)
    shape, stride, cosize = _layout(r)
    n, (cls, dtype) = _size(shape), r.choice(list(DTYPES.items()))
    where = {
        "fragment": f"f = fx.make_rmem_tensor(L, fx.{cls})",
        "view of a fragment": f"g = fx.make_rmem_tensor({cosize}, fx.{cls})\n    g.fill(9)\n"
                              "    f = fx.make_view(fx.get_iter(g), L)",
        "memory": "f = fx.make_view(fx.get_iter(Y), L)",
    }
    kind = r.choice(list(where))
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    L = fx.make_layout({shape!r}, {stride!r})
    {where[kind]}
    f.fill(3)
    x = fx.make_view(fx.get_iter(X), fx.make_layout({n}, 1)).load().reshape({shape!r})
    f.store(x + f.load())
    fx.make_view(fx.add_offset(fx.get_iter(Y), 1024), fx.make_layout({n}, 1)).store(f.load())
    for i in fx.range_constexpr({n}):
        Y[1536 + i] = f[i]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=1)
""")
    x, y = np.arange(256).astype(dtype), np.full(2048, 77).astype(dtype)
    module.run(x, y)
    what = f"{kind} {shape}:{stride} of {dtype}"
    np.testing.assert_array_equal(y[1024 : 1024 + n], x[:n] + 3, what)
    np.testing.assert_array_equal(y[1536 : 1536 + n], x[:n] + 3, what)


def _shapes(r: random.Random) -> tuple[Any, Any]:
    """Two shapes that broadcast: modes of one are 1 here and there."""
    modes = [r.choice([1, 2, 3, (2, 2), (3, 1), (2, (1, 2))]) for _ in range(r.randint(1, 3))]
    a = tuple(1 if r.random() < 0.35 else m for m in modes)
    b = tuple(1 if r.random() < 0.35 else m for m in modes)
    return a, b[r.randint(0, len(b) - 1) :] if r.random() < 0.3 else b


def _array(x: np.ndarray, shape: Any) -> np.ndarray:
    """The elements of a tensor with one axis for each mode."""
    return x[: _size(shape)].reshape([_size(m) for m in shape], order="F")


@pytest.mark.parametrize("seed", range(16))
def test_broadcasting_follows_the_tensors(seed: int, load: Callable[[str], Any], device: None) -> None:
    r = random.Random(seed)
    a, b = _shapes(r)
    x = np.random.default_rng(seed).integers(-50, 50, 128).astype(np.float32)
    want = _array(x, a) * 4 + _array(x[64:], b)
    rank = max(len(a), len(b))
    profile = tuple(r.choice([None, 1]) for _ in range(rank))
    axes = tuple(i for i, p in enumerate(profile) if p is not None)
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    p = fx.get_iter(X)
    a = fx.make_rmem_tensor(fx.make_ordered_layout({a!r}, 0), fx.Float32)
    b = fx.make_rmem_tensor(fx.make_ordered_layout({b!r}, 0), fx.Float32)
    a.store(fx.make_view(p, fx.make_ordered_layout({a!r}, 0)).load())
    b.store(fx.make_view(p + 64, fx.make_ordered_layout({b!r}, 0)).load())
    c = a.load() * 4.0 + b.load()
    fx.make_view(fx.get_iter(Y), fx.make_layout({want.size}, 1)).store(c)
    Y[128] = fx.sum(c)
    Y[129] = fx.max(c)
    Y[130] = c.reduce("min", 7.0)
    big = fx.where(c > a.load(), c, b.load())
    fx.make_view(fx.get_iter(Y) + 192, fx.make_layout({want.size}, 1)).store(big)
    along = c.reduce("add", 100.0, {profile!r}) if len(c.shape) == {rank} else c.reduce("add", 100.0)
    flat = along.reshape(len(along)) if hasattr(along, "shape") else fx.full(1, along, fx.Float32)
    fx.make_view(fx.get_iter(Y) + 256, fx.make_layout(len(flat), 1)).store(flat)

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=1)
""")
    y = np.full(512, 77, np.float32)
    module.run(x, y)
    what = f"{a} with {b}"
    np.testing.assert_array_equal(y[: want.size], want.ravel(order="F"), what)
    assert y[128] == want.sum() and y[129] == want.max() and y[130] == min(7.0, want.min()), what
    chosen = np.where(want > _array(x, a), want, _array(x[64:], b))
    np.testing.assert_array_equal(y[192 : 192 + want.size], chosen.ravel(order="F"), what)
    reduced = np.asarray(want.sum(axis=axes) + 100 if axes else want + 100)
    np.testing.assert_array_equal(y[256 : 256 + reduced.size], reduced.ravel(order="F"), f"{what} by {profile}")


def test_coordinates_of_a_vector_are_those_of_the_tensor(run: Callable[..., np.ndarray]) -> None:
    out = run("""
        f = fx.make_rmem_tensor((4, (2, 3)), fx.Float32)
        f.store(fx.make_view(fx.get_iter(X), fx.make_layout(24, 1)).load())
        v = f.load()
        for i in fx.range_constexpr(4):
            for j in fx.range_constexpr(2):
                for l in fx.range_constexpr(3):
                    Y[i + 4 * (j + 2 * l)] = v[i, (j, l)]
        row = v[1, None]
        for j in fx.range_constexpr(6):
            Y[24 + j] = row[j]
        part = v[None, (1, None)]
        for j in fx.range_constexpr(12):
            Y[30 + j] = part[j]
    """, block=64)
    tensor = np.arange(24).reshape((4, 2, 3), order="F")
    np.testing.assert_array_equal(out[:24], np.arange(24))
    np.testing.assert_array_equal(out[24:30], tensor[1].ravel(order="F"))
    np.testing.assert_array_equal(out[30:42], tensor[:, 1].ravel(order="F"))


def test_orders_that_contradict_each_other_are_refused(run: Callable[..., np.ndarray]) -> None:
    with pytest.raises(Exception, match="do not broadcast: one has the lanes of a tensor"):
        run("""
            f = fx.make_rmem_tensor((4, 2), fx.Float32)
            f.fill(1.0)
            Y[t] = fx.sum(f.load() * fx.Vector.from_elements([1.0] * 16).reshape((2, 4, 2)))
        """)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1, 3), ((1, 2), 2)])
def test_fragments_like_coordinate_tensors(shape: Any, run: Callable[..., np.ndarray]) -> None:
    out = run(f"""
        c = fx.make_view(0, fx.make_layout({shape!r}, {_zeros(shape)!r}))
        f = fx.make_fragment_like(c, fx.Int32)
        f.fill(t)
        Y[t] = fx.sum(f.load())
    """, x=np.zeros(64, np.int32))
    np.testing.assert_array_equal(out, np.arange(64) * _size(shape))


def _zeros(shape: Any) -> Any:
    """Strides of a tensor that repeats one coordinate."""
    return 0 if isinstance(shape, int) else tuple(_zeros(s) for s in shape)


def test_reductions_in_registers_agree_with_numpy(run: Callable[..., np.ndarray]) -> None:
    x = np.random.default_rng(1).integers(-99, 99, 64).astype(np.int32)
    kinds = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    profiles = list(itertools.product([None, 1], repeat=3))
    body, want, at = ["v = fx.make_view(fx.get_iter(X), fx.make_ordered_layout((2, 2, 3), 0)).load()"], [], 0
    array = x[:12].reshape((2, 2, 3), order="F")
    for profile in profiles[1:]:
        axes = tuple(i for i, p in enumerate(profile) if p)
        for name, function in kinds.items():
            result = np.asarray(function.reduce(array, axis=axes, dtype=np.int32))
            want.append(result.ravel(order="F"))
            body.append(f"r = v.reduce({name!r}, None, {profile!r})")
            for i in range(result.size):
                body.append(f"Y[{at}] = " + ("r" if result.ndim == 0 else f"r[{i}]"))
                at += 1
    y = np.zeros(at, np.int32)
    run("\n".join(body), x=x, y=y)
    np.testing.assert_array_equal(y, np.concatenate(want))


@pytest.mark.parametrize("swizzle", [(2, 0, 3), (2, 2, 3), (3, 3, 3)])
def test_swizzled_views_as_vectors(swizzle: tuple[int, int, int], load: Callable[[str], Any], device: None) -> None:
    """Loads, stores and fills of a swizzled view reach the elements that its coordinates name."""
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    memory = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 512, 16]).peek()
    swizzle = fx.static(fx.SwizzleType.get{swizzle})
    lds = memory.view(fx.make_composed_layout(swizzle, fx.make_layout((16, 32), (32, 1))))
    tile = fx.flat_divide(lds, (2, 4))[None, None, t // 8, t % 8]
    tile.store(fx.flat_divide(X, (2, 4))[None, None, t // 8, t % 8].load())
    fx.barrier()
    column = lds[None, t % 32]
    if t < 32:
        fx.make_view(fx.get_iter(Y) + t * 16, fx.make_layout(16, 1)).store(column.load())
    fx.barrier()
    if t == 5:
        lds[None, 3].fill(7)
    fx.barrier()
    for i in fx.range_constexpr(8):
        Y[512 + t * 8 + i] = lds[t // 4, t % 4 * 8 + i]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    x, y = np.random.default_rng(0).integers(0, 1 << 20, (16, 32)).astype(np.int32), np.full(1024, -1, np.int32)
    import flydsl.compiler as flyc

    module.run(flyc.from_dlpack(x), y)
    np.testing.assert_array_equal(y[:512].reshape(32, 16).T, x)
    x[:, 3] = 7
    np.testing.assert_array_equal(y[512:].reshape(16, 32), x)


@pytest.mark.parametrize("tile, repeats", [((8, 8), (2, 2)), ((8, 8), (1, 3)), ((16, 4), (2, 1))])
def test_fragments_like_coordinates(tile: tuple[int, int], repeats: tuple[int, int], run: Callable[..., Any]) -> None:
    """With repetitions, too: a predicate for each access, and numbers where the values of a copy are."""
    rows, columns = (n * r for n, r in zip(tile, repeats, strict=True))
    out = run(f"""
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    threads = fx.make_ordered_layout({tile}, (1, 0))
    copy = fx.make_tiled_copy_tv(atom, threads, fx.make_layout((1, 1), (1, 1))).get_slice(t)
    A, B = [fx.make_view(fx.get_iter(v), fx.make_layout({rows, columns}, ({columns}, 1))) for v in (X, Y)]
    places = copy.partition_S(fx.make_view((0, 0), fx.make_identity_layout({rows, columns})))
    source, target = copy.partition_S(A), copy.partition_D(B)
    fragment, inside = fx.make_fragment_like(source), fx.make_fragment_like(places, fx.Boolean)
    numbers = fx.make_fragment_like(places, fx.Float32)
    for i in fx.range_constexpr({rows * columns // 64}):
        row, column = [fx.Int32(fx.get_scalar(x)) for x in places[i]]
        inside[i] = row + column < n
        numbers[i] = fx.Float32(1000 * row + column)
    fx.copy(atom, source, fragment)
    fragment.store(fragment.load() + numbers.load())
    fx.copy(atom, fragment, target, pred=inside)
    """, x=np.zeros(rows * columns, np.float32), y=np.full(rows * columns, -1, np.float32), n=11)
    row, column = np.mgrid[:rows, :columns]
    np.testing.assert_array_equal(out.reshape(rows, columns), np.where(row + column < 11, 1000 * row + column, -1))
