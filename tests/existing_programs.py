"""Programs in the style of kernels that users already have, from the oldest names to the newest.

Each function `program_*` builds its data, runs its kernels and returns [(result, expected, tolerance), ...].
Run one with `python tests/existing_programs.py NAME`.
"""

import math
import sys
from types import SimpleNamespace

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl._mlir import ir
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.expr import arith, buffer_ops, const_expr, gpu, range_constexpr, rocdl, vector
from flydsl.expr.smem_allocator import SmemAllocator, SmemPtr
from flydsl.expr.typing import Int32, T
from flydsl.expr.typing import Vector as Vec
from flydsl.runtime.device import get_rocm_arch

RNG = np.random.default_rng(2024)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def poisoned(*shape, dtype=np.float32):
    return np.full(shape, np.nan, dtype) if np.dtype(dtype).kind == "f" else np.full(shape, -77, dtype)


# --- softmax of rows: SmemAllocator, buffer_ops, raw arith values, nested reduction helpers --------------------------

SOFTMAX_THREADS = 256
softmax_lds = SmemAllocator(None, arch=get_rocm_arch(), global_sym_name="softmax_smem")
SLOTS = softmax_lds._align(softmax_lds.ptr, 16)
softmax_lds.ptr = SLOTS + 4 * 8


@flyc.kernel
def softmax_kernel(X: fx.Tensor, Y: fx.Tensor, cols: Int32):
    lanes = fx.num_warp_threads()
    waves = SOFTMAX_THREADS // lanes
    slots = SmemPtr(softmax_lds.get_base(), SLOTS, T.f32, shape=(8,))
    slots.get()
    tid = fx.thread_idx.x
    row = fx.block_idx.x
    x_rsrc = buffer_ops.create_buffer_resource(X, num_records_bytes=fx.Int64(fx.grid_dim.x) * fx.Int64(cols) * 4)
    y_rsrc = buffer_ops.create_buffer_resource(Y, num_records_bytes=fx.Int64(fx.grid_dim.x) * fx.Int64(cols) * 4)
    fast = arith.FastMathFlags.fast

    def wave_reduce(w, largest):
        for s in range_constexpr(int(math.log2(lanes))):
            other = w.shuffle_xor(lanes // (2 << s), lanes)
            w = w.maximumf(other) if const_expr(largest) else w.addf(other, fastmath=fast)
        return w

    def block_reduce(w, largest, neutral):
        lane, wave = tid % lanes, tid // lanes
        w = wave_reduce(w, largest)
        if lane == 0:
            SmemPtr.store(slots, w, [wave])
        gpu.barrier()
        if wave == 0:
            ok = lane < waves
            v = fx.Float32(SmemPtr.load(slots, [ok.select(lane, 0)]))
            v = wave_reduce(ok.select(v, neutral), largest)
            if lane == 0:
                SmemPtr.store(slots, v, [0])
        gpu.barrier()
        result = fx.Float32(SmemPtr.load(slots, [0]))
        gpu.barrier()  # the slots are used again
        return result

    inside = tid < cols
    offset = row * cols + tid
    x = fx.Float32(buffer_ops.buffer_load(x_rsrc, offset, vec_width=1, dtype=T.f32, mask=inside))
    x = inside.select(x, float("-inf"))
    largest = block_reduce(x, True, float("-inf"))
    e = fx.math.exp(x - largest)
    total = block_reduce(e, False, 0.0)
    buffer_ops.buffer_store(e / total, y_rsrc, offset, mask=inside)


@flyc.jit
def softmax(X: fx.Tensor, Y: fx.Tensor, rows: Int32, cols: Int32, stream: fx.Stream = fx.Stream(None)):
    softmax_lds.finalized = False
    ctx = CompilationContext.get_current()
    with ir.InsertionPoint(ctx.gpu_module_body):
        softmax_lds.finalize()
    softmax_kernel(X, Y, cols).launch(grid=(rows, 1, 1), block=(SOFTMAX_THREADS, 1, 1), stream=stream)


def program_softmax_with_old_names():
    checks = []
    for cols in (256, 100):
        x, y = normal(5, cols), poisoned(5, cols)
        softmax(x, y, 5, cols)
        rt.synchronize()
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        checks.append((y, e / e.sum(1, keepdims=True), 1e-6))
    return checks


# --- matrix product on raw vectors: rocdl.mfma_* or wmma, Vec, range(..., init=) -------------------------------------


@flyc.kernel
def raw_mfma_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, K: fx.Constexpr[int]):
    lane = fx.thread_idx.x
    a_rsrc, b_rsrc = (buffer_ops.create_buffer_resource(t) for t in (A, B))
    c_rsrc = buffer_ops.create_buffer_resource(C)
    row, group = lane % 16, lane // 16
    start = Vec.filled(4, 0.0, fx.Float32)
    for k, state in range(0, K, 16, init=[start]):
        offset = row * K + group * 4 + fx.Int32(k)
        a = buffer_ops.buffer_load(a_rsrc, offset, vec_width=4, dtype=T.f16)
        b = buffer_ops.buffer_load(b_rsrc, offset, vec_width=4, dtype=T.f16)
        acc = rocdl.mfma_f32_16x16x16f16(T.f32x4, [a, b, state[0], 0, 0, 0])
        results = yield [acc]
    total = Vec(results)
    for i in range_constexpr(4):
        buffer_ops.buffer_store(total[i], c_rsrc, (group * 4 + i) * 16 + row)


