"""From products to probabilities: soft cap, bias, ALiBi, visible keys, and the running maximum and sum of softmax.

Scores are transposed, (keys, rows): a lane has a column or several, so the maximum of a row is mostly within it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.mathx import exp2, tanh
from .config import AttentionConfig

__all__ = ["Band", "Logits", "Softmax", "finite", "lanes_of", "place", "total_of"]


@dataclass(frozen=True)
class Band:
    """The keys that rows see: key j and row i with ``low <= j - i <= high``, and j < keys.

    Attributes:
        row: first row of the workgroup; `rows`: how many it has.
        low, high: run-time bounds, or None.
        begin: the first key that is looked at, or None: 0.
    """

    row: Any
    rows: int
    keys: Any
    low: Any
    high: Any
    begin: Any = None

    def tiles(self, size: int) -> tuple[Any, Any]:
        """First tile of `size` keys that a row sees, and the one after the last."""
        first, end = fx.Int32(0), fx.ceildiv(self.keys, size)
        if self.low is not None:
            first = fx.max(self.row + self.low, 0) // size
        if self.high is not None:
            end = fx.min(end, fx.max(self.row + self.rows + self.high + size - 1, 0) // size)
        return first, end

    def whole(self, first: Any, size: int) -> Any:
        """Whether all rows see all of the `size` keys from `first` on."""
        seen = first + size <= self.keys
        if self.begin is not None:
            seen = seen & (first >= self.begin)
        if self.high is not None:
            seen = seen & (first + size <= self.row + self.high + 1)
        if self.low is not None:
            seen = seen & (first >= self.row + self.rows - 1 + self.low)
        return seen

    def sees(self, row: Any, key: Any) -> Any:
        """Whether a row (counted from the first of the workgroup) sees a key."""
        seen = key < self.keys
        if self.begin is not None:
            seen = seen & (key >= self.begin)
        if self.high is not None:
            seen = seen & (key - row <= self.row + self.high)
        if self.low is not None:
            seen = seen & (key - row >= self.row + self.low)
        return seen


@dataclass(frozen=True)
class Logits:
    """What makes products scores: scale, soft cap, bias, ALiBi, in this order, and the band.

    Attributes:
        scale: of products; `cap`: soft cap.
        bias: Buffer whose first element is that of row 0 and key 0, or None; `bias_row`: elements of a row.
        slope: of ALiBi; `shift`: the key at the place of row 0.
        by_keys: what the band calls rows are keys, and the other way round.
    """

    config: AttentionConfig
    band: Band
    scale: Any
    cap: Any = None
    bias: Any = None
    bias_row: Any = None
    slope: Any = None
    shift: Any = None
    by_keys: bool = False

    def starting(self, key: Any) -> Logits:
        """The same, without the keys before `key`."""
        return replace(self, band=replace(self.band, begin=key))

    def score(self, product: Any, row: Any, key: Any) -> tuple[Any, Any]:
        """The score of a row and a key, both as numbers in their sequences; and its derivative by product * scale."""
        score, slope = product * self.scale, None
        if self.config.softcap:
            part = tanh(score / self.cap)
            score, slope = self.cap * part, 1.0 - part * part
        if self.config.bias:
            score = score + self.bias.load(row * self.bias_row + key, 1)[0].to(fx.Float32)
        if self.config.alibi:
            score = score - self.slope * abs(row + self.shift - key).to(fx.Float32)
        return score, slope

    def apply(self, scores: Any, places: Any, first: Any, slopes: Any = None) -> None:
        """Products of a tile to scores, -inf for what is not seen.

        Args:
            scores: fragment of a tile (keys, rows) or, `by_keys`, (rows, keys); `places`: its coordinates.
            first: the first key (or row) of the tile.
            slopes: fragment that gets the derivatives, where there is a soft cap.
        """
        if not self.config.plain:
            values, found = scores.load(), []
            for i in range(values.numel):
                moving, fixed = place(places, i)
                at = (first + moving, self.band.row + fixed)
                found.append(self.score(values[i], *(at if self.by_keys else at[::-1])))
            scores.store(fx.Vector.from_elements([x for x, _ in found], fx.Float32))
            if slopes is not None:
                slopes.store(fx.Vector.from_elements([x for _, x in found], fx.Float32))
        _mask(scores, places, self.band, first, self.config.keys)


@flyc.jit
def _mask(scores, places, band, first, size):
    """-inf for keys that do not exist or are hidden, in a tile that has any."""
    if ~band.whole(first, size):
        values = scores.load()
        masked = []
        for i in fx.range_constexpr(values.numel):
            key, row = place(places, i)
            masked.append(band.sees(row, first + key).select(values[i], fx.Float32(-math.inf)))
        scores.store(fx.Vector.from_elements(masked, fx.Float32))


def place(places: Any, i: int) -> tuple[Any, Any]:
    """(key, row) in the tile of value number i of a fragment."""
    key, row = (fx.Int32(fx.get_scalar(x)) for x in places[i])
    return key, row


SLACK = 8.0  # powers of two that scores may exceed the maximum which they are taken relative to


class Softmax:
    """Running maximum and sum of the rows of score tiles. Each lane has values of one row.

    Scores are taken relative to a *base*, the maximum when it was last looked at: as long as no score exceeds it by
    more than `SLACK` powers of two, nothing that was summed has to be scaled, and probabilities are below 2**SLACK.

    Args:
        scores: fragment of a tile (keys, rows).
        factor: scores times this are logarithms of base 2.
        start: a score that counts without having a value, or None.
        once: holds in one of the lanes that share a row.
    """

    def __init__(self, scores: Any, factor: Any, start: Any = None, once: Any = None) -> None:
        self.scores, self.factor = scores, factor
        self._base, self._total = (fx.make_rmem_tensor(1, fx.Float32) for _ in range(2))
        self._base[0] = fx.Float32(-math.inf) if start is None else start
        self._total[0] = fx.Float32(0.0) if start is None else once.select(fx.Float32(1.0), fx.Float32(0.0))

    def rebase(self, sums: Any) -> None:
        """Look at the scores; `sums`, so far, are scaled where the base changes."""
        with fx.fastmath("nnan"):
            largest = fx.reduce(self.scores, 0, "MAX").load()[0]
        _rebase(self._base, self._total, sums, largest, self.factor)

    def weigh(self, plain: bool) -> None:
        """Scores become probabilities.

        Args:
            plain: scores times the factor are exact enough to subtract from.
        """
        base, values = finite(self._base[0]), lanes_of(self.scores)
        if plain:
            with fx.fastmath("contract"):
                values = exp2(values * self.factor - base * self.factor)
        else:
            values = exp2((values - base) * self.factor)
        self.scores.store(values)
        self._total[0] = self._total[0] + total_of(values)

    def finish(self) -> tuple[Any, Any]:
        """Base and total of this lane's row."""
        values = [self._total[0]] + [fx.Float32(0.0)] * (self.scores.load().numel - 1)
        self.scores.store(fx.Vector.from_elements(values, fx.Float32))
        return self._base[0], fx.reduce(self.scores, 0, "ADD").load()[0]


