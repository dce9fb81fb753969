"""The rotation of a unit of features in registers, which every rope kernel uses.

``(x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)`` for each pair, in f32 with one rounding at the store (Su et al.,
"RoFormer: enhanced transformer with rotary position embedding", 2021).
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..parts.memory import Buffer, float_element
from .config import Rotation

__all__ = ["Angles", "Unit", "rotated"]


class Unit:
    """Where the features of a thread lie in a row.

    Attributes:
        first, second: feature of its two vectors.
        turns: Boolean: they are rotated; None: all units are.
        pair: first pair of the unit; 0 where they are not rotated.
    """

    def __init__(self, rotation: Rotation, unit: Any) -> None:
        r, vec = rotation, rotation.vec
        self.rotation = rotation
        whole = r.turning == r.units
        turns: Any = None if whole else unit < r.turning
        self.turns, self.pair = turns, unit * vec if whole else turns.select(unit * vec, 0)
        together = unit * (2 * vec)
        if r.interleaved:
            self.first, self.second = together, together + vec
        elif whole:
            self.first, self.second = unit * vec, unit * vec + r.half
        else:
            self.first = turns.select(unit * vec, together)
            self.second = turns.select(unit * vec + r.half, together + vec)

    def load(self, source: Buffer, row: Any) -> tuple[Any, Any]:
        """Its two vectors of a row that begins at element `row` of a buffer."""
        return source.load(self._at(row, self.first), self.rotation.vec), source.load(
            self._at(row, self.second, source), self.rotation.vec)

    def store(self, out: Buffer, row: Any, values: tuple[Any, Any], cache: int = 0) -> None:
        """Store its two vectors, of the buffer's element type."""
        out.store(self._at(row, self.first), values[0], cache)
        out.store(self._at(row, self.second, out), values[1], cache)

    def _at(self, row: Any, feature: Any, buffer: Buffer | None = None) -> Any:
        """The second vector of the last unit may be past the row: then it is past the buffer, so reads as zero."""
        if buffer is None or (self.rotation.dim - self.rotation.rotary) % (2 * self.rotation.vec) == 0:
            return row + feature
        return (feature < self.rotation.dim).select(row + feature, (1 << 30) // (buffer.element.width // 8))


class Angles:
    """The rows of two tables of cosines and sines, (rows, columns), of any float types.

    Args:
        steps: elements between the rows of each; None: they follow each other.
    """

    def __init__(self, cos: Any, sin: Any, rows: Any, rotation: Rotation, steps: tuple[Any, Any] | None = None) -> None:
        self._rotation, columns = rotation, rotation.columns
        self._steps = steps = steps or (columns, columns)
        self._tables = [Buffer(t, float_element(t, fx.Float32), None, (fx.Int64(rows) - 1) * step + columns)
                        for t, step in zip((cos, sin), steps, strict=True)]

    def of(self, position: Any, unit: Unit) -> tuple[Any, Any, Any, Any]:
        """``(cos, sin)`` of the first and of the second features of the unit's pairs, as f32 vectors."""
        r = self._rotation
        rows = [position * (step if isinstance(step, int) else step.to(fx.Int32)) for step in self._steps]
        if not r.full_table:
            cos, sin = (t.load(row + unit.pair, r.vec).to(fx.Float32)
                        for t, row in zip(self._tables, rows, strict=True))
            return cos, sin, cos, sin
        first, second = (2 * unit.pair, 2 * unit.pair + r.vec) if r.interleaved else (unit.pair, unit.pair + r.half)
        (cos, cos2), (sin, sin2) = (_pairs(r, *(t.load(row + at, r.vec).to(fx.Float32) for at in (first, second)))
                                    for t, row in zip(self._tables, rows, strict=True))
        return cos, sin, cos2, sin2


def _pairs(rotation: Rotation, a: Any, b: Any) -> tuple[Any, Any]:
    """First and second features of the pairs in two consecutive vectors."""
    if not rotation.interleaved:
        return a, b
    n = 2 * rotation.vec
    return a.shuffle(b, list(range(0, n, 2))), a.shuffle(b, list(range(1, n, 2)))


def _unpaired(rotation: Rotation, x: Any, y: Any) -> tuple[Any, Any]:
    if not rotation.interleaved:
        return x, y
    n = rotation.vec
    order = [i // 2 + n * (i % 2) for i in range(2 * n)]
    return x.shuffle(y, order[:n]), x.shuffle(y, order[n:])


def rotated(unit: Unit, values: tuple[Any, Any], angles: tuple[Any, Any, Any, Any], inverse: bool = False) -> Any:
    """The two vectors of a unit after the rotation, in f32; features that are not rotated stay."""
    a, b = (v.to(fx.Float32) for v in values)
    x, y = _pairs(unit.rotation, a, b)
    cos, sin, cos2, sin2 = angles
    if inverse:  # the transposed matrix
        new_x, new_y = x * cos + y * sin2, y * cos2 - x * sin
    else:
        new_x, new_y = x * cos - y * sin, y * cos2 + x * sin2
    c, d = _unpaired(unit.rotation, new_x, new_y)
    return (c, d) if unit.turns is None else (unit.turns.select(c, a), unit.turns.select(d, b))
