"""Copies honour the layouts of their operands or are refused at their line.

Programs are generated over atoms, element types, layouts, strides that are static or known at launch, and sizes that
the tile divides or not. Each must either move every element to its place or be refused with a reason that holds. They
run in processes of their own, one per architecture, with all checks of the simulator on (see `test_generated_on`).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.diagnostics import DSLCompileError
from flydsl.runtime.device import get_rocm_arch

HERE = Path(__file__)
CHILD = "FLYDSL_TEST_COPIES"
PROGRAMS = int(os.environ.get("FLYDSL_COPIES_PROGRAMS", "40"))
ARCH = get_rocm_arch().split(":")[0]

pytestmark = pytest.mark.usefixtures("device")
in_child = pytest.mark.skipif(CHILD not in os.environ, reason="runs in a process with checks")

TYPES = {
    "i8": (fx.Int8, np.int8), "f16": (fx.Float16, np.float16), "i32": (fx.Int32, np.int32),
    "f32": (fx.Float32, np.float32), "f64": (fx.Float64, np.float64),
}  # fmt: skip


def values(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    """Distinct bit patterns as far as the type has them, none of them the poison."""
    return (np.random.default_rng(seed).integers(1, 120, shape)).astype(dtype)


def poisoned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.full(shape, -1, dtype)


def matrix(data: np.ndarray, kind: str) -> np.ndarray:
    """The same matrix in memory by rows, by columns, with rows that are further apart, or misaligned."""
    rows, cols = data.shape
    if kind == "columns":
        return np.asfortranarray(data)
    if kind == "padded":
        out = np.zeros((rows, cols + 3), data.dtype)[:, :cols]
    elif kind == "shifted":
        out = np.zeros(rows * cols + 1, data.dtype)[1:].reshape(rows, cols)
    else:
        return data.copy()
    out[...] = data
    return out


def limits(bounds: tuple[Any, ...]) -> Any:
    """The argument of a copy that travels as a tuple of one entry or none."""
    if not bounds or bounds[0] is True:
        return True if bounds else None
    return tuple(None if limit < 0 else limit for limit in bounds)


def packed(bounds: Any) -> tuple[Any, ...]:
    if bounds is None or bounds is True:
        return () if bounds is None else (True,)
    return tuple(-1 if limit is None else limit for limit in bounds)


def copy_op(space: str, bits: int) -> Any:
    return fx.rocdl.BufferCopy(bits) if space == "buffer" else fx.UniversalCopy(bits)


@flyc.kernel
def tile_kernel(A: fx.Tensor, B: fx.Tensor, space: fx.Constexpr[str], bits: fx.Constexpr[int],
                element: fx.Constexpr[str], threads: fx.Constexpr[tuple], block: fx.Constexpr[tuple],
                tile: fx.Constexpr[tuple], bounds: fx.Constexpr[tuple]):  # fmt: skip
    if fx.const_expr(space == "buffer"):
        A, B = fx.rocdl.make_buffer_tensor(A), fx.rocdl.make_buffer_tensor(B)
    order = (block[1], 1) if block[1] >= block[0] else (1, block[0])
    covered, tv = fx.make_layout_tv(fx.make_layout(threads, (threads[1], 1)), fx.make_layout(block, order))
    atom = fx.make_copy_atom(copy_op(space, bits), TYPES[element][0])
    thread = fx.make_tiled_copy(atom, tv, covered).get_slice(fx.thread_idx.x)
    bm, bn, _ = fx.block_idx
    src = thread.partition_S(fx.flat_divide(A, tile)[None, None, bm, bn])
    dst = thread.partition_D(fx.flat_divide(B, tile)[None, None, bm, bn])
    fragment = fx.make_fragment_like(src)
    fx.copy(atom, src, fragment, bounds=limits(bounds))
    fx.copy(atom, fragment, dst, bounds=limits(bounds))


@flyc.jit
def tile_copy(A: fx.Tensor, B: fx.Tensor, gm: fx.Int32, gn: fx.Int32, space: fx.Constexpr[str], bits: fx.Constexpr[int],
              element: fx.Constexpr[str], threads: fx.Constexpr[tuple], block: fx.Constexpr[tuple],
              tile: fx.Constexpr[tuple], bounds: fx.Constexpr[tuple]):  # fmt: skip
    tile_kernel(A, B, space, bits, element, threads, block, tile, bounds).launch(
        grid=(gm, gn, 1), block=threads[0] * threads[1])


def run_tile(a: Any, b: Any, shape: tuple[int, int], *, space: str, bits: int, element: str, threads: tuple[int, int],
             block: tuple[int, int], tile: tuple[int, int], bounds: Any = None) -> None:  # fmt: skip
    grid = [-(-n // t) for n, t in zip(shape, tile, strict=True)]
    tile_copy(a, b, *grid, space, bits, element, threads, block, tile, packed(bounds))


def generate(seed: int) -> dict[str, Any]:
    """Parameters of one program."""
    rng = random.Random(seed)
    name = rng.choice(list(TYPES))
    element = TYPES[name][0]
    bits = rng.choice([b for b in (8, 16, 32, 64, 128) if b >= element.width])
    count = bits // element.width
    block = rng.choice([(1, count), (count, 1)])
    threads = rng.choice([(8, 8), (16, 4), (4, 16)])
    covered = tuple(t * b for t, b in zip(threads, block, strict=True))
    tile = tuple(c * rng.choice([1, 1, 2]) for c in covered)
    ragged = rng.random() < 0.5
    shape = tuple(t * rng.choice([1, 2]) - (rng.randrange(t) if ragged else 0) for t in tile)
    return {
        "name": name, "bits": bits, "block": block, "threads": threads, "tile": tile, "shape": shape,
        "space": rng.choice(["buffer", "global"]), "bounds": True if ragged else rng.choice([None, True]),
        "source": rng.choice(["rows", "columns", "padded", "shifted"]), "target": rng.choice(["rows", "columns"]),
        "static": rng.random() < 0.5,
    }  # fmt: skip


def along(kind: str, block: tuple[int, int], static: bool) -> bool:
    """Whether the elements of one access are known to be consecutive in a matrix of this kind."""
    axis = 0 if block[0] > 1 else 1
    return block == (1, 1) or axis == (0 if kind == "columns" else 1)


@in_child
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_generated_tiles(seed: int) -> None:
    p = generate(seed)
    dtype = TYPES[p["name"]][1]
    data = values(p["shape"], dtype, seed)
    a, b = matrix(data, p["source"]), matrix(poisoned(p["shape"], dtype), p["target"])
    arguments = [flyc.from_dlpack(x) if p["static"] else x for x in (a, b)]
    try:
        run_tile(*arguments, p["shape"], space=p["space"], bits=p["bits"], element=p["name"], threads=p["threads"],
                 block=p["block"], tile=p["tile"], bounds=p["bounds"])  # fmt: skip
    except DSLCompileError as error:
        assert "consecutive" in str(error), p
        scattered = [kind for kind in (p["source"], p["target"]) if not along(kind, p["block"], p["static"])]
        assert scattered and p["static"], p
    else:
        np.testing.assert_array_equal(b, data, err_msg=str(p))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_generated_on(arch: str) -> None:
    env = {**os.environ, "FLYDSL_SIM_ARCH": arch, "FLYDSL_RUNTIME_KIND": "sim", CHILD: "1",
           "FLYDSL_SIM_CHECK": "oob,race,uninit"}  # fmt: skip
    for name in ("ARCH", "FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION"):
        env.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE), "-k",
               "generated_tiles or products or direct_load"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, env=env, cwd=HERE.parents[4])
    assert result.returncode == 0 and " passed" in result.stdout, result.stdout[-4000:] + result.stderr[-500:]


# --------------------------------------------------------------------------- matrix atoms, ragged


def matrix_atoms() -> list[tuple[int, int, int, str]]:
    """(m, n, k, type) of the instructions of this architecture that multiply what NumPy has."""
    if ARCH.startswith("gfx9"):
        atoms = [(16, 16, 4, "f32"), (32, 32, 2, "f32"), (16, 16, 16, "f16"), (32, 32, 8, "f16"), (16, 16, 16, "bf16"),
                 (32, 32, 8, "bf16"), (16, 16, 32, "i8"), (32, 32, 16, "i8")]  # fmt: skip
        return atoms + ([(16, 16, 32, "f16"), (32, 32, 16, "f16"), (16, 16, 32, "bf16")] if ARCH == "gfx950" else [])
    if ARCH == "gfx1250":
        return [(16, 16, 4, "f32"), (16, 16, 32, "f16"), (16, 16, 32, "bf16"), (16, 16, 64, "i8")]
    return [(16, 16, 16, "f16"), (16, 16, 16, "bf16"), (16, 16, 16, "i8")]


PRODUCT_TYPES = {
    "f32": (fx.Float32, fx.Float32), "f16": (fx.Float16, fx.Float32), "bf16": (fx.BFloat16, fx.Float32),
    "i8": (fx.Int8, fx.Int32),
}  # fmt: skip


@flyc.kernel
def product_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, tiles: fx.Int32, mma: fx.TiledMma,
                   element: fx.Constexpr[str], tile: fx.Constexpr[tuple],
                   bounds: fx.Constexpr[tuple]):  # fmt: skip
    tid, (bm, bn, _) = fx.thread_idx.x, fx.block_idx
    A, B, C = [fx.rocdl.make_buffer_tensor(t) for t in (A, B, C)]
    m, n, k = tile
    kind, kind_c = PRODUCT_TYPES[element]
    a_tiles = fx.flat_divide(A, (m, k))[None, None, bm, None]
    b_tiles = fx.flat_divide(B, (n, k))[None, None, bn, None]
    c_tile = fx.flat_divide(C, (m, n))[None, None, bm, bn]
    thread = mma.get_slice(tid)
    a, b = thread.make_fragment_A(a_tiles[None, None, 0]), thread.make_fragment_B(b_tiles[None, None, 0])
    c = thread.make_fragment_C(c_tile)
    c.fill(0)
    load = fx.make_copy_atom(fx.rocdl.BufferCopy(kind.width), kind)
    copy_a, copy_b = fx.make_tiled_copy_A(load, mma).get_slice(tid), fx.make_tiled_copy_B(load, mma).get_slice(tid)
    a_source, b_source = copy_a.partition_S(a_tiles), copy_b.partition_S(b_tiles)
    for i in range(tiles):
        fx.copy(load, a_source[None, None, None, i], copy_a.retile(a), bounds=limits(bounds))
        fx.copy(load, b_source[None, None, None, i], copy_b.retile(b), bounds=limits(bounds))
        fx.gemm(mma, c, a, b, c)
    store = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), kind_c)
    copy_c = fx.make_tiled_copy_C(store, mma).get_slice(tid)
    fx.copy(store, copy_c.retile(c), copy_c.partition_D(c_tile), bounds=limits(bounds))


@flyc.jit
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, gm: fx.Int32, gn: fx.Int32, gk: fx.Int32,
            op: fx.Constexpr[tuple], tile: fx.Constexpr[tuple], bounds: fx.Constexpr[tuple]):  # fmt: skip
    m, n, k, name = op
    element, accumulator = PRODUCT_TYPES[name]
    make = fx.rocdl.MFMA if ARCH.startswith("gfx9") else fx.rocdl.WMMA
    signs = {"sign_a": True, "sign_b": True} if name == "i8" and not ARCH.startswith("gfx9") else {}
    mma = fx.make_tiled_mma(fx.make_mma_atom(make(m, n, k, element, accumulator, **signs)),
                            fx.make_layout((2, 1, 1), (1, 0, 0)))  # fmt: skip
    threads = fx.size(mma.thr_layout_vmnk).unpack()
    product_kernel(A, B, C, gk, mma, name, tile, bounds).launch(grid=(gm, gn, 1), block=threads)


def operand(shape: tuple[int, int], name: str, seed: int) -> tuple[Any, np.ndarray]:
    """Small integers, which every type holds exactly: for the kernel and for NumPy."""
    exact = np.random.default_rng(seed).integers(-4, 5, shape)
    if name != "bf16":
        return exact.astype({"f32": np.float32, "f16": np.float16, "i8": np.int8}[name]), exact
    torch = pytest.importorskip("torch")
    return torch.from_numpy(exact).to(torch.bfloat16), exact


@in_child
@pytest.mark.parametrize("op", matrix_atoms(), ids=lambda op: "x".join(map(str, op)))
@pytest.mark.parametrize("ragged", [False, True])
def test_products(op: tuple[int, int, int, str], ragged: bool) -> None:
    m, n, k, name = op
    tile = (2 * m, 2 * n, 2 * k)
    shape = (3 * m + 5, n + 3, 3 * k + 1) if ragged else (4 * m, 2 * n, 4 * k)
    (a, exact_a), (b, exact_b) = operand((shape[0], shape[2]), name, 1), operand((shape[1], shape[2]), name, 2)
    c = np.full(shape[:2], -1, np.int32 if name == "i8" else np.float32)
    grid = [-(-s // t) for s, t in zip(shape, tile, strict=True)]
    product(a, b, c, *grid, op, tile, packed(ragged or None))
    np.testing.assert_array_equal(c, exact_a @ exact_b.T)


# --------------------------------------------------------------------------- direct loads into LDS


def direct_atoms() -> list[str]:
    """Names of the direct loads of this architecture, with their width in words of 32 bits."""
    if not ARCH.startswith("gfx9"):
        return []
    every = ["BufferCopyLDS32b"]
    if ARCH == "gfx950":
        every += ["BufferCopyLDS128b", "BufferLoadAsyncLDS32b", "BufferLoadAsyncLDS128b", "GlobalLoadAsyncLDS128b"]
    return every


@flyc.kernel
def direct_kernel(A: fx.Tensor, B: fx.Tensor, op: fx.Constexpr[str], place: fx.Constexpr[str],
                  bounds: fx.Constexpr[tuple]):  # fmt: skip
    t, words = fx.thread_idx.x, 4 if op.endswith("128b") else 1
    if fx.const_expr(op.startswith("Buffer")):
        A = fx.rocdl.make_buffer_tensor(A)
    n = 4 * words
    tile, tv = fx.make_layout_tv(fx.make_layout((16, 4), (4, 1)), fx.make_layout((1, words), (words, 1)))
    atom = fx.make_copy_atom(getattr(fx.rocdl if "Async" not in op else fx.rocdl.cdna4, op)(), fx.Float32)
    strides = {"rows": (n, 1), "columns": (words, 16 * words), "padded": (2 * n, 1), "swizzled": (n, 1)}[place]
    if fx.const_expr(place == "columns"):
        layout = fx.make_layout((16, (words, 4)), (words, (1, 16 * words)))
    else:
        layout = fx.make_layout((16, n), strides)
    if fx.const_expr(place == "swizzled"):
        layout = fx.make_composed_layout(fx.static(fx.SwizzleType.get(2, 2 if words == 4 else 0, 2)), layout)
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 512, 16]).peek().view(layout)
    thread = fx.make_tiled_copy(atom, tv, tile).get_slice(t)
    fx.copy(atom, thread.partition_S(fx.flat_divide(A, (16, n))[None, None, 0, 0]), thread.partition_D(shared),
            bounds=limits(bounds))
    fx.rocdl.s_waitcnt(0)
    fx.barrier()
    for i in fx.range_constexpr(words):
        B[t // 4, t % 4 * words + i] = shared[t // 4, t % 4 * words + i]


@flyc.jit
def direct(A: fx.Tensor, B: fx.Tensor, op: fx.Constexpr[str], place: fx.Constexpr[str], bounds: fx.Constexpr[tuple]):
    direct_kernel(A, B, op, place, bounds).launch(grid=1, block=64)


@pytest.mark.parametrize("place", ["rows", "columns", "padded", "swizzled"])
@pytest.mark.parametrize("op", direct_atoms())
def test_direct_load(op: str, place: str) -> None:
    shape = (16, 16 if op.endswith("128b") else 4)
    a, b = values(shape, np.float32, 0), poisoned(shape, np.float32)
    if place == "rows":
        direct(a, b, op, place, ())
        np.testing.assert_array_equal(a, b)
        return
    with pytest.raises(DSLCompileError, match="does not have that layout.*thread") as error:
        direct(a, b, op, place, ())
    assert "fx.copy(atom, thread.partition_S(" in str(error.value)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="direct loads are instructions of CDNA")
def test_direct_load_with_bounds() -> None:
    a, b = values((13, 4), np.float32, 0), poisoned((16, 4), np.float32)
    direct(a, b, "BufferCopyLDS32b", "rows", (True,))
    np.testing.assert_array_equal(b, np.concatenate([a, np.zeros((3, 4), np.float32)]))


# --------------------------------------------------------------------------- strides known at launch


def small(**changes: Any) -> dict[str, Any]:
    return {"space": "global", "bits": 128, "element": "f32", "threads": (16, 4), "block": (1, 4),
            "tile": (16, 16)} | changes  # fmt: skip


@pytest.mark.parametrize("space", ["global", "buffer"])
def test_columns_are_copied_element_by_element(space: str) -> None:
    """The stride between the elements of an access is known at launch only."""
    data = values((32, 48), np.float32, 1)
    out = poisoned(data.shape, np.float32)
    run_tile(np.asfortranarray(data), out, data.shape, **small(space=space))
    np.testing.assert_array_equal(out, data)


def test_static_columns_are_refused() -> None:
    data = np.asfortranarray(values((16, 16), np.float32, 1))
    with pytest.raises(DSLCompileError, match="consecutive"):
        run_tile(flyc.from_dlpack(data), poisoned((16, 16), np.float32), (16, 16), **small())


def test_misaligned_base() -> None:
    data = values((16, 16), np.float32, 2)
    out = poisoned(data.shape, np.float32)
    for space in ("global", "buffer"):
        run_tile(matrix(data, "shifted"), out, data.shape, **small(space=space))
        np.testing.assert_array_equal(out, data)


# --------------------------------------------------------------------------- element types


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64])
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises((DSLCompileError, ValueError), match="element types mismatch.*recast"):
        run_typed(values((16, 16), np.float32, 3), poisoned((16, 16), dtype))


def test_integers_of_the_same_width_are_bits() -> None:
    a, b = values((16, 16), np.float32, 3), poisoned((16, 16), np.int32)
    run_typed(a, b)
    np.testing.assert_array_equal(a.view(np.int32), b)


def run_typed(a: np.ndarray, b: np.ndarray) -> None:
    run_tile(a, b, (16, 16), **small())


def test_values_of_another_width_are_refused(run: Any) -> None:
    """The atom would move a half of what it is given."""
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float16)
    r = fx.make_rmem_tensor(2, fx.Float32)
    fx.copy(atom, fx.make_view(fx.get_iter(X), fx.make_layout(2, 1)), r)
    Y[t] = r[0]
    """
    with pytest.raises(DSLCompileError, match="one call moves 32 bits.*holds 64"):
        run(body)


