"""fp8 GEMM of RDNA4: operands straight from global memory to registers, no LDS.

For few rows, where a weight is read once and used by one row of workgroups. Four waves lie along N; each computes
``tile_m`` x ``tile_n / 4``. The operands of the next tile of k are loaded while the present ones are multiplied.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import partial

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..parts.epilogue import store_tile
from ..parts.lane import lane_of
from ..parts.mainloop import Held, MainLoop
from ..parts.matrix import MatrixOp, matrix_op
from ..parts.memory import Buffer
from ..parts.operand import Fragments, Shuffled
from ..parts.products import TileProducts
from ..parts.schedule import Tally
from ..target import Target
from .config import GemmConfig, run

__all__ = ["RdnaFp8Config", "launch_rdna_fp8", "rdna_fp8_config"]

WAVES = 4
K_STEP = 16  # k of one instruction: 8 bytes a lane
PIECE_WORDS = 2


@dataclass(frozen=True, kw_only=True)
class RdnaFp8Config(GemmConfig):
    """``C = a b * scale_a[row] * scale_b[column]`` in bf16; four waves lie along N."""

    out_dtype: str = "bf16"
    stages: int = 0

    @property
    def row_scales(self) -> bool:
        return True

    @property
    def op(self) -> MatrixOp:
        """Operands are half chunks."""
        return replace(matrix_op(self.target, "fp8"), instructions=1)


@flyc.kernel
def rdna_fp8_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C."""
    lane, tally = lane_of(config.wave), Tally()
    row, column = config.corner(m)
    rows, stride, steps = fx.min(m - row, config.tile_m), config.a_row_bytes // 4, config.tile_k // K_STEP
    a = Buffer(tensors["a"], fx.Int32, fx.Int64(row) * stride, rows * stride)
    a_at = lane.row * stride + lane.group * PIECE_WORDS
    # B is [N/16, K/16, 2, 16, 8]: a block of 16 columns and 16 k has 256 bytes, a lane's 8 bytes at 8 * lane.
    b = Shuffled(tensors["b"], lane, column=column, strip_words=16 * config.k // 4, tile_strips=config.tile_n // 16,
                 strips=[lane.wave * config.n_repeat + ni for ni in fx.range_constexpr(config.n_repeat)],
                 blocks=steps, chunk_words=PIECE_WORDS, lanes=config.wave)

    def fetch(t, _):
        """Both operands of a tile: ``[tile][step]``."""
        first = a_at + t.index * (config.tile_k // 4)
        rows_of_a = [[a.load(first + (mi * 16 * stride + step * (K_STEP // 4)), PIECE_WORDS)
                      for step in fx.range_constexpr(steps)] for mi in fx.range_constexpr(config.m_repeat)]
        return [rows_of_a, b.fetch(t)]

    def fragments(operand):
        return Fragments(lambda held, tile, step: held[0][operand][tile][step], reads=0)

    products = TileProducts(config.op, tally, config.m_repeat, config.n_repeat, steps, fragments(0), fragments(1),
                            size=config.m_repeat)
    source = Held(fetch, steps * (config.m_repeat + config.n_repeat))
    acc = MainLoop(config.k_tiles, 1, [source], products, tally, 2).run()
    store_tile(tensors["c"], config.out, acc, config.finish(tensors, m), config.place(m, row, column, lane))


@functools.lru_cache
def rdna_fp8_config(where: str, target: Target, *, n: int, k: int, tile_m: int = 32, tile_n: int, tile_k: int = 32,
                    k_unroll: int | None = None, group: int = 8) -> RdnaFp8Config:
    """A checked configuration; a tile of k is ``tile_k * k_unroll``, by default the most of 4, 2 and 1 of them that
    divide K. ValueError says what is not supported."""
    target.require(where, "gfx120")
    if k_unroll is None:
        k_unroll = next((most for most in (4, 2) if k % (tile_k * most) == 0), 1)
    require(where, k_unroll >= 1, f"k_unroll must be positive, got {k_unroll}")
    config = RdnaFp8Config(n=n, k=k, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k * k_unroll, n_waves=WAVES,
                           group=group, target=target)
    config.check_tile(where, K_STEP)
    return config.fitting(where)


#: Launch from a jit function: ``launch_rdna_fp8(tensors, m, config, stream)``.
launch_rdna_fp8 = partial(run, rdna_fp8_kernel)
