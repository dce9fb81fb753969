"""Static arguments of the microscaled GEMM of gfx950 as one frozen value, and their checks."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx

from ..host.dense import Extent, rows_extent
from ..parts.index import align_up, div
from ..parts.matrix import FORMATS, MICRO_GROUP, MICRO_K, MatrixOp, Microformat, microscaled_op
from ..parts.memory import WORDS
from ..parts.scales import WORD_K, WORD_ROWS
from ..parts.tile import HalvesTile, RowTile
from ..target import Target
from .config import FLOAT_NAMES, LARGE_TILE, GemmConfig, eight_waves

__all__ = ["MxConfig", "mx_config"]

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

    def grid(self, m: Any) -> tuple[Any, ...]:
        return fx.ceildiv(m, self.tile_m), self.n // self.tile_n, self.batch

    def extents(self, m: Any) -> dict[str, Extent]:
        """Rows of scales are in groups of 32."""
        scaled = div(fx.Int64(m) + (WORD_ROWS - 1), WORD_ROWS) * WORD_ROWS
        per, a = self.a.per_byte, self.a.stored
        a_row, a_used = self.a_row_bytes * per, self.k // MICRO_K * self.a.step_bytes * per

        def batched(rows: Any, row: int, used: int, element: Any, entry: Any, told: int) -> Extent:
            return rows_extent(rows, row, used, element, self.batch, entry, self.batch > 1 and told >= 0)

        return {
            "a": batched(m, a_row, a_used, a, self.entry(m, a_row, self.a_batch * per), self.a_batch),
            "b": Extent(self.batch * self.n * self.b_row_bytes * self.b.per_byte, self.b.stored),
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
    def row_bytes(self) -> int:
        return self.steps * self.a.step_bytes

    @property
    def a_tile(self) -> RowTile:
        rows = self.stored_rows(self.row_bytes)
        tile = RowTile(rows, self.row_bytes, self.threads, self.target.bank_bytes)
        if self.a_dtype != "fp6":
            return tile
        gap = WORDS if 2 * (tile.bytes + rows) <= self.target.lds_bytes else 0
        return HalvesTile(rows, tile.row_bytes, tile.threads, tile.bank_bytes, gap)

    @property
    def together(self) -> int:
        """Tiles from a barrier to the next: those of 256 k where LDS has room for two stages of each."""
        tiles = WORD_K // self.tile_k
        return tiles if 2 * tiles * self.tile_bytes <= self.target.lds_bytes else 1

    @property
    def a_row_bytes(self) -> int:
        return self.a_stride // MICRO_K * self.a.step_bytes if self.a_row < 0 else self.a_row

    @property
    def b_row_bytes(self) -> int:
        return self.k // MICRO_K * self.b.step_bytes

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
