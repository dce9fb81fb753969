"""GEMM of microscaled operands (fp4, fp6, fp8 with one e8m0 scale per 32 k) by the scaled MFMA of gfx950.

A goes through LDS, B (shuffled) and the scale words straight to registers. One scale word of a lane covers 32 rows
and 256 k: byte ``2 * khalf + rowhalf`` belongs to 16 rows and 128 k, and the instruction's selector takes it.

While tile t is multiplied, B of tile t + 1 is on its way to registers, A of a later tile goes from registers to LDS
and A of the one after that is on its way to registers. Where a tile has 128 k and LDS has room, there is a barrier
every other tile. The turn of the loop is as many tiles as it takes for all that is held to be in its first place again:
nothing is copied between registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..parts.epilogue import Epilogue, TilePlace, store_tile
from ..parts.index import cdiv, div, mod, xcd_remap_bx_by
from ..parts.memory import WORDS, Buffer
from ..parts.reduce import Lds
from ..parts.rows import pointer
from .config import OUT_DTYPES, WAVES
from .mainloop import finish_tile, part_rows, run_tile
from .matrix import CHUNK_BYTES
from .mx_operand import FORMATS, LANE_GROUPS, HalvesTile, MxFormat, Scales
from .schedule import Tally, hot_loop_schedule
from .tiles import RowTile

__all__ = ["MxConfig", "launch_mx"]

WAVE = 64
K_STEP = 128       # k of one instruction
ACC_LEN = 4        # rows of a lane in an accumulator
SCALE_K = 256      # k of one scale word
LARGE_WAVE = 128 * 64  # elements of C of a wave whose matrix instructions hide everything else


@dataclass(frozen=True)
class MxConfig(KernelConfig):
    """Static arguments; strides in elements of the storage (bytes of A and scales, elements of C)."""

    n: int
    k: int
    tile_m: int
    tile_n: int
    tile_k: int
    a_dtype: str
    b_dtype: str
    out_dtype: str
    batch: int = 1
    a_row: int = -1
    a_batch: int = -1
    scale_row: int = -1
    scale_batch: int = -1
    c_row: int = -1
    c_batch: int = -1
    xcd_swizzle: int = 0

    def grid(self, m: Any) -> tuple[Any, ...]:
        return fx.ceildiv(m, self.tile_m), self.n // self.tile_n, self.batch

    @property
    def lds_bytes(self) -> int:
        """Two buffers of the tiles of A that go together."""
        return 2 * self.together * self.a_tile.words * 4

    @property
    def a(self) -> MxFormat:
        return FORMATS[self.a_dtype]

    @property
    def b(self) -> MxFormat:
        return FORMATS[self.b_dtype]

    @property
    def steps(self) -> int:
        return self.tile_k // K_STEP

    @property
    def waves(self) -> int:
        """Along N: eight, two on a SIMD, if the tile is large enough. The instruction takes twice as long where an
        operand is fp8."""
        large = LARGE_WAVE // 2 if "fp8" in (self.a_dtype, self.b_dtype) else LARGE_WAVE
        enough = self.tile_m * self.tile_n >= 2 * WAVES * large and self.tile_n % (32 * WAVES) == 0
        unit = 2 * WAVES * WAVE * CHUNK_BYTES
        return 2 * WAVES if enough and self.tile_m * self.tile_k_bytes % unit == 0 else WAVES

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return self.waves * WAVE

    @property
    def tile_k_bytes(self) -> int:
        """Of a row of a tile of A."""
        return self.steps * self.a.step_bytes

    @property
    def a_tile(self) -> RowTile:
        tile = RowTile(self.tile_m, self.tile_k_bytes, self.threads, 256)
        if self.a_dtype != "fp6":
            return tile
        gap = WORDS if 2 * (tile.bytes + self.tile_m) <= self.target.lds_bytes else 0
        return HalvesTile(tile.rows, tile.row_bytes, tile.threads, tile.bank_bytes, gap)

    @property
    def together(self) -> int:
        """Tiles from a barrier to the next: those of 256 k where LDS has room."""
        tiles = SCALE_K // self.tile_k
        return tiles if 2 * tiles * self.a_tile.words * 4 <= self.target.lds_bytes else 1

    @property
    def m_repeat(self) -> int:
        return self.tile_m // 16

    @property
    def n_repeat(self) -> int:
        return self.tile_n // (16 * self.waves)

    @property
    def a_row_bytes(self) -> int:
        return self.k // K_STEP * self.a.step_bytes if self.a_row < 0 else self.a_row

    @property
    def b_row_bytes(self) -> int:
        return self.k // K_STEP * self.b.step_bytes

    @property
    def scale_columns(self) -> int:
        """Padded scales of a row."""
        return -(-(self.k // 32) // 8) * 8 if self.scale_row < 0 else self.scale_row

    @property
    def c_row_elements(self) -> int:
        return self.n if self.c_row < 0 else self.c_row


@flyc.kernel
def mx_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C of one batch entry."""
    tile, kind_a, kind_b = config.a_tile, config.a, config.b
    thread, batch = fx.thread_idx.x, fx.block_idx.z
    # In a scalar register, and with it all that the lanes of a wave share.
    lane, wave = mod(thread, WAVE), fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, div(thread, WAVE)))
    group, lane_row = div(lane, 16), mod(lane, 16)
    bx, by = xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, m, tile_m=config.tile_m, tile_n=config.tile_n,
                             N=config.n, xcd_swizzle=config.xcd_swizzle)
    row, column = bx * config.tile_m, by * config.tile_n
    rows = fx.min(m - row, config.tile_m)
    stride = config.a_row_bytes // 4
    a_batch = fx.Int64(m) * stride if config.a_batch < 0 else fx.Int64(config.a_batch // 4)
    a_start = fx.Int64(batch) * a_batch + fx.Int64(row) * stride
    a = Buffer(tensors["a"], fx.Int32, a_start, rows * stride)
    columns = config.scale_columns
    padded_rows = div(m + 255, 256) * 256
    sa_batch = fx.Int64(padded_rows) * columns if config.scale_batch < 0 else fx.Int64(config.scale_batch)
    sa = pointer(tensors["scale_a"], fx.Int32) + (fx.Int64(batch) * sa_batch >> 2)
    wave_column = column + wave * (config.n_repeat * 16)
    scale_a = Scales(sa, columns, m, row, config.m_repeat, config.tile_m % 32 == 0, lane)
    b_columns = -(-(config.k // 32) // 8) * 8
    sb = pointer(tensors["scale_b"], fx.Int32) + fx.Int64(batch) * (config.n * b_columns // 4)
    scale_b = Scales(sb, b_columns, config.n, wave_column, config.n_repeat, config.n_repeat % 2 == 0, lane)
    strip_words = config.b_row_bytes * 4  # 16 columns
    b_start = fx.Int64(batch) * (config.n * config.b_row_bytes // 4) + fx.Int64(column) * (strip_words // 16)
    b = Buffer(tensors["b"], fx.Int32, b_start, config.tile_n // 16 * strip_words)
    together = config.together
    memory = Lds()
    # Arrays of their own: what is written to one does not order reads of another.
    stages = [memory.array(fx.Int32, tile.words).ptr for _ in fx.range_constexpr(2 * together)]
    tally = Tally()
    ahead = together + 1  # tiles from one to that whose A is fetched with it
    halves = SCALE_K // config.tile_k  # tiles that share scale words
    per_turn = 2 * halves  # of what is loaded while its predecessor is in use there are two
    step_blocks = kind_b.step_bytes // 64
    tile_words = config.steps * step_blocks * WAVE * WORDS
    size = part_rows(config.m_repeat)
    groups = config.m_repeat // size
    parts = config.steps * groups
    # Within a part. Columns if these are many, since the last of B arrives late; else rows, as the second of A does.
    by_columns = config.n_repeat > size

    def fetch_a(t, more=0):
        """Start loading A of tile ``t + more``; what is `more` costs no instruction."""
        def place(row_, chunk):
            return row_ * stride + kind_a.place(chunk) + t * (tile.row_bytes // 4) + more * (tile.row_bytes // 4)

        tally.add("vmem", tile.loads)
        return tile.fetch_from(a, place, thread, 0)

    def fetch_b(t, more=0, scales=True):
        """Start loading the strips of B of tile ``t + more``, and if `scales` the words of its 256 k: between the
        strips, since they take less of the memory pipeline, or after them if all strips are needed at once."""
        todo = [(side, i) for side in (0, 1) for i in fx.range_constexpr((scale_a, scale_b)[side].loads) if scales]
        tally.add("vmem", config.n_repeat * config.steps * step_blocks + len(todo))
        strips, words = [], ([], [])
        for ni in fx.range_constexpr(config.n_repeat):
            # From the tile after t, so that what is added fits the instruction.
            at = lane * WORDS + (t + 1) * tile_words + (more - 1) * tile_words
            strip = (wave * config.n_repeat + ni) * strip_words
            strips.append([b.load(at + i * (WAVE * WORDS), WORDS, strip)
                           for i in fx.range_constexpr(config.steps * step_blocks)])
            share = cdiv(len(todo), config.n_repeat - ni) if by_columns or ni == config.n_repeat - 1 else 0
            for side, i in todo[:share]:
                k256 = div(t * config.tile_k, SCALE_K)
                words[side].append((scale_a, scale_b)[side].fetch(i, k256, more // halves))
            todo = todo[share:]
        return strips, words

    readers = [tile.reader(stage, lane_row, group, LANE_GROUPS) for stage in stages]

    def reader(stage):
        def read(part):
            step, first = part // groups, part % groups * size
            blocks = fx.range_constexpr(step * kind_a.chunks, (step + 1) * kind_a.chunks)
            tally.add("ds_read", size * kind_a.chunks)
            return [[readers[stage](first + i, x) for x in blocks] for i in fx.range_constexpr(size)]

        return read

    def multiplier(strips, words, parity):
        """``multiply(acc, part, fragments)``; `parity` says which half of 256 k a tile of 128 is."""
        factors = [(scale_a.of(words[0], x), scale_b.of(words[1], x)) for x in ([parity] if halves == 2 else [0, 1])]

        def multiply(acc, part, fragments):
            out, step, first = list(acc), part // groups, part % groups * size
            rows_, columns_ = factors[step]
            blocks = slice(step * step_blocks, (step + 1) * step_blocks)
            right = [kind_b.operand(strip[blocks]) for strip in strips]
            left = [kind_a.operand(fragment) for fragment in fragments]
            places = [(i, ni) for ni in fx.range_constexpr(config.n_repeat) for i in fx.range_constexpr(size)]
            if fx.const_expr(not by_columns):
                places = sorted(places)
            for i, ni in places:
                at = (first + i) * config.n_repeat + ni
                (word_a, byte_a), (word_b, byte_b) = rows_[first + i], columns_[ni]
                result = fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(
                    fx.T.f32x4, [left[i], right[ni], out[at], kind_a.code, kind_b.code, byte_a, word_a, byte_b,
                                 word_b])
                out[at] = fx.Vector(result, (4,), fx.Float32)
            tally.add("mfma", size * config.n_repeat)
            return out

        return multiply

    def step(acc, strips, words, pending, first, start, number, more=True):
        """Multiply tile ``t = start + number``. B of tile t + 1, scales if other ones begin with it, and A of tile
        ``t + ahead`` if there is `more` are fetched; `pending` is A of the tile before that."""
        stage, fresh = number % len(stages), (number + 1) % halves == 0
        tally.reset()
        next_strips, next_words = fetch_b(start, number + 1, fresh)
        later = fetch_a(start + ahead, number) if more else []

        def turn(hints):
            if fx.const_expr(pending):
                tile.commit(stages[(stage + together) % len(stages)], thread, pending)
                tally.add("ds_write", tile.loads)
            hints()
            if fx.const_expr((number + 1) % together == 0):
                fx.barrier()
            return lambda: reader((stage + 1) % len(stages))(0)

        acc, first = run_tile(acc, first, parts, reader(stage), multiplier(strips, words, number % halves), turn, tally,
                              True, (partial(hot_loop_schedule, early_writes=True), hot_loop_schedule))
        return acc, next_strips, next_words if fresh else words, later, first

    count, total = config.m_repeat * config.n_repeat, config.k // config.tile_k
    acc, pending = [fx.full(ACC_LEN, 0.0, fx.Float32) for _ in fx.range_constexpr(count)], []
    started = [fetch_a(fx.Int32(0), i) for i in fx.range_constexpr(min(together, total))]
    strips, words = fetch_b(fx.Int32(0))
    if fx.const_expr(total > together):
        pending = fetch_a(fx.Int32(together))
    for i, chunks in enumerate(started):
        tile.commit(stages[i], thread, chunks)
    fx.barrier()
    first = reader(0)(0)
    turns = max(total - ahead, 0) // per_turn
    if fx.const_expr(turns > 0):
        flat, rebuild = flatten(acc, strips, words, pending, first)
        for turn, state in range(0, turns, 1, init=flat):  # type: ignore[call-overload]
            acc_in, strips_in, words_in, pending_in, first_in = rebuild(state)
            for number in fx.range_constexpr(per_turn):
                acc_in, strips_in, words_in, pending_in, first_in = step(
                    acc_in, strips_in, words_in, pending_in, first_in, fx.Int32(turn) * per_turn, number)
            results = yield flatten(acc_in, strips_in, words_in, pending_in, first_in)[0]
        acc, strips, words, pending, first = rebuild(results)
    done = per_turn * turns
    for t in fx.range_constexpr(done, total - 1):
        acc, strips, words, pending, first = step(acc, strips, words, pending, first, fx.Int32(done), t - done,
                                                  t + ahead < total)
    last = total - 1
    acc = finish_tile(acc, first, parts, reader(last % len(stages)), multiplier(strips, words, last % halves))
    element = OUT_DTYPES[config.out_dtype]
    c_batch = fx.Int64(m) * config.c_row_elements if config.c_batch < 0 else fx.Int64(config.c_batch)
    place = TilePlace(m, config.c_row_elements, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [wave_column + ni * 16 + lane_row for ni in fx.range_constexpr(config.n_repeat)],
                      group, ACC_LEN)
    c = pointer(tensors["c"], element) + fx.Int64(batch) * c_batch
    store_tile(c, element, acc, Epilogue(), place)


def flatten(acc: list[Any], strips: list[list[Any]], words: list[list[Any]], pending: list[Any],
            first: list[list[Any]]) -> tuple[list[Any], Any]:
    """The loop's state as one list, and the function that takes such a list apart again."""
    groups = [acc, *strips, pending, *first]
    vectors = [v for part in groups for v in part]
    kinds, sizes = [(v.shape, v.dtype) for v in vectors], [len(part) for part in groups]
    scalars, split = [word for side in words for word in side], len(words[0])

    def rebuild(state: Any) -> tuple[Any, ...]:
        values = [fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=False)]
        found = []
        for size in sizes:
            found.append(values[:size])
            values = values[size:]
        left = [fx.Int32(w) for w in list(state)[len(vectors) :]]
        b = 1 + len(strips)
        return found[0], found[1:b], [left[:split], left[split:]], found[b], found[b + 1 :]

    return [*vectors, *scalars], rebuild


def launch_mx(tensors: dict[str, Any], m: Any, config: MxConfig, stream: Any) -> None:
    """Launch from a jit function."""
    config.target.require_traced()
    mx_kernel(tensors, m, config).launch(grid=config.grid(m), block=config.threads, stream=stream)
