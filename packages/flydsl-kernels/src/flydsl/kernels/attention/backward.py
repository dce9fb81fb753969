"""Attention backward: one kernel function, launched once for queries and once for keys and values.

With P = exp(S - lse) and dS = P (dP - delta), dP = dO V^T, delta = sum(dO O):

    dQ = scale dS K          dK = scale dS^T Q          dV = P^T dO

A workgroup holds rows of one side (queries, or keys) in registers and lets those of the other pass by in LDS. Either
way it makes two products of a passing tile with what it holds (S and dP, transposed as in the forward), and multiplies
the passing tile, read across, with the results. Sums stay in registers: no atomics, the same bits every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.mathx import LOG2E, LOWEST, exp2
from ..parts.memory import Buffer
from ..parts.runs import run_of
from ..target import Target, builder
from .config import RUN, choose_backward
from .rows import DenseRows
from .scores import lanes_of, packed, place, total_of
from .sequence import HeldRows, Sequence, Sizes, head_matrix, logits_of, store_head
from .tiles import PassingStatistic, PassingTile, PassingTiles
from .weave import TileProduct, Work, count_of, do, parts_of, reads_ahead, weave

__all__ = ["build_attention_backward"]


def _held(operand: Any, count: Any, block: Any, mma: Any, thread: Any, config: Any) -> Any:
    """Rows number `block` of a head's (data, start, stride, columns), in registers as operand B of a thread."""
    data, start, stride, columns = operand
    head = head_matrix(data, config.element, start, count, columns, stride)
    rows = HeldRows(head, columns, block, mma, thread, config)
    rows.load()
    rows.arrive()
    return rows.operand


def _shift_of(lse: Any) -> Any:
    """What is subtracted from scores of base 2 of a row: its logarithm; of a row that sees nothing, a low number."""
    with fx.fastmath("nnan"):
        return fx.maxnumf(lse, LOWEST / 2) * LOG2E


