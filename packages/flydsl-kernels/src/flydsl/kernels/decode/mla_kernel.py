"""MLA decode: all heads of a token attend to one latent vector a token of the context.

A workgroup takes up to 64 rows (tokens x heads) and a share of the context, which passes through LDS tile by tile. Four
waves share rows: each multiplies half of the columns of half of the keys (the scores come together in LDS) and makes a
quarter of the columns of the result. So a wave reads a part of a tile for all of the rows, and its accumulators fit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import element_of
from ..parts.index import div, mod
from ..parts.indices import index_at, require_within, uniform
from ..parts.memory import lds_read, lds_write, pointer
from ..parts.reduce import Lds
from .config import ACCESS, BLOCK
from .kernel import Share
from .merge import Results
from .mla_config import HALVES, KEY_PASS, RANK, ROPE, SHARING, VALUE_PASS, MlaConfig, WideConfig
from .mla_wide import attend_wide
from .operands import WORD, Operand, Pieces, Values
from .pages import PageNumbers, Pages
from .softmax import Softmax, flat, logits

__all__ = ["attend_rows", "mla_kernel"]


class Tile:
    """A tile of the context on its way from the pages to LDS, widened to the type of the products.

    The threads take the latent vectors of a block in order, 16 bytes each, then the rotated parts. Page numbers are
    looked up a tile ahead.
    """

    def __init__(self, config: MlaConfig, pages: Pages, lds: Any, thread: Any) -> None:
        self.config, self.pages, self.lds, self.thread = config, pages, lds, thread
        self.chunk = ACCESS * 8 // config.cache_element.width
        # (first column, 16-byte pieces of a token's part)
        self.parts = ((0, RANK // self.chunk), (RANK, ROPE // self.chunk))
        self.slots = config.blocks * sum(max(BLOCK * each // config.threads, 1) for _, each in self.parts)
        self.held = Pieces(config.cache_element, self.chunk, self.slots)
        self.number = fx.make_rmem_tensor(1, fx.Int32)

    def _places(self) -> Iterator[tuple[int, int, Any, Any, int]]:
        """(slot, block, token of the block, column, threads that take part)."""
        slot, threads = 0, self.config.threads
        for block in range(self.config.blocks):
            for first, each in self.parts:
                whole = BLOCK * each
                at = mod(self.thread, whole)
                for step in range(max(whole // threads, 1)):
                    yield slot, block, div(at, each) + step * threads // each, first + mod(at, each) * self.chunk, whole
                    slot += 1

    def look(self, first: Any) -> None:
        """Start looking up the pages of the tile that begins with token `first`: each lane the one of a token."""
        self.number[0] = self.pages.number(first, self._token()).to(fx.Int32)

    def _token(self) -> Any:
        return mod(mod(self.thread, self.config.target.wave), self.config.tokens)

    def load(self, first: Any) -> None:
        """Start loading that tile, and looking up the pages of the next one."""
        wave = self.config.target.wave
        offset = self.pages.offset(first, self._token(), fx.Int64(self.number[0]))
        halves = fx.Vector.from_elements([offset], fx.Int64).bitcast(fx.Int32)
        for slot, block, token, column, _ in self._places():
            there = [fx.shuffle_idx(halves[i], block * BLOCK + token, wave) for i in range(2)]
            start = fx.Vector.from_elements(there, fx.Int32).bitcast(fx.Int64)[0]
            self.held.load(self.pages.base + start, column, slot)
        self.look(first + self.config.tokens)

    def store(self) -> None:
        """Write what was loaded to LDS."""
        for slot, block, token, column, whole in self._places():
            at = div(token * self.config.pitch + column, 2) + block * BLOCK * self.config.pitch // 2
            _write(self.lds, at, self.held.get(self.config, slot).bitcast(fx.Int32), self.thread, whole)


@flyc.jit
def _write(lds, at, words, thread, whole):
    if thread < whole:
        for i in fx.range_constexpr(0, words.numel, 4):
            lds_write(lds, at + i, words.shuffle(words, list(range(i, i + 4))))


class Sums:
    """O^T of a wave's rows and quarter of the columns, in passes."""

    def __init__(self, config: MlaConfig, mma: Any, lane: Any) -> None:
        self.mma, self.values = mma, Values(config, mma, config.element, VALUE_PASS, lane)
        self.fragments = [mma.get_slice(lane).make_fragment_C((VALUE_PASS, config.wave_rows))
                          for _ in range(RANK // SHARING // VALUE_PASS)]
        for sums in self.fragments:
            sums.fill(0.0)

    def rescale(self, decay: Any, grown: Any) -> None:
        """Times `decay`, if any lane has one that is not 1."""
        _rescale(self.fragments, decay, grown)

    def add(self, weights: Any, line: Callable[[int, Any], Any], first: Any) -> None:
        """And the weighted values of the columns from `first`."""
        for p, sums in enumerate(self.fragments):
            self.values.load(line, first + p * VALUE_PASS)
            fx.gemm(self.mma, sums, self.values.ready(), weights, sums)
            fx.rocdl.sched_barrier(0)  # or the compiler has operands of all passes at a time, and spills


@flyc.jit
def _rescale(fragments, decay, grown):
    if grown:
        for sums in fragments:
            sums.store(sums.load() * fx.broadcast_to(decay, sums))


def _together(part: Any, scores: Any, shared: Any, config: MlaConfig, wave: Any, lane: Any) -> None:
    """The scores of a tile, from what the waves that share the rows multiplied of them; one barrier."""
    values, held, each = flat(part), config.value_rows, 4

    def at(of: Any, i: int) -> Any:
        return of * config.exchange + (i * config.target.wave + each * lane)

    for i in range(0, values.numel, each):
        lds_write(shared, at(wave, i), values.shuffle(values, list(range(i, i + each))))
    fx.lds_barrier()
    first, whole = wave // SHARING * SHARING, []
    for n, block in itertools.product(range(config.tiles), range(config.blocks)):
        for i in range(0, held, each):
            low, high = [lds_read(shared, at(first + (HALVES * block + half), held * n + i), each)
                         for half in range(HALVES)]
            whole += list(low + high)
    scores.store(fx.Vector.from_elements(whole, fx.Float32))


@flyc.jit
def _store(results, sums, softmax, factor, place, quarter, lane):
    """The rows of a wave: its quarter of the columns, and (from the first) the logarithms of the parts."""
    config, held, chunk = place.config, place.config.value_rows, place.config.value_chunk
    for n in fx.range_constexpr(config.tiles):
        row = n * BLOCK + mod(lane, BLOCK)
        largest, total = softmax.largest.load()[n], softmax.total.load()[n]
        some = total > 0.0
        scale = some.select(factor / total, 0.0)
        if place.exists(row):
            for p in fx.range_constexpr(len(sums)):
                values = sums[p].load()
                for i in fx.range_constexpr(held):
                    piece = [values[i + held * (j + chunk * n)] * scale for j in range(chunk)]
                    at = quarter * (RANK // SHARING) + p * VALUE_PASS + chunk * (div(lane, BLOCK) * held + i)
                    results.store(row, at, fx.Vector.from_elements(piece, fx.Float32))
            if fx.const_expr(results.logs):
                if (quarter == 0) & (lane < BLOCK):
                    results.store_log(row, some.select(largest + fx.math.log2(total), -math.inf))


@flyc.jit
def attend_latent(tensors, sizes, config, place, share, results):
    """The work of a workgroup: its share of a context, for the rows of its place."""
    thread, wave = fx.thread_idx.x, fx.wave_index()
    lane, own, rows = thread % config.target.wave, wave % SHARING, config.wave_rows
    first, second = config.products(VALUE_PASS)
    words, each = WORD // config.element.width, WORD // config.cache_element.width
    lds = Lds()
    tile_lds, shared = [
        fx.get_iter(lds.array(kind, count).view(fx.make_layout(count, 1)))
        for kind, count in ((fx.Int32, config.tokens * config.pitch // words),
                            (fx.Float32, config.waves * config.exchange))]
    pages = Pages(pointer(tensors["cache"], fx.Int32), share.table, config.page, div(sizes.keys.page, each),
                  div(sizes.keys.token, each), 0, share.end - 1, uniform=False)
    tile = Tile(config, pages, tile_lds, thread)

    def line(n, row):
        return tile_lds + (n * BLOCK + row) * (config.pitch // words)

    query = element_of(config.query, config.target)
    q = tuple(Operand(config, first, "B", query, rows, KEY_PASS, lane)
              for _ in range(config.dim // HALVES // KEY_PASS))
    k = Operand(config, first, "A", config.element, BLOCK, KEY_PASS, lane)
    part_of_scores = first.get_slice(lane).make_fragment_C((BLOCK, rows))
    softmax = Softmax(config, first, second, rows, lane)
    sums = Sums(config, second, lane)
    q_scale, kv_scale = [pointer(tensors[name], fx.Float32).load() if scaled else fx.Float32(1.0)
                         for name, scaled in (("q_scale", config.q_scaled), ("kv_scale", config.kv_scaled))]
    queries, row_words = pointer(tensors["q"], fx.Int32), config.dim * query.width // WORD
    last_row = config.rows - 1 - place.first

    # Of the scores, this wave multiplies half of the columns of half of the tokens.
    columns, my_tokens = own % HALVES * (config.dim // HALVES), own // HALVES * BLOCK

    if share.tiles > 0:
        tile.look(share.begin)
        numbers = PageNumbers(share.table, div(share.begin, config.page), div(share.end - 1, config.page) + 1, thread,
                              config.threads)
        for p in fx.range_constexpr(len(q)):
            q[p].load(lambda n, row: queries + fx.Int64(place.line(fx.min(n * BLOCK + row, last_row))) * row_words,
                      columns + p * KEY_PASS)
        numbers.require(sizes.pages)
        staged = fx.Staged(lambda t, _, __: tile.load(share.begin + t * config.tokens), lambda _, __: tile.store(),
                           pieces=1)
        for step in fx.pipeline_range(fx.Pipeline(share.tiles, 1, staged)):
            step.start(0)  # a piece: keys that are read from their pages here may come before it
            part_of_scores.fill(0.0)
            for p in fx.range_constexpr(len(q)):
                k.load(lambda _, row: line(0, my_tokens + row), columns + p * KEY_PASS)
                fx.gemm(first, part_of_scores, k.ready(), q[p].ready(), part_of_scores)
            _together(part_of_scores, softmax.scores, shared, config, wave, lane)
            softmax.scores.store(logits(flat(softmax.scores), sizes.scale * q_scale * kv_scale, sizes.softcap, config))
            softmax.hide(share.begin + step.tile * config.tokens, place, share.context, sizes.reach)
            sums.rescale(*softmax.update_seldom())
            sums.add(softmax.weights(flat(softmax.scores)), line, own * (RANK // SHARING))

    _store(results, sums.fragments, softmax, kv_scale, place, own, lane)


def attend_rows(tensors: dict[str, Any], sizes: Any, config: MlaConfig, place: Any, share: Share,
                results: Any) -> None:
    """The work of a workgroup, by waves that share rows or by waves that have their own."""
    attend = attend_wide if isinstance(config, WideConfig) else attend_latent
    attend(tensors, sizes, config, place, share, results)


@flyc.kernel
def mla_kernel(tensors, sizes, config: fx.Constexpr):
    """Workgroup (row block, sequence, part)."""
    block, sequence, part = fx.block_idx
    place = config.place(block, sequence, sizes.heads, part, sizes.parts)
    context = uniform(require_within(index_at(tensors["lengths"], sequence), 0,
                                     fx.Int64(sizes.columns) * config.page + 1))
    tiles = fx.ceildiv(context, config.tokens)
    each = fx.ceildiv(tiles, sizes.parts)
    mine, begin = fx.max(fx.min(tiles - part * each, each), 0), part * each * config.tokens
    table = fx.get_iter(tensors["table"]) + fx.Int64(sequence) * sizes.table_stride
    share = Share(table, context, fx.Int32(0), begin, fx.min(begin + mine * config.tokens, context), mine)
    out = pointer(tensors["out"], element_of("f32" if config.split else config.out))
    results = Results(place, out, pointer(tensors["lse"], fx.Float32) if config.split else None, RANK)
    attend_rows(tensors, sizes, config, place, share, results)
