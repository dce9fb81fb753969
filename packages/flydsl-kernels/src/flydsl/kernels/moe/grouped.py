"""The grouped product: sorted rows of x, gathered through LDS, times the weights of their expert, from registers.

Four waves lie along the columns and interleave strips of 16. The matrix instruction gets the weights first, so that a
lane holds consecutive columns of one row: what belongs to a row (its place, routing weight and scale) is one value a
lane and tile. With `gated`, a wave has the strips of gate and up of the same columns.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..gemm.mainloop import part_rows
from ..gemm.schedule import Tally, hot_loop_schedule
from ..host.dtypes import FLOATS, element_of
from ..parts.epilogue import FAR
from ..parts.index import align_up, cdiv, div, mod
from ..parts.mathx import gelu, sigmoid, silu, tanh
from ..parts.memory import WORDS, Buffer, lds_read
from ..parts.packed import e8m0_value, unpack
from ..parts.reduce import Lds
from ..parts.rows import pointer
from .config import OUT, SCALE_K, SWIGLU_LIMIT, GroupedConfig

__all__ = ["activate", "grouped_kernel", "launch_grouped"]

TOKEN = (1 << 24) - 1  # bits of a sorted row
STAGES = 2  # of x in LDS, and of w in registers
REACH = 2  # tiles of x on their way to LDS


def activate(gate: Any, up: Any, config: GroupedConfig) -> Any:
    """The activation of vectors of f32.

    silu and gelu: ``f(g) u``, both clamped where there is a limit L: g at L from above, u at both sides; swiglu (of
    GPT-OSS): ``g sigmoid(1.702 g) (u + 1)`` with L = 7 by default; situ: ``tanh(g) sigmoid(g) tanh(u)``.
    """
    name, limit = config.activation, config.limit
    if name == "swiglu" and limit is None:
        limit = SWIGLU_LIMIT
    if limit is not None:
        high = fx.full_like(gate, limit)
        gate, up = fx.minimumf(gate, high), fx.maximumf(fx.minimumf(up, high), -high)
    if name == "swiglu":
        return gate * sigmoid(gate * 1.702) * (up + 1.0)
    if name == "situ":
        return tanh(gate) * sigmoid(gate) * tanh(up)
    return (silu(gate) if name == "silu" else gelu(gate)) * up


def unpack_int4(pair: Any) -> Any:
    """Two words of int4 as a chunk of sixteen int8, each 16 times its value, which the scale of the row undoes."""
    high = 0xF0F0F0F0 - (1 << 32)
    words = [half for i in range(2) for half in ((pair[i] << 4) & high, pair[i] & high)]
    return fx.Vector.from_elements(words, fx.Int32)


class Gathered:
    """Chunks of rows of x that a thread copies to LDS, by the sorted rows.

    Args:
        rows: how many rows x has; `row_of(row of the block)` is the row of x, or one past the end.
    """

    def __init__(self, data: Any, rows: Any, row_of: Any, config: GroupedConfig, tally: Tally) -> None:
        tile, words = config.a_tile, config.a_row_words
        self._config, self._tally, self._places = config, tally, []
        self._pending = [[fx.make_rmem_tensor(WORDS, fx.Int32) for _ in range(tile.loads)] for _ in range(REACH)]
        base = pointer(data, fx.Int32)
        self._base = base if config.wide else fx.rocdl.make_buffer_ptr(base, fx.Int64(rows) * (words * 4))
        copy = fx.UniversalCopy128b() if config.wide else fx.rocdl.BufferCopy(128)
        self._atom = fx.make_copy_atom(copy, fx.Int32)
        for i in range(tile.loads):
            row, chunk = tile.part(fx.thread_idx.x, i)
            found = row_of(row)
            if config.wide:  # rows that do not exist are not stored, so any row does for them
                place = base + fx.Int64((found < rows).select(found, 0)) * words
            else:
                place = (found < rows).select(found * words, FAR // 4)
            self._places.append((place, chunk * WORDS))

    def load(self, t: Any, slot: int) -> None:
        config, step = self._config, t * (self._config.row_bytes // 4)
        for (place, chunk), register in zip(self._places, self._pending[slot], strict=True):
            further = chunk
            if config.ragged:  # zeros, of which there are also zeros in w
                far = config.a_row_words - WORDS if config.wide else FAR // 4
                further = (step + chunk < config.a_row_words).select(step + chunk, far)
                if not config.wide:
                    further = fx.min(further, FAR // 4)
            elif config.wide:
                further = step + chunk
            self._copy(place, further, register, None if config.ragged or config.wide else step)
        self._tally.add("vmem", len(self._places))

    def _copy(self, place: Any, further: Any, register: Any, soffset: Any) -> None:
        start = place + further if self._config.wide else self._base + (place + further)
        view = fx.make_view(start, fx.make_layout(WORDS, 1))
        if soffset is None:
            fx.copy(self._atom, view, register)
        else:
            fx.copy(self._atom, view, register, soffset=soffset)

    def store(self, slot: int, base: Any) -> None:
        tile = self._config.a_tile
        tile.commit(base, fx.thread_idx.x, [register.load() for register in self._pending[slot]])
        self._tally.add("ds_write", tile.loads)


class Weights:
    """Fragments of the shuffled weight of an expert, in registers, and their scales of groups or blocks.

    Strips are ``ni * streams + stream`` of this wave.
    """

    def __init__(self, tensors: dict[str, Any], expert: Any, column: Any, wave: Any, lane: Any, config: GroupedConfig,
                 tally: Tally) -> None:
        self._config, self._tally = config, tally
        expert_words = config.rows_b // 16 * config.strip_words
        self._buffer = Buffer(tensors["w"], fx.Int32, fx.Int64(expert) * expert_words, expert_words)
        self._words = config.chunk_words * config.spread  # of a load
        up = align_up(config.n, 16) // 16
        strips = [(div(column, 16) + ni * 4 + wave) + up * s for ni in range(config.n_repeat)
                  for s in range(config.streams)]
        self._places = [strip * config.strip_words + lane * self._words for strip in strips]
        self._count = config.blocks // config.spread
        self.values = self._registers(fx.Int32, self._words, self._count)
        self._atom = fx.make_copy_atom(fx.rocdl.BufferCopy(self._words * 32), fx.Int32)
        if config.format.scales == "groups":
            self._groups(tensors["w_scale"], expert, strips, lane)

    def _registers(self, element: Any, words: int, count: int) -> Any:
        return [[[fx.make_rmem_tensor(words, element) for _ in range(count)] for _ in self._places]
                for _ in range(STAGES)]

    def _groups(self, data: Any, expert: Any, strips: list[Any], lane: Any) -> None:
        """Scales ``[strip][group of 32 k][16 rows]``: one a lane for each load of w."""
        config, element = self._config, element_of(self._config.scale)
        expert_scales = config.rows_b * config.scales_k
        self._scales = Buffer(data, element, fx.Int64(expert) * expert_scales, expert_scales)
        self._scale_places = [strip * (16 * config.scales_k) + lane for strip in strips]
        self._factors = self._registers(element, 1, self._count)
        self._scale_atom = fx.make_copy_atom(fx.rocdl.BufferCopy(element.width), element)

    def load(self, t: Any, stage: int) -> None:
        config, wave = self._config, self._config.wave
        for i in range(self._count):  # in the order in which they are multiplied
            for strip, place in enumerate(self._places):
                self._copy(self._atom, self._buffer, place, self.values[stage][strip][i], self._words * wave, i, t)
                if config.format.scales == "groups":
                    self._copy(self._scale_atom, self._scales, self._scale_places[strip],
                               self._factors[stage][strip][i], wave, i, t)
        loads = len(self._places) * self._count
        self._tally.add("vmem", 2 * loads if config.format.scales == "groups" else loads)

    def _copy(self, atom: Any, source: Buffer, place: Any, register: Any, step: int, i: int, t: Any) -> None:
        view = source.view(place + i * step, step // self._config.wave)
        fx.copy(atom, view, register, soffset=t * (step * self._count))

    def chunks(self, stage: int, strip: int, block: int) -> list[Any]:
        """The chunks of a call from block `block` on."""
        return [self._chunk(stage, strip, block + i) for i in range(self._config.op.blocks)]

    def _chunk(self, stage: int, strip: int, block: int) -> Any:
        config = self._config
        load, part = divmod(block, config.spread)
        words = self.values[stage][strip][load].load()
        if config.format.b is None:
            return words
        if config.format.scales == "rows":
            return unpack_int4(words)
        scale = self._factors[stage][strip][load].load()[0]
        scale = e8m0_value(scale.to(fx.Int32) & 0xFF) if config.scale == "e8m0" else scale.to(fx.Float32)
        value = unpack(words.shuffle(words, [part]), config.format.b) * scale
        return value.to(FLOATS[config.dtype]).bitcast(fx.Int32)


class BlockScales:
    """Scales of 128 k: one of a row of x for each row tile of a lane, one of 128 rows of w for each strip.

    Args:
        sources: rows of x of the lane's row tiles.
    """

    def __init__(self, tensors: dict[str, Any], expert: Any, sources: list[Any], rows: Any, column: Any, wave: Any,
                 config: GroupedConfig, tally: Tally) -> None:
        self._tally, count = tally, config.scales_k
        self._tile = config.tile_k // SCALE_K["blocks"]
        per_expert = cdiv(config.n * config.streams, 128) * count
        x = Buffer(tensors["x_scale"], fx.Float32, None, fx.Int64(rows) * count)
        w = Buffer(tensors["w_scale"], fx.Float32, fx.Int64(expert) * per_expert, per_expert)
        self._sources = [(x, (row < rows).select(row * count, FAR // 4)) for row in sources]
        self._sources += [(w, div(column + (ni * 4 + wave) * 16 + s * config.n, 128) * count)
                          for ni in range(config.n_repeat) for s in range(config.streams)]
        self._tiles = len(sources)
        self._values = [[[fx.make_rmem_tensor(1, fx.Float32) for _ in range(self._tile)] for _ in self._sources]
                        for _ in range(STAGES)]
        self._atom = fx.make_copy_atom(fx.rocdl.BufferCopy(32), fx.Float32)

    def load(self, t: Any, stage: int) -> None:
        for (source, place), registers in zip(self._sources, self._values[stage], strict=True):
            for i, register in enumerate(registers):
                fx.copy(self._atom, source.view(place + i, 1), register, soffset=t * self._tile)
        self._tally.add("vmem", len(self._sources) * self._tile)

    def factor(self, stage: int, tile: int, strip: int, block: int) -> Any:
        """What the sum of a row tile and a strip over a block of 128 k is multiplied by."""
        x, w = (self._values[stage][i][block].load()[0] for i in (tile, self._tiles + strip))
        return x * w


@flyc.jit
def multiply_all(x, w, scales, stages, config, tally, lane_row, group):
    """The accumulators ``[row tile][strip]`` of the whole reduction."""
    op, tile, together = config.op, config.a_tile, config.together
    size = max(part_rows(config.m_repeat) // together, 1)
    groups, calls = config.m_repeat // size, config.blocks // op.blocks
    parts, across = calls // together * groups, config.n_repeat * config.streams
    width = together * op.blocks  # chunks of a row in a part
    # Chunks of a lane that feed one load of w are neighbours.
    places = [tile.at(lane_row, (b // config.spread * op.groups + group) * config.spread + b % config.spread)
              for b in range(config.blocks)]

    def read(stage, part):
        block, first = part // groups * width, part % groups * size
        tally.add("ds_read", size * width)
        return [[lds_read(stages[stage], places[block + b] + (first + i) * 4 * config.row_bytes)
                 for b in range(width)] for i in range(size)]

    def multiply(acc, stage, part, fragments):
        block, first = part // groups * width, part % groups * size
        start, where = first * across, [(i, s) for i in range(size) for s in range(across)]
        old = acc[start : start + size * across]
        sums = old if scales is None else [op.zero() for _ in where]
        for c in fx.range_constexpr(together):
            right = [w.chunks(stage, s, block + c * op.blocks) for s in range(across)]
            left = [row[c * op.blocks : (c + 1) * op.blocks] for row in fragments]
            sums = op.multiply_all([(right[s], left[i], sums[n]) for n, (i, s) in enumerate(where)])
        tally.add("mfma", len(where) * together * op.instructions)
        if scales is not None:
            at = part // groups
            sums = [fx.math.fma(v, fx.full_like(v, scales.factor(stage, first + i, s, at)), o)
                    for v, o, (i, s) in zip(sums, old, where, strict=True)]
        return [*acc[:start], *sums, *acc[start + len(sums):]]

    def hints(early):
        counts = tally.take()
        hot_loop_schedule(counts, early_writes=early).emit(counts)
        fx.rocdl.sched_barrier(0)

    def store(slot, stage):
        x.store(slot, stages[stage])

    zero = fx.full(op.acc_len, 0.0, fx.Float32) if scales is not None else op.zero()
    acc = [zero for _ in range(config.m_repeat * across)]
    producers = [fx.Registers(w.load), fx.Staged(x.load, store, REACH)]
    if fx.const_expr(scales is not None):
        producers.insert(0, fx.Registers(scales.load))
    pipeline = fx.Pipeline(config.k_tiles, STAGES, tuple(producers))
    pipeline.start()
    fragments = read(0, 0)
    tally.reset()
    for step in fx.pipeline_range(pipeline):
        for part in fx.range_constexpr(parts - 1):
            following = read(step.stage, part + 1)
            acc = multiply(acc, step.stage, part, fragments)
            fragments = following
        step.store()
        if fx.const_expr(parts > 1):
            hints(True)
        step.advance()
        following = fragments
        if not fx.const_expr(step.last):
            following = read(1 - step.stage, 0)
        acc = multiply(acc, step.stage, parts - 1, fragments)
        fragments = following
        hints(False)
    return acc


@flyc.jit
def _store(tensors, config, row, column, value):
    """Store, or add, consecutive columns of a row of the result."""
    element = OUT[config.out or config.dtype]
    at = pointer(tensors["out"], element) + (fx.Int64(row) * config.n + fx.Int64(column))
    value = value.to(element)
    if fx.const_expr(config.into == "token"):
        step = 1 if element is fx.Float32 else 2
        for i in fx.range_constexpr(0, value.numel, step):
            part = value.shuffle(value, list(range(i, i + step)))
            fx.llvm.atomic_add((at + i).llvm_ptr, part if step == 2 else part[0], syncscope="agent")
    else:
        width = min(value.numel, 128 // element.width)
        atom = fx.make_copy_atom(fx.UniversalCopy(width * element.width), element)
        for i in fx.range_constexpr(0, value.numel, width):
            register = fx.make_rmem_tensor(width, element)
            register.store(value.shuffle(value, list(range(i, i + width))))
            fx.copy(atom, register, fx.make_view(at + i, fx.make_layout(width, 1)))


@flyc.jit
def _finish(tensors, acc, config, expert, tokens, row, names, column, wave, lane_row, group):
    """Scales, bias, activation and routing weight of the accumulators, and the store."""
    op, across, streams = config.op, config.n_repeat * config.streams, config.streams
    count = op.acc_len
    columns = [column + (ni * 4 + wave) * 16 + group * count for ni in range(config.n_repeat)]
    biases = _of_columns(tensors["bias"], expert, columns, config) if config.bias else None
    by_rows = config.format.scales == "rows"
    factors = _of_columns(tensors["w_scale"], expert, columns, config) if by_rows else None
    for mi in fx.range_constexpr(config.m_repeat):
        place = row + mi * 16 + lane_row
        token, slot, exists = place, 0, place < tokens
        if fx.const_expr(config.routed):
            name = names.load(place, 1)[0]
            token, slot = name & TOKEN, (name >> 24) & 0xFF
            exists = token < tokens
        into = {"row": place, "token": token, "slot": token * config.topk + slot}[config.into]
        if exists:
            weight, of_row = fx.Float32(1.0), fx.Float32(1.0)
            if fx.const_expr(config.weighted):
                weight = (pointer(tensors["weights"], fx.Float32) + place).load()
            if fx.const_expr(by_rows):
                source = {"row": place, "token": token, "slot": token * config.topk + slot}[config.source]
                of_row = (pointer(tensors["x_scale"], fx.Float32) + source).load()
            for ni in fx.range_constexpr(config.n_repeat):
                values = [acc[mi * across + ni * streams + s].to(fx.Float32) for s in range(streams)]
                if fx.const_expr(by_rows):
                    values = [v * (f * of_row) for v, f in zip(values, factors[ni], strict=True)]
                if fx.const_expr(config.bias):
                    values = [v + b for v, b in zip(values, biases[ni], strict=True)]
                value = activate(*values, config) if config.gated else values[0]
                if fx.const_expr(config.weighted):
                    value = value * weight
                if columns[ni] < config.n:
                    _store(tensors, config, into, columns[ni], value)


def _of_columns(data: Any, expert: Any, columns: list[Any], config: GroupedConfig) -> list[list[Any]]:
    """f32[E, rows of w] of the columns of a lane: ``[ni][gate, up]`` vectors."""
    rows = config.n * config.streams
    buffer = Buffer(data, fx.Float32, fx.Int64(expert) * rows, rows)
    return [[_floats(buffer, at + s * config.n, config.op.acc_len) for s in range(config.streams)] for at in columns]


def _floats(buffer: Buffer, at: Any, count: int) -> Any:
    parts = [buffer.load(at + i, WORDS) for i in range(0, count, WORDS)]
    return fx.Vector.from_elements([part[i] for part in parts for i in range(WORDS)], fx.Float32)


def _uniform(value: Any) -> Any:
    """A value that is the same in all lanes, in a scalar register."""
    return fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, value))


@flyc.jit
def _tile(tensors, tokens, row, expert, names, column, config):
    """The tile of an expert's product from row `row` and column `column`."""
    thread = fx.thread_idx.x
    lane, wave = mod(thread, config.wave), _uniform(div(thread, config.wave))
    group, lane_row = div(lane, 16), mod(lane, 16)
    rows = tokens * config.topk if config.source == "slot" else tokens

    def row_of(inside):
        if fx.const_expr(not config.routed):
            return row + inside
        name = names.load(row + inside, 1)[0]
        token = name & TOKEN
        # Padding is of the token past the end.
        return token if config.source == "token" else token * config.topk + ((name >> 24) & 0xFF)

    memory, tally = Lds(), Tally()
    stages = [memory.array(fx.Int32, config.a_tile.words).ptr for _ in range(STAGES)]
    x = Gathered(tensors["x"], rows, row_of, config, tally)
    w, scales = Weights(tensors, expert, column, wave, lane, config, tally), None
    if fx.const_expr(config.format.scales == "blocks"):
        sources = [row_of(mi * 16 + lane_row) for mi in range(config.m_repeat)]
        scales = BlockScales(tensors, expert, sources, rows, column, wave, config, tally)
    with fx.fastmath("contract"):
        acc = multiply_all(x, w, scales, stages, config, tally, lane_row, group)
        _finish(tensors, acc, config, expert, tokens, row, names, column, wave, lane_row, group)


