"""Which tile of C a workgroup computes, and workgroups or waves that share one.

Waves that share a tile's k add their sums in LDS. Split reductions of workgroups add to C in place: the first slice
initialises its tile and signals, all slices then add.

A semaphore counts the slices that are done with a tile; the last one clears semaphore and signal for the next launch.
Sums are rounded to C's type once a slice and arrive in any order, so results may differ between launches in the last
bits. The other form writes shares of C to a workspace, and has neither property.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import Bias, Epilogue, TilePlace, shuffle_tile
from .index import mod
from .memory import Buffer, lds_read, lds_write
from .runs import run_of

__all__ = ["add_slice", "add_wave_slices", "block_of"]

AGENT = "agent"
COHERENT = 17  # sc0 and sc1: write through to memory


def block_of(bx: Any, by: Any, rows: Any, columns: int, group: int, dies: int = 8) -> tuple[Any, Any]:
    """(row, column) of a workgroup's tile in a grid of `rows` x `columns` tiles: dies get neighbours.

    Workgroups are dealt to the dies in turn. Each die gets a consecutive range of the linear order, and within it tiles
    walk down `group` rows of tiles before the next column.

    Args:
        bx, by: row and column as launched.
        group: 0: as launched.
    """
    if not group:
        return bx, by
    total = rows * columns
    linear = by * rows + bx
    q, r = total // dies, total % dies
    die = linear % dies
    w = die * q + fx.min(die, r) + linear // dies
    width = group * columns
    number = w // width
    size = fx.min(rows - number * group, group)
    inside = w % width
    return number * group + inside % size, inside // size


@flyc.jit
def _add_pairs(out: Buffer, at: Any, vector: Any) -> None:
    """The same for chips whose buffer instructions cannot add pairs of the type: by address, within the bounds."""
    if at < out.count:
        for i in fx.range_constexpr(0, vector.numel, 2):
            pair = run_of(vector, i, 2)
            fx.llvm.atomic_add((out.pointer + (at + i)).llvm_ptr, pair, syncscope=AGENT)


def _initialise(c: Any, place: TilePlace, config: Any, bias: Bias | None) -> None:
    """Write zero, or the bias, to every element of the workgroup's tile."""
    plan, out = config.shuffle, place.out(c, config.out)
    for row, inside in plan.rows_and_columns(config.tile_m):
        x, values = place.column + inside, [fx.Float32(0.0)] * plan.vector
        if bias is not None:
            values = [bias.column(x + i, 1) for i in range(plan.vector)]
        at = place.offset(row, x, plan.element_bytes)
        out.store(at, fx.Vector.from_elements([v.to(config.out) for v in values], config.out), COHERENT)


def _set(flag: Any, value: int) -> None:
    """Set a flag for other workgroups by an exchange: RDNA3 has no store that tools could tell from an ordinary one."""
    fx.llvm.atomic_xchg(flag, fx.Int32(value), ordering=fx.AtomicOrdering.Release, syncscope=AGENT)


@flyc.jit
def add_slice(c, acc, place: TilePlace, config, semaphore, signal, bias: Bias | None, lds):
    """Add the accumulators of slice ``block_idx.z`` of the reduction to C. All threads of the workgroup call it.

    Args:
        config: has split_k, tile_m, out, shuffle and the target.
        semaphore, signal: pointers to one i32 of the tile, zero before the launch and after it.
        bias: added once.
    """
    thread, slice_ = fx.thread_idx.x, fx.block_idx.z
    if slice_ == 0:
        _initialise(c, place, config, bias)
        fx.llvm.memory_fence(syncscope=AGENT, ordering=fx.AtomicOrdering.Release)
        fx.barrier()
        if thread == 0:
            _set(signal, 1)
    else:
        if thread == 0:
            ready = fx.Int32(0)
            while ready == 0:
                ready = fx.llvm.generic_load(signal, memory_order=fx.AtomicOrdering.Acquire, syncscope=AGENT)
        fx.barrier()
    add = Buffer.add if config.target.adds(config.out_dtype) else _add_pairs
    shuffle_tile(c, config.out, acc, Epilogue(), place, lds, config.shuffle, add)
    fx.llvm.memory_fence(syncscope=AGENT, ordering=fx.AtomicOrdering.Release)
    fx.barrier()
    if thread == 0:
        done = fx.llvm.atomic_add(semaphore, fx.Int32(1), ordering=fx.AtomicOrdering.AcqRel, syncscope=AGENT)
        if done == config.split_k - 1:
            for flag in (semaphore, signal):
                _set(flag, 0)


@flyc.jit
def add_wave_slices(acc, lds, config, wave_k, lane, across=None):
    """Sum the accumulators of the waves that share a tile's k. Of the others the result is nothing of use.

    Args:
        acc: vectors of the wave's tiles.
        lds: of ``k_waves - 1`` times all of them.
        config: has k_waves, m_waves, n_waves and the target.
        wave_k: which share of k this wave has.
        across: tiles that a wave sums before the next one does, in turns; None: the first sums all.
    """
    waves, others, unit = config.m_waves * config.n_waves, config.k_waves - 1, config.target.wave * acc[0].numel
    sums, size = fx.recast_iter(acc[0].dtype, lds), len(acc) * unit
    position = mod(lane.wave, waves) * size + lane.lane * acc[0].numel
    across = across or len(acc)
    fx.barrier()
    for summing in fx.range_constexpr(min(config.k_waves, len(acc) // across)):
        if wave_k != summing:
            start = mod(wave_k - summing + others, config.k_waves) * (waves * size) + position
            for i in fx.range_constexpr(len(acc)):
                if fx.const_expr(i // across % config.k_waves == summing):
                    lds_write(sums, start + i * unit, acc[i])
    fx.barrier()
    out = []
    for i in fx.range_constexpr(len(acc)):
        value = acc[i]
        for other in fx.range_constexpr(others):
            value = value + lds_read(sums, position + (other * waves * size + i * unit), value.numel)
        out.append(value)
    return out
