"""The general f16/bf16 GEMM kernel, for MFMA and WMMA alike: both operands through LDS.

Without direct copies: while a tile is computed from one LDS buffer, the next goes from registers to the other buffer,
and (where there are registers for it) the one after is on its way to registers. With direct copies (gfx950): a ring of
`stages` buffers is filled ahead, with one barrier a tile. Either way fragments are read one part ahead (`mainloop`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.cshuffle import shuffle_tile
from ..parts.epilogue import Bias, Epilogue, store_tile
from ..parts.grid import add_slice, add_wave_slices
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import SPLIT_BARRIER, WHOLE_BARRIER, MainLoop, Ring, Staged
from ..parts.memory import float_element, pointer
from ..parts.operand import Columns, Rows, Stored
from ..parts.products import TileProducts
from ..parts.reduce import Lds
from ..parts.schedule import Tally, even_schedule, hot_loop_schedule
from ..parts.tile import RowTile, StoredTile
from .config import run
from .dense_config import DenseConfig
from .epilogue import gemm_epilogue

__all__ = ["dense_loop", "launch_dense"]

# Share of a tile's matrix instructions before the barrier over which direct copies are started: those at the end of it
# are waited for.
COPY_WINDOW = 0.5
# Share of them over which fragments are read, also the first of the next tile, where those are read before the barrier.
READ_WINDOW = 0.85


def operand(data: Any, consecutive_k: bool, tile: RowTile, stages: list[Any], lane: Lane, config: DenseConfig,
            rows: Any, row: Any, apart: int, shuffled: bool = False) -> Rows:
    """How an operand of `rows` x k elements comes to LDS, from row `row` on, whichever way it lies in memory. Rows that
    are consecutive in k are so many elements `apart`."""
    where: dict[str, Any] = dict(row=row, rows_total=rows, ragged=config.ragged_k)
    if consecutive_k:
        row_bytes = apart * config.op.element_bytes
        return Rows(data, tile, stages, lane, row_bytes=row_bytes, shuffled=shuffled, **where)
    kind: Any = Stored if isinstance(tile, StoredTile) else Columns
    return kind(data, tile, stages, lane, k=config.k, **where)


def sources(a: Rows, b: Rows, config: DenseConfig, parts: int) -> list[Any]:
    """How the operands are on their way, for the main loop."""
    if config.use_async:
        pieces = a.loads + b.loads
        behind = max(round(pieces / (1 + COPY_WINDOW * (parts - 1))), 1)

        def copy(t: Any, stage: int, which: range) -> None:
            a.copy(t, stage, range(which.start, min(which.stop, a.loads)))
            b.copy(t, stage, range(max(which.start - a.loads, 0), which.stop - a.loads))

        # Those that are started behind the barrier. The others follow in the next tile: more at once would fill the
        # queue of the memory pipeline, later ones would be waited for.
        return [Ring(copy, pieces, 0 if config.tile_ahead else behind)]
    if not config.crossing:
        lead = 2 if config.stages > 2 and not config.tile_ahead else 1  # a tile is in LDS a barrier before it is needed
        return [Staged(x, config.reach + lead - 1, lead) for x in (a, b)]
    # With loads more than a tile ahead, one operand goes to LDS before the barrier and the other after it, where the
    # stage of the tile before is free: so the copies are spread over the whole tile. What is read for the next tile
    # after the barrier is more, so that is where the one with fewer loads crosses it.
    late = min((a, b), key=lambda x: x.loads)
    return [Staged(x, config.reach + 1, 2, "end", True) if x is late else Staged(x, config.reach, 1, "turn", True)
            for x in (a, b)]


def orders(config: DenseConfig) -> tuple[Any, Any] | None:
    """The order of a tile before its barrier and after it."""
    if not config.scheduled:
        return None
    if config.tile_ahead:
        # What is issued first leaves the barrier least to wait for. It takes time of its own where it is not issued
        # beside matrix instructions, and is spread there.
        beside = config.target.wave == 64
        return partial(even_schedule, writes=(0.1, 0.8) if beside else (0.3, 0.7), loads=(0, 1) if beside else (0, 0.3),
                       reads=0.8 if beside else 0.3), even_schedule
    if config.use_async:
        return partial(even_schedule, loads=(0, COPY_WINDOW)), partial(even_schedule, loads=(0, 1))
    if config.crossing:
        return even_schedule, even_schedule
    if config.stages > 2:
        return partial(even_schedule, reads=READ_WINDOW), even_schedule
    return partial(hot_loop_schedule, early_writes=config.reach > 1), hot_loop_schedule


def dense_loop(tensors: dict[str, Any], m: Any, row: Any, column: Any, stages: list[Any], lane: Lane,
               config: DenseConfig) -> MainLoop:
    """The main loop of the tile of C from `row` and `column` on, of ``tensors["a"]``, of m rows, and ``tensors["b"]``:
    of this workgroup's slice of k, and of this wave's part of it where waves share k."""
    op, tally, (a_tile, b_tile) = config.op, Tally(), (config.a_tile, config.b_tile)
    wave_m, wave_n = config.wave_of(lane)
    a = operand(tensors["a"], config.layout[0] == "n", a_tile, stages, lane, config, m, row,
                config.a_stride)
    b = operand(tensors["b"], config.layout[1] == "t", b_tile, [stage + a_tile.words for stage in stages], lane, config,
                fx.Int32(config.n), column, config.b_stride, config.b_shuffled)
    products = TileProducts(op, tally, config.m_repeat, config.n_repeat, config.blocks // op.blocks,
                            a.reader(lane, wave_m * (config.m_repeat * 16), op.groups),
                            b.reader(lane, wave_n * (config.n_repeat * 16), op.groups),
                            first_block=config.wave_k(lane) * config.blocks, size=1 if config.tile_ahead else None)
    barrier = SPLIT_BARRIER if config.tile_ahead and config.target.split_barriers else WHOLE_BARRIER
    return MainLoop(config.k_tiles, config.stages, sources(a, b, config, products.parts), products, tally,
                    config.stages, orders(config), barrier, tile_ahead=config.tile_ahead,
                    begin=fx.block_idx.z * config.k_tiles if config.split_k > 1 else 0)


@flyc.kernel
def dense_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C, or with split_k its share of the reduction into the workspace."""
    lane, stages = lane_of(config.target.wave), config.stages_in(Lds())
    row, column = config.corner(m)
    loop = dense_loop(tensors, m, row, column, stages, lane, config)
    acc, wave_k = loop.run(), config.wave_k(lane)
    c, out, place = tensors["c"], config.out, config.place(m, row, column, lane)
    seed = tensors["seed"] if config.stochastic else None
    epilogue = gemm_epilogue(tensors, m, config.n, "bias" if config.bias else "none", config.row_scales, seed=seed)
    if fx.const_expr(config.k_waves > 1):
        acc = add_wave_slices(acc, stages[0], config, wave_k, lane)
    if fx.const_expr(config.atomic):
        tile = fx.block_idx.y * fx.ceildiv(m, config.tile_m) + fx.block_idx.x
        semaphore, signal = (pointer(tensors[name], fx.Int32) + tile for name in ("semaphore", "signal"))
        bias = Bias(tensors["bias"], config.n) if config.bias else None
        add_slice(c, acc, place, config, semaphore, signal, bias, stages[0])
    elif fx.const_expr(config.split_k > 1):  # this share of it in the workspace
        share = fx.Int64(fx.block_idx.z) * (fx.Int64(m) * config.n)
        if wave_k == 0:
            store_tile(pointer(tensors["workspace"], fx.Float32) + share, fx.Float32, acc, Epilogue(), place)
    elif fx.const_expr(config.cshuffle):
        shuffle_tile(c, out, acc, epilogue, place, stages[0], config.shuffle)
    elif wave_k == 0:
        store_tile(c, out, acc, epilogue, place)


