"""Static arguments of the general f16/bf16 GEMM as one frozen value, and their checks."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import flydsl.expr as fx

from ..host.config import require
from ..host.dense import Extent
from ..parts.matrix import MatrixOp, matrix_op
from ..parts.memory import WORDS
from ..parts.tile import RowTile, StoredTile, TurnedTile, WideStoredTile
from ..target import Target
from .config import GemmConfig

__all__ = ["LAYOUTS", "DenseConfig", "dense_config", "row_scale_config", "takes_row_scales"]

LAYOUTS = ("nt", "nn", "tn", "tt")


@dataclass(frozen=True, kw_only=True)
class DenseConfig(GemmConfig):
    """``C[M, N] = op(a) op(b)`` with f32 accumulation: f16 or bf16, or fp8 with scales per row and column.

    Attributes:
        layout: a letter per operand, ``n`` row-major and ``t`` column-major.
        bias: add ``bias[N]``.
        use_async: operands go to LDS without registers; None, as of `cshuffle`: where that is possible.
        stochastic: C is rounded to bf16 stochastically.
        b_shuffled: b is in the order of ``shuffle_weight``.
        atomic: the slices of a split reduction add to C, ordered by a signal, instead of writing to a workspace.
        tile_ahead: fragments are read a tile ahead (:class:`.mainloop.MainLoop`): of small tiles, which have the
            registers for it and too few products to wait for LDS beside them.
    """

    CALLED = {"tile_m": "block_m", "tile_n": "block_n", "tile_k": "block_k", "group": "group_m"}
    OUT: ClassVar[tuple[str, ...]] = ("bf16", "f16", "f32")

    dtype: str
    layout: str
    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 64
    m_waves: int = 2
    n_waves: int = 2
    bias: bool = False
    use_async: bool | None = False
    stochastic: bool = False
    b_shuffled: bool = False
    atomic: bool = False
    tile_ahead: bool = False

    @property
    def op(self) -> MatrixOp:
        return matrix_op(self.target, self.dtype, self.dtype == "fp8")

    @property
    def row_scales(self) -> bool:
        return self.dtype == "fp8"

    def extents(self, m: Any) -> dict[str, Extent]:
        found = super().extents(m)
        if self.bias:
            found["bias"] = Extent(self.n)
        if self.split_k > 1 and not self.atomic:
            found["workspace"] = Extent(fx.Int64(m) * (self.n * self.split_k), fx.Float32)
        return found

    def _tile(self, rows: int, consecutive_k: bool, interleaved: bool = False) -> RowTile:
        bank_bytes = self.target.bank_bytes
        stored = StoredTile if self.target.dma128 else WideStoredTile if self.target.tensor_moves else None
        if not consecutive_k and stored and stored.fits(rows):
            return stored(self.tile_k, rows * self.op.element_bytes, self.threads, bank_bytes)
        # The reads of gfx950 pair rows in a way of its own.
        turned = not consecutive_k and not self.target.dma128 and TurnedTile.fits(self.row_bytes)
        kind = TurnedTile if turned else RowTile
        return kind(rows, self.row_bytes, self.threads, bank_bytes, interleaved=interleaved)

    @property
    def a_tile(self) -> RowTile:
        return self._tile(self.tile_m, self.layout[0] == "n")

    @property
    def b_tile(self) -> RowTile:
        return self._tile(self.tile_n, self.layout[1] == "t", self.op.interleaved)

    @property
    def tile_bytes(self) -> int:
        return self.a_tile.bytes + self.b_tile.bytes

    @property
    def ragged_k(self) -> bool:
        """Whether the last tile of k goes past the end."""
        return self.k_tiles * self.tile_k * self.split_k != self.k

    @property
    def copies_directly(self) -> bool:
        """Whether operands can go to LDS without registers: no tile of k is ragged, none has to be turned around."""
        stored = all(consecutive or isinstance(tile, StoredTile) for consecutive, tile in
                     ((self.layout[0] == "n", self.a_tile), (self.layout[1] == "t", self.b_tile)))
        return self.target.dma128 and stored and not self.ragged_k

    @property
    def reach(self) -> int:
        """Tiles that loads into registers are ahead: more than one where there are registers for them (512 on gfx9).
        Two are in time for the near caches only."""
        if self.target.wave == 64:
            return 3
        return 2 if self.needed <= self.registers else 1

    @property
    def needed(self) -> int:
        """Registers with loads two tiles ahead."""
        chunks = self.a_tile.loads + self.b_tile.loads
        of_part = (min(self.m_repeat, 2) + self.n_repeat) * self.op.blocks
        fragments = 2 * ((self.m_repeat + self.n_repeat) * self.blocks if self.tile_ahead else of_part)
        turned = (self.layout[0] == "t") + (self.layout[1] == "n")
        return self.sums + (2 * chunks + fragments + 4 * turned) * WORDS

    @property
    def crossing(self) -> bool:
        """Whether one operand is written to LDS after the barrier, so that copies are spread over the whole tile.
        Estimated worse on gfx12, where vector and memory instructions do not issue beside matrix instructions."""
        return self.reach > 1 and self.target.wave == 64 and not self.tile_ahead


@functools.lru_cache
def dense_config(where: str, target: Target, **fields: Any) -> DenseConfig:
    """A checked configuration; `fields` may have the callers' names. ValueError says what is not supported."""
    target.require(where, "gfx90a", "gfx942", "gfx950", "gfx11", "gfx120", "gfx1250")
    known = {called: field for field, called in DenseConfig.CALLED.items()}
    config = DenseConfig(target=target, **{known.get(name, name): value for name, value in fields.items()})
    need = partial(config.need, where)
    fp8 = config.dtype == "fp8" and target.mx  # only through the builders that say so
    need(fp8 or config.dtype in ("f16", "bf16"), f"the dtype must be 'f16' or 'bf16', got {config.dtype!r}")
    own = "bf16" if fp8 else config.dtype
    need(config.out_dtype in (own, "f32"), f"the output dtype must be {own} or f32, got {config.out_dtype!r}")
    need(config.layout in LAYOUTS, f"layout must be one of {', '.join(LAYOUTS)}, got {config.layout!r}")
    size = config.op.element_bytes
    config.check_tile(where, config.op.block_bytes * config.op.blocks // size * config.k_waves, ragged=True)
    need(config.waves <= 16, f"at most 16 waves fit a workgroup, got {config.waves}")
    for name, rows in (("a", config.tile_m), ("b", config.tile_n)):
        config.check_loads(where, name, rows * config.row_bytes)
    need(config.k * size % 16 == 0 or config.layout == "tn",
         f"K must be a multiple of {16 // size} for layout {config.layout}, got {config.k}")
    need(config.n % 8 == 0 or config.layout[1] == "t", f"N must be a multiple of 8 where b is row-major, "
         f"got {config.n}")
    whole = config.layout == "nt" and config.n % config.tile_n == 0 and not config.ragged_k and config.split_k == 1
    for name, least in (("lda", config.k), ("ldb", config.k), ("ldc", config.n)):
        config.check_apart(where, name, least, 8, whole, ", of whole tiles in layout nt,")
    need(not config.tile_ahead or config.needed <= config.registers,
         f"fragments a tile ahead take {config.needed} registers of a lane, {target.arch} has {config.registers}")
    need(config.stages >= 2, f"stages must be 2 or more, got {config.stages}")
    need(not config.use_async or config.copies_directly, "direct copies to LDS need gfx950, K a multiple of block_k * "
         "split_k and, where an operand is not consecutive in k, blocks of 64 or multiples of 128")
    if config.use_async is None:
        config = replace(config, use_async=config.copies_directly)
    need(not target.tensor_moves or config.sums <= config.registers * 5 // 8,
         f"the sums of {config.tile_m} x {config.tile_n} on {config.m_waves} x {config.n_waves} waves are "
         f"{config.sums} registers of a lane, {target.arch} has {config.registers}")
    wide = config.n * config.out.width // 8 % 16 == 0
    refusal = None if wide else f"rows of C must be multiples of 16 bytes, N = {config.n}"
    refusal = refusal or ("stochastic rounding stores directly" if config.stochastic else config.shuffle.refuse())
    refusal = refusal or ("waves that share k store directly" if config.k_waves > 1 else None)
    need(config.cshuffle is not True or refusal is None, f"C cannot go through LDS: {refusal}")
    if config.atomic:
        need(refusal is None, f"slices cannot be added to C: {refusal}")
    if config.cshuffle is None or config.atomic:
        config = replace(config, cshuffle=refusal is None)
    return config.fitting(where)


# ------------------------------------------------------------------------------------------- fp8 with scales

ROW_SCALE_K = 128  # of a tile
LARGE_BLOCK = 128 * 256  # elements of C


def takes_row_scales(target: Target, k: int) -> bool:
    """Whether the fp8 form with scales per row and column runs K."""
    return target.mx and target.dma128 and k % ROW_SCALE_K == 0 and k >= 2 * ROW_SCALE_K


def row_scale_config(where: str, target: Target, n: int, k: int, block: tuple[int, int], n_waves: int = 2,
                     group: int = 4, shuffled: bool = False) -> DenseConfig:
    """fp8 with scales per row and column on gfx950: every operand goes to LDS 16 bytes a lane, with one barrier a tile,
    and each of 2 x `n_waves` waves multiplies its part of the block.

    Blocks of more than 128 x 256 have eight waves where their columns can be cut in four: of 256 x 256, the sums of a
    quarter and what is read for them take every register of a wave. ValueError says what is not supported.
    """
    target.require(where, "gfx95")
    require(where, takes_row_scales(target, k),
            f"K must be a multiple of {ROW_SCALE_K} and at least {2 * ROW_SCALE_K}, got {k}")
    if block[0] * block[1] > LARGE_BLOCK and block[1] % (4 * 16) == 0:
        n_waves = 4
    return dense_config(where, target, n=n, k=k, dtype="fp8", out_dtype="bf16", layout="nt", block_m=block[0],
                        block_n=block[1], block_k=ROW_SCALE_K, m_waves=2, n_waves=n_waves, stages=2, use_async=True,
                        group_m=group, b_shuffled=shuffled, cshuffle=None)
