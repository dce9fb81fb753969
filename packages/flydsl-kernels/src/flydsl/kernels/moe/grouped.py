"""The grouped product: sorted rows of x, gathered through LDS, times the weights of their expert, from registers.

Four waves lie along the columns and interleave strips of 16. The matrix instruction gets the weights first, so that a
lane holds consecutive columns of one row: what belongs to a row (its place, routing weight and scale) is one value a
lane and tile. With `gated`, a wave has the strips of gate and up of the same columns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..gemm.block_scales import BlockScaledProducts
from ..gemm.dense_kernel import add_wave_slices
from ..parts.index import div, mod, xcd_remap_bx_by
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import MainLoop, Staged
from ..parts.memory import Buffer
from ..parts.operand import Rows
from ..parts.products import TileProducts
from ..parts.reduce import Lds
from ..parts.schedule import Tally, hot_loop_schedule
from .config import GroupedConfig
from .finish import PAST, TOKEN, finish, source_of, uniform
from .scales import BlockScales, Shape, microscales
from .sources import Weights, WideRows

__all__ = ["compute_tile", "grouped_kernel", "launch_grouped"]

STAGES = 2  # of x in LDS
SUMS_DELAY = 1  # matrix instructions of a tile before sums of blocks are added


def products_of(tensors: dict[str, Any], row_of: Any, rows: Any, row: Any, sorted_rows: Any, expert: Any, column: Any,
                lane: Lane, config: GroupedConfig, memory: Lds) -> tuple[MainLoop, Any]:
    """The loop over k, of sources and products of the configuration's format, and a stage of LDS that is free after
    it."""
    op, tally, scales = config.op, Tally(), None
    words = config.a_tile.words
    if config.k_waves == 1:
        stages = [memory.array(fx.Int32, words).ptr for _ in range(STAGES)]
    else:
        stages = [memory.array(fx.Int32, config.lds_bytes // 4).ptr]
        stages.append(stages[0] + words)
    if config.wide:
        x: Any = WideRows(tensors["x"], stages, lane, rows, row_of, config)
    else:
        x = Rows(tensors["x"], config.a_tile, stages, lane, rows_total=rows, row_bytes=config.a_row_words * 4,
                 row_of=row_of, ragged=config.ragged)
    w = Weights(tensors, expert, column, lane, config)
    sources: list[Any] = [w.source, Staged(x)]
    fragments, n_tiles = x.reader(lane, 0, op.groups), config.n_repeat * config.streams
    kind, first = config.format.scales, wave_k(lane, config) * config.blocks if config.k_waves > 1 else 0
    order: Any = hot_loop_schedule
    if kind in ("blocks", "micro"):
        taken = [row_of(mi * 16 + lane.row) for mi in range(config.m_repeat)]
    if kind == "micro":
        held, scales = microscales(tensors, expert, taken, rows, row, sorted_rows, column, lane, config)
        sources.insert(1, held)
    if kind == "blocks":
        blocks = BlockScales(tensors, expert, taken, rows, column, lane, config)
        sources.insert(1, blocks.source)
        order = partial(order, beside=op.blocks, delay=SUMS_DELAY)
        products: Any = BlockScaledProducts(Shape(op, config.m_repeat, n_tiles, config.blocks), tally, fragments,
                                            w.of_b, blocks, first)
    else:
        products = TileProducts(op, tally, config.m_repeat, n_tiles, config.blocks // op.blocks, fragments, w.of_b,
                                scales=scales, converts=w.converts, first_block=first)
    begin = fx.block_idx.y * config.k_tiles if config.k_batch > 1 else 0
    loop = MainLoop(config.k_tiles, STAGES, sources, products, tally, max(STAGES, config.scale_tiles),
                    (partial(order, early_writes=True), order), begin=begin)
    return loop, stages[0]


def wave_k(lane: Lane, config: GroupedConfig) -> Any:
    """Which share of a tile's k the wave has."""
    return div(lane.wave, config.n_waves)


