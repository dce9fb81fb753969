"""The CShuffle epilogue: C goes through LDS, so that lanes store 16 consecutive bytes of a row.

A lane holds a few consecutive columns of one row, so direct stores write 32 bytes of each of 16 rows at a time. Here a
slab of the tile is converted, written to LDS row by row, and read back along the rows. In LDS, chunks of 16 bytes are
exchanged by row, and their halves every other eight rows: the lanes that LDS serves together, each of which has
another row, write different banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .epilogue import Epilogue, Terms, TilePlace, values
from .index import div, mod
from .memory import Buffer, lds_read, lds_write
from .runs import run_of
from .tile import CHUNK_BYTES

__all__ = ["ShufflePlan", "shuffle_tile"]

LINE = 8  # chunks that LDS serves at once


@dataclass(frozen=True)
class ShufflePlan:
    """How a workgroup's tile of C passes through LDS.

    Attributes:
        columns: of the tile; a multiple of 64.
        element_bytes: of C.
        m_waves: waves along the rows, each with `m_repeat` tiles of 16 rows.
        threads: of the workgroup.
        run: consecutive columns that a lane has.
        lds_bytes: what the main loop has for other purposes; the plan needs at least one slab.
        apart: rows that neighbouring lanes are apart, of as many tiles of rows.
    """

    columns: int
    element_bytes: int
    m_waves: int
    m_repeat: int
    threads: int
    run: int
    lds_bytes: int
    apart: int = 1

    @property
    def unit_bytes(self) -> int:
        """Bytes of 16 rows of every wave."""
        return self.m_waves * 16 * self.columns * self.element_bytes

    @property
    def halves(self) -> bool:
        """Lanes write halves of chunks."""
        return self.run * self.element_bytes == CHUNK_BYTES // 2

    @property
    def slab(self) -> int:
        """Tiles of 16 rows of a wave that pass at once."""
        fitting = [s for s in range(self.apart, self.m_repeat + 1, self.apart) if self.m_repeat % s == 0
                   and s * self.unit_bytes <= self.lds_bytes]
        return max(fitting, default=self.apart)

    @property
    def bytes(self) -> int:
        """LDS that the epilogue uses."""
        return self.slab * self.unit_bytes

    @property
    def vector(self) -> int:
        """Elements of a store: 16 bytes, or less where a slab has too few for all threads."""
        widest, elements = CHUNK_BYTES // self.element_bytes, self.slab * self.unit_bytes // self.element_bytes
        return next(v for v in (widest, widest // 2, widest // 4) if v and elements % (v * self.threads) == 0)

    def rows_and_columns(self, rows: int) -> Iterator[tuple[Any, Any]]:
        """(row, first column) of the vectors of this thread, along the rows of `rows` rows of the tile."""
        per_row = self.columns // self.vector
        for j in range(rows * per_row // self.threads):
            linear = fx.thread_idx.x + j * self.threads
            yield div(linear, per_row), mod(linear, per_row) * self.vector

    def refuse(self) -> str | None:
        """Why this tile cannot pass, or None."""
        if self.columns * self.element_bytes % 128:
            return f"a row of the tile must be a multiple of 128 bytes, {self.columns} columns are not"
        elements, least = self.slab * self.unit_bytes // self.element_bytes, CHUNK_BYTES // self.element_bytes // 4
        if elements % (max(least, 1) * self.threads):
            return f"{self.threads} threads cannot share a slab of {elements} elements"
        return None


def _unit(row: Any, column: Any, plan: ShufflePlan, width: int) -> tuple[Any, Any]:
    """(number of the unit of `width` elements with (row, column) in the slab, whether its chunk's halves are
    exchanged)."""
    line, per_chunk = div(row, plan.apart), CHUNK_BYTES // (width * plan.element_bytes)
    exchanged = mod(div(line, LINE), 2) if plan.halves else 0
    exchange = mod(line, LINE) * per_chunk + (exchanged if per_chunk == 2 else 0)
    return row * (plan.columns // width) + (div(column, width) ^ exchange), exchanged


def _write(base: Any, row: Any, column: Any, value: Any, plan: ShufflePlan) -> None:
    """Write what a lane has of a row, at most a chunk at a time."""
    width = min(plan.run, CHUNK_BYTES // plan.element_bytes)
    for i in range(0, plan.run, width):
        part = value if width == plan.run else run_of(value, i, width)
        lds_write(base, _unit(row, column + i, plan, width)[0] * width, part)


def _read(base: Any, row: Any, column: Any, plan: ShufflePlan) -> Any:
    """Read `plan.vector` elements of a row."""
    width = min(CHUNK_BYTES // plan.element_bytes, max(plan.vector, plan.run))
    unit, exchanged = _unit(row, column, plan, width)
    value = lds_read(base, unit * width + mod(column, width), plan.vector)
    if plan.halves and plan.vector > plan.run:
        swapped = value.shuffle(value, [*range(plan.run, plan.vector), *range(plan.run)])
        return (exchanged == 1).select(swapped, value)
    return value


def shuffle_tile(c: Any, element: Any, acc: Sequence[Any], epilogue: Epilogue, place: TilePlace, lds: Any,
                 plan: ShufflePlan, put: Callable[[Buffer, Any, Any], None] = Buffer.store) -> None:
    """Store the accumulators like :func:`store_tile`, through LDS. All threads of the workgroup must call it.

    Args:
        place: its `tile_rows` lie in the ``16 * m_repeat`` rows of this wave, a slab after the other.
        lds: pointer to `plan.bytes` bytes that other waves may still be reading.
        put: ``put(c, at, vector)`` stores the vector, or adds it.
    """
    slab, staged, out = plan.slab, fx.recast_iter(element, lds), place.out(c, element)
    before = place.wave_row * ((plan.m_repeat - slab) * 16)  # rows of earlier waves that are not in a slab
    with fx.fastmath("contract"):
        terms = Terms(epilogue, place, acc[0].numel)
    for first in range(0, plan.m_repeat, slab):
        fx.barrier()
        with fx.fastmath("contract"):
            for s in range(slab):
                fx.rocdl.sched_barrier(0)  # not all conversions at once: registers
                for _, at, value in values(acc, epilogue, place, terms, (first + s,)):
                    _write(staged, place.tile_rows[s] - before, at - place.column, value.to(element), plan)
        fx.barrier()
        for row, x in plan.rows_and_columns(plan.m_waves * slab * 16):
            value = _read(staged, row, x, plan)
            if plan.m_repeat > slab:  # rows of a slab are apart in the tile
                row = div(row, slab * 16) * (plan.m_repeat * 16) + mod(row, slab * 16) + first * 16
            put(out, place.offset(row, place.column, plan.element_bytes, x), value)
