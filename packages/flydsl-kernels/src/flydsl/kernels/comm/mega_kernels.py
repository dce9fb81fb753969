"""The kernels of a mixture of experts whose experts are spread over ranks: transport within the products.

A step is the same launches on every rank, of tokens that have been quantised:

* *stage 1*: the first workgroup plans: it counts how many of this rank's rows each expert gets, and which of them every
  route is, and tells all ranks the counts. Everybody then knows every expert's rows: those of one expert follow each
  other, padded to blocks, by source and in the order of its count. No slot is taken by an atomic operation over a link,
  in any scheme. Then it opens the gate, which all other workgroups of the rank wait at. The next ones send rows, those
  of every rank's first expert first, and count them at their destination; the others compute tiles of gate and up, one
  after another, and wait until the rows of their expert, or block, have come. Workgroups start in the order of their
  numbers, and none waits for a later one of its rank, so that one can always go on.
* *stage 2*: tiles of down, times the routing weight, are stored where their token came from, while others compute.
* *combine*: the slots of a token are added up, in f32.

The name of a row is ``(rank * tokens + token) | slot << 24``, that of padding a token that is none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..moe.config import GroupedConfig
from ..moe.grouped import compute_tile
from ..moe.rows import TOKEN
from ..parts.convert import e8m0_value
from ..parts.index import cdiv, div, mod
from ..parts.indices import uniform
from ..parts.lane import lane_of
from ..parts.memory import WORDS, Buffer, pointer
from ..parts.reduce import Lds
from .mega_config import GROUP, MOST_WORKGROUPS, MegaExchange
from .peers import HEADER, Peers
from .system import DEVICE, SYSTEM, fence, load, store

__all__ = ["MegaStage1", "MegaStage2", "build_combine_quantised", "build_gemm1", "build_stage1", "build_stage2",
           "gemm1_kernel"]

CHUNK = 4  # rows that a wave sends between releases
THREADS = 512  # of a workgroup that combines
ELEMENTS = 8  # that a thread combines


@dataclass(frozen=True)
class MegaStage1:
    """Dispatch, and the product with gate and up, by at most `most` workgroups."""

    exchange: MegaExchange
    up: GroupedConfig
    most: int = MOST_WORKGROUPS

    def workgroups(self) -> int:
        """Of a launch: that which plans, those that send, and others for the tiles that there may be."""
        tiles = self.exchange.capacity // self.up.tile_m * self.up.columns
        return min(1 + self.exchange.producers + tiles, self.most)


@dataclass(frozen=True)
class MegaStage2:
    """The product with down, and the way back. A workgroup has every so many'th tile, or some that are `contiguous`."""

    exchange: MegaExchange
    down: GroupedConfig
    contiguous: bool = False


class Payload:
    """What lies where in the payloads of the ranks."""

    def __init__(self, peers: Peers, exchange: MegaExchange) -> None:
        self.peers, self.exchange, self._at = peers, exchange, exchange.places()

    def at(self, rank: Any, name: str, element: Any, offset: Any = 0) -> Any:
        """Pointer to a byte of an array."""
        return self.peers.base(rank, element, fx.Int64(offset) + (self._at[name] + HEADER))

    def counted(self, rank: Any, source: Any) -> Any:
        """The counts of a rank, in the memory of another one."""
        return self.at(rank, "counts", fx.Int32) + source * self.exchange.experts


class Origins:
    """Where results go: to the rank, the token and the slot of a row's name."""

    def __init__(self, payload: Payload) -> None:
        self._payload = payload

    def _start(self, name: Any) -> tuple[Any, Any]:
        exchange = self._payload.exchange
        origin = fx.min(name & TOKEN, exchange.origins - 1)  # of padding nothing is stored
        rank, token = div(origin, exchange.tokens), mod(origin, exchange.tokens)
        slot = fx.min((name >> 24) & 0xFF, exchange.topk - 1)
        return rank, fx.Int64(token * exchange.topk + slot) * exchange.sent_bytes

    def row(self, name: Any, element: Any) -> Any:
        """Pointer to the first column."""
        rank, start = self._start(name)
        return self._payload.at(rank, "combined", element, start)

    def scales(self, name: Any) -> Any:
        """Pointer to the first scale of a quantised row."""
        rank, start = self._start(name)
        return self._payload.at(rank, "combined", fx.Int8, start + self._payload.exchange.model)


