"""Whole kernels in the style of the releases up to 0.3: raw builders, buffer resources, `SmemAllocator`, indices.

A matrix product, both stages of a mixture of experts, flash attention, and attention on a latent cache with a split
along the cache. Each launcher is what a published program has: `@flyc.jit`, called through `flyc.compile`.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm, scf
from flydsl._mlir.dialects import math as mlir_math
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.expr import arith, buffer_ops, const_expr, gpu, range_constexpr, rocdl, vector
from flydsl.expr.arith import ArithValue, CmpIPredicate
from flydsl.expr.typing import T
from flydsl.expr.typing import Vector as Vec
from flydsl.expr.utils.arith import _to_raw as _raw
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

LOG2E = 1.4426950408889634
_compiled: dict = {}


def run_compiled(function, *arguments):
    """The first call compiles, later ones launch what it made."""
    key = (function, *(getattr(a, "dtype", a) for a in arguments if not isinstance(a, fx.Stream)))
    if key not in _compiled:
        _compiled[key] = flyc.compile(function, *arguments)
    _compiled[key](*arguments)


def _finalize(allocator):
    allocator.finalized = False
    context = CompilationContext.get_current()
    with ir.InsertionPoint(context.gpu_module_body):
        allocator.finalize()


# --------------------------------------------------------------------------- matrix product

GEMM_TILE = 64
GEMM_K = 64


def compile_gemm(*, n: int, k: int, arch: str):
    """C[M, N] = A[M, K] B[N, K]^T in float16; tiles of 64 x 64 x 64, four waves, A through LDS in two stages."""
    allocator = SmemAllocator(None, arch=arch, global_sym_name="gemm_smem")
    stage_bytes = GEMM_TILE * GEMM_K * 2
    offsets = []
    for _ in range(2):
        at = allocator._align(allocator.ptr, 16)
        allocator.ptr = at + stage_bytes
        offsets.append(at)
    k_tiles = k // GEMM_K
    assert k % (2 * GEMM_K) == 0

    @flyc.kernel(known_block_size=[256, 1, 1])
    def gemm_kernel(arg_c: fx.Tensor, arg_a: fx.Tensor, arg_b: fx.Tensor, i32_m: fx.Int32):
        tx, bx, by = gpu.thread_id("x"), gpu.block_id("x"), gpu.block_id("y")
        m_in = arith.index_cast(T.index, _raw(i32_m))
        c_n, c_k = arith.index(n), arith.index(k)
        a_bytes = arith.index_cast(T.i64, m_in * c_k * 2)
        a_rsrc = buffer_ops.create_buffer_resource(arg_a, max_size=False, num_records_bytes=a_bytes)
        b_rsrc = buffer_ops.create_buffer_resource(arg_b, max_size=False, num_records_bytes=n * k * 2)
        c_rsrc = buffer_ops.create_buffer_resource(arg_c, max_size=True)
        base = allocator.get_base()
        lds = [SmemPtr(base, offset, T.f16, shape=(GEMM_TILE * GEMM_K,)).get() for offset in offsets]

        lane, wave = tx % 64, tx / 64
        lane16, group = lane % 16, lane / 16
        row0, col0 = bx * GEMM_TILE, by * GEMM_TILE

        def swizzled(row, chunk):
            """Element of chunk (8 values) `chunk` of a row: the chunks of a row are exchanged by its number."""
            r, c = (arith.index_cast(T.i32, v) for v in (row, chunk))
            mixed = arith.xori(_raw(c), arith.andi(_raw(r), arith.constant(7, type=T.i32)))
            return row * GEMM_K + arith.index_cast(T.index, mixed) * 8

        def load_a(kt):
            loaded = []
            for i in range_constexpr(2):
                row = tx / 8 + i * 32
                element = (row0 + row) * c_k + kt * GEMM_K + (tx % 8) * 8
                loaded.append(buffer_ops.buffer_load(a_rsrc, element / 2, vec_width=4, dtype=T.i32))
            return loaded

        def store_a(stage, loaded):
            for i in range_constexpr(2):
                halves = vector.bitcast(T.vec(8, T.f16), loaded[i])
                vector.store(halves, lds[stage], [swizzled(tx / 8 + i * 32, tx % 8)])

        def multiply(stage, kt, sums):
            sums = list(sums)
            for step in range_constexpr(GEMM_K // 16):
                chunk = group / 2 + step * 2
                at = swizzled(wave * 16 + lane16, chunk) + (group % 2) * 4
                a = vector.load_op(T.vec(4, T.f16), lds[stage], [at])
                for j in range_constexpr(4):
                    column = col0 + lane16 + j * 16
                    element = column * c_k + kt * GEMM_K + step * 16 + group * 4
                    raw = buffer_ops.buffer_load(b_rsrc, element / 2, vec_width=2, dtype=T.i32)
                    b = vector.bitcast(T.vec(4, T.f16), raw)
                    sums[j] = rocdl.mfma_f32_16x16x16f16(T.f32x4, [a, b, sums[j], 0, 0, 0])
            return sums

        zero = arith.constant_vector(0.0, T.f32x4)
        store_a(0, load_a(arith.index(0)))
        gpu.barrier()
        state = [zero] * 4
        for kt, inner in range(arith.index(0), arith.index(k_tiles), arith.index(2), init=state):
            sums = list(inner)
            for half in range_constexpr(2):
                following = load_a(kt + half + 1)
                sums = multiply(half, kt + half, sums)
                rocdl.sched_barrier(0)
                gpu.barrier()
                store_a(1 - half, following)
                gpu.barrier()
            results = yield sums
        for j in range_constexpr(4):
            for i in range_constexpr(4):
                row, column = row0 + wave * 16 + group * 4 + i, col0 + lane16 + j * 16
                value = vector.extract(results[j], static_position=[i], dynamic_position=[])
                inside = arith.andi(arith.cmpi(CmpIPredicate.ult, row, m_in),
                                    arith.cmpi(CmpIPredicate.ult, column, c_n))
                when = scf.IfOp(_raw(inside))
                with ir.InsertionPoint(when.then_block):
                    buffer_ops.buffer_store(arith.truncf(T.f16, value), c_rsrc, row * c_n + column)
                    scf.YieldOp([])

    @flyc.jit
    def launch_gemm(arg_c: fx.Tensor, arg_a: fx.Tensor, arg_b: fx.Tensor, i32_m: fx.Int32, stream: fx.Stream):
        _finalize(allocator)
        rows = arith.index_cast(T.index, _raw(i32_m)) + (GEMM_TILE - 1)
        gemm_kernel(arg_c, arg_a, arg_b, i32_m).launch(
            grid=(rows / GEMM_TILE, (n + GEMM_TILE - 1) // GEMM_TILE, 1), block=(256, 1, 1), stream=stream)

    return launch_gemm


# --------------------------------------------------------------------------- mixture of experts

MOE_M = 16


def compile_moe(*, model: int, inter: int, topk: int, stage: int):
    """Stage 1: out[token, slot] = silu(x w_gate) * (x w_up). Stage 2: out[token] += weight * (h w2), by atomics.

    Rows are gathered by `sorted_ids`, whose entries are ``slot << 24 | token``; a block of 16 rows has one expert.
    One wave computes 16 rows x 16 columns.
    """
    depth, width = (model, inter) if stage == 1 else (inter, model)

    @flyc.kernel(known_block_size=[64, 1, 1])
    def moe_kernel(arg_out: fx.Tensor, arg_x: fx.Tensor, arg_w: fx.Tensor, arg_ids: fx.Tensor, arg_experts: fx.Tensor,
                   arg_weights: fx.Tensor, i32_tokens: fx.Int32):
        tx, bx, by = fx.Index(fx.thread_idx.x), fx.Index(fx.block_idx.x), fx.Index(fx.block_idx.y)
        lane16, group = tx % 16, tx // 16
        x_rsrc, w_rsrc, id_rsrc, expert_rsrc, weight_rsrc, out_rsrc = (
            buffer_ops.create_buffer_resource(arg, max_size=True)
            for arg in (arg_x, arg_w, arg_ids, arg_experts, arg_weights, arg_out))
        expert = buffer_ops.buffer_load(expert_rsrc, _raw(bx), vec_width=1, dtype=T.i32)
        expert = rocdl.readfirstlane(T.i32, _raw(expert))
        columns = 2 * inter if const_expr(stage == 1) else model

        def identity(row):
            packed = fx.Int32(buffer_ops.buffer_load(id_rsrc, _raw(bx * MOE_M + row), vec_width=1, dtype=T.i32))
            return packed & 0xFFFFFF, packed >> 24

        token, slot = identity(lane16)
        is_real = token < i32_tokens
        source = token if const_expr(stage == 1) else token * topk + slot
        source = is_real.select(source, fx.Int32(0))

        def weights(column, step):
            row = fx.Int32(expert) * columns + fx.Int32(column)
            element = row * depth + step * 16 + fx.Int32(group) * 4
            return Vec(buffer_ops.buffer_load(w_rsrc, element, vec_width=4, dtype=T.f16))

        def product(column):
            total = Vec.filled(4, 0.0, fx.Float32)
            for step, state in range(arith.index(0), arith.index(depth // 16), arith.index(1), init=[total]):
                at = fx.Int32(step)
                element = source * depth + at * 16 + fx.Int32(group) * 4
                a = buffer_ops.buffer_load(x_rsrc, _raw(element), vec_width=4, dtype=T.f16, mask=is_real)
                total = yield [rocdl.mfma_f32_16x16x16f16(T.f32x4, [a, weights(column, at), state[0]])]
            return Vec(total)

        column = by * 16 + lane16
        first = product(column)
        if const_expr(stage == 1):
            second = product(column + inter)
        for i in range_constexpr(4):
            token_i, slot_i = identity(group * 4 + i)
            if const_expr(stage == 1):
                gate = first[i]
                sigmoid = rocdl.rcp(T.f32, _raw(fx.Float32(1.0) + fx.Float32(rocdl.exp2(T.f32, _raw(gate * -LOG2E)))))
                value = gate * fx.Float32(sigmoid) * second[i]
                if token_i < i32_tokens:
                    at = (token_i * topk + slot_i) * width + fx.Int32(column)
                    buffer_ops.buffer_store(_raw(value.to(fx.Float16)), out_rsrc, _raw(at))
            else:
                real = (token_i < i32_tokens).select(token_i, fx.Int32(0))
                scale = fx.Float32(buffer_ops.buffer_load(weight_rsrc, _raw(real * topk + slot_i), vec_width=1,
                                                          dtype=T.f32))
                if token_i < i32_tokens:
                    pointer = buffer_ops.create_llvm_ptr(fx.ptrtoint(fx.get_iter(arg_out)), address_space=1)
                    place = fx.Int64(token_i) * (width * 4) + fx.Int64(column) * 4
                    target = buffer_ops.get_element_ptr(pointer, byte_offset=_raw(place), elem_type=T.i8)
                    llvm.AtomicRMWOp(llvm.AtomicBinOp.fadd, target, _raw(first[i] * scale),
                                     llvm.AtomicOrdering.monotonic, syncscope="agent", alignment=4)

    @flyc.jit
    def launch_moe(arg_out: fx.Tensor, arg_x: fx.Tensor, arg_w: fx.Tensor, arg_ids: fx.Tensor, arg_experts: fx.Tensor,
                   arg_weights: fx.Tensor, i32_tokens: fx.Int32, i32_blocks: fx.Int32, stream: fx.Stream):
        moe_kernel(arg_out, arg_x, arg_w, arg_ids, arg_experts, arg_weights, i32_tokens).launch(
            grid=(i32_blocks, width // 16, 1), block=(64, 1, 1), stream=stream)

    return launch_moe


# --------------------------------------------------------------------------- attention

BLOCK_N = 32


def _partner_reduce(value, combine):
    """Over the four lanes that share a column of a 16 x 16 result: partners at distance 16 and 32."""
    for distance in range_constexpr(2):
        other = gpu.shuffle(_raw(value), arith.constant(16 << distance, type=T.i32),
                            arith.constant(64, type=T.i32), "xor")
        value = combine(value, other)
    return value


def compile_flash_attention(*, heads: int, dim: int, causal: bool, arch: str):
    """O = softmax(Q K^T / sqrt(dim)) V in float16, layout (tokens, heads, dim); a wave has 16 queries of one head."""
    allocator = SmemAllocator(None, arch=arch, global_sym_name="flash_smem")
    v_offset = allocator._align(allocator.ptr, 16)
    allocator.ptr = v_offset + BLOCK_N * dim * 2
    scale = LOG2E / dim**0.5

    @flyc.kernel(known_block_size=[64, 1, 1])
    def attention_kernel(arg_o: fx.Tensor, arg_q: fx.Tensor, arg_k: fx.Tensor, arg_v: fx.Tensor, i32_length: fx.Int32):
        lane = fx.thread_idx.x
        tile, head = fx.block_idx.x, fx.block_idx.y
        lane16, group = lane % 16, lane // 16
        stride = heads * dim
        q_rsrc, k_rsrc, v_rsrc, o_rsrc = (
            buffer_ops.create_buffer_resource(arg) for arg in (arg_q, arg_k, arg_v, arg_o))
        v_lds = SmemPtr(allocator.get_base(), v_offset, T.f16, shape=(BLOCK_N * dim,)).get()
        minus = fx.Float32(-1e30)
        query = tile * 16 + lane16

        def row_of(rsrc, row, step):
            """Four values of a row at 16 step + 4 group; zero for rows behind the last token."""
            element = row * stride + head * dim + step * 16 + group * 4
            return buffer_ops.buffer_load(rsrc, _raw(element), vec_width=4, dtype=T.f16, mask=row < i32_length)

        q = [row_of(q_rsrc, query, step) for step in range_constexpr(dim // 16)]
        end = fx.arith.min(tile * 16 + 16, i32_length) if const_expr(causal) else i32_length
        blocks = (end + (BLOCK_N - 1)) // BLOCK_N
        zero = arith.constant_vector(0.0, T.f32x4)
        start = [_raw(minus), _raw(fx.Float32(0.0)), *([zero] * (dim // 16))]
        for block, state in range(arith.index(0), arith.index_cast(T.index, _raw(blocks)), arith.index(1), init=start):
            first = fx.Int32(block) * BLOCK_N
            largest, total, out = ArithValue(state[0]), ArithValue(state[1]), list(state[2:])
            gpu.barrier()
            for i in range_constexpr(BLOCK_N * dim // 8 // 64):
                chunk = lane + i * 64
                row, at = chunk // (dim // 8), chunk % (dim // 8) * 8
                element = (first + row) * stride + head * dim + at
                loaded = buffer_ops.buffer_load(v_rsrc, _raw(element // 2), vec_width=4, dtype=T.i32,
                                                mask=first + row < i32_length)
                vector.store(vector.bitcast(T.vec(8, T.f16), loaded), v_lds, [_raw(fx.Index(row * dim + at))])
            gpu.barrier()
            # Keys are the rows of the result, queries its columns: a lane has 4 keys of one query in each part.
            parts = []
            for part in range_constexpr(BLOCK_N // 16):
                scores = zero
                for step in range_constexpr(dim // 16):
                    keys = row_of(k_rsrc, first + part * 16 + lane16, step)
                    scores = rocdl.mfma_f32_16x16x16f16(T.f32x4, [keys, q[step], scores, 0, 0, 0])
                values = []
                for i in range_constexpr(4):
                    key = first + part * 16 + group * 4 + i
                    seen = key < i32_length
                    if const_expr(causal):
                        seen = seen & (key <= query)
                    score = fx.Float32(vector.extract(scores, static_position=[i], dynamic_position=[])) * scale
                    values.append(seen.select(score, minus))
                parts.append(values)
            best = parts[0][0]
            for values in parts:
                for value in values:
                    best = fx.arith.maximumf(_raw(best), _raw(value))
            best = _partner_reduce(best, lambda a, b: arith.maximumf(_raw(a), _raw(b)))
            now = arith.maximumf(_raw(largest), _raw(best))
            shrink = mlir_math.exp2(_raw(ArithValue(largest) - ArithValue(now)))
            added = arith.constant(0.0, type=T.f32)
            packed = []
            for values in parts:
                weights = [rocdl.exp2(T.f32, _raw(fx.Float32(value) - fx.Float32(now))) for value in values]
                for weight in weights:
                    added = arith.addf(_raw(added), _raw(weight), fastmath=arith.FastMathFlags.contract)
                packed.append(vector.from_elements(T.vec(4, T.f16), [arith.truncf(T.f16, w) for w in weights]))
            added = _partner_reduce(added, lambda a, b: arith.addf(_raw(a), _raw(b)))
            total = ArithValue(total) * shrink + added
            for column in range_constexpr(dim // 16):
                # The sums have columns of V as rows and queries as columns, so one factor a lane scales them.
                sums = vector.broadcast(T.f32x4, _raw(shrink)) * out[column]
                for part in range_constexpr(BLOCK_N // 16):
                    v = []
                    for i in range_constexpr(4):
                        at = (part * 16 + group * 4 + i) * dim + column * 16 + lane16
                        v.append(vector.extract(vector.load_op(T.vec(1, T.f16), v_lds, [_raw(fx.Index(at))]),
                                                static_position=[0], dynamic_position=[]))
                    v = vector.from_elements(T.vec(4, T.f16), v)
                    sums = rocdl.mfma_f32_16x16x16f16(T.f32x4, [v, packed[part], sums, 0, 0, 0])
                out[column] = sums
            results = yield [now, total, *out]
        inverse = rocdl.rcp(T.f32, _raw(results[1]))
        for column in range_constexpr(dim // 16):
            scaled = vector.broadcast(T.f32x4, inverse) * results[2 + column]
            halves = vector.bitcast(T.vec(2, T.i32), Vec(scaled).to(fx.Float16))
            if query < i32_length:
                element = query * stride + head * dim + column * 16 + group * 4
                buffer_ops.buffer_store(halves, o_rsrc, _raw(element * 2), offset_is_bytes=True)

    @flyc.jit
    def launch_attention(arg_o: fx.Tensor, arg_q: fx.Tensor, arg_k: fx.Tensor, arg_v: fx.Tensor, i32_length: fx.Int32,
                         stream: fx.Stream):
        _finalize(allocator)
        attention_kernel(arg_o, arg_q, arg_k, arg_v, i32_length).launch(
            grid=((i32_length + 15) // 16, heads, 1), block=(64, 1, 1), stream=stream)

    return launch_attention


# --------------------------------------------------------------------------- matrix product by tensor moves

TDM_TILE, TDM_K, TDM_PAD = 32, 64, 8


def compile_tdm_gemm(*, n: int, k: int):
    """C[M, N] = A[M, K] B[N, K]^T in float16 on gfx1250: tiles of both move to two stages of padded LDS."""
    row = TDM_K + TDM_PAD
    allocator = SmemAllocator(None, arch="gfx1250", global_sym_name="tdm_smem")
    offsets = []
    for _ in range(4):  # A and B of each stage
        at = allocator._align(allocator.ptr, 128)
        allocator.ptr = at + TDM_TILE * row * 2
        offsets.append(at)
    k_tiles = k // TDM_K
    assert k % TDM_K == 0

    @flyc.kernel(known_block_size=[128, 1, 1])
    def tdm_kernel(arg_c: fx.Tensor, arg_a: fx.Tensor, arg_b: fx.Tensor, i32_m: fx.Int32):
        tid = fx.thread_idx.x
        lane, wave = tid % 32, tid // 32
        lane16, half = lane % 16, lane // 16
        tile_m, tile_n = fx.block_idx.x * TDM_TILE, fx.block_idx.y * TDM_TILE
        base = allocator.get_base()
        views = [SmemPtr(base, at, T.f16, shape=(TDM_TILE * row,)).get() for at in offsets]
        c_rsrc = buffer_ops.create_buffer_resource(arg_c)

        def start(tile):
            for operand, (arg, first, rows) in enumerate(((arg_a, tile_m, i32_m), (arg_b, tile_n, n))):
                descriptor = rocdl.tdm_ops.make_tensor_descriptor_2d(
                    arg, views[tile % 2 * 2 + operand], (first, tile * TDM_K), (TDM_TILE, k), (k, 1),
                    (TDM_TILE, TDM_K), elem_bytes=2, pad_interval=TDM_K, pad_amount=TDM_PAD, num_warps=4,
                    oob_outer_bound=rows)
                rocdl.tdm_ops.tensor_load_2d(descriptor)

        def fragment(view, first, step):
            """Row `first` + lane of 16, eight values at 8 half and eight at 16 + 8 half of each 32."""
            parts = []
            for i in range_constexpr(2):
                at = (first + lane16) * row + step * 32 + i * 16 + half * 8
                parts.append(vector.load_op(T.vec(8, T.f16), view, [_raw(fx.Index(at))]))
            return vector.shuffle(parts[0], parts[1], list(range(16)))

        total = arith.constant_vector(0.0, T.vec(8, T.f32))
        start(0)
        for tile in range_constexpr(k_tiles):
            if const_expr(tile + 1 < k_tiles):
                start(tile + 1)
                rocdl.tdm_ops.tensor_wait(2)
            else:
                rocdl.tdm_ops.tensor_wait(0)
            gpu.barrier()
            stage = tile % 2 * 2
            for step in range_constexpr(TDM_K // 32):
                a = fragment(views[stage], wave // 2 * 16, step)
                b = fragment(views[stage + 1], wave % 2 * 16, step)
                total = rocdl.wmma_f32_16x16x32_f16(T.vec(8, T.f32), a, b, total)
            gpu.barrier()
        column = tile_n + wave % 2 * 16 + lane16
        for i in range_constexpr(8):
            line = tile_m + wave // 2 * 16 + half * 8 + i
            value = vector.extract(total, static_position=[i], dynamic_position=[])
            inside = (line < i32_m) & (column < n)
            buffer_ops.buffer_store(arith.truncf(T.f16, value), c_rsrc, _raw(line * n + column), mask=inside)

    @flyc.jit
    def launch(c: fx.Tensor, a: fx.Tensor, b: fx.Tensor, m: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        _finalize(allocator)
        tdm_kernel(c, a, b, m).launch(grid=((m + TDM_TILE - 1) // TDM_TILE, (n + TDM_TILE - 1) // TDM_TILE, 1),
                                      block=(128, 1, 1), stream=stream)

    return launch


# --------------------------------------------------------------------------- attention on a latent cache


def compile_mla_decode(*, heads: int, latent: int, rope: int, page: int, splits: int):
    """One token of each sequence against a paged latent cache [pages, page, latent + rope]; values are its latent part.

    A workgroup has a sequence and a share of its cache, a wave of 16 heads (the columns of the scores); a second kernel
    joins the shares.
    """
    width = latent + rope
    scale = LOG2E / width**0.5

    @flyc.kernel(known_block_size=[64, 1, 1])
    def mla_kernel(arg_part: fx.Tensor, arg_state: fx.Tensor, arg_q: fx.Tensor, arg_cache: fx.Tensor,
                   arg_table: fx.Tensor, arg_lengths: fx.Tensor, i32_pages: fx.Int32):
        lane, sequence, split = fx.thread_idx.x, fx.block_idx.x, fx.block_idx.y
        lane16, group = lane % 16, lane // 16
        q_rsrc, cache_rsrc, table_rsrc, length_rsrc, part_rsrc, state_rsrc = (
            buffer_ops.create_buffer_resource(a)
            for a in (arg_q, arg_cache, arg_table, arg_lengths, arg_part, arg_state))
        length = fx.Int32(buffer_ops.buffer_load(length_rsrc, _raw(sequence), vec_width=1, dtype=T.i32))
        per_split = (length + (16 * splits - 1)) // (16 * splits)
        zero = arith.constant_vector(0.0, T.f32x4)
        minus = fx.Float32(-1e30)

        def cached(token, element, count):
            """`count` values of a token's row, found through the page table."""
            safe = (token < length).select(token, fx.Int32(0))
            index = sequence * i32_pages + safe // page
            number = fx.Int32(buffer_ops.buffer_load(table_rsrc, _raw(index), vec_width=1, dtype=T.i32))
            at = (number * page + safe % page) * width + element
            return buffer_ops.buffer_load(cache_rsrc, _raw(at), vec_width=count, dtype=T.f16, mask=token < length)

        q = []
        for step in range_constexpr(width // 16):
            element = (sequence * heads + lane16) * width + step * 16 + group * 4
            q.append(buffer_ops.buffer_load(q_rsrc, _raw(element), vec_width=4, dtype=T.f16, mask=lane16 < heads))
        largest, total, out = minus, fx.Float32(0.0), [zero for _ in range_constexpr(latent // 16)]
        for block in range(split * per_split, (split + 1) * per_split):
            scores = zero
            for step in range_constexpr(width // 16):
                keys = cached(block * 16 + lane16, step * 16 + group * 4, 4)
                scores = rocdl.mfma_f32_16x16x16f16(T.f32x4, [keys, q[step], scores, 0, 0, 0])
            values = []
            for i in range_constexpr(4):
                score = fx.Float32(vector.extract(scores, static_position=[i], dynamic_position=[])) * scale
                values.append((block * 16 + group * 4 + i < length).select(score, minus))
            best = fx.arith.max(fx.arith.max(values[0], values[1]), fx.arith.max(values[2], values[3]))
            best = fx.Float32(_partner_reduce(best, lambda a, b: arith.maximumf(_raw(a), _raw(b))))
            now = fx.arith.max(largest, best)
            shrink = fx.math.exp2(largest - now)
            weights = [(value > minus).select(fx.math.exp2(value - now), fx.Float32(0.0)) for value in values]
            added = weights[0] + weights[1] + weights[2] + weights[3]
            total = total * shrink + fx.Float32(_partner_reduce(added, lambda a, b: arith.addf(_raw(a), _raw(b))))
            packed = Vec.from_elements([w.to(fx.Float16) for w in weights], fx.Float16)
            for column in range_constexpr(latent // 16):
                v = []
                for i in range_constexpr(4):
                    v.append(fx.Float16(cached(block * 16 + group * 4 + i, column * 16 + lane16, 1)))
                sums = _raw(Vec(out[column]) * shrink)
                out[column] = rocdl.mfma_f32_16x16x16f16(
                    T.f32x4, [Vec.from_elements(v, fx.Float16), packed, sums, 0, 0, 0])
            largest = now
        if lane16 < heads:
            row = (sequence * splits + split) * heads + lane16
            for column in range_constexpr(latent // 16):
                buffer_ops.buffer_store(out[column], part_rsrc, _raw(row * latent + column * 16 + group * 4))
            if group == 0:
                buffer_ops.buffer_store(_raw(largest), state_rsrc, _raw(row * 2))
                buffer_ops.buffer_store(_raw(total), state_rsrc, _raw(row * 2 + 1))

    @flyc.kernel
    def join_kernel(arg_out: fx.Tensor, arg_part: fx.Tensor, arg_state: fx.Tensor):
        column, sequence, head = fx.thread_idx.x, fx.block_idx.x, fx.block_idx.y
        rows = [(sequence * splits + s) * heads + head for s in range_constexpr(splits)]
        state = fx.make_view(fx.get_iter(arg_state), fx.make_layout(1 << 20, 1))
        largest = state[rows[0] * 2]
        for s in range_constexpr(1, splits):
            largest = fx.arith.max(largest, state[rows[s] * 2])
        part_rsrc = buffer_ops.create_buffer_resource(arg_part)
        value, total = fx.Float32(0.0), fx.Float32(0.0)
        for s in range_constexpr(splits):
            factor = fx.math.exp2(state[rows[s] * 2] - largest)
            part = buffer_ops.buffer_load(part_rsrc, _raw(rows[s] * latent + column), vec_width=1, dtype=T.f32)
            value = value + fx.Float32(part) * factor
            total = total + state[rows[s] * 2 + 1] * factor
        fx.memref_store((value / total).to(fx.Float16), arg_out, (sequence, head, column))

    @flyc.jit
    def launch_mla(arg_out: fx.Tensor, arg_part: fx.Tensor, arg_state: fx.Tensor, arg_q: fx.Tensor,
                   arg_cache: fx.Tensor, arg_table: fx.Tensor, arg_lengths: fx.Tensor, i32_batch: fx.Int32,
                   i32_pages: fx.Int32,
                   stream: fx.Stream = fx.Stream(None)):
        mla_kernel(arg_part, arg_state, arg_q, arg_cache, arg_table, arg_lengths, i32_pages).launch(
            grid=(i32_batch, splits, 1), block=(64, 1, 1), stream=stream)
        join_kernel(arg_out, arg_part, arg_state).launch(
            grid=(i32_batch, heads, 1), block=(latent, 1, 1), stream=stream)

    return launch_mla
