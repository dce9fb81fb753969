"""Atoms beyond plain copies, generated: atomics, transposing reads, tensor moves, scaled products.

Like the copies of `test_copies.py` they run in processes of their own, one per architecture, with all checks of the
simulator on.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx

sys.path.insert(0, str(Path(__file__).parent))
from copy_programs import ARCH, EIGHT_BITS, operand  # noqa: E402

HERE = Path(__file__)
LANES = 32 if ARCH.startswith("gfx1") else 64
CHILD = "FLYDSL_TEST_ATOMS"

pytestmark = pytest.mark.usefixtures("device")
in_child = pytest.mark.skipif(CHILD not in os.environ, reason="runs in a process with checks")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_atoms_on(arch: str) -> None:
    run_on(arch, HERE, select="generated", **{CHILD: "1", "FLYDSL_SIM_CHECK": "oob,race,uninit"})


# --------------------------------------------------------------------------- read-modify-write

CLASSES = {
    "i32": (fx.Int32, np.int32), "u32": (fx.Uint32, np.uint32), "i64": (fx.Int64, np.int64),
    "f32": (fx.Float32, np.float32), "f64": (fx.Float64, np.float64),
}


def counted_up(old: Any, limit: Any) -> Any:
    """`inc`: one more, or 0 from the limit on. The numbers are unsigned."""
    return np.where(old >= limit, 0, old + 1)


def counted_down(old: Any, limit: Any) -> Any:
    """`dec`: one less; the limit from 0 and from above the limit."""
    return np.where((old == 0) | (old > limit), limit, old - 1)


COMBINE = {
    "Add": np.add, "Max": np.maximum, "Min": np.minimum, "And": np.bitwise_and, "Or": np.bitwise_or,
    "Inc": counted_up, "Dec": counted_down,
}


@flyc.kernel
def atomic_kernel(X: fx.Tensor, Y: fx.Tensor, op: fx.Constexpr[str], name: fx.Constexpr[str],
                  space: fx.Constexpr[str], share: fx.Constexpr[int]):
    """Each of 64 threads gives its four values of X to four elements, which `share` threads have in common."""
    t, kind = fx.thread_idx.x, CLASSES[name][0]
    make = getattr(fx.rocdl, f"BufferAtomic{op}") if space == "buffer" else getattr(fx, f"UniversalAtomic{op}")
    atom = fx.make_copy_atom(make(kind), kind)
    values = fx.make_rmem_tensor((1, 4), kind)
    for i in fx.range_constexpr(4):
        values[0, i] = X[t * 4 + i]
    target = fx.rocdl.make_buffer_tensor(Y) if space == "buffer" else Y
    if fx.const_expr(space == "shared"):
        target = fx.SharedAllocator().allocate(fx.Array[kind, 256, 16]).peek().view(fx.make_layout(256, 1))
        for i in fx.range_constexpr(4):
            target[t * 4 + i] = Y[t * 4 + i]
        fx.barrier()
    place = fx.make_view(fx.add_offset(fx.get_iter(target), t // share * 4), fx.make_layout((1, 4), (0, 1)))
    fx.copy(atom, values, place)
    if fx.const_expr(space == "shared"):
        fx.barrier()
        for i in fx.range_constexpr(4):
            Y[t * 4 + i] = target[t * 4 + i]


@flyc.jit
def atomic(X: fx.Tensor, Y: fx.Tensor, op: fx.Constexpr[str], name: fx.Constexpr[str], space: fx.Constexpr[str],
           share: fx.Constexpr[int]):
    atomic_kernel(X, Y, op, name, space, share).launch(grid=1, block=64)


def atomic_cases() -> list[tuple[str, str, str]]:
    out = [("Add", "f32", "buffer"), ("Max", "i32", "buffer"), ("Min", "u32", "buffer"), ("Add", "i32", "buffer")]
    for space in ("global", "shared"):
        out += [(op, name, space) for name in CLASSES for op in ("Add", "Max", "Min") if (op, name) != ("Add", "f64")]
        out += [(op, name, space) for name in ("i32", "u32") for op in ("And", "Or", "Inc", "Dec")]
    return out + ([("Add", "f64", "global")] if ARCH in ("gfx942", "gfx950") else [])


@in_child
@pytest.mark.parametrize(("op", "name", "space"), atomic_cases())
def test_generated_atomics(op: str, name: str, space: str) -> None:
    rng = random.Random(f"{op} {name} {space}")
    share, dtype = rng.choice([1, 4, 64]), CLASSES[name][1]
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    low = 0 if dtype is np.uint32 or op in ("Inc", "Dec") else -100
    x, y = (numbers.integers(low, 100, 256).astype(dtype) for _ in range(2))
    if op in ("Inc", "Dec"):
        x[:] = x[0]  # in any order
    if dtype is np.uint32 and op in ("Max", "Min"):
        x[::3] += np.uint32(1 << 31)  # negative, were they signed
    exact = y.copy()
    for t in range(64):
        at = t // share * 4
        exact[at : at + 4] = COMBINE[op](exact[at : at + 4], x[4 * t : 4 * t + 4])
    atomic(x, y, op, name, space, share)
    np.testing.assert_array_equal(y, exact, f"{op} {name} {space}, {share} threads each")


# --------------------------------------------------------------------------- transposing reads


def transposing(bits: int):
    """Atom and thread-value layout of a transposing read of the architecture, repeated over the lanes of a wave."""
    if ARCH == "gfx950":
        count = 64 // bits
        return fx.rocdl.cdna4.LDSReadTrans(bits, 64), fx.make_layout(((16, 4), count), ((1, 16 * count), 16))
    if bits == 16:
        return fx.rocdl.cdna5.LDSReadTrans(16, 128), fx.make_layout(((8, 4), 8), ((1, 64), 8))
    return fx.rocdl.cdna5.LDSReadTrans(8, 64), fx.make_layout(((8, 2, 2), (4, 2)), ((1, 32, 128), (8, 64)))


@flyc.kernel
def transpose_kernel(X: fx.Tensor, Y: fx.Tensor, bits: fx.Constexpr[int], count: fx.Constexpr[int],
                     groups: fx.Constexpr[int]):
    """`groups` tiles of a wave, of each `count` elements of each lane."""
    t, kind = fx.thread_idx.x, fx.Int8 if bits == 8 else fx.Float16
    op, tv = transposing(bits)
    atom = fx.make_copy_atom(op, kind)
    thread = fx.make_tiled_copy(atom, tv, (LANES * count,)).get_slice(t)
    size = LANES * count * groups
    shared = fx.SharedAllocator().allocate(fx.Array[kind, size, 16]).peek().view(fx.make_layout(size, 1))
    for i in fx.range_constexpr(size // LANES):
        shared[i * LANES + t] = X[i * LANES + t]
    fx.barrier()
    part = thread.partition_S(shared)
    fragment = fx.make_fragment_like(part)
    fx.copy(atom, part, fragment)
    for g in fx.range_constexpr(groups):
        for i in fx.range_constexpr(count):
            Y[(g * LANES + t) * count + i] = fragment[g * count + i]


@flyc.jit
def transpose(X: fx.Tensor, Y: fx.Tensor, bits: fx.Constexpr[int], count: fx.Constexpr[int],
              groups: fx.Constexpr[int]):
    transpose_kernel(X, Y, bits, count, groups).launch(grid=1, block=LANES)


@in_child
@pytest.mark.skipif(ARCH not in ("gfx950", "gfx1250"), reason="LDS reads that transpose are of gfx950 and gfx1250")
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("bits", [8, 16])
def test_generated_transposing_reads(bits: int, groups: int) -> None:
    count, dtype = 8 if ARCH == "gfx1250" else 64 // bits, np.int8 if bits == 8 else np.float16
    x = np.random.default_rng(bits).integers(-60, 60, LANES * count * groups).astype(dtype)
    y = np.full_like(x, 99)
    transpose(x, y, bits, count, groups)
    if ARCH == "gfx950":
        # Lane t of a group of 16 has the elements t, t + 16, ... of the 16 * count that the group addresses.
        exact = x.reshape(groups, 4, count, 16).transpose(0, 1, 3, 2)
    elif bits == 16:
        # Lane t of a group of 8 has element t of each of the 8 lanes.
        exact = x.reshape(groups, 4, 8, 8).transpose(0, 1, 3, 2)
    else:
        # Of a group of 16, lane t of half h has element t of the lanes 4 h + (0, 1, 2, 3, 8, 9, 10, 11).
        exact = x.reshape(groups, 2, 2, 2, 4, 8).transpose(0, 1, 3, 5, 2, 4)
    np.testing.assert_array_equal(y, exact.reshape(-1))


# --------------------------------------------------------------------------- tensor moves

MOVED = {"f16": (fx.Float16, np.float16), "f32": (fx.Float32, np.float32), "i8": (fx.Int8, np.int8)}


@flyc.kernel
def move_kernel(A: fx.Tensor, C: fx.Tensor, name: fx.Constexpr[str], tile: fx.Constexpr[tuple],
                waves: fx.Constexpr[int], store: fx.Constexpr[bool]):
    t, (bm, bn, _) = fx.thread_idx.x, fx.block_idx
    rows, cols = tile
    layout = fx.make_layout(tile, (cols, 1))
    space = fx.SharedAllocator().allocate(fx.Array[MOVED[name][0], rows * cols, 128]).peek()
    shared, whole = space.view(layout), fx.make_view(space.ptr, fx.make_layout((tile,), ((cols, 1),)))
    op, tensor = (fx.rocdl.TensorStore(), C) if fx.const_expr(store) else (fx.rocdl.TensorLoad(), A)
    atom, coords = fx.rocdl.make_tiled_tdm_atom(op, tensor, layout, tile, num_warps=waves)
    picked = fx.slice(fx.zipped_divide(coords, fx.make_tile(*tile)), (None, (bm, bn)))
    ours = fx.rocdl.tdm_partition(atom, t // 32, fx.make_layout(waves, 1), whole, fx.group(picked, 0, 2))
    count = rows * cols // (32 * waves)
    if fx.const_expr(store):
        for i in fx.range_constexpr(count):
            at = i * 32 * waves + t
            shared[at // cols, at % cols] = A[bm * rows + at // cols, bn * cols + at % cols]
        fx.barrier()
        fx.copy_atom_call(atom, *ours)
        fx.rocdl.s_wait_tensorcnt(0)
    else:
        fx.copy_atom_call(atom, ours[1], ours[0])
        fx.rocdl.s_wait_tensorcnt(0)
        fx.barrier()
        for i in fx.range_constexpr(count):
            at = i * 32 * waves + t
            C[bm * rows + at // cols, bn * cols + at % cols] = shared[at // cols, at % cols]


@flyc.jit
def move(A: fx.Tensor, C: fx.Tensor, gm: fx.Int32, gn: fx.Int32, name: fx.Constexpr[str], tile: fx.Constexpr[tuple],
         waves: fx.Constexpr[int], store: fx.Constexpr[bool]):
    move_kernel(A, C, name, tile, waves, store).launch(grid=(gm, gn, 1), block=32 * waves)


@in_child
@pytest.mark.skipif(ARCH != "gfx1250", reason="the tensor data mover is of gfx1250")
@pytest.mark.parametrize("seed", range(12))
def test_generated_tensor_moves(seed: int) -> None:
    """Tiles of tensors whose rows may be further apart, and which the tiles may not fill: zeros come from beyond."""
    rng = random.Random(seed)
    name, store, waves = rng.choice(list(MOVED)), bool(seed % 2), rng.choice([1, 2, 4])
    tile = rng.choice([16, 32, 64]), rng.choice([32, 64, 128])
    grid = rng.choice([(1, 1), (2, 1), (1, 3), (2, 2)])
    covered = tuple(g * n for g, n in zip(grid, tile, strict=True))
    cut = tuple(n - rng.choice([0, 0, 1, 7]) for n in covered)
    ragged, whole = np.full((cut[0], cut[1] + 32), -1, MOVED[name][1])[:, : cut[1]], np.zeros(covered, MOVED[name][1])
    data = np.random.default_rng(seed).integers(-90, 90, covered).astype(MOVED[name][1])
    what = f"{name} {cut} in tiles {tile}, {waves} waves"
    if store:
        move(data, ragged, *grid, name, tile, waves, store)
        np.testing.assert_array_equal(ragged, data[: cut[0], : cut[1]], what)
        assert (ragged.base[:, cut[1] :] == -1).all(), what
        return
    ragged[...] = data[: cut[0], : cut[1]]
    move(ragged, whole, *grid, name, tile, waves, store)
    exact = np.zeros_like(data)
    exact[: cut[0], : cut[1]] = ragged
    np.testing.assert_array_equal(whole, exact, what)


# --------------------------------------------------------------------------- asynchronous copies


@flyc.kernel
def asynchronous_kernel(A: fx.Tensor, C: fx.Tensor, name: fx.Constexpr[str], values: fx.Constexpr[int],
                        place: fx.Constexpr[str]):
    """A tile of 32 rows through LDS, each lane with `values` elements of a row at once."""
    t, kind = fx.thread_idx.x, MOVED[name][0]
    cols, chunks = 32 * values, 8
    tile, tv = fx.make_layout_tv(fx.make_layout((16, chunks), (chunks, 1)), fx.make_layout((1, values), (values, 1)))
    thread = fx.make_tiled_copy(fx.make_copy_atom(fx.UniversalCopy(values * kind.width), kind), tv, tile).get_slice(t)
    layout = fx.make_layout((32, cols), (cols + 2 * values if place == "padded" else cols, 1))
    if fx.const_expr(place == "chunks of a column"):
        layout = fx.make_layout((32, (values, 32)), (values, (1, 32 * values)))
    if fx.const_expr(place == "swizzled"):
        base = values.bit_length() - 1
        layout = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, base, 5)), layout)
    memory = fx.SharedAllocator().allocate(fx.Array[kind, 32 * (cols + 2 * values), 128]).peek().ptr
    if fx.const_expr(place == "swizzled pointer"):
        base = (values * kind.width // 8).bit_length() - 1
        memory = fx.apply_swizzle(memory, fx.static(fx.SwizzleType.get(3, base, 3)))
    shared = fx.make_view(memory, layout)
    rows = fx.flat_divide(A, (32, cols))[None, None, fx.block_idx.x, 0]
    fx.rocdl.async_copy(thread.partition_S(rows), thread.partition_D(shared))
    fx.rocdl.s_wait_asynccnt(0)
    fx.barrier()
    for i in fx.range_constexpr(32 * cols // 128):
        at = i * 128 + t
        C[fx.block_idx.x * 32 + at // cols, at % cols] = shared[at // cols, at % cols]


@flyc.jit
def asynchronous(A: fx.Tensor, C: fx.Tensor, name: fx.Constexpr[str], values: fx.Constexpr[int],
                 place: fx.Constexpr[str]):
    asynchronous_kernel(A, C, name, values, place).launch(grid=2, block=128)


@in_child
@pytest.mark.skipif(ARCH != "gfx1250", reason="asynchronous copies of lanes are of gfx1250")
@pytest.mark.parametrize("place", ["rows", "padded", "chunks of a column", "swizzled", "swizzled pointer"])
@pytest.mark.parametrize(("name", "values"), [("f16", 8), ("f16", 4), ("f32", 4), ("f32", 1), ("i8", 16), ("i8", 1)])
def test_generated_asynchronous_copies(name: str, values: int, place: str) -> None:
    a = np.random.default_rng(values).integers(-90, 90, (64, 40 * values)).astype(MOVED[name][1])[:, : 32 * values]
    c = np.full(a.shape, 99, a.dtype)
    asynchronous(a, c, name, values, place)
    np.testing.assert_array_equal(c, a)


@in_child
@pytest.mark.skipif(ARCH != "gfx1250", reason="asynchronous copies of lanes are of gfx1250")
@pytest.mark.parametrize(("source", "target", "message"), [
    ("(4, 2), (2, 8)", "(4, 2), (1, 4)", "consecutive elements, but those of mode 0 of the source"),
    ("(4, 2), (1, 4)", "(4, 2), (2, 8)", "consecutive elements, but those of mode 0 of the destination"),
    ("(4, 2), (1, 4)", "(4, 3), (1, 4)", "different shapes"),
    ("(3, 2), (1, 3)", "(3, 2), (1, 3)", "moves 1, 4, 8 or 16 bytes at once, but mode 0 .* has 96 bits"),
    ("8, 1", "8, 1", "needs a static shape"),
])
def test_generated_refusals_of_asynchronous_copies(run: Any, source: str, target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(f"""
            place = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek().ptr
            fx.rocdl.async_copy(fx.make_view(fx.get_iter(X), fx.make_layout({source})),
                                fx.make_view(place, fx.make_layout({target})))
        """)


@pytest.mark.skipif(ARCH == "gfx1250", reason="it has them")
def test_asynchronous_copies_of_another_target(run: Any) -> None:
    with pytest.raises(ValueError, match=f"async_copy.*{ARCH}"):
        run("fx.rocdl.async_copy(X, Y)")


# --------------------------------------------------------------------------- scaled products


@flyc.kernel
def scaled_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, SA: fx.Tensor, SB: fx.Tensor, mma: fx.TiledMma,
                  names: fx.Constexpr[tuple], rows: fx.Constexpr[int]):
    t = fx.thread_idx.x
    thread = mma.get_slice(t)
    a, b, c = thread.make_fragment_A(A), thread.make_fragment_B(B), thread.make_fragment_C(C)
    loads = ((names[0], fx.make_tiled_copy_A, A, a), (names[1], fx.make_tiled_copy_B, B, b))
    for name, make, tensor, fragment in loads:
        copy = make(fx.make_copy_atom(fx.UniversalCopy(8), EIGHT_BITS[name][0]), mma).get_slice(t)
        fx.copy(copy.copy_atom, copy.partition_S(tensor), copy.retile(fragment))
    c.fill(0.0)
    # A scale word has four bytes, one of which the instruction takes; a lane scales the row of its own number.
    scales = [S[t % rows] * 0x01010101 for S in (SA, SB)]
    fx.gemm(mma, c, a, b, c, scale_a=scales[0], scale_b=scales[1])
    store = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma).get_slice(t)
    fx.copy(store.copy_atom, store.retile(c), store.partition_D(C))


@flyc.jit
def scaled(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, SA: fx.Tensor, SB: fx.Tensor, op: fx.Constexpr[tuple]):
    m, n, k, *names = op
    make = fx.rocdl.WMMAScale if ARCH == "gfx1250" else fx.rocdl.cdna4.MFMA_Scale
    kinds = [EIGHT_BITS[name][0] for name in names]
    mma = fx.make_tiled_mma(fx.make_mma_atom(make(m, n, k, *kinds)), fx.make_layout((1, 1, 1), (1, 1, 1)))
    scaled_kernel(A, B, C, SA, SB, mma, tuple(names), m).launch(grid=1, block=32 if ARCH == "gfx1250" else 64)


def scaled_atoms() -> list[tuple[Any, ...]]:
    shapes = {"gfx950": [(16, 16, 128), (32, 32, 64)], "gfx1250": [(16, 16, 128)]}.get(ARCH, [])
    return [(*shape, a, b) for shape in shapes for a in ("fp8", "bf8") for b in ("fp8", "bf8")]


@in_child
@pytest.mark.parametrize("op", scaled_atoms(), ids=lambda op: "x".join(map(str, op)))
def test_generated_scaled_products(op: tuple[Any, ...]) -> None:
    m, n, k, name_a, name_b = op
    (a, exact_a), (b, exact_b) = operand((m, k), name_a, 1), operand((n, k), name_b, 2)
    rng = np.random.default_rng(3)
    scale_a, scale_b = rng.integers(124, 131, m).astype(np.int32), rng.integers(124, 131, n).astype(np.int32)
    c = np.full((m, n), np.nan, np.float32)
    scaled(*(flyc.from_dlpack(v) for v in (a, b, c)), scale_a, scale_b, op)
    powers = 2.0 ** (scale_a[:, None] - 127.0) * 2.0 ** (scale_b[None, :] - 127.0)
    np.testing.assert_array_equal(c, exact_a @ exact_b.T * powers)
