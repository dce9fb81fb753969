"""Scales along k of a grouped product: f32 ones of 128 k behind the matrix instruction, e8m0 ones of 32 k in it."""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.expr as fx

from ..parts.epilogue import FAR
from ..parts.index import align_up, div, mod
from ..parts.lane import Lane
from ..parts.mainloop import KTile
from ..parts.matrix import MICRO_GROUP, MICRO_K, SCALE_BLOCK
from ..parts.memory import Buffer
from ..parts.scales import BlockScales, HeldScales, Microscales, PairedScales, ScaleLines, TileScales
from .config import GroupedConfig
from .rows import TileRows
from .sources import columns_of, strips_of

__all__ = ["block_scales", "microscales"]

PER_SPAN = MICRO_K // MICRO_GROUP  # scales of an instruction


def _share(t: KTile, lane: Lane, config: GroupedConfig) -> KTile:
    """The wave's share of a tile, as a tile of :attr:`GroupedConfig.share_k` of k."""
    return KTile(t.turn * config.k_waves + config.wave_k(lane), t.further * config.k_waves)


def block_scales(rows: TileRows, expert: Any, column: Any) -> BlockScales:
    """Scales of 128 k: one of a row of x for each row tile of a lane, one of 128 rows of w for each strip (one for all
    strips of gate, or of up, where they surely share it)."""
    tensors, lane, config = rows.tensors, rows.lane, rows.config
    count, times, span = config.scales_k, 1, 16 * config.n_repeat
    x = Buffer(tensors["x_scale"], fx.Float32, None, fx.Int64(rows.of_x) * count)
    w = Buffer(tensors["w_scale"], fx.Float32, fx.Int64(expert) * config.expert_scales, config.expert_scales)
    # From a row to the next, and from a block.
    along, further = (1, rows.of_x) if config.turned_scales else (count, 1)
    columns = columns_of(column, lane, config)
    if config.adjoining and SCALE_BLOCK % span == config.n * (config.streams - 1) % span == 0:
        columns, times = columns[:1], config.n_repeat
    of_x = [(row < rows.of_x).select(row * along, FAR // 4) for row in rows.sources]
    of_w = [div(at + s * config.n, SCALE_BLOCK) * count for at in columns for s in range(config.streams)]
    return BlockScales(ScaleLines(x, of_x, further), ScaleLines(w, of_w, 1), config.share_k // SCALE_BLOCK, times,
                       config.scale_tiles, partial(_share, lane=lane, config=config))


def _element(config: GroupedConfig) -> tuple[Any, int]:
    """What a lane loads of the scales of 128 k of a row: the byte of its lane group, or the word of all four."""
    return (fx.Int8, 1) if config.target.matrix == "mfma" else (fx.Int32, PER_SPAN)


def _scales_of_x(rows: TileRows, inside: Any) -> Microscales:
    data, config = rows.tensors["x_scale"], rows.config
    if config.scale_one:
        return Microscales(config.m_repeat)
    if config.x_scales == "words":
        return PairedScales(data, 0, align_up(config.scales_k, 8), rows.total,
                            [rows.first + config.wave_place(rows.lane)[0]], config.m_repeat,
                            config.m_repeat % 2 == 0, rows.lane, config.share_k)
    element, unit = _element(config)
    along = config.scales_k // unit
    places = [(source < rows.of_x).select(source * along, FAR // 4) + inside for source in rows.sources]
    return TileScales(Buffer(data, element, None, fx.Int64(rows.of_x) * along), places, PER_SPAN // unit,
                      config.share_k)


def _scales_of_w(data: Any, expert: Any, column: Any, lane: Lane, config: GroupedConfig, inside: Any) -> Microscales:
    element, unit = _element(config)
    if config.w_scales == "words" and unit == 1:
        width, first = align_up(config.scales_k, 8), columns_of(column, lane, config)[0]
        start, apart = fx.Int64(expert) * config.expert_scales, config.strips == "halves"
        firsts = [first + s * config.n for s in range(config.streams)] if apart else [first * config.streams]
        tiles = config.n_repeat * config.streams // len(firsts)
        return PairedScales(data, start, width, config.rows_b, firsts, tiles, tiles % 2 == 0, lane, config.share_k)
    count, strips = config.expert_scales // unit, strips_of(column, lane, config)
    buffer = Buffer(data, element, fx.Int64(expert) * count, count)
    if config.w_scales == "words":  # of 32 rows, the words of 128 k lie together
        along = config.scales_k // PER_SPAN * 32
        places, step = [div(strip, 2) * along + mod(strip, 2) * 16 + lane.row for strip in strips], 32
    else:
        places = [strip * (16 * config.scales_k // unit) + lane.row * (PER_SPAN // unit) + inside for strip in strips]
        step = 16 * PER_SPAN // unit
    return TileScales(buffer, places, step, config.share_k)


def microscales(rows: TileRows, expert: Any, column: Any, number: int) -> HeldScales:
    """e8m0 scales of 32 k, as source `number` of the main loop."""
    lane, config = rows.lane, rows.config
    inside = lane.group if config.target.matrix == "mfma" else 0
    sides = _scales_of_x(rows, inside), _scales_of_w(rows.tensors["w_scale"], expert, column, lane, config, inside)
    return HeldScales(sides, lambda held: held[number], partial(_share, lane=lane, config=config))
