"""How a row of attention ends: the sum of its weights, what that makes of its values, and its logarithm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import flydsl.expr as fx

from ..parts.mathx import LN2, LOG2E, LOWEST, exp2

__all__ = ["RowSum"]


@dataclass(frozen=True)
class RowSum:
    """Weights of a row, ``e**(score - base)``, which sum up to `total`: 0 if it sees nothing. Differences are scaled to
    base 2, and not scores: these may be the lowest f32."""

    base: Any
    total: Any

    @classmethod
    def of_score(cls, score: Any) -> RowSum:
        """Of a natural logarithm: that of a sink, or that of another row."""
        return cls(score, fx.Float32(1.0))

    @classmethod
    def of(cls, parts: Iterable[RowSum]) -> RowSum:
        """Of a row whose scores are in several parts."""
        parts = list(parts)
        base = reduce(fx.maxnumf, (part.base for part in parts), fx.Float32(LOWEST))  # -inf has no difference to -inf
        return cls(base, sum((part.total * part.decay(base) for part in parts), fx.Float32(0.0)))

    def decay(self, base: Any) -> Any:
        """What weights are multiplied by for a larger base."""
        return exp2((self.base - base) * LOG2E)

    def share(self, factor: Any = 1.0) -> Any:
        """`factor` over the total, 0 of a row that sees nothing; NaN of one with such a score."""
        return (self.total != 0.0).select(factor / self.total, 0.0)

    @property
    def log(self) -> Any:
        """Of the sum of ``e**score``: -inf of a row that sees nothing, NaN of one with such a score."""
        return (self.total != 0.0).select(self.base + fx.math.log2(self.total) * LN2, -math.inf)
