"""All-reduce on memory that callers have shared themselves, by tables of addresses: the kernels of earlier releases.

A signal block holds, for each of 80 workgroups, ``start[80][8]`` u32 at 0, ``end[80][8]`` at 2560 and ``flag[80]`` at
5120. Workgroup b adds one to its flag, writes it to its place in the block of every rank, and waits for the others'.
Numbers only grow. There is no time limit, and nobody notices that ranks call different things:
:class:`flydsl.kernels.comm.Communicator` does.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import require
from ..host.dtypes import FLOATS
from ..parts.memory import WORDS, Buffer
from ..target import Target, builder
from .config import PACK_BYTES
from .exchange import STREAMED, total
from .system import at, fence, load, store

__all__ = ["SIGNAL_BYTES", "make_allreduce_kernels"]

PLACES, RANKS = 80, 8
END, FLAG = 2560, 5120
SIGNAL_BYTES = 5504  # of a block: the flags' end, rounded to 128


@dataclass(frozen=True)
class Registered:
    """An all-reduce of `packs` x 16 bytes."""

    packs: int
    dtype: str
    ranks: int
    threads: int
    target: Target

    @property
    def part(self) -> int:
        """Packs of a share; the last rank takes the rest too."""
        return self.packs // self.ranks

    @property
    def most(self) -> int:
        """Packs of the largest share."""
        return self.packs - (self.ranks - 1) * self.part


@flyc.jit
def _meet(table, rank, self_sg, sg_ptrs, config):
    """Wait for this workgroup of every rank, in the `start` or (from byte END on) the `end` table."""
    fx.barrier()
    lane, block = fx.thread_idx.x, fx.block_idx.x
    if lane < config.ranks:
        flag = at(self_sg, fx.Int32, block + FLAG // 4).load() + 1
        fence(fx.AtomicOrdering.Release)
        peer = at(sg_ptrs, fx.Int64, lane).load()
        store(at(peer + table, fx.Int32, block * RANKS + rank), flag)
        own = at(fx.Int64(self_sg) + table, fx.Int32, block * RANKS + lane)
        seen = fx.Int32(0)
        while seen < flag:
            seen = load(own)
        fence(fx.AtomicOrdering.Acquire)
        if lane == rank:
            at(self_sg, fx.Int32, block + FLAG // 4).store(flag)
    fx.barrier()


def _packs(address: Any, config: Registered, first: Any = None) -> Buffer:
    return Buffer(at(address, fx.Int32), fx.Int32, None if first is None else fx.Int64(first) * WORDS,
                  config.packs * WORDS)


def _rotated(table: Any, rank: Any, peer: int, config: Registered) -> Any:
    """The address of rank `peer` in a table that begins with this rank."""
    return at(table, fx.Int64, (peer - rank + config.ranks) % config.ranks).load()


@flyc.kernel
def one_stage_kernel(rank: fx.Int32, self_sg: fx.Int64, sg_ptrs: fx.Int64, in_ptrs: fx.Int64, out_ptr: fx.Int64,
                     config: fx.Constexpr):
    """Every rank reads all operands."""
    _meet(0, rank, self_sg, sg_ptrs, config)
    sources = [_packs(_rotated(in_ptrs, rank, r, config), config) for r in range(config.ranks)]
    out = _packs(out_ptr, config)
    for i in range(fx.block_idx.x * config.threads + fx.thread_idx.x, config.packs, fx.grid_dim.x * config.threads):
        out.store(i * WORDS, total([s.load(i * WORDS, WORDS) for s in sources], config))


@flyc.kernel
def two_stage_kernel(rank: fx.Int32, self_sg: fx.Int64, sg_ptrs: fx.Int64, in_ptrs: fx.Int64, tmp_ptrs: fx.Int64,
                     out_ptr: fx.Int64, config: fx.Constexpr):
    """Every rank sums its share into its own temporary memory, and reads the others'."""
    ranks = fx.range_constexpr(config.ranks)
    _meet(0, rank, self_sg, sg_ptrs, config)
    sources = [_packs(_rotated(in_ptrs, rank, r, config), config) for r in ranks]
    own, out = _packs(at(tmp_ptrs, fx.Int64).load(), config), _packs(out_ptr, config)
    start, step = fx.block_idx.x * config.threads + fx.thread_idx.x, fx.grid_dim.x * config.threads
    first = rank * config.part
    mine = (rank == config.ranks - 1).select(fx.Int32(config.most), fx.Int32(config.part))
    for i in range(start, mine, step):
        own.store(i * WORDS, total([s.load((first + i) * WORDS, WORDS) for s in sources], config))
    _meet(END, rank, self_sg, sg_ptrs, config)
    sums = [_packs(_rotated(tmp_ptrs, rank, r, config), config) for r in ranks]
    for i in range(start, fx.Int32(config.most), step):
        for r in ranks:
            if (i < config.part) | (r == config.ranks - 1):
                out.store((r * config.part + i) * WORDS, sums[r].load(i * WORDS, WORDS))


