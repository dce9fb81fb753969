"""The published idioms (elementwise with predicates, block reduction, tiled copy, tiled MMA), run as they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_warp_size

# The idioms are those of CDNA: waves of 64 threads, MFMA.
pytestmark = [
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(get_warp_size() != 64, reason="needs waves of 64 threads"),
]
RNG = np.random.default_rng(7)
# ruff: noqa: E731 - the idioms are quoted as published


@flyc.kernel
def saxpy_k(X: fx.Tensor, Y: fx.Tensor, alpha: fx.Float32, n: fx.Int32, cp: fx.TiledCopy):
    t, b = fx.thread_idx.x, fx.block_idx.x
    as_row = lambda v: fx.make_view(fx.get_iter(v), fx.make_layout((1, n), (0, 1)))
    coords = fx.make_view((0, 0), fx.make_identity_layout((1, n)))
    block = lambda v: fx.flat_divide(v, cp.tile_mn)[None, None, 0, b]
    th = cp.get_slice(t)
    gx, gy = th.partition_S(block(as_row(X))), th.partition_D(block(as_row(Y)))
    cc = th.partition_S(block(coords))[(0, None), None, None]
    rx, ry = fx.make_fragment_like(gx), fx.make_fragment_like(gy)
    ok = fx.make_fragment_like(cc, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(ok.shape).unpack()):
        ok[i] = fx.elem_less(cc[i], (1, n))
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, gx, rx, pred=ok)
    fx.copy(atom, gy, ry, pred=ok)
    ry.store(rx.load() * alpha + ry.load())
    fx.copy(atom, ry, gy, pred=ok)


@flyc.jit
def saxpy(X: fx.Tensor, Y: fx.Tensor, alpha: fx.Float32, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    cp = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32),
        fx.make_layout((1, 128), (128, 1)),
        fx.make_layout((1, 4), (4, 1)),
    )
    _, width = cp.tile_mn.unpack()
    saxpy_k(X, Y, alpha, n, cp).launch(grid=fx.ceildiv(n, width), block=128, stream=stream)


THREADS, WARP = 256, 64


@fx.struct
class Partials:
    slot: fx.Array[fx.Float32, THREADS // WARP, 16]


@flyc.kernel
def rowsum_k(X: fx.Tensor, Out: fx.Tensor, cols: fx.Constexpr[int]):
    t, row = fx.thread_idx.x, fx.block_idx.x
    slot = fx.SharedAllocator().allocate(Partials).peek().slot
    lane, wave = t % WARP, t // WARP
    src = fx.slice(X, (row, None))

    def warp_sum(v):
        for k in fx.range_constexpr(6):
            v = v + fx.shuffle_xor(v, 32 >> k, WARP)
        return v

    acc = fx.Float32(0.0)
    for c in fx.range_constexpr(0, cols, THREADS):  # cols a multiple of THREADS
        acc = acc + src[t + c]
    acc = warp_sum(acc)
    if lane == 0:
        slot[wave] = acc
    fx.barrier()
    if wave == 0:
        live = lane < THREADS // WARP
        total = warp_sum(live.select(slot[live.select(lane, 0)], 0.0))
        if lane == 0:
            Out[row] = total


@flyc.jit
def rowsum(X: fx.Tensor, Out: fx.Tensor, rows: fx.Int32, cols: fx.Constexpr[int]):
    rowsum_k(X, Out, cols).launch(grid=rows, block=256)


@flyc.kernel
def tile_copy_k(A: fx.Tensor, B: fx.Tensor):
    t, b = fx.thread_idx.x, fx.block_idx.x
    A, B = fx.rocdl.make_buffer_tensor(A), fx.rocdl.make_buffer_tensor(B)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy64b(), fx.Float16)
    tile, tv = fx.make_layout_tv(fx.make_layout((16, 4), (4, 1)), fx.make_layout((1, 4), (4, 1)))
    th = fx.make_tiled_copy(atom, tv, tile).get_slice(t)
    src = th.partition_S(fx.slice(fx.zipped_divide(A, tile), (None, b)))
    dst = th.partition_D(fx.slice(fx.zipped_divide(B, tile), (None, b)))
    reg = fx.make_fragment_like(src)
    fx.copy(atom, src, reg)
    fx.copy(atom, reg, dst)


@flyc.jit
def tile_copy(A: fx.Tensor, B: fx.Tensor, nb: fx.Int32):
    tile_copy_k(A, B).launch(grid=nb, block=64)


BM, BN, BK = 64, 64, 32


@flyc.kernel
def gemm_k(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, g2s: fx.TiledCopy, KT: fx.Constexpr[int]):
    t = fx.thread_idx.x
    bm, bn, _ = fx.block_idx
    A, B, C = [fx.rocdl.make_buffer_tensor(v) for v in (A, B, C)]
    gA = fx.flat_divide(A, (BM, BK))[None, None, bm, None]  # (BM, BK, k)
    gB = fx.flat_divide(B, (BN, BK))[None, None, bn, None]
    gC = fx.flat_divide(C, (BM, BN))[None, None, bm, bn]

    @fx.struct
    class Smem:
        a: fx.Array[fx.Float16, 2 * BM * BK, 16]
        b: fx.Array[fx.Float16, 2 * BN * BK, 16]

    sm = fx.SharedAllocator().allocate(Smem).peek()
    swz = fx.static(fx.SwizzleType.get(2, 3, 3))
    sA = sm.a.view(fx.make_composed_layout(swz, fx.make_ordered_layout((BM, BK, 2), (1, 0, 2))))
    sB = sm.b.view(fx.make_composed_layout(swz, fx.make_ordered_layout((BN, BK, 2), (1, 0, 2))))

    g_atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float16)
    w_atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    r_atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    ld = g2s.get_slice(t)
    gA_t, sA_w = ld.partition_S(gA), ld.partition_D(sA)
    gB_t, sB_w = ld.partition_S(gB), ld.partition_D(sB)
    stage_a = fx.make_fragment_like(sA_w[None, None, None, 0])
    stage_b = fx.make_fragment_like(sB_w[None, None, None, 0])

    th = mma.get_slice(t)
    ra = fx.make_tiled_copy_A(r_atom, mma).get_slice(t)
    rb = fx.make_tiled_copy_B(r_atom, mma).get_slice(t)
    fa = th.make_fragment_A(sA[None, None, 0])  # (V, M, K)
    fb = th.make_fragment_B(sB[None, None, 0])
    acc = th.make_fragment_C(gC)
    sA_r, sB_r, fa_v, fb_v = ra.partition_S(sA), rb.partition_S(sB), ra.retile(fa), rb.retile(fb)
    acc.fill(0.0)

    def fetch(k):
        fx.copy(g_atom, gA_t[None, None, None, k], stage_a)
        fx.copy(g_atom, gB_t[None, None, None, k], stage_b)

    def commit(buf):
        fx.copy(w_atom, stage_a, sA_w[None, None, None, buf])
        fx.copy(w_atom, stage_b, sB_w[None, None, None, buf])

    fetch(0)
    commit(0)
    fx.barrier()
    for k in fx.range_constexpr(KT):
        if fx.const_expr(k + 1 < KT):
            fetch(k + 1)  # overlaps with the MMAs
        fx.copy(r_atom, sA_r[None, None, None, k % 2], fa_v)
        fx.copy(r_atom, sB_r[None, None, None, k % 2], fb_v)
        fx.gemm(mma, acc, fa, fb, acc)
        if fx.const_expr(k + 1 < KT):
            commit((k + 1) % 2)
        fx.barrier()

    o_atom = fx.make_copy_atom(fx.rocdl.BufferCopy16b(), fx.Float16)
    wc = fx.make_tiled_copy_C(o_atom, mma).get_slice(t)
    half = fx.make_fragment_like(acc, fx.Float16)
    half.store(acc.load().to(fx.Float16))
    fx.copy(o_atom, wc.retile(half), wc.partition_D(gC))


@flyc.jit
def gemm(
    A: fx.Tensor,
    B: fx.Tensor,
    C: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    kt: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)), fx.make_layout((2, 2, 1), (1, 2, 0))
    )  # 4 waves, tile 32x32x16
    g2s = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16),
        fx.make_layout((64, 4), (4, 1)),
        fx.make_layout((1, 8), (8, 1)),
    )
    gemm_k(A, B, C, mma, g2s, kt).launch(grid=(m // BM, n // BN, 1), block=256, stream=stream)


@pytest.mark.parametrize("n", [1, 511, 512, 1000])
def test_elementwise_with_predicates(n: int) -> None:
    x, y = RNG.standard_normal((2, n)).astype(np.float32)
    guard = np.append(y, np.full(600, -77, np.float32))  # rows past n must stay untouched
    saxpy(x, guard[:n], 2.5, n)
    np.testing.assert_allclose(guard[:n], np.float32(2.5) * x + y, rtol=1e-6)
    assert (guard[n:] == -77).all()


@pytest.mark.parametrize("cols", [256, 1024])
def test_block_reduction(cols: int) -> None:
    x = RNG.standard_normal((5, cols)).astype(np.float32)
    out = np.full(5, np.nan, np.float32)
    rowsum(x, out, 5, cols)
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-4, atol=1e-4)


def test_tiled_copy_through_registers() -> None:
    a = RNG.standard_normal((128, 32)).astype(np.float16)
    b = np.full_like(a, np.nan)
    tile_copy(a, b, 16)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (128, 64, 96)])
def test_tiled_mma_with_retile(m: int, n: int, k: int) -> None:
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float16)
    gemm(a, b, c, m, n, k // 32)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-3, atol=2e-3)


OLDER_VECTOR = """
@flyc.kernel
def k(A: fx.Tensor, C: fx.Tensor):
    tid = fx.thread_idx.x
    V = 4
    tile_a, tile_c = (fx.logical_divide(v, fx.make_layout(V, 1)) for v in (A, C))
    reg_ty = fx.MemRefType.get(fx.T.f32, fx.LayoutType.get(V, 1), fx.AddressSpace.Register)
    atom = fx.make_copy_atom(fx.UniversalCopy(32 * V), fx.Float32)
    ra, rc = (fx.memref_alloca(reg_ty, fx.make_layout(V, 1)) for _ in range(2))
    fx.copy_atom_call(atom, fx.slice(tile_a, (None, tid)), ra)
    w = fx.arith.mulf(fx.memref_load_vec(ra), fx.memref_load_vec(ra))
    fx.memref_store_vec(w, rc)
    fx.copy_atom_call(atom, rc, fx.slice(tile_c, (None, tid)))

