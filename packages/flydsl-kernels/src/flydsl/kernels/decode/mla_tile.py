"""Tiles of an MLA cache in LDS: their way there from the pages, and how the two products read them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..attention.weave import TileProduct, Work, count_of, parts_of
from ..cache.pages import Pages
from ..parts.index import div, mod
from ..parts.memory import lds_read, lds_write
from .config import BLOCK
from .mla_config import CHUNK, RANK, ROPE, TURN, MlaConfig
from .operands import Pieces

__all__ = ["LatentTile"]


class LatentTile:
    """Tiles of the context on their way to stages of LDS, in the type of the products.

    A wave moves some tokens of each, piece by piece: their latent vectors, each by all lanes, then the rotated parts of
    all of them together. Lanes that have parts of the same token look up its page, a tile before the one that is moved.
    """

    def __init__(self, config: MlaConfig, memory: Any, pages: Pages, begin: Any, lane: Any, wave: Any) -> None:
        array: Any = fx.Array
        self.config, self.pages, self.begin, self.lane, self.first = config, pages, begin, lane, wave * config.share
        self._base = memory.allocate(array[config.element, config.stages * config.stage, 128]).peek().ptr
        lanes = config.target.wave
        self.each = RANK // (CHUNK * lanes)  # pieces of a latent vector
        self.near = lanes // config.share  # lanes of a token
        self.latents, chunk = config.share * self.each, min(CHUNK, ROPE // self.near)
        self.pieces = self.latents + ROPE // (self.near * chunk)
        self.coming = fx.make_rmem_tensor(1, fx.Int32)  # page of the next tile
        self.held = [Pieces(config.stored_element, size, count)  # where tiles pass through registers
                     for size, count in ((CHUNK, self.latents), (chunk, self.pieces - self.latents))]
        self.chunk, self.own = chunk, self.first + div(lane, self.near)  # the lane's token
        self._address: Any = None  # of this token
        self._fragments: list[Any] = []  # of keys, of which some are read a step ahead
        # Where stages begin: that of this tile, of the next one (which is the first, until the first turn), and of the
        # one before.
        self._places = fx.make_rmem_tensor(3, fx.Int32)
        self._places.fill(0)

    def producer(self) -> Any:
        """That of the pipeline over the tiles."""
        if self.config.direct:
            return fx.Direct(lambda tile, _, piece: self._copy(tile, piece), pieces=self.pieces)
        return fx.Staged(lambda tile, _, piece: self._load(tile, piece),
                         lambda _, stage, piece=None: self._store(piece), pieces=self.pieces, refilled=True)

    def moves(self, step: Any, parts: int) -> list[list[Work]]:
        """What moves the tile that a step of the pipeline starts, beside so many products of equal length."""
        kinds = [step.start] if self.config.direct else [step.store, step.start]
        work = [Work(partial(move, piece)) for piece in range(self.pieces) for move in kinds]
        ends = [len(work) * i // parts for i in range(parts + 1)]
        return [work[first:end] for first, end in itertools.pairwise(ends)]

    def turn(self) -> None:
        """The next tile is this one."""
        this, following = self._places[0], self._places[1]
        further = following + self.config.stage
        self._places[0], self._places[2] = following, this
        self._places[1] = (further == self.config.stages * self.config.stage).select(fx.Int32(0), further)

    def look(self, tile: Any) -> None:
        """Start looking up the pages of a tile."""
        self.coming[0] = self.pages.number(self.begin + tile * self.config.keys, self.own).to(fx.Int32)

    def found(self) -> None:
        """Let the lookup under way be done before the loop: moved there by the compiler, behind the loads of a tile, it
        would make every turn wait for these."""
        if not self.config.direct:
            self.coming[0] = fx.Int32(fx.rocdl.computed_here(self.coming[0]))

    def _source(self, tile: Any, piece: int) -> tuple[Any, Any]:
        """Pointer to the token of which this lane moves elements of a piece, and the first of their columns; with the
        first one, the pages of the next tile are looked up, so that what the lookup waits for has long arrived."""
        if piece == 0:
            first = self.begin + tile * self.config.keys
            self._address = fx.ptrtoint(self.pages.token(first, self.own, fx.Int64(fx.Uint32(self.coming[0]))))
            self.look(tile + 1)
        if piece >= self.latents:
            return self._pointer(self._address), self._rotated(piece)
        token, part = divmod(piece, self.each)
        words = [fx.Uint32(fx.rocdl.readlane(fx.T.i32, fx.Int32(x), token * self.near))
                 for x in (self._address, self._address >> 32)]
        address = fx.Int64(words[1]) << 32 | fx.Int64(words[0])
        return self._pointer(address), (self.lane + part * self.config.target.wave) * CHUNK

    def _pointer(self, address: Any) -> Any:
        """To words of the cache."""
        return fx.inttoptr(self.pages.base.type, address)

    def _rotated(self, piece: int) -> Any:
        """First column of this lane in a piece of rotated parts."""
        return RANK + (mod(self.lane, self.near) + (piece - self.latents) * self.near) * self.chunk

    def _target(self, piece: int) -> tuple[Any, Any]:
        """Where in LDS this lane moves elements of a piece: base and elements from there."""
        config, (token, part) = self.config, divmod(piece, self.each)
        if piece >= self.latents:
            return self._base + self._places[1], config.place(self.own) * config.pitch + self._rotated(piece)
        place = config.place(self.first) + config.place(token)  # tokens of a wave are a power of two
        return self._base + self._places[1], place * config.pitch + (self.lane + part * config.target.wave) * CHUNK

    def _copy(self, tile: Any, piece: int) -> None:
        chunk = fx.make_layout((CHUNK if piece < self.latents else self.chunk, 1), (1, 0))
        token, column = self._source(tile, piece)
        base, at = self._target(piece)
        fx.rocdl.async_copy(fx.make_view(fx.recast_iter(self.config.element, token) + column, chunk),
                            fx.make_view(base + at, chunk))

    def _load(self, tile: Any, piece: int) -> None:
        held, number = self._held(piece)
        held.load(*self._source(tile, piece), number)

    def _store(self, only: int | None) -> None:
        for piece in range(self.pieces) if only is None else (only,):
            held, number = self._held(piece)
            lds_write(*self._target(piece), held.get(self.config, number))

    def _held(self, piece: int) -> tuple[Pieces, int]:
        """Registers of a piece, and its number among them."""
        which = int(piece >= self.latents)
        return self.held[which], piece - which * self.latents

    def keys(self, mma: Any, scores: Any, own: Any, parked: Sequence[Callable[[], Any]] = (),
             begun: int = 0) -> list[TileProduct]:
        """Products of this tile with each part of the queries of a wave: the first, of which some reads are `begun`,
        to the last, for which there are reads of what is `parked`."""
        config, start = self.config, self._base + self._places[0]
        read = fx.make_copy_atom(fx.UniversalCopy128b(), config.element)
        parts = config.key_parts(own)
        if not self._fragments:
            thread = mma.get_slice(self.lane)
            self._fragments = [thread.make_fragment_A((config.keys, columns)) for _, columns in parts]
        last = len(parts) - 1
        return [TileProduct(mma, scores, fragment, read, config.view(start + first, columns), self.lane,
                            begun if i == 0 else 0, parked if i == last else ())
                for i, ((first, columns), fragment) in enumerate(zip(parts, self._fragments, strict=True))]

    def values(self, mma: Any, sums: Any, own: Any) -> TileProduct | TurnedProduct:
        """Product of the `own` share of the columns of this tile, or `late` of the one before, with weights."""
        config = self.config
        start = self._base + self._places[2 if config.late else 0] + own * config.columns
        if not config.reads_across:
            return TurnedProduct(config, mma, sums, start, self.lane)
        return TileProduct(mma, sums, (config.columns, config.keys), config.read_across(),
                           config.view(start, config.columns, True), self.lane)


class TurnedProduct:
    """A :class:`..attention.weave.TileProduct` of values, which lanes turn: of the tokens of an operand, so many
    columns; of one block of rows of weights.

    Args:
        start: of the values in LDS, whose columns are consecutive.
    """

    def __init__(self, config: MlaConfig, mma: Any, sums: Any, start: Any, lane: Any) -> None:
        v = mma.get_slice(lane).make_fragment_A((config.columns, config.keys))
        self._mma, self._sums, self._v, self._rows, self._depth = mma, sums, v, count_of(v, 1), count_of(v, 2)
        held = config.value_rows  # consecutive tokens of a lane, of each 16
        first = start + (div(lane, BLOCK) * held * config.pitch + mod(lane, BLOCK) * TURN)
        self._tokens = config.keys * held // BLOCK // self._depth  # of an operand
        self._places = [first + ((div(k * self._tokens + t, held) * BLOCK + mod(t, held)) * config.pitch + m * BLOCK)
                        for k in range(self._depth) for m in range(0, self._rows, TURN) for t in range(self._tokens)]
        self._loaded: list[Any] = []

    def read(self, count: int) -> None:
        """Let `count` reads from LDS have been started."""
        for start in self._places[len(self._loaded) : count]:
            self._loaded.append(lds_read(start, 0, TURN))

    def products(self, b: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
        """The instructions, each with the number of reads that it needs."""
        sums, rows, columns = map(parts_of, (self._sums, self._v, b))
        for k in range(self._depth):
            for m in range(self._rows):
                first = (k * self._rows + m) // TURN * self._tokens
                yield first + self._tokens, partial(
                    self._multiply, sums(m, 0), rows(m, k), columns(0, k), first, m % TURN)

    def _multiply(self, sums: Any, part: Any, b: Any, first: int, turn: int) -> None:
        column = [read[turn] for read in self._loaded[first : first + self._tokens]]
        part.store(fx.Vector.from_elements(column, self._v.element_type))
        fx.gemm(self._mma, sums, part, b, sums)
