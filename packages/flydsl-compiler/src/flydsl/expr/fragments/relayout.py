"""Register relayouts: a fragment in another thread-value layout of the same tile, by the cheapest way there is.

The way is planned from the two layouts alone (`layout_conversion` asks for the plan): nothing where they agree; a
renaming of registers where every thread has its values already; exchanges between lanes (`lanes`) where every wave
has them; LDS otherwise, or where it is cheaper.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import LazyModule, arith, vector
from flydsl.tracing.locations import dsl_loc_tracing

from .. import coop, gpu
from .._participation import check_participation, group_of
from .._target import target_arch, target_warp_size
from ..derived import make_rmem_tensor
from ..numeric import Boolean, Int32, NumericMeta
from ..utils.convert import bit_width
from ..values.layout import Layout
from ..values.tensor import Tensor
from .lanes import SourceMap, choose, find_exchange, lanes_where
from .ownership import Digit, ThreadValues, attach, source_thread_values
from .ownership import thread_values as thread_values_of
from .scratch import load, scratch, store

_flow = LazyModule("flydsl.control.flow")

WORD = 32                    # bits of a register
LARGEST_ACCESS = 16          # bytes of an LDS access
ROUND_TRIP, BARRIER = 16, 8  # cost of waiting for LDS, and for the other waves, in vector instructions


@dataclass(frozen=True)
class Part:
    """Some lanes of a target word: the source values that make a word, and the lane that each lane reads it from."""

    values: tuple[int, ...]
    source: SourceMap


@dataclass(frozen=True)
class Side:
    """Accesses of one side of a conversion through LDS: `groups` of values at consecutive addresses."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]  # (first element, values)
    width: int                                       # values of an access


@dataclass(frozen=True)
class ThroughLds:
    """A tile in LDS: distance of neighbours along each mode of the tile (elements), size, and the accesses."""

    strides: tuple[int, ...]
    elements: int
    writes: Side
    reads: Side


@dataclass(frozen=True)
class LayoutConversion:
    """What a relayout costs.

    Args:
        kind: 'none' (the layouts agree: no instruction), 'registers' (values of a thread change places), 'wave'
            (exchanges between lanes) or 'workgroup' (through LDS).
        instructions: number of each sort a thread executes: 'dpp', 'permlane', 'swizzle', 'bpermute', 'select',
            'pack' (words put together from values), 'lds_write', 'lds_read', 'barrier'.
        lds_bytes: of LDS for the tile. cost: estimate, in vector instructions; for comparing plans.
    """

    kind: str
    instructions: dict[str, int]
    lds_bytes: int
    cost: int
    words: tuple[tuple[Part, ...], ...] = field(repr=False, default=())
    through: ThroughLds | None = field(repr=False, default=None)


# --------------------------------------------------------------------------- planning


@functools.lru_cache(maxsize=256)
def plan(source: ThreadValues, target: ThreadValues, bits: int, arch: str, wave: int) -> LayoutConversion:
    """The cheapest conversion of values of `bits` bits. ValueError if the source lacks elements of the target."""
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"a relayout moves values of 8, 16, 32 or 64 bits, not of {bits}")
    if source.tile != target.tile:
        raise ValueError(f"a relayout keeps the tile: the fragment is a part of {source.tile}, the target of "
                         f"{target.tile}; modes= names the mode of the fragment that each mode of the target is")
    held = {p + q for p in set(source.positions(0)) for q in set(source.positions(1))}
    missing = {p + q for p in set(target.positions(0)) for q in set(target.positions(1))} - held
    if missing:
        raise ValueError(f"no thread holds the element {min(missing)} of the tile {source.tile}")
    within = _within_waves(source, target, bits, arch, wave)
    if within is not None and within.kind != "wave":
        return within
    for tv in (source, target):
        tv.digits(tv.threads)  # refuses a layout that carries from mode to mode: it has no place in LDS
    through = _through_lds(source, target, bits)
    return within if within is not None and within.cost <= through.cost else through


