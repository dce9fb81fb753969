"""Tiled MMA: C = A . B^T on the matrix cores, float16 in, float32 accumulated.

A *tiled MMA* repeats one matrix instruction over the waves of a workgroup: here 2 x 2 waves, so that one step covers
32 x 32 x 16 of a tile of 64 x 64 x 32. `make_tiled_copy_A/B/C` build the copies that move exactly the values which the
instruction wants in each lane; `retile` shows a fragment in the copy's order, without moving anything.

A size that the tiles do not divide is *ragged*. The code stays: a copy takes the `bounds` of its tensor, loads zero
beyond them and stores nothing there. Through buffer tensors the hardware does that without branches.

The instruction is MFMA 16x16x16 on gfx90a, gfx942 and gfx950, WMMA 16x16x16 on gfx1201 and WMMA 16x16x32 on gfx1250;
nothing else differs.

    python docs/examples/03_tiled_mma.py --sizes 128x64x96 100x50x37
    FLYDSL_SIM_ARCH=gfx1201 python docs/examples/03_tiled_mma.py
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

BM, BN, BK = 64, 64, 32  # tile of a workgroup


@flyc.kernel
def matmul_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, k_tiles: fx.Int32, mma: fx.TiledMma,
                  ragged: fx.Constexpr[bool]):
    """Workgroup (m, n) computes one tile of C, reading A and B straight from global memory."""
    tid, (bm, bn, _) = fx.thread_idx.x, fx.block_idx
    A, B, C = [fx.rocdl.make_buffer_tensor(t) for t in (A, B, C)]
    a_tiles = fx.flat_divide(A, (BM, BK))[None, None, bm, None]  # (BM, BK, k)
    b_tiles = fx.flat_divide(B, (BN, BK))[None, None, bn, None]
    c_tile = fx.flat_divide(C, (BM, BN))[None, None, bm, bn]

    thread = mma.get_slice(tid)
    a = thread.make_fragment_A(a_tiles[None, None, 0])  # (values of one instruction, repeats along M, along K)
    b = thread.make_fragment_B(b_tiles[None, None, 0])
    accumulator = thread.make_fragment_C(c_tile)
    accumulator.fill(0.0)

    load = fx.make_copy_atom(fx.rocdl.BufferCopy64b(), fx.Float16)
    copy_a = fx.make_tiled_copy_A(load, mma).get_slice(tid)
    copy_b = fx.make_tiled_copy_B(load, mma).get_slice(tid)
    a_source, b_source = copy_a.partition_S(a_tiles), copy_b.partition_S(b_tiles)
    for k in range(k_tiles):
        fx.copy(load, a_source[None, None, None, k], copy_a.retile(a), bounds=ragged)
        fx.copy(load, b_source[None, None, None, k], copy_b.retile(b), bounds=ragged)
        fx.gemm(mma, accumulator, a, b, accumulator)

    store = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    copy_c = fx.make_tiled_copy_C(store, mma).get_slice(tid)
    fx.copy(store, copy_c.retile(accumulator), copy_c.partition_D(c_tile), bounds=ragged)


@flyc.jit
def matmul(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, m: fx.Int32, n: fx.Int32, k: fx.Int32,
           arch: fx.Constexpr[str], stream: fx.Stream = fx.Stream(None), ragged: fx.Constexpr[bool] = False):
    """C[m, n] = A[m, k] . B[n, k]^T, row-major, of any size; multiples of 64 x 64 x 32 need no bounds."""
    if fx.const_expr(arch.startswith("gfx9")):
        instruction = fx.rocdl.MFMA(16, 16, 16, fx.Float16)
    else:
        instruction = fx.rocdl.WMMA(16, 16, 32 if arch == "gfx1250" else 16, fx.Float16)
    mma = fx.make_tiled_mma(fx.make_mma_atom(instruction), fx.make_layout((2, 2, 1), (1, 2, 0)))
    threads = fx.size(mma.thr_layout_vmnk).unpack()
    grid = ((m + BM - 1) // BM, (n + BN - 1) // BN, 1)
    matmul_kernel(A, B, C, (k + BK - 1) // BK, mma, ragged).launch(grid=grid, block=threads, stream=stream)


def run(m: int, n: int, k: int) -> None:
    """Multiply random matrices and compare with NumPy in double precision."""
    ragged = bool(m % BM or n % BN or k % BK)
    a, b = common.random_f16((m, k), 1), common.random_f16((n, k), 2)
    c = common.poisoned_like(common.random_f32((m, n), 3))
    matmul(a, b, c, m, n, k, get_rocm_arch().split(":")[0], ragged=ragged)
    common.synchronize()
    exact_a, exact_b = common.to_host(a).astype(np.float64), common.to_host(b).astype(np.float64)
    # A dot product of length k rounds at most k times, each time by half a unit in the last place of the sum so far.
    bound = k * 2.0**-24 * (np.abs(exact_a) @ np.abs(exact_b).T)
    print(f"{m}x{n}x{k} float16 on {common.describe_device()}")
    common.check("C", c, exact_a @ exact_b.T, bound)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["128x64x96", "64x192x32", "100x50x37"], help="MxNxK")
    for size in parser.parse_args().sizes:
        run(*map(int, size.split("x")))


if __name__ == "__main__":
    main()
