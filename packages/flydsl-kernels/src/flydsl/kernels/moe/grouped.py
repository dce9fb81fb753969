"""The grouped product: sorted rows of x, gathered through LDS, times the weights of their expert, from registers.

Four waves lie along the columns and interleave strips of 16, or share k. Few rows come straight to registers: nothing
then waits for LDS or another wave before the sums, and what is on its way covers the latency of memory. The matrix
instruction gets the weights first, so that a lane holds consecutive columns of one row: what belongs to a row (its
place, routing weight and scale) is one value a lane and tile. With `gated`, a wave has the strips of gate and up of the
same columns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import require_dense, require_operands
from ..parts.grid import add_wave_slices, block_of
from ..parts.index import div, mod
from ..parts.indices import uniform
from ..parts.lane import lane_of
from ..parts.mainloop import SPLIT_BARRIER, WHOLE_BARRIER, MainLoop, Staged
from ..parts.memory import WORDS, addresses_here, pointer
from ..parts.operand import Rows, WideRows
from ..parts.products import BlockScaledProducts, TileProducts
from ..parts.reduce import Lds
from ..parts.schedule import Tally, hot_loop_schedule
from ..parts.tensor_tile import GatheredRows
from .config import FEW, GroupedConfig
from .finish import TileColumns, finish
from .rows import TileRows
from .scales import block_scales, microscales
from .sources import DirectRows, Weights

__all__ = ["compute_tile", "grouped_kernel", "launch_grouped"]

SUMS_DELAY = 1  # matrix instructions of a tile before sums of blocks are added
LOADS_TOGETHER = 16  # where these sums are in banks of registers, of which loads need another


def staged_rows(rows: TileRows, stages: list[Any]) -> Rows:
    """The rows of x, which come to LDS by way of registers."""
    config = rows.config
    kind = WideRows if config.wide else Rows
    return kind(rows.tensors["x"], config.a_tile, stages, rows.lane, rows_total=rows.of_x,
                row_bytes=config.a_row_words * 4, row_of=rows.source, ragged=config.ragged,
                place=lambda place: config.chunk_at(place) * WORDS)


def products_of(rows: TileRows, expert: Any, column: Any, stages: list[Any]) -> MainLoop:
    """The loop over k, of sources and products of the configuration's format."""
    tensors, lane, config = rows.tensors, rows.lane, rows.config
    op, tally, scales = config.op, Tally(), None
    w = Weights(tensors, expert, column, lane, config)
    sources: list[Any] = [w.source]
    kind, first = config.format.scales, 0
    order: Any = hot_loop_schedule
    if kind == "micro":
        held = microscales(rows, expert, column, len(sources))
        sources.append(held.source)
        scales = held.of
    elif kind == "blocks":
        blocks = block_scales(rows, expert, column)
        sources.append(blocks.source)
        order = partial(order, beside=op.blocks, delay=SUMS_DELAY, together=LOADS_TOGETHER if config.gathers else 1)
    if config.direct:
        direct = DirectRows(rows, len(sources))
        fragments = direct.fragments
        sources.append(direct.source)
    elif config.gathers:
        moved = GatheredRows(config.a_tile, pointer(tensors["x"], fx.Int32), rows.of_x, config.a_row_words * 4,
                             rows.source, stages[0], config.stages, config.waves, lane)
        fragments = moved.fragments(lane, config.wave_place(lane)[0], config.spread)
        sources.append(moved.source)
    else:
        x = staged_rows(rows, stages)
        fragments = x.reader(lane, 0, op.groups)
        sources.append(Staged(x))
        first = config.wave_k(lane) * config.blocks
    wave = op, tally, config.m_repeat, config.n_tiles, config.blocks // op.blocks, fragments, w.fragments
    products: Any = (BlockScaledProducts(*wave, blocks, first, config.gathers) if kind == "blocks" else
                     TileProducts(*wave, scales=scales, first_block=first))
    begin = fx.block_idx.y * config.k_tiles if config.k_batch > 1 else 0
    return MainLoop(config.k_tiles, config.stages, sources, products, tally, max(config.stages, config.scale_tiles),
                    (partial(order, early_writes=True), order), begin=begin, loads_first=config.direct,
                    barrier=SPLIT_BARRIER if config.gathers else WHOLE_BARRIER)


@flyc.jit
def compute_tile(tensors, tokens, sorted_rows, row, expert, column, config, memory=None):
    """The tile of an expert's product from row `row` and column `column`. `memory` is the kernel's LDS, where other
    parts of the kernel have some."""
    lane, stages = lane_of(config.wave, scalar=True), config.stages_in(Lds() if memory is None else memory)
    rows = TileRows(tensors, tokens, sorted_rows, row, lane, config)
    columns: Any = None
    if fx.const_expr(config.m_repeat <= FEW):  # asked for before the products
        columns = TileColumns(tensors, expert, column, lane, config)
    loop = products_of(rows, expert, column, stages)
    with fx.fastmath("contract"):
        acc = loop.run()
        acc = acc[0] if fx.const_expr(config.format.scales == "blocks") else acc
        columns = columns or TileColumns(tensors, expert, column, lane, config)
        share = config.wave_k(lane)
        if fx.const_expr(config.k_waves > 1):
            acc = add_wave_slices(acc, stages[0], config, share, lane, len(acc) // len(config.pieces))
        finish(rows, columns, acc, share)


def _remapped(rows: Any, config: GroupedConfig) -> tuple[Any, Any]:
    """(block of rows, of columns) of this workgroup such that dies have neighbours; past the rows where there is no
    such tile."""
    linear, blocks = fx.block_idx.x, fx.ceildiv(rows, config.tile_m)
    block, column = block_of(linear, 0, blocks, config.columns, config.group)
    exists = linear < blocks * config.columns
    return exists.select(block, blocks), exists.select(column, 0)


@flyc.kernel
def grouped_kernel(tensors, tokens: fx.Int32, sorted_rows: fx.Int32, config: fx.Constexpr):
    """A workgroup computes `tile_m` rows of one expert and `tile_n` columns."""
    block, column = div(fx.block_idx.x, config.columns), mod(fx.block_idx.x, config.columns)
    sort_block = config.sort_block or config.tile_m
    if fx.const_expr(config.routed):
        if fx.const_expr(config.target.matrix == "mfma"):  # on gfx1250 it costs waves, more than it saves
            addresses_here(tensors.values())
        valid = uniform(fx.generic_load(pointer(tensors["valid"], fx.Int32), invariant=True))
    elif fx.const_expr(config.group > 0):
        valid = tokens
    if fx.const_expr(config.group > 0):  # dies are dealt the blocks that exist
        block, column = _remapped(valid, config)
    row, column = block * config.tile_m, column * config.tile_n
    if fx.const_expr(config.routed):
        last = fx.ceildiv(sorted_rows, sort_block) - 1
        number = pointer(tensors["experts"], fx.Int32) + fx.min(div(row, sort_block), last)
        expert = uniform(fx.generic_load(number, invariant=True))
        if row < valid:
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
    require_dense(tensors)
    require_operands(tensors, config.extents(tokens, sorted_rows))
    grouped_kernel(tensors, tokens, sorted_rows, config, value_attrs=config.hints).launch(
        grid=config.grid(blocks), block=config.threads, stream=stream)
