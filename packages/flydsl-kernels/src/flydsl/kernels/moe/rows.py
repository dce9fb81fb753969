"""The sorted rows of a tile: their names, which row of x they are, and what belongs to them in the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..parts.epilogue import FAR
from ..parts.lane import Lane
from ..parts.memory import Buffer
from .config import FEW, GroupedConfig

__all__ = ["TOKEN", "SortedRow", "TileRows"]

TOKEN = (1 << 24) - 1  # bits of a sorted row
PAST = (1 << 31) - 1   # a row that no matrix has


@dataclass(frozen=True)
class SortedRow:
    """A row by its place in the order of sorting.

    Attributes:
        name: as sorting wrote it, of `token` and `slot`; its place if nothing is sorted.
        exists: whether it is no padding.
        source: the row of x; past the end for padding.
    """

    place: Any
    name: Any
    token: Any
    slot: Any
    exists: Any
    source: Any


class TileRows:
    """The rows of a tile from `first` on, of `total`. What belongs to few is asked for before they are multiplied.

    Attributes:
        of_x: rows of x.
    """

    def __init__(self, tensors: dict[str, Any], tokens: Any, total: Any, first: Any, lane: Lane,
                 config: GroupedConfig) -> None:
        self.tensors, self.tokens, self.total, self.first = tensors, tokens, total, first
        self.lane, self.config = lane, config
        self.of_x = {"slot": tokens * config.topk, "slots": tokens * config.topk, "sorted": total}.get(
            config.source, tokens)
        self._names = Buffer(tensors["rows"], fx.Int32, None, total) if config.routed else None
        self._weights = Buffer(tensors["weights"], fx.Float32, None, total) if config.weighted else None
        by_rows = config.format.scales == "rows"
        self._scales = Buffer(tensors["x_scale"], fx.Float32, None, self.of_x) if by_rows else None
        held = range(config.m_repeat if config.m_repeat <= FEW else 0)
        self._held = [(row, self._beside(row)) for row in map(self.of_lane, held)]

    def source(self, inside: Any) -> Any:
        """The row of x of row `inside` of a tile, which may have more rows than the block."""
        if self.config.tile_rows == self.config.tile_m:
            return self.at(self.first + inside).source
        # Behind the last block there may be no names.
        found = self.at(self.first + fx.min(inside, self.config.tile_m - 1)).source
        return (inside < self.config.tile_m).select(found, PAST)

    def at(self, place: Any) -> SortedRow:
        """The row at a place."""
        config = self.config
        if self._names is None:
            return SortedRow(place, place, place, 0, place < self.tokens, place)
        name = self._names.load(place, 1)[0]
        token, slot = name & TOKEN, (name >> 24) & 0xFF
        exists = token < self.tokens  # padding has the token past the end
        if config.source == "token":
            source = token
        elif config.source == "slot":
            source = token * config.topk + slot
        else:
            source = exists.select(slot * self.tokens + token if config.source == "slots" else place, PAST)
        return SortedRow(place, name, token, slot, exists, source)

    def of_lane(self, tile: int) -> SortedRow:
        """That of which the lane has results in row tile `tile` of its wave."""
        return self.at(self.first + self.config.wave_place(self.lane)[0] + tile * 16 + self.lane.row)

    @property
    def sources(self) -> list[Any]:
        """The rows of x of the lane's row tiles."""
        held = [row for row, _ in self._held]
        return [row.source for row in held or map(self.of_lane, range(self.config.m_repeat))]

    def _beside(self, row: SortedRow) -> tuple[Any, Any]:
        """(routing weight, scale of x) of a row, None where there is none."""
        found = [None if buffer is None else buffer.load(row.exists.select(at, FAR // 4), 1)[0]
                 for buffer, at in ((self._weights, row.place), (self._scales, row.source))]
        return found[0], found[1]

    def finished(self, tile: int) -> tuple[SortedRow, tuple[Any, Any]]:
        """The lane's row in a row tile with its routing weight and scale."""
        if self._held:
            return self._held[tile]
        row = self.of_lane(tile)
        return row, self._beside(row)
