"""The general f16/bf16 GEMM kernel, for MFMA and WMMA alike: both operands through LDS.

Without direct copies: while a tile is computed from one LDS buffer, the next goes from registers to the other buffer,
and (where there are registers for it) the one after is on its way to registers. With direct copies (gfx950): a ring of
`stages` buffers is filled ahead, with one barrier a tile. Either way fragments are read one part ahead (`mainloop`).
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..common.dtypes import FLOATS
from ..common.index import div, mod, xcd_remap_bx_by
from ..common.memory import lds_read, lds_write
from ..common.reduce import Lds
from ..common.rows import float_element, pointer
from .cshuffle import shuffle_tile
from .dense_config import DenseConfig
from .epilogue import Epilogue, TilePlace, store_tile
from .mainloop import finish_tile, part_rows, run_tile
from .operand import operand
from .schedule import Tally
from .splitk import add_slice

__all__ = ["launch_dense"]

MAX_WAIT = 63  # of the counter of vector memory operations
OPERANDS = {"f16": fx.Float16, "bf16": fx.BFloat16, "fp8": fx.Int8}


@flyc.kernel
def dense_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C, or with split_k its share of the reduction into the workspace."""
    op, element = config.op, OPERANDS[config.dtype]
    a_tile, b_tile = config.a_tile, config.b_tile
    thread = fx.thread_idx.x
    lane, wave = mod(thread, config.wave), div(thread, config.wave)
    group, lane_row = div(lane, 16), mod(lane, 16)
    wave_n, rest = mod(wave, config.n_waves), div(wave, config.n_waves)
    wave_m, wave_k = mod(rest, config.m_waves), div(rest, config.m_waves)
    bx, by = xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, m, tile_m=config.block_m, tile_n=config.block_n,
                             N=-(-config.n // config.block_n) * config.block_n,
                             xcd_swizzle=config.group_m, num_xcds=config.target.xcds)  # fmt: skip
    row, column = bx * config.block_m, by * config.block_n
    base_k = fx.block_idx.z * config.slice_k if config.split_k > 1 else fx.Int32(0)
    a = operand(tensors["a"], config.layout[0] == "n", a_tile, element, m, row, config.k, thread)
    b = operand(tensors["b"], config.layout[1] == "t", b_tile, element, fx.Int32(config.n), column, config.k, thread,
                config.b_shuffled)  # fmt: skip
    memory = Lds()
    # An array for each stage: what is copied to one stage then cannot alias reads of another, and needs no waits.
    stages = [memory.array(fx.Int32, config.stage_bytes(s) // 4).ptr for s in fx.range_constexpr(config.stages)]
    tally = Tally()
    m_tiles, n_tiles = config.m_repeat, config.n_repeat
    a_start, b_start = wave_m * (m_tiles * 16), wave_n * (n_tiles * 16)
    # The exchange of chunks repeats every 16 rows, so the first rows of a wave do not matter to it.
    per_stage = [(a.reader(stage, a_start, lane_row, group, op.groups),
                  b.reader(stage + a_tile.words, b_start, lane_row, group, op.groups)) for stage in stages]  # fmt: skip
    total = config.slice_k // config.block_k
    ragged = config.slice_k * config.split_k != config.k

    def fetch(t):
        first = base_k + t * config.block_k
        tally.add("vmem", a.loads + b.loads)
        return [*a.fetch(first, ragged), *b.fetch(first, ragged)]

    def commit(chunks, stage):
        a.commit(stages[stage], chunks[: a.loads])
        b.commit(stages[stage] + a_tile.words, chunks[a.loads :])
        tally.add("ds_write", a_tile.loads + b_tile.loads)

    def copy_a(t, stage):
        a.copy_async(base_k + t * config.block_k, stages[stage], config.wave)
        tally.add("vmem", a.loads)

    def copy_b(t, stage):
        b.copy_async(base_k + t * config.block_k, stages[stage] + a_tile.words, config.wave)
        tally.add("vmem", b.loads)

    size = part_rows(m_tiles)
    groups = m_tiles // size
    calls = config.blocks // op.blocks
    parts = calls * groups

    def reader(stage):
        """``read(part)``: rows of A, and before a block's first products the fragments of B."""
        read_a, read_b = per_stage[stage]

        def read(part):
            call, first = part // groups, part % groups * size
            blocks = [call * op.blocks + i for i in fx.range_constexpr(op.blocks)]
            if fx.const_expr(config.k_waves > 1):
                blocks = [wave_k * config.blocks + i for i in blocks]
            tiles = n_tiles if first == 0 else 0
            right = [[read_b(ni, i) for i in blocks] for ni in fx.range_constexpr(tiles)]
            tally.add("ds_read", (size * a.reads + tiles * b.reads) * op.blocks)
            return [[read_a(first + i, x) for x in blocks] for i in fx.range_constexpr(size)], right

        return read

    def multiply(state, part, fragments):
        out, right = list(state[0]), fragments[1] or state[1]
        first = part % groups * size * n_tiles
        places = [(i, ni) for i in fx.range_constexpr(size) for ni in fx.range_constexpr(n_tiles)]
        products = [(fragments[0][i], right[ni], out[first + i * n_tiles + ni]) for i, ni in places]
        out[first : first + len(places)] = op.multiply_all(products)
        tally.add("mfma", size * n_tiles * op.instructions)
        return out, right

    def turn_of(t, stage, pending, more):
        """Make tile t + 1 readable in the next buffer; with direct copies also start that of A of a later tile. B of it
        follows in the next tile: more copies at once would fill the queue of the memory pipeline."""
        other = (stage + 1) % config.stages

        def turn(hints):
            if fx.const_expr(config.use_async):
                hints()
                fx.rocdl.s_waitcnt(vmcnt=min((config.stages - 2) * (a.loads + b.loads), MAX_WAIT))
                fx.barrier()
                if fx.const_expr(more):
                    copy_a(t + config.stages, stage)
            else:
                commit(pending, other)
                hints()
                fx.barrier()
            return lambda: reader(other)(0)

        return turn

    def step(acc, pending, first, t, stage, more=True):
        """Multiply tile t from buffer `stage` while a later tile is fetched, if there is `more`; without direct copies
        `pending` is tile t + 1 if that was fetched before."""
        tally.reset()
        if fx.const_expr(config.use_async):
            copy_b(t + config.stages - 1, (stage - 1) % config.stages)
        later = fetch(t + reach) if more and not config.use_async else []
        now, later = (later, []) if reach == 1 else (pending, later)
        state, first = run_tile((acc, []), first, parts, reader(stage), multiply, turn_of(t, stage, now, more), tally,
                                config.scheduled, early_writes=reach > 1, early_loads=config.use_async)  # fmt: skip
        return state[0], later, first

    def tail(acc, first, remaining, stage):
        """The last tiles of a ring of direct copies: only B of the last one is fetched yet, in the first of them."""
        def turn(hints):
            hints()
            fx.rocdl.s_waitcnt(vmcnt=min((remaining - 2) * (a.loads + b.loads), MAX_WAIT))
            fx.barrier()
            return lambda: reader((stage + 1) % config.stages)(0)

        if fx.const_expr(remaining == config.stages):
            copy_b(fx.Int32(total - 1), (total - 1) % config.stages)
        state, first = run_tile((acc, []), first, parts, reader(stage), multiply, turn, tally, False)
        return state[0], first

    def flat(acc, pending, first):
        return [*acc, *pending, *(v for side in first for row_ in side for v in row_)]

    def unflat(state, kinds, held):
        values = [fx.Vector(v, *kind) for v, kind in zip(state, kinds, strict=True)]
        acc, values = values[:count], values[count:]
        pending, values = values[:held], values[held:]
        rows = [values[i : i + op.blocks] for i in range(0, len(values), op.blocks)]
        return acc, pending, (rows[:size], rows[size:])

    count = m_tiles * n_tiles
    acc = [op.zero() for _ in fx.range_constexpr(count)]
    reach = config.reach
    ahead = config.stages if config.use_async else reach
    pending = []
    if fx.const_expr(config.use_async):
        begun = min(ahead, total)
        for t in fx.range_constexpr(begun):
            copy_a(fx.Int32(t), t)
            if fx.const_expr(t < ahead - 1):
                copy_b(fx.Int32(t), t)
            fx.rocdl.sched_barrier(0)
        later_loads = (begun - 1) * (a.loads + b.loads) - (b.loads if begun == ahead else 0)
        fx.rocdl.s_waitcnt(vmcnt=min(later_loads, MAX_WAIT))
    else:
        chunks = fetch(fx.Int32(0))
        if fx.const_expr(reach > 1 and total > 1):
            pending = fetch(fx.Int32(1))
        commit(chunks, 0)
    fx.barrier()
    first = reader(0)(0)
    turns = max(total - ahead, 0) // config.stages
    if fx.const_expr(turns > 0):
        start = flat(acc, pending, first)
        kinds = [(v.shape, v.dtype) for v in start]
        for turn, state in range(0, turns, 1, init=start):  # type: ignore[call-overload]
            acc_in, pending_in, first_in = unflat(state, kinds, len(pending))
            for stage in fx.range_constexpr(config.stages):
                t = fx.Int32(turn) * config.stages + stage
                acc_in, pending_in, first_in = step(acc_in, pending_in, first_in, t, stage)
            results = yield flat(acc_in, pending_in, first_in)
        acc, pending, first = unflat(results, kinds, len(pending))
    done = turns * config.stages
    for t in fx.range_constexpr(done, max(total - ahead, done)):
        acc, pending, first = step(acc, pending, first, fx.Int32(t), t % config.stages)
    for t in fx.range_constexpr(max(total - ahead, 0), total - 1):
        if fx.const_expr(config.use_async):
            acc, first = tail(acc, first, total - t, t % config.stages)
        else:
            acc, pending, first = step(acc, pending, first, fx.Int32(t), t % config.stages, False)
    acc, _ = finish_tile((acc, []), first, parts, reader((total - 1) % config.stages), multiply)
    acc = add_wave_slices(acc, stages[0], config, op, wave_k, wave, lane)
    columns = [column + wave_n * (n_tiles * 16) + ni * 16 + lane_row for ni in fx.range_constexpr(n_tiles)]
    tile_rows = [wave_m * (m_tiles * 16) + mi * 16 for mi in fx.range_constexpr(m_tiles)]
    place = TilePlace(m, config.n, row, fx.min(m - row, config.block_m), tile_rows, columns, group,
                      ragged=config.n % config.block_n != 0)  # fmt: skip
    if fx.const_expr(config.k_waves > 1):
        if wave_k == 0:
            finish(tensors, acc, op, place, config)
    elif fx.const_expr(config.atomic):
        add_slice(tensors, acc, op, place, config, stages[0], column, wave_m, by * fx.ceildiv(m, config.block_m) + bx)
    elif fx.const_expr(config.cshuffle and config.split_k == 1):
        shuffle_tile(tensors["c"], FLOATS[config.out_dtype], acc, epilogue_of(tensors, config), op, place, stages[0],
                     config.shuffle, column, wave_m)  # fmt: skip
    else:
        finish(tensors, acc, op, place, config)


def epilogue_of(tensors: dict[str, Any], config: DenseConfig) -> Epilogue:
    """What happens to the sums of an unsplit reduction."""
    seed = tensors["seed"] if config.stochastic else None
    return Epilogue(tensors, config.n, "bias" if config.bias else "none", config.dtype == "fp8", seed)


def finish(tensors: dict[str, Any], acc: list[Any], op: Any, place: TilePlace, config: DenseConfig) -> None:
    """Store the tile in C, or this share of it in the workspace."""
    if config.split_k > 1:
        share = fx.Int64(fx.block_idx.z) * (fx.Int64(place.m) * config.n)
        part = pointer(tensors["workspace"], fx.Float32) + share
        store_tile(part, fx.Float32, acc, Epilogue(tensors, config.n, "none", False), op, place)
        return
    store_tile(tensors["c"], FLOATS[config.out_dtype], acc, epilogue_of(tensors, config), op, place)


@flyc.jit
def add_wave_slices(acc, lds, config, op, wave_k, wave, lane):
    """Sum the accumulators of the waves that share a tile's k, into those of the first."""
    if fx.const_expr(config.k_waves == 1):
        return acc
    waves = config.m_waves * config.n_waves
    size = len(acc) * op.acc_len * config.wave
    floats = fx.recast_iter(fx.Float32, lds)
    position = mod(wave, waves) * size + lane * op.acc_len
    fx.barrier()
    if wave_k > 0:
        start = (wave_k - 1) * (waves * size) + position
        for i in fx.range_constexpr(len(acc)):
            lds_write(floats, start + i * (config.wave * op.acc_len), acc[i])
    fx.barrier()
    out = []
    for i in fx.range_constexpr(len(acc)):
        value = acc[i]
        for slice_ in fx.range_constexpr(config.k_waves - 1):
            at = position + (slice_ * waves * size + i * config.wave * op.acc_len)
            value = value + lds_read(floats, at, op.acc_len)
        out.append(value)
    return out


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
        out = FLOATS[config.out_dtype]
        (pointer(tensors["c"], out) + index).store(total.to(out))


def launch_dense(tensors: dict[str, Any], m: Any, config: DenseConfig, stream: Any) -> None:
    """Launch from a jit function. With split_k, ``tensors["workspace"]`` holds split_k * M * N f32, or if `atomic`
    ``tensors["semaphore"]`` and ``tensors["signal"]`` one zero i32 a tile."""
    grid = (fx.ceildiv(m, config.block_m), -(-config.n // config.block_n), config.split_k)
    dense_kernel(tensors, m, config).launch(grid=grid, block=config.threads, stream=stream)
    if config.split_k > 1 and not config.atomic:
        blocks = fx.ceildiv(m * config.n, REDUCE_THREADS)
        split_sum_kernel(tensors, m, config).launch(grid=blocks, block=REDUCE_THREADS, stream=stream)


