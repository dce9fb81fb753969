"""The preshuffle GEMMs: A through LDS, B (shuffled by ``shuffle_weight``) straight to registers.

Four or eight waves lie along N and interleave strips of 16 columns: accumulator (mi, ni) of wave w covers rows
``16 mi`` and columns ``16 (waves ni + w)``. While tile t is computed, B of tile t + `reach` is on its way to registers,
A of tile t + 1 goes from registers to the other LDS buffer, and A of the tile after that of B is on its way to
registers; with direct copies, A of tile t + 1 is on its way to the other buffer. The turn of the loop is as many tiles
as it takes for all that is held to be in its first place again: a copy between registers would wait for the load.

Scales of blocks of 128 k are in registers of each lane, or as products in LDS. Through LDS they take a fraction of the
loads, which counts on gfx950: there the first-level cache is the limit. On gfx942 the schedule estimated best has them
in registers.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import Extent
from ..parts.convert import int4_chunk
from ..parts.epilogue import FAR, shuffle_tile, store_tile
from ..parts.index import align_up, cdiv, div, mod
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import Held, KTile, MainLoop, Ring, Staged
from ..parts.matrix import SCALE_BLOCK, MatrixOp, matrix_op
from ..parts.memory import WORDS, Buffer, lds_read, lds_write
from ..parts.operand import Advance, Fragments, Rows, Shuffled
from ..parts.products import BlockScaledProducts, TileProducts
from ..parts.reduce import Lds
from ..parts.scales import BlockScales, ScaleLines
from ..parts.schedule import Tally, ahead_orders, hot_loop_schedule
from ..parts.tile import RowTile, SpreadTile
from ..target import Target
from .config import FLOAT_NAMES, LARGE_TILE, LOW_ROWS, GemmConfig, eight_waves, run

__all__ = ["ACTIVATIONS", "PreshuffleConfig", "launch_preshuffle", "preshuffle_config"]

IN_DTYPES = {"fp8": "fp8", "int8": "i8", "int4": "i8", "fp16": "f16", "f16": "f16", "bf16": "bf16"}
ACTIVATIONS = ("none", "bias", "bias_relu", "bias_silu", "bias_gelu")
INT4_FACTOR = 16  # int4 weights are multiplied as int8 values this many times larger
INT4_INSTRUCTIONS = 6  # in which a chunk of int4 becomes one of int8
INT4_ROWS = 4  # 16-row tiles whose products hide those of the next block of k
INT4_MOST_K = 1 << 17  # from where such a sum of products could leave 32 bits


@dataclass(frozen=True, kw_only=True)
class PreshuffleConfig(GemmConfig):
    """A preshuffle GEMM; four or eight waves lie along N.

    Attributes:
        in_dtype: one of ``IN_DTYPES``.
        epilogue: one of ``ACTIVATIONS``.
        block_scale: scales per (row, 128 k) and (128 columns, 128 k) instead of per row and column.
        use_async: A goes to LDS without registers.
        preload: LDS reads and global loads before the first matrix instruction of a tile.
    """

    CALLED = {"stages": "lds_stage"}

    in_dtype: str
    epilogue: str = "none"
    block_scale: bool = False
    use_async: bool = False
    preload: tuple[int, int] = (0, 0)

    @property
    def op(self) -> MatrixOp:
        """The matrix instruction: scaled where a tile is a whole number of its k."""
        scaled = self.in_dtype == "fp8" and self.target.mx and self.tile_k % 128 == 0
        return matrix_op(self.target, IN_DTYPES[self.in_dtype], scaled)

    @property
    def row_scales(self) -> bool:
        return self.op.element_bytes == 1 and not self.block_scale

    def extents(self, m: Any) -> dict[str, Extent]:
        found, blocks = super().extents(m), self.k // SCALE_BLOCK
        if self.int4:
            found["b"] = Extent(self.n * self.k // 2, fx.Int8)
        if self.epilogue != "none":
            found["bias"] = Extent(self.n)
        if self.block_scale:
            found.update(scale_a=Extent(fx.Int64(m) * blocks, fx.Float32),
                         scale_b=Extent(cdiv(self.n, SCALE_BLOCK) * blocks, fx.Float32))
        return found

    @property
    def a_tile(self) -> RowTile:
        tile = super().a_tile
        spread = SpreadTile(tile.rows, tile.row_bytes, tile.threads, tile.bank_bytes, self.apart)
        return spread if self.apart > 1 else tile

    @property
    def apart(self) -> int:
        """With block scales, so many scales of a lane are consecutive."""
        fitting = (w for w in (4, 2) if self.m_repeat % w == 0
                   and SpreadTile.fits(self.row_bytes, self.target.bank_bytes, w))
        return next(fitting, 1) if self.block_scale else 1

    def strip(self, wave: Any, ni: int) -> Any:
        """Which 16 columns of the tile accumulators `ni` of a wave are: the waves' strips are interleaved, and with
        block scales consecutive, so that most waves have one scale."""
        return wave * self.n_repeat + ni if self.block_scale else ni * self.waves + wave

    @property
    def shared_scales(self) -> bool:
        """Block scales go through LDS."""
        return self.block_scale and self.target.mx

    @property
    def scale_strips(self) -> tuple[int, ...]:
        """The first of a wave's column strips in each group of strips that surely share 128 columns."""
        together = math.gcd(self.tile_n, SCALE_BLOCK) % (16 * self.n_repeat) == 0
        return (0,) if together else tuple(range(self.n_repeat))

    @property
    def scale_columns(self) -> int:
        """Blocks of 128 columns that a tile may touch."""
        return cdiv(self.tile_n + SCALE_BLOCK - math.gcd(self.tile_n, SCALE_BLOCK), SCALE_BLOCK)

    @property
    def scale_bytes(self) -> int:
        """LDS of a stage's factors: a whole number a thread."""
        factors = self.tile_k // SCALE_BLOCK * self.scale_columns * self.tile_m
        return align_up(factors, self.threads) * 4 if self.shared_scales else 0

    @property
    def lds_bytes(self) -> int:
        return super().lds_bytes + self.stages * self.scale_bytes

    def rows_of(self, lane: Lane) -> list[Any]:
        return [self.a_tile.row_of(mi, lane.row) for mi in range(self.m_repeat)]

    def columns_of(self, column: Any, lane: Lane) -> list[Any]:
        return [column + self.strip(lane.wave, ni) * 16 + lane.group * self.op.acc_len for ni in range(self.n_repeat)]

    @property
    def reach(self) -> int:
        return 1 if self.use_async else super().reach

    @property
    def tile_ahead(self) -> bool:
        """Whether fragments are read a tile ahead (:class:`..parts.mainloop.MainLoop`): the scaled instruction is so
        short that its products do not hide what a part of the tile waits for. Fewer rows wait for memory, and take
        longer with it; of larger tiles registers do not hold the fragments of two."""
        return (self.op.blocks > 1 and self.tile_m > LOW_ROWS
                and self.m_repeat * self.blocks * self.waves <= AHEAD_CHUNKS and self.n_repeat <= AHEAD_STRIPS
                and self.stages > 1 and not (self.block_scale or self.use_async))

    @property
    def int4(self) -> bool:
        return self.in_dtype == "int4"

    @property
    def converts(self) -> int:
        """Instructions for a chunk of int4 that are issued beside the products of the block of k before. The first of a
        tile is then needed earlier, which costs more where products are few."""
        return INT4_INSTRUCTIONS if self.int4 and self.m_repeat >= INT4_ROWS and self.blocks > 1 else 0


