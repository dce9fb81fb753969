"""Attention forward: O = softmax(Q K^T) V, a workgroup for some rows of one head.

* The scores are computed transposed, S^T = K Q^T: the accumulator of a lane is then what the second product,
  O^T = V^T P^T, takes as its operand, in the lanes where it is.
* K and V pass through LDS; V is turned on the way, or read across its rows. Q stays in registers.
* The next tile is loaded while this one is multiplied.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..parts.mathx import LOG2E
from ..parts.memory import Buffer
from ..parts.rows import pointer
from ..target import Target, builder
from .config import AttentionConfig, choose
from .operand import DenseRows, PagedRows, RowTile, TurnedTile, converted
from .scores import Band, Logits, Softmax, place

__all__ = ["Sizes", "build_attention_forward"]


@fx.struct
class Sizes:
    """Shapes and strides, in elements; of packed sequences `rows` is the longest one.

    `*_batch` is also the stride of pages. Bounds of the band and the scale.
    """

    heads: fx.Int32
    rows: fx.Int32
    keys: fx.Int32
    total: fx.Int32
    q_batch: fx.Int64
    q_row: fx.Int32
    q_head: fx.Int64
    k_batch: fx.Int64
    k_row: fx.Int32
    k_head: fx.Int64
    v_batch: fx.Int64
    v_row: fx.Int32
    v_head: fx.Int64
    bias_batch: fx.Int64
    bias_row: fx.Int32
    bias_head: fx.Int64
    slope_batch: fx.Int32
    descale_batch: fx.Int32
    descale_head: fx.Int32
    table_row: fx.Int32
    left: fx.Int32
    right: fx.Int32
    scale: fx.Float32
    cap: fx.Float32


class Sequence:
    """The sequence of a workgroup: its rows and keys, and where they begin.

    Attributes:
        row, key: of packed tensors, the first of the sequence; else None.
        rows, keys: numbers of them.
        shift: the key at the place of row 0.
    """

    def __init__(self, batch: Any, sizes: Any, config: AttentionConfig, starts_q: Any, starts_k: Any,
                 lengths: Any) -> None:
        self.batch, self.rows, self.keys, self.row, self.key = batch, sizes.rows, sizes.keys, None, None
        if starts_q is not None:
            self.row = starts_q[batch]
            self.rows = starts_q[batch + 1] - self.row
        if starts_k is not None:
            self.key = starts_k[batch]
            self.keys = starts_k[batch + 1] - self.key
        if lengths is not None:
            self.keys = fx.max(fx.min(lengths[batch], sizes.keys), 0)
        self.shift = self.keys - self.rows

    def start(self, first: Any, head: Any, batch_stride: Any, row_stride: Any, head_stride: Any) -> Any:
        """The first element of a head."""
        begin = self.batch.to(fx.Int64) * batch_stride if first is None else first.to(fx.Int64) * row_stride
        return begin + head.to(fx.Int64) * head_stride


def head_matrix(data: Any, element: Any, start: Any, rows: Any, columns: int, stride: Any) -> Any:
    """A head as a buffer tensor (rows, columns) that ends with its last row."""
    view = fx.make_view(pointer(data, element) + start, fx.make_layout((rows, columns), (stride, 1)))
    extent = (rows > 0).select((rows - 1) * stride + columns, 0)
    return fx.rocdl.make_buffer_tensor(view, num_records_bytes=extent.to(fx.Int64) * (element.width // 8))


@flyc.kernel
def forward_kernel(Q, K, V, Out, Lse, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales, sizes: Sizes,
                   first: fx.TiledMma, second: fx.TiledMma, config: fx.Constexpr):
    """Workgroup (head, block, sequence) computes `config.rows` rows, the last blocks first."""
    element, tid, BM, BN, D, DV = config.element, fx.thread_idx.x, config.rows, config.keys, config.d, config.dv
    head, block, batch = fx.block_idx
    block = fx.grid_dim.y - 1 - block
    kv_head = head // config.group
    here = Sequence(batch, sizes, config, StartsQ, StartsK, Lengths)
    row = block * BM
    if row < here.rows:
        low = here.shift - sizes.left if fx.const_expr(config.left) else None
        high = here.shift + sizes.right if fx.const_expr(config.right) else None
        band = Band(row, BM, here.keys, low, high)

        # Q stays in registers.
        scores_of, sums_of = first.get_slice(tid), second.get_slice(tid)
        q, k = scores_of.make_fragment_B((BM, D)), scores_of.make_fragment_A((BN, D))
        v, p_operand = sums_of.make_fragment_A((DV, BN)), sums_of.make_fragment_B((BM, BN))
        stored = config.stored_element
        load_q = fx.make_copy_atom(fx.rocdl.BufferCopy(8 * stored.width), stored)
        q_matrix = head_matrix(Q, stored, here.start(here.row, head, sizes.q_batch, sizes.q_row, sizes.q_head),
                               here.rows, D, sizes.q_row)
        q_tile = fx.flat_divide(q_matrix, (BM, D))[None, None, block, 0]
        q_copy = fx.make_tiled_copy_B(load_q, first).get_slice(tid)
        q_stored = fx.make_fragment_like(q, stored)
        fx.copy(load_q, q_copy.partition_S(q_tile), q_copy.retile(q_stored))
        q.store(converted(q_stored.load(), element))

        # K and V pass through LDS.
        def rows_of(data, batch_stride, row_stride, head_stride, columns):
            if fx.const_expr(config.page):
                table = Buffer(Table, fx.Int32, None, fx.Int64(sizes.table_row) * fx.Int64(batch + 1))
                return PagedRows(data, stored, table, batch * sizes.table_row, config.page,
                                 kv_head.to(fx.Int64) * head_stride, batch_stride, here.keys, row_stride)
            start = here.start(here.key, kv_head, batch_stride, row_stride, head_stride)
            return DenseRows(data, stored, start, here.keys, row_stride, columns)

        k_rows = rows_of(K, sizes.k_batch, sizes.k_row, sizes.k_head, D)
        v_rows = rows_of(V, sizes.v_batch, sizes.v_row, sizes.v_head, DV)
        memory = fx.SharedAllocator()
        k_array = memory.allocate(fx.Array[element, BN * D, 128]).peek()
        v_array = memory.allocate(fx.Array[element, BN * DV, 128]).peek()
        k_tile = RowTile(BN, D, config.threads)
        v_tile = (RowTile if config.matrix.turned else TurnedTile)(BN, DV, config.threads)
        k_lds = k_tile.view(k_array)
        v_lds = v_tile.view(v_array, True) if config.matrix.turned else v_tile.view(v_array)
        read_k = fx.make_copy_atom(fx.UniversalCopy128b(), element)
        read_v = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64) if config.matrix.turned
                                   else fx.UniversalCopy64b(), element)
        k_copy = fx.make_tiled_copy_A(read_k, first).get_slice(tid)
        v_copy = fx.make_tiled_copy_A(read_v, second).get_slice(tid)

        scale, v_scale = sizes.scale, fx.Float32(1.0)
        if fx.const_expr(Descales is not None):
            q_scale, k_scale, v_scale = [x[batch * sizes.descale_batch + kv_head * sizes.descale_head]
                                         for x in Descales]
            scale = scale * q_scale * k_scale
        scores, sums = scores_of.make_fragment_C((BN, BM)), sums_of.make_fragment_C((DV, BM))
        p = fx.make_fragment_like(scores, element)
        places = scores_of.partition_C(fx.make_view((0, 0), fx.make_identity_layout((BN, BM))))
        unit = scale if fx.const_expr(config.plain) else fx.Float32(1.0)  # of scores, in natural logarithms
        start = None
        if fx.const_expr(config.sink):
            start = Sink[head] / unit
        softmax = Softmax(scores, unit * LOG2E, start, place(places, 0)[0] == 0)
        bias = slope = None
        if fx.const_expr(config.bias):
            at = here.start(here.row, head, sizes.bias_batch, sizes.bias_row, sizes.bias_head)
            bias = Buffer(Bias, FLOATS[config.bias], at, (here.rows - 1) * sizes.bias_row + here.keys)
        if fx.const_expr(config.alibi):
            slope = Slopes[batch * sizes.slope_batch + head]
        logits = Logits(config, band, scale, sizes.cap, bias, sizes.bias_row, slope, here.shift)
        begin, end = band.tiles(BN)
        sums.fill(0.0)

        k_staged, v_staged = [], []

        def load(tile, _):
            k_staged[:] = k_tile.fetch(k_rows, (begin + tile) * BN, tid)
            v_staged[:] = v_tile.fetch(v_rows, (begin + tile) * BN, tid)

        def store(_, __):
            k_tile.commit(k_array.ptr, tid, k_staged)
            v_tile.commit(v_array.ptr, tid, v_staged)

        if begin < end:
            for step in fx.pipeline_range(fx.Pipeline(end - begin, 1, fx.Staged(load, store))):
                fx.copy(read_k, k_copy.partition_S(k_lds), k_copy.retile(k))
                scores.fill(0.0)
                fx.gemm(first, scores, k, q, scores)
                logits.apply(scores, places, (begin + step.tile) * BN)
                softmax.update(sums, config.plain)
                p.store(scores.load().to(element))
                fx.copy(read_v, v_copy.partition_S(v_lds), v_copy.retile(v))
                fx.gemm(second, sums, v, fx.convert_layout(p, p_operand, modes=(1, 0)), sums)

        base, total = softmax.finish()
        inverse = (total > 0.0).select(v_scale / total, 0.0)
        result = fx.make_fragment_like(sums, element)
        result.store((sums.load() * inverse).to(element))
        out_row = sizes.heads * DV
        start = here.start(here.row, head, fx.Int64(sizes.rows) * out_row, fx.Int64(out_row), fx.Int64(DV))
        o = head_matrix(Out, element, start, here.rows, DV, out_row)
        store64 = fx.make_copy_atom(fx.rocdl.BufferCopy64b(), element)
        turned = fx.make_view(fx.get_iter(o), fx.make_layout((DV, here.rows), (1, out_row)))
        o_tile = fx.flat_divide(turned, (DV, BM))[None, None, 0, block]
        o_copy = fx.make_tiled_copy_C(store64, second).get_slice(tid)
        fx.copy(store64, o_copy.retile(result), o_copy.partition_D(o_tile))

        if fx.const_expr(Lse is not None):
            key, mine = place(places, 0)
            if (key == 0) & (row + mine < here.rows):
                lse = (total > 0.0).select(base * unit + fx.math.log2(total) * math.log(2.0), -math.inf)
                if fx.const_expr(here.row is None):
                    Lse[(batch * sizes.heads + head) * sizes.rows + row + mine] = lse
                else:
                    Lse[head * sizes.total + here.row + row + mine] = lse


@builder
def build_attention_forward(d: int, dv: int, dtype: str = "bf16", *, target: Target, **options: Any) -> Any:
    """Launcher ``launch(Q, K, V, Out, Lse, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales, sizes,
    longest, heads, batch, stream=None)``.

    Operands that the options do not name are None; `Descales` is a tuple of three. `sizes` is a :class:`Sizes`.

    Args:
        d, dv, dtype, options: of :class:`AttentionConfig`.

    Raises:
        ValueError: there is no such kernel on the target.
    """
    config = choose(target, d=d, dv=dv, dtype=dtype, **options).checked("attention")

    @flyc.jit
    def attention(Q, K, V, Out, Lse, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales, sizes: Sizes,
                  longest: fx.Int32, heads: fx.Int32, batch: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        forward_kernel(Q, K, V, Out, Lse, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales, sizes,
                       config.tiled_mma(False), config.tiled_mma(True), config).launch(
            grid=(heads, fx.ceildiv(longest, config.rows), batch), block=config.threads, stream=stream)

    attention.config = config
    return attention
