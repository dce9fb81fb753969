"""The preshuffle GEMM kernel: A through LDS, B (shuffled by ``shuffle_weight``) straight to registers.

Four waves lie along N and interleave strips of 16 columns: accumulator (mi, ni) of wave w covers rows ``16 mi`` and columns
``16 (4 ni + w)``. While tile k is computed, A of tile k + 1 is on its way to the other LDS buffer and B of tile k + 1 to
registers. Two tiles are one turn of the loop, so that the LDS buffers have fixed addresses.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.index import div, mod, xcd_remap_bx_by
from ..common.memory import WORDS, Buffer
from ..common.reduce import Lds
from .config import OUT_DTYPES, SCALE_BLOCK, THREADS, WAVES, PreshuffleConfig
from .epilogue import Epilogue, TilePlace, store_tile
from .matrix import CHUNK_BYTES
from .schedule import Tally, hot_loop_schedule

__all__ = ["launch_preshuffle"]

WAVE = 64
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
        self._lane = wave * self._strip_words + lane * self._chunk_words

    def fetch(self, tile: Any) -> list[list[Any]]:
        """Start loading the fragments of k tile `tile`: ``[ni][block]``."""
        config = self._config
        soffset = tile * (config.blocks * self._block_words)
        out = []
        for ni in range(config.n_repeat):
            at = self._lane + ni * WAVES * self._strip_words
            out.append([self._buffer.load(at + b * self._block_words, self._chunk_words, soffset)
                        for b in range(config.blocks)])  # fmt: skip
        self._tally.add("vmem", config.n_repeat * config.blocks)
        return out

    def ready(self, chunk: Any) -> Any:
        return _unpack_int4(chunk) if self._config.int4 else chunk


class _BlockScales:
    """Scales of a 128-k block: sa[k/128, M] of the rows of a lane times sb[N/128, K/128] of its columns."""

    def __init__(self, scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any,
                 wave: Any, group: Any) -> None:  # fmt: skip
        self._config, self._m = config, m
        blocks = config.k // SCALE_BLOCK
        self._a = Buffer(scale_a, fx.Float32, None, fx.Int64(m) * blocks)
        self._b = Buffer(scale_b, fx.Float32, None, -(-config.n // SCALE_BLOCK) * blocks)
        self._row, self._column = row + group * 4, column + wave * 16

    def products(self, block: Any) -> list[list[Any]]:
        """``[mi][ni]``: vectors of four rows for scale block number `block`."""
        config = self._config
        rows = []
        for mi in range(config.m_repeat):
            # One by one: M need not be a multiple of four.
            at = block * self._m + self._row + mi * 16
            rows.append(fx.Vector.from_elements([self._a.load(at + i, 1)[0] for i in range(4)], fx.Float32))
        blocks = config.k // SCALE_BLOCK
        columns = []
        for ni in range(config.n_repeat):
            strip = div(self._column + ni * WAVES * 16, SCALE_BLOCK)
            columns.append(self._b.load(strip * blocks + block, 1)[0])
        return [[row * column for column in columns] for row in rows]


@flyc.kernel(known_block_size=[THREADS, 1, 1])
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
    lds = Lds().array(fx.Int32, config.stages * tile.words).ptr
    tally = Tally()
    weights = _Weights(tensors["B"], config, column, wave, lane, tally)
    scales = None
    if fx.const_expr(config.block_scale):
        scales = _BlockScales(tensors["scale_a"], tensors["scale_b"], config, m, row, column, wave, group)
    readers = [tile.reader(lds + s * tile.words, lane_row, group, op.groups) for s in fx.range_constexpr(config.stages)]
    calls = config.blocks // op.blocks
    per_scale = SCALE_BLOCK * op.element_bytes // (op.block_bytes * op.blocks)

    def fetch_a(t, stage):
        tally.add("vmem", tile.loads)
        soffset = t * (config.row_bytes // 4)
        if fx.const_expr(config.use_async):
            tile.copy_async(a, row_words, lds + stage * tile.words, thread, WAVE, soffset)
            return []
        return tile.fetch(a, row_words, thread, soffset)

    def commit_a(chunks, stage):
        if fx.const_expr(not config.use_async):
            tally.add("ds_write", tile.loads)
            tile.commit(lds + stage * tile.words, thread, chunks)

    def compute(acc, b, stage, t):
        """All products of a tile: accumulators ``[mi * n_repeat + ni]``."""
        read = readers[stage]
        out, partial = list(acc), None
        for call in fx.range_constexpr(calls):
            if config.block_scale and call % per_scale == 0:
                partial = [op.zero() for _ in out]
                factor = scales.products(t * (config.tile_k // SCALE_BLOCK) + call // per_scale)
            target = partial if config.block_scale else out
            blocks = fx.range_constexpr(call * op.blocks, (call + 1) * op.blocks)
            right = [[weights.ready(b[ni][i]) for i in blocks] for ni in fx.range_constexpr(config.n_repeat)]
            for mi in fx.range_constexpr(config.m_repeat):
                left = [read(mi, i) for i in blocks]
                tally.add("ds_read", op.blocks)
                for ni in fx.range_constexpr(config.n_repeat):
                    at = mi * config.n_repeat + ni
                    target[at] = op.multiply(left, right[ni], target[at])
                    tally.add("mfma", op.instructions)
            if config.block_scale and call % per_scale == per_scale - 1:
                for at in fx.range_constexpr(len(out)):
                    out[at] = fx.math.fma(partial[at], factor[at // config.n_repeat][at % config.n_repeat], out[at])
        return out

    def step(acc, b, t, stage):
        """Compute tile t from LDS buffer `stage` while tile t + 1 is fetched."""
        other = (stage + 1) % config.stages
        tally.reset()
        chunks = fetch_a(t + 1, other)
        following = weights.fetch(t + 1)
        acc = compute(acc, b, stage, t)
        if fx.const_expr(config.stages == 1):
            fx.barrier()
        commit_a(chunks, other)
        if fx.const_expr(config.scheduled):
            counts = tally.take()
            if fx.const_expr(not config.block_scale):
                hot_loop_schedule(counts, config.preload).emit(counts)
        if fx.const_expr(config.use_async):
            fx.rocdl.s_waitcnt(vmcnt=0)
        fx.barrier()
        return acc, following

    count = config.m_repeat * config.n_repeat
    acc = [op.zero() for _ in fx.range_constexpr(count)]
    chunks = fetch_a(fx.Int32(0), 0)
    b = weights.fetch(fx.Int32(0))
    commit_a(chunks, 0)
    if fx.const_expr(config.use_async):
        fx.rocdl.s_waitcnt(vmcnt=0)
    fx.barrier()
    turns = (config.k_tiles - 1) // 2
    if fx.const_expr(turns > 0):
        with fx.fastmath("contract"):
            flat = [*acc, *(chunk for strip in b for chunk in strip)]
            kinds = [(v.shape, v.dtype) for v in flat]
            for turn, state in range(0, turns, 1, init=flat):
                values = [fx.Vector(v, shape, dtype) for v, (shape, dtype) in zip(state, kinds, strict=True)]
                acc_in, b_in = values[:count], regroup(values[count:], config.blocks)
                t = fx.Int32(turn) * 2
                acc_in, b_in = step(acc_in, b_in, t, 0)
                acc_in, b_in = step(acc_in, b_in, t + 1, 1 % config.stages)
                results = yield [*acc_in, *(chunk for strip in b_in for chunk in strip)]
        values = [fx.Vector(v, shape, dtype) for v, (shape, dtype) in zip(results, kinds, strict=True)]
        acc, b = values[:count], regroup(values[count:], config.blocks)
    last = 2 * turns
    if fx.const_expr(last < config.k_tiles - 1):
        acc, b = step(acc, b, fx.Int32(last), 0)
        last += 1
    acc = compute(acc, b, last % 2 % config.stages, fx.Int32(last))
    epilogue = Epilogue(tensors, config.n, config.epilogue, op.element_bytes == 1 and not config.block_scale)
    place = TilePlace(m, config.n, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [column + (ni * WAVES + wave) * 16 + lane_row for ni in fx.range_constexpr(config.n_repeat)],
                      group)  # fmt: skip
    store_tile(tensors["C"], OUT_DTYPES[config.out_dtype], acc, epilogue, op, place)


def regroup(values: list[Any], size: int) -> list[list[Any]]:
    """A flat list as lists of `size`."""
    return [values[i : i + size] for i in range(0, len(values), size)]


def launch_preshuffle(tensors: dict[str, Any], m: Any, config: PreshuffleConfig, stream: Any) -> None:
    """Launch from a jit function."""
    assert CHUNK_BYTES == WORDS * 4
    preshuffle_kernel(tensors, m, config).launch(
        grid=(fx.ceildiv(m, config.tile_m), config.n // config.tile_n), block=THREADS, stream=stream
    )