@flyc.kernel
def write_mode_kernel(rank: fx.Int32, self_sg: fx.Int64, sg_ptrs: fx.Int64, inp_ptr: fx.Int64, out_ptrs: fx.Int64,
                      tmp_ptrs: fx.Int64, config: fx.Constexpr):
    """Shares are written to the rank that sums them, and the sums to everyone's result. Both tables begin with rank 0.

    The temporary memory has a place of the largest share for every rank.
    """
    ranks = fx.range_constexpr(config.ranks)
    inp = _packs(inp_ptr, config)
    start, step = fx.block_idx.x * config.threads + fx.thread_idx.x, fx.grid_dim.x * config.threads
    for i in range(start, fx.Int32(config.most), step):
        for r in ranks:
            if (i < config.part) | (r == config.ranks - 1):
                there = _packs(at(tmp_ptrs, fx.Int64, r).load(), config, rank * config.most)
                there.store(i * WORDS, inp.load((r * config.part + i) * WORDS, WORDS))
    _meet(0, rank, self_sg, sg_ptrs, config)
    tmp = at(tmp_ptrs, fx.Int64, rank).load()
    places = [_packs(tmp, config, r * config.most) for r in ranks]
    outs = [_packs(at(out_ptrs, fx.Int64, r).load(), config) for r in ranks]
    mine = (rank == config.ranks - 1).select(fx.Int32(config.most), fx.Int32(config.part))
    for i in range(start, mine, step):
        value = total([place.load(i * WORDS, WORDS) for place in places], config)
        for r in ranks:
            outs[r].store((rank * config.part + i) * WORDS, value, STREAMED)
    _meet(END, rank, self_sg, sg_ptrs, config)


@builder
def make_allreduce_kernels(*, N: int, dtype_str: str, world_size: int, threads: int = 512, target: Target) -> dict:
    """Launchers ``"run_1stage_arr"``, ``"run_2stage_arr"`` and ``"run_2stage_write_mode"`` for N elements.

    They take ``(rank, grid_x, self_sg, sg_ptrs, in_ptrs, out_ptr)``, ``(..., in_ptrs, tmp_ptrs, out_ptr)`` and
    ``(..., inp_ptr, out_ptrs, tmp_ptrs)`` and ``stream=None``: addresses as integers, of this rank's signal block and
    of tables of i64 addresses by rank. The tables of inputs, and of temporary memory in two stages, begin with this
    rank. Signal blocks are zero before the first launch. At most 80 workgroups (`grid_x`), the same on every rank.

    Args:
        N: elements, whole packs of 16 bytes.
        dtype_str: ``"f32"``, ``"f16"`` or ``"bf16"``.
        world_size: 2, 4 or 8.
        threads: of a workgroup.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "make_allreduce_kernels"
    require(where, dtype_str in FLOATS, f"dtype_str must be one of {', '.join(FLOATS)}, got {dtype_str!r}")
    size = N * FLOATS[dtype_str].width // 8
    require(where, size > 0 and size % PACK_BYTES == 0, f"N must be whole packs of {PACK_BYTES} bytes, got N = {N}")
    require(where, world_size in (2, 4, 8), f"world_size must be 2, 4 or 8, got {world_size}")
    require(where, threads % target.wave == 0 and 0 < threads <= 1024, f"threads must be whole waves, got {threads}")
    require(where, size < 1 << 31, f"at most 2 GiB are supported, got {size} bytes")
    config = Registered(size // PACK_BYTES, dtype_str, world_size, threads, target)

    def one(kernel: Any) -> Any:
        @flyc.jit
        def all_reduce(rank: fx.Int32, grid_x: fx.Int32, self_sg: fx.Int64, sg_ptrs: fx.Int64, a: fx.Int64,
                       b: fx.Int64, stream: fx.Stream = fx.Stream(None)):
            config.target.require_traced()
            kernel(rank, self_sg, sg_ptrs, a, b, config).launch(grid=grid_x, block=config.threads, stream=stream)

        return all_reduce

    def two(kernel: Any) -> Any:
        @flyc.jit
        def all_reduce(rank: fx.Int32, grid_x: fx.Int32, self_sg: fx.Int64, sg_ptrs: fx.Int64, a: fx.Int64,
                       b: fx.Int64, c: fx.Int64, stream: fx.Stream = fx.Stream(None)):
            config.target.require_traced()
            kernel(rank, self_sg, sg_ptrs, a, b, c, config).launch(grid=grid_x, block=config.threads, stream=stream)

        return all_reduce

    return {"run_1stage_arr": one(one_stage_kernel), "run_2stage_arr": two(two_stage_kernel),
            "run_2stage_write_mode": two(write_mode_kernel)}
