"""The softmax between the two products, tile by tile: scores to weights, with a running maximum and sum of each row."""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.scores import place as coordinates
from ..parts.convert import weights_to
from ..parts.mathx import LOG2E, exp2, tanh
from .config import DecodeConfig
from .merge import LOWEST

__all__ = ["Softmax", "flat", "hide", "logits"]


def flat(fragment: Any) -> Any:
    """The values of a fragment in their order, as a vector without modes."""
    values = fragment.load()
    return values.reshape((values.numel,))


@flyc.jit
def hide(scores, places, first, place, context, reach):
    """-inf for the keys that queries do not see, in a tile from token `first` on of which they do not see all.

    Args:
        scores: S^T; `places`: their coordinates in the tile.
        place: of the rows; `context`: tokens of the sequence; `reach`: how far back keys are seen with a window.
    """
    config = place.config
    sees_all = first + config.keys <= context - config.queries + 1
    if fx.const_expr(config.left):
        sees_all = sees_all & (first >= context - 1 - reach)
    if ~sees_all:
        values = scores.load()
        shown = []
        for i in fx.range_constexpr(values.numel):
            key, row = coordinates(places, i)
            newest = context - config.queries + fx.min(place.query(row), config.queries - 1)
            seen = first + key <= newest
            if fx.const_expr(config.left):
                seen = seen & (first + key >= newest - reach)
            shown.append(seen.select(values[i], fx.Float32(-math.inf)))
        scores.store(fx.Vector.from_elements(shown, fx.Float32))


def logits(x: Any, scale: Any, cap: Any, config: DecodeConfig) -> Any:
    """Products as logarithms (base 2) of weights."""
    if config.softcap:
        return tanh(x * (scale / cap)) * (cap * LOG2E)
    return x * (scale * LOG2E)


class Softmax:
    """Of the rows of a wave.

    Attributes:
        scores: S^T, an accumulator of the first product.
        largest, total: of each row, in the lanes that have its scores; largest is a logarithm (base 2).
    """

    def __init__(self, config: DecodeConfig, first: Any, second: Any, rows: int, lane: Any) -> None:
        self.config, tile = config, (config.keys, rows)
        mine = first.get_slice(lane)
        self.scores = mine.make_fragment_C(tile)
        self._rounded = fx.make_fragment_like(self.scores, config.element)
        self._operand = second.thread_values("B", (rows, config.keys))
        self.places = mine.partition_C(fx.make_view((0, 0), fx.make_identity_layout(tile)))
        self.scores.fill(0.0)
        self.largest = fx.reduce(self.scores, 0, "MAX")  # for its layout
        self.total = fx.make_fragment_like(self.largest)
        self.largest.fill(LOWEST)
        self.total.fill(0.0)

    def update(self) -> Any:
        """Scores become weights; gives the factors of what was summed before."""
        before = self.largest.load()
        after = fx.max(before, fx.reduce(self.scores, 0, "MAX").load())
        self.largest.store(after)
        decay = fx.make_fragment_like(self.largest)
        decay.store(exp2(before - after))
        self.scores.store(exp2(self.scores.load() - fx.broadcast_to(self.largest, self.scores)))
        self.total.store(self.total.load() * decay.load() + fx.reduce(self.scores, 0, "ADD").load())
        return decay

    def weights(self, values: Any) -> Any:
        """Weights (a vector, of :attr:`scores`) as operand of the second product."""
        self._rounded.store(weights_to(values, self.config.element, self.config.target))
        return fx.convert_layout(self._rounded, self._operand, modes=(1, 0))
