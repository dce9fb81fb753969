"""GEMM of microscaled operands (fp4, fp6, fp8 with one e8m0 scale per 32 k) by the scaled MFMA of gfx950.

A goes through LDS, B (shuffled) and the scale words straight to registers. One scale word of a lane covers 32 rows
and 256 k: byte ``2 * khalf + rowhalf`` belongs to 16 rows and 128 k, and the instruction's selector takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.arch import Target
from ..common.index import div, mod, xcd_remap_bx_by
from ..common.memory import WORDS, Buffer
from ..common.reduce import Lds
from ..common.rows import pointer
from .config import OUT_DTYPES, THREADS, WAVES
from .epilogue import Epilogue, TilePlace, store_tile
from .mainloop import finish_tile, part_rows, run_tile
from .matrix import MatrixOp
from .schedule import Tally
from .tiles import RowTile

__all__ = ["FORMATS", "MxConfig", "launch_mx"]

WAVE = 64
K_STEP = 128       # k of one instruction
SCALE_K = 256      # k of one scale word
LANE_GROUPS = 4


@dataclass(frozen=True)
class _Format:
    """How 128 k of an operand lie in memory: bytes, the 16-byte chunks of a lane, the instruction's code."""

    code: int
    step_bytes: int
    words: int

    def chunks(self, step: int, group: Any) -> list[Any]:
        """Chunk numbers, within the row of a tile, of lane group `group` in step `step`."""
        first = step * self.step_bytes // 16
        if self.words == 4:
            return [first + group]
        if self.words == 6:
            return [first + group * 2, first + group * 2 + 1]
        return [first + group, first + LANE_GROUPS + group]


FORMATS = {"fp8": _Format(0, 128, 8), "fp6": _Format(2, 128, 6), "fp4": _Format(4, 64, 4)}


@dataclass(frozen=True)
class MxConfig:
    """Static arguments; strides in elements of the storage (bytes of A and scales, elements of C)."""

    n: int
    k: int
    tile_m: int
    tile_n: int
    tile_k: int
    a_dtype: str
    b_dtype: str
    out_dtype: str
    target: Target
    batch: int = 1
    a_row: int = -1
    a_batch: int = -1
    scale_row: int = -1
    scale_batch: int = -1
    c_row: int = -1
    c_batch: int = -1
    xcd_swizzle: int = 0

    @property
    def a(self) -> _Format:
        return FORMATS[self.a_dtype]

    @property
    def b(self) -> _Format:
        return FORMATS[self.b_dtype]

    @property
    def steps(self) -> int:
        return self.tile_k // K_STEP

    @property
    def a_tile(self) -> RowTile:
        return RowTile(self.tile_m, self.steps * self.a.step_bytes, THREADS, 256)

    @property
    def m_repeat(self) -> int:
        return self.tile_m // 16

    @property
    def n_repeat(self) -> int:
        return self.tile_n // (16 * WAVES)

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


def _operand(chunks: list[Any], kind: _Format) -> Any:
    """The instruction's eight dwords; those past the format's size are not read."""
    if len(chunks) == 1:
        return chunks[0].shuffle(chunks[0], [0, 1, 2, 3, 0, 1, 2, 3])
    return chunks[0].shuffle(chunks[1], list(range(8)))


