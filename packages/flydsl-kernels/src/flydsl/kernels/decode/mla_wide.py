"""MLA decode of many rows (tokens x heads): a wave has 16 of them, with all of their scores and all columns of sums.

A tile of the context is fetched from its pages once, to LDS (directly, where the chip can), and read there along its
tokens for the scores S^T = K Q^T, and across them for the sums O^T = V^T P^T. Queries and sums stay in registers, of
which they take most: two waves share a SIMD, and one multiplies while the other weighs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.scores import Softmax, place
from ..attention.weave import TileProduct, Work, count_of, do, part_of, weave
from ..host.dtypes import element_of
from ..parts.index import div, mod
from ..parts.mathx import LOG2E
from ..parts.memory import lds_read, lds_write, pointer
from .config import BLOCK
from .mla_config import CHUNK, RANK, ROPE, TURN, WideConfig
from .operands import WORD, Operand, Pieces
from .pages import PageNumbers, Pages
from .softmax import flat

__all__ = ["attend_wide"]

LATE = 12  # products of the first columns before a parked operand, that of the next columns, is read
PAIR = 2  # elements of a rotated part that a lane moves at once: a wave moves those of two tokens


class LatentTile:
    """Tiles of the context on their way to stages of LDS, in the type of the products.

    A wave moves some tokens of each: piece by piece their latent vectors, then two rotated parts at a time. Page
    numbers are looked up a tile ahead, each lane that of a token.
    """

    def __init__(self, config: WideConfig, memory: Any, pages: Pages, begin: Any, lane: Any, wave: Any) -> None:
        array: Any = fx.Array
        self.config, self.pages, self.begin, self.lane, self.wave = config, pages, begin, lane, wave
        self.latent, self.rotated = [
            [memory.allocate(array[config.element, config.tokens * pitch, 128]).peek() for _ in range(config.stages)]
            for pitch in (config.pitch, config.rotated_pitch)]
        self.pieces = config.share + config.share // PAIR
        self.number, self.start = fx.make_rmem_tensor(1, fx.Int32), fx.make_rmem_tensor(2, fx.Int32)
        self.held = [Pieces(config.cache_element, chunk, count)  # where tiles pass through registers
                     for chunk, count in ((CHUNK, config.share), (PAIR, config.share // PAIR))]

    def producer(self) -> Any:
        """That of the pipeline over the tiles."""
        if self.config.direct:
            return fx.Direct(self._copy, pieces=self.pieces)
        return fx.Staged(lambda tile, _, piece: self._load(tile, piece), lambda _, stage: self._store(stage),
                         pieces=self.pieces)

    def look(self, tile: Any) -> None:
        """Start looking up the pages of a tile."""
        self.number[0] = self.pages.number(self.begin + tile * self.config.tokens, self._token()).to(fx.Int32)

    def _token(self) -> Any:
        """Of the tile, whose page this lane looks up."""
        return self.wave * self.config.share + mod(self.lane, self.config.share)

    def _offset(self, number: int) -> Any:
        """From the base of the pages to this wave's token of a number."""
        start = self.start.load()
        halves = [fx.Int32(fx.rocdl.readlane(fx.T.i32, start[i], number)) for i in range(2)]
        return fx.Vector.from_elements(halves, fx.Int32).bitcast(fx.Int64)[0]

    def _source(self, tile: Any, piece: int) -> tuple[Any, Any]:
        """Pointer to the token of which this lane moves elements of a piece, and the first of their columns; with the
        last piece, the pages of the next tile are looked up."""
        share = self.config.share
        if piece == 0:
            offset = self.pages.offset(self.begin + tile * self.config.tokens, self._token(), fx.Int64(self.number[0]))
            self.start.store(fx.Vector.from_elements([offset], fx.Int64).bitcast(fx.Int32))
        if piece == self.pieces - 1:
            self.look(tile + 1)
        base = self.pages.base
        if piece < share:
            return base + self._offset(piece), self.lane * CHUNK
        pair = piece - share
        low, high = self._offset(PAIR * pair), self._offset(PAIR * pair + 1)
        at, (bits, start, shift) = self._rotated_place(pair), self.config.rotated_swizzle
        exchanged = at ^ (at >> shift & ((1 << bits) - 1) << start)
        column = RANK + mod(exchanged if bits else self.lane * PAIR, ROPE)
        return base + (self.lane * PAIR < ROPE).select(low, high), column

    def _rotated_place(self, pair: int) -> Any:
        """Element of LDS where what this lane moves of a pair of rotated parts goes."""
        row = self.wave * self.config.share + PAIR * pair + div(self.lane * PAIR, ROPE)
        return row * self.config.rotated_pitch + mod(self.lane * PAIR, ROPE)

    def _row(self, piece: int) -> Any:
        """Element of LDS where this wave's token number `piece` begins."""
        return (self.wave * self.config.share + piece) * self.config.pitch

    def _copy(self, tile: Any, stage: int, piece: int) -> None:
        share, element, cdna = self.config.share, self.config.element, fx.rocdl.cdna4
        if piece < share:
            count, atom, target = CHUNK, cdna.GlobalLoadAsyncLDS128b(), self.latent[stage].ptr + self._row(piece)
        else:
            row = self.wave * share + PAIR * (piece - share)
            count, atom = PAIR, cdna.GlobalLoadAsyncLDS32b()
            target = self.rotated[stage].ptr + row * self.config.rotated_pitch
        token, column = self._source(tile, piece)
        source = fx.recast_iter(element, token) + column
        fx.copy(fx.make_copy_atom(atom, element), fx.make_view(source, fx.make_layout(count, 1)),
                fx.make_view(target, fx.make_layout(count, 1)))

    def _load(self, tile: Any, piece: int) -> None:
        which = int(piece >= self.config.share)
        self.held[which].load(*self._source(tile, piece), piece - which * self.config.share)

    def _store(self, stage: int) -> None:
        share = self.config.share
        for piece in range(share):
            at = self._row(piece) + self.lane * CHUNK
            lds_write(self.latent[stage].ptr, at, self.held[0].get(self.config, piece))
        for pair in range(share // PAIR):
            lds_write(self.rotated[stage].ptr, self._rotated_place(pair), self.held[1].get(self.config, pair))

    def along(self, stage: int, first: int, columns: int) -> Any:
        """Columns of a stage, of latent vectors or of rotated parts, (tokens, columns)."""
        config = self.config
        if first < RANK:
            latent = fx.make_layout((config.tokens, columns), (config.pitch, 1))
            return fx.make_view(self.latent[stage].ptr + first, latent)
        rotated = fx.make_layout((config.tokens, ROPE), (config.rotated_pitch, 1))
        if config.rotated_swizzle[0]:
            rotated = fx.make_composed_layout(fx.static(fx.SwizzleType.get(*config.rotated_swizzle)), rotated)
        return self.rotated[stage].view(rotated)

    def across(self, stage: int) -> Any:
        """Latent vectors of a stage, (columns, tokens)."""
        return self.latent[stage].view(fx.make_layout((RANK, self.config.tokens), (1, self.config.pitch)))


class Parked:
    """An operand of each lane that waits in LDS, since there is no register for it through the loop."""

    def __init__(self, memory: Any, fragment: Any, thread: Any, threads: int) -> None:
        count = int(fx.size(fx.get_shape(fragment)).unpack())
        array: Any = fx.Array
        self._base = memory.allocate(array[fragment.element_type, count * threads, 128]).peek().ptr
        self._places = [thread * CHUNK + i * threads for i in range(0, count, CHUNK)]
        values = flat(fragment)
        for i, at in enumerate(self._places):
            lds_write(self._base, at, values.shuffle(values, list(range(i * CHUNK, (i + 1) * CHUNK))))

    def read(self, target: Any) -> None:
        """Start reading it to a fragment like the one that was parked."""
        parts = [lds_read(self._base, at, CHUNK) for at in self._places]
        target.store(fx.Vector.from_elements([part[i] for part in parts for i in range(CHUNK)], target.element_type))


class TurnedProduct:
    """A :class:`..attention.weave.TileProduct` of values, which lanes turn: of so many tokens, as many columns.

    Args:
        view: (columns, tokens) in LDS, with consecutive columns.
    """

    def __init__(self, config: WideConfig, mma: Any, sums: Any, v: Any, view: Any, lane: Any) -> None:
        self._mma, self._sums, self._v, self._rows, self._depth = mma, sums, v, count_of(v, 1), count_of(v, 2)
        first = fx.get_iter(view) + (div(lane, BLOCK) * TURN * config.pitch + mod(lane, BLOCK) * TURN)
        self._places = [first + ((k * BLOCK + t) * config.pitch + m * BLOCK)
                        for k in range(self._depth) for m in range(0, self._rows, TURN) for t in range(TURN)]
        self._loaded: list[Any] = []

    def read(self, count: int) -> None:
        """Let `count` reads from LDS have been started."""
        for start in self._places[len(self._loaded) : count]:
            self._loaded.append(lds_read(start, 0, TURN))

    def products(self, b: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
        """The instructions, each with the number of reads that it needs."""
        for k in range(self._depth):
            for m in range(self._rows):
                yield (k * self._rows + m) // TURN * TURN + TURN, partial(self._multiply, b, m, k)

    def _multiply(self, b: Any, m: int, k: int) -> None:
        first = (k * self._rows + m) // TURN * TURN
        column = [self._loaded[first + t][m % TURN] for t in range(TURN)]
        part, sums = part_of(self._v, m, k), part_of(self._sums, m, 0)
        part.store(fx.Vector.from_elements(column, self._v.element_type))
        fx.gemm(self._mma, sums, part, part_of(b, 0, k), sums)


@flyc.jit
def _hide(scores, places, first, mine, context):
    """-inf for the tokens of a tile from `first` on that a row does not see, if there are any."""
    config = mine.config
    if first + config.tokens > context - config.queries + 1:
        values = scores.load()
        shown = []
        for i in fx.range_constexpr(values.numel):
            key, row = place(places, i)
            newest = context - config.queries + fx.min(mine.query(row), config.queries - 1)
            shown.append((first + key <= newest).select(values[i], fx.Float32(-math.inf)))
        scores.store(fx.Vector.from_elements(shown, fx.Float32))


@flyc.jit
def _store(results, sums, found, factor, mine, lane):
    """The rows of a wave, and the logarithms of the parts."""
    config, (base, total) = mine.config, found
    values, row, some = sums.load(), mod(lane, config.wave_rows), total > 0.0
    values = values.reshape(values.numel) * some.select(factor / total, 0.0)
    if mine.exists(row):
        for first, numbers in config.neighbours():
            results.store(row, first + div(lane, BLOCK) * config.lane_columns, values.shuffle(values, numbers))
        if fx.const_expr(results.logs):
            if lane < config.wave_rows:
                results.store_log(row, some.select(base * LOG2E + fx.math.log2(total), -math.inf))


@flyc.jit
def attend_wide(tensors, sizes, config, mine, share, results):
    """The work of a workgroup: its share of a context, for the rows of its place."""
    thread, wave = fx.thread_idx.x, fx.wave_index()
    lane, rows = thread % config.target.wave, config.wave_rows
    first, second = config.products(BLOCK)
    scores_of, sums_of = first.get_slice(lane), second.get_slice(lane)
    words = WORD // config.cache_element.width
    pages = Pages(pointer(tensors["cache"], fx.Int32), share.table, config.page, div(sizes.keys.page, words),
                  div(sizes.keys.token, words), 0, share.end - 1, uniform=False)
    memory = fx.SharedAllocator()
    tile = LatentTile(config, memory, pages, share.begin, lane, wave)
    query = element_of(config.query, config.target)
    q = [Operand(config, first, "B", query, rows, columns, lane) for _, columns in config.parts]
    scores, sums = scores_of.make_fragment_C((config.tokens, rows)), sums_of.make_fragment_C((RANK, rows))
    weights, operand = fx.make_fragment_like(scores, config.element), sums_of.make_fragment_B((rows, config.tokens))
    places = scores_of.partition_C(fx.make_view((0, 0), fx.make_identity_layout((config.tokens, rows))))
    softmax = Softmax(config.scores, scores, weights, fx.Float32(LOG2E))
    sums.fill(0.0)
    q_scale, kv_scale = [pointer(tensors[name], fx.Float32).load() if scaled else fx.Float32(1.0)
                         for name, scaled in (("q_scale", config.q_scaled), ("kv_scale", config.kv_scaled))]
    scale = sizes.scale * q_scale * kv_scale
    read_k = fx.make_copy_atom(fx.UniversalCopy128b(), config.element)

    def scores_from(view, columns):
        """Scores of a part of the columns of keys."""
        k = scores_of.make_fragment_A((config.tokens, columns))
        copy = fx.make_tiled_copy_A(read_k, first).get_slice(lane)
        return TileProduct(first, scores, k, read_k, copy.partition_S(view), copy.retile(k))

    def sums_from(stage):
        """Products of weights and values."""
        v, view = sums_of.make_fragment_A((RANK, config.tokens)), tile.across(stage)
        if fx.const_expr(not config.reads_across):
            return TurnedProduct(config, second, sums, v, view, lane)
        read = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64), config.element)
        copy = fx.make_tiled_copy_A(read, second).get_slice(lane)
        return TileProduct(second, sums, v, read, copy.partition_S(view), copy.retile(v))

    if share.tiles > 0:
        tile.look(fx.Int32(0))
        numbers = PageNumbers(share.table, div(share.begin, config.page), div(share.end - 1, config.page) + 1, thread,
                              config.threads)
        queries, row_words = pointer(tensors["q"], fx.Int32), config.dim * query.width // WORD
        last_row = config.rows - 1 - mine.first
        for part, (column, _) in zip(q, config.parts, strict=True):
            part.load(lambda n, row: queries + fx.Int64(mine.line(fx.min(row, last_row))) * row_words, column)
        numbers.require(sizes.pages)
        operands = [part.ready() for part in q]
        parked = [Parked(memory, part, thread, config.threads) for part in operands[1:]]
        for step in fx.pipeline_range(fx.Pipeline(share.tiles, config.stages, tile.producer())):
            copies = [Work(partial(step.start, piece)) for piece in range(tile.pieces)]
            scores.fill(0.0)
            products = [scores_from(tile.along(step.stage, *part), part[1]) for part in config.parts]
            then = sums_from(step.stage)
            for i in fx.range_constexpr(len(products)):
                reads = [Work(partial(parked[i].read, operands[i + 1]))] if i < len(parked) else []
                weave(products[i], operands[i], reads, copies if i == 0 else [], LATE if i == 0 else 0,
                      [*products, then][i + 1], config.ahead)
            scores.store(scores.load() * scale)
            _hide(scores, places, share.begin + step.tile * config.tokens, mine, share.context)
            do(softmax.begin())
            do(softmax.finish())
            softmax.settle(sums)
            weave(then, fx.convert_layout(weights, operand, modes=(1, 0)))

    # Places of results are computed here: what the places of queries have in common with them would stay in registers.
    _store(results, sums, softmax.result()[0], kv_scale, mine, fx.Int32(fx.rocdl.computed_here(lane)))
