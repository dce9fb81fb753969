"""C = A B^T on gfx1250 by workgroups in clusters: a tile that several of them need crosses the memory system once.

Tiles are moved by the *tensor data mover*: one instruction, told the tile's place, sizes and strides, copies it to LDS
while the waves go on. Four workgroups, 2 x 2, are a *cluster*. Those of a row need the same tile of A, those of a
column the same tile of B; a mask in the copy atom names them, and their requests become one, whose data reaches the LDS
of each.

    python docs/examples/12_cluster_gemm.py --sizes 256x128x64      # M, N and K: multiples of 128, 128 and 32
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE, DEPTH = 64, 32       # a workgroup computes TILE x TILE of C, from tiles of TILE x DEPTH of A and B
CLUSTER = (2, 2)           # workgroups along M (the x of the grid) and N (its y)
WAVES = 4


@flyc.kernel
def cluster_gemm_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, k: fx.Int32, mma: fx.TiledMma):
    """One workgroup computes one tile of C."""
    tid, (bm, bn, _) = fx.thread_idx.x, fx.block_idx
    memory = fx.SharedAllocator()
    rows = fx.make_layout((TILE, DEPTH), (DEPTH, 1))
    a_lds, b_lds = [memory.allocate(fx.Array[fx.Float16, TILE * DEPTH, 128]).peek().view(rows)
                    for _ in fx.range_constexpr(2)]

    # All workgroups of the cluster that are named in a mask make the same request, in the same order.
    masks = fx.rocdl.cluster.compute_mcast_masks(*fx.rocdl.cluster.compute_cluster_position(), *CLUSTER)
    move_a, move_b = [fx.rocdl.make_tdm_atom(t, (None, None), (k,), num_warps=WAVES).set_value("workgroup_mask", mask)
                      for t, mask in zip((A, B), masks, strict=True)]
    a_tiles = fx.flat_divide(A, (TILE, DEPTH))[None, None, bm, None]
    b_tiles = fx.flat_divide(B, (TILE, DEPTH))[None, None, bn, None]

    thread = mma.get_slice(tid)
    a, b = thread.make_fragment_A((TILE, DEPTH)), thread.make_fragment_B((TILE, DEPTH))
    sums = thread.make_fragment_C((TILE, TILE))
    lds128 = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    read_a = fx.make_tiled_copy_A(lds128, mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(lds128, mma).get_slice(tid)

    sums.fill(0.0)
    for tile in range(k // DEPTH):
        fx.copy_atom_call(move_a, a_tiles[None, None, tile], a_lds)
        fx.copy_atom_call(move_b, b_tiles[None, None, tile], b_lds)
        fx.rocdl.s_wait_tensorcnt(0)  # the part of this wave is there
        fx.barrier()                  # and those of the others
        fx.copy(lds128, read_a.partition_S(a_lds), read_a.retile(a))
        fx.copy(lds128, read_b.partition_S(b_lds), read_b.retile(b))
        fx.gemm(mma, sums, a, b, sums)
        fx.rocdl.cluster.cluster_barrier()  # everyone has read: nobody's LDS is overwritten too early

    write = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy_c = fx.make_tiled_copy_C(write, mma).get_slice(tid)
    fx.copy(write, copy_c.retile(sums), copy_c.partition_D(fx.flat_divide(C, (TILE, TILE))[None, None, bm, bn]))


@flyc.jit
def cluster_gemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, m: fx.Int32, n: fx.Int32, k: fx.Int32,
                 stream: fx.Stream = fx.Stream(None)):
    """C[m, n] = A[m, k] B[n, k]^T of float16, added up and stored in float32."""
    mma = fx.make_tiled_mma(fx.make_mma_atom(fx.rocdl.WMMA(16, 16, DEPTH, fx.Float16)),
                            fx.make_layout((2, WAVES // 2, 1), (1, 2, 0)))
    cluster = (*CLUSTER, 1)
    # The attribute tells the compiler, `cluster` the launch. The grid is a multiple of it.
    cluster_gemm_kernel(A, B, C, k, mma, value_attrs={"rocdl.cluster_dims": ",".join(map(str, cluster))}).launch(
        grid=(m // TILE, n // TILE, 1), block=32 * WAVES, cluster=cluster, stream=stream
    )


def run(m: int, n: int, k: int) -> None:
    """One product, compared with NumPy in double precision."""
    if m % (TILE * CLUSTER[0]) or n % (TILE * CLUSTER[1]) or k % DEPTH:
        raise ValueError(f"{m}x{n}x{k}: M and N must be multiples of {TILE * CLUSTER[0]}, K of {DEPTH}")
    a, b = common.random_f16((m, k), 1), common.random_f16((n, k), 2)
    c = common.poisoned_like(common.random_f32((m, n), 3))
    cluster_gemm(a, b, c, m, n, k)
    common.synchronize()
    a, b = (common.to_host(t).astype(np.float64) for t in (a, b))
    # Products of f16 are exact in f32; each of k additions rounds once, and never away by more than 2^-24 of the sum.
    common.check(f"{m}x{n}x{k} on {common.describe_device()}", c, a @ b.T, k * 2.0**-24 * (np.abs(a) @ np.abs(b).T))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["256x128x128", "128x256x32"], help="MxNxK")
    sizes = parser.parse_args().sizes
    common.require_arch("gfx1250")
    for size in sizes:
        run(*map(int, size.split("x")))


if __name__ == "__main__":
    main()
