"""Reductions, scans and broadcasts of a fragment along a mode of its tile.

The thread-value layout of a fragment says where the elements along a mode are: in the values of a thread, in lanes, in
waves. Each of these *digits* is combined where it is: values by instructions, lanes by the cheapest exchange
(`lanes`), waves through LDS.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import flydsl.layout as algebra
from flydsl._mlir import ir
from flydsl.tracing.lazy import arith
from flydsl.tracing.locations import dsl_loc_tracing

from .. import coop, gpu
from .._functions import functions
from .._participation import check_participation
from .._target import target_arch, target_warp_size
from .._vector import Vector
from ..derived import make_rmem_tensor
from ..numeric import Int32
from ..values.tensor import Tensor
from .lanes import SourceMap, find_exchange, half_swap, has_half_swap, lanes_where
from .ownership import Digit, ThreadValues, attach, known_thread_values, source_thread_values
from .ownership import thread_values as thread_values_of
from .relayout import check_workgroup
from .scratch import load, scratch, store

# --------------------------------------------------------------------------- scalars in registers


def _bits(value: Any) -> ir.Value:
    """A scalar of up to 32 bits as i32."""
    raw, width = value.ir_value(), value.dtype.width
    narrow = ir.IntegerType.get_signless(width)
    raw = raw if raw.type == narrow else arith.bitcast(narrow, raw)
    return raw if width == 32 else arith.extui(ir.IntegerType.get_signless(32), raw)


def _scalar(bits: ir.Value, dtype: Any) -> Any:
    narrow = ir.IntegerType.get_signless(dtype.width)
    raw = bits if dtype.width == 32 else arith.trunci(narrow, bits)
    return dtype._wrap(raw if dtype.ir_type == narrow else arith.bitcast(dtype.ir_type, raw))


def _exchanged(value: Any, source: SourceMap) -> Any:
    """A scalar from the lane that the map names."""
    if value.dtype.width == 64:
        halves = Vector.from_elements([value]).bitcast(Int32)
        moved = [find_exchange(source).emit(halves[i].ir_value()) for i in range(2)]
        return Vector.from_elements([Int32(m) for m in moved], Int32).bitcast(value.dtype)[0]
    return _scalar(find_exchange(source).emit(_bits(value)), value.dtype)


# --------------------------------------------------------------------------- digits of a mode


def _mode_digits(tv: ThreadValues, mode: int) -> list[Digit]:
    """The digits along a mode, fastest first; ValueError unless they count through it once."""
    if not 0 <= mode < len(tv.tile):
        raise ValueError(f"the tile {tv.tile} has no mode {mode}")
    digits = sorted((d for d in tv.digits(target_warp_size()) if d.mode == mode), key=lambda d: d.step)
    size = 1
    for digit in digits:
        if digit.step != size:
            break
        size *= digit.extent
    else:
        if size == tv.tile[mode]:
            return digits
    raise ValueError(f"the values of {tv} do not count through mode {mode} of the tile once")


def _check_lanes(digits: list[Digit]) -> None:
    """ValueError if lanes that these digits span are known to be left out here."""
    reach = max((d.unit * d.extent for d in digits if d.where == "lane"), default=1)
    if reach > 1:
        check_participation(1 << (reach - 1).bit_length())


def _checked(fragment: Any, given: Any) -> tuple[ThreadValues, list[Any]]:
    """The layout and the values of a fragment."""
    tv = source_thread_values(fragment, given)
    values = fragment.load()
    if values.numel != tv.values:
        raise ValueError(f"{fragment} has {values.numel} values, its thread-value layout {tv.values}")
    return tv, [values[i] for i in range(tv.values)]


def _reduced(tv: ThreadValues, mode: int) -> tuple[ThreadValues, list[int]]:
    """The layout without a mode (of extent 1 then), and for each value the value of the result that it belongs to."""
    size, below = tv.tile[mode], math.prod(tv.tile[:mode])
    tile = (*tv.tile[:mode], 1, *tv.tile[mode + 1 :])

    def position(p: int) -> int:
        return p % below + p // (below * size) * below

    digits = tv.digits(target_warp_size())
    values = [d for d in digits if d.where == "value" and d.mode != mode]
    shape = tuple(d.extent for d in values) or (1,)
    room = [math.prod(tile[:m]) for m in range(len(tile))]
    stride = tuple(0 if d.mode is None else d.step * room[d.mode] for d in values) or (0,)
    threads = tv.leaves(0)
    thread_shape: list[int] = []
    thread_stride: list[int] = []
    for extent, at in threads:
        # A leaf mode may run from one mode of the tile into the next: `digits` splits it, so does this.
        while extent > 1:
            step = position(at) if at else 0
            count = next((n for n in range(extent, 0, -1) if extent % n == 0 and
                          all(position(i * at) == i * step for i in range(n))), 1)
            thread_shape.append(count)
            thread_stride.append(step)
            extent, at = extent // count, at * count
    kept = []
    for index in range(tv.values):
        unit, result = 1, 0
        for d in values:
            result += d.of(index) * unit
            unit *= d.extent
        kept.append(result)
    layout = algebra.Layout((tuple(thread_shape) or (1,), shape), (tuple(thread_stride) or (0,), stride))
    return ThreadValues(layout, tile), kept


@functools.lru_cache(maxsize=256)
def _reduced_shape(shape: Any, kept: tuple[int, ...]) -> Any:
    """The shape of a fragment without what was reduced: `kept` names the value of the result for each of its values.

    Modes that were combined have extent 1, so that the vector of the result is broadcast over that of the fragment.
    None where a mode holds parts of a step of the layout, which no shape of these modes says.
    """
    coordinates: list[list[int]] = []  # of the result, by that of the fragment, for each leaf
    unit = 1

    def smaller(mode: Any) -> Any:
        nonlocal unit
        if isinstance(mode, tuple):
            return tuple(smaller(m) for m in mode)
        values = [kept[i * unit] for i in range(mode)]
        unit *= mode
        found = sorted(set(values))
        coordinates.append([found.index(v) for v in values])
        return len(found)

    result = smaller(shape)
    places = [0]
    room = 1
    for leaf in coordinates:
        places = [place + at * room for at in leaf for place in places]
        room *= max(leaf) + 1
    return result if tuple(places) == kept else None


def _fragment(elements: list[Any], tv: ThreadValues, dtype: Any, shape: Any = None) -> Tensor:
    result = make_rmem_tensor(tv.value_shape if shape is None else shape, dtype)
    result.store(Vector.from_elements(elements, dtype))
    return attach(result, tv)


# --------------------------------------------------------------------------- reductions


def _over_lanes(value: Any, op: Any, digit: Digit) -> Any:
    """Combination over a lane digit, in every lane."""
    wave, arch = target_warp_size(), target_arch()
    if digit.extent & (digit.extent - 1) or digit.unit & (digit.unit - 1):
        total = value
        for step in range(1, digit.extent):
            turn = tuple(_moved(lane, digit, step, True) for lane in range(wave))
            total = coop.combine(op, total, _exchanged(value, turn))
        return total
    step = digit.unit
    while step < digit.unit * digit.extent:
        if value.dtype.width <= 32 and has_half_swap(arch, step):
            low, high = half_swap(_bits(value), step)
            value = coop.combine(op, _scalar(low, value.dtype), _scalar(high, value.dtype))
        else:
            value = coop.combine(op, value, _exchanged(value, _partner(step, digit.unit, wave, arch)))
        step *= 2
    return value


@functools.lru_cache(maxsize=256)
def _partner(step: int, unit: int, wave: int, arch: str) -> SourceMap:
    """The map of a butterfly step: any lane of the other half will do, as all lanes of a half agree by now."""
    agreed = step - unit  # the bits over which the value has been combined
    maps = [tuple(lane ^ step ^ (agreed & other) for lane in range(wave)) for other in {0, agreed}]
    return min(maps, key=lambda m: find_exchange(m, arch).cost)


def _moved(lane: int, digit: Digit, step: int, around: bool) -> int | None:
    """The lane `step` before in a digit; None (or from its end, `around`) where there is none."""
    at = digit.of(lane)
    if at < step and not around:
        return None
    return lane + ((at - step) % digit.extent - at) * digit.unit


def _wave_digit(digit: Digit) -> Any:
    """A wave digit of this thread."""
    return coop._linear_thread() // (digit.unit * target_warp_size()) % digit.extent


def _wave_shares(values: list[Any], digit: Digit) -> list[list[Any]]:
    """For every step of a wave digit the values of the thread there."""
    dtype = values[0].dtype
    size, threads = dtype.width // 8, math.prod(gpu.known_block_size())
    base = scratch(threads * len(values) * size)
    thread = coop._linear_thread()
    unit = digit.unit * target_warp_size()
    first = thread - _wave_digit(digit) * unit
    gpu.barrier()
    for i, value in enumerate(values):
        store(base, (thread + i * threads) * size, value.ir_value(), size)
    gpu.barrier()
    return [[dtype._wrap(load(base, (first + (step * unit + i * threads)) * size, dtype.ir_type, size))
             for i in range(len(values))] for step in range(digit.extent)]


@dsl_loc_tracing
def reduce(fragment: Tensor, mode: int, op: Any, *, thread_values: ThreadValues | None = None) -> Tensor:
    """Combine the elements of a fragment along a mode of its tile, over values, lanes and waves.

    Args:
        fragment: register tensor with a known thread-value layout. Every thread of the workgroup takes part.
        mode: of the tile, e.g. 1 to combine the columns of each row.
        op: a `ReductionOp` or its name. The order of float additions is not specified; MAX and MIN as in
            ``Vector.reduce``.
        thread_values: the layout of the fragment, where it is not known.

    Returns:
        A fragment of the tile with extent 1 along the mode: each thread has one value for every different element
        that its values were combined to. It keeps the modes of the fragment, those that were combined with extent 1
        (``((4,1),2,2)`` becomes ``((4,1),2,1)`` by its columns), so that ``fragment.load() - result.load()`` is the
        broadcast that it looks like. Where one mode of registers runs through both modes of the tile, they are flat,
        and `broadcast_to` spreads the values over the fragment.

    Raises:
        ValueError: the thread-value layout is not known, or does not count through the mode once.
    """
    tv, elements = _checked(fragment, thread_values)
    digits = _mode_digits(tv, mode)
    _check_lanes(digits)
    result_tv, kept = _reduced(tv, mode)
    groups: list[list[Any]] = [[] for _ in range(result_tv.values)]
    for element, group in zip(elements, kept, strict=True):
        groups[group].append(element)
    results = [functools.reduce(functools.partial(coop.combine, op), group) for group in groups]
    for digit in digits:
        if digit.where == "lane":
            results = [_over_lanes(value, op, digit) for value in results]
    for digit in digits:
        if digit.where == "wave":
            check_workgroup(tv)
            shares = _wave_shares(results, digit)
            results = [functools.reduce(functools.partial(coop.combine, op), column)
                       for column in zip(*shares, strict=True)]
    return _fragment(results, result_tv, fragment.dtype, _reduced_shape(fragment.shape.to_py_value(), tuple(kept)))


# --------------------------------------------------------------------------- scans


@dsl_loc_tracing
def scan(fragment: Tensor, mode: int, op: Any, *, exclusive: bool = False,
         thread_values: ThreadValues | None = None) -> Tensor:
    """Running combination along a mode of the tile, in the order of its coordinates; a fragment like the argument.

    Element i of the mode becomes the combination of the elements up to i; with `exclusive` of those before i, and the
    identity of the operation for the first. Arguments and errors otherwise as of `reduce`.
    """
    tv, elements = _checked(fragment, thread_values)
    digits = _mode_digits(tv, mode)
    _check_lanes(digits)
    start = coop.identity(op, fragment.dtype)
    running = [start] * len(elements) if exclusive else list(elements)
    totals = list(elements)  # of the block of elements that the digits so far span
    combine = functools.partial(coop.combine, op)
    for digit in digits:
        if digit.where == "value":
            running, totals = _scan_values(running, totals, digit, combine)
        else:
            if digit.where == "wave":
                check_workgroup(tv)
            before = _before_waves if digit.where == "wave" else _before_lanes
            # Values of a block share its total: each is exchanged once.
            unique = {id(total): total for total in totals}
            found = dict(zip(unique, before(list(unique.values()), digit, combine, start), strict=True))
            running = [combine(found[id(t)][0], r) for r, t in zip(running, totals, strict=True)]
            totals = [found[id(t)][1] for t in totals]
    return _fragment(running, tv, fragment.dtype, fragment.shape.to_py_value())


def _scan_values(running: list[Any], totals: list[Any], digit: Digit, combine: Any) -> tuple[list[Any], list[Any]]:
    """One more digit that lies in the values of a thread."""
    running, new_totals = list(running), list(totals)
    made: dict[tuple[int, ...], list[Any]] = {}
    for index in range(len(totals)):
        if digit.of(index):
            continue
        members = [index + step * digit.unit for step in range(digit.extent)]
        key = tuple(id(totals[m]) for m in members)
        if key not in made:
            made[key] = list(itertools.accumulate((totals[m] for m in members), combine))
        prefixes = made[key]
        for step, member in enumerate(members):
            if step:
                running[member] = combine(prefixes[step - 1], running[member])
            new_totals[member] = prefixes[-1]
    return running, new_totals


def _before_lanes(totals: list[Any], digit: Digit, combine: Any, start: Any) -> list[tuple[Any, Any]]:
    """(combination of the lanes before, of all lanes) of a digit, for each value."""
    wave = target_warp_size()
    out = []
    for value in totals:
        step = 1
        while step < digit.extent:
            source = tuple(_moved(lane, digit, step, False) for lane in range(wave))
            has_source = lanes_where([lane for lane, s in enumerate(source) if s is not None], wave)
            value = has_source.select(combine(_exchanged(value, source), value), value)
            step *= 2
        before = tuple(_moved(lane, digit, 1, False) for lane in range(wave))
        last = tuple(lane + (digit.extent - 1 - digit.of(lane)) * digit.unit for lane in range(wave))
        first = lanes_where([lane for lane in range(wave) if digit.of(lane) == 0], wave)
        out.append((first.select(start, _exchanged(value, before)), _exchanged(value, last)))
    return out


def _before_waves(totals: list[Any], digit: Digit, combine: Any, start: Any) -> list[tuple[Any, Any]]:
    """The same for a digit of waves."""
    mine = _wave_digit(digit)
    out = []
    for shares in zip(*_wave_shares(totals, digit), strict=True):
        prefix = start
        for step, share in enumerate(shares[:-1]):
            prefix = (mine > step).select(combine(prefix, share), prefix)
        out.append((prefix, functools.reduce(combine, shares)))
    return out


# --------------------------------------------------------------------------- broadcasts


@dsl_loc_tracing
def broadcast_to(fragment: Tensor, like: Any, *, thread_values: ThreadValues | None = None) -> Vector:
    """The values of a fragment with modes of extent 1 (from `reduce`), in the order of the values of `like`.

    Args:
        fragment: of a tile with as many modes as that of `like`, of equal extents or 1.
        like: a fragment, or a ThreadValues. thread_values: the layout of `fragment`, where it is not known.

    Returns:
        A vector with the shape of ``like.load()``; no instruction.

    Raises:
        ValueError: the tiles do not fit, or a thread lacks a value: then `convert_layout` first.
    """
    source, elements = _checked(fragment, thread_values)
    target = like if isinstance(like, ThreadValues) else thread_values_of(like)
    order = _broadcast_order(source, target)
    vector = Vector.from_elements([elements[i] for i in order], fragment.dtype)
    shape = target.value_shape if isinstance(like, ThreadValues) else like.shape.to_py_value()
    return Vector(vector.ir_value(), shape, fragment.dtype, order="colex")


@functions.announce
def broadcast_problem(fragment: Tensor, like: Tensor, mask: list[int]) -> str:
    """What is wrong with combining the values of two fragments lane by lane, `mask` naming the lane of `fragment` for
    each of `like`; "" if these are of the same elements, or that is not known."""
    source, target = known_thread_values(fragment), known_thread_values(like)
    if source is None or target is None or source.threads != target.threads or len(mask) != target.values:
        return ""
    if len(source.tile) != len(target.tile) or any(s not in (1, t)
                                                   for s, t in zip(source.tile, target.tile, strict=True)):
        return ""
    try:
        right = _broadcast_order(source, target)
    except ValueError:
        right = []
    places = source.positions(1)
    if max(mask) >= len(places) or [places[i] for i in right] == [places[i] for i in mask]:
        return ""
    return (f"modes are matched from the last one, so values of a fragment of the tile {source.tile} would meet those "
            f"of other elements of the tile {target.tile}; fx.broadcast_to(small, like) gives the order of `like`")


@functools.lru_cache(maxsize=256)
def _broadcast_order(source: ThreadValues, target: ThreadValues) -> list[int]:
    fits = len(source.tile) == len(target.tile) and all(s in (1, t) for s, t in
                                                        zip(source.tile, target.tile, strict=True))
    if not fits or source.threads != target.threads:
        raise ValueError(f"values of a tile {source.tile} and {source.threads} threads cannot be broadcast to a tile "
                         f"{target.tile} and {target.threads} threads")

    def restricted(position: int) -> int:
        out, room = 0, 1
        for own, extent in zip(source.tile, target.tile, strict=True):
            position, coordinate = divmod(position, extent)
            if own > 1:
                out += coordinate * room
            room *= own
        return out

    order: list[int] = []
    own_threads, own_values = source.positions(0), source.positions(1)
    threads = [restricted(p) for p in target.positions(0)]
    places = {p: i for i, p in reversed(list(enumerate(own_values)))}
    for position in (restricted(p) for p in target.positions(1)):
        found = {places.get(t + position - o) for t, o in zip(threads, own_threads, strict=True)}
        if len(found) != 1 or None in found:
            raise ValueError(f"the threads of {target} do not hold the values that they need of {source}: bring them "
                             "there with convert_layout")
        order.append(found.pop())  # type: ignore[arg-type]
    return order
