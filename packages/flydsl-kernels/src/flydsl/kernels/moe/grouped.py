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
from ..parts.epilogue import FAR
from ..parts.index import align_up, div, mod
from ..parts.mathx import gelu, sigmoid, silu, tanh
from ..parts.memory import WORDS, Buffer
from ..parts.reduce import Lds
from ..parts.rows import pointer
from .config import OUT, SWIGLU_LIMIT, GroupedConfig

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
    """Fragments of the shuffled weight of an expert, in registers.

    Attributes:
        strips: of this wave: ``[column strip][gate, up]``.
    """

    def __init__(self, data: Any, expert: Any, column: Any, wave: Any, lane: Any, config: GroupedConfig,
                 tally: Tally) -> None:
        self._config, self._tally = config, tally
        expert_words = config.rows_b // 16 * config.strip_words
        self._buffer = Buffer(data, fx.Int32, fx.Int64(expert) * expert_words, expert_words)
        # A load takes as many chunks as fit 16 bytes.
        self._together = max(WORDS // config.chunk_words, 1) if config.chunk_words < 2 else 1
        self._words = self._together * config.chunk_words
        up = align_up(config.n, 16) // 16
        first = [div(column, 16) + ni * 4 + wave for ni in range(config.n_repeat)]
        self._places = [(strip + up * s) * config.strip_words + lane * self._words
                        for strip in first for s in range(config.streams)]
        self._count = config.blocks // self._together
        self.values = [[[fx.make_rmem_tensor(self._words, fx.Int32) for _ in range(self._count)]
                        for _ in self._places] for _ in range(STAGES)]
        self._atom = fx.make_copy_atom(fx.rocdl.BufferCopy(self._words * 32), fx.Int32)

    def load(self, t: Any, stage: int) -> None:
        step = self._config.wave * self._words
        for i in range(self._count):  # in the order in which they are multiplied
            for place, registers in zip(self._places, self.values[stage], strict=True):
                view = self._buffer.view(place + i * step, self._words)
                fx.copy(self._atom, view, registers[i], soffset=t * (step * self._count))
        self._tally.add("vmem", len(self._places) * self._count)

    def chunks(self, stage: int, strip: int, block: int) -> list[Any]:
        """The chunks of a call from block `block` on."""
        return [self.values[stage][strip][block + i].load() for i in range(self._config.op.blocks)]


@flyc.jit
def multiply_all(x, w, stages, config, tally, lane_row, group):
    """The accumulators ``[row tile][strip]`` of the whole reduction."""
    op, tile = config.op, config.a_tile
    readers = [tile.reader(base, lane_row, group, op.groups) for base in stages]
    size = part_rows(config.m_repeat)
    groups, calls = config.m_repeat // size, config.blocks // op.blocks
    parts, across = calls * groups, config.n_repeat * config.streams

    def read(stage, part):
        call, first = part // groups, part % groups * size
        tally.add("ds_read", size * op.blocks)
        return [[readers[stage](first + i, call * op.blocks + b) for b in range(op.blocks)] for i in range(size)]

    def multiply(acc, stage, part, fragments):
        call, first = part // groups, part % groups * size
        right = [w.chunks(stage, s, call * op.blocks) for s in range(across)]
        start = first * across
        places = [(i, s) for i in range(size) for s in range(across)]
        sums = op.multiply_all([(right[s], fragments[i], acc[start + i * across + s]) for i, s in places])
        tally.add("mfma", len(places) * op.instructions)
        return [*acc[:start], *sums, *acc[start + len(sums):]]

    def hints(early):
        counts = tally.take()
        hot_loop_schedule(counts, early_writes=early).emit(counts)
        fx.rocdl.sched_barrier(0)

    def store(slot, stage):
        x.store(slot, stages[stage])

    acc = [op.zero() for _ in range(config.m_repeat * across)]
    pipeline = fx.Pipeline(config.k_tiles, STAGES, (fx.Registers(w.load), fx.Staged(x.load, store, REACH)))
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
    biases = None
    if fx.const_expr(config.bias):
        bias = Buffer(tensors["bias"], fx.Float32, fx.Int64(expert) * (config.n * streams), config.n * streams)
        biases = [[_floats(bias, at + s * config.n, count) for s in range(streams)] for at in columns]
    for mi in fx.range_constexpr(config.m_repeat):
        place = row + mi * 16 + lane_row
        token, slot, exists = place, 0, place < tokens
        if fx.const_expr(config.routed):
            name = names.load(place, 1)[0]
            token, slot = name & TOKEN, (name >> 24) & 0xFF
            exists = token < tokens
        into = {"row": place, "token": token, "slot": token * config.topk + slot}[config.into]
        if exists:
            weight = fx.Float32(1.0)
            if fx.const_expr(config.weighted):
                weight = Buffer(tensors["weights"], fx.Float32, fx.Int64(place), 1).load(0, 1)[0]
            for ni in fx.range_constexpr(config.n_repeat):
                values = [acc[mi * across + ni * streams + s].to(fx.Float32) for s in range(streams)]
                if fx.const_expr(config.bias):
                    values = [v + b for v, b in zip(values, biases[ni], strict=True)]
                value = activate(*values, config) if config.gated else values[0]
                if fx.const_expr(config.weighted):
                    value = value * weight
                if columns[ni] < config.n:
                    _store(tensors, config, into, columns[ni], value)


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
    w = Weights(tensors["w"], expert, column, wave, lane, config, tally)
    with fx.fastmath("contract"):
        acc = multiply_all(x, w, stages, config, tally, lane_row, group)
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
