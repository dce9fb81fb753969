"""fp8 GEMM of RDNA4: operands straight from global memory to registers, no LDS.

For few rows, where a weight is read once and used by one row of workgroups. Four waves lie along N; each computes
``tile_m`` x ``tile_n / 4``. The operands of the next tile of k are loaded while the present ones are multiplied.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.index import cdiv, div, mod, xcd_remap_bx_by
from ..common.memory import Buffer
from ..target import Target, builder
from .epilogue import Epilogue, TilePlace, store_tile
from .matrix import MatrixOp

__all__ = ["compile_fp8_gemm"]

WAVE, WAVES = 32, 4
K_STEP = 16       # k of one instruction: 8 bytes a lane
PIECE_WORDS = 2


@dataclass(frozen=True)
class _Config:
    m: int
    n: int
    k: int
    target: Target
    tile_m: int
    tile_n: int
    tile_k: int
    group_m: int

    @property
    def m_repeat(self) -> int:
        return self.tile_m // 16

    @property
    def n_repeat(self) -> int:
        return self.tile_n // (16 * WAVES)

    @property
    def steps(self) -> int:
        return self.tile_k // K_STEP


def _multiply(a: Any, b: Any, acc: Any) -> Any:
    atom = fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 16, fx.Float8E4M3FN))
    left, right = (fx.make_rmem_tensor(8, fx.Float8E4M3FN) for _ in range(2))
    total = fx.make_rmem_tensor(8, fx.Float32)
    left.store(a.bitcast(fx.Float8E4M3FN))
    right.store(b.bitcast(fx.Float8E4M3FN))
    total.store(acc)
    fx.mma_atom_call(atom, total, left, right, total)
    return total.load()


@flyc.kernel(known_block_size=[WAVE * WAVES, 1, 1])
def _fp8_kernel(c, a, b, scale_a, scale_b, config: fx.Constexpr):
    thread = fx.thread_idx.x
    lane, wave = mod(thread, WAVE), div(thread, WAVE)
    group, lane_row = div(lane, 16), mod(lane, 16)
    bx, by = xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, fx.Int32(config.m), tile_m=config.tile_m,
                             tile_n=config.tile_n, N=config.n, xcd_swizzle=config.group_m, num_xcds=1)  # fmt: skip
    row, column = bx * config.tile_m, by * config.tile_n
    rows = fx.min(config.m - row, config.tile_m)
    stride = config.k // 4
    left = Buffer(a, fx.Int32, fx.Int64(row) * stride, rows * stride)
    right = Buffer(b, fx.Int32, fx.Int64(column) * stride, config.tile_n * stride)
    a_at = lane_row * stride + group * PIECE_WORDS
    # B is [N/16, K/16, 2, 16, 8]: a block of 16 columns and 16 k has 256 bytes, a lane's 8 bytes at 8 * lane.
    b_at = wave * (config.n_repeat * 16 * stride) + lane * PIECE_WORDS

    def fetch(t):
        out = []
        for step in fx.range_constexpr(config.steps):
            k = t * config.tile_k + step * K_STEP
            for mi in fx.range_constexpr(config.m_repeat):
                out.append(left.load(a_at + mi * 16 * stride + div(k, 4), PIECE_WORDS))
            for ni in fx.range_constexpr(config.n_repeat):
                out.append(right.load(b_at + ni * 16 * stride + k * 4, PIECE_WORDS))
        return out

    def multiply(acc, operands):
        acc, size = list(acc), config.m_repeat + config.n_repeat
        for step in fx.range_constexpr(config.steps):
            first = step * size
            for mi in fx.range_constexpr(config.m_repeat):
                for ni in fx.range_constexpr(config.n_repeat):
                    at = mi * config.n_repeat + ni
                    acc[at] = _multiply(operands[first + mi], operands[first + config.m_repeat + ni], acc[at])
        return acc

    count = config.m_repeat * config.n_repeat
    acc = [fx.full(8, 0.0, fx.Float32) for _ in fx.range_constexpr(count)]
    operands = fetch(fx.Int32(0))
    turns = config.k // config.tile_k - 1
    if fx.const_expr(turns > 0):
        start = [*acc, *operands]
        kinds = [(v.shape, v.dtype) for v in start]
        for turn, state in range(0, turns, 1, init=start):  # type: ignore[call-overload]
            values = [fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=True)]
            following = fetch(fx.Int32(turn) + 1)
            results = yield [*multiply(values[:count], values[count:]), *following]
        values = [fx.Vector(v, *kind) for v, kind in zip(results, kinds, strict=True)]
        acc, operands = values[:count], values[count:]
    acc = multiply(acc, operands)
    op = MatrixOp("fp8", 1, 2, 8, False, 1, 1, None)  # type: ignore[arg-type] # only its sizes
    wave_column = column + wave * (config.n_repeat * 16)
    place = TilePlace(fx.Int32(config.m), config.n, row, rows, [mi * 16 for mi in fx.range_constexpr(config.m_repeat)],
                      [wave_column + ni * 16 + lane_row for ni in fx.range_constexpr(config.n_repeat)],
                      group)  # fmt: skip
    store_tile(c, fx.BFloat16, acc, Epilogue({"scale_a": scale_a, "scale_b": scale_b}, config.n, "none", True), op,
               place)  # fmt: skip


@builder
def compile_fp8_gemm(*, M: int, N: int, K: int, tile_m: int = 32, tile_n: int | None = None, tile_k: int = 32,
                     k_unroll: int | None = None, group_m: int = 8, target: Target):  # fmt: skip
    """``launch(c, a, b_shuf, scale_a, scale_b, stream=None)`` on gfx120x: ``c = a b * scale_a[row] * scale_b[column]``.

    Args:
        M, N, K: M is any positive number, N a multiple of tile_n, K of the unrolled tile.
        tile_n: 256 for M of at least 256, else 128, by default.
        tile_k, k_unroll: k of a turn of the loop is their product; k_unroll is 2 by default where K allows it.
        group_m: block rows of a group in the launch order.

    c is bf16, a is e4m3fn (M, K) row-major, b_shuf made by ``preshuffle_b_fp8`` from (K, N); scales are f32.

    Raises:
        ValueError: the architecture or a size is not supported.
    """
    where = "compile_fp8_gemm"
    target.require(where, "gfx120")
    tile_n = tile_n or (256 if M >= 256 else 128)
    if k_unroll is None:
        k_unroll = 2 if K % (tile_k * 2) == 0 else 1
    for name, value, unit in (("tile_m", tile_m, 16), ("tile_n", tile_n, 16 * WAVES), ("tile_k", tile_k, K_STEP)):
        if value < unit or value % unit:
            raise ValueError(f"{where}: {name} must be a positive multiple of {unit}, got {value}")
    if M < 1 or k_unroll < 1:
        raise ValueError(f"{where}: M and k_unroll must be positive, got {M} and {k_unroll}")
    if N < 1 or N % tile_n:
        raise ValueError(f"{where}: N = {N} must be a multiple of tile_n = {tile_n}")
    if K < 1 or K % (tile_k * k_unroll):
        raise ValueError(f"{where}: K = {K} must be a multiple of tile_k * k_unroll = {tile_k * k_unroll}")
    config = _Config(M, N, K, target, tile_m, tile_n, tile_k * k_unroll, group_m)

    @flyc.jit
    def fp8_gemm(c, a, b_shuf, scale_a, scale_b, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        _fp8_kernel(c, a, b_shuf, scale_a, scale_b, config).launch(
            grid=(cdiv(M, tile_m), N // tile_n), block=WAVE * WAVES, stream=stream
        )

    return fp8_gemm
