"""Rotary embedding of one tensor: out of place, with the transposed rotation as its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS, float_dtype
from ..parts.index import div
from ..parts.indices import index_at, require_within
from ..parts.memory import Buffer
from ..parts.rows import THREADS, Units
from ..target import Target, builder
from .config import Rotation, rotation
from .rotate import Angles, Unit, rotated

__all__ = ["build_rope_module"]

STREAMED = 2  # cache modifier: written data are not read again


@dataclass(frozen=True)
class _Config(KernelConfig):
    rotation: Rotation
    heads: int
    dtype: str
    positions: bool  # are given; else a token's position is its place in its sequence
    inverse: bool

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def units(self) -> Units:
        """Of a row: a head of a token."""
        return Units(self.rotation.units)

    def extents(self, tokens: Any, table_rows: Any) -> dict[str, Extent]:
        """What a launch takes of its operands; the tables have a float type of their own."""
        x = Extent(fx.Int64(tokens) * (self.heads * self.rotation.dim), FLOATS[self.dtype])
        table = Extent(fx.Int64(table_rows) * self.rotation.columns)
        found = {"x": x, "out": x, "cos": table, "sin": table}
        return {**found, "positions": Extent(tokens)} if self.positions else found

    def grid(self, m: Any) -> tuple[Any, ...]:
        return self.units.grid(m)


@flyc.kernel
def _rope_kernel(tensors, m: fx.Int32, sequence: fx.Int32, table_rows: fx.Int32, config: fx.Constexpr):
    r, element = config.rotation, FLOATS[config.dtype]
    local, place = config.units.place()
    first = fx.block_idx.x * config.units.rows
    count = fx.min(m - first, config.units.rows)
    source, out = (Buffer(tensors[k], element, fx.Int64(first) * r.dim, count * r.dim) for k in ("x", "out"))
    angles = Angles(tensors["cos"], tensors["sin"], table_rows, r)
    if (local < count) & (place < r.units):
        token = div(first + local, config.heads)
        if fx.const_expr(config.positions):
            position = require_within(index_at(tensors["positions"], token), 0, fx.Int64(table_rows))
        else:
            position = token % sequence
        unit = Unit(r, place)
        row = local * r.dim
        with fx.fastmath("contract"):
            values = rotated(unit, unit.load(source, row), angles.of(position, unit), config.inverse)
        unit.store(out, row, tuple(v.to(element) for v in values), STREAMED)


@builder
def build_rope_module(heads: int, head_dim: int, dtype: str = "bf16", *, rotary_dim: int | None = None,
                      interleaved: bool = False, positions: bool = True, inverse: bool = False,
                      full_table: bool = False, target: Target):
    """``launch(X, Cos, Sin[, Positions], Out, tokens, sequence, table_rows, stream=None)``.

    Args:
        heads, head_dim: X and Out are (tokens, heads, head_dim), row-major.
        dtype: of X and Out: ``"f32"``, ``"f16"`` or ``"bf16"``. The tables are of any of these.
        rotary_dim: the first so many features are rotated, all by default; the tables are (table_rows, rotary_dim / 2).
        interleaved: rotate neighbours ``(2 i, 2 i + 1)``, else ``(i, i + rotary_dim / 2)``.
        positions: Positions, int32 or int64 of each token, is an argument; else it is ``token % sequence``.
            A launch with a position outside the tables stops with a trap.
        inverse: rotate by the opposite angle.
        full_table: the tables are (table_rows, rotary_dim): a column for each feature, not for each pair.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_rope_module"
    turn = rotation(where, head_dim, rotary_dim, interleaved, float_dtype(dtype, where), full_table)
    config = _Config(turn, heads, dtype, positions, inverse, target=target).fitting(where)

    def run(tensors, tokens, sequence, table_rows, stream):
        target.require_traced()
        require_operands(tensors, config.extents(tokens, table_rows))
        m = tokens * heads
        _rope_kernel(tensors, m, sequence, table_rows, config).launch(
            grid=config.grid(m), block=config.threads, stream=stream)

    if positions:

        @flyc.jit
        def rope_at(X, Cos, Sin, Positions, Out, tokens: fx.Int32, sequence: fx.Int32, table_rows: fx.Int32,  # noqa: N803
                    stream: fx.Stream = fx.Stream(None)):
            run({"x": X, "cos": Cos, "sin": Sin, "positions": Positions, "out": Out}, tokens, sequence, table_rows,
                stream)

        return rope_at

    @flyc.jit
    def rope(X, Cos, Sin, Out, tokens: fx.Int32, sequence: fx.Int32, table_rows: fx.Int32,  # noqa: N803
             stream: fx.Stream = fx.Stream(None)):
        run({"x": X, "cos": Cos, "sin": Sin, "out": Out}, tokens, sequence, table_rows, stream)

    return rope
