"""Attention backward: one kernel function, launched once for queries and once for keys and values.

With P = exp(S - lse) and dS = P (dP - delta), dP = dO V^T, delta = sum(dO O):

    dQ = scale dS K          dK = scale dS^T Q          dV = P^T dO

A workgroup holds rows of one side (queries, or keys) in registers and lets those of the other pass by in LDS. Either
way it makes two products of a passing tile with what it holds (S and dP, transposed as in the forward), and multiplies
the passing tile, read across, with the results. Sums stay in registers: no atomics, the same bits every time.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.mathx import LOG2E, exp2
from ..parts.memory import Buffer
from ..target import Target, builder
from .config import choose_backward
from .operand import DenseRows, PassingTile
from .scores import finite, lanes_of, place, total_of
from .sequence import Sequence, Sizes, head_matrix, logits_of, store_head

__all__ = ["build_attention_backward"]

RUN = 4  # rows that follow each other in the accumulators of all architectures


def _held(data: Any, start: Any, stride: Any, columns: int, count: Any, element: Any, block: Any, mma: Any,
          size: int) -> Any:
    """Rows number `block` of `size` of a head, in registers as operand B."""
    tile = fx.flat_divide(head_matrix(data, element, start, count, columns, stride), (size, columns))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), element)
    fragment = mma.get_slice(fx.thread_idx.x).make_fragment_B((size, columns))
    copy = fx.make_tiled_copy_B(atom, mma).get_slice(fx.thread_idx.x)
    fx.copy(atom, copy.partition_S(tile[None, None, block, 0]), copy.retile(fragment))
    return fragment


def _statistic(buffer: Any, scores: Any, places: Any, first: Any, config: Any) -> Any:
    """What belongs to the row of each value of a fragment; `first` is the row that the tile begins with."""
    if not config.by_keys:
        return buffer.load(first + place(places, 0)[1], 1)[0]
    values = []
    for i in range(0, lanes_of(scores).numel, RUN):
        part = buffer.load(first + place(places, i)[0], RUN)
        values += [part[j] for j in range(RUN)]
    return fx.Vector.from_elements(values, fx.Float32)


@flyc.kernel
def backward_kernel(Q, K, V, Out, DOut, Lse, DLse, Delta, DFirst, DSecond, Bias, Slopes, StartsQ, StartsK,
                    sizes: Sizes, first: fx.TiledMma, second: fx.TiledMma, config: fx.Constexpr):
    """Workgroup (head, block, sequence): `config.rows` queries of a head, or keys of a head of k and v (`by_keys`)."""
    element, tid, BM, BN, D, DV = config.element, fx.thread_idx.x, config.rows, config.keys, config.d, config.dv
    by_keys, wave = fx.const_expr(config.by_keys), fx.num_warp_threads()
    own_head, block, batch = fx.block_idx
    here = Sequence(batch, sizes, config, StartsQ, StartsK, None)
    # What is held and what passes: two operands each, the first of D columns and the second of DV.
    held, passing = (here.keys, here.rows) if by_keys else (here.rows, here.keys)
    if block * BM < held:
        kv_head = own_head if by_keys else own_head // config.group

        def queries(head):
            return [(Q, here.start(here.row, head, sizes.q_batch, sizes.q_row, sizes.q_head), sizes.q_row, D),
                    (DOut, *here.dense(here.row, head, sizes.rows, sizes.heads, DV), DV)]

        keys = [(K, here.start(here.key, kv_head, sizes.k_batch, sizes.k_row, sizes.k_head), sizes.k_row, D),
                (V, here.start(here.key, kv_head, sizes.v_batch, sizes.v_row, sizes.v_head), sizes.v_row, DV)]
        mine = [_held(data, start, stride, columns, held, element, block, first, BM)
                for data, start, stride, columns in (keys if by_keys else queries(own_head))]

        scores_of, sums_of = first.get_slice(tid), second.get_slice(tid)
        scores, products, slopes = [scores_of.make_fragment_C((BN, BM)) for _ in fx.range_constexpr(3)]
        rounded, operand = fx.make_fragment_like(scores, element), sums_of.make_fragment_B((BM, BN))
        places = scores_of.partition_C(fx.make_view((0, 0), fx.make_identity_layout((BN, BM))))
        memory, direct = fx.SharedAllocator(), config.matrix.turned
        tiles = [PassingTile(memory, element, BN, columns, config.threads, True, across, direct)
                 for columns, across in ((D, True), (DV, by_keys))]
        along, across = fx.make_copy_atom(fx.UniversalCopy128b(), element), config.read_across()
        along_copy = fx.make_tiled_copy_A(along, first).get_slice(tid)
        across_copy = fx.make_tiled_copy_A(across, second).get_slice(tid)
        sums = [sums_of.make_fragment_C((columns, BM)) for columns in ((D, DV) if by_keys else (D,))]
        for s in sums:
            s.fill(0.0)

        @flyc.jit
        def store_delta(value):
            """The value of this lane's row, for the other launch."""
            part, row = place(places, 0)
            if (part == 0) & (block * BM + row < here.rows):
                Delta[here.statistic(own_head, sizes) + block * BM + row] = value

        def statistic(data, head, row):
            buffer = Buffer(data, fx.Float32, here.statistic(head, sizes), here.rows)
            return _statistic(buffer, scores, places, row if by_keys else block * BM, config)

        own_delta = fx.Float32(0.0)
        if fx.const_expr(not by_keys):
            o = (Out, *here.dense(here.row, own_head, sizes.rows, sizes.heads, DV), DV)
            own_delta = total_of(mine[1].load().to(fx.Float32) * _held(*o, held, element, block, first, BM).load()
                                 .to(fx.Float32))
            own_delta = own_delta + fx.shuffle_xor(own_delta, config.matrix.m, wave)
            own_delta = own_delta - statistic(DLse, own_head, None)
            store_delta(own_delta)

        def logits_for(head):
            return logits_of(config, sizes, here, head, block, Bias, Slopes, sizes.scale)

        begin, end = logits_for(own_head).band.tiles(BN)
        passes = config.group if by_keys else 1  # heads of queries
        unit = sizes.scale if fx.const_expr(config.plain) else fx.Float32(1.0)  # of scores, in natural logarithms

        def where(step):
            """Query head and first passing row of a step."""
            if fx.const_expr(not by_keys):
                return own_head, (begin + step) * BN
            return kv_head * config.group + step // (end - begin), (begin + step % (end - begin)) * BN

        def load(step, _):
            head, row = where(step)
            for tile, (data, start, stride, columns) in zip(tiles, queries(head) if by_keys else keys, strict=True):
                tile.fetch(DenseRows(data, element, start, passing, stride, columns), row)

        def store(_, __):
            for tile in tiles:
                tile.commit(0)

        def multiply(result, tile, other, columns):
            """result = tile other^T"""
            part = scores_of.make_fragment_A((BN, columns))
            fx.copy(along, along_copy.partition_S(tile.along(0)), along_copy.retile(part))
            result.fill(0.0)
            fx.gemm(first, result, part, other, result)

        def add(total, tile, values):
            """total += tile^T values"""
            rounded.store(values.to(element))
            part = sums_of.make_fragment_A((fx.size(total.shape).unpack() * config.threads // BM, BN))
            fx.copy(across, across_copy.partition_S(tile.across(0)), across_copy.retile(part))
            fx.gemm(second, total, part, fx.convert_layout(rounded, operand, modes=(1, 0)), total)

        if begin < end:
            for step in fx.pipeline_range(fx.Pipeline((end - begin) * passes, 1, fx.Staged(load, store))):
                head, row = where(step.tile)
                multiply(scores, tiles[0], mine[0], D)
                multiply(products, tiles[1], mine[1], DV)
                logits_for(head).apply(scores, places, row, slopes if config.softcap else None)
                lse = statistic(Lse, head, row)
                delta = statistic(Delta, head, row) if by_keys else own_delta
                weights = exp2((lanes_of(scores) * unit - finite(lse)) * LOG2E)
                errors = weights * (lanes_of(products) - delta)
                if fx.const_expr(config.softcap):
                    errors = errors * lanes_of(slopes)
                add(sums[0], tiles[0], errors)
                if fx.const_expr(by_keys):
                    add(sums[1], tiles[1], weights)

        owners = (here.key, kv_head, sizes.keys, sizes.heads // config.group) if by_keys else (
            here.row, own_head, sizes.rows, sizes.heads)
        for out, total, columns, factor in zip((DFirst, DSecond), sums, (D, DV), (sizes.scale, 1.0), strict=False):
            start, stride = here.dense(*owners, columns)
            store_head(head_matrix(out, element, start, held, columns, stride), element, second, tid, columns, block,
                       BM, total, factor)


@builder
def build_attention_backward(d: int, dv: int, dtype: str = "bf16", *, target: Target, **options: Any) -> Any:
    """Launcher ``launch(Q, K, V, Out, DOut, Lse, DLse, Delta, DQ, DK, DV, Bias, Slopes, StartsQ, StartsK, sizes, rows,
    keys, heads, kv_heads, batch, stream=None)``.

    `Delta` is memory for an f32 value a row and head. Out, DOut and the gradients are dense. Operands that the options
    do not name are None.

    Args:
        d, dv, dtype, options: of :class:`AttentionConfig`.

    Raises:
        ValueError: there is no such kernel on the target.
    """
    queries, keys = (choose_backward(target, d=d, dv=dv, dtype=dtype, by_keys=by_keys, **options)
                     .checked("attention, backward") for by_keys in (False, True))

    @flyc.jit
    def attention_backward(Q, K, V, Out, DOut, Lse, DLse, Delta, DQ, DK, DV, Bias, Slopes, StartsQ, StartsK,
                           sizes: Sizes, rows: fx.Int32, columns: fx.Int32, heads: fx.Int32, kv_heads: fx.Int32,
                           batch: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        for config, first, second, many, count in ((queries, DQ, None, heads, rows), (keys, DK, DV, kv_heads, columns)):
            backward_kernel(Q, K, V, Out, DOut, Lse, DLse, Delta, first, second, Bias, Slopes, StartsQ, StartsK, sizes,
                            config.tiled_mma(False), config.tiled_mma(True), config).launch(
                grid=(many, fx.ceildiv(count, config.rows), batch), block=config.threads, stream=stream)

    attention_backward.configs = (queries, keys)  # type: ignore[attr-defined]
    return attention_backward