@flyc.jit
def raw_mfma(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, K: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    raw_mfma_kernel(A, B, C, K).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


def program_raw_mfma():
    if not get_rocm_arch().startswith("gfx9"):
        return []
    a, b, c = normal(16, 64, dtype=np.float16), normal(16, 64, dtype=np.float16), poisoned(16, 16)
    raw_mfma(a, b, c, 64)
    rt.synchronize()
    return [(c, a.astype(np.float64) @ b.astype(np.float64).T, 1e-4)]


# --- elementwise in the oldest style: MemRefType, memref_alloca, copy_atom_call, raw arith on vectors ----------------


@flyc.kernel
def oldest_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, block: fx.Constexpr[int], width: fx.Constexpr[int]):
    tid = fx.gpu.thread_idx.x
    bid = fx.gpu.block_idx.x
    tiles = [fx.slice(fx.logical_divide(t, fx.make_layout(block * width, 1)), (None, bid)) for t in (A, B, C)]
    ta, tb, tc = [fx.logical_divide(t, fx.make_layout(width, 1)) for t in tiles]
    reg_type = fx.MemRefType.get(T.f32, fx.LayoutType.get(width, 1), fx.AddressSpace.Register)
    atom = fx.make_copy_atom(fx.UniversalCopy(32 * width), 32)
    ra, rb, rc = [fx.memref_alloca(reg_type, fx.make_layout(width, 1)) for _ in range(3)]
    fx.copy_atom_call(atom, fx.slice(ta, (None, tid)), ra)
    fx.copy_atom_call(atom, fx.slice(tb, (None, tid)), rb)
    s = fx.arith.addf(fx.memref_load_vec(ra), fx.memref_load_vec(rb))
    zero = arith.constant_vector(0.0, T.vec(width, T.f32))
    fx.memref_store_vec(fx.arith.maximumf(s, zero), rc)
    fx.copy_atom_call(atom, rc, fx.slice(tc, (None, tid)))


@flyc.jit
def oldest(A: fx.Tensor, B, C, n: fx.Int32, block: fx.Constexpr[int], width: fx.Constexpr[int],
           stream: fx.Stream = fx.Stream(None)):
    grid = (n + block * width - 1) // (block * width)
    oldest_kernel(A, B, C, block, width).launch(grid=(grid, 1, 1), block=[block, 1, 1], stream=stream)


def program_oldest_elementwise():
    checks = []
    for width in (1, 2, 4):
        a, b, c = normal(3 * 128 * width), normal(3 * 128 * width), poisoned(3 * 128 * width)
        tensor = flyc.from_dlpack(a).mark_layout_dynamic(leading_dim=0, divisibility=width)
        oldest(tensor, b, c, len(a), 128, width)
        rt.synchronize()
        checks.append((c, np.maximum(a + b, 0), 0))
    return checks


