"""fp8 GEMM of RDNA4: operands straight from global memory to registers, no LDS.

For few rows, where a weight is read once and used by one row of workgroups. Four waves lie along N; each computes
``tile_m`` x ``tile_n / 4``. The operands of the next tile of k are loaded while the present ones are multiplied.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..parts.epilogue import Epilogue, ScaleBoth, TilePlace, store_tile
from ..parts.index import div
from ..parts.lane import lane_of
from ..parts.mainloop import Held, MainLoop
from ..parts.matrix import MatrixOp, wmma_step
from ..parts.memory import Buffer
from ..parts.products import TileProducts
from ..parts.schedule import Tally
from ..target import Target, builder
from .config import GemmConfig

__all__ = ["compile_fp8_gemm", "compile_rdna_fp8_gemm"]

WAVE, WAVES = 32, 4
K_STEP = 16       # k of one instruction: 8 bytes a lane
PIECE_WORDS = 2


_FP8 = fx.Float8E4M3FN
#: An operand is 8 bytes a lane, half a chunk.
_WMMA = MatrixOp("fp8", 1, 2, 8, False, 1, 1, wmma_step(lambda: fx.rocdl.WMMA(16, 16, K_STEP, _FP8), _FP8))


@flyc.kernel(known_block_size=[WAVE * WAVES, 1, 1])
def _fp8_kernel(c, a, b, scale_a, scale_b, m: fx.Int32, config: fx.Constexpr):
    lane, tally = lane_of(WAVE), Tally()
    bx, by = config.block(m)
    row, column = bx * config.tile_m, by * config.tile_n
    rows, stride = fx.min(m - row, config.tile_m), config.k // 4
    left = Buffer(a, fx.Int32, fx.Int64(row) * stride, rows * stride)
    right = Buffer(b, fx.Int32, fx.Int64(column) * stride, config.tile_n * stride)
    a_at = lane.row * stride + lane.group * PIECE_WORDS
    # B is [N/16, K/16, 2, 16, 8]: a block of 16 columns and 16 k has 256 bytes, a lane's 8 bytes at 8 * lane.
    b_at = lane.wave * (config.n_repeat * 16 * stride) + lane.lane * PIECE_WORDS

    def fetch(t, _):
        """Both operands of a tile: ``[step][tile]``."""
        steps = [t.index * config.tile_k + step * K_STEP for step in fx.range_constexpr(config.tile_k // K_STEP)]
        return [([left.load(a_at + mi * 16 * stride + div(k, 4), PIECE_WORDS) for mi in range(config.m_repeat)],
                 [right.load(b_at + ni * 16 * stride + k * 4, PIECE_WORDS) for ni in range(config.n_repeat)])
                for k in steps]

    products = TileProducts(_WMMA, tally, config.m_repeat, config.n_repeat, config.tile_k // K_STEP,
                            lambda held, mi, step: [held[0][step][0][mi]],
                            lambda held, ni, step: [held[0][step][1][ni]], size=config.m_repeat)
    source = Held(fetch, config.tile_k // K_STEP * (config.m_repeat + config.n_repeat))
    acc = MainLoop(config.k_tiles, 1, [source], products, tally, 1, orders=None).run()
    wave_column = column + lane.wave * (config.n_repeat * 16)
    place = TilePlace(
        m, config.n, row, rows, [mi * 16 + lane.row for mi in fx.range_constexpr(config.m_repeat)],
        [wave_column + (ni * 16 + lane.group * _WMMA.acc_len) for ni in fx.range_constexpr(config.n_repeat)])
    store_tile(c, fx.BFloat16, acc, Epilogue((ScaleBoth(scale_a, scale_b, m, config.n),)), place)


def _rdna_config(where: str, target: Target, n: int, k: int, tile_m: int, tile_n: int, tile_k: int,
                 k_unroll: int | None, group_m: int) -> GemmConfig:
    target.require(where, "gfx120")
    if k_unroll is None:
        k_unroll = 2 if k % (tile_k * 2) == 0 else 1
    require(where, k_unroll >= 1, f"k_unroll must be positive, got {k_unroll}")
    config = GemmConfig(n=n, k=k, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k * k_unroll, out_dtype="bf16",
                        n_waves=WAVES, group=group_m, target=target)
    config.check_tile(where, K_STEP)
    return config.fitting(where)


def _launch(operands: tuple[Any, ...], m: Any, config: GemmConfig, stream: Any) -> None:
    """Launch from a jit function."""
    config.target.require_traced()
    _fp8_kernel(*operands, m, config).launch(
        grid=config.grid(m), block=config.threads, stream=stream
    )


@builder
def compile_rdna_fp8_gemm(*, N: int, K: int, tile_m: int = 32, tile_n: int = 128, tile_k: int = 32,
                          k_unroll: int | None = None, group_m: int = 8, target: Target):
    """``launch(c, a, b_shuf, scale_a, scale_b, M, stream=None)`` on gfx120x: M is free.

    ``c = a b * scale_a[row] * scale_b[column]``; c is bf16 (M, N), a e4m3fn (M, K) row-major, b_shuf made by
    ``preshuffle_b_fp8`` from (K, N); scales are f32.

    Args:
        N, K: multiples of tile_n, and of the unrolled tile.
        tile_k, k_unroll: k of a turn of the loop is their product; k_unroll is 2 by default where K allows it.
        group_m: block rows of a group in the launch order.

    Raises:
        ValueError: the architecture or a size is not supported.
    """
    config = _rdna_config("compile_rdna_fp8_gemm", target, N, K, tile_m, tile_n, tile_k, k_unroll, group_m)

    @flyc.jit
    def rdna_fp8_gemm(c, a, b_shuf, scale_a, scale_b, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        _launch((c, a, b_shuf, scale_a, scale_b), M, config, stream)

    return rdna_fp8_gemm


@builder
def compile_fp8_gemm(*, M: int, N: int, K: int, tile_m: int = 32, tile_n: int | None = None, tile_k: int = 32,
                     k_unroll: int | None = None, group_m: int = 8, target: Target):
    """:func:`compile_rdna_fp8_gemm` for a fixed M: ``launch(c, a, b_shuf, scale_a, scale_b, stream=None)``.

    tile_n is 256 for M of at least 256, else 128, by default. The kernel is that of any M; only the launcher has it.

    Raises:
        ValueError: the architecture or a size is not supported.
    """
    where = "compile_fp8_gemm"
    require(where, M >= 1, f"M must be positive, got {M}")
    config = _rdna_config(where, target, N, K, tile_m, tile_n or (256 if M >= 256 else 128), tile_k, k_unroll, group_m)

    @flyc.jit
    def fp8_gemm(c, a, b_shuf, scale_a, scale_b, stream: fx.Stream = fx.Stream(None)):
        _launch((c, a, b_shuf, scale_a, scale_b), fx.Int32(M), config, stream)

    return fp8_gemm
