"""Tensor data mover on the simulator of gfx1250, in a process of its own: legacy and tiled atoms, loads and stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
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


@pytest.mark.skipif(get_rocm_arch().startswith("gfx1250"), reason="this is the process for gfx1250")
def test_on_gfx1250() -> None:
    assert "5 passed" in run_on("gfx1250", HERE, select="through_lds")
