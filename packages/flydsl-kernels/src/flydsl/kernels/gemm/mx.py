"""GEMM of microscaled operands (fp4, fp6, fp8 with one e8m0 scale per 32 k) by the scaled MFMA of gfx950.

A goes through LDS, B (shuffled) and the scale words straight to registers. One scale word of a lane covers 32 rows
and 256 k: byte ``2 * khalf + rowhalf`` belongs to 16 rows and 128 k, and the instruction's selector takes it.

While tile t is multiplied, B of tile t + `reach` is on its way to registers, A of a later tile goes from registers to
LDS and A of as many tiles further is on its way to registers. Where a tile has 128 k and LDS has room, there is a
barrier every other tile. The turn of the loop is as many tiles as it takes for all that is held to be in its first
place again: nothing is copied between registers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import Extent, rows_extent
from ..parts.epilogue import Epilogue, store_tile
from ..parts.index import align_up, cdiv, div
from ..parts.lane import lane_of
from ..parts.mainloop import Held, KTile, MainLoop, Staged
from ..parts.matrix import FORMATS, MICRO_GROUP, MICRO_K, MatrixOp, Microformat, microscaled_op
from ..parts.memory import WORDS, pointer
from ..parts.operand import Advance, Fragments, Rows, Shuffled
from ..parts.products import TileProducts, part_rows
from ..parts.reduce import Lds
from ..parts.scales import WORD_K, WORD_ROWS, HeldScales, PairedScales
from ..parts.schedule import Tally, hot_loop_schedule
from ..parts.tile import LANE_GROUPS, HalvesTile, RowTile
from ..target import Target
from .config import FLOAT_NAMES, LARGE_TILE, GemmConfig, eight_waves, run

__all__ = ["PADDED_ROWS", "MxConfig", "launch_mx", "mx_config"]

PADDED_ROWS = 256  # rows of scales are filled up to a multiple of these


@dataclass(frozen=True, kw_only=True)
class MxConfig(GemmConfig):
    """A batch of microscaled GEMMs; four or eight waves lie along N.

    Attributes:
        a_dtype, b_dtype: of ``FORMATS``.
        batch: entries, each a product.
        a_row, a_batch: bytes from a row (an entry) of A to the next, -1: contiguous; `scale_row` and `scale_batch` of
            the scales of A, `c_row` and `c_batch` elements of C.
    """

    a_dtype: str
    b_dtype: str
    batch: int = 1
    a_row: int = -1
    a_batch: int = -1
    scale_row: int = -1
    scale_batch: int = -1
    c_row: int = -1
    c_batch: int = -1

    @property
    def reach(self) -> int:
        return 1 if self.batch > 1 else super().reach

    def grid(self, m: Any) -> tuple[Any, ...]:
        return fx.ceildiv(m, self.tile_m), self.n // self.tile_n, self.batch

    def extents(self, m: Any) -> dict[str, Extent]:
        """Rows of scales are in groups of 32."""
        scaled = div(fx.Int64(m) + (WORD_ROWS - 1), WORD_ROWS) * WORD_ROWS
        per, a = self.a.per_byte, self.a.stored
        a_row, a_used = self.a_row_bytes * per, self.op.bytes_of(self.k) * per

        def batched(rows: Any, row: int, used: int, element: Any, entry: Any, told: int) -> Extent:
            return rows_extent(rows, row, used, element, self.batch, entry, self.batch > 1 and told >= 0)

        return {
            "a": batched(m, a_row, a_used, a, self.entry(m, a_row, self.a_batch * per), self.a_batch),
            "b": Extent(self.batch * self.n * self.k, FORMATS[self.b_dtype].stored),
            "c": batched(m, self.c_stride, self.n, self.out, self.entry(m, self.c_stride, self.c_batch), self.c_batch),
            "scale_a": batched(scaled, self.scale_columns, self.groups, fx.Uint8, self.scale_entry(m),
                               self.scale_batch),
            "scale_b": Extent(self.batch * self.n * self.groups, fx.Uint8),
        }

    @staticmethod
    def entry(rows: Any, row: int, told: int) -> Any:
        """From an entry to the next: `told`, or its rows if that is negative."""
        return fx.Int64(rows) * row if told < 0 else fx.Int64(told)

    def scale_entry(self, m: Any) -> Any:
        """Bytes from the scales of A of an entry to those of the next."""
        return self.entry(div(m + (PADDED_ROWS - 1), PADDED_ROWS) * PADDED_ROWS, self.scale_columns, self.scale_batch)

    @property
    def a(self) -> Microformat:
        return FORMATS[self.a_dtype]

    @property
    def op(self) -> MatrixOp:
        """The matrix instruction."""
        return microscaled_op(self.target, self.a_dtype, self.b_dtype)

    @property
    def a_tile(self) -> RowTile:
        tile = super().a_tile
        if self.a_dtype != "fp6":
            return tile
        gap = WORDS if 2 * (tile.bytes + tile.rows) <= self.target.lds_bytes else 0
        return HalvesTile(tile.rows, tile.row_bytes, tile.threads, tile.bank_bytes, gap)

    @property
    def together(self) -> int:
        """Tiles from a barrier to the next: those of 256 k where LDS has room for two stages of each."""
        tiles = WORD_K // self.tile_k
        return tiles if 2 * tiles * self.tile_bytes <= self.target.lds_bytes else 1

    @property
    def a_row_bytes(self) -> int:
        return super().a_row_bytes if self.a_row < 0 else self.a_row

    @property
    def groups(self) -> int:
        """Scales of a row, filled up to words of whole lanes."""
        return align_up(self.k // MICRO_GROUP, 8)

    @property
    def scale_columns(self) -> int:
        """Scales from a row of A to the next."""
        return self.groups if self.scale_row < 0 else self.scale_row

    @property
    def c_stride(self) -> int:
        return super().c_stride if self.c_row < 0 else self.c_row


@functools.lru_cache
def mx_config(where: str, target: Target, *, out_dtype: str, **fields: Any) -> MxConfig:
    """A checked configuration. ValueError says what is not supported."""
    target.require(where, "gfx950")
    config = MxConfig(target=target, out_dtype=FLOAT_NAMES.get(out_dtype, out_dtype), **fields)
    config.need(where, config.a_dtype in FORMATS, f"a_dtype must be one of {', '.join(FORMATS)}, "
                f"got {config.a_dtype!r}")
    config.need(where, config.b_dtype in ("fp4", "fp8"), f"b_dtype must be 'fp4' or 'fp8', got {config.b_dtype!r}")
    config.need(where, config.tile_k in (MICRO_K, WORD_K), f"tile_k must be 128 or 256, got {config.tile_k}")
    config.check_tile(where, MICRO_K)
    # The instruction takes twice as long where an operand is fp8.
    config = eight_waves(config, LARGE_TILE if "fp8" in (config.a_dtype, config.b_dtype) else 2 * LARGE_TILE)
    config = replace(config, stages=2 * config.together)
    config.check_positive(where, "batch")
    return config.fitting(where)


class _Weights:
    """B of a wave and the scale words of both operands, which are fetched together: the words between the strips, since
    they take less of the memory pipeline, or after them if all strips are needed at once.

    Args:
        between: whether the words go between the strips.
    """

    def __init__(self, b: Shuffled, scales: tuple[PairedScales, PairedScales], strips: int, between: bool) -> None:
        self._b, self._scales, self._strips, self._between = b, scales, strips, between

    def loads(self, t: KTile) -> int:
        """Loads of a tile."""
        return self._b.loads + sum(side.loads(t) for side in self._scales)

    def fetch(self, t: KTile, before: Any) -> tuple[Any, Any]:
        """Start loading (strips, words of A and B) of a tile; the words of the tile `before` hold for all 256 k."""
        todo = [(side, i) for side in (0, 1) for i in range(self._scales[side].loads(t))]
        strips: list[Any] = []
        words: list[list[Any]] = [[], []]
        for ni in range(self._strips):
            strips.append(self._b.strip(t, ni))
            share = cdiv(len(todo), self._strips - ni) if self._between or ni == self._strips - 1 else 0
            for side, i in todo[:share]:
                words[side].append(self._scales[side].word(t, i))
            todo = todo[share:]
        return strips, words if words[0] else before[1]


@flyc.kernel
def mx_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C of one batch entry."""
    tile, batch, lane = config.a_tile, fx.Int64(fx.block_idx.z), lane_of(config.wave, scalar=True)
    row, column = config.corner(m)
    wave_strip = lane.wave * config.n_repeat
    wave_column = column + wave_strip * 16
    stages, tally = config.stages_in(Lds()), Tally()
    reach = config.together + config.reach  # tiles from one to that whose A is fetched with it
    a = Rows(tensors["a"], tile, stages, lane, row=row, rows_total=config.end_row(m, row), row_bytes=config.a_row_bytes,
             start=batch * config.entry(m, config.a_row_bytes, config.a_batch), advance=Advance.LANES, near=reach,
             place=config.a.place)
    b = Shuffled(tensors["b"], lane, column=column, strip_words=config.b_row_bytes * 4, advance=Advance.LANES,
                 tile_strips=config.tile_n // 16, blocks=config.calls * config.op.b_blocks,
                 strips=[wave_strip + ni for ni in fx.range_constexpr(config.n_repeat)],
                 start=batch * (config.n * config.b_row_bytes))
    scale_a = PairedScales(tensors["scale_a"], batch * config.scale_entry(m), config.scale_columns, m, [row],
                           config.m_repeat, config.tile_m % 32 == 0, lane, config.tile_k)
    scale_b = PairedScales(tensors["scale_b"], batch * (config.n * config.groups), config.groups, config.n,
                           [wave_column], config.n_repeat, config.n_repeat % 2 == 0, lane, config.tile_k)
    # The order in a part: by columns if these are many, since the last of B arrives late; else by rows, as the second
    # of A does.
    by_columns = config.n_repeat > part_rows(config.m_repeat)
    weights = _Weights(b, (scale_a, scale_b), config.n_repeat, by_columns)

    scales = HeldScales((scale_a, scale_b), lambda held: held[0][1])
    products = TileProducts(config.op, tally, config.m_repeat, config.n_repeat, config.calls,
                            a.reader(lane, 0, LANE_GROUPS),
                            Fragments(lambda held, strip, block: held[0][0][strip][block], reads=0), scales=scales.of,
                            columns_first=by_columns)
    sources: list[Any] = [Held(weights.fetch, weights.loads, config.reach), Staged(a, reach, config.together)]
    # Of what is loaded while its predecessors are in use there is one more: a turn is as many tiles as it takes.
    acc = MainLoop(config.k_tiles, config.stages, sources, products, tally,
                   (config.reach + 1) * (WORD_K // config.tile_k),
                   (partial(hot_loop_schedule, early_writes=True), hot_loop_schedule), (fx.barrier,),
                   config.together).run()
    c = pointer(tensors["c"], config.out) + batch * config.entry(m, config.c_stride, config.c_batch)
    store_tile(c, config.out, acc, Epilogue(), config.place(m, row, column, lane))


#: Launch from a jit function: ``launch_mx(tensors, m, config, stream)``.
launch_mx = partial(run, mx_kernel)
