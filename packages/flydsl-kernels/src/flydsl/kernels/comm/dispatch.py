"""Kernels that bring tokens to the ranks of their experts, and the experts' results back.

Dispatch: a wave takes a token and one of its slots. A token goes once to a rank, whatever number of its experts are
there; a row of the destination is taken by an atomic operation on the counter there. What a rank has received lies in
its own memory, in an order that depends on timing; every row names where it comes from.

Combine: every received row goes back to the place of its token and sender in the sender's memory, where a second
launch adds up the rows of a token in the order of its slots, in f32.

Barriers are between the same workgroups of all ranks. That is enough where a launch ends between writing and reading:
it ends when all workgroups of all ranks have come to its barriers.
"""

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..moe.reduction import ReduceConfig, launch_reduce
from ..parts.convert import pack_fp4, scale_of, to_quantised, unpack
from ..parts.index import div
from ..parts.indices import uniform
from ..parts.lane import lane_of
from ..parts.memory import WORDS, Buffer
from ..parts.reduce import magnitude, wave_reduce
from .dispatch_config import SCALED, TransportConfig
from .peers import SHORT, Peers
from .system import DEVICE, SYSTEM

__all__ = ["build_combine", "build_combine_slots", "build_dispatch", "build_pack"]


def _none(condition: Any, wave: int) -> Any:
    """Whether a condition holds in no lane."""
    (found,) = wave_reduce([condition.select(fx.Int32(1), fx.Int32(0))], fx.max, wave)
    return uniform(found) == 0


class Memory:
    """What lies where in the payloads of the ranks."""

    def __init__(self, peers: Peers, config: TransportConfig) -> None:
        self.peers, self.config, self._at = peers, config, config.places()

    def words(self, rank: Any, name: str, row: Any, words: int) -> Buffer:
        """A row of `words` 32-bit words."""
        start = fx.Int64(self._at[name]) + fx.Int64(row) * (words * 4)
        return self.peers.payload(rank, fx.Int32, start, words)

    def counter(self, rank: Any, number: int = 0) -> Any:
        return self.peers.payload(rank, fx.Int32, self._at["counter"], 2).pointer + number


