"""What happens to accumulators: pure steps, and one walk over rows and columns that stores apply.

A lane holds consecutive columns of a row of C (:mod:`.matrix`). A step takes a value to a value, vectors of f32: a
scale, a bias, an activation. What it needs of a row or of a column is loaded once for it, in :meth:`Step.row` and
:meth:`Step.column`, and for the whole tile before anything is stored: a load behind a store would wait for that.
:class:`Values` walks over the accumulators of a lane and applies the steps; a store takes what it gives: directly
(:func:`store_tile`), through LDS (:func:`shuffle_tile`), atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .convert import round_bf16_stochastic
from .index import div, mod
from .mathx import gelu, relu, sigmoid, silu, tanh
from .memory import Buffer, float_element, lds_read, lds_write
from .runs import run_of
from .tile import CHUNK_BYTES

__all__ = ["ACTIVATE", "FAR", "GATED", "SWIGLU_LIMIT", "Activate", "Bias", "Epilogue", "ScaleBoth",
           "ShufflePlan", "Step", "TilePlace", "gated", "shuffle_tile", "store_tile"]

FAR = 1 << 30  # a byte offset beyond any tile of C
LINE = 8  # chunks that LDS serves at once

ACTIVATE: dict[str, Callable[[Any], Any]] = {"none": lambda x: x, "relu": relu, "silu": silu, "gelu": gelu}

GATED = ("silu", "gelu", "swiglu", "situ")
SWIGLU_LIMIT = 7.0


# ------------------------------------------------------------------------------------------- steps


class Step:
    """A pure step of an epilogue. Rows and columns are those of C."""

    def row(self, row: Any) -> Any:
        """What it needs of a row: a number."""
        return None

    def column(self, column: Any, count: int) -> Any:
        """What it needs of `count` columns from `column` on: a vector."""
        return None

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        """The values after it."""
        raise NotImplementedError


def _together(n: int, element: Any) -> int:
    """Elements from a multiple of as many that are aligned in every row of `n` elements, at most 16 bytes."""
    widest = CHUNK_BYTES * 8 // element.width
    return next(w for w in (8, 4, 2, 1) if w <= widest and n % w == 0)


def _vector(buffer: Buffer, at: Any, count: int, n: int) -> Any:
    """f32 of `count` elements of a row of `n`, loaded as many together as never pass its end."""
    width = min(_together(n, buffer.element), count)
    parts = [buffer.load(at + i, width).to(fx.Float32) for i in range(0, count, width)]
    return fx.Vector.from_elements([part[i] for part in parts for i in range(width)], fx.Float32)


@dataclass(frozen=True)
class ScaleBoth(Step):
    """``value * (scale_a[row] * factor * scale_b[column])``, f32[m], a number and f32[n]."""

    scale_a: Any
    scale_b: Any
    m: Any
    n: int
    factor: float = 1.0

    def row(self, row: Any) -> Any:
        return Buffer(self.scale_a, fx.Float32, None, self.m).load(row, 1)[0] * self.factor

    def column(self, column: Any, count: int) -> Any:
        return _vector(Buffer(self.scale_b, fx.Float32, None, self.n), column, count, self.n)

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return value * (of_column * of_row)


@dataclass(frozen=True)
class Bias(Step):
    """``value + bias[column]``, of any float type."""

    bias: Any
    n: int

    def column(self, column: Any, count: int) -> Any:
        return _vector(Buffer(self.bias, float_element(self.bias, fx.Float32), None, self.n), column, count, self.n)

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return value + of_column


@dataclass(frozen=True)
class Activate(Step):
    """``act(value)``; one of ``ACTIVATE``."""

    name: str

    def apply(self, value: Any, of_row: Any, of_column: Any) -> Any:
        return ACTIVATE[self.name](value)


def gated(gate: Any, up: Any, name: str, limit: float | None) -> Any:
    """One of ``GATED`` of vectors of f32.

    silu and gelu: ``f(g) u``, both clamped where there is a limit L: g at L from above, u at both sides; swiglu (of
    GPT-OSS): ``g sigmoid(1.702 g) (u + 1)`` with L = 7 by default; situ: ``tanh(g) sigmoid(g) tanh(u)``.
    """
    if name == "swiglu" and limit is None:
        limit = SWIGLU_LIMIT
    if limit is not None:
        high = fx.full_like(gate, limit)
        gate, up = fx.minimumf(gate, high), fx.maximumf(fx.minimumf(up, high), -high)
    if name == "swiglu":
        return gate * sigmoid(gate * 1.702) * (up + 1.0)
    if name == "situ":
        return tanh(gate) * sigmoid(gate) * tanh(up)
    return ACTIVATE[name](gate) * up


@dataclass(frozen=True)
class Epilogue:
    """Steps in their order.

    Attributes:
        steps: see :class:`Step`.
        seed: round to bf16 stochastically, with bits that depend on the seed and the place in C (at most eight values
            of a lane and tile); None: to nearest even.
    """

    steps: tuple[Step, ...] = ()
    seed: Any = None


# ------------------------------------------------------------------------------------------- the walk


@dataclass(frozen=True)
class TilePlace:
    """Where the accumulators of a lane belong in C.

    Attributes:
        m, n: size of C; `row` is the first row of the workgroup, `rows` how many of them exist.
        tile_rows: from `row`, this lane's row of each 16-row tile of the wave.
        columns: first column of this lane in each of its 16-column tiles, a multiple of those that it has.
        ragged: columns may be past the end.
        column: first column of the workgroup.
        wave_row: which of the waves along the rows this one is.
    """

    m: Any
    n: int
    row: Any
    rows: Any
    tile_rows: Sequence[Any]
    columns: Sequence[Any]
    ragged: bool = False
    column: Any = 0
    wave_row: Any = 0

    def out(self, c: Any, element: Any) -> Buffer:
        """C from the workgroup's first row, bounded by the rows that exist."""
        return Buffer(c, element, fx.Int64(self.row) * self.n, self.rows * self.n)

    def offset(self, row: Any, column: Any, element_bytes: int, further: Any = 0) -> Any:
        """Element offset in :meth:`out` of a row (from `row`) and a column, `column` and `further` ones on; beyond its
        end past the last column."""
        at = row * self.n + column + further
        return (column + further < self.n).select(at, FAR // element_bytes) if self.ragged else at


class Values:
    """The accumulators of a lane, ``acc[mi * len(place.columns) + ni]``, after the steps, in f32. What these need of
    its rows and columns is on its way from the beginning."""

    def __init__(self, acc: Sequence[Any], epilogue: Epilogue, place: TilePlace) -> None:
        self._acc, self._steps, self._places = acc, epilogue.steps, place.columns
        if epilogue.steps:
            fx.rocdl.sched_barrier(0)  # not among the last products: registers
        self._columns = [[step.column(at, acc[0].numel) for step in epilogue.steps] for at in place.columns]
        self._rows = [[step.row(place.row + row) for step in epilogue.steps] for row in place.tile_rows]

    def of(self, tile: int) -> Iterator[tuple[Any, Any]]:
        """(first column, vector) of each of the columns' tiles in the 16 rows of a tile of the wave."""
        for ni, column in enumerate(self._places):
            value = self._acc[tile * len(self._places) + ni].to(fx.Float32)
            for step, of_row, of_column in zip(self._steps, self._rows[tile], self._columns[ni], strict=True):
                value = step.apply(value, of_row, of_column)
            yield column, value


def store_tile(c: Any, element: Any, acc: Sequence[Any], epilogue: Epilogue, place: TilePlace,
               put: Callable[[Buffer, Any, Any], None] = Buffer.store) -> None:
    """Store the accumulators, up to 16 bytes at a time where rows of C allow it; ``put(c, at, vector)`` stores
    consecutive columns, or adds them.

    Rows past the end are dropped by the bounds of C, columns past the end by an offset beyond them.
    """
    out, count = place.out(c, element), acc[0].numel
    width = min(_together(place.n, element), count)
    with fx.fastmath("contract"):
        values = Values(acc, epilogue, place)
        for tile, row in enumerate(place.tile_rows):
            for column, value in values.of(tile):
                out_value = _rounded(value, element, epilogue.seed, place, row, column)
                for i in range(0, count, width):
                    part = out_value if width == count else run_of(out_value, i, width)
                    put(out, place.offset(row, column, element.width // 8, i), part)


def _rounded(value: Any, element: Any, seed: Any, place: TilePlace, row: Any, column: Any) -> Any:
    """Values in the type of C, with a seed by stochastic rounding, whose bits depend on the place of the first."""
    if seed is None:
        return value.to(element)
    words = fx.random.randint4x(seed, (place.row + row) * place.n + column)
    rounded = [round_bf16_stochastic(value[i], (words[i // 2] >> (16 * (i % 2))) & 0xFFFF) for i in range(value.numel)]
    return fx.Vector.from_elements(rounded, fx.BFloat16)


# ------------------------------------------------------------------------------------------- through LDS

# A lane holds a few consecutive columns of one row, so direct stores write 32 bytes of each of 16 rows at a time.
# Through LDS, lanes store 16 consecutive bytes of a row: a slab of the tile is converted, written to LDS row by row,
# and read back along the rows. In LDS, chunks of 16 bytes are exchanged by row, and their halves every other eight
# rows: the lanes that LDS serves together, each of which has another row, write different banks.


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
        values = Values(acc, epilogue, place)
    for first in range(0, plan.m_repeat, slab):
        fx.barrier()
        with fx.fastmath("contract"):
            for s in range(slab):
                fx.rocdl.sched_barrier(0)  # not all conversions at once: registers
                for at, value in values.of(first + s):
                    _write(staged, place.tile_rows[s] - before, at - place.column, value.to(element), plan)
        fx.barrier()
        for row, x in plan.rows_and_columns(plan.m_waves * slab * 16):
            value = _read(staged, row, x, plan)
            if plan.m_repeat > slab:  # rows of a slab are apart in the tile
                row = div(row, slab * 16) * (plan.m_repeat * 16) + mod(row, slab * 16) + first * 16
            put(out, place.offset(row, place.column, plan.element_bytes, x), value)
