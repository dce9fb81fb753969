"""The CShuffle epilogue: C goes through LDS, so that lanes store 16 consecutive bytes of a row.

An accumulator holds four rows of one column, so direct stores write 32 bytes of a row at a time, 2 bytes a lane. Here
a slab of the tile is converted, written to LDS row by row, and read back along the rows. In LDS, the segments that 16
lanes write (16 columns) are exchanged by row, so that the lane groups, whose rows are apart, write different banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .epilogue import Epilogue, TilePlace, column_terms, pieces
from .index import div, mod
from .memory import Buffer, lds_read, lds_write
from .tile import CHUNK_BYTES

__all__ = ["ShufflePlan", "shuffle_tile"]

BANK_BYTES = 128  # that writes of up to 4 bytes a lane reach in one cycle


@dataclass(frozen=True)
class ShufflePlan:
    """How a workgroup's tile of C passes through LDS.

    Attributes:
        columns: of the tile; a multiple of 64.
        element_bytes: of C.
        m_waves: waves along the rows, each with `m_repeat` tiles of 16 rows.
        threads: of the workgroup.
        run: rows that lane groups are apart.
        lds_bytes: what the main loop has for other purposes; the plan needs at least one slab.
        apart: 0, or rows that lanes are apart where a lane holds consecutive columns of a row (``TilePlace.row_of``).
    """

    columns: int
    element_bytes: int
    m_waves: int
    m_repeat: int
    threads: int
    run: int
    lds_bytes: int
    apart: int = 0

    @property
    def unit_bytes(self) -> int:
        """Bytes of 16 rows of every wave."""
        return self.m_waves * 16 * self.columns * self.element_bytes

    @property
    def slab(self) -> int:
        """Tiles of 16 rows of a wave that pass at once."""
        least = max(self.apart, 1)
        fitting = [s for s in range(least, self.m_repeat + 1, least) if self.m_repeat % s == 0
                   and s * self.unit_bytes <= self.lds_bytes]
        return max(fitting, default=least)

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


def _word(row: Any, column: Any, plan: ShufflePlan) -> Any:
    """Element offset of (row, column) of the slab."""
    width, run = (CHUNK_BYTES // plan.element_bytes, 1) if plan.apart else (16, plan.run)
    segments = BANK_BYTES // (width * plan.element_bytes)
    exchanged = column ^ (mod(div(row, run), segments) * width)
    return row * plan.columns + exchanged


def shuffle_tile(c: Any, element: Any, acc: Sequence[Any], epilogue: Epilogue, place: TilePlace, lds: Any,
                 plan: ShufflePlan, column: Any, wave_row: Any,
                 put: Callable[[Buffer, Any, Any], None] = Buffer.store) -> None:
    """Store the accumulators like :func:`store_tile`, through LDS. All threads of the workgroup must call it.

    Args:
        place: ``tile_rows[mi]`` is ``(wave_row * m_repeat + mi) * 16``.
        lds: pointer to `plan.bytes` bytes that other waves may still be reading.
        column: first column of the workgroup's tile.
        wave_row: of this wave, 0 to ``m_waves - 1``.
        put: ``put(c, at, vector)`` stores the vector, or adds it.
    """
    slab, staged = plan.slab, fx.recast_iter(element, lds)
    out, terms = place.out(c, element), column_terms(epilogue, place)
    for first in range(0, plan.m_repeat, slab):
        fx.barrier()
        with fx.fastmath("contract"):
            for s in range(slab):
                fx.rocdl.sched_barrier(0)  # not all conversions at once: registers
                for piece in pieces(acc, epilogue, place, terms, (first + s,)):
                    if place.row_of is not None:  # vectors of columns; one wave along the rows
                        row, value = place.row_of(s), piece.value.to(element)
                    else:
                        row = (wave_row * slab + s) * 16 + piece.inside
                        value = fx.Vector.from_elements([piece.value.to(element)], element)
                    lds_write(staged, _word(row, piece.column - column, plan), value)
        fx.barrier()
        for row, x in plan.rows_and_columns(plan.m_waves * slab * 16):
            value = lds_read(staged, _word(row, x, plan), plan.vector)
            if plan.m_repeat > slab:  # rows of a slab are apart in the tile
                row = div(row, slab * 16) * (plan.m_repeat * 16) + mod(row, slab * 16) + first * 16
            put(out, place.offset(row, column, plan.element_bytes, x), value)