def _within_waves(source: ThreadValues, target: ThreadValues, bits: int, arch: str,
                  wave: int) -> LayoutConversion | None:
    """The conversion by renaming and exchanges; None if values cross waves, or not in the same way in all waves."""
    sources = _sources(source, target, wave)
    if sources is None:
        return None
    by_value = [[lane_values[v] for lane_values in sources] for v in range(target.values)]
    if all(s == (lane, v) for v, lanes in enumerate(by_value) for lane, s in enumerate(lanes)):
        same = source.values == target.values
        return LayoutConversion("none" if same else "registers", {}, 0, 0, _renaming(by_value))
    if all(s == (lane, lanes[0][1]) for lanes in by_value for lane, s in enumerate(lanes)):
        words = _renaming(by_value)
        packs = sum(_pack_cost(values, bits) for values in _chunks([p[0].values[0] for p in words], bits))
        return LayoutConversion("registers", {"pack": packs} if packs else {}, 0, packs, words)
    words, halves = _words(by_value, bits, wave)
    counts: dict[str, int] = {}

    def count(what: str, n: int) -> None:
        if n:
            counts[what] = counts.get(what, 0) + n

    cost = 0
    for values in {part.values for parts in words for part in parts}:
        count("pack", _pack_cost(values, bits))
    for parts in words:
        for part in parts:
            exchange = find_exchange(part.source, arch)
            count(exchange.name, halves * (exchange.name != "none"))
            cost += halves * exchange.cost
        count("select", halves * (len(parts) - 1))
    cost += counts.get("pack", 0) + counts.get("select", 0)
    if bits < WORD and words and len(words[0][0].values) == 1:
        count("pack", target.values)  # moved one by one: the words are put together afterwards
        cost += target.values
    return LayoutConversion("wave", counts, 0, cost, words)


def _renaming(by_value: list[list[tuple[int, int]]]) -> tuple[tuple[Part, ...], ...]:
    return tuple((Part((lanes[0][1],), tuple(range(len(lanes)))),) for lanes in by_value)


def _sources(source: ThreadValues, target: ThreadValues, wave: int) -> list[list[tuple[int, int]]] | None:
    """(lane, value) that each lane and value of a wave comes from; None unless it is the same for all waves."""
    from_threads, from_values = source.positions(0), source.positions(1)
    to_threads, to_values = target.positions(0), target.positions(1)
    if len(to_threads) != len(from_threads):
        return None
    value_at = {p: v for v, p in reversed(list(enumerate(from_values)))}
    wave = min(wave, len(to_threads))
    result: list[list[tuple[int, int]]] | None = None
    for first in range(0, len(to_threads), wave):
        lanes_at: dict[int, list[tuple[int, int]]] = {}
        for lane in range(wave):
            for p, v in value_at.items():
                lanes_at.setdefault(from_threads[first + lane] + p, []).append((lane, v))
        mine: list[list[tuple[int, int]]] = []
        for lane in range(wave):
            row = []
            for p in to_values:
                here = to_threads[first + lane] + p
                if here not in lanes_at:
                    return None
                # Of several holders the one that differs in the fewest, lowest bits of the lane.
                row.append(min(lanes_at[here], key=lambda s: (lane ^ s[0], s[1])))
            mine.append(row)
        if result is not None and mine != result:
            return None
        result = mine
    return result


