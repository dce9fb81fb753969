"""Scales along k of a grouped product: f32 ones of 128 k behind the matrix instruction, e8m0 ones of 32 k in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..parts.epilogue import FAR
from ..parts.index import align_up, div, mod
from ..parts.lane import Lane
from ..parts.mainloop import Held, KTile
from ..parts.matrix import MICRO_GROUP, MICRO_K, SCALE_BLOCK
from ..parts.memory import Buffer
from ..parts.scales import BlockScales, PairedScales, ScaleLines
from .config import GroupedConfig
from .rows import TileRows
from .sources import columns_of, strips_of, wave_k

__all__ = ["block_scales", "microscales"]

PER_SPAN = MICRO_K // MICRO_GROUP  # scales of an instruction
ONE = 127  # the scale of 1


def _share(t: KTile, lane: Lane, config: GroupedConfig) -> KTile:
    """The wave's share of a tile, as a tile of :attr:`GroupedConfig.share_k` of k."""
    return KTile(t.turn * config.k_waves + wave_k(lane.wave, config), t.further * config.k_waves)


def block_scales(rows: TileRows, expert: Any, column: Any) -> BlockScales:
    """Scales of 128 k: one of a row of x for each row tile of a lane, one of 128 rows of w for each strip (one for all
    strips of gate, or of up, where they surely share it)."""
    tensors, lane, config = rows.tensors, rows.lane, rows.config
    count, times, span = config.scales_k, 1, 16 * config.n_repeat
    x = Buffer(tensors["x_scale"], fx.Float32, None, fx.Int64(rows.of_x) * count)
    w = Buffer(tensors["w_scale"], fx.Float32, fx.Int64(expert) * config.expert_scales, config.expert_scales)
    # From a row to the next, and from a block.
    along, further = (1, rows.of_x) if config.turned_scales else (count, 1)
    columns = columns_of(column, lane.wave, config)
    if config.adjoining and SCALE_BLOCK % span == config.n * (config.streams - 1) % span == 0:
        columns, times = columns[:1], config.n_repeat
    of_x = [(row < rows.of_x).select(row * along, FAR // 4) for row in rows.sources]
    of_w = [div(at + s * config.n, SCALE_BLOCK) * count for at in columns for s in range(config.streams)]
    return BlockScales(ScaleLines(x, of_x, further), ScaleLines(w, of_w, 1), config.share_k // SCALE_BLOCK, times,
                       config.scale_tiles, partial(_share, lane=lane, config=config))


@dataclass(frozen=True)
class _Side:
    """Microscales of the rows or of the columns of a wave.

    Attributes:
        loads: ``loads(t)``: of a tile of k.
        fetch: ``fetch(t, before)`` starts loading those of a tile.
        of: ``of(t, held, call)``: (word, number of its byte or half of the lanes) of each tile of rows, for 128 k.
    """

    loads: Callable[[KTile], int]
    fetch: Callable[[KTile, Any], Any]
    of: Callable[[KTile, Any, int], list[tuple[Any, int]]]


def _elements(buffer: Buffer, places: list[Any], step: int, config: GroupedConfig) -> _Side:
    """Tiles of 16 rows, an element a lane and 128 k: the scaled MFMA takes the byte of its lane group from each lane,
    the scaled WMMA all four of 128 k in a word.

    Args:
        places: element of each tile's rows for the first 128 k; `step` to the next.
    """
    steps = config.share_k // MICRO_K

    def word(element: Any) -> Any:
        return element.to(fx.Uint8).to(fx.Int32) if buffer.element is fx.Int8 else element

    return _Side(lambda t: len(places) * steps,
                 lambda t, _: [[buffer.load(at + i * step, 1, t.index * (steps * step))[0] for i in range(steps)]
                               for at in places],
                 lambda t, held, call: [(word(v[call]), 0) for v in held])


def _words(sides: list[PairedScales], tile_k: int) -> _Side:
    """The words of ``e8m0_shuffle``, of 256 k: loaded where a tile begins them, and kept for the next.

    Args:
        sides: of gate and up where they are apart; their tiles take turns.
    """
    tiles = 2 * MICRO_K // tile_k

    def fetch(t: KTile, before: Any) -> Any:
        if t.further % tiles:
            return before
        return [[side.fetch(i, t, tiles) for i in range(side.loads)] for side in sides]

    def of(t: KTile, held: Any, call: int) -> list[tuple[Any, int]]:
        half = t.further % tiles if tiles == 2 else call
        parts = [side.of(words, half) for side, words in zip(sides, held, strict=True)]
        return [word for words in zip(*parts, strict=True) for word in words]

    return _Side(lambda t: 0 if t.further % tiles else sum(side.loads for side in sides), fetch, of)


def _element(config: GroupedConfig) -> tuple[Any, int]:
    """What a lane loads of the scales of 128 k of a row: the byte of its lane group, or the word of all four."""
    return (fx.Int8, 1) if config.target.matrix == "mfma" else (fx.Int32, PER_SPAN)


def _scales_of_x(rows: TileRows, inside: Any) -> _Side:
    data, config = rows.tensors["x_scale"], rows.config
    if config.scale_one:
        one = [(fx.Int32(ONE * 0x01010101), 0)] * config.m_repeat
        return _Side(lambda t: 0, lambda t, _: [], lambda t, held, call: one)
    if config.x_scales == "words":
        return _words([PairedScales(data, 0, align_up(config.scales_k, 8), rows.total, rows.first, config.m_repeat,
                                    config.block_m % 32 == 0, rows.lane)], config.share_k)
    element, unit = _element(config)
    along = config.scales_k // unit
    return _elements(Buffer(data, element, None, fx.Int64(rows.of_x) * along),
                     [(source < rows.of_x).select(source * along, FAR // 4) + inside for source in rows.sources],
                     PER_SPAN // unit, config)


def _scales_of_w(data: Any, expert: Any, column: Any, lane: Lane, config: GroupedConfig, inside: Any) -> _Side:
    element, unit = _element(config)
    if config.w_scales == "words" and unit == 1:
        width, first = align_up(config.scales_k, 8), columns_of(column, lane.wave, config)[0]
        start, apart = fx.Int64(expert) * config.expert_scales, config.strips == "halves"
        firsts = [first + s * config.n for s in range(config.streams)] if apart else [first * config.streams]
        tiles = config.n_repeat * config.streams // len(firsts)
        return _words([PairedScales(data, start, width, config.rows_b, at, tiles, tiles % 2 == 0, lane)
                       for at in firsts], config.share_k)
    count, strips = config.expert_scales // unit, strips_of(column, lane.wave, config)
    buffer = Buffer(data, element, fx.Int64(expert) * count, count)
    if config.w_scales == "words":  # of 32 rows, the words of 128 k lie together
        along = config.scales_k // PER_SPAN * 32
        return _elements(buffer, [div(strip, 2) * along + mod(strip, 2) * 16 + lane.row for strip in strips], 32,
                         config)
    return _elements(buffer, [strip * (16 * config.scales_k // unit) + lane.row * (PER_SPAN // unit) + inside
                              for strip in strips], 16 * PER_SPAN // unit, config)


def microscales(rows: TileRows, expert: Any, column: Any) -> tuple[Held, Any]:
    """e8m0 scales of 32 k: what loads them, and ``scales(t, held)`` of :class:`TileProducts`."""
    lane, config = rows.lane, rows.config
    inside = lane.group if config.target.matrix == "mfma" else 0
    sides = _scales_of_x(rows, inside), _scales_of_w(rows.tensors["w_scale"], expert, column, lane, config, inside)

    def fetch(t: KTile, before: Any) -> list[Any]:
        return [side.fetch(_share(t, lane, config), before and before[i]) for i, side in enumerate(sides)]

    def scales(t: KTile, held: list[Any]) -> Any:
        return lambda call: tuple(side.of(t, part, call) for side, part in zip(sides, held[1], strict=True))

    return Held(fetch, lambda t: sum(side.loads(t) for side in sides)), scales