def test_products_of_other_types_are_refused(run: Any) -> None:
    body = """
    mma = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    a, b = fx.make_rmem_tensor(1, fx.Float32), fx.make_rmem_tensor(1, fx.Float64)
    a.fill(1.0)
    b.fill(1.0)
    fx.gemm(mma, a, a, b, a)
    Y[t] = a[0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="operand b is a fragment of 'f64'.*takes 'f32'"):
        run(body)


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("space", ["global", "buffer", "shared"])
@pytest.mark.parametrize("layout", ["fx.make_layout(1, 0)", "fx.make_layout(1, 1)"])
@pytest.mark.parametrize("element", ["Float32", "Int8"])
def test_a_view_of_one_element_is_an_address(run: Any, space: str, layout: str, element: str) -> None:
    """What moves is said by the atom and the registers; the element is the unit of the offset."""
    size = 1 if element == "Int8" else 4
    source, atom = "X", "fx.UniversalCopy128b()"
    if space == "buffer":
        source, atom = "fx.rocdl.make_buffer_tensor(X)", "fx.rocdl.BufferCopy128b()"
    if space == "shared":
        source = "shared"
    body = f"""
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek().view(fx.make_layout(64, 1))
    shared[t] = X[t]
    fx.barrier()
    p = fx.get_iter({source})
    if fx.const_expr("{element}" == "Int8"):
        p = fx.recast_iter(fx.PointerType.get(fx.Int8.ir_type, p.type.address_space, 4), p)
    atom = fx.make_copy_atom({atom}, fx.{element})
    r = fx.make_rmem_tensor(4, fx.Float32)
    fx.copy(atom, fx.make_view(fx.add_offset(p, 16 // {size} * (t % 16)), {layout}), r)
    Y[t] = r[0] + 100.0 * r[3]
    """
    got = run(body)
    start = 4 * (np.arange(64) % 16)
    np.testing.assert_array_equal(got, start + 100.0 * (start + 3))


# --------------------------------------------------------------------------- tiles and indices


@pytest.mark.parametrize("rows", [24, 8])
def test_an_overrun_is_refused(rows: int) -> None:
    """24 rows in copies of 16: the second one reaches into the next tile."""
    data = values((rows, 16), np.float32, 4)
    out = poisoned(data.shape, np.float32)
    with pytest.raises(DSLCompileError, match=f"mode 0 of .* has extent {rows}, which the copy takes in tiles of 16"):
        run_tile(data, out, data.shape, **small(tile=(rows, 16)))
    run_tile(data, out, data.shape, **small(tile=(rows, 16), bounds=True))
    np.testing.assert_array_equal(out, data)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="one matrix instruction is enough")
def test_an_overrun_of_a_product_is_refused() -> None:
    """Results of 32 x 16 in a tile of 48 x 16: copies with the MMA's layout overrun as well."""
    (a, _), (b, _) = operand((48, 16), "f16", 1), operand((16, 16), "f16", 2)
    c = np.full((48, 16), -1, np.float32)
    with pytest.raises(DSLCompileError, match="mode 0 of .* has extent 48, which the copy takes in tiles of 32"):
        product(a, b, c, 1, 1, 1, (16, 16, 16, "f16"), (48, 16, 16), ())
    product(a, b, c, 1, 1, 1, (16, 16, 16, "f16"), (48, 16, 16), (True,))
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)


def test_a_guarded_overrun_is_not(run: Any) -> None:
    """Copies under a predicate or a branch, and the repeats that lie inside, are the author's business."""
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    _, tv = fx.make_layout_tv(fx.make_layout(16, 1), fx.make_layout(1, 1))
    tiled = fx.make_tiled_copy(atom, tv, (16,))
    view = lambda v: fx.make_view(fx.get_iter(v), fx.make_layout(24, 1))
    s, d = tiled.get_slice(t).partition_S(view(X)), tiled.get_slice(t).partition_D(view(Y))
    fx.copy(atom, s[None, 0], d[None, 0])
    if t < 8:
        fx.copy(atom, s[None, 1], d[None, 1])
    """
    prelude = ""
    got = run(body, block=16, x=np.arange(64, dtype=np.float32), y=np.full(64, -77, np.float32), prelude=prelude)
    np.testing.assert_array_equal(got[:24], np.arange(24))
    assert (got[24:] == -77).all()


@pytest.mark.parametrize("statement", [
    "Y[t] = r[7]", "r[4] = 1.0", "Y[t] = r[-1]", "Y[t] = m[4, 0]", "Y[t] = m[None, 9].load()[0]", "m[0, 8] = 1.0",
    "Y[t] = s[8]",
])  # fmt: skip
def test_an_index_beyond_the_extent(run: Any, statement: str) -> None:
    body = f"""
    r = fx.make_rmem_tensor(4, fx.Float32)
    r.fill(1.0)
    m = fx.make_view(fx.get_iter(X), fx.make_layout((4, 8), (8, 1)))
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 8, 16]).peek().view(fx.make_layout(8, 1))
    {statement}
    """
    with pytest.raises((DSLCompileError, ValueError), match=r"index -?\d+ is outside of a mode of .*") as error:
        run(body)
    assert statement.split("=")[0].strip() in str(error.value) or error.value.__cause__ is None


# --------------------------------------------------------------------------- edges


@pytest.mark.parametrize("space", ["global", "buffer"])
@pytest.mark.parametrize("shape", [(45, 37), (1, 1), (33, 40)])
def test_bounds(space: str, shape: tuple[int, int]) -> None:
    """The copy of the aligned tile plus one argument; nothing around the matrix changes."""
    data = values(shape, np.float16, 5)
    around = np.full((shape[0] + 2, shape[1] + 2), -1, np.float16)
    out = around[1:-1, 1:-1]
    changes = small(space=space, element="f16", bits=128, block=(1, 8), tile=(32, 32))
    run_tile(data, out, shape, **changes, bounds=True)
    np.testing.assert_array_equal(out, data)
    out[...] = -1
    assert (around == -1).all()


def test_bounds_of_a_part() -> None:
    data, out = values((32, 32), np.float32, 6), poisoned((32, 32), np.float32)
    run_tile(data, out, data.shape, **small(tile=(32, 32)), bounds=(13, None))
    np.testing.assert_array_equal(out[:13], data[:13])
    assert (out[13:] == -1).all()


def test_bounds_take_no_branch_through_buffers() -> None:
    """The hardware leaves out what is masked: nothing but the end of the program follows another way."""
    import flydsl.ir

    branches = {}
    for space in ("global", "buffer"):
        a, b = values((45, 37), np.float32, 7), poisoned((45, 37), np.float32)
        compiled = flyc.compile(tile_copy, a, b, 3, 3, space, 32, "f32", (16, 4), (1, 1), (16, 16), (True,))
        code = flydsl.ir.disassemble(compiled.artifact.hsaco)
        branches[space] = code.count("s_cbranch_exec") + code.count("saveexec")
    assert branches["buffer"] == 0 < branches["global"]


def access_bits(a: Any, b: Any, bounds: Any) -> set[int]:
    """Widths of the buffer accesses of a copy of float16 values whose atom moves 128 bits."""
    import re

    import flydsl.ir

    compiled = flyc.compile(tile_copy, a, b, 2, 2, "buffer", 128, "f16", (16, 4), (1, 8), (32, 32), packed(bounds))
    names = re.findall(r"buffer_(?:load|store)_(\w+)", flydsl.ir.disassemble(compiled.artifact.hsaco))
    words = {"dword": 32, "dwordx2": 64, "dwordx4": 128, "ushort": 16, "short": 16, "b32": 32, "b64": 64, "b128": 128,
             "u16": 16, "b16": 16, "d16_b16": 16, "short_d16": 16}  # fmt: skip
    return {words[name] for name in names}


def test_bounds_narrow_as_far_as_an_edge_may_split() -> None:
    """A limit that is known to be a multiple of the access keeps its width; so does an axis without a limit."""
    a, b = np.ones((45, 40), np.float16), np.ones((45, 36), np.float16)
    static = flyc.from_dlpack
    dynamic = lambda x: static(x).mark_layout_dynamic(divisibility=8).mark_shape_dynamic(1, 8)  # noqa: E731
    assert access_bits(static(a), static(a), True) == {128}
    assert access_bits(dynamic(a), dynamic(a), True) == {128}
    assert access_bits(static(b), static(b), True) == {64}
    assert access_bits(a, a, (45, None)) == {128}
    assert access_bits(a, a, True) == {16}


@pytest.mark.parametrize("bounds, message", [
    ((4,), "bounds has 1 entries, but the tensor .* has 2 modes"), ((4, 4, 4), "bounds has 3 entries"),
])  # fmt: skip
def test_bounds_of_another_rank(bounds: Any, message: str) -> None:
    data = values((16, 16), np.float32, 8)
    with pytest.raises((DSLCompileError, ValueError), match=message):
        run_tile(data, data.copy(), data.shape, **small(), bounds=bounds)


def test_bounds_need_a_resource_with_a_size(run: Any) -> None:
    body = """
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    x = fx.rocdl.make_buffer_tensor(X, max_size=True)
    r = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy(atom, fx.logical_divide(x, (1,))[(None, t)], r, bounds=n)
    Y[t] = r[0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="buffer tensor that knows its size"):
        run(body)
    got = run(body.replace(", max_size=True", ""), n=40)
    np.testing.assert_array_equal(got, np.where(np.arange(64) < 40, np.arange(64), 0))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