def _own_row(n: int, places: Any, config: Any) -> tuple[Any, Any]:
    """First passing row and held row of a lane in block number `n`."""
    return place(places, n * (config.values // config.blocks))


def _own_rows(errors: Any, results: Any, statistics: list[Any], places: Any, first: Any, config: Any) -> Any:
    """Shift and delta of this lane's held row of each block, of which row `first` is the first.

    Args:
        errors, results: dO and O of those rows; `statistics`: logarithms and what is subtracted from delta.
    """
    shifts, deltas = [], []
    of_errors, of_results = parts_of(errors), parts_of(results)
    for n in range(config.blocks):
        products = [total_of(of_errors(n, k).load().to(fx.Float32) * of_results(n, k).load().to(fx.Float32))
                    for k in range(count_of(results, 2))]
        delta = sum(products[1:], products[0])
        delta = delta + fx.shuffle_xor(delta, config.matrix.m, fx.num_warp_threads())
        lse, of_lse = [s.load(first + _own_row(n, places, config)[1], 1)[0] for s in statistics]
        shifts.append(_shift_of(lse))
        deltas.append(delta - of_lse)
    return tuple(shifts), tuple(deltas)  # lists are of passing rows


@flyc.jit
def _store_rows(rows, results, here, start, places, first, config):
    """Store what :func:`_own_rows` found, for the launch for keys, from one of the lanes that have it."""
    for n in fx.range_constexpr(config.blocks):
        first_key, row = _own_row(n, places, config)
        at = start + first + row
        if (first_key == 0) & (first + row < here.rows) & (fx.thread_idx.x < config.row_threads):
            for result, values in zip(results, rows, strict=True):
                result[at] = values[n]


def _load(buffer: Any, first: Any, row: Any, n: int) -> Any:
    """`n` values from a row of a tile on, whose first is row `first`."""
    return buffer.load(first + row, n)


def _statistics_of(passed: list[Any], stage: int, buffers: Iterable[Any], first: Any) -> tuple[list[Any], Any]:
    """How what is subtracted from the scores, and from the products, of passing rows is loaded, and what the former is
    made of by a function.

    LDS has what the launch for queries stored. Where it has no room, waves load logarithms from memory: with less to
    compute of each value the schedule of gfx942 bunches these loads behind the products, and its matrix unit is busy
    for 60 % of the loop instead of 65.
    """
    if passed:
        return [statistic.read(stage) for statistic in passed], lambda shift: shift
    return [partial(_load, buffer, first) for buffer in buffers], _shift_of


def _of_rows(load: Any, scores: Any, places: Any) -> tuple[list[Any], list[Work]]:
    """What belongs to the passing row of each value of a fragment, in runs, and the work that loads it:
    ``load(row, n)`` of the tile. Blocks of held rows have the same."""
    runs: list[Any] = []

    def run(i: int) -> None:
        runs.append(load(place(places, i)[0], RUN))

    count = lanes_of(scores).numel // count_of(scores, 2)
    return runs, [Work(partial(run, i)) for i in range(0, count, RUN)]


class Errors:
    """P and dS of a tile, two values at a time, beside matrix instructions.

    Args:
        scores, products, slopes: fragments of S, dP and the derivative of the soft cap.
        unit: scores times this are natural logarithms.
    """

    def __init__(self, config: Any, scores: Any, products: Any, slopes: Any, unit: Any) -> None:
        self._config, self._scores, self._products, self._slopes = config, scores, products, slopes
        self._unit = unit
        self.weights, self.errors = (fx.make_fragment_like(scores, config.element) for _ in range(2))
        self._count = lanes_of(scores).numel
        self._made: list[Any] = []

    def weigh(self, shift: Any, shift_of: Any) -> list[Work]:
        """P = exp(S - lse); `weights` have it rounded. `shift_of`: of values of `shift`, gives what it is."""
        def pair(i: int) -> None:
            subtracted = shift_of(self._statistic(shift, i))
            with fx.fastmath("contract"):
                self._made.append(exp2(run_of(lanes_of(self._scores), i, 2) * (self._unit * LOG2E) - subtracted))

        self._made = []
        work = [Work(partial(pair, i), 12) for i in range(0, self._count, 2)]
        return [*work, Work(lambda: self._round(self.weights, self._made), self._count)]

    def differ(self, delta: Any) -> list[Work]:
        """dS = P (dP - delta); `errors` have it rounded."""
        found: list[Any] = []

        def pair(i: int) -> None:
            error = self._made[i // 2] * (run_of(lanes_of(self._products), i, 2) - self._statistic(delta, i))
            if self._config.softcap:
                error = error * run_of(lanes_of(self._slopes), i, 2)
            found.append(error)

        work = [Work(partial(pair, i), 4) for i in range(0, self._count, 2)]
        return [*work, Work(lambda: self._round(self.errors, found), self._count)]

    def _statistic(self, values: Any, i: int) -> Any:
        """Of the rows of values i and i + 1: of runs of passing rows, or one of each block of held rows."""
        block, i = divmod(i, self._count // self._config.blocks)
        return run_of(values[i // RUN], i % RUN, 2) if isinstance(values, list) else values[block]

    def _round(self, fragment: Any, pairs: list[Any]) -> None:
        words = [packed(x, self._config.element, self._config.converts) for x in pairs]
        fragment.store(fx.Vector.from_elements(words, fx.Int32).bitcast(self._config.element))


@flyc.kernel
def backward_kernel(Q, K, V, Out, DOut, Lse, DLse, Shift, Delta, DFirst, DSecond, Bias, Slopes, StartsQ,
                    StartsK, sizes: Sizes, first: fx.TiledMma, second: fx.TiledMma, config: fx.Constexpr):
    """Workgroup (head, block, sequence): `config.rows` queries of a head, or keys of a head of k and v (`by_keys`)."""
    element, tid, BM, BN, D, DV = config.element, fx.thread_idx.x, config.rows, config.keys, config.d, config.dv
    by_keys, own = fx.const_expr(config.by_keys), config.row_thread(tid)
    own_head, block, batch = fx.block_idx
    here = Sequence(batch, sizes, config, StartsQ, StartsK, None)
    # What is held and what passes: two operands each, the first of D columns and the second of DV.
    held, passing = (here.keys, here.rows) if by_keys else (here.rows, here.keys)
    if block * BM < held:
        kv_head = own_head if by_keys else own_head // config.group

        def queries(head):
            return [(Q, here.start(here.row, head, sizes.q), sizes.q.row, D),
                    (DOut, *here.dense(here.row, head, sizes.rows, sizes.heads, DV), DV)]

        keys = [(K, here.start(here.key, kv_head, sizes.k), sizes.k.row, D),
                (V, here.start(here.key, kv_head, sizes.v), sizes.v.row, DV)]

        mine = [_held(operand, held, block, first, own, config)
                for operand in (keys if by_keys else queries(own_head))]

        scores_of, sums_of = first.get_slice(own), second.get_slice(tid)
        scores, products, slopes = [scores_of.make_fragment_C((BN, BM)) for _ in fx.range_constexpr(3)]
        places = scores_of.partition_C(fx.make_view((0, 0), fx.make_identity_layout((BN, BM))))
        memory = fx.SharedAllocator()
        tiles = [PassingTile(memory, element, tiles, config.stages, config.rolled)
                 for tiles in config.tiles]
        statistics = [PassingStatistic(memory, BN, config.threads, config.stages, config.rolled)
                      for _ in range(config.statistics)]
        along, across = fx.make_copy_atom(fx.UniversalCopy128b(), element), config.read_across()
        sums = [sums_of.make_fragment_C((columns, BM)) for columns in ((D, DV) if by_keys else (D,))]
        for s in sums:
            s.fill(0.0)

        def statistic(data, head):
            return Buffer(data, fx.Float32, here.statistic(head, sizes), here.rows)

        own_rows: Any = ((), ())  # shift and delta of each block of rows
        if fx.const_expr(not by_keys):
            o = (Out, *here.dense(here.row, own_head, sizes.rows, sizes.heads, DV), DV)
            results = _held(o, held, block, first, own, config)
            of_row = [statistic(data, own_head) for data in (Lse, DLse)]
            own_rows = _own_rows(mine[1], results, of_row, places, block * BM, config)
            _store_rows(own_rows, (Shift, Delta), here, here.statistic(own_head, sizes), places, block * BM, config)

        def logits_for(head):
            return logits_of(config, sizes, here, head, block, Bias, Slopes, sizes.scale)

        begin, end = logits_for(own_head).band.tiles(BN)
        passes = config.group if by_keys else 1  # heads of queries
        unit = sizes.scale if fx.const_expr(config.plain) else fx.Float32(1.0)  # of scores, in natural logarithms

        def where(step):
            """Query head and first passing row of a step."""
            if fx.const_expr(passes == 1):
                return own_head, (begin + step) * BN
            return kv_head * config.group + step // (end - begin), (begin + step % (end - begin)) * BN

        def sources(step):
            """Where the rows of a step's tiles come from, and the first of them."""
            head, row = where(step)
            return [*((DenseRows(data, element, start, passing, stride, columns), row)
                      for data, start, stride, columns in (queries(head) if by_keys else keys)),
                    *((statistic(data, head), row) for data in (Shift, Delta)[:config.statistics])]

        passed = scores_of.make_fragment_A((BN, D))

        def product_of(number, a, stage, begun=0):
            """S or dP, from a tile along its rows and what is held; some reads are `begun`."""
            return TileProduct(first, (scores, products)[number], a, along, tiles[number].along(stage), own, begun)

        def sums_from(number, columns, stage):
            """Products of a tile across its rows, added to a sum."""
            return TileProduct(second, sums[number], (columns, BN), across, tiles[number].across(stage), tid)

        moves = PassingTiles([*tiles, *statistics], sources, config.direct)
        if begin < end:
            pipeline = fx.Pipeline((end - begin) * passes, config.stages, moves.producer(), rolled=config.rolled,
                                   kept=config.kept)
            begun = reads_ahead(mine[0]) if fx.const_expr(config.splits_turn) else 0
            if fx.const_expr(config.splits_turn):
                pipeline.start()
                product_of(0, passed, 0).read(begun)
            for step in fx.pipeline_range(pipeline):
                head, row = where(step.tile)
                soon, later = ([], moves.starts(step)) if config.late else (moves.starts(step), [])
                (shift, delta), shift_of = own_rows, lambda shift: shift
                early, late = list[Work](), list[Work]()
                if fx.const_expr(by_keys):
                    loads, shift_of = _statistics_of(
                        statistics, step.stage, (statistic(data, head) for data in (Lse, Delta)), row)
                    (shift, early), (delta, late) = [_of_rows(load, scores, places) for load in loads]
                made = Errors(config, scores, products, slopes, unit)
                then = product_of(1, (BN, DV), step.stage)
                scores.fill(0.0)
                products.fill(0.0)
                weave(product_of(0, passed, step.stage, begun), mine[0], copies=early + soon, following=then)
                logits_for(head).apply(scores, places, row, slopes if config.softcap else None)
                last = sums_from(0, D, step.stage)
                if fx.const_expr(by_keys):
                    after = sums_from(1, DV, step.stage)
                    weave(then, mine[1], made.weigh(shift, shift_of), late, following=after)
                    weave(after, config.turned(made.weights), made.differ(delta), later, config.delay, last)
                else:
                    weave(then, mine[1], made.weigh(shift, shift_of), later, following=last)
                    do(made.differ(delta))
                turn = {}
                if fx.const_expr(config.splits_turn):
                    turn = dict(turn=step, following=product_of(0, passed, (step.stage + 1) % config.stages),
                                stores=moves.stores(step), early=config.kept > 0)
                weave(last, config.turned(made.errors), **turn)

        origin, owner, length, heads = (here.key, kv_head, sizes.keys, sizes.heads // config.group) if by_keys else (
            here.row, own_head, sizes.rows, sizes.heads)
        for out, total, columns, factor in zip((DFirst, DSecond), sums, (D, DV), (sizes.scale, 1.0), strict=False):
            start, stride = here.dense(origin, owner, length, heads, columns)
            store_head(head_matrix(out, element, start, held, columns, stride), element, second, tid, columns, block,
                       BM, total, factor)


@builder
def build_attention_backward(d: int, dv: int, dtype: str = "bf16", *, target: Target, **options: Any) -> Any:
    """Launcher ``launch(Q, K, V, Out, DOut, Lse, DLse, Shift, Delta, DQ, DK, DV, Bias, Slopes, StartsQ, StartsK, sizes,
    rows, keys, heads, kv_heads, batch, stream=None)``.

    `Shift` and `Delta` are memory for an f32 value a row and head. Out, DOut and the gradients are dense. Operands that
    the options do not name are None.

    Args:
        d, dv, dtype, options: of :class:`BackwardConfig`, and `short` of :func:`choose_backward`.

    Raises:
        ValueError: there is no such kernel on the target.
    """
    queries, keys = (choose_backward(target, d=d, dv=dv, dtype=dtype, by_keys=by_keys, **options)
                     .checked("attention, backward") for by_keys in (False, True))

    @flyc.jit
    def attention_backward(Q, K, V, Out, DOut, Lse, DLse, Shift, Delta, DQ, DK, DV, Bias, Slopes, StartsQ, StartsK,
                           sizes: Sizes, rows: fx.Int32, columns: fx.Int32, heads: fx.Int32, kv_heads: fx.Int32,
                           batch: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        for config, first, second, many, count in ((queries, DQ, None, heads, rows), (keys, DK, DV, kv_heads, columns)):
            backward_kernel(Q, K, V, Out, DOut, Lse, DLse, Shift, Delta, first, second, Bias, Slopes, StartsQ, StartsK,
                            sizes, config.tiled_mma(False), config.tiled_mma(True), config,
                            value_attrs=config.hints).launch(
                grid=(many, fx.ceildiv(count, config.rows), batch), block=config.threads, stream=stream)

    launcher: Any = attention_backward
    launcher.configs = (queries, keys)
    return launcher