class _Scales:
    """Scale words of the rows (or columns) from `first`: one word a lane for 32 of them and 256 k.

    Args:
        tiles: of 16 rows, one after the other.
        aligned: `first` is a multiple of 32. Two tiles then share a word, and which of its bytes belongs to a tile is
            known; otherwise a tile has its own, shifted so that its bytes are 0 (first half of k) and 2.
    """

    def __init__(self, data: Any, columns: int, rows: Any, first: Any, tiles: int, aligned: bool, lane: Any) -> None:
        self._buffer = Buffer(data, fx.Int32, None, div(rows + 255, 256) * (256 * columns // 4)
                              if not isinstance(rows, int) else -(-rows // 32) * 8 * columns)  # fmt: skip
        self._columns, self._first, self._tiles, self._lane = columns, first, tiles, lane
        self._paired = aligned and tiles % 2 == 0

    @property
    def loads(self) -> int:
        """Words of a tile of k."""
        return self._tiles // 2 if self._paired else self._tiles

    def fetch(self, k256: Any) -> list[Any]:
        """Start loading the words of a block of 256 k."""
        out = []
        for i in range(self.loads):
            row = self._first + i * (32 if self._paired else 16)
            at = div(row, 32) * (8 * self._columns) + self._lane
            out.append(self._buffer.load(at, 1, k256 * 64)[0])
        return out

    def of(self, words: list[Any], khalf: int) -> list[tuple[Any, int]]:
        """(word, number of its byte) of each tile, for the first or second 128 k."""
        if self._paired:
            return [(words[i // 2], 2 * khalf + i % 2) for i in range(self._tiles)]
        halves = [mod(div(self._first + i * 16, 16), 2) for i in range(self._tiles)]
        return [(fx.arith.shrui(word, half * 8), 2 * khalf) for word, half in zip(words, halves, strict=True)]


@flyc.kernel(known_block_size=[THREADS, 1, 1])
def mx_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C of one batch entry."""
    tile, kind_a, kind_b = config.a_tile, config.a, config.b
    thread, batch = fx.thread_idx.x, fx.block_idx.z
    lane, wave = mod(thread, WAVE), div(thread, WAVE)
    group, lane_row = div(lane, 16), mod(lane, 16)
    bx, by = xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, m, tile_m=config.tile_m, tile_n=config.tile_n,
                             N=config.n, xcd_swizzle=config.xcd_swizzle)  # fmt: skip
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
    scale_a = _Scales(sa, columns, m, row, config.m_repeat, config.tile_m % 32 == 0, lane)
    b_columns = -(-(config.k // 32) // 8) * 8
    sb = pointer(tensors["scale_b"], fx.Int32) + fx.Int64(batch) * (config.n * b_columns // 4)
    scale_b = _Scales(sb, b_columns, config.n, wave_column, config.n_repeat, config.n_repeat % 2 == 0, lane)
    strip_words = config.b_row_bytes * 4  # 16 columns
    b_start = fx.Int64(batch) * (config.n * config.b_row_bytes // 4) + fx.Int64(column) * (strip_words // 16)
    b = Buffer(tensors["b"], fx.Int32, b_start, config.tile_n // 16 * strip_words)
    memory = Lds()
    stages = [memory.array(fx.Int32, tile.words).ptr for _ in fx.range_constexpr(2)]
    tally = Tally()
    step_blocks = kind_b.step_bytes // 64
    tile_words = config.steps * step_blocks * WAVE * WORDS
    op = MatrixOp("mx", 1, LANE_GROUPS, 4, False, 1, 1, None)  # type: ignore[arg-type] # only its sizes
    size = part_rows(config.m_repeat)
    groups = config.m_repeat // size
    parts = config.steps * groups

    def fetch_a(t):
        tally.add("vmem", tile.loads)
        return tile.fetch(a, stride, thread, t * (tile.row_bytes // 4))

    def fetch_b(t):
        strips = []
        for ni in fx.range_constexpr(config.n_repeat):
            strip = (wave * config.n_repeat + ni) * strip_words + lane * WORDS
            blocks = []
            for i in fx.range_constexpr(config.steps * step_blocks):
                blocks.append(b.load(strip + i * (WAVE * WORDS), WORDS, t * tile_words))
            strips.append(blocks)
        tally.add("vmem", config.n_repeat * config.steps * step_blocks)
        return strips

    def scale_words(t):
        """Words of the 256 k to which tile t belongs."""
        k256 = div(t * config.tile_k, SCALE_K)
        tally.add("vmem", scale_a.loads + scale_b.loads)
        return [scale_a.fetch(k256), scale_b.fetch(k256)]

    def reader(stage):
        def read(part):
            step, first = part // groups, part % groups * size
            chunks = kind_a.chunks(step, group)
            tally.add("ds_read", size * len(chunks))
            rows_ = [(first + i) * 16 + lane_row for i in fx.range_constexpr(size)]
            return [[tile.read_at(stages[stage], r, x) for x in chunks] for r in rows_]

        return read

    def multiplier(strips, words, parity):
        """`parity` says which half of 256 k a tile of 128 is."""
        halves = [parity] if config.steps == 1 else [0, 1]
        factors = [(scale_a.of(words[0], x), scale_b.of(words[1], x)) for x in halves]

        def multiply(acc, part, fragments):
            out, step, first = list(acc), part // groups, part % groups * size
            rows_, columns_ = factors[step]
            blocks = slice(step * step_blocks, (step + 1) * step_blocks)
            right = [_operand(strip[blocks], kind_b) for strip in strips]
            for i in fx.range_constexpr(size):
                left = _operand(fragments[i], kind_a)
                for ni in fx.range_constexpr(config.n_repeat):
                    at = (first + i) * config.n_repeat + ni
                    (word_a, byte_a), (word_b, byte_b) = rows_[first + i], columns_[ni]
                    result = fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(
                        fx.T.f32x4, [left, right[ni], out[at], kind_a.code, kind_b.code, byte_a, word_a, byte_b,
                                     word_b])  # fmt: skip
                    out[at] = fx.Vector(result, (4,), fx.Float32)
            tally.add("mfma", size * config.n_repeat)
            return out

        return multiply

    def step(acc, strips, words, pending, first, t, stage, more=True):
        """Multiply tile t. B and the scales of tile t + 1 are fetched, and A of tile t + 2 if there is `more`;
        `pending` is A of tile t + 1."""
        tally.reset()
        next_strips, next_words = fetch_b(t + 1), scale_words(t + 1)
        later = fetch_a(t + 2) if more else []

        def turn(hints):
            tile.commit(stages[1 - stage], thread, pending)
            tally.add("ds_write", tile.loads)
            hints()
            fx.barrier()
            return lambda: reader(1 - stage)(0)

        acc, first = run_tile(acc, first, parts, reader(stage), multiplier(strips, words, stage), turn, tally, True)
        return acc, next_strips, next_words, later, first

    count, total = config.m_repeat * config.n_repeat, config.k // config.tile_k
    acc, pending = [op.zero() for _ in fx.range_constexpr(count)], []
    chunks, strips, words = fetch_a(fx.Int32(0)), fetch_b(fx.Int32(0)), scale_words(fx.Int32(0))
    if fx.const_expr(total > 1):
        pending = fetch_a(fx.Int32(1))
    tile.commit(stages[0], thread, chunks)
    fx.barrier()
    first = reader(0)(0)
    turns = max(total - 2, 0) // 2
    if fx.const_expr(turns > 0):
        flat, rebuild = flatten(acc, strips, words, pending, first)
        for turn, state in range(0, turns, 1, init=flat):  # type: ignore[call-overload]
            acc_in, strips_in, words_in, pending_in, first_in = rebuild(state)
            for half in fx.range_constexpr(2):
                acc_in, strips_in, words_in, pending_in, first_in = step(
                    acc_in, strips_in, words_in, pending_in, first_in, fx.Int32(turn) * 2 + half, half)
            results = yield flatten(acc_in, strips_in, words_in, pending_in, first_in)[0]
        acc, strips, words, pending, first = rebuild(results)
    for t in fx.range_constexpr(2 * turns, total - 1):
        values = step(acc, strips, words, pending, first, fx.Int32(t), t % 2, t + 2 < total)
        acc, strips, words, pending, first = values
    acc = finish_tile(acc, first, parts, reader((total - 1) % 2), multiplier(strips, words, (total - 1) % 2))
    element = OUT_DTYPES[config.out_dtype]
    c_batch = fx.Int64(m) * config.c_row_elements if config.c_batch < 0 else fx.Int64(config.c_batch)
    place = TilePlace(m, config.c_row_elements, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [wave_column + ni * 16 + lane_row for ni in fx.range_constexpr(config.n_repeat)],
                      group)  # fmt: skip
    c = pointer(tensors["c"], element) + fx.Int64(batch) * c_batch
    store_tile(c, element, acc, Epilogue(tensors, config.n, "none", False), op, place)


def flatten(acc: list[Any], strips: list[list[Any]], words: list[list[Any]], pending: list[Any],
            first: list[list[Any]]) -> tuple[list[Any], Any]:  # fmt: skip
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
    mx_kernel(tensors, m, config).launch(
        grid=(fx.ceildiv(m, config.tile_m), config.n // config.tile_n, config.batch), block=THREADS, stream=stream
    )
