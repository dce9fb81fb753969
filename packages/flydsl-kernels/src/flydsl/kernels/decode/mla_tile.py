"""Tiles of an MLA cache in LDS: their way there from the pages, and how the two products read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..attention.weave import TileProduct, count_of, part_of, tile_product
from ..parts.index import div, mod
from ..parts.memory import lds_read, lds_write
from .config import BLOCK
from .mla_config import CHUNK, RANK, ROPE, TURN, MlaConfig
from .operands import Pieces
from .pages import Pages
from .softmax import flat

__all__ = ["LatentTile", "Parked"]

PAIR = 2  # elements of a rotated part that a lane moves at once


class LatentTile:
    """Tiles of the context on their way to stages of LDS, in the type of the products.

    A wave moves some tokens of each: piece by piece their latent vectors, then their rotated parts, as many at a time
    as it has lanes for. Page numbers are looked up a tile ahead, each lane that of a token.
    """

    def __init__(self, config: MlaConfig, memory: Any, pages: Pages, begin: Any, lane: Any, wave: Any) -> None:
        array: Any = fx.Array
        self.config, self.pages, self.begin, self.lane, self.wave = config, pages, begin, lane, wave
        self.latent, self.rotated = [
            [memory.allocate(array[config.element, config.tokens * pitch, 128]).peek() for _ in range(config.stages)]
            for pitch in (config.pitch, config.rotated_pitch)]
        self.each = RANK // (CHUNK * config.target.wave)  # pieces of a latent vector
        self.together = PAIR * config.target.wave // ROPE  # rotated parts of a piece
        self.latents = config.share * self.each
        self.pieces = self.latents + config.share // self.together
        self.number, self.start = fx.make_rmem_tensor(1, fx.Int32), fx.make_rmem_tensor(2, fx.Int32)
        self.held = [Pieces(config.cache_element, chunk, count)  # where tiles pass through registers
                     for chunk, count in ((CHUNK, self.latents), (PAIR, self.pieces - self.latents))]

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
        if piece == 0:
            offset = self.pages.offset(self.begin + tile * self.config.tokens, self._token(), fx.Int64(self.number[0]))
            self.start.store(fx.Vector.from_elements([offset], fx.Int64).bitcast(fx.Int32))
        if piece == self.pieces - 1:
            self.look(tile + 1)
        if piece < self.latents:
            token, part = divmod(piece, self.each)
            return self.pages.base + self._offset(token), (self.lane + part * self.config.target.wave) * CHUNK
        first = (piece - self.latents) * self.together
        at, (bits, start, shift) = self._rotated_place(piece), self.config.rotated_swizzle
        exchanged = at ^ (at >> shift & ((1 << bits) - 1) << start)
        offset = self._offset(first)
        if self.together == 2:
            offset = (self.lane * PAIR < ROPE).select(offset, self._offset(first + 1))
        return self.pages.base + offset, RANK + mod(exchanged if bits else self.lane * PAIR, ROPE)

    def _row(self, piece: int) -> Any:
        """The first token of a piece, of the tile."""
        inside = piece // self.each if piece < self.latents else (piece - self.latents) * self.together
        return self.wave * self.config.share + inside

    def _place(self, piece: int) -> Any:
        """Element of LDS where what the wave moves of a latent vector begins."""
        return self._row(piece) * self.config.pitch + piece % self.each * self.config.target.wave * CHUNK

    def _rotated_place(self, piece: int) -> Any:
        """Element of LDS where what this lane moves of rotated parts goes."""
        row = self._row(piece) + div(self.lane * PAIR, ROPE)
        return row * self.config.rotated_pitch + mod(self.lane * PAIR, ROPE)

    def _copy(self, tile: Any, stage: int, piece: int) -> None:
        element, latent = self.config.element, piece < self.latents
        chunk = fx.make_layout((CHUNK if latent else PAIR, 1), (1, 0))
        token, column = self._source(tile, piece)
        source, cdna = fx.make_view(fx.recast_iter(element, token) + column, chunk), fx.rocdl.cdna4
        if self.config.target.tensor_moves:  # each lane writes to a place of its own, on gfx950 to that behind the last
            at = self._place(piece) + self.lane * CHUNK if latent else self._rotated_place(piece)
        else:
            at = self._place(piece) if latent else self._row(piece) * self.config.rotated_pitch
        target = fx.make_view((self.latent if latent else self.rotated)[stage].ptr + at, chunk)
        if self.config.target.tensor_moves:
            fx.rocdl.async_copy(source, target)
        else:
            atom = cdna.GlobalLoadAsyncLDS128b() if latent else cdna.GlobalLoadAsyncLDS32b()
            fx.copy(fx.make_copy_atom(atom, element), source, target)

    def _load(self, tile: Any, piece: int) -> None:
        which = int(piece >= self.latents)
        self.held[which].load(*self._source(tile, piece), piece - which * self.latents)

    def _store(self, stage: int) -> None:
        for piece in range(self.latents):
            lds_write(self.latent[stage].ptr, self._place(piece) + self.lane * CHUNK,
                      self.held[0].get(self.config, piece))
        for piece in range(self.latents, self.pieces):
            lds_write(self.rotated[stage].ptr, self._rotated_place(piece),
                      self.held[1].get(self.config, piece - self.latents))

    def keys(self, mma: Any, scores: Any, stage: int, own: Any) -> list[TileProduct]:
        """Products of a stage with the queries of a wave: of each of its parts, of latent vectors and rotated."""
        config = self.config
        read = fx.make_copy_atom(fx.UniversalCopy128b(), config.element)
        views = [(columns, fx.make_view(self.latent[stage].ptr + (own * config.columns + first),
                                        fx.make_layout((config.tokens, columns), (config.pitch, 1))))
                 for first, columns in config.parts]
        rotated = fx.make_layout((config.tokens, ROPE), (config.rotated_pitch, 1))
        if config.rotated_swizzle[0]:
            rotated = fx.make_composed_layout(fx.static(fx.SwizzleType.get(*config.rotated_swizzle)), rotated)
        share = (config.tokens, config.rotated_columns)
        views.append((share[1], fx.flat_divide(self.rotated[stage].view(rotated), share)[None, None, 0, own]))
        return [tile_product(mma, scores, (config.tokens, columns), read, view, self.lane) for columns, view in views]

    def values(self, mma: Any, sums: Any, stage: int, own: Any) -> TileProduct | TurnedProduct:
        """Product of the `own` share of the columns of a stage with weights."""
        config, shape = self.config, (self.config.columns, self.config.tokens)
        start = self.latent[stage].ptr + own * config.columns
        if not config.reads_across:
            return TurnedProduct(config, mma, sums, start, self.lane)
        read = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64), config.element)
        return tile_product(mma, sums, shape, read, fx.make_view(start, fx.make_layout(shape, (1, config.pitch))),
                            self.lane)


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
    """A :class:`..attention.weave.TileProduct` of values, which lanes turn: of the tokens of an operand, so many
    columns.

    Args:
        start: of the values in LDS, whose columns are consecutive.
    """

    def __init__(self, config: MlaConfig, mma: Any, sums: Any, start: Any, lane: Any) -> None:
        v = mma.get_slice(lane).make_fragment_A((config.columns, config.tokens))
        self._mma, self._sums, self._v, self._rows, self._depth = mma, sums, v, count_of(v, 1), count_of(v, 2)
        held = config.value_rows  # consecutive tokens of a lane, of each 16
        first = start + (div(lane, BLOCK) * held * config.pitch + mod(lane, BLOCK) * TURN)
        self._tokens = held * config.blocks // self._depth  # of an operand
        self._places = [first + ((div(k * self._tokens + t, held) * BLOCK + mod(t, held)) * config.pitch + m * BLOCK)
                        for k in range(self._depth) for m in range(0, self._rows, TURN) for t in range(self._tokens)]
        self._loaded: list[Any] = []

    def read(self, count: int) -> None:
        """Let `count` reads from LDS have been started."""
        for start in self._places[len(self._loaded) : count]:
            self._loaded.append(lds_read(start, 0, TURN))

    def products(self, b: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
        """The instructions, each with the number of reads that it needs."""
        for k in range(self._depth):
            for m in range(self._rows):
                first = (k * self._rows + m) // TURN * self._tokens
                yield first + self._tokens, partial(self._multiply, b, first, m, k)

    def _multiply(self, b: Any, first: int, m: int, k: int) -> None:
        column = [read[m % TURN] for read in self._loaded[first : first + self._tokens]]
        part, sums = part_of(self._v, m, k), part_of(self._sums, m, 0)
        part.store(fx.Vector.from_elements(column, self._v.element_type))
        fx.gemm(self._mma, sums, part, part_of(b, 0, k), sums)
