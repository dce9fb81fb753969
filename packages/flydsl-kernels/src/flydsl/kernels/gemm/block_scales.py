"""Scales of blocks of 128 k, in registers of each lane or as products in LDS.

Through LDS they take a fraction of the loads, which counts on gfx950: there the first-level cache is the limit. On
gfx942 the schedule estimated best has them in registers.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..parts.epilogue import FAR
from ..parts.index import div, mod
from ..parts.memory import Buffer, lds_read, lds_write
from ..parts.reduce import Lds
from .config import SCALE_BLOCK, PreshuffleConfig
from .schedule import Tally
from .tiles import KTile

__all__ = ["RegisterScales", "SharedScales"]


class SharedScales:
    """Factors ``sa[block, row] * sb[column // 128, block]`` of a tile, for sa[K/128, M] and sb[N/128, K/128].

    Each thread loads and multiplies few of them, two tiles ahead, and writes them to LDS beside the tile of A. There
    ``[block][column block][row]`` are f32: consecutive rows, whose factors a lane reads at once.
    """

    def __init__(self, scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any, wave: Any,
                 lane_row: Any, thread: Any, memory: Lds, tally: Tally) -> None:
        self._config, self._m, self._tally, self._thread = config, m, tally, thread
        self._blocks, self._per_tile = config.k // SCALE_BLOCK, config.tile_k // SCALE_BLOCK
        self._a = Buffer(scale_a, fx.Float32, None, fx.Int64(m) * self._blocks)
        self._b = Buffer(scale_b, fx.Float32, None, -(-config.n // SCALE_BLOCK) * self._blocks)
        self._stages = [memory.array(fx.Float32, config.scale_bytes // 4).ptr for _ in range(config.stages)]
        self._places, first = [], div(column, SCALE_BLOCK)
        for i in range(self.loads // 2):
            rest, in_tile = (f(thread + i * config.threads, config.tile_m) for f in (div, mod))
            block, across = div(rest, config.scale_columns), mod(rest, config.scale_columns)
            places = block * m + row + in_tile, (first + across) * self._blocks + block
            if (i + 1) * config.threads > self._per_tile * config.scale_columns * config.tile_m:
                # Threads past the tile's factors read nothing, and write zeros past them.
                places = tuple((block < self._per_tile).select(at, FAR // 4) for at in places)
            self._places.append(places)
        # The column block of each of the wave's strips; one where all surely share it.
        self._across = [div(column + config.strip(wave, ni) * 16, SCALE_BLOCK) - first for ni in config.scale_strips]
        self._row = config.tile_row(0, lane_row)

    @property
    def loads(self) -> int:
        """Global loads of a thread for a tile."""
        return self._config.scale_bytes // (4 * self._config.threads) * 2

    def fetch(self, tile: KTile) -> list[Any]:
        """Start loading a thread's scales of a k tile: of a row and of columns, for each factor."""
        self._tally.add("vmem", self.loads)
        first, more = tile.turn * self._per_tile, tile.further * self._per_tile
        pairs = [(self._a.load(a + more * self._m, 1, first * self._m), self._b.load(b + more, 1, first))
                 for a, b in self._places]
        return [value for pair in pairs for value in pair]

    def commit(self, values: list[Any], stage: int) -> None:
        """Write the factors to LDS."""
        for i in range(0, len(values), 2):
            lds_write(self._stages[stage], self._thread + i // 2 * self._config.threads, values[i] * values[i + 1])
        self._tally.add("ds_write", self.loads // 2)

    def read(self, stage: int, block: int, mi: int) -> list[Any]:
        """Factors of this lane's rows of fragments `mi` to ``mi + apart - 1`` for each of `scale_strips`."""
        config = self._config
        at = self._row + config.tile_row(mi, 0) + block * config.scale_columns * config.tile_m
        self._tally.add("ds_read", len(self._across))
        return [lds_read(self._stages[stage], at + across * config.tile_m, config.apart) for across in self._across]


class RegisterScales:
    """Scales that each lane loads itself: sa[K/128, M] of its rows and sb[N/128, K/128] of its columns.

    The matrix instruction gets B first, so that a lane holds four columns of one row: one scale of A for each.
    """

    def __init__(self, scale_a: Any, scale_b: Any, config: PreshuffleConfig, m: Any, row: Any, column: Any,
                 wave: Any, lane_row: Any, tally: Tally) -> None:
        self._config, self._m, self._tally = config, m, tally
        self._blocks = config.k // SCALE_BLOCK
        self._per_tile = config.tile_k // SCALE_BLOCK
        self._a = Buffer(scale_a, fx.Float32, None, fx.Int64(m) * self._blocks)
        self._b = Buffer(scale_b, fx.Float32, None, -(-config.n // SCALE_BLOCK) * self._blocks)
        self._row, self._column, self._wave = row + config.tile_row(0, lane_row), column, wave

    @property
    def _a_loads(self) -> int:
        """Loads of the rows' scales of a block."""
        return self._config.m_repeat // self._config.apart

    @property
    def loads(self) -> int:
        """Loads of a tile."""
        return self._per_tile * (self._a_loads + len(self._config.scale_strips))

    def fetch(self, tile: KTile) -> list[Any]:
        """Start loading the scales of a k tile: for each block the rows', then the columns'."""
        config, out = self._config, []
        for i in range(self._per_tile):
            block, more = tile.turn * self._per_tile, tile.further * self._per_tile + i
            # Dwords may be fetched four at a time at any dword: M need not be a multiple of four.
            out += [self._a.load(self._row + config.tile_row(mi, 0) + more * self._m, config.apart, block * self._m)
                    for mi in range(0, config.m_repeat, config.apart)]
            for ni in self._config.scale_strips:
                strip = div(self._column + config.strip(self._wave, ni) * 16, SCALE_BLOCK)
                out.append(self._b.load(strip * self._blocks + more, 1, block))
        self._tally.add("vmem", len(out))
        return out

    def of(self, values: list[Any], block: int, mi: int, known: dict[Any, Any]) -> list[Any]:
        """For each of `scale_strips` a row's factor, for block `block` of the tile. `known` keeps what was computed."""
        strips, (index, inside) = self._config.scale_strips, divmod(mi, self._config.apart)
        first, out = block * (self._a_loads + len(strips)), []
        for j, strip in enumerate(strips):
            key = block, mi, strip
            if key not in known:
                self._tally.add("valu", 1)
                factor = values[first + index][inside] * values[first + self._a_loads + j][0]
                known[key] = fx.full(1, factor, fx.Float32)
            out.append(known[key])
        return out
