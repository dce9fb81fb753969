"""The preshuffle GEMM kernel: A through LDS, B (shuffled by ``shuffle_weight``) straight to registers.

Four or eight waves lie along N and interleave strips of 16 columns: accumulator (mi, ni) of wave w covers rows
``16 mi`` and columns ``16 (waves ni + w)``. While tile t is computed, B of tile t + 1 is on its way to registers, A of
tile t + 1 goes from registers to the other LDS buffer, and A of tile t + 2 is on its way to registers; with direct
copies, A of tile t + 1 is on its way to the other buffer. Two tiles are one turn of the loop: the LDS buffers have
fixed addresses.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.epilogue import TilePlace, store_tile
from ..parts.index import div, mod, xcd_remap_bx_by
from ..parts.memory import WORDS, Buffer
from ..parts.reduce import Lds
from .block_scales import RegisterScales, SharedScales
from .config import INT4_FACTOR, OUT_DTYPES, SCALE_BLOCK, PreshuffleConfig
from .cshuffle import shuffle_tile
from .epilogue import gemm_epilogue
from .mainloop import finish_tile, part_rows, run_tile
from .schedule import Tally, hot_loop_schedule
from .tiles import KTile

__all__ = ["launch_preshuffle"]

WAVE = 64
OPEN_SUMS = 3  # complete partial sums of block scales that wait to be added, which a tile leaves to the next
SUMS_DELAY = 1  # matrix instructions of a tile, and after its barrier, before the first such addition
MAX_WAIT = 63  # of the counter of vector memory operations
HIGH = 0xF0F0F0F0 - (1 << 32)  # the high halves of four bytes


def _unpack_int4(pair: Any) -> Any:
    """Two dwords of int4 (byte j: values j and j + 4 of eight) as a chunk of sixteen int8, each 16 times its value: a
    nibble in the high half of a byte needs no sign extension. The sums are exact, and divided in the epilogue."""
    words = [half for i in range(2) for half in ((pair[i] << 4) & HIGH, pair[i] & HIGH)]
    return fx.Vector.from_elements(words, fx.Int32)


class _Weights:
    """B fragments of one wave, from the shuffled weight."""

    def __init__(self, data: Any, config: PreshuffleConfig, column: Any, wave: Any, lane: Any, tally: Tally) -> None:
        self._config, self._tally = config, tally
        self._chunk_words = WORDS // 2 if config.int4 else WORDS
        element_bytes = config.op.element_bytes
        # A strip of 16 columns: K bytes x 16, as blocks of 64 bytes of k with 64 chunks each.
        self._block_words = WAVE * self._chunk_words
        self._strip_words = config.k * element_bytes // 64 * self._block_words
        start = fx.Int64(column) * (self._strip_words // 16)
        self._buffer = Buffer(data, fx.Int32, start, config.tile_n // 16 * self._strip_words)
        self._wave, self._lane = wave, lane * self._chunk_words

    def fetch(self, tile: KTile) -> list[list[Any]]:
        """Start loading the fragments of a k tile: ``[ni][block]``."""
        config = self._config
        step = config.blocks * self._block_words
        out = []
        for ni in range(config.n_repeat):
            at = self._lane + config.strip(self._wave, ni) * self._strip_words + tile.further * step
            out.append([self._buffer.load(at + b * self._block_words, self._chunk_words, tile.turn * step)
                        for b in range(config.blocks)])
        self._tally.add("vmem", config.n_repeat * config.blocks)
        return out

    def ready(self, chunk: Any) -> Any:
        return _unpack_int4(chunk) if self._config.int4 else chunk


def settle(tally: Tally, total: list[Any], waiting: list[tuple[int, Any, Any]], most: int) -> None:
    """Add the oldest of the complete partial sums (place, sum, factor) to `total`, until at most `most` are left."""
    while len(waiting) > most:
        at, value, factor = waiting.pop(0)
        tally.add("valu", 2)  # packed
        total[at] = fx.math.fma(value, fx.full(value.numel, factor[0], fx.Float32), total[at])


@flyc.kernel
def preshuffle_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C."""
    op, tile = config.op, config.a_tile
    thread = fx.thread_idx.x
    lane, wave = mod(thread, WAVE), div(thread, WAVE)
    group, lane_row = div(lane, 16), mod(lane, 16)
    bx, by = xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, m, tile_m=config.tile_m, tile_n=config.tile_n,
                             N=config.n, xcd_swizzle=config.xcd_swizzle)
    row, column = bx * config.tile_m, by * config.tile_n
    rows = fx.min(m - row, config.tile_m)
    row_words = config.k * op.element_bytes // 4
    a = Buffer(tensors["A"], fx.Int32, fx.Int64(row) * row_words, rows * row_words)
    memory = Lds()
    # An array for each stage: what is copied to one stage then cannot alias reads of another, and needs no waits.
    stages = [memory.array(fx.Int32, config.stage_bytes(s) // 4).ptr for s in fx.range_constexpr(config.stages)]
    tally = Tally()
    weights = _Weights(tensors["B"], config, column, wave, lane, tally)
    scales: Any = None
    if fx.const_expr(config.block_scale):
        where = tensors["scale_a"], tensors["scale_b"], config, m, row, column, wave, lane_row
        if fx.const_expr(config.shared_scales):
            scales = SharedScales(*where, thread, memory, tally)
        else:
            scales = RegisterScales(*where, tally)
    readers = [tile.reader(stage, lane_row, group, op.groups) for stage in stages]
    # With block scales, a part has the k of a scale: the partial sums of its rows are complete at its end.
    calls, size = config.blocks // op.blocks, part_rows(config.m_repeat)
    together = SCALE_BLOCK * op.element_bytes // (op.block_bytes * op.blocks) if config.block_scale else 1
    size = max(size // together, 1)
    groups = config.m_repeat // size
    parts = calls // together * groups
    width = together * op.blocks  # blocks of k of a part

    a_loads = 0 if config.use_async else tile.loads
    scale_loads = scales.loads if config.block_scale else 0
    shared_loads = scale_loads if config.shared_scales else 0

    def fetch_a(t):
        """Start loading into registers what of A of tile t goes through them to LDS."""
        if fx.const_expr(config.use_async):
            return []
        tally.add("vmem", tile.loads)
        words = config.row_bytes // 4
        return tile.fetch(a, row_words, thread, t.turn * words, t.further * words)

    def fetch_scales(t):
        """The same of block scales."""
        return scales.fetch(t) if config.shared_scales else []

    def commit(values, stage):
        """Write what `fetch_a` and `fetch_scales` loaded to LDS."""
        if fx.const_expr(not config.use_async):
            tally.add("ds_write", tile.loads)
            tile.commit(stages[stage], thread, values[:a_loads])
        if fx.const_expr(config.shared_scales):
            scales.commit(values[a_loads:], stage)

    def a_place(row_, chunk):
        return row_ * row_words + chunk * WORDS

    def copy_a(t, stage):
        """Start copying tile t of A to LDS."""
        tally.add("vmem", tile.loads)
        tile.copy_async(a, a_place, stages[stage], thread, WAVE, t.index * (config.row_bytes // 4))

    def side_of(t):
        """What a tile needs besides what is in LDS: B fragments, and perhaps scales."""
        strips = weights.fetch(t)
        return [*strips, scales.fetch(t)] if config.block_scale and not config.shared_scales else strips

    def reader(stage):
        def read(part):
            call, first = part_of(part)
            blocks = fx.range_constexpr(call * op.blocks, call * op.blocks + width)
            tally.add("ds_read", size * width)
            rows_of = [[readers[stage](first + i, b) for b in blocks] for i in fx.range_constexpr(size)]
            if fx.const_expr(config.shared_scales and first % config.apart == 0):
                # An iteration for each read of factors: they are consecutive for `apart` rows.
                rows_of.append([v for i in range(0, size, config.apart)
                                for v in scales.read(stage, call // together, first + i)])
            return rows_of

        return read

    def part_of(part):
        """(first call, first row tile) of a part."""
        return part // groups * together, part % groups * size

    def multiplier(strips, most):
        """``multiply((acc, waiting), part, fragments)``: with block scales, `waiting` are complete partial sums, which
        are added to acc a few matrix instructions later, at the end until `most` are left."""
        known: dict = {}
        factors: dict = {}  # by row tile: those of the wave's groups of strips

        def multiply(state, part, fragments):
            total, waiting = list(state[0]), list(state[1])
            call, first = part_of(part)
            if fx.const_expr(len(fragments) > size):
                groups_of = regroup(fragments[size], len(config.scale_strips))
                for i in fx.range_constexpr(len(groups_of) * config.apart):
                    inside = i % config.apart
                    factors[first + i] = [v.shuffle(v, [inside]) for v in groups_of[i // config.apart]]
            places = [(i, ni) for i in fx.range_constexpr(size) for ni in fx.range_constexpr(config.n_repeat)]
            start = first * config.n_repeat
            sums = [op.zero() for _ in places] if config.block_scale else total[start : start + len(places)]
            for c in fx.range_constexpr(together):
                blocks = fx.range_constexpr((call + c) * op.blocks, (call + c + 1) * op.blocks)
                right = [[weights.ready(strips[ni][b]) for b in blocks] for ni in fx.range_constexpr(config.n_repeat)]
                left = [row_[c * op.blocks : (c + 1) * op.blocks] for row_ in fragments[:size]]
                pairs = [(right[ni], left[i]) if config.block_scale else (left[i], right[ni]) for i, ni in places]
                sums = op.multiply_all([(*pair, acc_) for pair, acc_ in zip(pairs, sums, strict=True)])
            tally.add("mfma", len(places) * together * op.instructions)
            if fx.const_expr(not config.block_scale):
                total[start : start + len(places)] = sums
                return total, waiting
            for (i, ni), value in zip(places, sums, strict=True):
                settle(tally, total, waiting, OPEN_SUMS)
                if fx.const_expr(not config.shared_scales):
                    factors[first + i] = scales.of(strips[-1], call // together, first + i, known)
                of_strip = ni * len(config.scale_strips) // config.n_repeat
                waiting.append((start + i * config.n_repeat + ni, value, factors[first + i][of_strip]))
            if fx.const_expr(part == parts - 1):
                settle(tally, total, waiting, most)
            return total, waiting

        return multiply

    side_loads = config.n_repeat * config.blocks + scale_loads - shared_loads
    # Where the complete partial sums belong that a tile leaves for the next.
    count = config.m_repeat * config.n_repeat
    carried = min(OPEN_SUMS, count) if config.block_scale else 0
    left_over = list(range(count - carried, count))

    # Copies to LDS, and the loads of B, stay in flight over a barrier that orders LDS only.
    barrier = fx.lds_barrier if config.use_async else fx.barrier

    def step(acc, side, pending, first, t, stage, more=True):
        """Multiply tile t from LDS buffer `stage`, with B (and perhaps scales) `side`; `acc` is (sums, complete partial
        sums to be added). `side` of tile t + 1 is fetched, and A and shared scales of tile t + 2 if there is `more`;
        what of tile t + 1 goes to LDS through registers is `pending`."""
        other = (stage + 1) % config.stages
        tally.reset()
        # B first: it is needed before A and scales, which go to LDS in the middle of the next tile.
        following = side_of(t.after(1))
        later = fetch_a(t.after(2)) if more else []

        def turn(hints):
            if fx.const_expr(not config.use_async):
                if fx.const_expr(config.stages == 1):
                    barrier()
                commit(pending, other)
                hints()
                barrier()
            elif fx.const_expr(config.stages == 1):
                hints()
                barrier()
                copy_a(t.after(1), 0)
                commit(pending, 0)
                fx.rocdl.s_waitcnt(vmcnt=0)
                barrier()
            else:
                # The copies of tile t + 1 are older than this tile's loads, which need not be complete.
                commit(pending, other)
                hints()
                fx.rocdl.s_waitcnt(vmcnt=min(side_loads, MAX_WAIT))
                barrier()
                if fx.const_expr(more):
                    copy_a(t.after(2), stage)

            def cross():
                # The queue of the memory pipeline is full before the barrier: what is needed last is fetched after it.
                if fx.const_expr(more):
                    later.extend(fetch_scales(t.after(2)))
                return reader(other)(0)

            return cross

        order = partial(hot_loop_schedule, beside=op.blocks, delay=SUMS_DELAY)
        # With long instructions, another one follows the barrier before the first read: the wait for the other waves
        # is shorter.
        orders = (partial(order, preload=config.preload, early_writes=True),
                  partial(order, reads_from=int(op.blocks > 1)))
        state, first = run_tile(acc, first, parts, reader(stage), multiplier(side, carried), turn, tally,
                                config.scheduled, orders)
        return state, following, later, first

    def flat(acc, side, pending, first):
        strips, parts_ = (v for strip in side for v in strip), (v for row_ in first for v in row_)
        open_sums = (v for _, value, factor in acc[1] for v in (value, factor))
        return [*acc[0], *open_sums, *strips, *pending, *parts_]

    def unflat(state, kinds, held):
        values = [fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=True)]
        acc, open_sums, values = values[:count], values[count : count + 2 * carried], values[count + 2 * carried :]
        acc = acc, [(at, *pair) for at, pair in zip(left_over, regroup(open_sums, 2), strict=True)]
        strips, values = values[:side_loads], values[side_loads:]
        own = config.n_repeat * config.blocks
        side = regroup(strips[:own], config.blocks) + ([strips[own:]] if side_loads > own else [])
        pending, values = values[:held], values[held:]
        rows_of, values = regroup(values[: size * width], width), values[size * width :]
        return acc, side, pending, rows_of + ([values] if values else [])

    acc = ([op.zero() for _ in fx.range_constexpr(count)],
           [(at, op.zero(), fx.full(1, 0.0, fx.Float32)) for at in left_over])
    total, ahead = config.k_tiles, config.stages == 2 or not config.use_async
    if fx.const_expr(config.use_async):
        copy_a(KTile(fx.Int32(0)), 0)
        fx.rocdl.sched_barrier(0)
        if fx.const_expr(ahead and total > 1):
            copy_a(KTile(fx.Int32(0), 1), 1)
        fx.rocdl.sched_barrier(0)
    begin = KTile(fx.Int32(0))
    chunks = fetch_a(begin) + fetch_scales(begin)
    side = side_of(begin)
    fx.rocdl.sched_barrier(0)  # the order of the loop, where a wait for B is no wait for the next tile of A
    pending = fetch_a(begin.after(1)) + fetch_scales(begin.after(1)) if total > 1 else []
    commit(chunks, 0)
    if fx.const_expr(config.use_async):
        fx.rocdl.s_waitcnt(vmcnt=min(side_loads + (tile.loads if ahead and total > 1 else 0), MAX_WAIT))
    barrier()
    first = reader(0)(0)
    turns = max(total - 2, 0) // 2
    with fx.fastmath("contract"):
        if fx.const_expr(turns > 0):
            start = flat(acc, side, pending, first)
            kinds = [(v.shape, v.dtype) for v in start]
            for turn, state in range(0, turns, 1, init=start):  # type: ignore[call-overload]
                acc_in, side_in, pending_in, first_in = unflat(state, kinds, len(pending))
                for half in fx.range_constexpr(2):
                    acc_in, side_in, pending_in, first_in = step(
                        acc_in, side_in, pending_in, first_in, KTile(fx.Int32(turn) * 2, half), half % config.stages)
                results = yield flat(acc_in, side_in, pending_in, first_in)
            acc, side, pending, first = unflat(results, kinds, len(pending))
        for t in fx.range_constexpr(2 * turns, total - 1):
            acc, side, pending, first = step(
                acc, side, pending, first, begin.after(t), t % config.stages, t + 2 < total)
        acc = finish_tile(acc, first, parts, reader((total - 1) % config.stages),
                          multiplier(side, 0))[0]
    epilogue = gemm_epilogue(tensors, m, config.n, config.epilogue, op.element_bytes == 1 and not config.block_scale,
                             divisor=INT4_FACTOR if config.int4 else 1)

    def row_of(mi):
        return config.tile_row(mi, lane_row)

    strips = [column + config.strip(wave, ni) * 16 for ni in fx.range_constexpr(config.n_repeat)]
    place = TilePlace(m, config.n, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [strip + (group * 4 if config.block_scale else lane_row) for strip in strips],
                      group, op.acc_len, row_of=row_of if config.block_scale else None)
    element = OUT_DTYPES[config.out_dtype]
    if fx.const_expr(config.cshuffle):
        shuffle_tile(tensors["C"], element, acc, epilogue, place, stages[0], config.shuffle, column, 0)
    else:
        store_tile(tensors["C"], element, acc, epilogue, place)


def regroup(values: list[Any], size: int) -> list[list[Any]]:
    """A flat list as lists of `size`."""
    return [values[i : i + size] for i in range(0, len(values), size)]


def launch_preshuffle(tensors: dict[str, Any], m: Any, config: PreshuffleConfig, stream: Any) -> None:
    """Launch from a jit function."""
    config.target.require_traced()
    preshuffle_kernel(tensors, m, config).launch(
        grid=config.grid(m), block=config.threads, stream=stream
    )
