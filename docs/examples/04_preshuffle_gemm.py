"""Preshuffle GEMM: C = A . B^T in float16, B stored in the order in which the matrix cores read it.

A workgroup of 4 waves computes a tile of 128 x 128; the tiles of K are 64 deep.

* B (the weights) is *preshuffled* once: in the order (N/16, K/32, 4, 16, 8) the 64 lanes of a wave read 1024
  consecutive bytes, exactly their operands, so B goes from global memory straight to registers.
* A (the activations) is shared by the four waves and goes through LDS in two stages. The layout of the tile in LDS is
  composed with a *swizzle*, which spreads the rows over the banks.
* While one K tile is multiplied the next one is on its way: B into the other half of its fragments, A into registers
  and then into the other stage of LDS. A fragments are read from LDS one block of rows ahead of their use, over the
  barrier between two stages too, so that the matrix unit never waits for LDS. `hot_loop_scheduler` tells the
  compiler how to mix the memory instructions among the matrix instructions.

tools/bench/hotloop.py shows what comes of it: registers, spills, and how busy the matrix unit is.

M and N may be ragged. B ends at whole blocks of 16 rows, padded by `preshuffle`, and buffer loads beyond its end give
zero; A and C keep their own edges: their copies take `bounds` (None where there is no edge inside a tile: along K).

    python docs/examples/04_preshuffle_gemm.py --sizes 512x512x512 200x300x256
    python docs/examples/04_preshuffle_gemm.py --sizes 4096x4096x4096      # 8 s on the simulator, two cores
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

BM, BN, BK = 128, 128, 64
STAGES = 2
THREADS = 256
STEP = 32       # K values of one 128-bit chunk in each of the 4 lane groups: two MFMAs
BLOCK = 2       # row blocks of 16 whose A fragments are read together
CHUNK = 8  # float16 values of one 128-bit access


def preshuffle(b: np.ndarray) -> np.ndarray:
    """B[n, k] in the order (n/16, k/32, 4, 16, 8): lane (g, c) of a wave finds its 8 values of column c together."""
    n, k = -(-b.shape[0] // 16) * 16, b.shape[1]
    b = np.concatenate([b, np.zeros((n - b.shape[0], k), b.dtype)])
    return np.ascontiguousarray(b.reshape(n // 16, 16, k // 32, 4, CHUNK).transpose(0, 2, 3, 1, 4)).reshape(n, k)


def preshuffled_layout(n, k) -> fx.Layout:
    """(n, k) -> element of the preshuffled matrix."""
    return fx.make_layout(((16, n // 16), (CHUNK, 4, k // 32)), ((CHUNK, 16 * k), (1, 16 * CHUNK, 64 * CHUNK)))


@flyc.kernel(known_block_size=[THREADS, 1, 1])
def gemm_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32, k: fx.Int32, mma: fx.TiledMma,
                global_to_lds: fx.TiledCopy, ragged: fx.Constexpr[bool]):
    """Workgroup (m, n) computes one tile of C; the edges of A and C need bounds if `ragged`. Buffer descriptors give
    the loads a scalar offset that advances."""
    tid, (bm, bn, _) = fx.thread_idx.x, fx.block_idx
    A, B, C = [fx.rocdl.make_buffer_tensor(t) for t in (A, B, C)]
    B = fx.make_view(fx.get_iter(B), preshuffled_layout((n + 15) // 16 * 16, k))
    a_bounds = (A.shape[0], None) if fx.const_expr(ragged) else None
    a_tiles = fx.flat_divide(A, (BM, BK))[None, None, bm, None]  # (BM, BK, K tile)
    b_tiles = fx.flat_divide(B, (BN, BK))[None, None, bn, None]
    c_tile = fx.flat_divide(C, (BM, BN))[None, None, bm, bn]

    @fx.struct
    class Shared:
        a: fx.Array[fx.Float16, STAGES * BM * BK, 16]

    swizzle = fx.static(fx.SwizzleType.get(3, 3, 3))  # chunk of 8 values ^= row % 8
    rows = fx.make_ordered_layout((BM, BK, STAGES), (1, 0, 2))
    a_lds = fx.SharedAllocator().allocate(Shared).peek().a.view(fx.make_composed_layout(swizzle, rows))

    load = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float16)
    lds = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    copy_in = global_to_lds.get_slice(tid)
    a_global, a_write = copy_in.partition_S(a_tiles), copy_in.partition_D(a_lds)
    staged = fx.make_fragment_like(a_write[None, None, None, 0])

    thread = mma.get_slice(tid)
    copy_a = fx.make_tiled_copy_A(lds, mma).get_slice(tid)
    copy_b = fx.make_tiled_copy_B(load, mma).get_slice(tid)
    a = thread.make_fragment_A(a_lds[None, None, 0])
    b = thread.make_fragment_B(b_tiles[None, None, 0], stages=STAGES)
    accumulator = thread.make_fragment_C(c_tile)
    a_read, a_view = copy_a.partition_S(a_lds), copy_a.retile(a)
    b_global, b_view = copy_b.partition_S(b_tiles), copy_b.retile(b)

    # The row blocks by twos; a *part* is one such pair and one K step, in the order in which they are multiplied.
    a_read = fx.logical_divide(a_read, fx.make_tile(None, BLOCK, None, None))
    a_view = fx.logical_divide(a_view, fx.make_tile(None, BLOCK, None))
    a = fx.logical_divide(a, fx.make_tile(None, BLOCK, None))
    accumulator_rows = fx.logical_divide(accumulator, fx.make_tile(None, BLOCK, None))
    row_parts = BM // 16 // BLOCK
    parts = row_parts * (BK // STEP)

    def load_a(tile, slot):
        """Start loading a K tile of A into registers. The tile moves a scalar offset."""
        fx.copy(load, a_global[None, None, None, 0], staged, soffset=tile * BK, bounds=a_bounds)

    def store_a(slot, stage):
        """The loaded tile of A into LDS."""
        fx.copy(lds, staged, a_write[None, None, None, stage])

    def load_b(tile, stage):
        """Start loading a K tile of B into its fragments of a stage."""
        fx.copy(load, b_global[None, None, None, 0], b_view[None, None, None, stage], soffset=tile * BK * 16)

    def read(stage, part):
        """One part of A from LDS."""
        rows, step = part % row_parts, part // row_parts
        fx.copy(lds, a_read[None, (None, rows), step, stage], a_view[None, (None, rows), step])

    def multiply(stage, part):
        """Accumulate one part: 8 MFMAs of which no two neighbours add to the same values."""
        rows, step = part % row_parts, part // row_parts
        c = accumulator_rows[None, (None, rows), None]
        fx.gemm(mma, c, a[None, (None, rows), (None, step)], b[None, None, (None, step), stage], c,
                traversal_order=fx.GemmTraversalOrder.NKM)

    def hot_loop_scheduler(groups):
        """The order of a stage's 64 MFMAs in groups of 4, each with one LDS read; global loads of A first, of B when
        half of the old fragments have been used; LDS writes as late as the barrier allows."""
        for group in groups:
            fx.rocdl.sched_mfma(2)
            if group < 4 or 8 <= group < 12:
                fx.rocdl.sched_vmem(1)
            if 9 <= group < 13:
                fx.rocdl.sched_dswr(1)
            fx.rocdl.sched_mfma(2)
            fx.rocdl.sched_dsrd(1)
        fx.rocdl.sched_barrier(0)

    accumulator.fill(0.0)
    pipeline = fx.Pipeline(k // BK, STAGES, (fx.Staged(load_a, store_a), fx.Registers(load_b)), whole_turns=True)
    pipeline.start()
    read(0, 0)
    for step in fx.pipeline_range(pipeline):
        for part in fx.range_constexpr(parts - 1):
            read(step.stage, part + 1)
            multiply(step.stage, part)
        step.store()
        hot_loop_scheduler(range(16 - BLOCK))
        step.advance()
        if not fx.const_expr(step.last):
            read(1 - step.stage, 0)
        multiply(step.stage, parts - 1)
        hot_loop_scheduler(range(16 - BLOCK, 16))

    store = fx.make_copy_atom(fx.rocdl.BufferCopy16b(), fx.Float16)
    copy_c = fx.make_tiled_copy_C(store, mma).get_slice(tid)
    result = fx.make_fragment_like(accumulator, fx.Float16)
    result.store(accumulator.load().to(fx.Float16))
    fx.copy(store, copy_c.retile(result), copy_c.partition_D(c_tile), bounds=ragged)


@flyc.jit
def gemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, m: fx.Int32, n: fx.Int32, k: fx.Int32,
         stream: fx.Stream = fx.Stream(None), ragged: fx.Constexpr[bool] = False):
    """C[m, n] = A[m, k] . B[n, k]^T, float16, B preshuffled; k is a multiple of 128, m and n too unless `ragged`."""
    # 4 waves along N. In K, 32 values are taken in the order in which a 128-bit chunk feeds two instructions.
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
        fx.make_layout((1, 4, 1), (0, 1, 0)),
        fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))),
    )
    global_to_lds = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16),
        fx.make_ordered_layout((THREADS * CHUNK // BK, BK // CHUNK), (1, 0)),
        fx.make_ordered_layout((1, CHUNK), (1, 0)),
    )
    grid = ((m + BM - 1) // BM, (n + BN - 1) // BN, 1)
    gemm_kernel(A, B, C, n, k, mma, global_to_lds, ragged).launch(grid=grid, block=THREADS, stream=stream)


def run(m: int, n: int, k: int) -> None:
    """Multiply random matrices and compare with NumPy."""
    if k % (STAGES * BK):
        raise ValueError(f"{m}x{n}x{k}: K must be a multiple of {STAGES * BK}")
    a, b = common.random_f16((m, k), 1), common.random_f16((n, k), 2)
    c = common.poisoned_like(common.random_f16((m, n), 3))
    shuffled = common.to_device(preshuffle(common.to_host(b)))
    gemm(a, shuffled, c, m, n, k, ragged=bool(m % BM or n % BN))
    common.synchronize()
    exact_a, exact_b = common.to_host(a).astype(np.float32), common.to_host(b).astype(np.float32)
    exact = exact_a @ exact_b.T
    # float32 rounds at most k times while it adds; the result is then rounded to float16.
    bound = k * 2.0**-24 * (np.abs(exact_a) @ np.abs(exact_b).T) + 2.0**-11 * np.abs(exact)
    print(f"{m}x{n}x{k} float16 on {common.describe_device()}")
    common.check("C", c, exact, bound)


def example_call() -> tuple:
    """A call of `gemm` for tools that compile it without running it."""
    a = np.zeros((512, 512), np.float16)
    return gemm, a, a, a, 512, 512, 512, fx.Stream(None)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["512x512x512", "200x300x256"],
                        help="MxNxK, K a multiple of 128")
    common.require_arch("gfx90a", "gfx942", "gfx950")
    for size in parser.parse_args().sizes:
        run(*map(int, size.split("x")))


if __name__ == "__main__":
    main()