@flyc.jit
def compute_tile(tensors, tokens, sorted_rows, row, expert, column, config, memory=None):
    """The tile of an expert's product from row `row` and column `column`. `memory` is the kernel's LDS, where other
    parts of the kernel have some."""
    lane, names = lane_of(config.wave, scalar=True), None
    rows = {"slot": tokens * config.topk, "slots": tokens * config.topk, "sorted": sorted_rows}.get(
        config.source, tokens)
    if fx.const_expr(config.routed):
        names = Buffer(tensors["rows"], fx.Int32, None, sorted_rows)

    def row_of(inside):
        source = row + inside
        if fx.const_expr(config.routed):
            if fx.const_expr(config.tile_rows > config.block_m):  # behind the last block there may be no names
                source = row + fx.min(inside, config.block_m - 1)
            name = names.load(source, 1)[0]
            source = source_of(source, name & TOKEN, (name >> 24) & 0xFF, tokens, config)
        if fx.const_expr(config.tile_rows > config.block_m):
            source = (inside < config.block_m).select(source, PAST)
        return source

    loop, free = products_of(tensors, row_of, rows, row, sorted_rows, expert, column, lane, config,
                             Lds() if memory is None else memory)
    with fx.fastmath("contract"):
        acc = loop.run()
        acc = acc[0] if fx.const_expr(config.format.scales == "blocks") else acc
        acc = add_wave_slices(acc, free, config, config.op, wave_k(lane, config), lane)
        if fx.const_expr(config.k_waves == 1):
            finish(tensors, acc, config, expert, tokens, row, names, column, lane)
        elif wave_k(lane, config) == 0:
            finish(tensors, acc, config, expert, tokens, row, names, column, lane)


def _remapped(rows: Any, config: GroupedConfig) -> tuple[Any, Any]:
    """(block of rows, of columns) of this workgroup such that dies have neighbours; past the rows where there is no
    such tile."""
    linear, (tile_m, tile_n) = fx.block_idx.x, (config.block_m, config.block_n)
    block, column = xcd_remap_bx_by(linear, 0, rows, tile_m=tile_m, tile_n=tile_n, N=config.columns * tile_n,
                                    xcd_swizzle=config.group)
    exists = linear < fx.ceildiv(rows, tile_m) * config.columns
    return exists.select(block, fx.ceildiv(rows, tile_m)), exists.select(column, 0)


@flyc.kernel
def grouped_kernel(tensors, tokens: fx.Int32, sorted_rows: fx.Int32, config: fx.Constexpr):
    """A workgroup computes `block_m` rows of one expert and `block_n` columns."""
    block, column = div(fx.block_idx.x, config.columns), mod(fx.block_idx.x, config.columns)
    sort_block = config.sort_block or config.block_m
    if fx.const_expr(config.routed):
        valid = uniform(Buffer(tensors["valid"], fx.Int32, None, 2).load(0, 1)[0])
    elif fx.const_expr(config.group > 0):
        valid = tokens
    if fx.const_expr(config.group > 0):  # dies are dealt the blocks that exist
        block, column = _remapped(valid, config)
    row, column = block * config.block_m, column * config.block_n
    if fx.const_expr(config.routed):
        if row < valid:
            experts = Buffer(tensors["experts"], fx.Int32, None, fx.ceildiv(sorted_rows, sort_block))
            expert = uniform(experts.load(div(row, sort_block), 1)[0])
            compute_tile(tensors, tokens, sorted_rows, row, expert, column, config)
    else:
        compute_tile(tensors, tokens, sorted_rows, row, fx.Int32(0), column, config)


def launch_grouped(tensors: dict[str, Any], tokens: Any, blocks: Any, sorted_rows: Any, config: GroupedConfig,
                   stream: Any) -> None:
    """From a jit function: the products of `blocks` blocks of rows.

    Args:
        tensors: x, w, out; of routed rows also rows, experts, valid (of sorting), and as configured weights (sorted),
            bias f32[E, rows of w], out_scale, and x_scale and w_scale.
    """
    config.target.require_traced()
    grouped_kernel(tensors, tokens, sorted_rows, config).launch(
        grid=config.grid(blocks), block=config.threads, stream=stream)