# --- structs and namespaces as kernel parameters, an epilogue chosen by a closed lambda ------------------------------


@fx.struct
class Affine:
    scale: fx.Float32
    shift: fx.Float32
    unroll: fx.Constexpr[int]


@flyc.kernel
def grouped_kernel(tensors, p: Affine, epilogue: fx.Constexpr):
    i = (fx.block_idx.x * 64 + fx.thread_idx.x) * p.unroll
    for u in fx.range_constexpr(p.unroll):
        if i + u < tensors.n:
            tensors.y[i + u] = epilogue(tensors.x[i + u] * p.scale + p.shift)


@flyc.jit
def grouped(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, scale: fx.Float32, unroll: fx.Constexpr[int],
            epilogue: fx.Constexpr, stream: fx.Stream = fx.Stream(None)):
    p = Affine(scale, 1.0, unroll=unroll).replace(shift=-0.5)
    grid = fx.ceildiv(n, 64 * unroll)
    grouped_kernel(SimpleNamespace(x=X, y=Y, n=n), p, epilogue).launch(grid=grid, block=64, stream=stream)


def program_structs_and_lambdas():
    x = normal(1000)
    checks = []
    for unroll, epilogue, reference in (
        (1, lambda v: fx.max(v, 0.0), lambda v: np.maximum(v, 0)),
        (3, lambda v: v * v, lambda v: v * v),
    ):
        y = poisoned(1000)
        grouped(x, y, 1000, 3.0, unroll, epilogue)
        rt.synchronize()
        checks.append((y, reference(x * np.float32(3.0) + np.float32(-0.5)), 1e-5))
    return checks


# --- several kernels of one launcher, a nested launcher, loops of all kinds ------------------------------------------


@flyc.kernel
def histogram_kernel(X: fx.Tensor, H: fx.Tensor, n: fx.Int32, bins: fx.Constexpr[int]):
    """Each thread counts one value in a run-time loop with carried state, and finds its neighbours with while."""
    b = fx.thread_idx.x
    count = fx.Int32(0)
    for i in range(n):
        if X[i] == b:
            count = count + 1
    above = fx.Int32(0)
    j = fx.Int32(0)
    while j < n:
        if X[j] > b:
            above += 1
        j += 1
    H[b, 0] = count
    H[b, 1] = above
    if b == bins - 1:
        H[b, 2] = fx.Int32(-1)
    elif b % 2 == 0:
        H[b, 2] = count * 2
    else:
        H[b, 2] = count + above


@flyc.kernel
def prefix_kernel(H: fx.Tensor, P: fx.Tensor, bins: fx.Constexpr[int]):
    total, largest = fx.Int32(0), fx.Int32(0)
    for i, (t, m) in range(0, bins, 1, init=[total, largest]):
        value = H[fx.Int32(i), 0]
        P[fx.Int32(i)] = fx.Int32(t)
        results = yield [fx.Int32(t) + value, fx.max(fx.Int32(m), value)]
    P[bins] = fx.Int32(results[0])
    P[bins + 1] = fx.Int32(results[1])


