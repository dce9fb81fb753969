"""Paged attention of the newest tokens of sequences: keys and values stream from their pages into registers.

A workgroup takes the query rows of one key head (tokens x heads of the group, padded to 16) and a share of the context;
each of its waves takes tokens of its own, so nothing is exchanged before the end.

* Scores are computed transposed, S^T = K Q^T: then the accumulator of a lane is what operand B of the second product
  O^T = V^T P^T wants of it, without an instruction.
* A lane loads whole 16-byte pieces of *rows* of K and V, wherever their pages are; the order of K of the first product
  and that of the columns of the second are such that these pieces are operands. Values are turned within a lane.
* Keys of the next tile are loaded as soon as those of this one have been multiplied, and so are values: half of the
  registers of a double buffer, and always something under way. Where that is too many registers, keys and values of a
  tile take turns, and the other waves hide the wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.operands import reach_of
from ..attention.scores import Logits, RowState, lanes_of
from ..attention.weave import do
from ..cache.pages import ColumnPages, PageNumbers, Pages
from ..parts.index import div, mod
from ..parts.mathx import LOG2E
from ..parts.memory import pointer
from .config import BLOCK, DecodeConfig, PagedConfig
from .merge import merge_waves
from .operands import WORD, ColumnValues, Operand, Values

__all__ = ["Share", "Sizes", "Strides", "attend_pages", "sizes_of"]


class Scales:
    """Factors of the stored keys or values: one of all, of the head, or of each token.

    Args:
        kind: ``""``, ``"tensor"``, ``"head"`` or ``"token"``; data: [1], [key heads] or [pages, key heads, page].
        pages: of what they belong to; `key` is the token of a lane's first score in a tile.
    """

    def __init__(self, config: PagedConfig, kind: str, data: Any, pages: Pages, heads: Any, head: Any,
                 key: Any) -> None:
        self.config, self.kind, self.key = config, kind, key
        if kind:
            first = pointer(data, fx.Float32)
            self.head = None if kind == "token" else (first + head if kind == "head" else first).load()
            self.tokens = replace(pages, base=first + fx.Int64(head) * config.page,
                                  page_stride=fx.Int64(heads) * config.page, token_stride=fx.Int32(1))

    @property
    def of_head(self) -> Any:
        return self.head if self.kind in ("tensor", "head") else fx.Float32(1.0)

    def of_tokens(self, first: Any) -> Any:
        """Those of the tokens of a lane's scores in a tile that begins with token `first`, or None."""
        if self.kind != "token":
            return None
        held, blocks = self.config.value_rows, self.config.keys // BLOCK
        start = self.tokens.block(first)
        factors = [start(n, self.key + r).load() for n in range(blocks) for r in range(held)]
        return fx.Vector.from_elements(factors * self.config.blocks, fx.Float32)


@fx.struct
class Strides:
    """Of a cache, in elements: from page to page, token to token, head to head. In a packed cache, `unit` is from the
    features or tokens that lie together to the next ones, and `token` of values from a feature to the next one."""

    page: fx.Int64
    token: fx.Int32
    head: fx.Int64
    unit: fx.Int32


@fx.struct
class Sizes:
    """What is known at run time of a call: query `heads`, `parts` of each context, `reach` is how far back keys are
    seen, `table_stride` from a row of the table to the next of so many `columns` (those of one list have no rows), and
    `pages` those of the cache."""

    heads: fx.Int32
    parts: fx.Int32
    reach: fx.Int32
    table_stride: fx.Int32
    columns: fx.Int32
    pages: fx.Int64
    keys: Strides
    values: Strides
    scale: fx.Float32
    softcap: fx.Float32


def sizes_of(heads: int, parts: int, places: Sequence[int], scale: float, reach: int = -1, softcap: float = 0.0) -> Any:
    """:class:`Sizes` of a launch; `places`: stride and columns of the table, pages, strides of keys and of values;
    `reach`: of a window, -1 without one."""
    structs: Any = Sizes, Strides  # made by a decorator that type checkers do not follow
    sizes, strides = structs
    keys, values = (strides(*places[first : first + 4]) for first in (3, 7))
    return sizes(heads, parts, reach_of(reach), *places[:3], keys, values, scale, softcap)


