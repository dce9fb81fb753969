"""What a grouped product takes of each tile of k besides its rows: weights of an expert, and scales along k."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import FLOATS, element_of
from ..parts.epilogue import FAR
from ..parts.index import align_up, cdiv, div
from ..parts.lane import Lane
from ..parts.mainloop import Held, KTile, Multiply
from ..parts.memory import WORDS, Buffer, lds_read
from ..parts.operand import Fragments, Rows, Shuffled
from ..parts.packed import e8m0_value, unpack
from ..parts.products import TileProducts
from ..parts.rows import pointer
from ..parts.schedule import Tally
from .config import SCALE_K, WAVES, GroupedConfig

__all__ = ["BlockScales", "ScaledProducts", "Weights", "WideRows", "microscales", "spread_fragments", "strips_of"]

HIGH = 0xF0F0F0F0 - (1 << 32)  # the high halves of four bytes
SPAN = 128  # k of microscaled instructions


def strips_of(column: Any, wave: Any, config: GroupedConfig) -> list[Any]:
    """Numbers of the 16-row strips of the expert's weight that a wave has: ``ni * streams + stream``."""
    up = align_up(config.n, 16) // 16
    return [div(column, 16) + ni * WAVES + wave + up * s for ni in range(config.n_repeat)
            for s in range(config.streams)]


def _unpack_int4(pair: Any) -> Any:
    """Two words of int4 as a chunk of sixteen int8, each 16 times its value, which the scale of the row undoes."""
    words = [half for i in range(2) for half in ((pair[i] << 4) & HIGH, pair[i] & HIGH)]
    return fx.Vector.from_elements(words, fx.Int32)


class WideRows(Rows):
    """Gathered rows of a matrix of any size, by 64-bit addresses.

    Rows that do not exist are others that do: nothing is stored for them.
    """

    def __init__(self, data: Any, stages: list[Any], lane: Lane, rows: Any, row_of: Any,
                 config: GroupedConfig) -> None:
        self.tile, self.stages, self._lane, self._config = config.a_tile, stages, lane, config
        base, self._wide = pointer(data, fx.Int32), []
        for i in range(self.tile.loads):
            row, chunk = self.tile.part(lane.thread, i)
            found = row_of(row)
            start = base + fx.Int64((found < rows).select(found, 0)) * config.a_row_words
            self._wide.append((start, chunk * WORDS))
        self._atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Int32)

    def fetch(self, t: KTile) -> list[Any]:
        """Start loading a tile; past the end of a row, what lies at its end, for which the weights are zero."""
        out, words = [], self._config.a_row_words
        for start, chunk in self._wide:
            at = t.index * self.tile.row_words + chunk
            at = (at < words).select(at, words - WORDS) if self._config.ragged else at
            register = fx.make_rmem_tensor(WORDS, fx.Int32)
            fx.copy(self._atom, fx.make_view(start + at, fx.make_layout(WORDS, 1)), register)
            out.append(register.load())
        return out


