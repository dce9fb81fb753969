"""Queries of an MLA kernel on their way to the operands of a wave."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..attention.weave import count_of
from ..parts.index import div, mod
from ..parts.memory import lds_write
from .mla_config import CHUNK, MlaConfig
from .operands import Operand, Pieces

__all__ = ["queries_of"]

LINE = 4  # lanes that load 64 bytes of a row together


class HeldQueries:
    """All columns of a wave stay in its registers, from where they are loaded.

    Attributes:
        reads: what reads the last operand from LDS, time and again.
    """

    def __init__(self, config: MlaConfig, mma: Any, element: Any, own: Any, lane: Any) -> None:
        self._parts = [(first, Operand(config, mma, "B", element, config.wave_rows, columns, lane))
                       for first, columns in config.key_parts(own)]
        self.operands: list[Any] = []
        self.reads: list[Callable[[], Any]] = []

    def load(self, start: Callable[[int, Any], Any]) -> None:
        """Start loading; ``start(n, row)`` points to row `row` of the n-th instruction."""
        for first, part in self._parts:
            part.load(start, first)

    def arrive(self) -> None:
        """Let the operands be there."""
        self.operands = [part.ready() for _, part in self._parts]


class ParkedQueries:
    """Parts of the columns, of which the last has no room in registers through the loop: it stays in LDS, row by row.
    The others pass through the same place, for which whole lines of memory are loaded: a lane's operands are of one
    row, and an instruction that loaded these would take 32 bytes of each of many lines."""

    def __init__(self, config: MlaConfig, memory: Any, mma: Any, element: Any, lane: Any, wave: Any) -> None:
        array: Any = fx.Array
        self.config, self._mma, self._lane = config, mma, lane
        rows, columns, parts = config.wave_rows, config.parked, len(config.key_parts(0))
        size, across, down = config.parked_size, LINE * CHUNK, config.target.wave // LINE
        shape, stride = config.parked_rows
        base = memory.allocate(array[config.element, config.waves * size, 128]).peek().ptr + wave * size
        self._view = fx.make_view(base, fx.make_layout((shape, columns), (stride, 1)))
        line = div(lane, LINE)
        first = mod(line, 4) * 4 + div(line, 4)  # rows that are written together lie in other banks, too
        self._places = [(first + row, mod(lane, LINE) * CHUNK + column)
                        for row, column in itertools.product(range(0, rows, down), range(0, columns, across))]
        self._pieces = Pieces(element, CHUNK, parts, len(self._places))
        self.operands: list[Any] = []
        self.reads: list[Callable[[], Any]] = []

    def load(self, start: Callable[[int, Any], Any]) -> None:
        """Start loading; ``start(n, row)`` points to row `row` of the n-th instruction."""
        for part, (first, _) in enumerate(self.config.key_parts(0)):
            for i, (row, column) in enumerate(self._places):
                self._pieces.load(start(0, row), column + first, part, i)

    def arrive(self) -> None:
        """Let the operands be there; the last is to be read."""
        config = self.config
        tile, read = (config.wave_rows, config.parked), fx.make_copy_atom(fx.UniversalCopy128b(), config.element)
        copy = fx.make_tiled_copy_B(read, self._mma).get_slice(self._lane)
        source, (_, stride) = copy.partition_S(self._view), config.parked_rows
        self.operands = [self._mma.get_slice(self._lane).make_fragment_B(tile) for _ in config.key_parts(0)]
        for part, operand in enumerate(self.operands):
            for i, (row, column) in enumerate(self._places):
                at = mod(row, 4) * stride[0] + div(row, 4) * stride[1] + column
                lds_write(fx.get_iter(self._view), at, self._pieces.get(config, part, i))
            fx.rocdl.wave_barrier()  # what other lanes of the wave wrote is read
            target = copy.retile(operand)
            self.reads = [partial(fx.copy, read, source[None, 0, k], target[None, 0, k])
                          for k in range(count_of(target, 2))]
            if part + 1 < len(self.operands):
                for start in self.reads:
                    start()
            fx.rocdl.wave_barrier()


def queries_of(config: MlaConfig, memory: Any, mma: Any, element: Any, own: Any, lane: Any,
               wave: Any) -> HeldQueries | ParkedQueries:
    """Those of a wave, of `element` in memory."""
    if config.parked:
        return ParkedQueries(config, memory, mma, element, lane, wave)
    return HeldQueries(config, mma, element, own, lane)
