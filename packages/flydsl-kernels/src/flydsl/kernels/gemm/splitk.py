"""Split reductions that add to C in place: the first slice initialises its tile and signals, all slices then add.

A semaphore counts the slices that are done with a tile; the last one clears semaphore and signal for the next launch.
Sums are rounded to C's type once a slice and arrive in any order, so results may differ between launches in the last
bits. The workspace form (see `dense_kernel`) has neither property and is the default.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..parts.epilogue import Bias, Epilogue, TilePlace
from ..parts.memory import Buffer
from ..parts.rows import pointer
from .cshuffle import shuffle_tile
from .dense_config import DenseConfig

__all__ = ["add_slice", "add_vector"]

AGENT = "agent"
COHERENT = 17  # sc0 and sc1: write through to memory


def add_vector(out: Buffer, at: Any, vector: Any) -> None:
    """Atomic adds of a vector: pairs of 16-bit values, or single f32."""
    step = 1 if vector.dtype.width == 32 else 2
    kind = fx.rocdl.BufferAtomicAdd(out.element) if step == 1 else fx.rocdl.BufferAtomicPkAdd(out.element)
    atom = fx.make_copy_atom(kind, out.element)
    for i in range(0, vector.numel, step):
        register = fx.make_rmem_tensor(step, out.element)
        register.store(vector.shuffle(vector, list(range(i, i + step))))
        fx.copy(atom, register, out.view(at + i, step))


@flyc.jit
def _add_bf16(out: Buffer, at: Any, vector: Any) -> None:
    """The same for chips whose buffer instructions cannot add bf16 (gfx942): by address, within the bounds."""
    if at < out.count:
        for i in fx.range_constexpr(0, vector.numel, 2):
            pair = vector.shuffle(vector, [i, i + 1])
            fx.llvm.atomic_add((out.pointer + (at + i)).llvm_ptr, pair, syncscope=AGENT)


def _initialise(tensors: dict[str, Any], place: TilePlace, config: DenseConfig, column: Any) -> None:
    """Write zero, or the bias, to every element of the workgroup's tile."""
    element, plan = FLOATS[config.out_dtype], config.shuffle
    out = place.out(tensors["c"], element)
    for row, inside in plan.rows_and_columns(config.block_m):
        x, values = column + inside, [fx.Float32(0.0)] * plan.vector
        if config.bias:
            bias = Bias(tensors["bias"], config.n)
            values = [bias.column(x + i, 1) for i in range(plan.vector)]
        at = place.offset(row, x, plan.element_bytes)
        out.store(at, fx.Vector.from_elements([v.to(element) for v in values], element), COHERENT)


@flyc.jit
def add_slice(tensors, acc, place: TilePlace, config: DenseConfig, lds, column, wave_m, tile):
    """Add the accumulators of one slice to C. All threads of the workgroup call it.

    Args:
        tensors: ``semaphore`` and ``signal``, i32 with an entry a tile, zero before the launch and after it.
        tile: number of the tile of C.
    """
    thread, slice_ = fx.thread_idx.x, fx.block_idx.z
    signal = pointer(tensors["signal"], fx.Int32) + tile
    semaphore = pointer(tensors["semaphore"], fx.Int32) + tile
    if slice_ == 0:
        _initialise(tensors, place, config, column)
        fx.llvm.memory_fence(syncscope=AGENT, ordering=fx.AtomicOrdering.Release)
        fx.barrier()
        if thread == 0:
            fx.llvm.generic_store(signal, fx.Int32(1), memory_order=fx.AtomicOrdering.Release, syncscope=AGENT)
    else:
        if thread == 0:
            ready = fx.Int32(0)
            while ready == 0:
                ready = fx.llvm.generic_load(signal, memory_order=fx.AtomicOrdering.Acquire, syncscope=AGENT)
        fx.barrier()
    element = FLOATS[config.out_dtype]
    add = _add_bf16 if config.out_dtype == "bf16" and not config.target.mx else add_vector
    shuffle_tile(tensors["c"], element, acc, Epilogue(), place, lds, config.shuffle, column, wave_m, add)
    fx.llvm.memory_fence(syncscope=AGENT, ordering=fx.AtomicOrdering.Release)
    fx.barrier()
    if thread == 0:
        done = fx.llvm.atomic_add(semaphore, fx.Int32(1), ordering=fx.AtomicOrdering.AcqRel, syncscope=AGENT)
        if done == config.split_k - 1:
            fx.llvm.generic_store(semaphore, fx.Int32(0), memory_order=fx.AtomicOrdering.Release, syncscope=AGENT)
            fx.llvm.generic_store(signal, fx.Int32(0), memory_order=fx.AtomicOrdering.Release, syncscope=AGENT)
