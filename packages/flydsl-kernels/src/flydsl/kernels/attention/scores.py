"""From products to probabilities: soft cap, bias, ALiBi, visible keys, and the running maximum and sum of softmax.

Scores are transposed, (keys, rows): a lane has a column or several, so the maximum of a row is mostly within it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.indices import any_lane, rarely, uniform
from ..parts.mathx import LN2, LOWEST, exp2, tanh
from ..parts.runs import run_of, runs_of
from .config import AttentionConfig
from .row_sum import RowSum
from .weave import Work

__all__ = ["Band", "Logits", "RowState", "Softmax", "lanes_of", "place", "total_of"]


@dataclass(frozen=True)
class Band:
    """The keys that rows see: key j and row i with ``low <= j - i <= high``, and j < keys.

    Attributes:
        row: first row of the workgroup; `rows`: how many it has.
        low, high: run-time bounds, or None.
        query: the row of the band that one of the workgroup is, where these are the same for several heads.
    """

    row: Any
    rows: int
    keys: Any
    low: Any
    high: Any
    query: Callable[[Any], Any] = lambda row: row

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
        if self.high is not None:
            seen = seen & (first + size <= self.row + self.high + 1)
        if self.low is not None:
            seen = seen & (first >= self.row + self.rows - 1 + self.low)
        return seen

    def seen_by(self, row: Any) -> tuple[Any, Any]:
        """The first key that a row (counted from the first of the workgroup) sees, or None, and the one after the
        last."""
        row, end = self.row + self.query(row), self.keys
        if self.high is not None:
            end = fx.min(end, row + self.high + 1)
        return None if self.low is None else row + self.low, end


@dataclass(frozen=True)
class Logits:
    """What makes products scores: scale, soft cap, bias, ALiBi, in this order, and the band.

    Attributes:
        scale: of products; `cap`: soft cap, or None.
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

    def score(self, product: Any, row: Any, key: Any) -> tuple[Any, Any]:
        """The score of a row and a key, both as numbers in their sequences; and its derivative by product * scale."""
        score, slope = product * self.scale, None
        if self.cap is not None:
            part = tanh(product * (self.scale / self.cap))
            score, slope = part * self.cap, 1.0 - part * part
        if self.bias is not None:
            score = score + self.bias.load(row * self.bias_row + key, 1)[0].to(fx.Float32)
        if self.slope is not None:
            score = score - self.slope * abs(row + self.shift - key).to(fx.Float32)
        return score, slope

    def apply(self, scores: Any, places: Any, first: Any, slopes: Any = None, weighed: Any = True) -> None:
        """Products of a tile to scores, -inf for what is not seen.

        Args:
            scores: fragment of a tile (keys, rows) or, `by_keys`, (rows, keys); `places`: its coordinates.
            first: the first key (or row) of the tile.
            slopes: fragment that gets the derivatives, where there is a soft cap.
            weighed: whether the scores count; else hidden ones may be anything.
        """
        if self.config.plain:
            pass
        elif self.bias is None and self.slope is None:  # all at once
            found, slope = self.score(lanes_of(scores), None, None)
            scores.store(found)
            if slopes is not None:
                slopes.store(slope)
        else:
            values, found = scores.load(), []
            for i in range(values.numel):
                moving, fixed = place(places, i)
                at = (first + moving, self.band.row + fixed)
                found.append(self.score(values[i], *(at if self.by_keys else at[::-1])))
            scores.store(fx.Vector.from_elements([x for x, _ in found], fx.Float32))
            if slopes is not None:
                slopes.store(fx.Vector.from_elements([x for _, x in found], fx.Float32))
        _mask(scores, places, self.band, first, self.config, weighed)


@flyc.jit
def _mask(scores, places, band, first, config, weighed):
    """-inf for keys that do not exist or are hidden, in a tile that has any."""
    if rarely(~band.whole(first, config.keys) & weighed):
        values, masked = scores.load(), []
        count, size = config.values // config.blocks, config.together
        for start in fx.range_constexpr(0, values.numel, size):
            own, row = place(places, start - start % count)
            seen = _seen(config, band, first, own, row, [place(places, i)[0] for i in range(start, start + size)])
            _keep_together(config)
            masked += [x.select(values[start + i], fx.Float32(-math.inf)) for i, x in enumerate(seen)]
            _keep_together(config)
        scores.store(fx.Vector.from_elements(masked, fx.Float32))


