"""Microscaling quantiser of gfx950 and gfx1250, and the gather of its scales into the order of experts."""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.convert import microscale, pack_micro
from ..parts.index import div, mod
from ..parts.memory import Buffer, pointer
from ..parts.reduce import magnitude
from ..target import Target, builder

__all__ = [
    "build_mxfp4_moe_scale_sort_module", "build_per_1x32_mx_quant_module", "mxfp4_moe_scale_sort", ]

GROUP = 32
THREADS = 64
MODES = ("fp4", "fp8")
SORT_THREADS, SORT_ROWS = 256, 32


@flyc.kernel(known_block_size=[THREADS, 1, 1])
def _mx_quant_kernel(X, Y, Scale, groups: fx.Int64, mode: fx.Constexpr[str], target: fx.Constexpr):
    """A thread quantises one group of 32: a power of two not below max|x| / Qmax, then x divided by it."""
    thread, first = fx.thread_idx.x, fx.Int64(fx.block_idx.x) * THREADS
    count = fx.min(groups - first, fx.Int64(THREADS))
    source = Buffer(X, fx.BFloat16, first * GROUP, count * GROUP)
    values = []
    for i in fx.range_constexpr(0, GROUP, 8):
        loaded = source.load(thread * GROUP + i, 8).to(fx.Float32)
        for j in fx.range_constexpr(8):
            values.append(loaded[j])
    top = fx.Int32(0)
    for value in values:
        top = fx.max(top, magnitude(value))
    exponent, factor = microscale(top, mode)
    words = pack_micro(values, mode, exponent, factor, target)
    out = Buffer(Y, fx.Int32, first * len(words), count * len(words))
    for i in fx.range_constexpr(0, len(words), 4):
        out.store(thread * len(words) + i, fx.Vector.from_elements(words[i : i + 4], fx.Int32))
    Buffer(Scale, fx.Int8, first, count).store_one(thread, exponent)


@builder
def build_per_1x32_mx_quant_module(n: int, quant_mode: str = "fp4", *, target: Target):
    """``launch(x, y, scale, m, grid_blocks, stream=None)`` on gfx950 and gfx1250.

    x is bf16 (m, n), y packed fp4 (m, n/2) or e4m3fn (m, n) bytes, scale u8 (m, n/32); `grid_blocks` is
    ``ceil(m * n / 32 / 64)``. Scales are ``max|x| / Qmax`` rounded up to a power of two; that of a group with a NaN or
    an infinity is 255, the format's NaN.

    Raises:
        ValueError: the architecture, n or quant_mode is not supported.
    """
    where = "build_per_1x32_mx_quant_module"
    target.require(where, "gfx950", "gfx1250")
    if quant_mode not in MODES:
        raise ValueError(f"{where}: quant_mode must be 'fp4' or 'fp8', got {quant_mode!r}")
    if n < 1 or n % GROUP:
        raise ValueError(f"{where}: n must be a positive multiple of {GROUP}, got {n}")

    @flyc.jit
    def mx_quant(x, y, scale, m: fx.Int32, grid_blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        if grid_blocks > 0:
            _mx_quant_kernel(x, y, scale, fx.Int64(m) * (n // GROUP), quant_mode, target).launch(
                grid=grid_blocks, block=THREADS, stream=stream
            )

    return mx_quant


@flyc.kernel(known_block_size=[SORT_THREADS, 1, 1])
def _scale_sort_kernel(scale, sorted_ids, num_valid, out_scale, tokens: fx.Int32, columns: fx.Constexpr[int]):
    """32 sorted rows a workgroup: each dword gathers rows r and r + 16 of columns j and j + 4."""
    thread, tile = fx.thread_idx.x, fx.block_idx.x
    valid = pointer(num_valid, fx.Int32).load()
    words = 8 * columns
    if tile * SORT_ROWS < valid:
        ids, last = pointer(sorted_ids, fx.Int32), valid - 1  # blocks of 16 rows may end within the tile
        source = Buffer(scale, fx.Int8, None, fx.Int64(tokens) * columns)
        out = Buffer(out_scale, fx.Int32, fx.Int64(tile) * words, words)
        for i in fx.range_constexpr(0, words, SORT_THREADS):
            at = thread + i
            row, column = mod(at, 16), mod(div(at, 16), 4) + div(at, 64) * 8
            word = fx.Int32(0)
            for half in fx.range_constexpr(2):
                sorted_row = fx.min(tile * SORT_ROWS + row + 16 * half, last)
                token = fx.min((ids + sorted_row).load() & 0xFFFFFF, tokens - 1)
                for k in fx.range_constexpr(2):
                    byte = source.load(token * columns + column + 4 * k, 1)[0].to(fx.Int32) & 0xFF
                    word = word | (byte << (8 * (2 * k + half)))
            out.store_one(at, word)


@builder
def build_mxfp4_moe_scale_sort_module(cols: int, *, target: Target):
    """``launch(scale, sorted_ids, num_valid, out_scale, token_num, grid_tiles, stream=None)``.

    Gathers activation scales u8 (tokens, cols/32) by the low 24 bits of sorted_ids (at most token_num - 1) and stores
    them in the order of ``e8m0_shuffle``. Tiles of 32 rows past num_valid[0] are left alone.

    Raises:
        ValueError: cols/32 is not a multiple of 8, or the architecture is not gfx950.
    """
    where = "build_mxfp4_moe_scale_sort_module"
    target.require(where, "gfx950")
    if cols < 1 or cols % (GROUP * 8):
        raise ValueError(f"{where}: cols must be a multiple of {GROUP * 8}, got {cols}")

    @flyc.jit
    def scale_sort(scale, sorted_ids, num_valid, out_scale, token_num: fx.Int32, grid_tiles: fx.Int32,
                   stream: fx.Stream = fx.Stream(None)):
        if grid_tiles > 0:
            _scale_sort_kernel(scale, sorted_ids, num_valid, out_scale, token_num, cols // GROUP).launch(
                grid=grid_tiles, block=SORT_THREADS, stream=stream
            )

    return scale_sort


def mxfp4_moe_scale_sort(out_scale: Any, scale: Any, sorted_ids: Any, num_valid: Any, token_num: int, cols: int,
                         stream: Any = None) -> None:
    """Device form of ``moe_mxfp4_sort``: fills out_scale (rows of sorted_ids by whole 32, cols/32)."""
    from ..host.arrays import launch

    tiles = -(-sorted_ids.shape[0] // SORT_ROWS)
    run = build_mxfp4_moe_scale_sort_module(cols)
    launch(run, scale, scale, sorted_ids, num_valid, out_scale, token_num, tiles, stream=stream)
