"""Tiles of an MLA cache in LDS: their way there from the pages, and how the two products read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..attention.scores import lanes_of
from ..attention.weave import TileProduct, count_of, parts_of, tile_product
from ..cache.pages import Pages
from ..parts.index import div, mod
from ..parts.memory import lds_read, lds_write
from ..parts.runs import runs_of
from .config import BLOCK
from .mla_config import CHUNK, RANK, ROPE, STAGES, TURN, MlaConfig
from .operands import Pieces

__all__ = ["LatentTile", "Parked"]

PAIR = 2  # elements of a rotated part that a lane moves at once


class LatentTile:
    """Tiles of the context on their way to stages of LDS, in the type of the products.

    A wave moves some tokens of each: piece by piece their latent vectors, then their rotated parts, as many at a time
    as it has lanes for. Page numbers are looked up a tile before the one that is moved, each lane that of a token.
    """

    def __init__(self, config: MlaConfig, memory: Any, pages: Pages, begin: Any, lane: Any, wave: Any) -> None:
        array: Any = fx.Array
        self.config, self.pages, self.begin, self.lane, self.wave = config, pages, begin, lane, wave
        self._latent, self._rotated = [memory.allocate(array[config.element, STAGES * config.keys * pitch, 128])
                                       .peek().ptr for pitch in (config.pitch, config.rotated_pitch)]
        self.each = RANK // (CHUNK * config.target.wave)  # pieces of a latent vector
        self.together = PAIR * config.target.wave // ROPE  # rotated parts of a piece
        self.latents = config.share * self.each
        self.pieces = self.latents + config.share // self.together
        self.number, self.coming = (fx.make_rmem_tensor(1, fx.Int32) for _ in range(2))  # pages of this tile, the next
        self.held = [Pieces(config.stored_element, chunk, count)  # where tiles pass through registers
                     for chunk, count in ((CHUNK, self.latents), (PAIR, self.pieces - self.latents))]

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
        tokens = self.config.keys
        self.coming[0] = self.pages.number(self.begin + tile * tokens, mod(self.lane, tokens)).to(fx.Int32)

    def found(self) -> None:
        """Let the lookup under way be done before the loop: moved there by the compiler, behind the loads of a tile, it
        would make every turn wait for these."""
        if not self.config.direct:
            self.coming[0] = fx.Int32(fx.rocdl.computed_here(self.coming[0]))

    def _start(self, tile: Any, number: int) -> Any:
        """Pointer to this wave's token of a number. Of the wave, not of the lane: scalar units have the time."""
        token = self.wave * self.config.share + number
        page = fx.Int64(fx.Int32(fx.rocdl.readlane(fx.T.i32, self.number[0], token)))
        return self.pages.token(self.begin + tile * self.config.keys, token, page)

    def _source(self, tile: Any, piece: int) -> tuple[Any, Any]:
        """Pointer to the token of which this lane moves elements of a piece, and the first of their columns; with the
        first one, the pages of the next tile are looked up, so that what the lookup waits for has long arrived."""
        if piece == 0:
            self.number[0] = self.coming[0]
            self.look(tile + 1)
        if piece < self.latents:
            token, part = divmod(piece, self.each)
            start, column = self._start(tile, token), (self.lane + part * self.config.target.wave) * CHUNK
        else:
            first = (piece - self.latents) * self.together
            start, column = self._start(tile, first), RANK + mod(self.lane * PAIR, ROPE)
            if self.together == 2:
                start = (self.lane * PAIR < ROPE).select(start, self._start(tile, first + 1))
        return start, column

    def latent(self, stage: Any) -> Any:
        """Pointer to the latent vectors of a stage."""
        return self._latent + self._of_stage(stage, self.config.pitch)

    def rotated(self, stage: Any) -> Any:
        """Pointer to the rotated parts of a stage."""
        return self._rotated + self._of_stage(stage, self.config.rotated_pitch)

    def _of_stage(self, stage: Any, pitch: int) -> Any:
        # One of two is chosen: a product with a scalar and its sum with a lane's place would be a quarter as fast.
        return (stage == 0).select(0, self.config.keys * pitch)

    def _row(self, piece: int) -> Any:
        """The first token of a piece, of the tile."""
        inside = piece // self.each if piece < self.latents else (piece - self.latents) * self.together
        return self.wave * self.config.share + inside

    def _target(self, stage: Any, piece: int) -> tuple[Any, Any]:
        """Where in LDS this lane moves elements of a piece: base and elements from there."""
        if piece < self.latents:
            first = piece % self.each * self.config.target.wave * CHUNK
            return self.latent(stage), self._row(piece) * self.config.pitch + first + self.lane * CHUNK
        row = self._row(piece) + div(self.lane * PAIR, ROPE)
        return self.rotated(stage), row * self.config.rotated_pitch + mod(self.lane * PAIR, ROPE)

    def _copy(self, tile: Any, stage: Any, piece: int) -> None:
        chunk = fx.make_layout((CHUNK if piece < self.latents else PAIR, 1), (1, 0))
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

    def keys(self, mma: Any, scores: Any, stage: Any, own: Any) -> list[TileProduct]:
        """Products of a stage with the queries of a wave: of each of its parts, of latent vectors and rotated."""
        config = self.config
        read = fx.make_copy_atom(fx.UniversalCopy128b(), config.element)
        views = [(columns, fx.make_view(self.latent(stage) + (own * config.columns + first),
                                        fx.make_layout((config.keys, columns), (config.pitch, 1))))
                 for first, columns in config.parts]
        rotated = fx.make_layout((config.keys, ROPE), (config.rotated_pitch, 1))
        share = (config.keys, config.rotated_columns)
        views.append((share[1], fx.flat_divide(fx.make_view(self.rotated(stage), rotated), share)[None, None, 0, own]))
        return [tile_product(mma, scores, (config.keys, columns), read, view, self.lane) for columns, view in views]

    def values(self, mma: Any, sums: Any, stage: Any, own: Any) -> TileProduct | TurnedProduct:
        """Product of the `own` share of the columns of a stage with weights."""
        config = self.config
        start = self.latent(stage) + own * config.columns
        if not config.reads_across:
            return TurnedProduct(config, mma, sums, start, self.lane)
        return tile_product(mma, sums, (config.columns, config.keys), config.read_across(),
                            fx.make_view(start, config.across()), self.lane)


class Parked:
    """An operand of each lane that waits in LDS, since there is no register for it through the loop."""

    def __init__(self, memory: Any, fragment: Any, thread: Any, threads: int) -> None:
        count = int(fx.size(fx.get_shape(fragment)).unpack())
        array: Any = fx.Array
        self._base = memory.allocate(array[fragment.element_type, count * threads, 128]).peek().ptr
        self._places = [thread * CHUNK + i * threads for i in range(0, count, CHUNK)]
        for at, values in zip(self._places, runs_of(lanes_of(fragment), CHUNK), strict=True):
            lds_write(self._base, at, values)

    def read(self, target: Any) -> None:
        """Start reading it to a fragment like the one that was parked."""
        parts = [lds_read(self._base, at, CHUNK) for at in self._places]
        target.store(fx.Vector.from_elements([part[i] for part in parts for i in range(CHUNK)], target.element_type))


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