def _keep_together(config: Any) -> None:
    """Between comparisons and what chooses by them, which is in other quarters of the registers: one change each."""
    if config.target.register_quarters:
        fx.rocdl.sched_barrier(0)


def _seen(config: Any, band: Band, first: Any, own: Any, row: Any, keys: list[Any]) -> list[Any]:
    """Whether a row sees each of `keys`, all counted from the first of a tile; `own`: a key of the same lane."""
    low, end = band.seen_by(row)
    if low is None and band.high is None:  # what a lane would keep for this costs loops of 256 columns 2 %
        return [first + key < end for key in keys]
    # Counted from one of a lane, its keys are known: what they are compared with is made once for each row.
    start = first + own
    if not config.target.register_quarters:  # where registers are few, it is made here: loops would keep one for it
        start = fx.Int32(fx.rocdl.computed_here(start))
    low, end = [bound if bound is None else bound - start for bound in (low, end)]
    return [key - own < end if low is None else (key - own < end) & (key - own >= low) for key in keys]


def place(places: Any, i: int) -> tuple[Any, Any]:
    """(key, row) in the tile of value number i of a fragment."""
    key, row = (fx.Int32(fx.get_scalar(x)) for x in places[i])
    return key, row


class Softmax:
    """Running base and sum of the rows of score tiles. Each lane has values of `blocks` rows,
    one row after the other.

    Scores are taken relative to a *base*, the maximum when it was last looked at. Nobody looks as long as the
    probabilities of a tile sum up to no more than `config.most`: then none of its scores exceeds the base by much.
    Otherwise `rebase` makes them anew, relative to the new maximum, and scales what was summed before. A row that has
    seen no key has the lowest base there is: any other score is too large for it.

    A tile is weighed in two parts, so that each runs beside another product: `begin` with what is summed before this
    tile, and `finish` with the scores of the next one. They are lists of small pieces of work, to be done in order.

    Args:
        config: of it, the values of a lane that `begin` weighs; whether scores times the factor are exact enough to
            subtract from, and be bases (`plain`); whether the loop is `rolled`.
        scores: fragment of a tile (keys, rows).
        weights: fragment like it, of the probabilities.
        factor: scores times this are logarithms of base 2.
        start: a score that counts without having a value, or None.
        once: holds in one of the lanes that share a row.
    """

    def __init__(self, config: AttentionConfig, scores: Any, weights: Any, factor: Any, start: Any = None,
                 once: Any = None) -> None:
        self.config, self.scores, self.weights, self.factor = config, scores, weights, factor
        # A loop of one tile a turn holds scores while those of the next tile are made: some instruction has to move
        # them to other registers, between products and not behind the last one. Others than `plain` ones have moved.
        self._blocks, self._moved = config.blocks, config.rolled and config.plain
        lanes, rows = fx.num_warp_threads(), config.matrix.m
        self._apart = [rows << i for i in range((lanes // rows).bit_length() - 1)]  # lanes that share a row
        self._count = config.values // config.blocks  # of a row
        self.base, self.total, self.sum = (fx.make_rmem_tensor(self._blocks, fx.Float32) for _ in range(3))
        counts = None if start is None else once & (start > -math.inf)
        for row in range(self._blocks):
            self.base[row] = fx.Float32(LOWEST) if start is None else fx.max(self._scaled(start), LOWEST)
            self.total[row] = fx.Float32(0.0) if counts is None else counts.select(fx.Float32(1.0), fx.Float32(0.0))
        self.held = fx.make_fragment_like(scores)
        # Of sums, and whether there is something to scale.
        self._decays, self._decayed = fx.make_rmem_tensor(self._blocks, fx.Float32), fx.make_rmem_tensor(1, fx.Int32)
        self._decays.fill(1.0)
        self._begun = fx.make_rmem_tensor(config.early // 2, fx.Int32)
        self._part = fx.make_rmem_tensor(2 * -(-config.early // self._count), fx.Float32)
        self._words: list[Any] = []
        self._runs: list[Any] = []  # scores, so many `together`
        self._sums: list[list[Any]] = []
        self._few: Any = None  # whether no score of the tile exceeds the base by much
        self._factors: Any = None

    def _weigh(self, scores: Any, first: int, end: int, moved: bool = False) -> list[Work]:
        """Some of the scores become probabilities, a run of them `together`: `_words` of two each, `_sums` of each row
        in two parts.

        The results of exponentials are used behind the next exponents, when they are there. What is to be held
        is `moved` here, with each run that is weighed another one.
        """
        size = self.config.together
        slots = size // 2 + 1  # of a kind, for pairs, and what goes with them

        def take() -> None:
            values = lanes_of(scores)
            self._runs = runs_of(values, size)
            self._words, self._sums = [], [[] for _ in range(self._blocks)]

        def move(i: int) -> None:
            self._runs[i // size] = self._runs[i // size] * self.factor

        def exponents(i: int, values: list[Any]) -> None:
            run = self._runs[i // size]
            with fx.fastmath("contract"):
                base = self.base[i // self._count]
                if self.config.copies_base:
                    base = fx.maxnumf(base, fx.Float32(LOWEST))  # none is lower
                found = self._exponents(run if self._moved else self._scaled(run), base)
            values += [found[j] for j in range(size)]

        def power(values: list[Any], j: int) -> None:
            values[j] = exp2(values[j])

        def round_(i: int, values: list[Any]) -> None:
            self._words += [self._packed(pair, i + 2 * j) for j, pair in enumerate(_pairs(values))]

        def add(i: int, values: list[Any]) -> None:
            sums = self._sums[i // self._count]
            for pair in _pairs(values):  # Two sums take turns, so that none waits for the addition before.
                sums[:] = [*sums, pair] if len(sums) < 2 else [sums[1], sums[0] + pair]

        work, use = [Work(take, 0)], list[Work]()
        for i in range(first, end, size):
            values: list[Any] = []
            this, other = ([Work(partial(move, n), slots)] if moved else [] for n in (i, i + end))
            powers = [Work(partial(power, values, j), 4) for j in range(size)]
            work += [*this, Work(partial(exponents, i, values), slots), *use]
            work += [*powers[: size // 2], *other, *powers[size // 2 :]]
            use = [Work(partial(round_, i, values), slots), Work(partial(add, i, values), slots)]
        return work + use

    def _scaled(self, scores: Any) -> Any:
        """In the unit of bases."""
        return scores * self.factor if self.config.plain else scores

    def _exponents(self, values: Any, base: Any) -> Any:
        """Logarithms of base 2, relative to a base in its unit."""
        return values - base if self.config.plain else (values - base) * self.factor

    def _parts(self, before: Any = None) -> Any:
        """Sums of each row that is weighed, in two parts; with those `before` of the first rows."""
        parts = []
        for row, sums in enumerate(self._sums):
            if before is not None and 2 * row < before.numel:
                sums = [run_of(before, 2 * row, 2), *sums]
            parts += [sum(sums[1:], sums[0])] if sums else []
        return _made(fx.Vector.from_elements([part[i] for part in parts for i in range(2)], fx.Float32))

    def _packed(self, pair: Any, i: int) -> Any:
        """Probabilities i and i + 1 as weights, in one register."""
        if self._factors is not None:
            pair = pair * run_of(self._factors, i, 2)
        return packed(pair, self.weights.dtype, self.config.converts)

    def begin(self, factors: Any = None) -> list[Work]:
        """Hold the scores; the first of them become probabilities.

        Args:
            factors: of the tile's weights, which do not count where these are summed; or None.
        """
        self._factors = factors

        def keep() -> None:
            self._part.store(self._parts())
            self._begun.store(fx.Vector.from_elements([fx.rocdl.computed_here(w) for w in self._words], fx.Int32))
            moved = [run[j] for run in self._runs for j in range(run.numel)] if self._moved else []
            self.held.store(fx.Vector.from_elements(moved, fx.Float32) if moved else self.scores.load())

        return [*self._weigh(self.scores, 0, self.config.early, self._moved), Work(keep)]

    def finish(self, sums: Any) -> list[Work]:
        """The other held scores become probabilities; `weights` then are those of the tile, which is added to the
        total. If a score exceeds the base by too much, rows take a new one.

        Args:
            sums: of the tiles before, scaled where the base changes.
        """
        def collect() -> None:
            parts = self._parts(self._part.load())
            for row in range(self._blocks):
                self.sum[row] = parts[2 * row] + parts[2 * row + 1]
            begun = self._begun.load()
            words = [*(begun[i] for i in range(begun.numel)), *map(fx.rocdl.computed_here, self._words)]
            self.weights.store(fx.Vector.from_elements(words, fx.Int32).bitcast(self.weights.dtype))

        def judge() -> None:
            # No sum is negative, so none is large if all together are not.
            self._few = sum((self.sum[row] for row in range(1, self._blocks)), self.sum[0]) <= self.config.most

        def settle() -> None:
            self._decayed[0] = fx.Int32(0)
            # A sum that is NaN is not at most anything.
            _seldom(any_lane(~self._few), partial(self.rebase, sums))
            if self.config.scales_apart:
                _seldom(self._decayed[0] != 0, partial(self._decay, sums))
            for row in range(self._blocks):
                self.total[row] = self.total[row] + self.sum[row]

        # The branch comes before the last products, so that the matrix unit has work while it is decided.
        return [*self._weigh(self.held, self.config.early, self._count * self._blocks), Work(collect, 2),
                Work(judge, 2 * self._blocks), Work(settle, self._blocks)]

    def look(self) -> None:
        """The largest score of the first tile as base, before anything is weighed."""
        scores = self._scaled(lanes_of(self.scores))
        for row in range(self._blocks):
            self._take(row, fx.maxnumf(self.base[row], self._largest(scores, row)))

    def _largest(self, scores: Any, row: int) -> Any:
        with fx.fastmath("nnan"):
            return self._of_row(total_of(run_of(scores, row * self._count, self._count), fx.maxnumf))

    def _take(self, row: int, base: Any) -> Any:
        """Another base of a row, and what becomes of sums relative to the one before."""
        decay = exp2(self._exponents(self.base[row], base))
        self.base[row] = base
        self.total[row] = self.total[row] * decay
        return decay

    def rebase(self, sums: Any) -> None:
        """The maximum as base of rows with too large a sum, and weights for it. The others keep theirs, to the bit.

        Args:
            sums: what was summed before is scaled: here, or `scales_apart`.
        """
        held, words, decays, summed = lanes_of(self.held), [], [], []
        held = held if self._moved else self._scaled(held)
        old = lanes_of(self.weights).bitcast(fx.Int32)
        for row in range(self._blocks):
            first = row * self._count
            with fx.fastmath("nnan"):
                large = self._of_row((self.sum[row] <= self.config.most).select(fx.Float32(0.0), fx.Float32(1.0))) > 0.0
            before = self.base[row]
            summed.append(before > LOWEST)
            base = large.select(fx.maxnumf(before, self._largest(held, row)), before)
            values = exp2(self._exponents(run_of(held, first, self._count), base))
            decays.append(self._take(row, base))
            words += [large.select(self._packed(pair, first + 2 * i), old[first // 2 + i])
                      for i, pair in enumerate(runs_of(values, 2))]
            self.sum[row] = large.select(total_of(values), self.sum[row])
        self.weights.store(fx.Vector.from_elements(words, fx.Int32).bitcast(self.weights.dtype))
        if not self.config.scales_apart:
            sums.store(of_rows(sums, decays))
            return
        self._decays.store(fx.Vector.from_elements(decays, fx.Float32))
        self._decayed[0] = uniform(any_lane(reduce(operator.or_, summed)).select(fx.Int32(1), fx.Int32(0)))

    def _decay(self, sums: Any) -> None:
        """The rest of :meth:`rebase`, if anything was summed before."""
        sums.store(of_rows(sums, [self._decays[i] for i in range(self._blocks)]))

    def _of_row(self, value: Any, join: Callable[[Any, Any], Any] = fx.maxnumf) -> Any:
        """What the lanes that share a row have, joined: the largest value, or the sum."""
        for apart in self._apart:
            value = join(value, fx.shuffle_xor(value, apart, fx.num_warp_threads()))
        return value

    def result(self) -> list[RowSum]:
        """The sums of this lane's rows."""
        unit = LN2 if self.config.plain else 1.0
        return [RowSum(self.base[row] * unit, self._of_row(self.total[row], operator.add))
                for row in range(self._blocks)]


class RowState:
    """What is kept of rows from tile to tile.

    Args:
        scores_of, sums_of: slices of both products of a thread; `rows`, `columns`: of the sums.
        factor, start: of :class:`Softmax`.

    Attributes:
        scores, places: fragment of the scores of a tile (keys, rows), and of their coordinates.
        weights: of them, in the type of the products; sums: of weighted values (columns, rows).
    """

    def __init__(self, config: AttentionConfig, scores_of: Any, sums_of: Any, rows: int, columns: int, factor: Any,
                 start: Any = None) -> None:
        tile = (config.keys, rows)
        self.scores, self.sums = scores_of.make_fragment_C(tile), sums_of.make_fragment_C((columns, rows))
        self.places = scores_of.partition_C(fx.make_view((0, 0), fx.make_identity_layout(tile)))
        self.weights = fx.make_fragment_like(self.scores, config.element)
        self.sums.fill(0.0)
        self.softmax = Softmax(config, self.scores, self.weights, factor, start, place(self.places, 0)[0] == 0)


def of_rows(fragment: Any, factors: list[Any]) -> Any:
    """Values of a lane, one row after the other, times the factor of their row."""
    if len(factors) == 1:
        return fragment.load() * factors[0]
    values = lanes_of(fragment)
    count = values.numel // len(factors)
    return fx.Vector.from_elements([values[i] * factors[i // count] for i in range(values.numel)], fx.Float32)


@flyc.jit
def _seldom(condition, action):
    """A branch of the whole wave that is rarely taken."""
    if rarely(condition):
        action()


def packed(pair: Any, element: Any, converts: bool) -> Any:
    """Two probabilities in one register; `converts`: the target has an instruction for it."""
    if converts:
        return pair.to(element).bitcast(fx.Int32)[0]
    # To nearest, halves up: a third of the instructions of to even; infinities stay, and NaN as arithmetic makes it.
    words = [fx.Uint32(x.bitcast(fx.Uint32)) + 0x8000 for x in (pair[0], pair[1])]
    return fx.Int32((words[1] & 0xFFFF0000) | (words[0] >> 16))


def _pairs(values: list[Any]) -> list[Any]:
    """Two numbers each."""
    return [fx.Vector.from_elements(values[j : j + 2], fx.Float32) for j in range(0, len(values), 2)]


def _made(values: Any) -> Any:
    """A vector of f32 that is made before what follows, not behind a branch to its use."""
    words = values.bitcast(fx.Int32)
    made = [fx.rocdl.computed_here(words[i]) for i in range(words.numel)]
    return fx.Vector.from_elements(made, fx.Int32).bitcast(fx.Float32)


def lanes_of(fragment: Any) -> Any:
    """The values of a fragment as a flat vector."""
    values = fragment.load()
    return values.reshape(values.numel)


def total_of(values: Any, add: Callable[[Any, Any], Any] = operator.add) -> Any:
    """Of all elements; halves are added, which takes packed additions."""
    rest = []
    while values.numel > 1:
        half = values.numel // 2
        if values.numel % 2:
            rest.append(values[values.numel - 1])
        low, high = (run_of(values, i * half, half) for i in range(2))
        values = add(low, high)
    return reduce(add, rest, values[0])
