"""What a grouped product takes of each tile of k straight to registers: few rows of x, and the weights of an expert."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import element_of
from ..parts.convert import conversion_cost, dequantised, int4_chunk
from ..parts.epilogue import FAR
from ..parts.index import align_up, div, mod
from ..parts.lane import Lane
from ..parts.mainloop import Held, KTile
from ..parts.memory import WORDS, Buffer
from ..parts.operand import Fragments, Shuffled
from .config import GroupedConfig
from .rows import TileRows

__all__ = ["DirectRows", "Weights", "columns_of", "strips_of"]


def columns_of(column: Any, lane: Lane, config: GroupedConfig) -> list[Any]:
    """First columns of the 16-column strips of a wave."""
    _, wave = config.wave_of(lane)
    first, step = (wave * config.n_repeat, 1) if config.adjoining else (wave, config.n_waves)
    return [column + (first + ni * step) * 16 for ni in range(config.n_repeat)]


def strips_of(column: Any, lane: Lane, config: GroupedConfig) -> list[Any]:
    """Numbers of the 16-row strips of the expert's weight that a wave has: ``ni * streams + stream``."""
    up, strips = align_up(config.n, 16) // 16, [div(at, 16) for at in columns_of(column, lane, config)]
    if config.strips == "halves":
        return [strip + up * s for strip in strips for s in range(config.streams)]
    return [strip * config.streams + s for strip in strips for s in range(config.streams)]


class DirectRows:
    """Few rows of any place in x, straight to registers: fragments of the wave's share of k.

    Args:
        number: of this source among those whose tiles are held.
    """

    def __init__(self, rows: TileRows, number: int) -> None:
        config, lane = rows.config, rows.lane
        self._config, self._number, words = config, number, config.a_row_words
        self._buffer = Buffer(rows.tensors["x"], fx.Int32, None, fx.Int64(rows.of_x) * words)
        self._starts = [(source < rows.of_x).select(source * words, FAR // 4) for source in rows.sources]
        groups = config.op.groups
        # Of the chunks for one load of packed weights, a lane has neighbours.
        self._chunk = mod(lane.group, groups) * config.spread + config.wave_k(lane) * (config.blocks * groups)
        self._places = [i % config.spread + i // config.spread * config.spread * groups for i in range(config.blocks)]
        self.source = Held(lambda t, _: self._fetch(t), len(self._starts) * config.blocks)

    def _fetch(self, t: KTile) -> list[Any]:
        """Start loading a tile, ``[row tile][chunk]``; zeros past the end of a row."""
        config, words = self._config, self._config.row_bytes // 4
        near, far = t.further * words, t.turn * words
        if not config.ragged:
            return [[self._buffer.load(start + (self._chunk + place) * WORDS + near, WORDS, far)
                     for place in self._places] for start in self._starts]
        inside = [(self._chunk + place) * WORDS + near + far for place in self._places]
        return [[self._buffer.load((at < config.a_row_words).select(start + at, FAR // 4), WORDS) for at in inside]
                for start in self._starts]

    @property
    def fragments(self) -> Fragments:
        """Of what is held."""
        return Fragments(lambda held, tile, block: held[self._number][tile][block], reads=0)


class Weights:
    """Fragments of the weight of an expert, in registers; with its scales of groups of 32 k, one for each load."""

    def __init__(self, tensors: dict[str, Any], expert: Any, column: Any, lane: Lane, config: GroupedConfig) -> None:
        self._config, self._count = config, config.b_blocks // config.k_waves  # of the wave
        share = config.wave_k(lane)
        strips = strips_of(column, lane, config)
        common: dict[str, Any] = dict(column=0, tile_strips=config.rows_b // 16, strips=strips, lanes=config.wave)
        self._data = Shuffled(tensors["w"], lane, strip_words=config.strip_words, blocks=config.b_blocks,
                              chunk_words=config.load_words, cache=config.cache, share=share, shares=config.k_waves,
                              start=fx.Int64(expert) * (config.expert_words * 4), **common)
        self._grouped = config.format.scales == "groups"
        if self._grouped:
            count = config.expert_scales
            self._scales = Buffer(tensors["w_scale"], element_of(config.scale), fx.Int64(expert) * count, count)
            self._places = [self._scale_place(strip, lane) + self._scales_past(share * self._count) for strip in strips]
        loads = self._data.loads
        self.source = Held(lambda t, _: self._fetch(t), 2 * loads if self._grouped else loads)

    def _scale_place(self, strip: Any, lane: Lane) -> Any:
        """The element of the scales that a lane has of a strip, for its first load."""
        config, row = self._config, strip * 16 + lane.row
        group = lane.group if config.lane_k == 32 else div(lane.group, 2)
        words = div(strip, 2) * (32 * align_up(config.scales_k, 8)) + lane.lane * 4 + mod(strip, 2)
        return {"strips": strip * (16 * config.scales_k) + lane.lane, "rows": row * config.scales_k + group, "row": row,
                "pairs": row * 2 + group, "words": words}[config.w_scales]

    def _scales_past(self, loads: Any) -> Any:
        """Elements of the scales that are before those of a load, of all loads of a strip."""
        config = self._config
        if config.w_scales == "words":  # a word has two blocks of 128 k
            return div(loads, 2) * 256 + mod(loads, 2) * 2
        return loads * {"strips": config.wave, "rows": config.lane_k // 8, "pairs": 2 * config.rows_b, "row": 0}[
            config.w_scales]

    def _scale_further(self, t: KTile, load: int) -> tuple[int, Any]:
        """Elements from there to those of a load of a tile: a constant, and what all lanes share."""
        count = self._config.b_blocks  # of all waves
        if self._config.w_scales == "words":
            return self._scales_past(t.further * count + load), t.turn * (count * 128)
        return self._scales_past(load), t.index * self._scales_past(count)

    def _fetch(self, t: KTile) -> list[Any]:
        """``[strip][load]`` of the words, and the scale if there is one."""
        words = self._data.fetch(t)
        if not self._grouped:
            return [[[word] for word in strip] for strip in words]
        further = [self._scale_further(t, i) for i in range(self._count)]
        return [[[word, self._scales.load(place + near, 1, far)[0]] for word, (near, far) in
                 zip(strip, further, strict=True)] for place, strip in zip(self._places, words, strict=True)]

    @property
    def fragments(self) -> Fragments:
        """Of the first of what is held."""
        return Fragments(lambda held, strip, block: self._chunk(held[0][strip], block), 0, self._converts,
                         self._config.target.matrix == "mfma")

    @property
    def _converts(self) -> int:
        """Vector instructions for the chunks of a call, about; 0 where they are as they were loaded."""
        config, chunks = self._config, self._config.op.b_blocks
        # gfx1250 converts fp4 in one instruction; int4 of a tile at once would leave no registers for 256 rows.
        ahead = config.target.matrix == "mfma" or (config.gathers and self._grouped and config.format.b != "fp4")
        if config.format.b is None or config.format.scales == "micro" or not ahead:
            return 0
        if not self._grouped:
            return 5 * chunks
        return conversion_cost(config.format.b, config.target) * chunks

    def _chunk(self, loads: list[Any], block: int) -> Any:
        config = self._config
        words, *scales = loads[block // config.spread]
        if config.format.b is None or config.format.scales == "micro":
            return words
        if not scales:
            return int4_chunk(words)
        return dequantised(words[block % config.spread], config.format.b, scales[0], config.scale, config.dtype,
                           config.target)
