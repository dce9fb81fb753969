"""The worked examples of docs/language/pipelines.md: one matrix product with each kind of pipeline.

    python docs/language/pipeline_examples.py staged        # on the device of this machine, compared with NumPy
"""

from __future__ import annotations

import sys

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

BM, BN, BK, THREADS = 64, 64, 64, 256
KINDS = ("staged", "direct", "tensor", "turns", "specialised")


@flyc.kernel
def gemm_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, copy_in: fx.TiledCopy,
                kind: fx.Constexpr[str], k: fx.Constexpr[int], stages: fx.Constexpr[int]):
    """C[64, 64] = A[64, k] B[64, k]^T."""
    tid = fx.thread_idx.x
    rows = fx.make_layout((BM, BK), (BK, 1))
    memory = fx.SharedAllocator()
    # An array for each stage: what is copied to one cannot alias what is read from another.
    lds = [[memory.allocate(fx.Array[fx.Float16, BM * BK, 128]).peek().view(rows) for _ in fx.range_constexpr(2)]
           for _ in fx.range_constexpr(stages)]
    a_mem, b_mem = [fx.make_view(fx.get_iter(t), fx.make_layout((BM, k), (k, 1))) for t in (A, B)]
    sides = [fx.flat_divide(fx.rocdl.make_buffer_tensor(t), (BM, BK))[None, None, 0, None] for t in (a_mem, b_mem)]

    thread = mma.get_slice(tid)
    a, b = thread.make_fragment_A((BM, BK)), thread.make_fragment_B((BN, BK))
    sums = thread.make_fragment_C((BM, BN))
    lds128 = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    read_a = fx.make_tiled_copy_A(lds128, mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(lds128, mma).get_slice(tid)

    def read(stage):
        """The fragments of a tile from LDS."""
        fx.copy(lds128, read_a.partition_S(lds[stage][0]), read_a.retile(a))
        fx.copy(lds128, read_b.partition_S(lds[stage][1]), read_b.retile(b))

    mine = copy_in.get_slice(tid)
    sources = [mine.partition_S(side) for side in sides]
    staged = [fx.make_fragment_like(source[None, None, None, 0]) for source in sources]

    # [staged] Registers between global memory and LDS.
    def load(tile, slot):
        load128 = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float16)
        for source, registers in zip(sources, staged, strict=True):
            fx.copy(load128, source[None, None, None, tile], registers)

    def store(slot, stage):
        for registers, target in zip(staged, lds[stage], strict=True):
            fx.copy(lds128, registers, mine.partition_D(target))

    # [direct] The lanes of a wave write neighbouring words: the copy's threads lie along the rows of the tile.
    def copy(tile, stage):
        if fx.const_expr(fx.num_warp_threads() == 32):  # gfx1250: every lane has an address of its own
            for tensor, target in zip((a_mem, b_mem), lds[stage], strict=True):
                tiles = fx.flat_divide(tensor, (BM, BK))[None, None, 0, None]
                fx.rocdl.async_copy(mine.partition_S(tiles)[None, None, None, tile], mine.partition_D(target))
            return
        bits = fx.const_expr(copy_in.copy_atom.val_bits * fx.size(copy_in.layout_tv_tiled[1]).unpack())
        op = fx.rocdl.BufferCopyLDS128b() if bits == 128 else fx.rocdl.BufferCopyLDS32b()
        atom = fx.make_copy_atom(op, fx.Float16)
        for source, target in zip(sources, lds[stage], strict=True):
            fx.copy(atom, source[None, None, None, tile], mine.partition_D(target))

    # [tensor] Every wave moves its share of the tile.
    def move(tile, stage):
        for tensor, target in zip((a_mem, b_mem), lds[stage], strict=True):
            atom = fx.rocdl.make_tdm_atom(tensor, (None, None), (k,), num_warps=THREADS // fx.num_warp_threads())
            fx.copy_atom_call(atom, fx.flat_divide(tensor, (BM, BK))[None, None, 0, tile], target)

    # [specialised] One wave starts all copies of a tile.
    def move_alone(tile, stage):
        for tensor, target in zip((a_mem, b_mem), lds[stage], strict=True):
            atom = fx.rocdl.make_tdm_atom(tensor, (None, None), (k,), num_warps=1)
            fx.copy_atom_call(atom, fx.flat_divide(tensor, (BM, BK))[None, None, 0, tile], target)

    tensors = fx.const_expr(fx.num_warp_threads() == 32)
    groups = specialised = None
    if fx.const_expr(kind == "staged"):
        producer = fx.Staged(load, store)
    elif fx.const_expr(kind == "direct"):
        producer = fx.Direct(copy)
    elif fx.const_expr(kind == "tensor"):
        producer = fx.TensorMove(move)
    elif fx.const_expr(kind == "turns"):
        producer, groups = fx.TensorMove(move) if tensors else fx.Direct(copy), fx.WaveGroups(2)
    else:
        # The matrix waves are the first 256 threads; one more wave only moves tiles.
        producer, specialised = fx.TensorMove(move_alone), (fx.WaveGroups(THREADS // 32 + 1), THREADS // 32)
    pipeline = fx.Pipeline(k // BK, stages, producer, groups=groups, specialised=specialised)

    sums.fill(0.0)
    for step in fx.pipeline_range(pipeline):
        read(step.stage)
        if fx.const_expr(kind == "turns"):
            with step.turn():
                fx.gemm(mma, sums, a, b, sums)
        else:
            fx.gemm(mma, sums, a, b, sums)

    out = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    write = fx.make_tiled_copy_C(out, mma).get_slice(tid)
    result = fx.make_view(fx.get_iter(C), fx.make_layout((BM, BN), (BN, 1)))
    if fx.const_expr(kind != "specialised"):
        fx.copy(out, write.retile(sums), write.partition_D(result))
    elif tid < THREADS:
        fx.copy(out, write.retile(sums), write.partition_D(result))


@flyc.jit
def gemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, kind: fx.Constexpr[str], k: fx.Constexpr[int],
         stages: fx.Constexpr[int], arch: fx.Constexpr[str]):
    matrix, depth = fx.rocdl.MFMA if arch.startswith("gfx9") else fx.rocdl.WMMA, 16
    depth = 16 if arch in ("gfx942", "gfx1201") else 32
    waves = fx.make_layout((2, THREADS // fx.num_warp_threads() // 2, 1), (1, 2, 0))
    order = fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))) if arch == "gfx942" else None
    mma = fx.make_tiled_mma(fx.make_mma_atom(matrix(16, 16, depth, fx.Float16)), waves, order)
    chunk = 2 if kind in ("direct", "turns") and arch == "gfx942" else 8  # values of a copy
    atom = fx.make_copy_atom(fx.UniversalCopy32b() if chunk == 2 else fx.UniversalCopy128b(), fx.Float16)
    threads = fx.make_ordered_layout((THREADS * chunk // BK, BK // chunk), (1, 0))
    copy_in = fx.make_tiled_copy_tv(atom, threads, fx.make_ordered_layout((1, chunk), (1, 0)))
    block = THREADS + (32 if kind == "specialised" else 0)
    gemm_kernel(A, B, C, mma, copy_in, kind, k, stages).launch(grid=1, block=block)


def run(kind: str, k: int = 512, stages: int = 3) -> None:
    """One product, compared with NumPy in double precision."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, k)).astype(np.float16) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float32)
    gemm(a, b, c, kind, k, stages, get_rocm_arch().split(":")[0])
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float).T, rtol=1e-3, atol=1e-3)


def available(arch: str) -> tuple[str, ...]:
    """The kinds that an architecture has."""
    if arch.startswith("gfx9"):
        return ("staged", "direct", "turns")
    return ("staged", "direct", "tensor", "turns", "specialised") if arch == "gfx1250" else ("staged",)


if __name__ == "__main__":
    for name in sys.argv[1:] or available(get_rocm_arch().split(":")[0]):
        run(name)
        print(f"{name}: PASS")
