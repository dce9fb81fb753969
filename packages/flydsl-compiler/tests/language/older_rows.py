"""Whole kernels of rows in the style of the releases up to 0.3: norm, softmax, rotary embedding, quantisation, top-k
gating, convolution, and a sum over the buffers of several ranks.

Buffer resources, `SmemAllocator`, shuffles, raw `scf` and explicit loop state, as published programs of these families
are written.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import math as mlir_math
from flydsl._mlir.dialects import scf
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.expr import arith, buffer_ops, const_expr, gpu, range_constexpr, vector
from flydsl.expr.arith import ArithValue, CmpIPredicate
from flydsl.expr.typing import T
from flydsl.expr.utils.arith import _to_raw as _raw
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

BLOCK = 256


class BlockReduction:
    """Sums and maxima over a block: by shuffles in each wave, then through LDS."""

    def __init__(self, arch: str, wave: int, name: str) -> None:
        self.wave, self.waves = wave, BLOCK // wave
        self.allocator = SmemAllocator(None, arch=arch, global_sym_name=name)
        self.offset = self.allocator._align(self.allocator.ptr, 16)
        self.allocator.ptr = self.offset + self.waves * 4

    def finalize(self) -> None:
        self.allocator.finalized = False
        with ir.InsertionPoint(CompilationContext.get_current().gpu_module_body):
            self.allocator.finalize()

    def __call__(self, value, combine):
        lds = SmemPtr(self.allocator.get_base(), self.offset, T.f32, shape=(self.waves,)).get()
        distance = self.wave // 2
        while const_expr(distance > 0):
            other = gpu.shuffle(_raw(value), arith.constant(distance, type=T.i32),
                                arith.constant(self.wave, type=T.i32), "xor")
            value = combine(value, other)
            distance //= 2
        tid = gpu.thread_id("x")
        lane = arith.remui(tid, arith.index(self.wave))
        first = arith.cmpi(CmpIPredicate.eq, lane, arith.index(0))
        gpu.barrier()
        only = scf.IfOp(first)
        with ir.InsertionPoint(only.then_block):
            one = vector.from_elements(T.vec(1, T.f32), [_raw(value)])
            vector.store(one, lds, [arith.divui(tid, arith.index(self.wave))])
            scf.YieldOp([])
        gpu.barrier()
        total = None
        for i in range_constexpr(self.waves):
            part = vector.extract(vector.load_op(T.vec(1, T.f32), lds, [arith.index(i)]), static_position=[0],
                                  dynamic_position=[])
            total = part if total is None else combine(total, part)
        return total


def add(a, b):
    return arith.addf(_raw(a), _raw(b))


def largest(a, b):
    return arith.maximumf(_raw(a), _raw(b))


def build_rmsnorm(*, n: int, arch: str, wave: int, eps: float = 1e-5):
    """y = x / sqrt(mean(x^2) + eps) * weight, a block for each row; with the int8 of each row beside it."""
    reduce = BlockReduction(arch, wave, "rmsnorm_smem")
    steps = n // BLOCK
    assert n % BLOCK == 0

    @flyc.kernel(known_block_size=[BLOCK, 1, 1])
    def rmsnorm_kernel(arg_y: fx.Tensor, arg_q: fx.Tensor, arg_scale: fx.Tensor, arg_x: fx.Tensor, arg_w: fx.Tensor):
        tid, row = fx.thread_idx.x, fx.block_idx.x
        x_rsrc, w_rsrc, y_rsrc, q_rsrc, s_rsrc = (
            buffer_ops.create_buffer_resource(a) for a in (arg_x, arg_w, arg_y, arg_q, arg_scale))
        values, total = [], arith.constant(0.0, type=T.f32)
        for i in range_constexpr(steps):
            loaded = buffer_ops.buffer_load(x_rsrc, _raw(row * n + i * BLOCK + tid), vec_width=1, dtype=T.f16)
            wide = arith.extf(T.f32, _raw(loaded))
            values.append(wide)
            total = arith.addf(total, arith.mulf(wide, wide))
        total = reduce(total, add)
        mean = ArithValue(total) * (1.0 / n) + eps
        factor = mlir_math.rsqrt(_raw(mean))
        most = arith.constant(0.0, type=T.f32)
        for i in range_constexpr(steps):
            weight = buffer_ops.buffer_load(w_rsrc, _raw(tid + i * BLOCK), vec_width=1, dtype=T.f32)
            values[i] = arith.mulf(arith.mulf(_raw(values[i]), factor), _raw(weight))
            most = arith.maximumf(most, mlir_math.absf(_raw(values[i])))
        most = reduce(most, largest)
        scale = ArithValue(most) / 127.0
        for i in range_constexpr(steps):
            at = _raw(row * n + i * BLOCK + tid)
            buffer_ops.buffer_store(arith.truncf(T.f16, _raw(values[i])), y_rsrc, at)
            whole = mlir_math.roundeven(_raw(ArithValue(values[i]) / scale))
            buffer_ops.buffer_store(arith.trunci(T.i8, arith.fptosi(T.i32, whole)), q_rsrc, at)
        if arith.cmpi(CmpIPredicate.eq, _raw(tid), arith.constant(0, type=T.i32)):
            buffer_ops.buffer_store(_raw(scale), s_rsrc, _raw(row))

    @flyc.jit
    def launch(y: fx.Tensor, q: fx.Tensor, scale: fx.Tensor, x: fx.Tensor, w: fx.Tensor, m: fx.Int32,
               stream: fx.Stream = fx.Stream(None)):
        reduce.finalize()
        rmsnorm_kernel(y, q, scale, x, w).launch(grid=(m, 1, 1), block=(BLOCK, 1, 1), stream=stream)

    return launch


def build_softmax(*, arch: str, wave: int):
    """Softmax of rows of any length, in one pass that keeps the maximum and the sum, and one that writes."""
    reduce = BlockReduction(arch, wave, "softmax_smem")

    @flyc.kernel(known_block_size=[BLOCK, 1, 1])
    def softmax_kernel(arg_y: fx.Tensor, arg_x: fx.Tensor, i32_n: fx.Int32):
        tid, row = fx.thread_idx.x, fx.block_idx.x
        x_rsrc, y_rsrc = buffer_ops.create_buffer_resource(arg_x), buffer_ops.create_buffer_resource(arg_y)
        start = [arith.constant(-1e30, type=T.f32), arith.constant(0.0, type=T.f32)]
        for i, state in range(fx.Index(tid), fx.Index(i32_n), fx.Index(BLOCK), init=start):
            best, total = ArithValue(state[0]), ArithValue(state[1])
            value = buffer_ops.buffer_load(x_rsrc, _raw(row * i32_n + fx.Int32(i)), vec_width=1, dtype=T.f32)
            now = ArithValue(largest(best, value))
            total = total * mlir_math.exp(_raw(best - now)) + mlir_math.exp(_raw(ArithValue(value) - now))
            results = yield [now, total]
        most = ArithValue(reduce(results[0], largest))
        mine = ArithValue(results[1]) * mlir_math.exp(_raw(ArithValue(results[0]) - most))
        total = ArithValue(reduce(mine, add))
        for i in range(tid, i32_n, BLOCK):
            at = _raw(row * i32_n + i)
            value = buffer_ops.buffer_load(x_rsrc, at, vec_width=1, dtype=T.f32)
            buffer_ops.buffer_store(_raw(mlir_math.exp(_raw(ArithValue(value) - most)) / total), y_rsrc, at)

    @flyc.jit
    def launch(y: fx.Tensor, x: fx.Tensor, m: fx.Int32, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        reduce.finalize()
        softmax_kernel(y, x, n).launch(grid=(m, 1, 1), block=(BLOCK, 1, 1), stream=stream)

    return launch


def build_rope(*, heads: int, dim: int):
    """Rotary embedding in place (halves of a head rotate), with positions and a table of cosines and sines."""
    half = dim // 2

    @flyc.kernel(known_block_size=[half, 1, 1])
    def rope_kernel(arg_q: fx.Tensor, arg_positions: fx.Tensor, arg_table: fx.Tensor):
        pair, token, head = fx.thread_idx.x, fx.block_idx.x, fx.block_idx.y
        q_rsrc, p_rsrc, t_rsrc = (buffer_ops.create_buffer_resource(a) for a in (arg_q, arg_positions, arg_table))
        position = buffer_ops.buffer_load(p_rsrc, _raw(token), vec_width=1, dtype=T.i32)
        row = fx.Int32(position) * dim
        cosine = ArithValue(buffer_ops.buffer_load(t_rsrc, _raw(row + pair), vec_width=1, dtype=T.f32))
        sine = ArithValue(buffer_ops.buffer_load(t_rsrc, _raw(row + half + pair), vec_width=1, dtype=T.f32))
        at = (token * heads + head) * dim + pair
        halves = (buffer_ops.buffer_load(q_rsrc, _raw(place), vec_width=1, dtype=T.f16) for place in (at, at + half))
        x, y = (ArithValue(arith.extf(T.f32, _raw(value))) for value in halves)
        buffer_ops.buffer_store(arith.truncf(T.f16, _raw(x * cosine - y * sine)), q_rsrc, _raw(at))
        buffer_ops.buffer_store(arith.truncf(T.f16, _raw(y * cosine + x * sine)), q_rsrc, _raw(at + half))

    @flyc.jit
    def launch(q: fx.Tensor, positions: fx.Tensor, table: fx.Tensor, tokens: fx.Int32,
               stream: fx.Stream = fx.Stream(None)):
        rope_kernel(q, positions, table).launch(grid=(tokens, heads, 1), block=(half, 1, 1), stream=stream)

    return launch


def build_topk_gating(*, experts: int, topk: int, wave: int):
    """The `topk` largest of each row of gates with their experts, a wave for each row; ties go to the lower expert."""
    each = experts // wave
    assert experts % wave == 0

    @flyc.kernel(known_block_size=[wave, 1, 1])
    def topk_kernel(arg_values: fx.Tensor, arg_ids: fx.Tensor, arg_gates: fx.Tensor):
        lane, row = fx.thread_idx.x, fx.block_idx.x
        g_rsrc, v_rsrc, i_rsrc = (buffer_ops.create_buffer_resource(a) for a in (arg_gates, arg_values, arg_ids))
        gates = [fx.Float32(buffer_ops.buffer_load(g_rsrc, _raw(row * experts + i * wave + lane), vec_width=1,
                                                   dtype=T.f32)) for i in range_constexpr(each)]
        for k in range_constexpr(topk):
            best, where = gates[0], lane
            for i in range_constexpr(each):
                better = gates[i] > best
                best, where = better.select(gates[i], best), better.select(lane + i * wave, where)
            distance = wave // 2
            while const_expr(distance > 0):
                other = fx.Float32(gpu.shuffle_xor(best, distance, wave))
                at = fx.Int32(gpu.shuffle_xor(where, distance, wave))
                better = (other > best) | ((other == best) & (at < where))
                best, where = better.select(other, best), better.select(at, where)
                distance //= 2
            if lane == 0:
                buffer_ops.buffer_store(_raw(best), v_rsrc, _raw(row * topk + k))
                buffer_ops.buffer_store(_raw(where), i_rsrc, _raw(row * topk + k))
            for i in range_constexpr(each):
                gates[i] = (where == lane + i * wave).select(fx.Float32(-1e30), gates[i])

    @flyc.jit
    def launch(values: fx.Tensor, ids: fx.Tensor, gates: fx.Tensor, m: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        topk_kernel(values, ids, gates).launch(grid=(m, 1, 1), block=(wave, 1, 1), stream=stream)

    return launch


def build_conv2d(*, channels: int, height: int, width: int, kernel: int, pad: int):
    """Convolution of NHWC with weights KRSC, stride 1: a thread for each output, padding by masked loads."""
    out_h, out_w = height + 2 * pad - kernel + 1, width + 2 * pad - kernel + 1

    @flyc.kernel(known_block_size=[64, 1, 1])
    def conv_kernel(arg_y: fx.Tensor, arg_x: fx.Tensor, arg_w: fx.Tensor, i32_filters: fx.Int32):
        pixel, image = fx.block_idx.x * 64 + fx.thread_idx.x, fx.block_idx.z
        filter_ = fx.block_idx.y
        x_rsrc, w_rsrc, y_rsrc = (buffer_ops.create_buffer_resource(a) for a in (arg_x, arg_w, arg_y))
        oy, ox = pixel // out_w, pixel % out_w
        total = arith.constant(0.0, type=T.f32)
        for r in range_constexpr(kernel):
            for s in range_constexpr(kernel):
                y, x = oy + (r - pad), ox + (s - pad)
                inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
                for c in range_constexpr(channels // 4):
                    at = ((image * height + y) * width + x) * channels + c * 4
                    taps = ((filter_ * kernel + r) * kernel + s) * channels + c * 4
                    a = buffer_ops.buffer_load(x_rsrc, _raw(at), vec_width=4, dtype=T.f16, mask=inside)
                    b = buffer_ops.buffer_load(w_rsrc, _raw(taps), vec_width=4, dtype=T.f16)
                    product = arith.mulf(arith.extf(T.f32x4, _raw(a)), arith.extf(T.f32x4, _raw(b)))
                    for i in range_constexpr(4):
                        total = arith.addf(total, vector.extract(product, static_position=[i], dynamic_position=[]))
        if pixel < out_h * out_w:
            at = (image * (out_h * out_w) + pixel) * i32_filters + filter_
            buffer_ops.buffer_store(total, y_rsrc, _raw(at))

    @flyc.jit
    def launch(y: fx.Tensor, x: fx.Tensor, w: fx.Tensor, images: fx.Int32, filters: fx.Int32,
               stream: fx.Stream = fx.Stream(None)):
        conv_kernel(y, x, w, filters).launch(grid=((out_h * out_w + 63) // 64, filters, images), block=(64, 1, 1),
                                             stream=stream)

    return launch


def build_all_reduce(*, ranks: int):
    """The sum of the buffers of all ranks, read by address from a table of pointers."""

    @flyc.kernel(known_block_size=[64, 1, 1])
    def reduce_kernel(arg_out: fx.Tensor, arg_table: fx.Tensor, i32_n: fx.Int32):
        at = fx.block_idx.x * 64 + fx.thread_idx.x
        o_rsrc = buffer_ops.create_buffer_resource(arg_out)
        pointer = fx.PointerType.get(T.f32, fx.AddressSpace.Global, 4)
        if at < i32_n:
            total = fx.Float32(0.0)
            for rank in range_constexpr(ranks):
                total = total + fx.inttoptr(pointer, arg_table[rank])[at]
            buffer_ops.buffer_store(_raw(total), o_rsrc, _raw(at))

    @flyc.jit
    def launch(out: fx.Tensor, table: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        reduce_kernel(out, table, n).launch(grid=((n + 63) // 64, 1, 1), block=(64, 1, 1), stream=stream)

    return launch