REDUCE_THREADS = 256


@flyc.kernel
def split_sum_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """Sum the shares in the workspace, in order, add the bias and convert."""
    index = fx.Int64(fx.block_idx.x) * REDUCE_THREADS + fx.Int64(fx.thread_idx.x)
    size = fx.Int64(m) * config.n
    if index < size:
        source = pointer(tensors["workspace"], fx.Float32) + index
        total = fx.Float32(0.0)
        for part in fx.range_constexpr(config.split_k):
            total = total + (source + size * part).load()
        if fx.const_expr(config.bias):
            kind = float_element(tensors["bias"], fx.Float32)
            total = total + (pointer(tensors["bias"], kind) + index % config.n).load().to(fx.Float32)
        out = config.out
        (pointer(tensors["c"], out) + index).store(total.to(out))


def launch_dense(tensors: dict[str, Any], m: Any, config: DenseConfig, stream: Any) -> None:
    """Launch from a jit function. With split_k, ``tensors["workspace"]`` holds split_k * M * N f32, or if `atomic`
    ``tensors["semaphore"]`` and ``tensors["signal"]`` one zero i32 a tile."""
    run(dense_kernel, tensors, m, config, stream)
    if config.split_k > 1 and not config.atomic:
        blocks = fx.ceildiv(m * config.n, REDUCE_THREADS)
        split_sum_kernel(tensors, m, config).launch(grid=blocks, block=REDUCE_THREADS, stream=stream)
