"""What becomes of the sums of a grouped product: scales, bias, activation and routing weight, and the store."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.convert import microscale, pack_micro
from ..parts.epilogue import gated
from ..parts.index import align_up, div
from ..parts.lane import Lane
from ..parts.memory import WORDS, Buffer, pointer, write_at
from ..parts.reduce import magnitude
from ..parts.scales import word_place
from .config import INT4_FACTOR, GroupedConfig
from .sources import columns_of

__all__ = ["TileColumns", "finish"]


@flyc.jit
def _store(base, into, column, value, config):
    """Store, or add, consecutive columns of a row of the result, from where :func:`_out` points."""
    element, at = config.element, base + _place(config, into, column)
    value = value.to(element)
    if fx.const_expr(config.adds):
        step = 1 if element is fx.Float32 else 2
        for i in fx.range_constexpr(0, value.numel, step):
            part = value.shuffle(value, list(range(i, i + step)))
            fx.llvm.atomic_add((at + i).llvm_ptr, part if step == 2 else part[0], syncscope="agent")
    else:
        width = min(value.numel, 128 // element.width)
        for i in fx.range_constexpr(0, value.numel, width):
            write_at(at + i, value.shuffle(value, list(range(i, i + width))))


def _out(tensors: dict[str, Any], row: Any, element: Any, config: GroupedConfig) -> Any:
    """The result, or the place of a row whose name is `row`."""
    return tensors["out"].row(row, element) if config.into == "place" else pointer(tensors["out"], element)


def _rounded(value: Any) -> list[Any]:
    """The elements of an f32 vector, rounded to bf16; by integers, since conversions there and back may be left out
    where products may be contracted."""
    words = value.to(fx.BFloat16).bitcast(fx.Int32)
    return [bits.bitcast(fx.Float32) for i in range(words.numel) for bits in (words[i] << 16, words[i] & -0x10000)]


def _transposed(units: list[list[Any]], lane: Lane, wave: int) -> list[list[Any]]:
    """Unit g of each group of lanes to group g, in the order of the groups: as many units, of words, as groups, or as
    of those that are next to each other."""
    step = 1
    while step < len(units):
        odd = (lane.group & step) != 0
        for i in (i for i in range(len(units)) if not i & step):
            kept = []
            for low, high in zip(units[i], units[i + step], strict=True):
                got = fx.shuffle_xor(odd.select(low, high), 16 * step, wave)
                kept.append((odd.select(got, low), odd.select(high, got)))
            units[i], units[i + step] = ([pair[side] for pair in kept] for side in range(2))
        step *= 2
    return units


def _quantised(values: list[Any], config: GroupedConfig) -> tuple[list[Any], Any]:
    """(words, exponent of their scale) of 32 consecutive columns of a row, rounded to bf16 first; the lanes with the
    same row have 16 of each of the two vectors."""
    flat, top = [part for value in values for part in _rounded(value)], fx.Int32(0)
    for value in flat:
        top = fx.max(top, magnitude(value))
    for step in [s for s in (16, 32) if s < config.wave]:
        top = fx.max(top, fx.shuffle_xor(top, step, config.wave))
    exponent, factor = microscale(top, config.out)
    return pack_micro(flat, config.out, exponent, factor, config.target), exponent


@flyc.jit
def _store_micro(tensors, config, rows, intos, column, values, lane):
    """Store 32 consecutive columns of each of some rows, as fp4 or fp8 with their scales. Those of
    sorted rows are stored of padding too, where a word has others."""
    found = [_quantised(pair, config) for pair in values]
    words, groups = [word for packed, _ in found for word in packed], config.wave // 16
    if fx.const_expr(len(words) == WORDS):  # of fp8: of both vectors of a row by two groups, of two rows by four
        size = WORDS // groups
        units = _transposed([words[i : i + size] for i in range(0, WORDS, size)], lane, config.wave)
        exists, into = rows[0].exists, intos[0]
        if fx.const_expr(len(rows) == 2):
            second = lane.group >= 2
            exists, into = second.select(rows[1].exists, exists), second.select(intos[1], into)
        if exists:
            at = _place(config, into, column + 16 * (lane.group & 1))
            part = fx.Vector.from_elements([word for unit in units for word in unit], fx.Int32)
            write_at(_out(tensors, into, fx.Int32, config) + (at >> 2), part)
    elif rows[0].exists:
        at = _place(config, intos[0], column + lane.group * config.op.acc_len)
        for i in fx.range_constexpr(2):
            if fx.const_expr(len(words) == 1):  # of both vectors
                part = fx.Vector.from_elements([(words[0] >> (16 * i)).to(fx.Int16)], fx.Int16)
                write_at(_out(tensors, intos[0], fx.Int16, config) + ((at + 16 * i) >> 2), part)
            else:
                half = words[i * len(words) // 2 : (i + 1) * len(words) // 2]
                part = fx.Vector.from_elements(half, fx.Int32)
                bits = {"fp4": 4, "fp8": 8}[config.out]
                write_at(_out(tensors, intos[0], fx.Int32, config) + ((at + 16 * i) * bits >> 5), part)
    for i in fx.range_constexpr(len(rows)):
        _store_scale(tensors, config, rows[i], intos[i], div(column, 32), found[i][1], lane)


def _place(config: GroupedConfig, into: Any, column: Any) -> Any:
    """Number of an element from where :func:`_out` points."""
    column = fx.Int64(column)
    return column if config.into == "place" else fx.Int64(into) * config.n + column


@flyc.jit
def _store_scale(tensors, config, row, into, group, exponent, lane):
    """Store the scale of a group of 32 columns of a row."""
    exists = lane.group == 0
    if fx.const_expr(config.into == "place"):
        exists, at = exists & row.exists, tensors["out"].scales(into) + group
    else:
        at = pointer(tensors["out_scale"], fx.Int8)
        if fx.const_expr(config.out_scales == "words"):
            at = at + word_place(row.place, group, align_up(config.n // 32, 8))
        else:
            exists, at = exists & row.exists, at + (fx.Int64(into) * (config.n // 32) + fx.Int64(group))
    if exists:
        write_at(at, fx.Vector.from_elements([exponent.to(fx.Int8)], fx.Int8))


class TileColumns:
    """The columns of a lane, with what belongs to them.

    Attributes:
        starts: first columns of the strips; `columns` those of the lane.
        biases, factors: f32 vectors ``[ni][gate, up]``, scales of the rows of w; None where there are none.
    """

    def __init__(self, tensors: dict[str, Any], expert: Any, column: Any, lane: Lane, config: GroupedConfig) -> None:
        self.starts = columns_of(column, lane, config)
        self.columns = [at + lane.group * config.op.acc_len for at in self.starts]

        def beside(name: str) -> list[list[Any]]:
            rows = config.n * config.streams
            buffer = Buffer(tensors[name], fx.Float32, fx.Int64(expert) * rows, rows)
            return [[buffer.load(at + s * config.n, config.op.acc_len) for s in range(config.streams)]
                    for at in self.columns]

        self.biases = beside("bias") if config.bias else None
        self.factors = beside("w_scale") if config.format.scales == "rows" else None


@flyc.jit
def _finish_micro(rows, columns, acc, tiles, strips):
    """The microscaled results of row tiles, of padding too: its scales share words with others."""
    tensors, config = rows.tensors, rows.config
    found = [rows.finished(mi) for mi in tiles]
    values = [_values(acc, mi, strips, config, weight, None, columns.biases, None)
              for mi, (_, (weight, _)) in zip(tiles, found, strict=True)]
    names = [_into(row, config) for row, _ in found]
    for i in fx.range_constexpr(0, len(strips), 2):
        first = columns.starts[strips[i]]
        if first < config.n:
            _store_micro(tensors, config, [row for row, _ in found], names, first,
                         [of_tile[i : i + 2] for of_tile in values], rows.lane)


@flyc.jit
def _finish_row(rows, columns, acc, mi, strips):
    """The results of a row tile."""
    config = rows.config
    row, (weight, of_row) = rows.finished(mi)
    into = _into(row, config)
    base = _out(rows.tensors, into, config.element, config)
    if fx.const_expr(config.format.b == "i4" and of_row is not None):
        of_row = of_row / INT4_FACTOR
    if row.exists:
        values = _values(acc, mi, strips, config, weight, of_row, columns.biases, columns.factors)
        if fx.const_expr(config.joined):
            for i in fx.range_constexpr(0, len(strips), 2):
                starts = [columns.starts[ni] for ni in strips[i : i + 2]]
                _store_pair(base, starts, values[i : i + 2], config, rows.lane)
        else:
            for i in fx.range_constexpr(len(strips)):
                column = columns.columns[strips[i]]
                if column < config.n:
                    _store(base, into, column, values[i], config)


@flyc.jit
def finish(rows, columns, acc, share):
    """Scales, bias, activation and routing weight of the accumulators, and the store: of each piece by the wave that
    has summed it, where waves share k."""
    config = rows.config
    for number in fx.range_constexpr(len(config.pieces)):
        tiles, strips = config.pieces[number]
        if share == number % config.k_waves:
            if fx.const_expr(config.micro_out):
                _finish_micro(rows, columns, acc, tiles, strips)
            else:
                for mi in fx.range_constexpr(tiles.start, tiles.stop):
                    _finish_row(rows, columns, acc, mi, strips)


def _into(row: Any, config: GroupedConfig) -> Any:
    """The row of the result that a sorted row belongs to, or the name that says its place."""
    if config.into == "slot":
        return row.token * config.topk + row.slot
    return {"row": row.place, "token": row.token, "place": row.name}[config.into]


def _store_pair(place: Any, starts: list[Any], values: list[Any], config: GroupedConfig, lane: Any) -> None:
    """Store two vectors of 16 columns of a row, of which each of four lanes has four, by 16 bytes a lane: lanes of even
    groups take eight columns of the first one, those of odd groups of the second."""
    element, odd = config.element, (lane.group & 1) == 1
    words = [value.to(element).bitcast(fx.Int32) for value in values]
    low, high = _transposed([[word[i] for i in range(word.numel)] for word in words], lane, config.wave)
    column = odd.select(starts[1], starts[0]) + (lane.group & ~1) * config.op.acc_len
    write_at(place + fx.Int64(column), fx.Vector.from_elements(low + high, fx.Int32).bitcast(element))


def _values(acc: list[Any], mi: int, strips: range, config: GroupedConfig, weight: Any, of_row: Any, biases: Any,
            factors: Any) -> list[Any]:
    """The vectors of strips of a row tile that are stored."""
    out, streams = [], config.streams
    for ni in strips:
        first = mi * config.n_tiles + ni * streams
        values = [value.to(fx.Float32) for value in acc[first : first + streams]]
        if factors is not None:
            values = [v * (f * of_row) for v, f in zip(values, factors[ni], strict=True)]
        if biases is not None:  # once, where workgroups share a reduction
            adds = None if config.k_batch == 1 else fx.block_idx.y == 0
            values = [v + (b if adds is None else adds.select(b, fx.full_like(b, 0.0)))
                      for v, b in zip(values, biases[ni], strict=True)]
        value = gated(values[0], values[1], config.activation, config.limit) if config.gated else values[0]
        out.append(value if weight is None else value * weight)
    return out