@flyc.jit
def _rebase(base, total, sums, largest, factor):
    """Take the largest score as the base if a row of the wave has grown too far from its own."""
    # Differences of -inf are NaN, which is not above anything.
    if any_lane((largest - base[0]) * factor > SLACK):
        after = fx.maxnumf(base[0], largest)
        decay = exp2((base[0] - finite(after)) * factor)
        base[0] = after
        total[0] = total[0] * decay
        sums.store(sums.load() * decay)


def any_lane(condition: Any) -> Any:
    """Whether it holds in any lane of the wave."""
    kind = fx.Int64 if fx.num_warp_threads() == 64 else fx.Int32
    return kind(fx.rocdl.ballot(kind.ir_type, condition)) != 0


def finite(x: Any) -> Any:
    """x, or 0 for -inf: rows that have seen nothing yet."""
    return (x == -math.inf).select(0.0, x)


def lanes_of(fragment: Any) -> Any:
    """The values of a fragment as a flat vector."""
    values = fragment.load()
    return values.reshape(values.numel)


def total_of(values: Any) -> Any:
    """Of all elements; halves are added, which takes packed additions."""
    rest = []
    while values.numel > 1:
        half = values.numel // 2
        if values.numel % 2:
            rest.append(values[values.numel - 1])
        low, high = (values.shuffle(values, list(range(i * half, (i + 1) * half))) for i in range(2))
        values = low + high
    return sum(rest, values[0])
