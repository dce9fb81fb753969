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

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import element_of
from ..parts.convert import widened
from ..parts.index import div
from ..parts.indices import index_at, require_within, uniform
from ..parts.mathx import LOG2E, exp2, tanh
from ..parts.rows import pointer
from .config import ACCESS, BLOCK, PagedConfig
from .merge import LOWEST, Place, merge_waves
from .pages import Pages

__all__ = ["Sizes", "Strides", "paged_kernel"]


WORD = 32  # bits


class Pieces:
    """What a lane loads at a time: consecutive elements of a row, as words (of 16 bits where it is no more).

    Words, not elements: the compiler keeps vectors of bytes in a loop byte by byte.
    """

    def __init__(self, element: Any, chunk: int, *shape: int) -> None:
        bits = chunk * element.width
        self.element, self.word = element, fx.Int32 if bits >= WORD else fx.Int16
        self.each = min(bits, 8 * ACCESS) // self.word.width  # of a load
        self.loads = bits // self.word.width // self.each
        self.words = fx.make_rmem_tensor(((self.each, self.loads), *shape), self.word)
        self.atom = fx.make_copy_atom(fx.UniversalCopy(self.each * self.word.width), self.word)

    def load(self, start: Any, further: Any, *place: int) -> None:
        """Start loading what is `further` elements behind a pointer to words of 32 bits."""
        first = fx.recast_iter(self.word, start) + div(further, self.word.width // self.element.width)
        for i in range(self.loads):
            fx.copy(self.atom, fx.make_view(first + i * self.each, fx.make_layout(self.each, 1)),
                    self.words[((None, i), *place)])

    def get(self, element: Any, *place: int) -> Any:
        """A piece as a vector of `element`."""
        held = self.words[(None, *place)].load().bitcast(self.element)
        return held if element is self.element else widened(held, element)


class Operand:
    """Rows of queries or keys as an operand of the first product: each lane has a row of its own in 16 rows.

    Args:
        side: ``"A"`` (keys) or ``"B"`` (queries).
        element: of memory.
    """

    def __init__(self, config: PagedConfig, mma: Any, side: str, element: Any, rows: int, lane: Any) -> None:
        self.config, self.rows, piece = config, rows, mma.get_slice(lane)
        tile, chunk = (rows, config.dim), config.key_chunk
        self.step = chunk * config.target.wave // BLOCK  # from piece to piece of a lane
        self.fragment = {"A": piece.make_fragment_A, "B": piece.make_fragment_B}[side](tile)
        atom = fx.make_copy_atom(fx.UniversalCopy(chunk * config.element.width), config.element)
        copy = {"A": fx.make_tiled_copy_A, "B": fx.make_tiled_copy_B}[side](atom, mma).get_slice(lane)
        self.target = copy.retile(self.fragment)
        self.row, self.column = [fx.Int32(fx.get_scalar(x)) for x in copy.partition_S(
            fx.make_view((0, 0), fx.make_identity_layout(tile)))[0]]
        self.pieces = Pieces(element, chunk, rows // BLOCK, config.dim // self.step)

    def load(self, start: Callable[[int, Any], Any]) -> None:
        """Start loading; ``start(n, row)`` points to the words of row `row` of the n-th 16."""
        for n in range(self.rows // BLOCK):
            row = start(n, self.row)
            for i in range(self.config.dim // self.step):
                self.pieces.load(row, self.column + i * self.step, n, i)

    def ready(self) -> Any:
        """The operand, in the type of the products."""
        inner = fx.size(self.target.shape[0][1]).unpack()  # pieces of one step of the instruction
        for n in range(self.rows // BLOCK):
            for i in range(self.config.dim // self.step):
                self.target[(None, i % inner), n, i // inner].store(self.pieces.get(self.config.element, n, i))
        return self.fragment


class Values:
    """Values, loaded by rows and turned within each lane to the operand of the second product."""

    def __init__(self, config: PagedConfig, mma: Any, lane: Any) -> None:
        self.config, chunk, lanes = config, config.value_chunk, config.target.wave // BLOCK
        self.tile, self.step = (config.tokens, config.dim), BLOCK * chunk
        atom = fx.make_copy_atom(fx.UniversalCopy(chunk * config.element.width), config.element)
        self.copy = fx.make_tiled_copy_tv(atom, fx.make_layout((lanes, BLOCK), (BLOCK, 1)),
                                          fx.make_ordered_layout((config.value_rows, chunk), (1, 0)))
        part = self.copy.get_slice(lane).partition_S(fx.make_view((0, 0), fx.make_identity_layout(self.tile)))
        self.row, self.column = [fx.Int32(fx.get_scalar(x)) for x in part[0]]
        self.pieces = Pieces(config.cache_element, chunk, config.value_rows, config.blocks, config.dim // self.step)
        self.operand = mma.thread_values("A", (config.dim, config.tokens))

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """Of the pieces: token of a block, block, column."""
        return itertools.product(range(self.config.value_rows), range(self.config.blocks),
                                 range(self.config.dim // self.step))

    def load(self, start: Callable[[int, Any], Any]) -> None:
        """Start loading; ``start(n, row)`` points to the words of token `row` of the n-th block."""
        for r, n, m in self._places():
            self.pieces.load(start(n, self.row + r), self.column + m * self.step, r, n, m)

    def ready(self) -> Any:
        """The operand V^T."""
        config, chunk = self.config, self.config.value_chunk
        wide = fx.make_rmem_tensor(((chunk, config.value_rows), config.blocks, config.dim // self.step), config.element)
        for r, n, m in self._places():
            wide[(None, r), n, m].store(self.pieces.get(config.element, r, n, m))
        loaded = self.copy.thread_values(self.tile)
        return fx.convert_layout(wide, self.operand, modes=(1, 0), thread_values=loaded)


def _flat(fragment: Any) -> Any:
    """The values of a fragment in their order, as a vector without modes."""
    values = fragment.load()
    return values.reshape((values.numel,))


@flyc.jit
def _hide(scores, places, first, place, context, reach, sees_all):
    """-inf for the keys that a query does not see, in a tile of which it does not see all."""
    config = place.config
    if ~sees_all:
        values = scores.load()
        shown = []
        for i in fx.range_constexpr(values.numel):
            key, row = [fx.Int32(fx.get_scalar(x)) for x in places[i]]
            newest = context - config.queries + fx.min(place.query(row), config.queries - 1)
            seen = first + key <= newest
            if fx.const_expr(config.window):
                seen = seen & (first + key >= newest - reach)
            shown.append(seen.select(values[i], fx.Float32(-math.inf)))
        scores.store(fx.Vector.from_elements(shown, fx.Float32))


def _logits(x: Any, scale: Any, cap: Any, config: PagedConfig) -> Any:
    """Products as logarithms (base 2) of weights."""
    if config.softcap:
        return tanh(x * (scale / cap)) * (cap * LOG2E)
    return x * (scale * LOG2E)


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
    first, second = config.products()

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
    q = Operand(config, first, "B", config.element, rows, lane)
    k = Operand(config, first, "A", config.cache_element, config.tokens, lane)
    v = Values(config, second, lane)
    k_scales, v_scales = [
        Scales(config, kind, tensors[name], keys, sizes.heads // config.group, head, v.row)
        for kind, name in ((config.key_scales, "k_scale"), (config.value_scales, "v_scale"))]
    scale = sizes.scale * k_scales.of_head
    scores = first.get_slice(lane).make_fragment_C((config.tokens, rows))
    sums = second.get_slice(lane).make_fragment_C((config.dim, rows))
    p = fx.make_fragment_like(scores, config.element)
    p_operand = second.thread_values("B", (rows, config.tokens))
    places = first.get_slice(lane).partition_C(
        fx.make_view((0, 0), fx.make_identity_layout((config.tokens, rows))))
    scores.fill(0.0)
    sums.fill(0.0)
    largest = fx.reduce(scores, 0, "MAX")  # for its layout
    total = fx.make_fragment_like(largest)
    largest.fill(LOWEST)
    total.fill(0.0)
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
            scores.store(_logits(k_scales.times(_flat(scores), now), scale, sizes.softcap, config))
            sees_all = now + config.tokens <= context - config.queries + 1
            if fx.const_expr(config.window):
                sees_all = sees_all & (now >= context - 1 - sizes.reach)
            _hide(scores, places, now, place, context, sizes.reach, sees_all)
            before = largest.load()
            after = fx.max(before, fx.reduce(scores, 0, "MAX").load())
            largest.store(after)
            decay = fx.make_fragment_like(largest)
            decay.store(exp2(before - after))
            weights = exp2(scores.load() - fx.broadcast_to(largest, scores))
            scores.store(weights)
            p.store(v_scales.times(weights, now).to(config.element))
            total.store(total.load() * decay.load() + fx.reduce(scores, 0, "ADD").load())
            sums.store(sums.load() * fx.broadcast_to(decay, sums))
            fx.gemm(second, sums, v.ready(), fx.convert_layout(p, p_operand, modes=(1, 0)), sums)
            v.load(values.block(now + step))

    out = pointer(tensors["out"], element_of("f32" if config.split else config.out))
    merge_waves(out, tensors, sums.load() * v_scales.of_head, largest.load(), total.load(), place, lane, wave)