def test_buffer_tensors_end_with_their_last_element(run: Any, dtype: Any) -> None:
    """Also where that is half of a word."""
    name = {np.float16: "Float16", np.int8: "Int8", np.float32: "Float32"}[dtype]
    body = f"""
    x, y = fx.rocdl.make_buffer_tensor(X), fx.rocdl.make_buffer_tensor(Y)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(fx.{name}.width), fx.{name})
    r = fx.make_rmem_tensor(1, fx.{name})
    fx.copy(atom, fx.logical_divide(x, (1,))[None, t], r)
    fx.copy(atom, r, fx.logical_divide(y, (1,))[None, t])
    """
    whole, out = np.arange(1, 65).astype(dtype), np.full(64, -1, dtype)
    run(body, x=whole[:37], y=out)
    np.testing.assert_array_equal(out[:37], whole[:37])
    # Beyond the end of the source nothing is read: the destination gets zeros.
    np.testing.assert_array_equal(out[37:], 0)


def test_bounds_know_no_offset_of_the_atom(run: Any) -> None:
    body = """
    x = fx.rocdl.make_buffer_tensor(fx.make_view(fx.get_iter(X), fx.make_layout((4, 16), (16, 1))))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    r = fx.make_rmem_tensor((1, 1), fx.Float32)
    fx.copy(atom, fx.logical_divide(x, (1, 1))[((None, t // 8), (None, t % 8))], r, soffset=8, bounds=BOUNDS)
    Y[t] = r[0, 0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="give None for the mode along which it moves"):
        run(body.replace("BOUNDS", "True"), block=32)
    got = run(body.replace("BOUNDS", "(3, None)"), block=32, x=np.arange(64, dtype=np.float32))
    rows = np.arange(64, dtype=np.float32).reshape(4, 16)[:, 8:]
    np.testing.assert_array_equal(got.reshape(4, 8), np.where(np.arange(4)[:, None] < 3, rows, 0))


def test_bounds_need_a_view_cut_here(run: Any) -> None:
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    parts = fx.logical_divide(X, (1,))
    part = parts[None, t]
    if n > 3:
        part = parts[None, t + 1]
    r = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy(atom, part, r, bounds=True)
    Y[t] = r[0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="comes from scf.if: carry indices instead"):
        run(body)
