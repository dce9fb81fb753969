"""MLA decode: all heads of a token attend to one latent vector a token of the context.

A workgroup takes up to 128 rows (tokens x heads) and a share of the context, which passes through LDS tile by tile.
Two waves share rows: each multiplies half of the columns of the keys (the other half's sums come through LDS) and makes
half of the columns of the result. So a wave reads half of a tile for twice the rows, and its accumulators fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import element_of
from ..parts.index import div, mod
from ..parts.indices import index_at, require_within, uniform
from ..parts.memory import lds_read, lds_write
from ..parts.reduce import Lds
from ..parts.rows import pointer
from .config import ACCESS, BLOCK
from .merge import Place
from .mla_config import HALVES, KEY_PASS, RANK, ROPE, VALUE_PASS, MlaConfig
from .operands import WORD, Operand, Pieces, Values
from .pages import Pages
from .softmax import Softmax, flat, logits

__all__ = ["mla_kernel"]


class Tile:
    """A tile of the context on its way from the pages to LDS, widened to the type of the products.

    The threads take the latent vectors in order, 16 bytes each, then the rotated parts.
    """

    def __init__(self, config: MlaConfig, pages: Pages, lds: Any, thread: Any) -> None:
        self.config, self.pages, self.lds, self.thread = config, pages, lds, thread
        self.chunk = ACCESS * 8 // config.cache_element.width
        # (first column, 16-byte pieces of a token's part)
        self.parts = ((0, RANK // self.chunk), (RANK, ROPE // self.chunk))
        steps = sum(max(BLOCK * each // config.threads, 1) for _, each in self.parts)
        self.held = Pieces(config.cache_element, self.chunk, config.blocks * steps)

    def _places(self) -> list[tuple[int, int, Any, Any, Any]]:
        """(slot, block, token of the block, column, whether it is this thread's to store)."""
        out: list[tuple[int, int, Any, Any, Any]] = []
        for block in range(self.config.blocks):
            for first, each in self.parts:
                whole, threads = BLOCK * each, self.config.threads
                for step in range(max(whole // threads, 1)):
                    at = mod(self.thread, whole) + step * threads
                    out.append((len(out), block, div(at, each), first + mod(at, each) * self.chunk, whole))
        return out

    def load(self, first: Any) -> None:
        """Start loading the tile that begins with token `first`."""
        start = self.pages.block(first)
        for slot, block, token, column, _ in self._places():
            self.held.load(start(block, token), column, slot)

    def store(self) -> None:
        """Write what was loaded to LDS."""
        for slot, block, token, column, whole in self._places():
            at = div((block * BLOCK + token) * self.config.pitch + column, 2)
            _write(self.lds, at, self.held.get(self.config.element, slot).bitcast(fx.Int32), self.thread, whole)


@flyc.jit
def _write(lds, at, words, thread, whole):
    if thread < whole:
        for i in fx.range_constexpr(0, words.numel, 4):
            lds_write(lds, at + i, words.shuffle(words, list(range(i, i + 4))))


class Sums:
    """O^T of a wave's rows and half of the columns, in passes."""

    def __init__(self, config: MlaConfig, mma: Any, lane: Any) -> None:
        self.mma, self.values = mma, Values(config, mma, config.element, VALUE_PASS, lane)
        self.fragments = [mma.get_slice(lane).make_fragment_C((VALUE_PASS, config.wave_rows))
                          for _ in range(RANK // HALVES // VALUE_PASS)]
        for sums in self.fragments:
            sums.fill(0.0)

    def add(self, decay: Any, weights: Any, line: Callable[[int, Any], Any], first: Any) -> None:
        """Times `decay`, and the weighted values of the columns from `first`."""
        for p, sums in enumerate(self.fragments):
            sums.store(sums.load() * fx.broadcast_to(decay, sums))
            self.values.load(line, first + p * VALUE_PASS)
            fx.gemm(self.mma, sums, self.values.ready(), weights, sums)


def _other_half(scores: Any, shared: Any, config: MlaConfig, wave: Any, lane: Any) -> None:
    """Add what the wave with the other columns has; one barrier."""
    values, each = flat(scores), 4

    def at(of: Any, i: int) -> Any:
        return of * config.exchange + (i * config.target.wave + each * lane)

    for i in range(0, values.numel, each):
        lds_write(shared, at(wave, i), values.shuffle(values, list(range(i, i + each))))
    fx.lds_barrier()
    whole = []
    for i in range(0, values.numel, each):
        other = lds_read(shared, at(wave ^ 1, i), each)
        whole += [values[i + j] + other[j] for j in range(each)]
    scores.store(fx.Vector.from_elements(whole, fx.Float32))


@flyc.jit
def _store(tensors, sums, softmax, factor, place, half, lane):
    """The rows of a wave: its half of the columns, and (from the first half) the logarithms of the parts."""
    config, held, chunk = place.config, place.config.value_rows, place.config.value_chunk
    element = element_of("f32" if config.split else config.out)
    out = pointer(tensors["out"], element)
    for n in fx.range_constexpr(config.tiles):
        row = n * BLOCK + mod(lane, BLOCK)
        largest, total = softmax.largest.load()[n], softmax.total.load()[n]
        some = total > 0.0
        scale = some.select(factor / total, 0.0)
        if place.exists(row):
            line = out + fx.Int64(place.out(row)) * RANK + half * (RANK // HALVES)
            for p in fx.range_constexpr(len(sums)):
                values = sums[p].load()
                for i in fx.range_constexpr(held):
                    piece = [values[i + held * (j + chunk * n)] * scale for j in range(chunk)]
                    at = p * VALUE_PASS + chunk * (div(lane, BLOCK) * held + i)
                    fx.make_view(line + at, fx.make_layout(chunk, 1)).store(
                        fx.Vector.from_elements(piece, fx.Float32).to(element))
            if fx.const_expr(config.split):
                if (half == 0) & (lane < BLOCK):
                    lse = pointer(tensors["lse"], fx.Float32) + place.out(row)
                    fx.make_view(lse, fx.make_layout(1, 1))[0] = some.select(largest + fx.math.log2(total), -math.inf)


@flyc.kernel
def mla_kernel(tensors, sizes, config: fx.Constexpr):
    """Workgroup (row block, sequence, part)."""
    thread, wave = fx.thread_idx.x, fx.wave_index()
    lane, half, rows = thread % config.target.wave, wave % HALVES, config.wave_rows
    block, sequence, part = fx.block_idx
    place = Place(config, (block * config.groups + wave // HALVES) * rows, sequence, 0, sizes.heads, part, sizes.parts)
    first, second = config.products(VALUE_PASS)
    context = uniform(require_within(index_at(tensors["lengths"], sequence), 0,
                                     fx.Int64(sizes.pages) * config.page + 1))
    tiles = fx.ceildiv(context, config.tokens)
    share = fx.ceildiv(tiles, sizes.parts)
    mine, begin = fx.max(fx.min(tiles - part * share, share), 0), part * share * config.tokens

    words, each = WORD // config.element.width, WORD // config.cache_element.width
    lds = Lds()
    tile_lds, shared = [
        fx.get_iter(lds.array(kind, count).view(fx.make_layout(count, 1)))
        for kind, count in ((fx.Int32, config.tokens * config.pitch // words),
                            (fx.Float32, config.waves * config.exchange))]
    pages = Pages(pointer(tensors["cache"], fx.Int32),
                  fx.get_iter(tensors["table"]) + fx.Int64(sequence) * sizes.table_stride, config.page,
                  div(sizes.keys.page, each), div(sizes.keys.token, each), 0, context - 1, config.uniform)
    tile = Tile(config, pages, tile_lds, thread)

    def line(n, row):
        return tile_lds + (n * BLOCK + row) * (config.pitch // words)

    query = element_of(config.query, config.target)
    q = tuple(Operand(config, first, "B", query, rows, KEY_PASS, lane)
              for _ in range(config.dim // HALVES // KEY_PASS))
    k = Operand(config, first, "A", config.element, config.tokens, KEY_PASS, lane)
    softmax = Softmax(config, first, second, rows, lane)
    sums = Sums(config, second, lane)
    q_scale, kv_scale = [pointer(tensors[name], fx.Float32).load() if scaled else fx.Float32(1.0)
                         for name, scaled in (("q_scale", config.q_scaled), ("kv_scale", config.kv_scaled))]
    queries, row_words = pointer(tensors["q"], fx.Int32), config.dim * query.width // WORD
    last_row, columns = config.rows - 1 - place.first, config.dim // HALVES

    if mine > 0:
        for p in fx.range_constexpr(len(q)):
            q[p].load(lambda n, row: queries + fx.Int64(place.line(fx.min(n * BLOCK + row, last_row))) * row_words,
                      half * columns + p * KEY_PASS)
        staged = fx.Staged(lambda t, _: tile.load(begin + t * config.tokens), lambda _, __: tile.store())
        for step in fx.pipeline_range(fx.Pipeline(mine, 1, staged)):
            now = begin + step.tile * config.tokens
            softmax.scores.fill(0.0)
            for p in fx.range_constexpr(len(q)):
                k.load(line, half * columns + p * KEY_PASS)
                fx.gemm(first, softmax.scores, k.ready(), q[p].ready(), softmax.scores)
            _other_half(softmax.scores, shared, config, wave, lane)
            softmax.scores.store(logits(flat(softmax.scores), sizes.scale * q_scale * kv_scale, sizes.softcap, config))
            softmax.hide(now, place, context, sizes.reach)
            decay = softmax.update()
            sums.add(decay, softmax.weights(flat(softmax.scores)), line, half * (RANK // HALVES))

    _store(tensors, sums.fragments, softmax, kv_scale, place, half, lane)
