"""The static arguments of the preshuffle GEMMs as one frozen value, and their checks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx

from ..host.dense import Extent
from ..parts.index import align_up, cdiv
from ..parts.lane import Lane
from ..parts.matrix import SCALE_BLOCK, MatrixOp, matrix_op
from ..parts.tile import RowTile, SpreadTile
from ..target import Target
from .config import FLOAT_NAMES, LARGE_TILE, GemmConfig, eight_waves

__all__ = ["ACTIVATIONS", "IN_DTYPES", "PreshuffleConfig", "preshuffle_config"]

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
        size = self.stored_rows(self.row_bytes), self.row_bytes, self.threads, self.target.bank_bytes
        return SpreadTile(*size, self.apart) if self.apart > 1 else RowTile(*size)

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
    def int4(self) -> bool:
        return self.in_dtype == "int4"

    @property
    def converts(self) -> int:
        """Instructions for a chunk of int4 that are issued beside the products of the block of k before. The first of a
        tile is then needed earlier, which costs more where products are few."""
        return INT4_INSTRUCTIONS if self.int4 and self.m_repeat >= INT4_ROWS and self.blocks > 1 else 0


LONG_TILE = 16  # matrix instructions of a wave that hide the latency of loads without starting them early
PRELOAD = 4      # LDS reads, and loads, that start early in a shorter one


def default_preload(config: PreshuffleConfig) -> tuple[int, int]:
    """Of 8-bit data on gfx950, whose instructions are short; (0, 0) otherwise.

    A long tile needs none: its fragments are read one part ahead, and early loads would only leave the matrix unit
    idle at the start of the tile.
    """
    products = config.m_repeat * config.n_repeat * config.blocks // config.op.blocks * config.op.instructions
    short = config.target.mx and config.op.element_bytes == 1 and products < LONG_TILE
    return (PRELOAD, PRELOAD) if short else (0, 0)


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
    found = default_preload(config) if preload is None else preload
    config.need(where, len(found) == 2 and min(found) >= 0,
                f"preload must be two numbers of instructions, got {preload}")
    return replace(config, preload=(found[0], found[1]))
