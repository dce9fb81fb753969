"""Tensor data mover on the simulator of gfx1250, in a process of its own: legacy and tiled atoms, loads and stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl import tdm_ops
from flydsl.runtime.device import get_rocm_arch

HERE = Path(__file__)
on_gfx1250 = pytest.mark.skipif(not get_rocm_arch().startswith("gfx1250"), reason="needs gfx1250")


@flyc.kernel
def tile_k(A: fx.Tensor, C: fx.Tensor, tiled: fx.Constexpr[bool], store: fx.Constexpr[bool]):
    t, b = fx.thread_idx.x, fx.block_idx.x
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 32 * 64, 128]).peek()
    rows = fx.make_layout((32, 64), (64, 1))
    shared = space.view(rows)
    whole = fx.make_view(space.ptr, fx.make_layout(((32, 64),), ((64, 1),)))

    def move(op, tensor):
        if fx.const_expr(tiled):
            atom, coords = fx.rocdl.make_tiled_tdm_atom(op, tensor, rows, (32, 64), num_warps=4)
            tile = fx.slice(fx.zipped_divide(coords, fx.make_tile(32, 64)), (None, b))
            ours = fx.rocdl.tdm_partition(atom, t // 32, fx.make_layout(4, 1), whole, fx.group(tile, 0, 2))
        else:
            atom = fx.rocdl.make_tdm_atom(tensor, (64, 64), (64, 1) if fx.const_expr(store) else (64,), num_warps=4)
            static = fx.make_view(fx.get_iter(tensor), fx.make_layout((64, 64), (64, 1)))
            ours = shared, fx.flat_divide(static, (32, 64))[None, None, b, 0]
        return atom, *ours

    if fx.const_expr(store):
        for i in fx.range_constexpr(16):
            at = i * 128 + t
            shared[at // 64, at % 64] = A[b * 32 + at // 64, at % 64]
        fx.barrier()
        atom, ours, theirs = move(fx.rocdl.TensorStore(), C)
        fx.copy(atom, ours, theirs) if fx.const_expr(tiled) else fx.copy_atom_call(atom, ours, theirs)
        fx.rocdl.s_wait_tensorcnt(0)
    else:
        atom, ours, theirs = move(fx.rocdl.TensorLoad(), A)
        fx.copy_atom_call(atom, theirs, ours)
        fx.rocdl.s_wait_tensorcnt(0)
        fx.barrier()
        for i in fx.range_constexpr(16):
            at = i * 128 + t
            C[b * 32 + at // 64, at % 64] = shared[at // 64, at % 64]


@flyc.jit
def tile(A: fx.Tensor, C: fx.Tensor, tiled: fx.Constexpr[bool], store: fx.Constexpr[bool]):
    tile_k(A, C, tiled, store).launch(grid=2, block=128)


@on_gfx1250
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("store", [False, True])
def test_tile_through_lds(device: Any, tiled: bool, store: bool) -> None:
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    c = np.full_like(a, np.nan)
    tile(a, c, tiled, store)
    np.testing.assert_array_equal(a, c)


@flyc.kernel
def padded_k(A: fx.Tensor, C: fx.Tensor):
    """Four waves load 8 rows each, with a gap of 8 elements after every two rows."""
    t = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16 * 136, 128]).peek()
    rows = shared.view(fx.make_layout(((2, 16), 64), ((64, 136), 1)))
    static = fx.make_view(fx.get_iter(A), fx.make_layout((32, 64), (64, 1)))
    atom = fx.rocdl.make_tdm_atom(static, (32, 64), (64,), num_warps=4, pad_interval=128, pad_amount=8)
    fx.copy_atom_call(atom, static, rows)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    for i in fx.range_constexpr(16):
        at = i * 128 + t
        C[at // 64, at % 64] = rows[at // 64, at % 64]


@flyc.jit
def padded(A: fx.Tensor, C: fx.Tensor):
    padded_k(A, C).launch(grid=1, block=128)


@on_gfx1250
def test_gaps_through_lds(device: Any) -> None:
    a = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float16)
    c = np.full_like(a, np.nan)
    padded(a, c)
    np.testing.assert_array_equal(a, c)


@flyc.kernel
def padded_store_k(A: fx.Tensor, C: fx.Tensor):
    """Four waves store 8 rows of 64 each from LDS, where a gap of 8 elements follows every row."""
    t = fx.thread_idx.x
    rows = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 32 * 72, 128]).peek().view(
        fx.make_layout((32, 64), (72, 1)))
    for i in fx.range_constexpr(16):
        at = i * 128 + t
        rows[at // 64, at % 64] = A[at // 64, at % 64]
    fx.barrier()
    static = fx.make_view(fx.get_iter(C), fx.make_layout((32, 64), (80, 1)))
    atom = fx.rocdl.make_tdm_atom(static, (30, None), (80,), num_warps=4, pad_interval=64, pad_amount=8)
    fx.copy_atom_call(atom, rows, static)
    fx.rocdl.s_wait_tensorcnt(0)


@flyc.jit
def padded_store(A: fx.Tensor, C: fx.Tensor):
    padded_store_k(A, C).launch(grid=1, block=128)


@on_gfx1250
def test_stored_gaps_through_lds(device: Any) -> None:
    a = np.random.default_rng(2).standard_normal((32, 64)).astype(np.float16)
    c = np.full((32, 80), -1, np.float16)
    want = c.copy()
    want[:30, :64] = a[:30]
    padded_store(a, c)
    np.testing.assert_array_equal(c, want)


@flyc.kernel
def edge_k(A: fx.Tensor, C: fx.Tensor, block: fx.Constexpr[int], waves: fx.Constexpr[int], store: fx.Constexpr[bool]):
    """Tile 1 of 16 rows; in LDS a gap of 5 follows every `block` rows, which only iterations can express."""
    t, threads = fx.thread_idx.x, 32 * waves
    step, count = block * 16 + 5, 16 // block
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, count * step, 128]).peek()
    every = space.view(fx.make_layout(count * step, 1))
    for i in range(t, count * step, threads):
        every[i] = fx.Float32(-1)
    fx.barrier()
    layout = fx.make_layout(((block, count), 16), ((16, step), 1))
    shared = space.view(layout)
    if fx.const_expr(store):
        for i in range(t, 256, threads):
            shared[i // 16, i % 16] = A[i // 16, i % 16]
        fx.barrier()
    op, tensor = (fx.rocdl.TensorStore(), C) if fx.const_expr(store) else (fx.rocdl.TensorLoad(), A)
    atom, coords = fx.rocdl.make_tiled_tdm_atom(op, tensor, layout, (16, 16), num_warps=waves)
    tile = fx.slice(fx.zipped_divide(coords, fx.make_tile(16, 16)), (None, (1, 0)))
    whole = fx.make_view(space.ptr, fx.make_layout((((block, count), 16),), (((16, step), 1),)))
    ours, theirs = fx.rocdl.tdm_partition(atom, t // 32, fx.make_layout(waves, 1), whole, fx.group(tile, 0, 2))
    fx.copy(atom, *((ours, theirs) if fx.const_expr(store) else (theirs, ours)))
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    if fx.const_expr(not store):
        for i in range(t, 256, threads):
            C[i // 16, i % 16] = shared[i // 16, i % 16]


@flyc.jit
def edge(A: fx.Tensor, C: fx.Tensor, block: fx.Constexpr[int], waves: fx.Constexpr[int], store: fx.Constexpr[bool]):
    edge_k(A, C, block, waves, store).launch(grid=1, block=32 * waves)


@on_gfx1250
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("block", [1, 4, 8])
@pytest.mark.parametrize("waves", [1, 2, 16])
def test_iterations_end_with_the_tensor_through_lds(device: Any, block: int, waves: int, store: bool) -> None:
    random = np.random.default_rng(3)
    for inside in (16, 13, 8, 3, 1):
        tensor = random.standard_normal((16 + inside, 16)).astype(np.float32)
        tile = random.standard_normal((16, 16)).astype(np.float32)
        if store:
            want = np.vstack([tensor[:16], tile[:inside]])
            edge(tile, tensor, block, waves, True)
            np.testing.assert_array_equal(tensor, want)
        else:
            want = np.zeros_like(tile)
            want[:inside] = tensor[16:]
            edge(tensor, tile, block, waves, False)
            np.testing.assert_array_equal(tile, want)


@flyc.kernel
def vector_k(A: fx.Tensor, C: fx.Tensor):
    t, b = fx.thread_idx.x, fx.block_idx.x
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 128]).peek()
    layout = fx.make_layout(64, 1)
    atom, coords = fx.rocdl.make_tiled_tdm_atom(fx.rocdl.TensorLoad(), A, layout, (64,), num_warps=2)
    tile = fx.slice(fx.zipped_divide(coords, fx.make_tile(64)), (None, b))
    whole = fx.make_view(space.ptr, fx.make_layout((64,), (1,)))
    ours, theirs = fx.rocdl.tdm_partition(atom, t // 32, fx.make_layout(2, 1), whole, tile)
    fx.copy(atom, theirs, ours)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    C[b * 64 + t] = space.view(layout)[t]


@flyc.jit
def vector(A: fx.Tensor, C: fx.Tensor):
    vector_k(A, C).launch(grid=2, block=64)


@on_gfx1250
def test_one_mode_through_lds(device: Any) -> None:
    a = np.random.default_rng(4).standard_normal(100).astype(np.float32)
    c = np.full(128, np.nan, np.float32)
    vector(a, c)
    np.testing.assert_array_equal(c, np.concatenate([a, np.zeros(28, np.float32)]))


@flyc.kernel
def descriptors_k(A: fx.Tensor, C: fx.Tensor, rows: fx.Tensor, bits: fx.Constexpr[int]):
    """Three rows of A in tile 1 of columns, to LDS with gaps, and from there to tile 1 of the columns of C."""
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 8 * 40, 128]).peek().ptr
    if fx.const_expr(bits):
        load = tdm_ops.make_tensor_gather_descriptor(
            A, space, [rows[i] for i in fx.range_constexpr(3)], 32, 32, 16, 96, elem_bytes=2, index_size=bits,
            pad_interval=32, pad_amount=8, global_byte_offset=64)
        tdm_ops.tensor_load_gather(load)
    else:
        tdm_ops.tensor_load_2d(tdm_ops.make_tensor_descriptor_2d(
            A, space, (2, 32), (16, 96), (96, 1), (3, 32), pad_interval=32, pad_amount=8))
    tdm_ops.tensor_wait(0)
    tdm_ops.tensor_store_2d(tdm_ops.make_tensor_descriptor_2d(
        C, space, (1, 32), (8, 96), (96, 1), (3, 32), pad_interval=32, pad_amount=8, for_store=True))
    tdm_ops.tensor_wait(0)


@flyc.jit
def descriptors(A: fx.Tensor, C: fx.Tensor, rows: fx.Tensor, bits: fx.Constexpr[int]):
    descriptors_k(A, C, rows, bits).launch(grid=1, block=32)


@on_gfx1250
@pytest.mark.parametrize("bits", [0, 16, 32])
def test_descriptors_through_lds(device: Any, bits: int) -> None:
    a = np.random.default_rng(5).standard_normal((16, 96)).astype(np.float16)
    rows = np.array([11, 16, 3] if bits else [2, 3, 4], np.int32)  # row 16 is outside
    c = np.full((8, 96), -1, np.float16)
    want = c.copy()
    want[1:4, 32:64] = [a[row, 32:64] if row < 16 else np.zeros(32) for row in rows]
    descriptors(a, c, rows, bits)
    np.testing.assert_array_equal(c, want)


@pytest.mark.skipif(get_rocm_arch().startswith("gfx1250"), reason="this is the process for gfx1250")
def test_on_gfx1250() -> None:
    assert "28 passed" in run_on("gfx1250", HERE, select="through_lds")