def _words(by_value: list[list[tuple[int, int]]], bits: int, wave: int) -> tuple[tuple[tuple[Part, ...], ...], int]:
    """The parts of every target word, and the registers of a word (2 for 64-bit values)."""
    together = max(1, WORD // bits)
    if len(by_value) % together or any(
        len({by_value[v + i][lane][0] for i in range(together)}) > 1
        for v in range(0, len(by_value), together) for lane in range(len(by_value[0]))
    ):
        together = 1
    words = []
    for v in range(0, len(by_value), together):
        maps: dict[tuple[int, ...], list[int | None]] = {}
        for lane in range(len(by_value[0])):
            values = tuple(by_value[v + i][lane][1] for i in range(together))
            maps.setdefault(values, [None] * wave)[lane] = by_value[v][lane][0]
        words.append(tuple(Part(values, tuple(lanes)) for values, lanes in maps.items()))
    return tuple(words), max(1, bits // WORD)


def _chunks(values: list[int], bits: int) -> Iterator[tuple[int, ...]]:
    together = max(1, WORD // bits)
    return (tuple(values[i : i + together]) for i in range(0, len(values), together))


def _pack_cost(values: tuple[int, ...], bits: int) -> int:
    """Instructions that put a word together; none where it is a word of the source already."""
    together = max(1, WORD // bits)
    if len(values) == 1:
        return 0 if together == 1 else 1
    aligned = values[0] % together == 0 and values == tuple(range(values[0], values[0] + together))
    return 0 if aligned else len(values) - 1


def _through_lds(source: ThreadValues, target: ThreadValues, bits: int) -> LayoutConversion:
    """The conversion through LDS, with the order of the tile's modes that needs the fewest accesses."""
    size = bits // 8
    modes = range(len(source.tile))
    best: tuple[int, ThroughLds] | None = None
    for first in modes:
        order = [first, *(m for m in modes if m != first)]
        strides, room = [0] * len(source.tile), 1
        for mode in order:
            strides[mode] = room
            room *= source.tile[mode]
            if mode == first and len(source.tile) > 1:
                room += LARGEST_ACCESS // size  # rows start in different banks
        sides = [_accesses(tv, tuple(strides), size) for tv in (source, target)]
        cost = sum(len(s.groups) * (1 + s.width * size // 8) for s in sides)
        if best is None or cost < best[0]:
            best = cost, ThroughLds(tuple(strides), room, *sides)
    assert best is not None
    cost, through = best
    counts = {"lds_write": len(through.writes.groups), "lds_read": len(through.reads.groups), "barrier": 2}
    return LayoutConversion("workgroup", counts, through.elements * size, cost + ROUND_TRIP + 2 * BARRIER,
                            through=through)


def _addresses(tv: ThreadValues, side: int, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from the start of LDS of every thread (0) or value (1)."""
    out = []
    for position in tv.positions(side):
        at = 0
        for extent, stride in zip(tv.tile, strides, strict=True):
            position, coordinate = divmod(position, extent)
            at += coordinate * stride
        out.append(at)
    return tuple(out)


def _accesses(tv: ThreadValues, strides: tuple[int, ...], size: int) -> Side:
    threads, values = _addresses(tv, 0, strides), _addresses(tv, 1, strides)
    holders: dict[int, int] = {}
    for value, at in enumerate(values):
        holders.setdefault(at, value)
    places = sorted(holders)
    width = LARGEST_ACCESS // size
    while width > 1:
        runs = [places[i : i + width] for i in range(0, len(places), width)]
        if all(run == list(range(run[0], run[0] + width)) and run[0] % width == 0 for run in runs) and not any(
            at % width for at in threads
        ):
            break
        width //= 2
    groups = tuple((places[i], tuple(holders[p] for p in places[i : i + width])) for i in range(0, len(places), width))
    return Side(groups, width)


# --------------------------------------------------------------------------- emission


def _as_thread_values(layout: Any, tile: tuple[int, ...]) -> ThreadValues:
    if isinstance(layout, ThreadValues):
        return layout
    if isinstance(layout, Tensor):
        return thread_values_of(layout)
    if isinstance(layout, Layout):
        return ThreadValues(layout, tile)
    raise TypeError("the target of a relayout is a thread-value layout (Layout or ThreadValues) or a fragment that has "
                    f"one, got {type(layout).__name__}")


def _source_of(fragment: Any, given: Any, modes: Any) -> ThreadValues:
    source = source_thread_values(fragment, given)
    return source if modes is None else source.permuted(tuple(modes))


def layout_conversion(fragment: Any, layout: Any, *, modes: Any = None, thread_values: Any = None,
                      dtype: Any = None) -> LayoutConversion:
    """What `convert_layout` with these arguments would do and cost; emits nothing.

    Instead of a fragment, a `ThreadValues` and the `dtype` of the values.
    """
    if isinstance(fragment, ThreadValues):
        fragment, thread_values = None, fragment
    if dtype is None and fragment is None:
        raise ValueError("layout_conversion of a thread-value layout needs the dtype of the values")
    source = _source_of(fragment, thread_values, modes)
    bits = bit_width(dtype if dtype is not None else fragment.dtype)
    return plan(source, _as_thread_values(layout, source.tile), bits, target_arch(), target_warp_size())


@dsl_loc_tracing
def convert_layout(fragment: Tensor, layout: Any, *, modes: Any = None, thread_values: Any = None) -> Tensor:
    """The elements of a fragment in another thread-value layout: a new register tensor.

    Args:
        fragment: register tensor. Every thread of the workgroup must take part.
        layout: the target: a static Layout (thread, value) -> position in the tile, a `ThreadValues`, or a fragment
            that has one. The result has the shape of its value mode.
        modes: mode i of the target's tile is the mode ``modes[i]`` of the fragment's, e.g. ``(1, 0)`` to use the
            accumulator of a transposed product as an operand.
        thread_values: that of the fragment, where it is not known.

    Returns:
        No instruction where the layouts agree; exchanges between lanes where every wave has what it needs; else
        through LDS, with two barriers. `layout_conversion` says which, and what it costs.

    Raises:
        ValueError: the layouts are of different tiles, the source lacks an element, or nothing is known about it.
    """
    source = _source_of(fragment, thread_values, modes)
    target = _as_thread_values(layout, source.tile)
    dtype: NumericMeta = fragment.dtype
    conversion = plan(source, target, dtype.width, target_arch(), target_warp_size())
    values = fragment.load()
    if values.numel != source.values:
        raise ValueError(f"{fragment} has {values.numel} values, its thread-value layout {source.values}")
    if conversion.through is not None:
        moved = _emit_through_lds(values, source, target, conversion)
    elif conversion.kind == "wave":
        check_participation(group_of([part.source for parts in conversion.words for part in parts]))
        moved = _emit_exchanges(values, target, conversion)
    else:
        moved = values.shuffle(values, [parts[0].values[0] for parts in conversion.words])
    result = make_rmem_tensor(target.value_shape, dtype)
    result.store(moved)
    return attach(result, target)


def _register_words(values: Any, picks: tuple[int, ...]) -> list[ir.Value]:
    """The registers (i32) of a word made of some values: one, or two of a 64-bit value."""
    bits = values.dtype.width
    if bits == 64:
        both = values.shuffle(values, picks).bitcast(Int32)
        return [both[i].ir_value() for i in range(2)]
    if len(picks) * bits == WORD:
        return [values.shuffle(values, picks).bitcast(Int32)[0].ir_value()]
    raw = values[picks[0]].ir_value()
    narrow = ir.IntegerType.get_signless(bits)
    return [arith.extui(ir.IntegerType.get_signless(WORD), raw if raw.type == narrow else arith.bitcast(narrow, raw))]


def _emit_exchanges(values: Any, target: ThreadValues, conversion: LayoutConversion) -> Any:
    wave = target_warp_size()
    words: dict[tuple[int, ...], list[ir.Value]] = {}
    out: list[ir.Value] = []
    for parts in conversion.words:
        result: list[ir.Value] = []
        for part in parts:
            if part.values not in words:
                words[part.values] = _register_words(values, part.values)
            moved = [find_exchange(part.source).emit(word) for word in words[part.values]]
            if not result:
                result = moved
                continue
            here = lanes_where([lane for lane, s in enumerate(part.source) if s is not None], wave)
            result = [choose(here, new, old) for new, old in zip(moved, result, strict=True)]
        out += result
    return _from_words(out, len(conversion.words[0][0].values), values.dtype, target.values)


def _from_words(words: list[ir.Value], together: int, dtype: Any, count: int) -> Any:
    """The vector of values whose registers are given."""
    from .._vector import Vector

    element, bits = dtype.ir_type, dtype.width
    if together * bits < WORD:
        narrow = ir.IntegerType.get_signless(bits)
        raw = [arith.trunci(narrow, word) for word in words]
        raw = [x if element == narrow else arith.bitcast(element, x) for x in raw]
        return Vector(vector.from_elements(ir.VectorType.get([count], element), raw), (count,), dtype)
    packed = vector.from_elements(ir.VectorType.get([len(words)], ir.IntegerType.get_signless(WORD)), words)
    return Vector(vector.bitcast(ir.VectorType.get([count], element), packed), (count,), dtype)


def thread_address(tv: ThreadValues, strides: tuple[int, ...], size: int) -> Any:
    """Byte offset of this thread's first element in a tile with these strides."""
    thread, at = coop._linear_thread(), Int32(0)
    for digit in tv.digits(tv.threads):  # as if all threads were one wave: LDS does not care
        if digit.where == "lane" and digit.mode is not None:
            at = at + _digit(digit, thread, tv) * (digit.step * strides[digit.mode] * size)
    return at


def _digit(digit: Digit, thread: Any, tv: ThreadValues) -> Any:
    """A digit of the linear index of a thread."""
    above = thread // digit.unit if digit.unit > 1 else thread
    return above if digit.unit * digit.extent == tv.threads else above % digit.extent


def writes_once(tv: ThreadValues) -> Any:
    """Whether this thread's wave is the first of those that hold the same elements."""
    thread, first = coop._linear_thread(), Boolean(True)
    for digit in tv.digits(tv.threads):
        if digit.where == "lane" and digit.mode is None and digit.unit * digit.extent > target_warp_size():
            first = first & (_digit(digit, thread, tv) == 0)
    return first


def check_workgroup(tv: ThreadValues) -> None:
    """ValueError unless the layout is of all threads of the workgroup, and all of them come here."""
    threads = math.prod(gpu.known_block_size())
    if threads != tv.threads:
        raise ValueError(f"an exchange through LDS takes the whole workgroup: it has {threads} threads, the "
                         f"thread-value layout {tv.threads}")
    check_participation()


def _emit_through_lds(values: Any, source: ThreadValues, target: ThreadValues, conversion: LayoutConversion) -> Any:
    from .._vector import Vector

    through = conversion.through
    assert through is not None
    dtype = values.dtype
    size = dtype.width // 8
    check_workgroup(source)
    base = scratch(conversion.lds_bytes)
    gpu.barrier()

    def write() -> None:
        at = thread_address(source, through.strides, size)
        for first, group in through.writes.groups:
            piece = values.shuffle(values, group)
            store(base, at + first * size, ir.Value(piece), len(group) * size)

    once = writes_once(source)
    if once.is_static():
        write()
    else:
        _flow.scf_if_dispatch(once, write)
    gpu.barrier()
    at = thread_address(target, through.strides, size)
    addresses = _addresses(target, 1, through.strides)
    read: dict[int, tuple[Any, int]] = {}
    for first, group in through.reads.groups:
        ty = ir.VectorType.get([len(group)], dtype.ir_type)
        piece = Vector(load(base, at + first * size, ty, len(group) * size), (len(group),), dtype)
        for i in range(len(group)):
            read[first + i] = piece, i
    elements = [read[address][0][read[address][1]] for address in addresses]
    return Vector.from_elements(elements, dtype)