@dataclass(frozen=True)
class Share:
    """The tokens of a sequence that a workgroup takes, `step` at a time.

    Attributes:
        table: pointer to the sequence's page numbers.
        context: tokens of the sequence; oldest: the first that any query sees.
        begin, end: of the tokens; tiles: how many steps they are.
    """

    table: Any
    context: Any
    oldest: Any
    begin: Any
    end: Any
    tiles: Any

    @classmethod
    def of(cls, table: Any, context: Any, step: int, part: Any = 0, parts: Any = 1, oldest: Any = 0) -> Share:
        """That of a part, of so many, of the tokens from the oldest one on, from the beginning of its block."""
        first = fx.Int32(oldest) // BLOCK * BLOCK
        tiles = fx.ceildiv(context - first, step)
        each = fx.ceildiv(tiles, parts)
        mine, begin = fx.max(fx.min(tiles - part * each, each), 0), first + part * each * step
        return cls(table, context, fx.Int32(oldest), begin, fx.min(begin + mine * step, context), mine)

    def numbers(self, config: DecodeConfig) -> PageNumbers:
        """Those of the pages of a share of one tile or more, under way."""
        first = div(fx.max(self.begin, self.oldest) if config.left else self.begin, config.page)
        return PageNumbers(self.table, first, div(self.end - 1, config.page) + 1, fx.thread_idx.x, config.threads)


def caches(tensors: dict[str, Any], sizes: Any, config: PagedConfig, share: Share, head: Any) -> tuple[Pages, Pages]:
    """Keys and values of a head."""
    each = WORD // config.stored_element.width
    found = []
    for name, size, unit in (("k_cache", sizes.keys, 0), ("v_cache", sizes.values, config.value_unit)):
        given = (pointer(tensors[name], fx.Int32) + fx.Int64(head) * div(size.head, each), share.table, config.page,
                 div(size.page, each), div(size.token, each), share.oldest, share.end - 1, config.uniform)
        found.append(ColumnPages(*given, unit, div(size.unit, each), each) if unit else Pages(*given))
    return found[0], found[1]


@flyc.jit
def attend_pages(tensors, sizes, config, share, results):
    """The work of a workgroup: its share of a context, for the rows of the place of its results."""
    lane, wave = fx.thread_idx.x % config.target.wave, fx.wave_index()
    place, rows = results.place, config.wave_rows
    first, second = config.tiled_mma(False, 1), config.tiled_mma(True, 1)
    step = config.step
    start = share.begin + wave * config.keys
    keys, values = caches(tensors, sizes, config, share, place.head)
    q = Operand(config, first, "B", config.element, rows, config.dim, lane)
    k = Operand(config, first, "A", config.stored_element, config.keys, config.dim, lane)
    v = (ColumnValues(config, second, config.stored_element, config.dim, lane, sizes.values.token) if config.value_unit
         else Values(config, second, config.stored_element, config.dim, lane))
    k_scales, v_scales = [
        Scales(config, kind, tensors[name], keys, sizes.heads // config.group, place.head, v.row)
        for kind, name in ((config.key_scales, "k_scale"), (config.value_scales, "v_scale"))]
    state = RowState(config, first.get_slice(lane), second.get_slice(lane), rows, config.dim, fx.Float32(LOG2E))
    scores, sums, softmax = state.scores, state.sums, state.softmax
    logits = Logits(config, place.band(share, sizes.reach), sizes.scale * k_scales.of_head,
                    sizes.softcap if config.softcap else None)

    def feature(column):
        return div(column, config.key_unit) * sizes.keys.unit + mod(column, config.key_unit)

    def load_keys(now):
        k.load(keys.block(now), 0, feature if config.key_unit else None)

    if share.tiles > 0:
        numbers = share.numbers(config)
        q.load(place.query_rows(tensors["q"], config.dim * config.element.width // WORD))
        numbers.require(sizes.pages)
        if fx.const_expr(config.ahead):
            load_keys(start)
            v.load(values.block(start))
        for tile in range(share.tiles):
            now = start + tile * step
            if fx.const_expr(not config.ahead):
                load_keys(now)
            of_keys, of_values = k_scales.of_tokens(now), v_scales.of_tokens(now) if config.ahead else None
            scores.fill(0.0)
            fx.gemm(first, scores, k.ready(), q.ready(), scores)
            if fx.const_expr(config.ahead):
                load_keys(now + step)
            else:
                v.load(values.block(now))
            if fx.const_expr(of_keys is not None):
                scores.store(lanes_of(scores) * of_keys)
            logits.apply(scores, state.places, now)
            if fx.const_expr(not config.ahead):
                of_values = v_scales.of_tokens(now)
            do([*softmax.begin(of_values), *softmax.finish(sums)])
            if fx.const_expr(config.value_unit > 0):
                v.clear(now, share.end)
            fx.gemm(second, sums, v.ready(), config.turned(state.weights), sums)
            if fx.const_expr(config.ahead):
                v.load(values.block(now + step))

    merge_waves(results, tensors, sums.load() * v_scales.of_head, softmax.result(), lane, wave)