@flyc.jit
def prefix(H: fx.Tensor, P: fx.Tensor, bins: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    prefix_kernel(H, P, bins).launch(grid=1, block=1, stream=stream)


@flyc.jit
def histogram(X: fx.Tensor, H: fx.Tensor, P: fx.Tensor, n: fx.Int32, bins: fx.Constexpr[int],
              stream: fx.Stream = fx.Stream(None)):
    histogram_kernel(X, H, n, bins).launch(grid=1, block=bins, stream=stream)
    prefix(H, P, bins, stream=stream)


def program_two_kernels_and_loops():
    bins, n = 16, 200
    x = RNG.integers(0, bins, n).astype(np.int32)
    h, p = poisoned(bins, 3, dtype=np.int32), poisoned(bins + 2, dtype=np.int32)
    histogram(x, h, p, n, bins)
    rt.synchronize()
    count = np.bincount(x, minlength=bins)
    above = np.array([(x > b).sum() for b in range(bins)])
    third = np.where(np.arange(bins) % 2 == 0, 2 * count, count + above)
    third[-1] = -1
    expected = np.concatenate([[0], np.cumsum(count), [count.max()]])
    return [(h, np.stack([count, above, third], 1), 0), (p, expected, 0)]


# --- LDS transpose with a padded and a swizzled layout, dynamic shared memory ----------------------------------------

TILE = 32


@flyc.kernel
def transpose_kernel(X: fx.Tensor, Y: fx.Tensor, swizzled: fx.Constexpr[bool]):
    bx, by, _ = fx.block_idx
    t = fx.thread_idx.x
    if fx.const_expr(swizzled):
        s = fx.get_dyn_shared(fx.Float32)
        plain = fx.make_ordered_layout((TILE, TILE), (1, 0))
        tile = fx.make_view(s, fx.make_composed_layout(fx.static(fx.SwizzleType.get(5, 0, 5)), plain))
    else:
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, TILE * (TILE + 1), 16]).peek()
        tile = lds.view(fx.make_layout((TILE, TILE), (TILE + 1, 1)))
    src = fx.flat_divide(X, (TILE, TILE))[None, None, by, bx]
    dst = fx.flat_divide(Y, (TILE, TILE))[None, None, bx, by]
    for step in fx.range_constexpr(TILE // 8):
        r, c = step * 8 + t // TILE, t % TILE
        tile[r, c] = src[r, c]
    fx.barrier()
    for step in fx.range_constexpr(TILE // 8):
        r, c = step * 8 + t // TILE, t % TILE
        dst[r, c] = tile[c, r]


@flyc.jit
def transpose(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, cols: fx.Int32, swizzled: fx.Constexpr[bool],
              stream: fx.Stream = fx.Stream(None)):
    smem = TILE * TILE * 4 if swizzled else None
    transpose_kernel(X, Y, swizzled).launch(grid=(cols // TILE, rows // TILE, 1), block=TILE * 8, smem=smem,
                                            stream=stream)


def program_transpose_through_lds():
    checks = []
    for swizzled in (False, True):
        x, y = normal(64, 96), poisoned(96, 64)
        transpose(x, y, 64, 96, swizzled)
        rt.synchronize()
        checks.append((y, x.T, 0))
    return checks


# --- quantisation: row maximum, float conversions, integer bit tricks, vector helpers --------------------------------


@flyc.kernel
def quantise_kernel(X: fx.Tensor, Q: fx.Tensor, S: fx.Tensor, cols: fx.Constexpr[int]):
    """One wave for a row: scale = max|x| / 127, q = round(x / scale), four int8 packed into an int32 by vectors."""
    lanes = fx.num_warp_threads()
    lane, row = fx.thread_idx.x, fx.block_idx.x
    xs = fx.logical_divide(fx.slice(X, (row, None)), fx.make_layout(4, 1))
    qs = fx.logical_divide(fx.slice(Q, (row, None)), fx.make_layout(4, 1))
    load = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int8)
    r, q = fx.make_rmem_tensor(4, fx.Float16), fx.make_rmem_tensor(4, fx.Int8)
    largest = fx.Float32(1e-6)
    for i in fx.range_constexpr(cols // 4 // lanes):
        fx.copy_atom_call(load, xs[None, lane + i * lanes], r)
        largest = fx.max(largest, abs(r.load().to(fx.Float32)).reduce("max"))
    step = lanes // 2
    while step >= 1:
        largest = fx.max(largest, fx.shuffle_xor(largest, step, lanes))
        step = step // 2
    scale = largest / 127.0
    for i in fx.range_constexpr(cols // 4 // lanes):
        fx.copy_atom_call(load, xs[None, lane + i * lanes], r)
        v = fx.math.roundeven(r.load().to(fx.Float32) / scale)
        q.store(v.to(fx.Int32).to(fx.Int8))
        fx.copy_atom_call(store, q, qs[None, lane + i * lanes])
    if lane == 0:
        S[row] = scale


@flyc.jit
def quantise(X: fx.Tensor, Q: fx.Tensor, S: fx.Tensor, rows: fx.Int32, cols: fx.Constexpr[int],
             stream: fx.Stream = fx.Stream(None)):
    quantise_kernel(X, Q, S, cols).launch(grid=rows, block=fx.num_warp_threads(), stream=stream)


def program_quantise():
    x, q, s = normal(6, 512, dtype=np.float16), poisoned(6, 512, dtype=np.int8), poisoned(6)
    quantise(x, q, s, 6, 512)
    rt.synchronize()
    scale = np.abs(x.astype(np.float32)).max(1) / np.float32(127)
    # A division is correct to an ulp or so: at a tie the rounded integer may differ by one.
    return [(s, scale, 1e-7), (q, np.rint(x.astype(np.float32) / scale[:, None]), 1)]


# --- atomics, old vector module, printf is left to its own tests -----------------------------------------------------


@flyc.kernel
def accumulate_kernel(X: fx.Tensor, Index: fx.Tensor, Out: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalAtomicAdd(fx.Float32), fx.Float32)
    if i < n:
        r = fx.make_rmem_tensor(1, fx.Float32)
        pair = vector.from_elements(T.vec(2, T.f32), [X[i], X[i]])
        r[0] = fx.Float32(vector.extract(pair, static_position=[1]))
        fx.copy_atom_call(atom, r, fx.make_view(fx.get_iter(Out) + Index[i], fx.make_layout(1, 1)))


@flyc.jit
def accumulate(X: fx.Tensor, Index: fx.Tensor, Out: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    accumulate_kernel(X, Index, Out, n).launch(grid=fx.ceildiv(n, 128), block=128, stream=stream)


def program_atomics():
    n, bins = 1000, 10
    x = RNG.integers(-8, 8, n).astype(np.float32)  # whole numbers: the order of the additions does not matter
    index, out = RNG.integers(0, bins, n).astype(np.int32), np.zeros(bins, np.float32)
    accumulate(x, index, out, n)
    rt.synchronize()
    expected = np.zeros(bins)
    np.add.at(expected, index, x)
    return [(out, expected, 0)]


# --- pipelined product with dynamic shared memory: recast_iter, thr_slice, static shapes, scheduling hints -----------

GM, GN, GK = 64, 128, 64


@flyc.kernel
def pipelined_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, copy_in: fx.TiledCopy,
                     N: fx.Constexpr[int], K: fx.Constexpr[int]):
    tid = fx.thread_idx.x
    bx, by, _ = fx.block_idx
    A, B, C = fx.rocdl.make_buffer_tensor(A), fx.rocdl.make_buffer_tensor(B), fx.rocdl.make_buffer_tensor(C)
    order = fx.make_layout(((16, N // 16), (8, 4, K // 32)), ((8, 16 * K), (1, 128, 512)))
    B = fx.Tensor(fx.make_view(fx.get_iter(B), order))
    a_tiles = fx.flat_divide(A, fx.make_tile(GM, GK))[None, None, bx, None]
    b_tiles = fx.flat_divide(B, fx.make_tile(GN, GK))[None, None, by, None]
    c_tile = fx.flat_divide(C, fx.make_tile(GM, GN))[None, None, bx, by]
    thr_mma, thr_in = mma.thr_slice(tid), copy_in.thr_slice(tid)
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    buffer = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float16)
    narrow = fx.make_copy_atom(fx.rocdl.BufferCopy16b(), fx.Float16)
    from_lds = fx.make_tiled_copy_A(wide, mma).get_slice(tid)
    from_b = fx.make_tiled_copy_B(buffer, mma).get_slice(tid)
    to_c = fx.make_tiled_copy_C(narrow, mma).get_slice(tid)

    pointer_type = fx.PointerType.get(fx.Float16.ir_type, fx.AddressSpace.Shared, 512)
    pointer = fx.recast_iter(pointer_type, fx.get_dyn_shared())
    swizzle = fx.static(fx.SwizzleType.get(3, 3, 3))
    lds = fx.make_view(pointer, fx.make_composed_layout(swizzle, fx.make_ordered_layout((GM, GK, 2), (1, 0, 2))))
    a_in, a_lds, a_out = thr_in.partition_S(a_tiles), thr_in.partition_D(lds), from_lds.partition_S(lds)
    b_in, c_out = from_b.partition_S(b_tiles), to_c.partition_S(c_tile)
    staged = fx.make_fragment_like(a_lds[None, None, None, 0])
    a, b = thr_mma.make_fragment_A(lds[None, None, 0]), thr_mma.make_fragment_B(b_tiles, stages=2)
    acc = thr_mma.make_fragment_C(c_tile)
    a_view, b_view = from_lds.retile(a), from_b.retile(b)
    acc16 = fx.make_fragment_like(acc, fx.Float16.ir_type)
    step = fx.get_scalar(a_tiles.stride[2])

    def load(tile, stage):
        tile = fx.Int32(tile)
        fx.copy(buffer, a_in[None, None, None, 0], staged, soffset=tile * step)
        fx.copy(buffer, b_in[None, None, None, 0], b_view[None, None, None, stage], soffset=tile * 16 * GK)

    def run_stage(stage, following, more=True):
        if fx.const_expr(more):
            load(following, stage ^ 1)
        for part in fx.range_constexpr(GK // 32):
            fx.copy(wide, a_out[None, None, part, stage], a_view[None, None, part])
            fx.gemm(mma, acc, a[None, None, (None, part)], b[None, None, (None, part), stage], acc)
        fx.copy(wide, staged, a_lds[None, None, None, stage ^ 1])

        def hints():
            fx.rocdl.sched_dsrd(2)
            for i in fx.range_constexpr(8):
                fx.rocdl.sched_vmem(1)
                fx.rocdl.sched_mfma(2)
                fx.rocdl.sched_dsrd(1)
                fx.rocdl.sched_mfma(2)
                if fx.const_expr(i >= 5):
                    fx.rocdl.sched_dswr(1)
            fx.rocdl.sched_barrier(0)

        hints()
        fx.gpu.barrier()

    acc.store(Vec.filled(acc.load().numel, 0.0, fx.Float32))
    load(0, 0)
    fx.copy(wide, staged, a_lds[None, None, None, 0])
    fx.gpu.barrier()
    for tile in range(0, K // GK - 2, 2):
        run_stage(stage=0, following=tile + 1)
        run_stage(stage=1, following=tile + 2)
    run_stage(stage=0, following=K // GK - 1)
    run_stage(stage=1, following=None, more=False)
    total = acc.load()
    acc16.store(fx.arith.trunc_f(T.vec(total.numel, T.f16), total))
    fx.copy(narrow, to_c.retile(acc16), c_out)


@flyc.jit
def pipelined(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, M: fx.Constexpr[int], N: fx.Constexpr[int],
              K: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)), fx.make_layout((1, 4, 1), (0, 1, 0)),
        fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))),
    )
    columns, rows = GK // 8, 256 // (GK // 8)
    copy_in = fx.make_tiled_copy(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16),
        fx.make_layout(((columns, rows), (1, 8)), ((rows * 8, 1), (1, rows))),
        fx.make_tile(rows, GK),
    )
    pipelined_kernel(A, B, C, mma, copy_in, N, K).launch(
        grid=(M // GM, N // GN, 1), block=(256, 1, 1), smem=2 * GM * GK * 2, stream=stream
    )


def program_pipelined_product():
    if not get_rocm_arch().startswith("gfx9"):
        return []
    m, n, k = 128, 256, 384
    a, b, c = normal(m, k, dtype=np.float16), normal(n, k, dtype=np.float16), poisoned(m, n, dtype=np.float16)
    shuffled = np.ascontiguousarray(b.reshape(n // 16, 16, k // 32, 4, 8).transpose(0, 2, 3, 1, 4)).reshape(n, k)
    pipelined(a, shuffled, c, m, n, k)
    rt.synchronize()
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return [(c, exact, np.abs(exact) * 2.0**-11 + 1e-3)]


PROGRAMS = {name: value for name, value in list(globals().items()) if name.startswith("program_")}


def run(name: str) -> int:
    """Run one program; the number of its results, after comparing them."""
    checks = PROGRAMS[name]()
    for got, want, tolerance in checks:
        error = np.abs(got.astype(np.float64) - np.asarray(want, np.float64))
        assert np.all(error <= tolerance), f"{name}: maximum error {error.max()}, allowed {tolerance}"
    return len(checks)


if __name__ == "__main__":
    for program in sys.argv[1:] or PROGRAMS:
        print(f"{program}: {run(program)} results")
