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

from ..host.dtypes import FLOATS
from ..parts.epilogue import Epilogue, TilePlace, store_tile
from ..parts.index import div, mod, xcd_remap_bx_by
from ..parts.memory import lds_read, lds_write
from ..parts.reduce import Lds
from ..parts.rows import float_element, pointer
from .cshuffle import shuffle_tile
from .dense_config import DenseConfig
from .epilogue import gemm_epilogue
from .mainloop import finish_tile, part_rows, run_tile
from .operand import operand
from .schedule import Tally, even_schedule, hot_loop_schedule
from .splitk import add_slice

__all__ = ["launch_dense"]

# Share of a tile's matrix instructions before the barrier over which direct copies are started: those at the end of it
# are waited for.
COPY_WINDOW = 0.5
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
                             xcd_swizzle=config.group_m, num_xcds=config.target.xcds)
    row, column = bx * config.block_m, by * config.block_n
    base_k = fx.block_idx.z * config.slice_k if config.split_k > 1 else fx.Int32(0)
    a = operand(tensors["a"], config.layout[0] == "n", a_tile, element, m, row, config.k, thread)
    b = operand(tensors["b"], config.layout[1] == "t", b_tile, element, fx.Int32(config.n), column, config.k, thread,
                config.b_shuffled)
    memory = Lds()
    # An array for each stage: what is copied to one stage then cannot alias reads of another, and needs no waits.
    stages = [memory.array(fx.Int32, config.stage_bytes(s) // 4).ptr for s in fx.range_constexpr(config.stages)]
    tally = Tally()
    m_tiles, n_tiles = config.m_repeat, config.n_repeat
    a_start, b_start = wave_m * (m_tiles * 16), wave_n * (n_tiles * 16)
    # The exchange of chunks repeats every 16 rows, so the first rows of a wave do not matter to it.
    per_stage = [(a.reader(stage, a_start, lane_row, group, op.groups),
                  b.reader(stage + a_tile.words, b_start, lane_row, group, op.groups)) for stage in stages]
    total = config.slice_k // config.block_k
    ragged = config.slice_k * config.split_k != config.k

    sides = ((a, 0), (b, a_tile.words))  # and where in a stage
    # With loads more than a tile ahead, one operand goes to LDS before the barrier and the other after it, where the
    # stage of the tile before is free: so the copies are spread over the whole tile. What is read for the next tile
    # after the barrier is more, so that is where the one with fewer loads crosses it.
    reach = config.reach
    crossing = (min(sides, key=lambda side: side[0].loads),) if config.crossing else ()
    regular = tuple(side for side in sides if side not in crossing)

    def fetch(t, which):
        first = base_k + t * config.block_k
        tally.add("vmem", sum(x.loads for x, _ in which))
        return [chunk for x, _ in which for chunk in x.fetch(first, ragged)]

    def commit(chunks, stage, which):
        for x, place in which:
            x.commit(stages[stage] + place, chunks[: x.loads])
            chunks = chunks[x.loads :]
            tally.add("ds_write", x.writes)
            tally.add("valu", x.turns if crossing else 0)

    size = part_rows(m_tiles)
    groups = m_tiles // size
    calls = config.blocks // op.blocks
    parts = calls * groups
    copies = a.loads + b.loads
    # Of the direct copies of a tile, those that are started after the barrier at which its stage is free. The others
    # follow in the next tile: more at once would fill the queue of the memory pipeline, later ones would be waited for.
    crossing_copies = max(round(copies / (1 + COPY_WINDOW * (parts - 1))), 1)

    def copy(t, stage, first, last):
        """Start the direct copies `first` to `last` of tile t."""
        for x, place, before in ((a, 0, 0), (b, a_tile.words, a.loads)):
            which = range(max(first - before, 0), min(last - before, x.loads))
            x.copy_async(base_k + t * config.block_k, stages[stage] + place, config.wave, which)
            tally.add("vmem", len(which))

    def reader(stage):
        """``read(part)``: rows of A, and before a block's first products the fragments of B."""
        read_a, read_b = per_stage[stage]

        def read(part):
            call, first = part // groups, part % groups * size
            blocks = [call * op.blocks + i for i in fx.range_constexpr(op.blocks)]
            if fx.const_expr(config.k_waves > 1):
                blocks = [wave_k * config.blocks + i for i in blocks]
            tiles = n_tiles if first == 0 else 0
            # In the order in which they are multiplied.
            left = [[read_a(first, x) for x in blocks]]
            right = [[read_b(ni, i) for i in blocks] for ni in fx.range_constexpr(tiles)]
            left += [[read_a(first + i, x) for x in blocks] for i in fx.range_constexpr(1, size)]
            tally.add("ds_read", (size * a.reads + tiles * b.reads) * op.blocks)
            return left, right

        return read

    def multiply(state, part, fragments):
        out, right = list(state[0]), fragments[1] or state[1]
        first = part % groups * size * n_tiles
        places = [(i, ni) for i in fx.range_constexpr(size) for ni in fx.range_constexpr(n_tiles)]
        products = [(fragments[0][i], right[ni], out[first + i * n_tiles + ni]) for i, ni in places]
        out[first : first + len(places)] = op.multiply_all(products)
        tally.add("mfma", size * n_tiles * op.instructions)
        return out, right

    held = [sum(x.loads for x, _ in which) for which in (regular, crossing)]  # vectors of a tile
    whole = partial(hot_loop_schedule, early_writes=reach > 1), hot_loop_schedule
    orders = (even_schedule, even_schedule) if crossing else whole

    def step(acc, pending, first, t, stage, left):
        """Multiply tile t from buffer `stage`, at least `left` tiles before the last, while later ones are copied. With
        a `reach` of more than one, `pending` are the vectors that were loaded before and are not in LDS yet: of the
        regular operands from tile t + 1 on, and of the crossing one from tile t + 2 on, in turns."""
        tally.reset()
        other, crossed = (stage + 1) % config.stages, (stage + 2) % config.stages
        now, pending = pending[: held[0]], pending[held[0] :]
        following, pending = pending[: held[1]], pending[held[1] :]
        if fx.const_expr(reach == 1):
            now = fetch(t + 1, regular)
        elif fx.const_expr(not crossing and reach <= left):
            pending.extend(fetch(t + reach, regular))

        def turn(hints):
            commit(now, other, regular)
            if fx.const_expr(crossing and reach <= left):
                pending.extend(fetch(t + reach, regular))
            hints()
            fx.lds_barrier()

            def cross():
                fragments = reader(other)(0)
                if fx.const_expr(left > 1):
                    commit(following, crossed, crossing)
                if fx.const_expr(reach < left):
                    pending.extend(fetch(t + reach + 1, crossing))
                return fragments

            return cross

        state, first = run_tile((acc, []), first, parts, reader(stage), multiply, turn, tally, config.scheduled,
                                orders=orders)
        return state[0], pending, first

    def step_directly(acc, first, t, stage):
        """The same with direct copies."""
        def turn(hints):
            hints()
            fx.rocdl.s_waitcnt(vmcnt=min((config.stages - 2) * copies, MAX_WAIT))
            fx.lds_barrier()
            copy(t + config.stages, stage, 0, crossing_copies)
            return lambda: reader((stage + 1) % config.stages)(0)

        tally.reset()
        copy(t + config.stages - 1, (stage - 1) % config.stages, crossing_copies, copies)
        state, first = run_tile((acc, []), first, parts, reader(stage), multiply, turn, tally, config.scheduled,
                                orders=(partial(even_schedule, loads=(0, COPY_WINDOW)),
                                        partial(even_schedule, loads=(0, 1))))
        return state[0], [], first

    def tail(acc, first, remaining, stage):
        """The last tiles of a ring of direct copies: only the rest of the last one is not started yet."""
        def turn(hints):
            hints()
            fx.rocdl.s_waitcnt(vmcnt=min((remaining - 2) * copies, MAX_WAIT))
            fx.lds_barrier()
            return lambda: reader((stage + 1) % config.stages)(0)

        if fx.const_expr(remaining == config.stages):
            copy(fx.Int32(total - 1), (total - 1) % config.stages, crossing_copies, copies)
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
    enough = reach + len(crossing)  # tiles that follow one in the loop
    ahead = config.stages if config.use_async else enough
    pending = []
    if fx.const_expr(config.use_async):
        begun = min(ahead, total)
        for t in fx.range_constexpr(begun):
            copy(fx.Int32(t), t, 0, copies if t < ahead - 1 else crossing_copies)
            fx.rocdl.sched_barrier(0)
        later = (begun - 1) * copies - (copies - crossing_copies if begun == ahead else 0)
        fx.rocdl.s_waitcnt(vmcnt=min(later, MAX_WAIT))
    else:
        # In the order of the loop, so that it need not wait for younger loads than those it needs.
        chunks = fetch(fx.Int32(0), sides)
        crossed = fetch(fx.Int32(1), crossing) if total > 1 else []
        for t in fx.range_constexpr(1, min(reach, total)):
            fx.rocdl.sched_barrier(0)
            pending += fetch(fx.Int32(t), regular)
            fx.rocdl.sched_barrier(0)
            pending += fetch(fx.Int32(t + 1), crossing) if t + 1 < total else []
        fx.rocdl.sched_barrier(0)
        commit(chunks, 0, sides)
        if fx.const_expr(total > 1):
            commit(crossed, 1, crossing)
    fx.lds_barrier()
    first = reader(0)(0)
    turns = max(total - ahead, 0) // config.stages
    if fx.const_expr(turns > 0):
        start = flat(acc, pending, first)
        kinds = [(v.shape, v.dtype) for v in start]
        for turn, state in range(0, turns, 1, init=start):  # type: ignore[call-overload]
            acc_in, pending_in, first_in = unflat(state, kinds, len(pending))
            for stage in fx.range_constexpr(config.stages):
                t = fx.Int32(turn) * config.stages + stage
                if fx.const_expr(config.use_async):
                    acc_in, pending_in, first_in = step_directly(acc_in, first_in, t, stage)
                else:
                    acc_in, pending_in, first_in = step(acc_in, pending_in, first_in, t, stage, enough)
            results = yield flat(acc_in, pending_in, first_in)
        acc, pending, first = unflat(results, kinds, len(pending))
    done = turns * config.stages
    for t in fx.range_constexpr(done, total - 1):
        if fx.const_expr(not config.use_async):
            acc, pending, first = step(acc, pending, first, fx.Int32(t), t % config.stages, total - 1 - t)
        elif fx.const_expr(t < total - ahead):
            acc, pending, first = step_directly(acc, first, fx.Int32(t), t % config.stages)
        else:
            acc, first = tail(acc, first, total - t, t % config.stages)
    acc, _ = finish_tile((acc, []), first, parts, reader((total - 1) % config.stages), multiply)
    acc = add_wave_slices(acc, stages[0], config, op, wave_k, wave, lane)
    columns = [column + wave_n * (n_tiles * 16) + ni * 16 + lane_row for ni in fx.range_constexpr(n_tiles)]
    tile_rows = [wave_m * (m_tiles * 16) + mi * 16 for mi in fx.range_constexpr(m_tiles)]
    place = TilePlace(m, config.n, row, fx.min(m - row, config.block_m), tile_rows, columns, group,
                      op.acc_len, ragged=config.n % config.block_n != 0)
    if fx.const_expr(config.k_waves > 1):
        if wave_k == 0:
            finish(tensors, acc, place, config)
    elif fx.const_expr(config.atomic):
        add_slice(tensors, acc, place, config, stages[0], column, wave_m, by * fx.ceildiv(m, config.block_m) + bx)
    elif fx.const_expr(config.cshuffle and config.split_k == 1):
        shuffle_tile(tensors["c"], FLOATS[config.out_dtype], acc, epilogue_of(tensors, m, config), place, stages[0],
                     config.shuffle, column, wave_m)
    else:
        finish(tensors, acc, place, config)


def epilogue_of(tensors: dict[str, Any], m: Any, config: DenseConfig) -> Epilogue:
    """What happens to the sums of an unsplit reduction."""
    seed = tensors["seed"] if config.stochastic else None
    return gemm_epilogue(tensors, m, config.n, "bias" if config.bias else "none", config.dtype == "fp8", seed=seed)


def finish(tensors: dict[str, Any], acc: list[Any], place: TilePlace, config: DenseConfig) -> None:
    """Store the tile in C, or this share of it in the workspace."""
    if config.split_k > 1:
        share = fx.Int64(fx.block_idx.z) * (fx.Int64(place.m) * config.n)
        part = pointer(tensors["workspace"], fx.Float32) + share
        store_tile(part, fx.Float32, acc, Epilogue(), place)
        return
    store_tile(tensors["c"], FLOATS[config.out_dtype], acc, epilogue_of(tensors, place.m, config), place)


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
    config.target.require_traced()
    dense_kernel(tensors, m, config).launch(grid=config.grid(m), block=config.threads, stream=stream)
    if config.split_k > 1 and not config.atomic:
        blocks = fx.ceildiv(m * config.n, REDUCE_THREADS)
        split_sum_kernel(tensors, m, config).launch(grid=blocks, block=REDUCE_THREADS, stream=stream)
