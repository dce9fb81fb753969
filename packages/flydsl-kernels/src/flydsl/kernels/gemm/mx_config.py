"""Static arguments of the microscaled GEMM of gfx950 as one frozen value, and their checks."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx

from ..parts.matrix import FORMATS, MICRO_K, MatrixOp, Microformat, microscaled_op
from ..parts.memory import WORDS
from ..parts.tile import HalvesTile, RowTile
from ..target import Target
from .config import FLOAT_NAMES, LARGE_TILE, GemmConfig, eight_waves

__all__ = ["SCALE_K", "MxConfig", "mx_config"]

SCALE_K = 256  # k of one scale word


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

    def grid(self, m: Any) -> tuple[Any, ...]:
        return fx.ceildiv(m, self.tile_m), self.n // self.tile_n, self.batch

    def stage_bytes(self, stage: int) -> int:
        """Of a tile of A: there are two stages of each of those that go together."""
        return self.a_tile.words * 4

    @property
    def a(self) -> Microformat:
        return FORMATS[self.a_dtype]

    @property
    def b(self) -> Microformat:
        return FORMATS[self.b_dtype]

    @property
    def op(self) -> MatrixOp:
        """The matrix instruction."""
        return microscaled_op(self.target, self.a_dtype, self.b_dtype)

    @property
    def steps(self) -> int:
        return self.tile_k // MICRO_K

    @property
    def tile_k_bytes(self) -> int:
        """Of a row of a tile of A."""
        return self.steps * self.a.step_bytes

    @property
    def a_tile(self) -> RowTile:
        rows = self.stored_rows(self.tile_k_bytes)
        tile = RowTile(rows, self.tile_k_bytes, self.threads, self.target.bank_bytes)
        if self.a_dtype != "fp6":
            return tile
        gap = WORDS if 2 * (tile.bytes + rows) <= self.target.lds_bytes else 0
        return HalvesTile(rows, tile.row_bytes, tile.threads, tile.bank_bytes, gap)

    @property
    def together(self) -> int:
        """Tiles from a barrier to the next: those of 256 k where LDS has room."""
        tiles = SCALE_K // self.tile_k
        return tiles if 2 * tiles * self.a_tile.words * 4 <= self.target.lds_bytes else 1

    @property
    def a_row_bytes(self) -> int:
        return self.k // MICRO_K * self.a.step_bytes if self.a_row < 0 else self.a_row

    @property
    def b_row_bytes(self) -> int:
        return self.k // MICRO_K * self.b.step_bytes

    @property
    def scale_columns(self) -> int:
        """Padded scales of a row."""
        return -(-(self.k // 32) // 8) * 8 if self.scale_row < 0 else self.scale_row

    @property
    def c_stride(self) -> int:
        return self.n if self.c_row < 0 else self.c_row


@functools.lru_cache
def mx_config(where: str, target: Target, *, out_dtype: str, **fields: Any) -> MxConfig:
    """A checked configuration. ValueError says what is not supported."""
    target.require(where, "gfx950")
    config = MxConfig(target=target, out_dtype=FLOAT_NAMES.get(out_dtype, out_dtype), **fields)
    config.need(where, config.a_dtype in FORMATS, f"a_dtype must be one of {', '.join(FORMATS)}, "
                f"got {config.a_dtype!r}")
    config.need(where, config.b_dtype in ("fp4", "fp8"), f"b_dtype must be 'fp4' or 'fp8', got {config.b_dtype!r}")
    config.need(where, config.tile_k in (MICRO_K, SCALE_K), f"tile_k must be 128 or 256, got {config.tile_k}")
    config.check_tile(where, MICRO_K)
    # The instruction takes twice as long where an operand is fp8.
    config = eight_waves(config, LARGE_TILE if "fp8" in (config.a_dtype, config.b_dtype) else 2 * LARGE_TILE)
    config = replace(config, stages=2 * config.together)
    config.need(where, config.batch >= 1, f"batch must be positive, got {config.batch}")
    return config.fitting(where)