def spread_fragments(stages: list[Any], lane: Lane, config: GroupedConfig) -> Fragments:
    """Fragments of 16 rows of x whose chunks of a lane are neighbours, as many as one load of w is for."""
    tile, spread = config.a_tile, config.spread
    places = [tile.at(lane.row, (b // spread * config.op.groups + lane.group) * spread + b % spread)
              for b in range(config.blocks)]
    return Fragments(lambda stage, row, block: lds_read(stages[stage], places[block] + row * 16 * tile.row_words))


class Weights:
    """Fragments of the weight of an expert, in registers; with its scales of groups of 32 k, one for each load."""

    def __init__(self, tensors: dict[str, Any], expert: Any, column: Any, lane: Lane, config: GroupedConfig) -> None:
        self._config, self._count = config, config.b_blocks
        strips, words = strips_of(column, lane.wave, config), config.rows_b // 16 * config.strip_words
        common: dict[str, Any] = dict(column=0, tile_strips=config.rows_b // 16, strips=strips, lanes=config.wave)
        self._data = Shuffled(tensors["w"], lane, strip_words=config.strip_words, blocks=self._count,
                              chunk_words=config.load_words, start=fx.Int64(expert) * (words * 4), **common)
        self._grouped = config.format.scales == "groups"
        if self._grouped:
            element, count = element_of(config.scale), config.rows_b * config.scales_k
            self._scales = Buffer(tensors["w_scale"], element, fx.Int64(expert) * count, count)
            self._places = [strip * (16 * config.scales_k) + lane.lane for strip in strips]
        loads = self._data.loads
        self.source = Held(lambda t, _: self._fetch(t), 2 * loads if self._grouped else loads)

    def _fetch(self, t: KTile) -> list[Any]:
        """``[strip][load]`` of the words, and the scale if there is one."""
        words, wave = self._data.fetch(t), self._config.wave
        if not self._grouped:
            return [[[word] for word in strip] for strip in words]
        return [[[word, self._scales.load(place + i * wave, 1, t.index * (wave * self._count))[0]]
                 for i, word in enumerate(strip)] for place, strip in zip(self._places, words, strict=True)]

    def of_b(self, held: list[Any], strip: int, call: int, count: int = 0) -> list[Any]:
        """The chunks of a call of the instruction (or of `count` chunks)."""
        count = count or self._config.op.b_blocks or self._config.op.blocks
        return [self._chunk(held[0][strip], call * count + i) for i in range(count)]

    def _chunk(self, loads: list[Any], block: int) -> Any:
        config = self._config
        words, *scales = loads[block // config.spread]
        if config.format.b is None or config.format.scales == "micro":
            return words
        if not scales:
            return _unpack_int4(words)
        scale = scales[0]
        scale = e8m0_value(scale.to(fx.Int32) & 0xFF) if config.scale == "e8m0" else scale.to(fx.Float32)
        values = unpack(words.shuffle(words, [block % config.spread]), config.format.b) * scale
        return values.to(FLOATS[config.dtype]).bitcast(fx.Int32)


class BlockScales:
    """Scales of 128 k: one of a row of x for each row tile of a lane, one of 128 rows of w for each strip.

    Args:
        sources: rows of x of the lane's row tiles, of `rows`.
    """

    def __init__(self, tensors: dict[str, Any], expert: Any, sources: list[Any], rows: Any, column: Any, lane: Lane,
                 config: GroupedConfig) -> None:
        count, self._tile = config.scales_k, config.tile_k // SCALE_K["blocks"]
        per_expert = cdiv(config.n * config.streams, 128) * count
        x = Buffer(tensors["x_scale"], fx.Float32, None, fx.Int64(rows) * count)
        w = Buffer(tensors["w_scale"], fx.Float32, fx.Int64(expert) * per_expert, per_expert)
        along, further = (1, rows) if config.turned_scales else (count, 1)  # from a row, and from a block to the next
        self._x = [(x, (row < rows).select(row * along, FAR // 4), further) for row in sources]
        self._w = [(w, div(column + (ni * WAVES + lane.wave) * 16 + s * config.n, 128) * count, 1)
                   for ni in range(config.n_repeat) for s in range(config.streams)]
        self.source = Held(lambda t, _: self._fetch(t), (len(self._x) + len(self._w)) * self._tile)

    def _fetch(self, t: KTile) -> list[Any]:
        return [[[source.load(place + i * step, 1, t.index * (self._tile * step))[0] for i in range(self._tile)]
                 for source, place, step in part] for part in (self._x, self._w)]

    @staticmethod
    def factor(held: list[Any], row: int, strip: int, block: int) -> Any:
        """What the sum of a row tile and a strip over a block of 128 k is multiplied by."""
        x, w = held[1]
        return x[row][block] * w[strip][block]


class ScaledProducts(TileProducts):
    """Products whose sums over 128 k each get the factor of :class:`BlockScales`: a part has that k."""

    def __init__(self, config: GroupedConfig, tally: Tally, a: Fragments, w: Weights, scales: BlockScales) -> None:
        op, self._w, self._factors = config.op, w, scales
        self._calls = SCALE_K["blocks"] // (op.block_bytes * op.blocks)
        calls = config.blocks // op.blocks // self._calls
        super().__init__(op, tally, config.m_repeat, config.n_repeat * config.streams, calls, a, w.of_b, swapped=True)

    def blocks(self, call: int, count: int) -> list[Any]:
        return super().blocks(call, count * self._calls)

    def of(self, t: KTile, stage: Any, held: list[Any], last: bool) -> Multiply:
        count = self.op.blocks

        def multiply(acc: list[Any], part: int, fragments: Any) -> list[Any]:
            out, (block, first) = list(acc), self.place(part)
            sums = [self.op.zero() for _ in self.places]
            right = [self._w.of_b(held, s, block, count * self._calls) for s in range(self.n_tiles)]
            for c in range(self._calls):
                call = slice(c * count, (c + 1) * count)
                sums = self.op.multiply_all([(right[s][call], fragments[0][i][call], old, None)
                                             for (i, s), old in zip(self.places, sums, strict=True)])
            self.tally.add("mfma", len(sums) * self._calls * self.op.instructions)
            for (i, s), value in zip(self.places, sums, strict=True):
                at = (first + i) * self.n_tiles + s
                factor = self._factors.factor(held, first + i, s, block)
                out[at] = fx.math.fma(value, fx.full_like(value, factor), out[at])
            return out

        return multiply


def microscales(tensors: dict[str, Any], expert: Any, sources: list[Any], rows: Any, column: Any, lane: Lane,
                config: GroupedConfig) -> tuple[Held, Any]:
    """e8m0 scales of 32 k: what loads them, and ``scales(t, held)`` of :class:`TileProducts`.

    The scaled MFMA takes the byte of its lane group from each lane, the scaled WMMA all four of 128 k in a word.
    """
    mfma, steps, per_row = config.target.matrix == "mfma", config.tile_k // SPAN, SPAN // 32
    element, unit = (fx.Int8, 1) if mfma else (fx.Int32, per_row)
    per_expert = config.rows_b * config.scales_k // unit
    inside = lane.group if mfma else 0
    x = Buffer(tensors["x_scale"], element, None, fx.Int64(rows) * (config.scales_k // unit))
    w = Buffer(tensors["w_scale"], element, fx.Int64(expert) * per_expert, per_expert)
    places = [(x, (row < rows).select(row * (config.scales_k // unit), FAR // 4) + inside, per_row // unit)
              for row in sources]
    places += [(w, (strip * (16 * config.scales_k) + lane.row * per_row) // unit + inside, 16 * per_row // unit)
               for strip in strips_of(column, lane.wave, config)]

    def fetch(t: KTile, _: Any) -> list[Any]:
        return [[source.load(at + i * step, 1, t.index * (steps * step))[0] for i in range(steps)]
                for source, at, step in places]

    def scales(t: KTile, held: list[Any]) -> Any:
        def of(call: int) -> tuple[list[Any], list[Any]]:
            words = [(v[call].to(fx.Uint8).to(fx.Int32) if mfma else v[call], 0) for v in held[1]]
            return words[: len(sources)], words[len(sources) :]

        return of

    return Held(fetch, len(places) * steps), scales
