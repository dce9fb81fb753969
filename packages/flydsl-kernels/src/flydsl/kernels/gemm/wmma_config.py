"""Static arguments of the GEMMs of gfx1250 with tensor moves as one frozen value, and their checks."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import flydsl.expr as fx

from ..host.dense import Extent
from ..parts.index import cdiv
from ..parts.matrix import FORMATS, MICRO_GROUP, MICRO_K, SCALE_BLOCK, MatrixOp, matrix_op, microscaled_op
from ..parts.products import part_rows
from ..parts.tensor_tile import TensorTile
from ..target import Target
from .config import GemmConfig

__all__ = ["DATA_FORMATS", "SCALE_ROWS", "SLAB", "WmmaConfig", "wmma_config"]


DATA_FORMATS = {"fp4": ("fp4", "fp4"), "fp8": ("fp8", "fp8"), "a8w4": ("fp8", "fp4")}  # of A and B
SLAB = 16  # rows of b that lie together
SCALE_ROWS = 32  # that share a word of scales of every lane
MAX_WAVES = 32
MAX_CLUSTER = 16
LANE_BYTES = 8  # of a row for each register of a lane: two lanes share it
OTHER_REGISTERS = 24  # addresses, and what the schedule needs beside the products


@dataclass(frozen=True, kw_only=True)
class WmmaConfig(GemmConfig):
    """f16 or bf16, or fp8 and fp4 with scales; with split_k the workgroups add to C.

    Attributes:
        a_dtype, b_dtype: ``"fp8"`` (e4m3) or ``"fp4"`` (e2m1), with B in the order of ``preshuffle_b_16x16``, or both
            ``"f16"`` or ``"bf16"``, with B row-major.
        scales: ``"mx"`` e8m0 per 32 k in the order of ``shuffle_scale_32x4``, ``"block"`` e8m0 per 128 k of a row of A
            (transposed) and per 128 k of 128 columns, ``"rows"`` f32 per row and column;
            ``"none"`` of f16 and bf16.
        scale_stride: of the block scales of A, from 128 k to the next; 0: M.
        cluster_m, cluster_n: workgroups along the rows and columns that share the tiles they load.
    """

    CALLED = {"m_waves": "m_warp", "n_waves": "n_warp", "stages": "num_buffers", "scale_stride": "stride_ascale_k"}
    OUT: ClassVar[tuple[str, ...]] = ("bf16", "f16", "f32")

    a_dtype: str
    b_dtype: str
    scales: str
    scale_stride: int = 0
    cluster_m: int = 1
    cluster_n: int = 1

    def grid(self, m: Any) -> tuple[Any, ...]:
        blocks = fx.ceildiv(m, self.tile_m * self.cluster_m) * self.cluster_m
        return blocks, self.n // self.tile_n, self.split_k

    @property
    def op(self) -> MatrixOp:
        if self.scaled:
            return microscaled_op(self.target, self.a_dtype, self.b_dtype)
        return matrix_op(self.target, "fp8" if self.shuffled else self.a_dtype)

    @property
    def step(self) -> int:
        """k of one instruction."""
        return MICRO_K if self.shuffled else self.target.half_k

    @property
    def step_bytes(self) -> tuple[int, int]:
        """Bytes of these in a row of A, and of B."""
        return self.op.block_bytes * self.op.blocks, self.op.block_bytes * self.op.b_blocks

    @property
    def shuffled(self) -> bool:
        """Whether what lanes read of B together lies together: slabs of 16 rows."""
        return self.scales != "none"

    @property
    def scaled(self) -> bool:
        """Whether the instruction takes scales."""
        return self.scales in ("mx", "block")

    @property
    def steps(self) -> int:
        """Instructions along k of a tile."""
        return self.tile_k // self.step

    @property
    def cluster(self) -> tuple[int, ...] | None:
        return (self.cluster_m, self.cluster_n, 1) if self.cluster_m * self.cluster_n > 1 else None

    @property
    def hints(self) -> dict[str, Any]:
        shared = {"rocdl.cluster_dims": ",".join(map(str, self.cluster))} if self.cluster else {}
        return {**super().hints, **shared}

    @property
    def a_row_bytes(self) -> int:
        """Bytes from a row of A to the next."""
        return self.a_stride * self.step_bytes[0] // self.step

    @property
    def b_row_bytes(self) -> int:
        """Bytes from a row of the tile of B to the next, in memory."""
        return self.k // self.step * self.step_bytes[1] * (SLAB if self.shuffled else 1)

    @property
    def stored(self) -> tuple[Any, Any]:
        return (FORMATS[self.a_dtype].element, FORMATS[self.b_dtype].element) if self.scaled else super().stored

    @property
    def row_scales(self) -> bool:
        return self.scales == "rows"

    def extents(self, m: Any) -> dict[str, Extent]:
        found = super().extents(m)
        if self.scales == "mx":
            groups = self.k // MICRO_GROUP * SCALE_ROWS  # bytes of 32 rows
            found.update(scale_a=Extent(fx.ceildiv(fx.Int64(m), SCALE_ROWS) * groups, fx.Uint8),
                         scale_b=Extent(cdiv(self.n, SCALE_ROWS) * groups, fx.Uint8))
        elif self.scales == "block":
            blocks = self.k // SCALE_BLOCK
            step = fx.Int64(self.scale_stride or m)
            found["scale_a"] = Extent(step * (blocks - 1) + m, fx.Uint8, spaced=self.scale_stride > 0)
            found["scale_b"] = Extent(cdiv(self.n, SCALE_BLOCK) * blocks, fx.Uint8)
        return found

    @property
    def row_bytes(self) -> int:
        return self.steps * self.step_bytes[0]

    @property
    def a_tile(self) -> TensorTile:
        return TensorTile(self.tile_m, self.row_bytes, True)

    @property
    def b_tile(self) -> TensorTile:
        """A slab is one of its rows."""
        row_bytes = self.steps * self.step_bytes[1]
        if self.shuffled:
            return TensorTile(self.tile_n // SLAB, SLAB * row_bytes, False)
        return TensorTile(self.tile_n, row_bytes, True)

    @property
    def tile_bytes(self) -> int:
        return self.a_tile.bytes + self.b_tile.bytes

    @property
    def scale_rows(self) -> tuple[int, int]:
        """Rows of A, and columns, that a word of scales of every lane covers."""
        columns = self.n_repeat * 16
        within_blocks = columns % SCALE_BLOCK == 0 or SCALE_BLOCK % columns == 0
        return 32, SCALE_BLOCK if self.scales == "block" and within_blocks else 32

    @property
    def scale_words(self) -> int:
        """Registers for the scales of a tile."""
        a, b = self.scale_rows
        return self.steps * (cdiv(self.m_repeat * 16, a) + cdiv(self.n_repeat * 16, b)) if self.scaled else 0

    @property
    def fits(self) -> bool:
        """Whether a wave has about the registers it needs: sums, fragments and scales, which have successors."""
        a, b = (size // LANE_BYTES for size in self.step_bytes)
        fragments = 2 * (part_rows(self.m_repeat) * a + self.n_repeat * b)
        scales = (3 if self.scales == "block" else 2) * self.scale_words  # a byte is repeated first
        return self.sums + fragments + scales + OTHER_REGISTERS <= self.registers


def _with_waves(config: WmmaConfig) -> WmmaConfig | None:
    """With as many waves as it takes for the registers, more along the longer side of a wave's part. None if no number
    is enough."""
    while not config.fits:
        rows, columns = config.m_repeat, config.n_repeat
        if 2 * config.waves > MAX_WAVES:
            return None
        if columns % 2 == 0 and (columns > rows or rows % 2):
            config = replace(config, n_waves=2 * config.n_waves)
        elif rows % 2 == 0:
            config = replace(config, m_waves=2 * config.m_waves)
        else:
            return None
    return config


@functools.lru_cache
def wmma_config(where: str, target: Target, **fields: Any) -> WmmaConfig:
    """A checked configuration, with more waves than asked for (along the longer side of a
    wave's part) where the part would not fit the registers. ValueError says what is not supported."""
    target.require(where, "gfx1250")
    config = WmmaConfig(target=target, **fields)
    need = partial(config.need, where)
    config.check_tile(where, config.step)
    config.check_positive(where, "cluster_m", "cluster_n")
    need(config.cluster_m * config.cluster_n <= MAX_CLUSTER, f"a cluster has at most {MAX_CLUSTER} workgroups, "
         f"got {config.cluster_m} x {config.cluster_n}")
    need(config.n // config.tile_n % config.cluster_n == 0,
         f"N = {config.n} must be a multiple of tile_n * cluster_n = {config.tile_n * config.cluster_n}")
    need(not (config.cluster and config.group), "workgroups of a cluster lie as launched: no group is possible")
    need(2 <= config.stages <= 4, f"stages must be 2, 3 or 4, got {config.stages}")
    config.check_apart(where, "lda", config.k, 32)
    config.check_apart(where, "ldc", config.n, 8)
    need(config.scale_stride >= 0, f"scale_stride must not be negative, got {config.scale_stride}")
    found = _with_waves(config)
    need(found is not None, f"a tile of {config.tile_m} x {config.tile_n} x {config.tile_k} does not fit the "
         f"registers of {config.m_waves} x {config.n_waves} waves, nor of up to {MAX_WAVES}")
    return (found or config).fitting(where)
