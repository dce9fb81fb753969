"""Attention forward: O = softmax(Q K^T) V, a workgroup for some rows of one head.

* The scores are computed transposed, S^T = K Q^T: the accumulator of a lane is then what the second product,
  O^T = V^T P^T, takes as its operand, in the lanes where it is.
* K and V pass through LDS; V is turned on the way, or read across its rows. Q stays in registers.
* The next tile is loaded while this one is multiplied.
* A tile becomes probabilities between matrix instructions: its first half beside the product with the values of the
  tile before, its second half beside that with the keys of the next one.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..cache.pages import PageNumbers
from ..parts.mathx import LOG2E
from ..parts.memory import pointer
from ..target import Target, builder
from .combine import CombineConfig, combine_kernel
from .config import choose
from .rows import DenseRows, PagedRows
from .scores import RowState, of_rows, place
from .sequence import HeldRows, Sequence, Sizes, head_matrix, logits_of, store_head
from .tiles import PassingTile, PassingTiles
from .weave import TileProduct, do, reads_ahead, weave

__all__ = ["build_attention_forward"]


@flyc.jit
def _store_logs(Lse, found, places, here, head, row, share, shares, sizes, config):  # noqa: N803
    """Logarithms of the sums of this lane's rows."""
    for i in fx.range_constexpr(config.blocks):
        key, mine = place(places, i * (config.values // config.blocks))
        if (key == 0) & (row + mine < here.rows) & (fx.thread_idx.x < config.row_threads):
            if fx.const_expr(config.split):
                line, heads = here.dense(here.row, head, sizes.rows, sizes.heads, 1)
                line = (line + (row + mine) * heads) * shares + share
            else:
                line = here.statistic(head, sizes) + row + mine
            Lse[line] = found[i].log


@flyc.jit
def _give_way(tile, tiles):
    """Let the workgroup that has more to do go first.

    Of equals the older one always would, and the last one of a launch be behind: it has its SIMDs to itself at the end,
    and a single wave keeps less of them busy than two. So priority falls where a half, a quarter and an eighth of the
    tiles are left: what one is ahead of the other gets smaller to the end.
    """
    for halvings in fx.range_constexpr(4):
        if tile == tiles - (tiles >> halvings):
            fx.rocdl.s_setprio(3 - halvings)


@flyc.kernel
def forward_kernel(Q, K, V, Out, Lse, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales, sizes: Sizes,
                   first: fx.TiledMma, second: fx.TiledMma, config: fx.Constexpr):
    """Workgroup (head, block, sequence) computes `config.rows` rows, the last blocks first.

    With `config.split`, (head, block, sequence and share) does so for a share of the keys: Out is f32 [rows, heads,
    shares, DV] then, and Lse f32 [rows, heads, shares] has logarithms.
    """
    element, tid, BM, BN, D, DV = config.element, fx.thread_idx.x, config.rows, config.keys, config.d, config.dv
    stored, (head, block, batch) = config.stored_element, fx.block_idx
    share, shares = fx.Int32(0), fx.Int32(1)
    if fx.const_expr(config.split):
        shares = sizes.splits
        batch, share = batch // shares, batch % shares
    block = fx.grid_dim.y - 1 - block
    kv_head = head // config.group
    here = Sequence(batch, sizes, config, StartsQ, StartsK, Lengths)
    row = block * BM
    if row < here.rows:
        own = config.row_thread(tid)
        scores_of, sums_of = first.get_slice(own), second.get_slice(tid)
        start = here.start(here.row, head, sizes.q)
        queries = HeldRows(head_matrix(Q, stored, start, here.rows, D, sizes.q.row), D, block, first, own, config)
        q = queries.operand

        # K and V pass through LDS.
        k, v = scores_of.make_fragment_A((BN, D)), sums_of.make_fragment_A((DV, BN))
        if fx.const_expr(config.page):
            table = fx.get_iter(Table) + fx.Int64(batch) * sizes.table_row

        def rows_of(data, strides, columns):
            if fx.const_expr(config.page):
                return PagedRows(pointer(data, stored) + kv_head.to(fx.Int64) * strides.head, table, config.page,
                                 strides.batch, strides.row, fx.Int32(0), here.keys - 1, uniform=False)
            return DenseRows(data, stored, here.start(here.key, kv_head, strides), here.keys, strides.row, columns)

        k_rows, v_rows = rows_of(K, sizes.k, D), rows_of(V, sizes.v, DV)
        memory = fx.SharedAllocator()
        k_tile, v_tile = [PassingTile(memory, element, tiles, config.stages, config.rolled)
                          for tiles in config.tiles]
        read_k = fx.make_copy_atom(fx.UniversalCopy128b(), element)
        read_v = config.read_across()

        scale, v_scale = sizes.scale, fx.Float32(1.0)
        if fx.const_expr(Descales is not None):
            q_scale, k_scale, v_scale = [x[batch * sizes.descale_batch + kv_head * sizes.descale_head]
                                         for x in Descales]
            scale = scale * q_scale * k_scale
        unit = scale if fx.const_expr(config.plain) else fx.Float32(1.0)  # of scores, in natural logarithms
        start = (share == 0).select(Sink[head] / unit, -math.inf) if fx.const_expr(config.sink) else None
        state = RowState(config, scores_of, sums_of, BM, DV, unit * LOG2E, start)
        scores, places, sums, softmax = state.scores, state.places, state.sums, state.softmax
        logits = logits_of(config, sizes, here, head, block, Bias, Slopes, scale)
        begin, end = logits.band.tiles(BN)
        if fx.const_expr(config.split):
            each = fx.ceildiv(fx.max(end - begin, 0), shares)
            begin, end = begin + share * each, fx.min(end, begin + (share + 1) * each)

        def scores_from(stage, begun=0):
            """Scores of the keys in a stage, of which some reads are `begun`."""
            return TileProduct(first, scores, k, read_k, k_tile.along(stage), own, begun=begun)

        def sums_from(stage):
            """Products of the weights and the values in a stage."""
            return TileProduct(second, sums, v, read_v, v_tile.across(stage), tid)

        def sources(step):
            """Values of a step and, beside them, the keys of the next one: those of the last tile twice."""
            return (k_rows, fx.min(begin + step + 1, end - 1) * BN), (v_rows, (begin + step) * BN)

        passing = PassingTiles((k_tile, v_tile), sources, config.direct, config.refilled)
        if begin < end:
            if fx.const_expr(config.page):
                PageNumbers(table, fx.Int32(0), fx.ceildiv(here.keys, config.page), tid,
                            config.threads).require(sizes.pages)

            def begin_weighing():
                """The scores of the first keys, while the tiles of the loop are on the way."""
                queries.arrive()
                scores.fill(0.0)
                weave(scores_from(config.stages - 1), q)
                logits.apply(scores, places, begin * BN)
                softmax.look()
                do(softmax.begin())

            pipeline = fx.Pipeline(end - begin, config.stages, passing.producer(), rolled=config.rolled,
                                   kept=config.kept)
            keys = PassingTiles((k_tile,), sources, config.direct)
            pipeline.start(queries.load, (keys.producer(), begin_weighing))
            begun = reads_ahead(q) if fx.const_expr(config.splits_turn) else 0
            scores_from(0).read(begun)
            for step in fx.pipeline_range(pipeline):
                if fx.const_expr(not config.beside_others):
                    fx.rocdl.s_setprio(0)
                then = sums_from(step.stage)
                scores.fill(0.0)
                (starts, stores), (later, last) = passing.beside(step, config.halved)
                weave(scores_from(step.stage, begun), q, softmax.finish(sums), starts, following=then, stores=stores)
                # What the last step makes nobody weighs. To ask costs loops without a right bound more than its mask.
                weighed = step.tile + 1 < end - begin if config.right else True
                logits.apply(scores, places, (begin + step.tile + 1) * BN, weighed=weighed)
                if fx.const_expr(not config.beside_others):
                    fx.rocdl.s_setprio(1)
                following, turn = None, None
                if fx.const_expr(config.splits_turn):
                    following, turn = scores_from((step.stage + 1) % config.stages), step
                weave(then, config.turned(state.weights), softmax.begin(), later, config.delay, following, turn=turn,
                      stores=last, early=config.kept > 0)
                if fx.const_expr(config.beside_others):
                    _give_way(step.tile, end - begin)

        found = softmax.result()
        result = fx.Float32 if fx.const_expr(config.split) else element
        start, out_row = here.dense(here.row, head, sizes.rows, sizes.heads, DV)
        o = head_matrix(Out, result, start * shares + share * DV, here.rows, DV, out_row * shares)
        sums.store(of_rows(sums, [row_sum.share(v_scale) for row_sum in found]))
        store_head(o, result, second, tid, DV, block, BM, sums, 1.0)

        if fx.const_expr(Lse is not None):
            _store_logs(Lse, found, places, here, head, row, share, shares, sizes, config)


@builder
def build_attention_forward(d: int, dv: int, dtype: str = "bf16", *, target: Target, **options: Any) -> Any:
    """Launcher ``launch(Q, K, V, Out, Lse, Parts, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales,
    sizes, lines, longest, heads, batch, stream=None)``.

    Operands that the options do not name are None; `Descales` is a tuple of three. `sizes` is a :class:`Sizes`. With
    `split`, `Parts` is a pair of f32 arrays for what each of `sizes.splits` workgroups has of a line (a row and a
    head, `lines` in all): its columns, and a logarithm.

    Args:
        d, dv, dtype, options: of :class:`ForwardConfig`, and `short` of :func:`choose`.

    Raises:
        ValueError: there is no such kernel on the target.
    """
    config = choose(target, d=d, dv=dv, dtype=dtype, **options).checked("attention")
    combine = CombineConfig(dv, dtype, False, logs=True, target=target)

    @flyc.jit
    def attention(Q, K, V, Out, Lse, Parts, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales,
                  sizes: Sizes, lines: fx.Int32, longest: fx.Int32, heads: fx.Int32, batch: fx.Int32,
                  stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        out, lse = Parts if config.split else (Out, Lse)
        forward_kernel(Q, K, V, out, lse, Bias, Slopes, Sink, StartsQ, StartsK, Lengths, Table, Descales, sizes,
                       config.tiled_mma(False), config.tiled_mma(True), config,
                       value_attrs=config.hints).launch(
            grid=(heads, fx.ceildiv(longest, config.rows), batch * sizes.splits), block=config.threads, stream=stream)
        if fx.const_expr(config.split):
            rows = sizes.total if fx.const_expr(config.packed) else sizes.rows
            combine_kernel(out, lse, lse, Out, Lse, heads, rows, sizes.splits, combine).launch(
                grid=lines, block=combine.threads, stream=stream)

    launcher: Any = attention
    launcher.config = config
    return launcher