@flyc.jit
def _send_row(memory, tensors, source, token, taken, lane, config):
    """Copy a token and what belongs to it to a row that was taken on another rank."""
    dest, row = taken
    chunks = config.row_bytes // 16
    target = memory.words(dest, "rows", row, config.row_bytes // 4)
    tokens = fx.Int64(token) + 1
    x = Buffer(tensors["x"], fx.Int32, None, tokens * (config.row_bytes // 4))
    at = token * (config.row_bytes // 4)
    for chunk in range(lane, fx.Int32(chunks), config.target.wave):
        target.store(chunk * WORDS, x.load(at + chunk * WORDS, WORDS))
    if fx.const_expr(config.scale_bytes > 0):
        words = config.scale_bytes // 4
        scales = Buffer(tensors["scales"], fx.Int32, None, tokens * words)
        there = memory.words(dest, "scales", row, words)
        for word in range(lane, fx.Int32(words), config.target.wave):
            there.store(word, scales.load(token * words + word, 1))
    if lane < config.slots:
        for name in ("weights", "indices"):
            values = Buffer(tensors[name], fx.Int32, None, tokens * config.slots)
            memory.words(dest, name, row, config.slots).store(lane, values.load(token * config.slots + lane, 1))
    if lane == 0:
        memory.words(dest, "origin", row, 1).store_one(0, source * config.tokens + token)


@flyc.kernel
def dispatch_kernel(tensors, bases, rank: fx.Int32, count: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                    config: fx.Constexpr):
    """Send `count` tokens; ``map[token, slot]`` becomes ``rank of the row * received + row``, ``total[0]`` the rows
    that this rank has received."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    memory, lane, wave = Memory(peers, config), lane_of(config.target.wave, scalar=True), config.target.wave
    slots = Buffer(tensors["indices"], fx.Int32, None, count * config.slots)
    places = Buffer(tensors["map"], fx.Int32, None, count * config.slots)
    peers.meet()  # all ranks are done with what they received before
    first = fx.block_idx.x * config.waves + lane.wave
    for job in range(first, count * config.slots, fx.grid_dim.x * config.waves):
        token, slot = div(job, config.slots), job % config.slots
        own = (lane.lane < config.slots).select(slots.load(token * config.slots + lane.lane, 1)[0], fx.Int32(-1))
        ranks_of = (own >= 0).select(div(own, config.experts), fx.Int32(-1))
        expert = uniform(slots.load(job, 1)[0])
        dest = div(expert, config.experts)
        valid = (expert >= 0) & (expert < config.ranks * config.experts)
        first_there = _none((lane.lane < slot) & (ranks_of == dest), wave)
        place = fx.Int32(config.sentinel)
        if valid & first_there:
            row = fx.Int32(0)
            if lane.lane == 0:
                row = fx.llvm.atomic_add(memory.counter(dest), fx.Int32(1), syncscope=SYSTEM)
            row = uniform(row)
            if row < config.received:
                place = dest * config.received + row
                _send_row(memory, tensors, rank, token, (dest, row), lane.lane, config)
        if lane.lane == 0:
            places.store_one(job, place)
    peers.meet()
    _count(memory, tensors, rank, config)


@flyc.jit
def _count(memory, tensors, rank, config):
    """The last workgroup that is behind the barrier tells how much came, and resets the counters."""
    if fx.thread_idx.x == 0:
        done = fx.llvm.atomic_add(memory.counter(rank, 1), fx.Int32(1), syncscope=DEVICE,
                                  ordering=fx.AtomicOrdering.AcqRel)
        if done == fx.grid_dim.x - 1:
            taken = fx.llvm.atomic_xchg(memory.counter(rank), fx.Int32(0), syncscope=SYSTEM)
            fx.llvm.atomic_xchg(memory.counter(rank, 1), fx.Int32(0), syncscope=DEVICE)
            Buffer(tensors["total"], fx.Int32, None, 1).store_one(0, fx.min(taken, config.received))


@functools.cache  # the configuration has the target
def build_dispatch(config: TransportConfig) -> Any:
    """``launch(x, weights, indices, scales, map, total, bases, rank, count, signature, limit, stream=None)``.

    x (count, hidden) of contiguous rows, weights f32 and indices i32 (count, slots), scales bytes or None; map i32
    (count, slots) and total i32 (1,) are written.
    """

    @flyc.jit
    def dispatch(x, weights, indices, scales, map, total, bases, rank: fx.Int32, count: fx.Int32,
                 signature: fx.Int32, limit: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        tensors = dict(x=x, weights=weights, indices=indices, scales=scales, map=map, total=total)
        dispatch_kernel(tensors, bases, rank, count, signature, limit, config).launch(
            grid=config.blocks, block=config.threads, stream=stream)

    return dispatch


# ------------------------------------------------------------------------------------------- packed by expert


@flyc.kernel
def pack_kernel(tensors, rank: fx.Int32, config: fx.Constexpr):
    """Copy received rows to the places of their local experts: ``slot_map[row, slot]`` is the place, or -1. Slots of a
    token that name the same expert share a place, so that an expert has no more rows than there are tokens."""
    lane, wave = lane_of(config.target.wave, scalar=True), config.target.wave
    words = config.row_bytes // 4
    total = uniform(Buffer(tensors["total"], fx.Int32, None, 1).load(0, 1)[0])
    indices = Buffer(tensors["indices"], fx.Int32, None, total * config.slots)
    slot_map = Buffer(tensors["slot_map"], fx.Int32, None, total * config.slots)
    for job in range(fx.block_idx.x * config.waves + lane.wave, total * config.slots, fx.grid_dim.x * config.waves):
        row, slot = div(job, config.slots), job % config.slots
        number = uniform(indices.load(job, 1)[0])
        expert = number - rank * config.experts
        same = (lane.lane < config.slots) & (indices.load(row * config.slots + lane.lane, 1)[0] == number)
        if (expert < 0) | (expert >= config.experts):
            if lane.lane == 0:
                slot_map.store_one(job, fx.Int32(-1))
        elif _none(same & (lane.lane < slot), wave):
            at = fx.Int32(0)
            if lane.lane == 0:
                counts = Buffer(tensors["counts"], fx.Int32, None, config.experts)
                at = fx.llvm.atomic_add(counts.pointer + expert, fx.Int32(1), syncscope=DEVICE)
            place = expert * config.capacity + uniform(at)
            source = Buffer(tensors["rows"], fx.Int32, fx.Int64(row) * words, words)
            target = Buffer(tensors["packed"], fx.Int32, fx.Int64(place) * words, words)
            for chunk in range(lane.lane, fx.Int32(words // WORDS), wave):
                target.store(chunk * WORDS, source.load(chunk * WORDS, WORDS))
            if lane.lane == 0:
                origin = Buffer(tensors["origin"], fx.Int32, None, total).load(row, 1)[0]
                Buffer(tensors["origins"], fx.Int32, fx.Int64(place), 1).store_one(0, origin)
            if same:
                slot_map.store_one(row * config.slots + lane.lane, place)


@functools.cache
def build_pack(config: TransportConfig) -> Any:
    """``launch(rows, indices, origin, total, packed, counts, origins, slot_map, rank, stream=None)``: `counts` zero."""

    @flyc.jit
    def pack(rows, indices, origin, total, packed, counts, origins, slot_map, rank: fx.Int32,
             stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        tensors = dict(rows=rows, indices=indices, origin=origin, total=total, packed=packed, counts=counts,
                       origins=origins, slot_map=slot_map)
        pack_kernel(tensors, rank, config).launch(grid=config.blocks, block=config.threads, stream=stream)

    return pack


# ------------------------------------------------------------------------------------------- combine


def _decoded(words: Any, config: TransportConfig) -> Any:
    """f32 of a lane's elements in 32-bit words."""
    if config.out == "fp4":
        return unpack(words, "fp4")
    if config.out == "fp8":
        return words.bitcast(config.target.fp8).to(fx.Float32)
    return words.bitcast(FLOATS[config.out]).to(fx.Float32)


def _encoded(x: Any, config: TransportConfig) -> Any:
    if config.out == "fp4":
        return fx.Vector.from_elements([pack_fp4([x[i] for i in range(config.elements)])], fx.Int32)
    if config.out == "fp8":
        return to_quantised(x, "fp8", "nearest", config.target).bitcast(fx.Int32)
    return x.to(FLOATS[config.out]).bitcast(fx.Int32)


def _out_words(config: TransportConfig) -> int:
    """32-bit words of a lane's combined elements."""
    return config.out_bytes * config.elements // config.hidden // 4


@flyc.jit
def _weighted(tensors, row, chunk, config):
    """A lane's elements of a received row: the sum over its local experts of the packed rows times their weights."""
    words = _out_words(config)
    total = fx.full(config.elements, 0.0, fx.Float32)
    for slot in fx.range_constexpr(config.slots):
        at = row * config.slots + slot
        place = Buffer(tensors["slot_map"], fx.Int32, fx.Int64(at), 1).load(0, 1)[0]
        weight = Buffer(tensors["weights"], fx.Float32, fx.Int64(at), 1).load(0, 1)[0]
        here = (place >= 0).select(place, fx.Int32(0))
        values = Buffer(tensors["input"], fx.Int32, fx.Int64(here) * (config.out_bytes // 4), config.out_bytes // 4)
        total = total + _decoded(values.load(chunk * words, words), config) * (place >= 0).select(weight, 0.0)
    return total


@flyc.jit
def _put(there, chunk, x, config):
    """A lane's elements of a row in the form in which it travels."""
    if fx.const_expr(config.transport == "none"):
        there.store(chunk * _out_words(config), _encoded(x, config))
    else:
        scale = fx.Float32(1.0)
        if fx.const_expr(config.transport == "fp8_blockwise"):
            lanes = SCALED // config.elements
            (top,) = wave_reduce([magnitude(x).reduce("max")], fx.max, lanes)
            scale = scale_of(top.bitcast(fx.Float32), "fp8", config.target)
            if chunk % lanes == 0:
                there.store(config.hidden // 4 + chunk // lanes,
                            fx.Vector.from_elements([scale.bitcast(fx.Int32)], fx.Int32))
        codes = to_quantised(x * (1.0 / scale), "fp8", "nearest", config.target)
        there.store(chunk * (config.elements // 4), codes.bitcast(fx.Int32))


def _got(row: Buffer, chunk: Any, config: TransportConfig) -> Any:
    """f32 of a lane's elements of a row that has travelled."""
    if config.transport == "none":
        return _decoded(row.load(chunk * _out_words(config), _out_words(config)), config)
    codes = row.load(chunk * (config.elements // 4), config.elements // 4)
    x = codes.bitcast(config.target.fp8).to(fx.Float32)
    if config.transport == "fp8_blockwise":
        x = x * row.load(config.hidden // 4 + chunk // (SCALED // config.elements), 1).bitcast(fx.Float32)[0]
    return x


@flyc.kernel
def return_kernel(tensors, bases, rank: fx.Int32, rows: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                  config: fx.Constexpr):
    """Send every received row, and its weights, to where its token came from. There are `rows` of both; fewer than were
    received fail the call on all ranks."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    memory, lane = Memory(peers, config), lane_of(config.target.wave, scalar=True)
    total = uniform(Buffer(tensors["total"], fx.Int32, None, 1).load(0, 1)[0])
    words, chunks = _out_words(config), config.hidden // config.elements
    peers.meet()  # the origins are done with what was combined before
    if (rows < total) & (fx.thread_idx.x == 0):
        peers.failed(SHORT, rank)
    for row in range(fx.block_idx.x * config.waves + lane.wave, fx.min(total, rows), fx.grid_dim.x * config.waves):
        origin = uniform(memory.words(rank, "origin", row, 1).load(0, 1)[0])
        origin = fx.max(fx.min(origin, config.ranks * config.tokens - 1), 0)  # of a rank that has failed: anything
        dest, at = div(origin, config.tokens), rank * config.tokens + origin % config.tokens
        if fx.const_expr(not config.zero_copy):
            there = memory.words(dest, "combined", at, config.sent_bytes // 4)
            own = Buffer(tensors["input"], fx.Int32, fx.Int64(row) * (config.out_bytes // 4), config.out_bytes // 4)
            for chunk in range(lane.lane, fx.Int32(chunks), config.target.wave):
                if fx.const_expr(config.packed):
                    _put(there, chunk, _weighted(tensors, row, chunk, config), config)
                elif fx.const_expr(config.transport == "none"):
                    there.store(chunk * words, own.load(chunk * words, words))
                else:
                    _put(there, chunk, _decoded(own.load(chunk * words, words), config), config)
        if lane.lane < config.slots:
            weights = Buffer(tensors["weights"], fx.Int32, fx.Int64(row) * config.slots, config.slots)
            memory.words(dest, "combined_weights", at, config.slots).store(lane.lane, weights.load(lane.lane, 1))
    peers.meet()


@flyc.kernel
def sum_kernel(tensors, bases, rank: fx.Int32, count: fx.Int32, signature: fx.Int32, limit: fx.Int32,
               config: fx.Constexpr):
    """Add up what came back of every token, in the order of its slots, in f32."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    memory, lane = Memory(peers, config), lane_of(config.target.wave, scalar=True)
    words, chunks = _out_words(config), config.hidden // config.elements
    for token in range(fx.block_idx.x * config.waves + lane.wave, count, fx.grid_dim.x * config.waves):
        places = Buffer(tensors["map"], fx.Int32, fx.Int64(token) * config.slots, config.slots)
        found = [uniform(places.load(slot, 1)[0]) for slot in fx.range_constexpr(config.slots)]
        sources = [div(place, config.received) for place in found]
        exists = [place < config.sentinel for place in found]
        kept = [e.select(s, rank) for e, s in zip(exists, sources, strict=True)]
        inside = [e.select(p % config.received, fx.Int32(0)) for e, p in zip(exists, found, strict=True)]
        if fx.const_expr(config.zero_copy):
            rows = [memory.words(s, "registered", i, config.out_bytes // 4)
                    for s, i in zip(kept, inside, strict=True)]
        else:
            rows = [memory.words(rank, "combined", s * config.tokens + token, config.sent_bytes // 4) for s in kept]
        out = Buffer(tensors["out"], fx.Int32, fx.Int64(token) * (config.out_bytes // 4), config.out_bytes // 4)
        for chunk in range(lane.lane, fx.Int32(chunks), config.target.wave):
            total = fx.full(config.elements, 0.0, fx.Float32)
            for slot in fx.range_constexpr(config.slots):
                value = _got(rows[slot], chunk, config)
                total = total + exists[slot].select(value, fx.full(config.elements, 0.0, fx.Float32))
            out.store(chunk * words, _encoded(total, config))
        if lane.lane < config.slots:
            weight = fx.Float32(0.0)
            for slot in fx.range_constexpr(config.slots):
                came = memory.words(rank, "combined_weights", kept[slot] * config.tokens + token, config.slots)
                one = came.load(lane.lane, 1).bitcast(fx.Float32)[0]
                weight = weight + exists[slot].select(one, fx.Float32(0.0))
            Buffer(tensors["out_weights"], fx.Float32, fx.Int64(token) * config.slots, config.slots).store_one(
                lane.lane, weight)
    peers.meet()  # nobody reads this rank's registered buffer any more


@functools.cache
def build_combine(config: TransportConfig) -> Any:
    """``launch(input, weights, slot_map, total, map, out, out_weights, bases, rank, rows, count, signature, limit,
    stream=None)``.

    input: rows as they were received, or with `packed` by expert; weights f32 (rows, slots); `rows` of both, at least
    the received ones; slot_map of :func:`build_pack`; map of the dispatch; out (count, hidden) and out_weights f32
    (count, slots) are written.
    """

    @flyc.jit
    def combine(input, weights, slot_map, total, map, out, out_weights, bases, rank: fx.Int32, rows: fx.Int32,
                count: fx.Int32, signature: fx.Int32, limit: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        tensors = dict(input=input, weights=weights, slot_map=slot_map, total=total, map=map, out=out,
                       out_weights=out_weights)
        return_kernel(tensors, bases, rank, rows, signature, limit, config).launch(
            grid=config.blocks, block=config.threads, stream=stream)
        sum_kernel(tensors, bases, rank, count, signature, limit, config).launch(
            grid=config.blocks, block=config.threads, stream=stream)

    return combine


@functools.cache
def build_combine_slots(config: ReduceConfig) -> Any:
    """``launch(x, out, ids, tokens, stream=None)``: out (tokens, n) of the slots x (tokens * topk, n) whose expert, ids
    i32 (tokens, topk), there is."""

    @flyc.jit
    def combine_slots(x, out, ids, tokens: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        if tokens > 0:
            launch_reduce(dict(x=x, y=out, ids=ids), tokens, config, stream)

    return combine_slots
