"""The preshuffle GEMM kernel: A through LDS, B (shuffled by ``shuffle_weight``) straight to registers.

Four or eight waves lie along N and interleave strips of 16 columns: accumulator (mi, ni) of wave w covers rows
``16 mi`` and columns ``16 (waves ni + w)``. While tile t is computed, B of tile t + 1 is on its way to registers, A of
tile t + 1 goes from registers to the other LDS buffer, and A of tile t + 2 is on its way to registers; with direct
copies, A of tile t + 1 is on its way to the other buffer. Two tiles are one turn of the loop: the LDS buffers have
fixed addresses.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.index import div, mod, xcd_remap_bx_by
from ..common.memory import WORDS, Buffer
from ..common.reduce import Lds
from .config import OUT_DTYPES, SCALE_BLOCK, PreshuffleConfig
from .cshuffle import shuffle_tile
from .epilogue import Epilogue, TilePlace, store_tile
from .mainloop import finish_tile, part_rows, run_tile
from .schedule import Tally

__all__ = ["launch_preshuffle"]

WAVE = 64
OPEN_SUMS = 2  # partial sums of block scales whose matrix instructions may be in flight
MAX_WAIT = 63  # of the counter of vector memory operations
EVEN, ODD, SIGN = 0x0F0F0F0F, 0x08080808, 0x1E


def _unpack_int4(pair: Any) -> Any:
    """Two dwords of int4 (byte j: values j and j + 4 of eight) as a chunk of sixteen int8."""
    words = []
    for i in range(2):
        for p in (pair[i], fx.arith.shrui(pair[i], 4)):
            words.append((p & EVEN) | ((p & ODD) * SIGN))
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

    def fetch(self, tile: Any) -> list[list[Any]]:
        """Start loading the fragments of k tile `tile`: ``[ni][block]``."""
        config = self._config
        soffset = tile * (config.blocks * self._block_words)
        out = []
        for ni in range(config.n_repeat):
            at = self._lane + config.strip(self._wave, ni) * self._strip_words
            out.append([self._buffer.load(at + b * self._block_words, self._chunk_words, soffset)
                        for b in range(config.blocks)])  # fmt: skip
        self._tally.add("vmem", config.n_repeat * config.blocks)
        return out

    def ready(self, chunk: Any) -> Any:
        return _unpack_int4(chunk) if self._config.int4 else chunk


class _BlockScales:
    """Scales of a 128-k block: sa[k/128, M] of the rows of a lane and sb[N/128, K/128] of its columns.

    The matrix instruction gets B first, so that a lane holds four columns of one row: one scale of A for each.
    """

    def __init__(self, scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any,
                 wave: Any, lane_row: Any, tally: Tally) -> None:  # fmt: skip
        self._config, self._m, self._tally = config, m, tally
        self._blocks = config.k // SCALE_BLOCK
        self._per_tile = config.tile_k // SCALE_BLOCK
        self._a = Buffer(scale_a, fx.Float32, None, fx.Int64(m) * self._blocks)
        self._b = Buffer(scale_b, fx.Float32, None, -(-config.n // SCALE_BLOCK) * self._blocks)
        self._row, self._column, self._wave = row + config.tile_row(0, lane_row), column, wave

    @property
    def _strips(self) -> list[int]:
        """The first of a wave's column strips in each group of strips that surely share 128 columns."""
        count = self._config.n_repeat
        together = math.gcd(self._config.tile_n, SCALE_BLOCK) % (16 * count) == 0
        return [0] if together else list(range(count))

    @property
    def _a_loads(self) -> int:
        """Loads of the rows' scales of a block."""
        return self._config.m_repeat // self._config.apart

    @property
    def loads(self) -> int:
        """Loads of a tile."""
        return self._per_tile * (self._a_loads + len(self._strips))

    def fetch(self, tile: Any) -> list[Any]:
        """Start loading the scales of k tile `tile`: for each block the rows', then the columns'."""
        config, out = self._config, []
        for i in range(self._per_tile):
            block = tile * self._per_tile + i
            # Dwords may be fetched four at a time at any dword: M need not be a multiple of four.
            out += [self._a.load(self._row + config.tile_row(mi, 0), config.apart, block * self._m)
                    for mi in range(0, config.m_repeat, config.apart)]  # fmt: skip
            for ni in self._strips:
                strip = div(self._column + config.strip(self._wave, ni) * 16, SCALE_BLOCK)
                out.append(self._b.load(strip * self._blocks, 1, block))
        self._tally.add("vmem", len(out))
        return out

    def of(self, values: list[Any], block: int, mi: int, known: dict[Any, Any]) -> list[Any]:
        """For each column strip a row's factor, for block `block` of the tile. `known` keeps what was computed."""
        strips, (index, inside) = self._strips, divmod(mi, self._config.apart)
        first, out = block * (self._a_loads + len(strips)), []
        for j, strip in enumerate(strips):
            key = block, mi, strip
            if key not in known:
                self._tally.add("valu", 1)
                known[key] = values[first + index][inside] * values[first + self._a_loads + j][0]
            out += [known[key]] * (self._config.n_repeat // len(strips))
        return out


def settle(tally: Tally, total: list[Any], waiting: list[tuple[int, Any, Any]], most: int) -> None:
    """Add the oldest of the complete partial sums (place, sum, factor) to `total`, until at most `most` are left."""
    while len(waiting) > most:
        at, value, factor = waiting.pop(0)
        tally.add("valu", 2)  # packed
        total[at] = fx.math.fma(value, fx.full(value.numel, factor, fx.Float32), total[at])


@flyc.kernel
def preshuffle_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C."""
    op, tile = config.op, config.a_tile
    thread = fx.thread_idx.x
    lane, wave = mod(thread, WAVE), div(thread, WAVE)
    group, lane_row = div(lane, 16), mod(lane, 16)
    bx, by = xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, m, tile_m=config.tile_m, tile_n=config.tile_n,
                             N=config.n, xcd_swizzle=config.xcd_swizzle)  # fmt: skip
    row, column = bx * config.tile_m, by * config.tile_n
    rows = fx.min(m - row, config.tile_m)
    row_words = config.k * op.element_bytes // 4
    a = Buffer(tensors["A"], fx.Int32, fx.Int64(row) * row_words, rows * row_words)
    memory = Lds()
    # An array for each stage: what is copied to one stage then cannot alias reads of another, and needs no waits.
    stages = [memory.array(fx.Int32, config.stage_bytes(s) // 4).ptr for s in fx.range_constexpr(config.stages)]
    tally = Tally()
    weights = _Weights(tensors["B"], config, column, wave, lane, tally)
    scales = None
    if fx.const_expr(config.block_scale):
        scales = _BlockScales(tensors["scale_a"], tensors["scale_b"], config, m, row, column, wave, lane_row, tally)
    readers = [tile.reader(stage, lane_row, group, op.groups) for stage in stages]
    calls, size = config.blocks // op.blocks, part_rows(config.m_repeat)
    groups = config.m_repeat // size
    parts = calls * groups
    per_scale = SCALE_BLOCK * op.element_bytes // (op.block_bytes * op.blocks)

    def fetch_a(t):
        """Start loading tile t of A into registers."""
        tally.add("vmem", tile.loads)
        return tile.fetch(a, row_words, thread, t * (config.row_bytes // 4))

    def commit_a(chunks, stage):
        tally.add("ds_write", tile.loads)
        tile.commit(stages[stage], thread, chunks)

    def a_place(row_, chunk):
        return row_ * row_words + chunk * WORDS

    def copy_a(t, stage):
        """Start copying tile t of A to LDS."""
        tally.add("vmem", tile.loads)
        tile.copy_async(a, a_place, stages[stage], thread, WAVE, t * (config.row_bytes // 4))

    def side_of(t):
        """What a tile needs besides A: B fragments, and scales."""
        strips = weights.fetch(t)
        return strips, scales.fetch(t) if config.block_scale else []

    def reader(stage):
        def read(part):
            call, first = part_of(part)
            blocks = fx.range_constexpr(call * op.blocks, (call + 1) * op.blocks)
            tally.add("ds_read", size * op.blocks)
            return [[readers[stage](first + i, b) for b in blocks] for i in fx.range_constexpr(size)]

        return read

    def part_of(part):
        """(call, first row tile) of a part. With block scales the calls of a scale block are inner, so that few partial
        sums are open at a time."""
        if fx.const_expr(not config.block_scale):
            return part // groups, part % groups * size
        outer, inner = part // per_scale, part % per_scale
        return outer // groups * per_scale + inner, outer % groups * size

    def multiplier(strips, factors):
        """``multiply((acc, sums, waiting), part, fragments)``: with block scales, `sums` are partial sums of the open
        scale block and `waiting` complete ones, which are added to acc a few matrix instructions later."""
        known: dict = {}

        def multiply(state, part, fragments):
            total, sums, waiting = list(state[0]), dict(state[1]), list(state[2])
            call, first = part_of(part)
            blocks = fx.range_constexpr(call * op.blocks, (call + 1) * op.blocks)
            right = [[weights.ready(strips[ni][b]) for b in blocks] for ni in fx.range_constexpr(config.n_repeat)]
            if fx.const_expr(not config.block_scale):
                places = [(i, ni) for i in fx.range_constexpr(size) for ni in fx.range_constexpr(config.n_repeat)]
                start = first * config.n_repeat
                products = [(fragments[i], right[ni], total[start + i * config.n_repeat + ni]) for i, ni in places]
                total[start : start + len(places)] = op.multiply_all(products)
            for i in fx.range_constexpr(size if config.block_scale else 0):
                for ni in fx.range_constexpr(config.n_repeat):
                    at = (first + i) * config.n_repeat + ni
                    value = op.multiply(right[ni], fragments[i], sums.pop(at, op.zero()))
                    if fx.const_expr(call % per_scale < per_scale - 1):
                        sums[at] = value
                        continue
                    settle(tally, total, waiting, OPEN_SUMS - 1)
                    waiting.append((at, value, scales.of(factors, call // per_scale, first + i, known)[ni]))
            if fx.const_expr(part == parts - 1):
                settle(tally, total, waiting, 0)
            tally.add("mfma", size * config.n_repeat * op.instructions)
            return total, sums, waiting

        return multiply

    side_loads = config.n_repeat * config.blocks + (scales.loads if scales is not None else 0)

    def step(acc, side, pending, first, t, stage, more=True):
        """Multiply tile t from LDS buffer `stage`. B of tile t + 1 is fetched, and A of tile t + 2 if there is `more`;
        without direct copies, `pending` is A of tile t + 1."""
        other = (stage + 1) % config.stages
        tally.reset()
        following = side_of(t + 1)
        later = fetch_a(t + 2) if more and not config.use_async else []

        def turn(hints):
            if fx.const_expr(not config.use_async):
                if fx.const_expr(config.stages == 1):
                    fx.barrier()
                commit_a(pending, other)
                hints()
                fx.barrier()
            elif fx.const_expr(config.stages == 1):
                hints()
                fx.barrier()
                copy_a(t + 1, 0)
                fx.rocdl.s_waitcnt(vmcnt=0)
                fx.barrier()
            else:
                # The copies of tile t + 1 are older than this tile's loads, which need not be complete.
                hints()
                fx.rocdl.s_waitcnt(vmcnt=min(side_loads, MAX_WAIT))
                fx.barrier()
                if fx.const_expr(more):
                    copy_a(t + 2, stage)
            return lambda: reader(other)(0)

        state, first = run_tile((acc, {}, []), first, parts, reader(stage), multiplier(*side), turn, tally,
                                config.scheduled, config.preload, early_writes=True)  # fmt: skip
        return state[0], following, later, first

    def flat(acc, side, pending, first):
        strips, parts_ = (v for strip in side[0] for v in strip), (v for row_ in first for v in row_)
        return [*acc, *strips, *pending, *side[1], *parts_]

    def unflat(state, kinds, held):
        values = [fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=True)]
        acc, values = values[:count], values[count:]
        strips, values = values[: config.n_repeat * config.blocks], values[config.n_repeat * config.blocks :]
        pending, values = values[:held], values[held:]
        factors, values = values[: len(values) - size * op.blocks], values[len(values) - size * op.blocks :]
        return acc, (regroup(strips, config.blocks), factors), pending, regroup(values, op.blocks)

    count = config.m_repeat * config.n_repeat
    acc = [op.zero() for _ in fx.range_constexpr(count)]
    total, ahead = config.k_tiles, config.stages == 2 or not config.use_async
    pending = []
    if fx.const_expr(config.use_async):
        copy_a(fx.Int32(0), 0)
        fx.rocdl.sched_barrier(0)
        if fx.const_expr(ahead and total > 1):
            copy_a(fx.Int32(1), 1)
        fx.rocdl.sched_barrier(0)
        side = side_of(fx.Int32(0))
        fx.rocdl.s_waitcnt(vmcnt=min(side_loads + (tile.loads if ahead and total > 1 else 0), MAX_WAIT))
    else:
        chunks = fetch_a(fx.Int32(0))
        side = side_of(fx.Int32(0))
        if fx.const_expr(total > 1):
            pending = fetch_a(fx.Int32(1))
        commit_a(chunks, 0)
    fx.barrier()
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
                        acc_in, side_in, pending_in, first_in, fx.Int32(turn) * 2 + half, half % config.stages)
                results = yield flat(acc_in, side_in, pending_in, first_in)
            acc, side, pending, first = unflat(results, kinds, len(pending))
        for t in fx.range_constexpr(2 * turns, total - 1):
            acc, side, pending, first = step(acc, side, pending, first, fx.Int32(t), t % config.stages, t + 2 < total)
        acc = finish_tile((acc, {}, []), first, parts, reader((total - 1) % config.stages), multiplier(*side))[0]
    epilogue = Epilogue(tensors, config.n, config.epilogue, op.element_bytes == 1 and not config.block_scale)

    def row_of(mi):
        return config.tile_row(mi, lane_row)

    strips = [column + config.strip(wave, ni) * 16 for ni in fx.range_constexpr(config.n_repeat)]
    place = TilePlace(m, config.n, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [strip + (group * 4 if config.block_scale else lane_row) for strip in strips],
                      group, row_of=row_of if config.block_scale else None)  # fmt: skip
    element = OUT_DTYPES[config.out_dtype]
    if fx.const_expr(config.cshuffle):
        shuffle_tile(tensors["C"], element, acc, epilogue, op, place, stages[0], config.shuffle, column, 0)
    else:
        store_tile(tensors["C"], element, acc, epilogue, op, place)


def regroup(values: list[Any], size: int) -> list[list[Any]]:
    """A flat list as lists of `size`."""
    return [values[i : i + size] for i in range(0, len(values), size)]


def launch_preshuffle(tensors: dict[str, Any], m: Any, config: PreshuffleConfig, stream: Any) -> None:
    """Launch from a jit function."""
    preshuffle_kernel(tensors, m, config).launch(
        grid=(fx.ceildiv(m, config.tile_m), config.n // config.tile_n), block=config.threads, stream=stream
    )
