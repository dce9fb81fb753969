"""Tiles of an MLA cache in LDS: their way there from the pages, and how the two products read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..attention.scores import lanes_of
from ..attention.tiles import stage_offset
from ..attention.weave import TileProduct, count_of, parts_of, tile_product
from ..cache.pages import Pages
from ..parts.index import div, mod
from ..parts.memory import lds_read, lds_write
from ..parts.runs import runs_of
from .config import BLOCK
from .mla_config import CHUNK, RANK, ROPE, TURN, MlaConfig
from .operands import Pieces

__all__ = ["LatentTile", "Parked"]


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

    def producer(self) -> Any:
        """That of the pipeline over the tiles."""
        if self.config.direct:
            return fx.Direct(self._copy, pieces=self.pieces)
        return fx.Staged(lambda tile, _, piece: self._load(tile, piece),
                         lambda _, stage, piece=None: self._store(stage, piece), pieces=self.pieces, refilled=True)

    def advance(self, step: Any, piece: int) -> None:
        """Start moving a piece of the tile that a step of the pipeline starts."""
        if not self.config.direct:
            step.store(piece)
        step.start(piece)

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
            self._address = fx.ptrtoint(self.pages.token(first, self.own, fx.Int64(self.coming[0])))
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

    def _target(self, stage: Any, piece: int) -> tuple[Any, Any]:
        """Where in LDS this lane moves elements of a piece: base and elements from there."""
        config, (token, part) = self.config, divmod(piece, self.each)
        if piece >= self.latents:
            return self._stage(stage), config.place(self.own) * config.pitch + self._rotated(piece)
        place = config.place(self.first) + config.place(token)  # tokens of a wave are a power of two
        return self._stage(stage), place * config.pitch + (self.lane + part * config.target.wave) * CHUNK

    def _stage(self, stage: Any) -> Any:
        """Pointer to a stage."""
        return self._base + stage_offset(stage, self.config.stages, self.config.stage)

    def _copy(self, tile: Any, stage: Any, piece: int) -> None:
        chunk = fx.make_layout((CHUNK if piece < self.latents else self.chunk, 1), (1, 0))
        token, column = self._source(tile, piece)
        base, at = self._target(stage, piece)
        fx.rocdl.async_copy(fx.make_view(fx.recast_iter(self.config.element, token) + column, chunk),
                            fx.make_view(base + at, chunk))

    def _load(self, tile: Any, piece: int) -> None:
        held, number = self._held(piece)
        held.load(*self._source(tile, piece), number)

    def _store(self, stage: Any, only: int | None) -> None:
        for piece in range(self.pieces) if only is None else (only,):
            held, number = self._held(piece)
            lds_write(*self._target(stage, piece), held.get(self.config, number))

    def _held(self, piece: int) -> tuple[Pieces, int]:
        """Registers of a piece, and its number among them."""
        which = int(piece >= self.latents)
        return self.held[which], piece - which * self.latents

    def keys(self, mma: Any, scores: Any, stage: Any, own: Any, parked: Parked | None) -> list[TileProduct]:
        """Products of a stage with the queries of a wave: with those in registers, and with `parked` ones."""
        config, start = self.config, self._stage(stage)
        read = fx.make_copy_atom(fx.UniversalCopy128b(), config.element)
        products: list[TileProduct] = []
        for first, columns in config.key_parts(own):
            view = config.view(start + first, columns)
            products.append(tile_product(mma, scores, (config.keys, columns), read, view, self.lane,
                                         parked=parked.reads if parked and products else ()))
        return products

    def values(self, mma: Any, sums: Any, stage: Any, own: Any) -> TileProduct | TurnedProduct:
        """Product of the `own` share of the columns of a stage with weights."""
        config = self.config
        start = self._stage(stage) + own * config.columns
        if not config.reads_across:
            return TurnedProduct(config, mma, sums, start, self.lane)
        return tile_product(mma, sums, (config.columns, config.keys), config.read_across(),
                            config.view(start, config.columns, True), self.lane)


class Parked:
    """An operand of each lane that waits in LDS, since there is no register for it through the loop."""

    def __init__(self, memory: Any, fragment: Any, thread: Any, threads: int) -> None:
        count = int(fx.size(fx.get_shape(fragment)).unpack())
        array: Any = fx.Array
        base = memory.allocate(array[fragment.element_type, count * threads, 128]).peek().ptr
        places = [thread * CHUNK + i * threads for i in range(0, count, CHUNK)]
        for at, values in zip(places, runs_of(lanes_of(fragment), CHUNK), strict=True):
            lds_write(base, at, values)
        self.operand = fx.make_fragment_like(fragment)
        self.reads = [partial(self._read, i * CHUNK, base, at) for i, at in enumerate(places)]

    def _read(self, first: int, base: Any, at: Any) -> None:
        """Start reading some of it."""
        fx.make_view(fx.get_iter(self.operand) + first, fx.make_layout(CHUNK, 1)).store(lds_read(base, at, CHUNK))


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
