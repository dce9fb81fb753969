"""Scales of blocks of 128 k, in registers of each lane or as products in LDS.

Through LDS they take a fraction of the loads, which counts on gfx950: there the first-level cache is the limit. On
gfx942 the schedule estimated best has them in registers.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..parts.epilogue import FAR
from ..parts.index import cdiv, div, mod
from ..parts.lane import Lane
from ..parts.mainloop import KTile, Staged
from ..parts.matrix import SCALE_BLOCK
from ..parts.memory import Buffer, lds_read, lds_write
from ..parts.reduce import Lds
from ..parts.scales import BlockScales, ScaleLines
from .preshuffle_config import PreshuffleConfig

__all__ = ["SharedScales", "register_scales"]


def buffers(scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any) -> tuple[Buffer, Buffer]:
    """The scales as they are in memory: sa[K/128, M] and sb[N/128, K/128]."""
    blocks = config.k // SCALE_BLOCK
    return (Buffer(scale_a, fx.Float32, None, fx.Int64(m) * blocks),
            Buffer(scale_b, fx.Float32, None, cdiv(config.n, SCALE_BLOCK) * blocks))


def register_scales(scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any,
                    lane: Lane) -> BlockScales:
    """Scales that each lane loads itself: it holds four columns of one row, one scale of A for each."""
    (a, b), blocks, row_of = buffers(scale_a, scale_b, config, m), config.k // SCALE_BLOCK, config.a_tile.row_of
    rows = [row + row_of(0, lane.row) + row_of(mi, 0) for mi in range(0, config.m_repeat, config.apart)]
    strips = [div(column + config.strip(lane.wave, ni) * 16, SCALE_BLOCK) * blocks for ni in config.scale_strips]
    return BlockScales(ScaleLines(a, rows, m, config.apart), ScaleLines(b, strips, 1), config.tile_k // SCALE_BLOCK)


class SharedScales:
    """:class:`~..parts.products.Factors` ``sa[block, row] * sb[column // 128, block]`` of a tile.

    Each thread loads and multiplies few of them, two tiles ahead, and writes them to LDS beside the tile of A. There
    ``[block][column block][row]`` are f32: consecutive rows, whose factors a lane reads at once.
    """

    turns, reads = 0, 1

    def __init__(self, scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any, lane: Lane,
                 memory: Lds) -> None:
        self._config, self._m, self.width = config, m, config.apart
        self._per_tile = config.tile_k // SCALE_BLOCK
        (self._a, self._b), self._blocks = buffers(scale_a, scale_b, config, m), config.k // SCALE_BLOCK
        self._thread = lane.thread
        self._stages = [memory.array(fx.Float32, config.scale_bytes // 4).ptr for _ in range(config.stages)]
        self._places, first = [], div(column, SCALE_BLOCK)
        for i in range(self.loads // 2):
            rest, in_tile = (f(lane.thread + i * config.threads, config.tile_m) for f in (div, mod))
            block, across = div(rest, config.scale_columns), mod(rest, config.scale_columns)
            places = block * m + row + in_tile, (first + across) * self._blocks + block
            if (i + 1) * config.threads > self._per_tile * config.scale_columns * config.tile_m:
                # Threads past the tile's factors read nothing, and write zeros past them.
                places = tuple((block < self._per_tile).select(at, FAR // 4) for at in places)
            self._places.append(places)
        # The column block of each of the wave's strips; one where all surely share it.
        self._across = [div(column + config.strip(lane.wave, ni) * 16, SCALE_BLOCK) - first
                        for ni in config.scale_strips]
        self._row = config.a_tile.row_of(0, lane.row)

    @property
    def source(self) -> Staged:
        """For the main loop: what is needed last is fetched last."""
        return Staged(self, when="turn")

    @property
    def loads(self) -> int:
        """Global loads of a thread for a tile."""
        return self._config.scale_bytes // (4 * self._config.threads) * 2

    def fetch(self, tile: KTile) -> list[Any]:
        """Start loading a thread's scales of a k tile: of a row and of columns, for each factor."""
        first, more = tile.turn * self._per_tile, tile.further * self._per_tile
        pairs = [(self._a.load(a + more * self._m, 1, first * self._m), self._b.load(b + more, 1, first))
                 for a, b in self._places]
        return [value for pair in pairs for value in pair]

    @property
    def writes(self) -> int:
        """Writes to LDS of a thread for a tile."""
        return self.loads // 2

    def commit(self, values: list[Any], stage: int) -> None:
        """Write the factors to LDS."""
        for i in range(0, len(values), 2):
            lds_write(self._stages[stage], self._thread + i // 2 * self._config.threads, values[i] * values[i + 1])

    def of(self, stage: int, block: int, row: int) -> list[Any]:
        """Factors of this lane's rows of fragments `row` to ``row + width - 1`` for each of `scale_strips`."""
        config = self._config
        at = self._row + config.a_tile.row_of(row, 0) + block * config.scale_columns * config.tile_m
        return [lds_read(self._stages[stage], at + across * config.tile_m, self.width) for across in self._across]
