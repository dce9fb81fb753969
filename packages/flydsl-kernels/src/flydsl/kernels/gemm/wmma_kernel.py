"""GEMM of gfx1250: tensor moves fill a ring of LDS buffers; f16, bf16, and fp8 and fp4 with scales.

The weight is the first operand of the instruction, so that a lane holds eight consecutive columns of one row of C.
Fragments are read one part ahead (`mainloop`); e8m0 scales go to registers, a tile ahead. A word of scales covers 128
k of one row; the 32 lanes hold those of 32 rows, and the instruction takes one half of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..parts.epilogue import TilePlace, store_tile
from ..parts.index import cdiv, compute_mcast_masks, div, mod
from ..parts.memory import Buffer, lds_read
from ..parts.reduce import Lds
from ..parts.rows import pointer
from ..parts.sync import workgroup_barrier
from .epilogue import gemm_epilogue
from .mainloop import finish_tile, run_tile
from .matrix import CHUNK_BYTES, wmma_scaled
from .schedule import Tally, hot_loop_schedule
from .splitk import add_vector
from .tensor_tile import TensorMoves
from .wmma_config import SCALE_BLOCK, SLAB, WmmaConfig

__all__ = ["launch_wmma"]

GROUPS = 2  # of 16 lanes
SCALE_ROWS = 32  # that share a word of scales of every lane
EVERY_BYTE = 0x01010101
CLEAR_THREADS = 256


class _Scales:
    """The e8m0 scales of 16-row tiles that follow each other, from row `first` on.

    Args:
        buffer: of i32 (four scales) or i8 (one that is valid for 128 k).
        place: ``place(row)`` is the element of a row for the first 128 k.
        step: elements from there to the next 128 k.
        further: elements from a word to the next of a lane, or None where that is not always the same.
        tiles: number of tiles.
        rows: that a word of every lane covers.
    """

    def __init__(self, buffer: Buffer, place: Callable[[Any], Any], step: Any, further: int | None, first: Any,
                 tiles: int, rows: int, lane: Any) -> None:
        self._buffer, self._step, self._tiles, self._rows = buffer, step, tiles, rows
        words, start = range(cdiv(tiles * 16, rows)), first + lane
        if further is None:
            self._places = [(place(start + i * rows), 0) for i in words]
        else:  # one register for all
            at = place(start)
            self._places = [(at, i * further) for i in words]

    def fetch(self, k128: Any) -> list[Any]:
        """Start loading the scales of 128 k."""
        loaded = [self._buffer.load(at, 1, k128 * self._step + further)[0] for at, further in self._places]
        return [x if self._buffer.element is fx.Int32 else x.to(fx.Uint8).to(fx.Int32) for x in loaded]

    def of(self, words: list[Any]) -> list[tuple[Any, int]]:
        """(word, half of the lanes) of each tile."""
        words = words if self._buffer.element is fx.Int32 else [w * EVERY_BYTE for w in words]
        return [(words[i * 16 // self._rows], i % 2) for i in range(self._tiles)]


def _scales_of(tensors: dict[str, Any], config: WmmaConfig, m: Any, row: Any, column: Any,
               lane: Any) -> tuple[_Scales, ...]:
    """Of the rows and columns of a wave, if the instruction takes scales."""
    a_rows, b_rows = config.scale_rows
    if config.scales == "mx":
        group = config.k // 4  # words of 32 rows

        def side(name: str, size: Any, first: Any, tiles: int) -> _Scales:
            words = div(size + (SCALE_ROWS - 1), SCALE_ROWS) * group
            return _Scales(Buffer(tensors[name], fx.Int32, None, words),
                           lambda row: div(row, SCALE_ROWS) * group + mod(row, SCALE_ROWS), SCALE_ROWS, group, first,
                           tiles, SCALE_ROWS, lane)

        return side("scale_a", m, row, config.m_repeat), side("scale_b", config.n, column, config.n_repeat)
    if config.scales == "block":
        blocks = config.k // SCALE_BLOCK
        stride = config.scale_stride or m
        a = Buffer(tensors["scale_a"], fx.Int8, None, stride * (blocks - 1) + m)
        b = Buffer(tensors["scale_b"], fx.Int8, None, cdiv(config.n, SCALE_BLOCK) * blocks)
        return (_Scales(a, lambda x: x, stride, a_rows, row, config.m_repeat, a_rows, lane),
                _Scales(b, lambda x: div(x, SCALE_BLOCK) * blocks, 1, blocks if b_rows == SCALE_BLOCK else None,
                        column, config.n_repeat, b_rows, lane))
    return ()


@flyc.kernel
def wmma_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C, or with split_k adds its share of the reduction to it."""
    a_tile, b_tile, op = config.a_tile, config.b_tile, config.op
    kind_a, kind_b = config.kinds
    lane, wave = mod(fx.thread_idx.x, config.target.wave), fx.Int32(fx.rocdl.wave_id())
    group, lane_row = div(lane, 16), mod(lane, 16)
    wave_n, wave_m = mod(wave, config.n_waves), div(wave, config.n_waves)
    row, column = fx.block_idx.x * config.tile_m, fx.block_idx.y * config.tile_n
    m_tiles, n_tiles = config.m_repeat, config.n_repeat
    wave_row, wave_column = wave_m * (m_tiles * 16), wave_n * (n_tiles * 16)
    ring = Lds().array(fx.Int32, config.lds_bytes // 4).ptr
    # A row of B's tile in memory and in LDS: of B, or a slab of them.
    slab = SLAB if config.shuffled else 1
    b_rows, b_bytes = 16 // slab, GROUPS * CHUNK_BYTES * slab
    masks = (0, 0)
    if fx.const_expr(config.clustered):
        masks = compute_mcast_masks(fx.Int32(fx.rocdl.cluster_workgroup_id_x()),
                                    fx.Int32(fx.rocdl.cluster_workgroup_id_y()), config.cluster_m,
                                    config.cluster_n)
    a_move = a_tile.descriptor(pointer(tensors["a"], fx.Int32), row, m, config.a_row_bytes, ring, masks[0])
    b_move = b_tile.descriptor(pointer(tensors["b"], fx.Int32), div(column, slab), config.n // slab,
                               config.b_row_bytes, ring + a_tile.bytes // 4, masks[1])
    moves = TensorMoves((a_move, b_move), (a_tile.row_bytes, b_tile.row_bytes), config.stage_bytes,
                        config.m_waves * config.n_waves, wave)
    scales = _scales_of(tensors, config, m, row + wave_row, column + wave_column, lane)
    tally = Tally()
    total, (size, early_b) = config.tiles, config.plan
    begin = fx.block_idx.z * total if config.split_k > 1 else fx.Int32(0)
    groups = m_tiles // size
    parts = config.steps * groups
    a_lane = div((wave_row + lane_row) * a_tile.pitch + group * CHUNK_BYTES, 4)
    b_lane = lane * CHUNK_BYTES if config.shuffled else lane_row * b_tile.pitch + group * CHUNK_BYTES
    b_lane = div(wave_n * (n_tiles * b_rows * b_tile.pitch) + a_tile.bytes + b_lane, 4)
    chunk_pairs = [kind.step_bytes // (GROUPS * CHUNK_BYTES) for kind in (kind_a, kind_b)]
    b_reads = n_tiles * chunk_pairs[1]
    preload = (0 if early_b else b_reads, 0)  # what the first products of a step wait for

    def stage(t):
        return ring + mod(t, config.stages) * (config.stage_bytes // 4)

    def b_reader(t):
        """``read(step)``: fragments of B."""
        base = stage(t) + b_lane

        def read(step):
            right = []
            for ni in fx.range_constexpr(n_tiles):
                at = [b_tile.at(ni * b_rows, step * kind_b.step_bytes * slab + j * b_bytes)
                      for j in fx.range_constexpr(chunk_pairs[1])]
                right.append([lds_read(base, x // 4) for x in at])
            tally.add("ds_read", b_reads)
            return right

        return read

    def reader(t):
        """``read(part)`` of tile t: rows of A, and with `early_b` the fragments of B before a step's first products."""
        base, read_b = stage(t) + a_lane, b_reader(t)

        def read(part):
            step, first = part // groups, part % groups * size
            left = []
            for i in fx.range_constexpr(size):
                at = [a_tile.at((first + i) * 16, step * kind_a.step_bytes + j * (GROUPS * CHUNK_BYTES))
                      for j in fx.range_constexpr(chunk_pairs[0])]
                left.append([lds_read(base, x // 4) for x in at])
            tally.add("ds_read", size * chunk_pairs[0])
            return left, read_b(step) if early_b and first == 0 else []

        return read

    def fetch_scales(t):
        """Start loading the words of a tile, by step and side."""
        tally.add("vmem", config.scale_words)
        k128 = (begin + t) * config.steps
        return [[side.fetch(k128 + s) for side in scales] for s in fx.range_constexpr(config.steps)]

    def multiplier(t, words):
        read_b = b_reader(t)
        factors = [[side.of(w) for side, w in zip(scales, step, strict=True)] for step in words]

        def multiply(state, part, fragments):
            out, right = list(state[0]), fragments[1] or state[1]
            step, first = part // groups, part % groups * size
            if fx.const_expr(first == 0 and not early_b):
                right = read_b(step)
            for i in fx.range_constexpr(size):
                for ni in fx.range_constexpr(n_tiles):
                    at = (first + i) * n_tiles + ni
                    if fx.const_expr(not scales):
                        out[at] = op.multiply(right[ni], fragments[0][i], out[at])
                    else:
                        (word_a, half_a), (word_b, half_b) = factors[step][0][first + i], factors[step][1][ni]
                        out[at] = wmma_scaled(right[ni], fragments[0][i], out[at], (config.b_dtype, config.a_dtype),
                                              (word_b, word_a), (half_b, half_a))
            tally.add("mfma", size * n_tiles)
            if fx.const_expr((part % groups == groups - 1 or not early_b) and part + 1 < parts):
                # In an order of its own: what is read too far ahead would not fit the registers.
                counts = tally.take()
                hot_loop_schedule(counts, preload if first == 0 else (0, 0)).emit(counts)
                fx.rocdl.sched_barrier(0)
            return out, right

        return multiply

    def turn_of(t, later, more):
        """Make tile t + 1 readable, of which only the last `later` moves were issued afterwards; then its buffer is
        free for tile t + stages."""
        def turn(hints):
            hints()
            moves.fence(later, config.clustered)
            if fx.const_expr(more):
                moves.issue(begin + t + config.stages, mod(t, config.stages))
            return lambda: reader(t + 1)(0)

        return turn

    def step(acc, words, first, t, later, more):
        """Multiply tile t while the scales of the next one are loaded."""
        tally.reset()
        following = fetch_scales(t + 1)
        state, first = run_tile((acc, []), first, parts, reader(t), multiplier(t, words), turn_of(t, later, more),
                                tally, True)
        return state[0], following, first

    acc = [op.zero() for _ in fx.range_constexpr(m_tiles * n_tiles)]
    begun = min(config.stages, total)
    if fx.const_expr(config.clustered):
        workgroup_barrier(True)  # all are there
    for t in fx.range_constexpr(begun):
        moves.issue(begin + t, fx.Int32(t))
    words = fetch_scales(fx.Int32(0))
    moves.fence(begun - 1, config.clustered)
    first = reader(fx.Int32(0))(0)
    turns = max(total - config.stages, 0)
    if fx.const_expr(turns > 0):
        flat, rebuild = flatten(acc, words, first)
        for t, state in range(0, turns, 1, init=flat):  # type: ignore[call-overload]
            acc_in, words_in, first_in = rebuild(state)
            acc_in, words_in, first_in = step(acc_in, words_in, first_in, fx.Int32(t), config.stages - 2, True)
            results = yield flatten(acc_in, words_in, first_in)[0]
        acc, words, first = rebuild(results)
    for t in fx.range_constexpr(turns, total - 1):
        acc, words, first = step(acc, words, first, fx.Int32(t), total - 2 - t, False)
    tally.reset()
    last = fx.Int32(total - 1)
    acc, _ = finish_tile((acc, []), first, parts, reader(last), multiplier(last, words))
    columns = [column + wave_column + (ni * 16 + group * op.acc_len) for ni in fx.range_constexpr(n_tiles)]
    rows = fx.min(m - row, config.tile_m)
    if fx.const_expr(config.clustered):  # there may be workgroups past the last row
        rows = (row < m).select(rows, 0)
    place = TilePlace(m, config.c_row, row, rows, [], columns, group, op.acc_len,
                      row_of=lambda mi: wave_row + mi * 16 + lane_row)
    epilogue = gemm_epilogue(tensors, m, config.n, "none", config.scales == "rows")
    store_tile(tensors["c"], FLOATS[config.out_dtype], acc, epilogue, place,
               Buffer.store if config.split_k == 1 else add_vector)


def flatten(acc: list[Any], words: list[list[list[Any]]], first: tuple[list[Any], list[Any]]) -> tuple[list[Any], Any]:
    """The loop's state as one list, and the function that takes such a list apart again."""
    fragments = [x for side in first for x in side]
    vectors = [*acc, *(v for fragment in fragments for v in fragment)]
    kinds = [(v.shape, v.dtype) for v in vectors]
    scalars = [word for step in words for side in step for word in side]

    def rebuild(state: Any) -> tuple[Any, ...]:
        values = iter([fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=False)])
        left = iter([fx.Int32(w) for w in list(state)[len(vectors) :]])
        sums = [next(values) for _ in acc]
        taken = [[[next(values) for _ in fragment] for fragment in side] for side in first]
        return sums, [[[next(left) for _ in side] for side in step] for step in words], (taken[0], taken[1])

    return [*vectors, *scalars], rebuild


@flyc.kernel
def clear_kernel(tensors, config: fx.Constexpr):
    """Write zero to a part of a row of C."""
    element = FLOATS[config.out_dtype]
    count = CHUNK_BYTES * 8 // element.width
    c = Buffer(tensors["c"], element, fx.Int64(fx.block_idx.x) * config.c_row, config.n)
    c.store((fx.block_idx.y * CLEAR_THREADS + fx.thread_idx.x) * count, fx.full(count, 0.0, element))


def launch_wmma(tensors: dict[str, Any], m: Any, config: WmmaConfig, stream: Any) -> None:
    """Launch from a jit function: ``c``, ``a``, ``b``, ``scale_a`` and ``scale_b``."""
    config.target.require_traced()
    if config.split_k > 1:
        chunks = config.n * FLOATS[config.out_dtype].width // (CHUNK_BYTES * 8)
        clear_kernel(tensors, config).launch(grid=(m, cdiv(chunks, CLEAR_THREADS)), block=CLEAR_THREADS, stream=stream)
    cluster = (config.cluster_m, config.cluster_n, 1)
    attributes = {"rocdl.cluster_dims": ",".join(map(str, cluster))} if config.clustered else None
    wmma_kernel(tensors, m, config, value_attrs=attributes).launch(
        grid=config.grid(m), block=config.threads, stream=stream,
        cluster=cluster if config.clustered else None)
