"""Which features of a head are rotated, and how a row of features is spread over threads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..host.config import require
from ..host.dtypes import FLOATS
from ..parts.index import cdiv

__all__ = ["Rotation", "rotation"]

ACCESS_BITS = 128


@dataclass(frozen=True)
class Rotation:
    """Rotary embedding of the first `rotary` of `dim` features.

    A *unit* is what a thread holds: two vectors of `vec` features. The units of the rotated features come first, each
    with `vec` whole pairs; those of the other features follow.

    Attributes:
        dim: features of a head.
        rotary: rotated features, even.
        vec: features of a vector: a power of two.
        interleaved: pairs are neighbours ``(2 i, 2 i + 1)``; else ``(i, i + rotary / 2)``.
        first: features before the rotated ones, which are kept.
        full_table: a row of a table has `rotary` columns, one for each feature in the order of the features, instead of
            one for each pair.
    """

    dim: int
    rotary: int
    vec: int
    interleaved: bool
    first: int = 0
    full_table: bool = False

    @property
    def half(self) -> int:
        return self.rotary // 2

    @property
    def columns(self) -> int:
        """Of a row of a table."""
        return self.rotary if self.full_table else self.half

    @property
    def turning(self) -> int:
        """Units of rotated features."""
        return self.half // self.vec

    @property
    def units(self) -> int:
        """Units of a row."""
        return self.turning + cdiv(self.dim - self.rotary, 2 * self.vec)


def rotation(where: str, dim: int, rotary: int | None, interleaved: bool, dtype: str,
             full_table: bool = False) -> Rotation:
    """A checked :class:`Rotation`. ValueError: `rotary` is not an even number of 2 .. dim."""
    rotary = dim if rotary is None else rotary
    require(where, isinstance(rotary, int) and 2 <= rotary <= dim and rotary % 2 == 0,
            f"rotary_dim must be an even number from 2 to the head size {dim}, got {rotary!r}")
    vec = math.gcd(rotary // 2, dim - rotary, ACCESS_BITS // FLOATS[dtype].width)
    return Rotation(dim, rotary, vec, interleaved, full_table=full_table)
