"""All-reduce, reduce-scatter, all-gather and all-to-all: one kernel, which publishes, meets the others and reads them.

Every rank copies its operand to its shared memory; after a barrier it reads what it needs of the peers' and adds it up
in the order of the ranks, so that all ranks have the same bits. Workgroup b of a rank reads what the workgroups b of
the others published, so the barrier is between these only. The last barrier keeps the next call from overwriting what
a slow rank still reads.

In two stages an all-reduce moves 2 (n - 1) / n of the operand over each link instead of n - 1 times all of it: every
rank sums its share, and the shares are exchanged. Large operands are written instead of read: see :func:`write_kernel`.
"""

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..parts.memory import WORDS, Buffer
from .config import PACK_BYTES, ExchangeConfig, piece_of
from .peers import Peers
from .quantised import quantised_kernel

__all__ = ["build_exchange", "build_in_place"]

STREAMED = 2  # cache modifier of data that are not read again


@flyc.kernel
def exchange_kernel(x, out, bases, rank: fx.Int32, packs: fx.Int32, results: fx.Int32, part: fx.Int32,
                    shares: fx.Int64, signature: fx.Int32, limit: fx.Int32, config: fx.Constexpr):
    """Exchange an operand of `packs` x 16 bytes, `part` of which are a share; `results` packs of `out`. The shared
    memory has the operand first, and the sums of a share `shares` bytes further."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    ranks = fx.range_constexpr(config.ranks)
    operand = Buffer(x, fx.Int32, None, packs * WORDS)
    result = Buffer(out, fx.Int32, None, results * WORDS)
    published = [peers.payload(r, fx.Int32, 0, packs * WORDS) for r in ranks]
    own = peers.payload(rank, fx.Int32, 0, packs * WORDS)
    summed = [peers.payload(r, fx.Int32, shares, part * WORDS) for r in ranks]
    start = fx.block_idx.x * config.threads + fx.thread_idx.x
    step = fx.grid_dim.x * config.threads
    first = rank * part if fx.const_expr(config.sliced) else fx.Int32(0)

    for i in range(start, part, step):
        for share in fx.range_constexpr(config.ranks if config.sliced else 1):
            at = (share * part + i) * WORDS
            own.store(at, operand.load(at, WORDS))
    peers.meet()
    for i in range(start, part, step):
        values = [published[r].load((first + i) * WORDS, WORDS) for r in ranks]
        if fx.const_expr(config.two_stage):
            peers.payload(rank, fx.Int32, shares, part * WORDS).store(i * WORDS, total(values, config))
        elif fx.const_expr(config.summed):
            result.store(i * WORDS, total(values, config))
        else:
            for r in ranks:
                result.store((r * part + i) * WORDS, values[r])
    if fx.const_expr(config.two_stage):
        peers.meet()
        for i in range(start, part, step):
            for r in ranks:
                result.store((r * part + i) * WORDS, summed[r].load(i * WORDS, WORDS))
    peers.meet()


@flyc.kernel
def write_kernel(x, out, bases, rank: fx.Int32, packs: fx.Int32, results: fx.Int32, part: fx.Int32,
                 shares: fx.Int64, signature: fx.Int32, limit: fx.Int32, config: fx.Constexpr):
    """An all-reduce that writes: shares go to the rank that adds them up, and its sums to everyone. Links carry stores
    only, which do not wait for each other; nothing but its own memory is read.

    Shares are taken in pieces: while one is on its way, the one before is added up, and the sums of the one before that
    are copied, so that the links do not wait for the own memory."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    ranks = fx.range_constexpr(config.ranks)
    operand, result = Buffer(x, fx.Int32, None, packs * WORDS), Buffer(out, fx.Int32, None, results * WORDS)
    whole = part * config.ranks * WORDS
    own, sums = (peers.payload(rank, fx.Int32, offset, whole) for offset in (0, shares))
    step = fx.grid_dim.x * config.threads
    piece = piece_of(part, step)
    start = fx.block_idx.x * config.threads + fx.thread_idx.x
    pieces = fx.ceildiv(part, piece)

    for turn in range(0, pieces + 2):
        for i in range(turn * piece + start, fx.min(turn * piece + piece, part), step):
            for r in ranks:  # this rank's place in the memory of rank r
                peers.payload(r, fx.Int32, 0, whole).store((rank * part + i) * WORDS,
                                                           operand.load((r * part + i) * WORDS, WORDS))
        added = fx.max(turn - 1, 0) * piece  # before the first there is nothing yet
        for i in range(added + start, fx.min(turn * piece, part), step):
            mine = total([own.load((r * part + i) * WORDS, WORDS) for r in ranks], config)
            for r in ranks:
                peers.payload(r, fx.Int32, shares, whole).store((rank * part + i) * WORDS, mine, STREAMED)
        copied = fx.max(turn - 2, 0) * piece
        for i in range(copied + start, fx.min(turn * piece - piece, part), step):
            for r in ranks:
                result.store((r * part + i) * WORDS, sums.load((r * part + i) * WORDS, WORDS))
        # Behind the last barrier a peer may begin the next exchange: this rank only copies sums, which that one writes
        # after a barrier of its own.
        if turn <= pieces:
            peers.meet()