@flyc.kernel
def grouped_kernel(tensors, tokens: fx.Int32, sorted_rows: fx.Int32, config: fx.Constexpr):
    """A workgroup computes `block_m` rows of one expert and `block_n` columns."""
    block, column = div(fx.block_idx.x, config.columns), mod(fx.block_idx.x, config.columns) * config.block_n
    row = block * config.block_m
    if fx.const_expr(config.routed):
        valid = _uniform(Buffer(tensors["valid"], fx.Int32, None, 2).load(0, 1)[0])
        if row < valid:
            experts = Buffer(tensors["experts"], fx.Int32, None, fx.ceildiv(sorted_rows, config.block_m))
            expert = _uniform(experts.load(block, 1)[0])
            _tile(tensors, tokens, row, expert, Buffer(tensors["rows"], fx.Int32, None, sorted_rows), column, config)
    else:
        _tile(tensors, tokens, row, fx.Int32(0), None, column, config)


def launch_grouped(tensors: dict[str, Any], tokens: Any, blocks: Any, sorted_rows: Any, config: GroupedConfig,
                   stream: Any) -> None:
    """From a jit function: the products of `blocks` blocks of rows.

    Args:
        tensors: x, w, out; of routed rows also rows, experts, valid (of sorting), and as configured weights (sorted),
            bias f32[E, rows of w].
    """
    config.target.require_traced()
    grouped_kernel(tensors, tokens, sorted_rows, config).launch(
        grid=config.grid(blocks), block=config.threads, stream=stream)
