"""GEMM of microscaled operands (fp4, fp6, fp8 with one e8m0 scale per 32 k) by the scaled MFMA of gfx950.

A goes through LDS, B (shuffled) and the scale words straight to registers. One scale word of a lane covers 32 rows
and 256 k: byte ``2 * khalf + rowhalf`` belongs to 16 rows and 128 k. The word is shifted for the rows, which may
depend on the wave, and the instruction's selector takes the half of k.
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
from .matrix import MatrixOp
from .schedule import Tally, hot_loop_schedule
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

    A tile of 16 rows uses one byte of each half of a word; the word is shifted so that these are bytes 0 and 2.
    """

    def __init__(self, data: Any, columns: int, rows: Any, first: Any, tiles: int, step: int, lane: Any) -> None:
        self._buffer = Buffer(data, fx.Int32, None, div(rows + 255, 256) * (256 * columns // 4)
                              if not isinstance(rows, int) else -(-rows // 32) * 8 * columns)  # fmt: skip
        self._columns, self._first, self._tiles, self._step, self._lane = columns, first, tiles, step, lane

    def fetch(self, k256: Any) -> list[Any]:
        """A word for each tile (16 rows, `step` apart), shifted so that its byte is 0 (k first half) or 2."""
        out = []
        for i in range(self._tiles):
            row = self._first + i * self._step
            at = div(row, 32) * (8 * self._columns) + k256 * 64 + self._lane
            word = self._buffer.load(at, 1)[0]
            out.append(fx.arith.shrui(word, mod(div(row, 16), 2) * 8))
        return out


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
    scale_a = _Scales(sa, columns, m, row, config.m_repeat, 16, lane)
    b_columns = -(-(config.k // 32) // 8) * 8
    sb = pointer(tensors["scale_b"], fx.Int32) + fx.Int64(batch) * (config.n * b_columns // 4)
    scale_b = _Scales(sb, b_columns, config.n, wave_column, config.n_repeat, 16, lane)
    strip_words = config.b_row_bytes * 4  # 16 columns
    b_start = fx.Int64(batch) * (config.n * config.b_row_bytes // 4) + fx.Int64(column) * (strip_words // 16)
    b = Buffer(tensors["b"], fx.Int32, b_start, config.tile_n // 16 * strip_words)
    lds = Lds().array(fx.Int32, 2 * tile.words).ptr
    tally = Tally()
    step_blocks = kind_b.step_bytes // 64
    tile_words = config.steps * step_blocks * WAVE * WORDS
    op = MatrixOp("mx", 1, LANE_GROUPS, 4, False, 1, 1, None)  # type: ignore[arg-type] # only its sizes

    def fetch(t):
        tally.add("vmem", tile.loads)
        chunks = tile.fetch(a, stride, thread, t * (tile.row_bytes // 4))
        strips = []
        for ni in fx.range_constexpr(config.n_repeat):
            strip = (wave * config.n_repeat + ni) * strip_words + lane * WORDS
            blocks = []
            for i in fx.range_constexpr(config.steps * step_blocks):
                blocks.append(b.load(strip + i * (WAVE * WORDS), WORDS, t * tile_words))
            strips.append(blocks)
        tally.add("vmem", config.n_repeat * config.steps * step_blocks)
        return chunks, strips

    def scale_words(t):
        """Words of tile t for its first 128 k in byte 0 and its second in byte 2."""
        k256 = div(t * config.tile_k, SCALE_K)
        words = [scale_a.fetch(k256), scale_b.fetch(k256)]
        tally.add("vmem", config.m_repeat + config.n_repeat)
        if fx.const_expr(config.tile_k < SCALE_K):
            shift = mod(t, 2) * 16
            words = [[fx.arith.shrui(w, shift) for w in side] for side in words]
        return words

    def compute(acc, strips, words, stage):
        out = list(acc)
        base = lds + stage * tile.words
        for step in fx.range_constexpr(config.steps):
            select = (step % 2) * 2
            right = []
            for ni in fx.range_constexpr(config.n_repeat):
                right.append(_operand(strips[ni][step * step_blocks : (step + 1) * step_blocks], kind_b))
            for mi in fx.range_constexpr(config.m_repeat):
                parts = [tile.read_at(base, mi * 16 + lane_row, c) for c in kind_a.chunks(step, group)]
                tally.add("ds_read", len(parts))
                left = _operand(parts, kind_a)
                for ni in fx.range_constexpr(config.n_repeat):
                    at = mi * config.n_repeat + ni
                    result = fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(
                        fx.T.f32x4, [left, right[ni], out[at], kind_a.code, kind_b.code, select, words[0][mi], select,
                                     words[1][ni]])  # fmt: skip
                    out[at] = fx.Vector(result, (4,), fx.Float32)
                    tally.add("mfma")
        return out

    def advance(acc, strips, words, t, stage):
        tally.reset()
        chunks, next_strips = fetch(t + 1)
        next_words = scale_words(t + 1)
        acc = compute(acc, strips, words, stage)
        tile.commit(lds + (1 - stage) * tile.words, thread, chunks)
        tally.add("ds_write", tile.loads)
        counts = tally.take()
        hot_loop_schedule(counts).emit(counts)
        fx.barrier()
        return acc, next_strips, next_words

    count, total = config.m_repeat * config.n_repeat, config.k // config.tile_k
    acc = [op.zero() for _ in fx.range_constexpr(count)]
    chunks, strips = fetch(fx.Int32(0))
    words = scale_words(fx.Int32(0))
    tile.commit(lds, thread, chunks)
    fx.barrier()
    turns = (total - 1) // 2
    if fx.const_expr(turns > 0):
        flat, rebuild = flatten(acc, strips, words)
        for turn, state in range(0, turns, 1, init=flat):  # type: ignore[call-overload]
            acc_in, strips_in, words_in = rebuild(state)
            t = fx.Int32(turn) * 2
            acc_in, strips_in, words_in = advance(acc_in, strips_in, words_in, t, 0)
            acc_in, strips_in, words_in = advance(acc_in, strips_in, words_in, t + 1, 1)
            results = yield flatten(acc_in, strips_in, words_in)[0]
        acc, strips, words = rebuild(results)
    last = 2 * turns
    if fx.const_expr(last < total - 1):
        acc, strips, words = advance(acc, strips, words, fx.Int32(last), 0)
        last += 1
    acc = compute(acc, strips, words, last % 2)
    element = OUT_DTYPES[config.out_dtype]
    c_batch = fx.Int64(m) * config.c_row_elements if config.c_batch < 0 else fx.Int64(config.c_batch)
    place = TilePlace(m, config.c_row_elements, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [wave_column + ni * 16 + lane_row for ni in fx.range_constexpr(config.n_repeat)],
                      group)  # fmt: skip
    c = pointer(tensors["c"], element) + fx.Int64(batch) * c_batch
    store_tile(c, element, acc, Epilogue(tensors, config.n, "none", False), op, place)


def flatten(acc: list[Any], strips: list[list[Any]], words: list[list[Any]]) -> tuple[list[Any], Any]:
    """The loop's state as one list, and the function that takes such a list apart again."""
    vectors = [*acc, *(chunk for strip in strips for chunk in strip)]
    scalars = [word for side in words for word in side]
    kinds = [(v.shape, v.dtype) for v in vectors]
    sizes = [len(strip) for strip in strips]
    split = len(words[0])

    def rebuild(state: Any) -> tuple[list[Any], list[list[Any]], list[list[Any]]]:
        values = [fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=False)]
        rest, groups = values[len(acc) :], []
        for size in sizes:
            groups.append(rest[:size])
            rest = rest[size:]
        left = [fx.Int32(w) for w in list(state)[len(vectors) :]]
        return values[: len(acc)], groups, [left[:split], left[split:]]

    return [*vectors, *scalars], rebuild


def launch_mx(tensors: dict[str, Any], m: Any, config: MxConfig, stream: Any) -> None:
    """Launch from a jit function."""
    mx_kernel(tensors, m, config).launch(
        grid=(fx.ceildiv(m, config.tile_m), config.n // config.tile_n, config.batch), block=THREADS, stream=stream
    )