@flyc.kernel
def in_place_kernel(bases, rank: fx.Int32, packs: fx.Int32, part: fx.Int32, offset: fx.Int64, signature: fx.Int32,
                    limit: fx.Int32, config: fx.Constexpr):
    """An all-reduce of `packs` packs that lie in the shared memory itself, from byte `offset` of the payload on. A rank
    alone reads its share, and writes the sums to everyone in its place, so nothing is copied."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    operands = [peers.payload(r, fx.Int32, offset, packs * WORDS) for r in fx.range_constexpr(config.ranks)]
    peers.meet()
    for i in range(fx.block_idx.x * config.threads + fx.thread_idx.x, part, fx.grid_dim.x * config.threads):
        at = (rank * part + i) * WORDS
        mine = total([operand.load(at, WORDS) for operand in operands], config)
        for operand in operands:
            operand.store(at, mine, STREAMED)
    peers.meet()


def total(values: list[Any], config: ExchangeConfig) -> Any:
    """The sum of packs in f32, in the order of the ranks, rounded once."""
    element = FLOATS[config.dtype]
    terms = [value.bitcast(element).to(fx.Float32) for value in values]
    return functools.reduce(lambda a, b: a + b, terms).to(element).bitcast(fx.Int32)


@functools.cache  # the configuration has the target
def build_exchange(config: ExchangeConfig) -> Any:
    """``launch(x, out, bases, rank, packs, results, part, shares, signature, limit, blocks, stream=None)``.

    Args of the launcher:
        x, out: contiguous, whole packs of 16 bytes.
        bases: i64[ranks], addresses of the shared memories.
        packs, results, part: packs of x and of out, ``config.part(packs)``.
        shares: bytes of the payload before the sums.
        signature, limit: see :class:`flydsl.kernels.comm.peers.Peers`.
        blocks: ``config.grid(part)[0]``, the same on every rank.
    """

    @flyc.jit
    def exchange(x, out, bases, rank: fx.Int32, packs: fx.Int32, results: fx.Int32, part: fx.Int32, shares: fx.Int64,
                 signature: fx.Int32, limit: fx.Int32, blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        kernel = quantised_kernel if config.fp8 else write_kernel if config.writes else exchange_kernel
        kernel(x, out, bases, rank, packs, results, part, shares, signature, limit, config).launch(
            grid=blocks, block=config.threads, stream=stream)

    return exchange


@functools.cache
def build_in_place(config: ExchangeConfig) -> Any:
    """``launch(bases, rank, packs, part, offset, signature, limit, blocks, stream=None)``."""

    @flyc.jit
    def all_reduce_in_place(bases, rank: fx.Int32, packs: fx.Int32, part: fx.Int32, offset: fx.Int64,
                            signature: fx.Int32, limit: fx.Int32, blocks: fx.Int32,
                            stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        in_place_kernel(bases, rank, packs, part, offset, signature, limit, config).launch(
            grid=blocks, block=config.threads, stream=stream)

    return all_reduce_in_place


assert PACK_BYTES == WORDS * 4