# ------------------------------------------------------------------------------------------- who gets what


@flyc.jit
def _place(tensors, payload, rank, own, ends, order_ends, threads, exchange):
    """First rows, blocks and padding of the experts; all threads of the workgroup."""
    experts, local, block = exchange.experts, exchange.local, exchange.block
    for e in range(fx.thread_idx.x, fx.Int32(experts), threads):
        total = fx.Int32(0)
        for source in fx.range_constexpr(exchange.ranks):
            total = total + (payload.counted(rank, source) + e).load()
        (ends + e).store((total + (block - 1)) // block * block)
    fx.barrier()
    for e in range(fx.thread_idx.x, fx.Int32(experts), threads):
        dest, inside = div(e, local), mod(e, local)
        start, before, total, order = fx.Int32(0), fx.Int32(0), fx.Int32(0), fx.Int32(0)
        for other in range(dest * local, e):
            start = start + (ends + other).load()
        for source in fx.range_constexpr(exchange.ranks):
            count = (payload.counted(rank, source) + e).load()
            before = before + (source < rank).select(count, fx.Int32(0))
            total = total + count
        # Routes are sent by number of the expert on its rank, so that no rank waits for its first one.
        for other in range(fx.Int32(0), fx.Int32(experts)):
            key, mine = mod(other, local) * exchange.ranks + div(other, local), inside * exchange.ranks + dest
            order = order + (key < mine).select((own + other).load(), fx.Int32(0))
        (order_ends + e).store(order)
        (pointer(tensors["first"], fx.Int32) + e).store(start + before)
        if dest == rank:
            padded = (ends + e).load()
            for at in range(div(start, block), div(start + padded, block)):
                (pointer(tensors["experts"], fx.Int32) + at).store(inside)
            for at in range(start + total, start + padded):
                (payload.at(rank, "names", fx.Int32) + at).store(fx.Int32(TOKEN))
            if inside == local - 1:
                pointer(tensors["valid"], fx.Int32).store(start + padded)


@flyc.jit
def _counted(tensors, routes, own, threads, exchange):
    """``own[expert]``: how many routes of this rank go there; ``numbers[route]`` counts those to the same expert."""
    for e in range(fx.thread_idx.x, fx.Int32(exchange.experts), threads):
        (own + e).store(fx.Int32(0))
    fx.barrier()
    for route in range(fx.thread_idx.x, routes, threads):
        expert = (pointer(tensors["ids"], fx.Int32) + route).load()
        if (expert >= 0) & (expert < exchange.experts):
            number = fx.llvm.atomic_add(own + expert, fx.Int32(1), syncscope="workgroup")
            (pointer(tensors["numbers"], fx.Int32) + route).store(number)
    fx.barrier()


@flyc.jit
def _plan(peers, payload, tensors, rank, routes, memory, threads, exchange):
    """One workgroup: count, tell all ranks, compute where rows go and in which order, and open the gate."""
    experts = exchange.experts
    own, ends, order_ends = (memory.array(fx.Int32, experts).ptr for _ in range(3))
    _counted(tensors, routes, own, threads, exchange)
    for e in range(fx.thread_idx.x, fx.Int32(experts), threads):
        count = (own + e).load()
        for peer in fx.range_constexpr(exchange.ranks):
            (payload.counted(peer, rank) + e).store(count)
    for i in range(fx.thread_idx.x, fx.Int32(exchange.awaited * exchange.ranks), threads):
        (payload.at(rank, "arrived", fx.Int32) + i).store(fx.Int32(0))
    peers.meet()
    if peers.healthy():
        _place(tensors, payload, rank, own, ends, order_ends, threads, exchange)
        fx.barrier()
        for route in range(fx.thread_idx.x, routes, threads):
            expert = (pointer(tensors["ids"], fx.Int32) + route).load()
            if (expert >= 0) & (expert < experts):
                number = (pointer(tensors["numbers"], fx.Int32) + route).load()
                place = (order_ends + expert).load() + number
                (pointer(tensors["order"], fx.Int32) + place).store(route)
        if fx.thread_idx.x == 0:
            sent = fx.Int32(0)
            for e in range(fx.Int32(0), fx.Int32(experts)):
                sent = sent + (own + e).load()
            pointer(tensors["sent"], fx.Int32).store(sent)
    elif fx.thread_idx.x == 0:  # nothing is sent, computed or waited for
        pointer(tensors["sent"], fx.Int32).store(fx.Int32(0))
        pointer(tensors["valid"], fx.Int32).store(fx.Int32(0))
    fx.barrier()  # the stores of all waves
    if fx.thread_idx.x == 0:
        fence(fx.AtomicOrdering.Release, DEVICE)
        store(pointer(tensors["gate"], fx.Int32), fx.Int32(1), DEVICE)


@flyc.jit
def _pass_gate(tensors):
    """Wait until the rank's plan is there. It has a limit of its own, and comes whatever happens."""
    if fx.thread_idx.x == 0:
        gate = pointer(tensors["gate"], fx.Int32)
        is_open = load(gate, DEVICE)
        while is_open == 0:
            fx.rocdl.s_sleep(1)
            is_open = load(gate, DEVICE)
        fence(fx.AtomicOrdering.Acquire, DEVICE)
    fx.barrier()


# ------------------------------------------------------------------------------------------- stage 1


@flyc.jit
def _send(payload, tensors, rank, route, lane, exchange):
    """Copy the token of a route, with its scales, name and weight, to the rank of its expert."""
    expert = uniform((pointer(tensors["ids"], fx.Int32) + route).load())
    number = uniform((pointer(tensors["numbers"], fx.Int32) + route).load())
    row = uniform((pointer(tensors["first"], fx.Int32) + expert).load()) + number
    token, slot, dest = div(route, exchange.topk), mod(route, exchange.topk), div(expert, exchange.local)
    for name, source, nbytes in (("rows", "x", exchange.model), ("scales", "x_scale", exchange.model // GROUP)):
        words = nbytes // 4
        x = Buffer(tensors[source], fx.Int32, fx.Int64(token) * words, words)
        there = Buffer(payload.at(dest, name, fx.Int32, fx.Int64(row) * nbytes), fx.Int32, None, words)
        width = WORDS if words % WORDS == 0 else 1
        for at in range(lane * width, fx.Int32(words), exchange.target.wave * width):
            there.store(at, x.load(at, width))
    if lane == 0:
        (payload.at(dest, "names", fx.Int32) + row).store((rank * exchange.tokens + token) | (slot << 24))
        weight = (pointer(tensors["weights"], fx.Float32) + route).load()
        (payload.at(dest, "weights", fx.Float32) + row).store(weight)


@flyc.jit
def _dispatch(payload, tensors, rank, threads, exchange):
    """Send this rank's rows, those of the first experts first."""
    lane, waves = lane_of(exchange.target.wave, scalar=True), threads // exchange.target.wave
    sent = uniform(pointer(tensors["sent"], fx.Int32).load())
    order = pointer(tensors["order"], fx.Int32)
    first = ((fx.block_idx.x - 1) * waves + lane.wave) * CHUNK
    for begin in range(first, sent, exchange.producers * waves * CHUNK):
        for job in range(begin, fx.min(begin + CHUNK, sent)):
            _send(payload, tensors, rank, uniform((order + job).load()), lane.lane, exchange)
        fence(fx.AtomicOrdering.Release)
        if (lane.lane < CHUNK) & (begin + lane.lane < sent):
            route = (order + begin + lane.lane).load()
            expert = (pointer(tensors["ids"], fx.Int32) + route).load()
            dest, counted = div(expert, exchange.local), mod(expert, exchange.local)
            if fx.const_expr(exchange.by_block):
                number = (pointer(tensors["numbers"], fx.Int32) + route).load()
                counted = div((pointer(tensors["first"], fx.Int32) + expert).load() + number, exchange.block)
            arrived = payload.at(dest, "arrived", fx.Int32) + (counted * exchange.ranks + rank)
            fx.llvm.atomic_add(arrived, fx.Int32(1), syncscope=SYSTEM)


@flyc.jit
def _await_rows(peers, payload, tensors, rank, row, expert, exchange):
    """Wait until all rows of an expert have come, or those of its block `row` is in."""
    source, e = fx.min(fx.thread_idx.x, exchange.ranks - 1), rank * exchange.local + expert
    goal, counted = (payload.counted(rank, source) + e).load(), expert
    if fx.const_expr(exchange.by_block):
        counted = div(row, exchange.block)
        begin = (pointer(tensors["first"], fx.Int32) + e).load()  # of this rank's rows; those of others are beside them
        for other in fx.range_constexpr(exchange.ranks):
            count = (payload.counted(rank, other) + e).load()
            begin = begin + (other < source).select(count, fx.Int32(0)) - (other < rank).select(count, fx.Int32(0))
        start = counted * exchange.block
        goal = fx.min(begin + goal, start + exchange.block) - fx.max(begin, start)  # not above 0: none
    peers.wait_for(payload.at(rank, "arrived", fx.Int32) + counted * exchange.ranks, goal)


@flyc.kernel
def gemm1_kernel(tensors, rows: fx.Int32, up: fx.Constexpr):
    """Multiply rows that are here with gate and up."""
    row, column = div(fx.block_idx.x, up.columns) * up.tile_m, mod(fx.block_idx.x, up.columns) * up.tile_n
    if row < uniform(pointer(tensors["valid"], fx.Int32).load()):
        expert = uniform((pointer(tensors["experts"], fx.Int32) + div(row, up.tile_m)).load())
        compute_tile(tensors, rows, rows, row, expert, column, up)


@flyc.kernel
def stage1_kernel(tensors, bases, rank: fx.Int32, routes: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                  stage: fx.Constexpr):
    """Plan, send rows, and multiply those that come with gate and up."""
    exchange, up, memory = stage.exchange, stage.up, Lds()
    peers = Peers(bases, rank, exchange.ranks, signature, limit)
    payload = Payload(peers, exchange)
    if fx.block_idx.x == 0:
        _plan(peers, payload, tensors, rank, routes, memory, up.threads, exchange)
    elif fx.block_idx.x <= exchange.producers:
        _pass_gate(tensors)
        _dispatch(payload, tensors, rank, up.threads, exchange)
    else:
        _pass_gate(tensors)
        valid, senders = uniform(pointer(tensors["valid"], fx.Int32).load()), 1 + exchange.producers
        given = dict(tensors, x=payload.at(rank, "rows", fx.Int32), x_scale=payload.at(rank, "scales", fx.Int8),
                     rows=payload.at(rank, "names", fx.Int32), w=tensors["w1"], w_scale=tensors["w1_scale"],
                     out=tensors["inner"], out_scale=tensors["inner_scale"])
        for tile in range(fx.block_idx.x - senders, div(valid, up.tile_m) * up.columns, fx.grid_dim.x - senders):
            row, column = div(tile, up.columns) * up.tile_m, mod(tile, up.columns) * up.tile_n
            expert = uniform((pointer(tensors["experts"], fx.Int32) + div(row, exchange.block)).load())
            _await_rows(peers, payload, tensors, rank, row, expert, exchange)
            compute_tile(given, fx.Int32(exchange.origins), fx.Int32(exchange.capacity), row, expert, column, up,
                         memory)
            fx.barrier()  # the next tile uses the same LDS


# ------------------------------------------------------------------------------------------- stage 2


@flyc.kernel
def stage2_kernel(tensors, bases, rank: fx.Int32, signature: fx.Int32, limit: fx.Int32, stage: fx.Constexpr):
    """Multiply with down, and store the rows where they came from; a workgroup takes several tiles."""
    exchange, down = stage.exchange, stage.down
    peers = Peers(bases, rank, exchange.ranks, signature, limit)
    payload = Payload(peers, exchange)
    if (fx.block_idx.x == 0) & (fx.thread_idx.x == 0):
        pointer(tensors["gate"], fx.Int32).store(fx.Int32(0))  # for the next step
    valid = uniform(pointer(tensors["valid"], fx.Int32).load())
    given = dict(tensors, x=tensors["inner"], x_scale=tensors["inner_scale"], w=tensors["w2"],
                 w_scale=tensors["w2_scale"], rows=payload.at(rank, "names", fx.Int32),
                 weights=payload.at(rank, "weights", fx.Float32), out=Origins(payload))
    tiles = div(valid, down.tile_m) * down.columns
    first, behind, step = fx.block_idx.x, tiles, fx.grid_dim.x
    if fx.const_expr(stage.contiguous):
        share = fx.ceildiv(tiles, fx.grid_dim.x)
        first, behind, step = fx.block_idx.x * share, fx.min((fx.block_idx.x + 1) * share, tiles), fx.Int32(1)
    for tile in range(first, behind, step):
        row, column = div(tile, down.columns) * down.tile_m, mod(tile, down.columns) * down.tile_n
        expert = uniform((pointer(tensors["experts"], fx.Int32) + div(row, exchange.block)).load())
        compute_tile(given, fx.Int32(exchange.origins), fx.Int32(exchange.capacity), row, expert, column, down)
        fx.barrier()  # the next tile uses the same LDS
    peers.meet()  # all rows of this rank's tokens have come when all workgroups are behind it


@flyc.kernel
def combine_kernel(x, out, ids, exchange: fx.Constexpr):
    """Add up the quantised slots of a token, in f32 and in their order."""
    token, at = fx.block_idx.x, (fx.block_idx.y * THREADS + fx.thread_idx.x) * ELEMENTS
    chosen = Buffer(ids, fx.Int32, fx.Int64(token) * exchange.topk, exchange.topk)
    if at < exchange.model:
        total = fx.full(ELEMENTS, 0.0, fx.Float32)
        for slot in fx.range_constexpr(exchange.topk):
            expert = chosen.load(slot, 1)[0]
            row = Buffer(x, fx.Int8, fx.Int64(token * exchange.topk + slot) * exchange.sent_bytes, exchange.sent_bytes)
            scale = e8m0_value(row.load(exchange.model + div(at, GROUP), 1)[0].to(fx.Int32) & 0xFF)
            value = row.load(at, ELEMENTS).bitcast(exchange.target.fp8).to(fx.Float32) * scale
            exists = (expert >= 0) & (expert < exchange.experts)
            total = total + exists.select(value, fx.full(ELEMENTS, 0.0, fx.Float32))
        Buffer(out, fx.BFloat16, fx.Int64(token) * exchange.model, exchange.model).store(at, total.to(fx.BFloat16))


# ------------------------------------------------------------------------------------------- launchers


@functools.cache  # the configuration has the target
def build_gemm1(up: GroupedConfig) -> Any:
    """``launch(tensors, rows, stream=None)``: see :func:`flydsl.kernels.comm.mega.compile_gemm1`."""

    @flyc.jit
    def gemm1(tensors, rows: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        up.target.require_traced()
        if rows > 0:
            gemm1_kernel(tensors, rows, up).launch(
                grid=fx.ceildiv(rows, up.tile_m) * up.columns, block=up.threads, stream=stream)

    return gemm1


@functools.cache
def build_stage1(stage: MegaStage1) -> Any:
    """``launch(tensors, bases, rank, routes, signature, limit, stream=None)``.

    Read are ids i32 (routes,), weights f32 (routes,), x and x_scale (quantised tokens), w1, w1_scale, and gate i32
    (1,), which is zero, and which stage 2 sets to zero again. Written are numbers and order i32 (routes,), first i32
    (experts,), sent and valid i32 (1,), experts i32 (blocks,), and the sorted rows inner and inner_scale.
    """

    @flyc.jit
    def stage1(tensors, bases, rank: fx.Int32, routes: fx.Int32, signature: fx.Int32, limit: fx.Int32,
               stream: fx.Stream = fx.Stream(None)):
        stage.up.target.require_traced()
        stage1_kernel(tensors, bases, rank, routes, signature, limit, stage).launch(
            grid=stage.workgroups(), block=stage.up.threads, stream=stream)

    return stage1


@functools.cache
def build_stage2(stage: MegaStage2) -> Any:
    """``launch(tensors, bases, rank, signature, limit, stream=None)`` of experts, valid, gate, inner, inner_scale, w2
    and w2_scale; results are stored in the memory of the ranks."""

    @flyc.jit
    def stage2(tensors, bases, rank: fx.Int32, signature: fx.Int32, limit: fx.Int32,
               stream: fx.Stream = fx.Stream(None)):
        stage.down.target.require_traced()
        stage2_kernel(tensors, bases, rank, signature, limit, stage).launch(
            grid=stage.exchange.consumers, block=stage.down.threads, stream=stream)

    return stage2


@functools.cache
def build_combine_quantised(exchange: MegaExchange) -> Any:
    """``launch(x, out, ids, tokens, stream=None)``: out bf16 (tokens, model) of the quantised slots x (tokens * topk
    rows) whose expert, ids i32 (tokens, topk), there is."""

    @flyc.jit
    def combine(x, out, ids, tokens: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        exchange.target.require_traced()
        if tokens > 0:
            combine_kernel(x, out, ids, exchange).launch(
                grid=(tokens, cdiv(exchange.model, THREADS * ELEMENTS)), block=THREADS, stream=stream)

    return combine
