"""Paged attention of the newest tokens of sequences: keys and values stream from their pages into registers.

A workgroup takes the query rows of one key head (tokens x heads of the group, padded to 16) and a share of the context;
each of its waves takes tokens of its own, so nothing is exchanged before the end.

* Scores are computed transposed, S^T = K Q^T: then the accumulator of a lane is what operand B of the second product
  O^T = V^T P^T wants of it, without an instruction.
* A lane loads whole 16-byte pieces of *rows* of K and V, wherever their pages are; the order of K of the first product
  and that of the columns of the second are such that these pieces are operands. Values are turned within a lane.
* Keys of the next tile are loaded as soon as those of this one have been multiplied, and so are values: half of the
  registers of a double buffer, and always something under way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import element_of
from ..parts.index import div
from ..parts.indices import index_at, require_within, uniform
from ..parts.rows import pointer
from .config import BLOCK, PagedConfig
from .merge import Place, merge_waves
from .operands import WORD, Operand, Values
from .pages import Pages
from .softmax import Softmax, flat, logits

__all__ = ["Sizes", "Strides", "paged_kernel"]


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

    def times(self, values: Any, first: Any) -> Any:
        """Scores or weights of a tile that begins with token `first`, times the scales of their tokens."""
        if self.kind != "token":
            return values
        held, blocks = self.config.value_rows, self.config.blocks
        start = self.tokens.block(first)
        factors = [start(n, self.key + r).load() for n in range(blocks) for r in range(held)]
        return values * fx.Vector.from_elements(factors * self.config.tiles, fx.Float32)


@fx.struct
class Strides:
    """Of a cache, in elements: from page to page, token to token, head to head."""

    page: fx.Int64
    token: fx.Int32
    head: fx.Int64


@fx.struct
class Sizes:
    """What is known at run time of a call: `reach` is how far back keys are seen, `pages` the columns of the table."""

    heads: fx.Int32
    parts: fx.Int32
    reach: fx.Int32
    table_stride: fx.Int32
    pages: fx.Int32
    keys: Strides
    values: Strides
    scale: fx.Float32
    softcap: fx.Float32


@flyc.kernel
def paged_kernel(tensors, sizes, config: fx.Constexpr):
    """Workgroup (key head x row block, sequence, part)."""
    lane, wave = fx.thread_idx.x % config.target.wave, fx.wave_index()
    which, sequence, part = fx.block_idx
    head, rows = which // config.row_blocks, config.tiles * BLOCK
    place = Place(config, which % config.row_blocks * rows, sequence, head, sizes.heads, part, sizes.parts)
    first, second = config.products(config.dim)

    # The tiles of this workgroup: its share of those from the oldest key that a query sees.
    context = uniform(require_within(index_at(tensors["lengths"], sequence), 0,
                                     fx.Int64(sizes.pages) * config.page + 1))
    oldest = fx.max(context - config.queries - sizes.reach, 0) if config.window else fx.Int32(0)
    begin, step = oldest // BLOCK * BLOCK, config.waves * config.tokens
    tiles = fx.ceildiv(context - begin, step)
    share = fx.ceildiv(tiles, sizes.parts)
    mine = fx.max(fx.min(tiles - part * share, share), 0)
    start = begin + part * share * step + wave * config.tokens

    table = fx.get_iter(tensors["table"]) + fx.Int64(sequence) * sizes.table_stride
    each = WORD // config.cache_element.width
    keys, values = [
        Pages(pointer(tensors[name], fx.Int32) + fx.Int64(head) * div(size.head, each), table, config.page,
              div(size.page, each), div(size.token, each), oldest, context - 1, config.uniform)
        for name, size in (("k_cache", sizes.keys), ("v_cache", sizes.values))]
    q = Operand(config, first, "B", config.element, rows, config.dim, lane)
    k = Operand(config, first, "A", config.cache_element, config.tokens, config.dim, lane)
    v = Values(config, second, config.cache_element, config.dim, lane)
    k_scales, v_scales = [
        Scales(config, kind, tensors[name], keys, sizes.heads // config.group, head, v.row)
        for kind, name in ((config.key_scales, "k_scale"), (config.value_scales, "v_scale"))]
    scale = sizes.scale * k_scales.of_head
    softmax = Softmax(config, first, second, rows, lane)
    scores, sums = softmax.scores, second.get_slice(lane).make_fragment_C((config.dim, rows))
    sums.fill(0.0)
    queries, row_words = pointer(tensors["q"], fx.Int32), config.dim * config.element.width // WORD
    last_row = config.rows - 1 - place.first

    if mine > 0:
        q.load(lambda n, row: queries + fx.Int64(place.line(fx.min(n * BLOCK + row, last_row))) * row_words)
        k.load(keys.block(start))
        v.load(values.block(start))
        for tile in range(mine):
            now = start + tile * step
            scores.fill(0.0)
            fx.gemm(first, scores, k.ready(), q.ready(), scores)
            k.load(keys.block(now + step))
            scores.store(logits(k_scales.times(flat(scores), now), scale, sizes.softcap, config))
            softmax.hide(now, place, context, sizes.reach)
            sums.store(sums.load() * fx.broadcast_to(softmax.update(), sums))
            weights = softmax.weights(v_scales.times(flat(scores), now))
            fx.gemm(second, sums, v.ready(), weights, sums)
            v.load(values.block(now + step))

    out = pointer(tensors["out"], element_of("f32" if config.split else config.out))
    merge_waves(out, tensors, sums.load() * v_scales.of_head, softmax.largest.load(), softmax.total.load(),
                place, lane, wave)