@flyc.jit
def run(A: fx.Tensor, C: fx.Tensor):
    k(A, C).launch(grid=1, block=64)
"""

BUFFERS = """
from flydsl.expr import buffer_ops

@flyc.kernel
def k(A: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    ra = buffer_ops.create_buffer_resource(A, num_records_bytes=n * 4)
    rc = buffer_ops.create_buffer_resource(C, num_records_bytes=n * 4)
    v = buffer_ops.buffer_load(ra, t * 4, vec_width=4, dtype=fx.T.f32)
    buffer_ops.buffer_store(v * 2.0, rc, t * 4, mask=t < 8)
    s = buffer_ops.buffer_load(ra, 4, vec_width=4, is_scalar=True)
    buffer_ops.buffer_store(s.bitcast(fx.Float32), rc, 60 * 4)

@flyc.jit
def run(A: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    k(A, C, n).launch(grid=1, block=64)
"""


def test_older_register_fragments(load: Any) -> None:
    x, y = RNG.standard_normal(256).astype(np.float32), np.full(256, np.nan, np.float32)
    load(OLDER_VECTOR).run(x, y)
    np.testing.assert_array_equal(y, x * x)


def test_raw_buffers_with_masks(load: Any) -> None:
    x, y = RNG.standard_normal(256).astype(np.float32), np.full(256, -77, np.float32)
    load(BUFFERS).run(x, y, 256)
    expected = np.full(256, -77, np.float32)
    expected[:32], expected[240:244] = 2 * x[:32], x[4:8]
    np.testing.assert_array_equal(y, expected)
