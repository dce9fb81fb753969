"""Programs of the tests of copies: a tile through registers, a product, and the data for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

ARCH = get_rocm_arch().split(":")[0]
TYPES = {
    "i8": (fx.Int8, np.int8), "f16": (fx.Float16, np.float16), "i32": (fx.Int32, np.int32),
    "f32": (fx.Float32, np.float32), "f64": (fx.Float64, np.float64),
}


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


def stage_layout(stage: str, tile: tuple[int, int]) -> Any:
    """Layout of a tile in LDS: by rows, by columns, with longer rows, or swizzled in chunks of ``1 << n`` elements."""
    rows, cols = tile
    strides = {"columns": (1, rows), "padded": (cols + 16, 1), "odd": (cols + 1, 1)}.get(stage.partition("+")[0])
    layout = fx.make_layout(tile, strides or (cols, 1))
    if "swizzle" not in stage:
        return layout
    return fx.make_composed_layout(fx.static(fx.SwizzleType.get(2, int(stage[-1]), 3)), layout)


@flyc.kernel
def tile_kernel(A: fx.Tensor, B: fx.Tensor, space: fx.Constexpr[str], bits: fx.Constexpr[int],
                element: fx.Constexpr[str], threads: fx.Constexpr[tuple], block: fx.Constexpr[tuple],
                tile: fx.Constexpr[tuple], bounds: fx.Constexpr[tuple],
                stage: fx.Constexpr[str]):
    if fx.const_expr(space == "buffer"):
        A, B = fx.rocdl.make_buffer_tensor(A), fx.rocdl.make_buffer_tensor(B)
    order = (block[1], 1) if block[1] >= block[0] else (1, block[0])
    covered, tv = fx.make_layout_tv(fx.make_layout(threads, (threads[1], 1)), fx.make_layout(block, order))
    atom = fx.make_copy_atom(copy_op(space, bits), TYPES[element][0])
    lds = fx.make_copy_atom(fx.UniversalCopy(bits), TYPES[element][0])
    thread = fx.make_tiled_copy(atom, tv, covered).get_slice(fx.thread_idx.x)
    bm, bn, _ = fx.block_idx
    src = thread.partition_S(fx.flat_divide(A, tile)[None, None, bm, bn])
    dst = thread.partition_D(fx.flat_divide(B, tile)[None, None, bm, bn])
    fragment = fx.make_fragment_like(src)
    fx.copy(atom, src, fragment, bounds=limits(bounds))
    if fx.const_expr(stage != "none"):
        shared = fx.SharedAllocator().allocate(fx.Array[TYPES[element][0], (tile[0] + 1) * (tile[1] + 16), 16]).peek()
        place = thread.partition_D(shared.view(stage_layout(stage, tile)))
        fx.copy(lds, fragment, place)
        fx.barrier()
        fragment.fill(0)
        fx.copy(lds, place, fragment)
    fx.copy(atom, fragment, dst, bounds=limits(bounds))


@flyc.jit
def tile_copy(A: fx.Tensor, B: fx.Tensor, gm: fx.Int32, gn: fx.Int32, space: fx.Constexpr[str], bits: fx.Constexpr[int],
              element: fx.Constexpr[str], threads: fx.Constexpr[tuple], block: fx.Constexpr[tuple],
              tile: fx.Constexpr[tuple], bounds: fx.Constexpr[tuple],
              stage: fx.Constexpr[str] = "none"):
    tile_kernel(A, B, space, bits, element, threads, block, tile, bounds, stage).launch(
        grid=(gm, gn, 1), block=threads[0] * threads[1])


def run_tile(a: Any, b: Any, shape: tuple[int, int], *, space: str, bits: int, element: str, threads: tuple[int, int],
             block: tuple[int, int], tile: tuple[int, int], bounds: Any = None,
             stage: str = "none") -> None:
    grid = [-(-n // t) for n, t in zip(shape, tile, strict=True)]
    tile_copy(a, b, *grid, space, bits, element, threads, block, tile, packed(bounds), stage)


def small(**changes: Any) -> dict[str, Any]:
    return {"space": "global", "bits": 128, "element": "f32", "threads": (16, 4), "block": (1, 4),
            "tile": (16, 16)} | changes


def matrix_atoms() -> list[tuple[int, int, int, str]]:
    """(m, n, k, type) of the instructions of this architecture that multiply what NumPy has."""
    if ARCH.startswith("gfx9"):
        atoms = [(16, 16, 4, "f32"), (32, 32, 2, "f32"), (16, 16, 16, "f16"), (32, 32, 8, "f16"), (16, 16, 16, "bf16"),
                 (32, 32, 8, "bf16"), (16, 16, 32, "i8"), (32, 32, 16, "i8"), (16, 16, 32, "fp8"), (32, 32, 16, "fp8")]
        if ARCH != "gfx950":
            return [*atoms, (16, 16, 32, "bf8"), (32, 32, 16, "bf8")]
        return [*atoms, (16, 16, 32, "f16"), (32, 32, 16, "f16"), (16, 16, 32, "bf16")]
    if ARCH == "gfx1250":
        return [(16, 16, 4, "f32"), (16, 16, 32, "f16"), (16, 16, 32, "bf16"), (16, 16, 64, "i8"), (16, 16, 64, "fp8"),
                (16, 16, 128, "fp8"), (16, 16, 64, "bf8")]
    return [(16, 16, 16, "f16"), (16, 16, 16, "bf16"), (16, 16, 16, "i8"), (16, 16, 16, "fp8"), (16, 16, 16, "bf8")]


#: The floats of eight bits of this architecture: class and torch's name.
EIGHT_BITS = {
    "fp8": (fx.Float8E4M3FNUZ, "float8_e4m3fnuz"), "bf8": (fx.Float8E5M2FNUZ, "float8_e5m2fnuz"),
} if ARCH == "gfx942" else {"fp8": (fx.Float8E4M3FN, "float8_e4m3fn"), "bf8": (fx.Float8E5M2, "float8_e5m2")}
PRODUCT_TYPES = {
    **{name: (kind, fx.Float32) for name, (kind, _) in EIGHT_BITS.items()},
    "f32": (fx.Float32, fx.Float32), "f16": (fx.Float16, fx.Float32), "bf16": (fx.BFloat16, fx.Float32),
    "i8": (fx.Int8, fx.Int32),
}


@flyc.kernel
def product_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, tiles: fx.Int32, mma: fx.TiledMma,
                   element: fx.Constexpr[str], tile: fx.Constexpr[tuple],
                   bounds: fx.Constexpr[tuple]):
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
            op: fx.Constexpr[tuple], tile: fx.Constexpr[tuple], bounds: fx.Constexpr[tuple]):
    m, n, k, name = op
    element, accumulator = PRODUCT_TYPES[name]
    make = fx.rocdl.MFMA if ARCH.startswith("gfx9") else fx.rocdl.WMMA
    signs = {"sign_a": True, "sign_b": True} if name == "i8" and not ARCH.startswith("gfx9") else {}
    mma = fx.make_tiled_mma(fx.make_mma_atom(make(m, n, k, element, accumulator, **signs)),
                            fx.make_layout((2, 1, 1), (1, 0, 0)))
    threads = fx.size(mma.thr_layout_vmnk).unpack()
    product_kernel(A, B, C, gk, mma, name, tile, bounds).launch(grid=(gm, gn, 1), block=threads)


def operand(shape: tuple[int, int], name: str, seed: int) -> tuple[Any, np.ndarray]:
    """Small integers, which every type holds exactly: for the kernel and for NumPy."""
    exact = np.random.default_rng(seed).integers(-4, 5, shape)
    if name in ("f32", "f16", "i8"):
        return exact.astype({"f32": np.float32, "f16": np.float16, "i8": np.int8}[name]), exact
    torch = pytest.importorskip("torch")
    kind = "bfloat16" if name == "bf16" else EIGHT_BITS[name][1]
    return torch.from_numpy(exact).float().to(getattr(torch, kind)), exact