AHEAD_CHUNKS = 64  # of A that a lane of all waves together reads, at most, where that is a tile ahead
AHEAD_STRIPS = 2   # of 16 columns of a wave there
LONG_TILE = 16  # matrix instructions of a wave that hide the latency of loads without starting them early
PRELOAD = 4      # LDS reads, and loads, that start early in a shorter one


@functools.lru_cache
def preshuffle_config(where: str, target: Target, *, out_dtype: str, preload: tuple[int, int] | None = None,
                      **fields: Any) -> PreshuffleConfig:
    """A checked configuration. ValueError says what is not supported."""
    target.require(where, "gfx942", "gfx950")
    config = PreshuffleConfig(target=target, out_dtype=FLOAT_NAMES.get(out_dtype, out_dtype), **fields)
    for name, known in (("in_dtype", IN_DTYPES), ("epilogue", ACTIVATIONS)):
        value = getattr(config, name)
        config.need(where, value in known, f"{name} must be one of {', '.join(known)}, got {value!r}")
    config.need(where, config.stages in (1, 2), f"stages must be 1 or 2, got {config.stages!r}")
    size = config.op.element_bytes
    config.check_tile(where, 64 // size)
    if config.in_dtype == "fp8" and target.mx:
        # The matrix unit takes fp8 so fast that one wave a SIMD cannot issue everything else in time.
        config = eight_waves(config, LARGE_TILE)
    config.need(where, not config.use_async or target.dma128,
                f"use_async_copy needs gfx950, the target is {target.arch}")
    config.fitting(where)
    config.need(where, not config.int4 or config.k < INT4_MOST_K,
                f"K must be less than {INT4_MOST_K} for int4, got {config.k}")
    if config.block_scale:
        config.need(where, config.in_dtype == "fp8", f"block scales need fp8, got {config.in_dtype!r}")
        config.need(where, config.tile_k % SCALE_BLOCK == 0,
                    f"tile_k must be a multiple of {SCALE_BLOCK}, got {config.tile_k}")
    if preload is None:
        # Of 8-bit data on gfx950, whose instructions are short. A long tile needs none: its fragments are read one part
        # ahead, and early loads would only leave the matrix unit idle at the start of the tile.
        preload = (PRELOAD, PRELOAD) if target.mx and size == 1 and config.products < LONG_TILE else (0, 0)
    config.need(where, len(preload) == 2 and min(preload) >= 0,
                f"preload must be two numbers of instructions, got {preload}")
    return replace(config, preload=(preload[0], preload[1]))


# ------------------------------------------------------------------------------------------- block scales


def buffers(scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any) -> tuple[Buffer, Buffer]:
    """The scales as they are in memory: sa[K/128, M] and sb[N/128, K/128]."""
    blocks = config.k // SCALE_BLOCK
    return (Buffer(scale_a, fx.Float32, None, fx.Int64(m) * blocks),
            Buffer(scale_b, fx.Float32, None, cdiv(config.n, SCALE_BLOCK) * blocks))


def register_scales(scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any,
                    lane: Lane) -> BlockScales:
    """Scales that each lane loads itself: it holds four columns of one row, one scale of A for each."""
    (a, b), blocks, row_of = buffers(scale_a, scale_b, config, m), config.k // SCALE_BLOCK, config.a_tile.row_of
    rows = [row + row_of(0, lane.row) + row_of(mi, 0) for mi in range(0, config.m_repeat, config.apart)]
    strips = [div(column + config.strip(lane.wave, ni) * 16, SCALE_BLOCK) * blocks for ni in config.scale_strips]
    return BlockScales(ScaleLines(a, rows, m, config.apart), ScaleLines(b, strips, 1), config.tile_k // SCALE_BLOCK)


class SharedScales:
    """:class:`~..parts.products.Factors` ``sa[block, row] * sb[column // 128, block]`` of a tile.

    Each thread loads and multiplies few of them, two tiles ahead, and writes them to LDS beside the tile of A. There
    ``[block][column block][row]`` are f32: consecutive rows, whose factors a lane reads at once.
    """

    turns, reads = 0, 1

    def __init__(self, scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any, lane: Lane,
                 memory: Lds) -> None:
        self._config, self._m, self.width = config, m, config.apart
        self._per_tile = config.tile_k // SCALE_BLOCK
        (self._a, self._b), self._blocks = buffers(scale_a, scale_b, config, m), config.k // SCALE_BLOCK
        self._thread = lane.thread
        self._stages = [memory.array(fx.Float32, config.scale_bytes // 4).ptr for _ in range(config.stages)]
        self._places, first = [], div(column, SCALE_BLOCK)
        for i in range(self.loads // 2):
            rest, in_tile = (f(lane.thread + i * config.threads, config.tile_m) for f in (div, mod))
            block, across = div(rest, config.scale_columns), mod(rest, config.scale_columns)
            places = block * m + row + in_tile, (first + across) * self._blocks + block
            if (i + 1) * config.threads > self._per_tile * config.scale_columns * config.tile_m:
                # Threads past the tile's factors read nothing, and write zeros past them.
                places = tuple((block < self._per_tile).select(at, FAR // 4) for at in places)
            self._places.append(places)
        # The column block of each of the wave's strips; one where all surely share it.
        self._across = [div(column + config.strip(lane.wave, ni) * 16, SCALE_BLOCK) - first
                        for ni in config.scale_strips]
        self._row = config.a_tile.row_of(0, lane.row)

    @property
    def source(self) -> Staged:
        """For the main loop: what is needed last is fetched last."""
        return Staged(self, self._config.reach + 1, when="turn")

    @property
    def loads(self) -> int:
        """Global loads of a thread for a tile."""
        return self._config.scale_bytes // (4 * self._config.threads) * 2

    def fetch(self, tile: KTile) -> list[Any]:
        """Start loading a thread's scales of a k tile: of a row and of columns, for each factor."""
        first, more = tile.turn * self._per_tile, tile.further * self._per_tile
        pairs = [(self._a.load(a + more * self._m, 1, first * self._m), self._b.load(b + more, 1, first))
                 for a, b in self._places]
        return [value for pair in pairs for value in pair]

    @property
    def writes(self) -> int:
        """Writes to LDS of a thread for a tile."""
        return self.loads // 2

    def commit(self, values: list[Any], stage: int) -> None:
        """Write the factors to LDS."""
        for i in range(0, len(values), 2):
            lds_write(self._stages[stage], self._thread + i // 2 * self._config.threads, values[i] * values[i + 1])

    def of(self, stage: int, block: int, row: int) -> list[Any]:
        """Factors of this lane's rows of fragments `row` to ``row + width - 1`` for each of `scale_strips`."""
        config = self._config
        at = self._row + config.a_tile.row_of(row, 0) + block * config.scale_columns * config.tile_m
        return [lds_read(self._stages[stage], at + across * config.tile_m, self.width) for across in self._across]


# ------------------------------------------------------------------------------------------- the kernel

SUMS_DELAY = 1  # matrix instructions of a tile, and after its barrier, before partial sums of block scales are added


def _orders(config: PreshuffleConfig) -> tuple[Any, Any] | None:
    """The order of a tile before its barrier and after it. With long instructions, another one follows the barrier
    before the first read: the wait for the other waves is shorter."""
    if config.tile_ahead:
        return ahead_orders(beside=True) if config.scheduled else None
    order = partial(hot_loop_schedule, beside=config.op.blocks, delay=SUMS_DELAY)
    orders = (partial(order, preload=config.preload, early_writes=True),
              partial(order, reads_from=int(config.op.blocks > 1)))
    return orders if config.scheduled else None


@flyc.kernel
def preshuffle_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C."""
    op, tile, lane = config.op, config.a_tile, lane_of(config.wave)
    row, column = config.corner(m)
    memory, tally = Lds(), Tally()
    stages = config.stages_in(memory)
    a = Rows(tensors["a"], tile, stages, lane, row=row, rows_total=config.end_row(m, row),
             row_bytes=config.a_row_bytes, advance=Advance.TURN)
    chunk_words = WORDS // 2 if config.int4 else WORDS
    strip_words = config.k * op.element_bytes // op.block_bytes * config.wave * chunk_words
    weights = Shuffled(tensors["b"], lane, column=column, strip_words=strip_words,
                       tile_strips=config.tile_n // 16, blocks=config.blocks, chunk_words=chunk_words,
                       strips=[config.strip(lane.wave, ni) for ni in fx.range_constexpr(config.n_repeat)])
    sources: list[Any] = [Held(lambda t, _: weights.fetch(t), weights.loads, config.reach)]
    if fx.const_expr(config.use_async):
        sources.append(Ring(a.copy, a.loads, a.loads))
    else:
        sources.append(Staged(a, config.reach + 1))
    convert = int4_chunk if config.int4 else lambda words: words
    b = Fragments(lambda held, strip, block: convert(held[0][strip][block]), reads=0, converts=config.converts)
    wave = op, tally, config.m_repeat, config.n_repeat, config.calls, a.reader(lane, 0, op.groups), b
    products: Any = None
    if fx.const_expr(config.block_scale):
        where = tensors["scale_a"], tensors["scale_b"], config, m, row, column, lane
        scales: Any = SharedScales(*where, memory) if config.shared_scales else register_scales(*where)
        sources.append(scales.source if config.shared_scales else replace(scales.source, reach=config.reach))
        products = BlockScaledProducts(*wave, scales)
    else:
        products = TileProducts(*wave, size=1 if config.tile_ahead else None)
    loop = MainLoop(config.k_tiles, config.stages, sources, products, tally, config.reach + 1, _orders(config),
                    tile_ahead=config.tile_ahead)
    with fx.fastmath("contract"):
        acc = loop.run()
    acc = acc[0] if fx.const_expr(config.block_scale) else acc
    epilogue = config.finish(tensors, m, config.epilogue, divisor=INT4_FACTOR if config.int4 else 1)
    place = config.place(m, row, column, lane)
    if fx.const_expr(config.cshuffle):
        shuffle_tile(tensors["c"], config.out, acc, epilogue, place, stages[0], config.shuffle)
    else:
        store_tile(tensors["c"], config.out, acc, epilogue, place)


#: Launch from a jit function: ``launch_preshuffle(tensors, m, config, stream)``.
launch_preshuffle = partial(run, preshuffle_kernel)
