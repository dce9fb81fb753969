"""The grouped product: sorted rows of x, gathered through LDS, times the weights of their expert, from registers.

Four waves lie along the columns and interleave strips of 16. The matrix instruction gets the weights first, so that a
lane holds consecutive columns of one row: what belongs to a row (its place, routing weight and scale) is one value a
lane and tile. With `gated`, a wave has the strips of gate and up of the same columns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.index import div, mod
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import MainLoop, Staged
from ..parts.mathx import gelu, sigmoid, silu, tanh
from ..parts.memory import WORDS, Buffer
from ..parts.operand import Rows
from ..parts.products import TileProducts
from ..parts.reduce import Lds
from ..parts.rows import pointer
from ..parts.schedule import Tally, hot_loop_schedule
from .config import INT4_FACTOR, OUT, SWIGLU_LIMIT, WAVES, GroupedConfig
from .sources import BlockScales, ScaledProducts, Weights, WideRows, microscales, spread_fragments

__all__ = ["activate", "grouped_kernel", "launch_grouped"]

TOKEN = (1 << 24) - 1  # bits of a sorted row
STAGES = 2  # of x in LDS


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
def _finish(tensors, acc, config, expert, tokens, row, names, column, lane):
    """Scales, bias, activation and routing weight of the accumulators, and the store."""
    op, across, streams = config.op, config.n_repeat * config.streams, config.streams
    count = op.acc_len
    columns = [column + (ni * WAVES + lane.wave) * 16 + lane.group * count for ni in range(config.n_repeat)]
    biases = _of_columns(tensors["bias"], expert, columns, config) if config.bias else None
    by_rows, divisor = config.format.scales == "rows", INT4_FACTOR if config.format.b == "i4" else 1
    factors = _of_columns(tensors["w_scale"], expert, columns, config) if by_rows else None
    for mi in fx.range_constexpr(config.m_repeat):
        place = row + mi * 16 + lane.row
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
                source = source_of(token, slot, tokens, config) if config.routed else place
                of_row = (pointer(tensors["x_scale"], fx.Float32) + source).load()
            for ni in fx.range_constexpr(config.n_repeat):
                values = [acc[mi * across + ni * streams + s].to(fx.Float32) for s in range(streams)]
                if fx.const_expr(by_rows):
                    values = [v * (f * (of_row / divisor)) for v, f in zip(values, factors[ni], strict=True)]
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


def products_of(tensors: dict[str, Any], row_of: Any, rows: Any, expert: Any, column: Any, lane: Lane,
                config: GroupedConfig) -> MainLoop:
    """The loop over k: sources and products of the configuration's format."""
    op, tally, memory, scales = config.op, Tally(), Lds(), None
    stages = [memory.array(fx.Int32, config.a_tile.words).ptr for _ in range(STAGES)]
    if config.wide:
        x: Any = WideRows(tensors["x"], stages, lane, rows, row_of, config)
    else:
        x = Rows(tensors["x"], config.a_tile, stages, lane, rows_total=rows, row_bytes=config.a_row_words * 4,
                 row_of=row_of, ragged=config.ragged)
    w = Weights(tensors, expert, column, lane, config)
    sources: list[Any] = [w.source, Staged(x)]
    fragments = spread_fragments(stages, lane, config)
    kind = config.format.scales
    if kind in ("blocks", "micro"):
        where = tensors, expert, [row_of(mi * 16 + lane.row) for mi in range(config.m_repeat)], rows, column, lane
        if kind == "blocks":
            blocks = BlockScales(*where, config)
            sources.insert(1, blocks.source)
            products: Any = ScaledProducts(config, tally, fragments, w, blocks)
        else:
            held, scales = microscales(*where, config)
            sources.insert(1, held)
    if kind != "blocks":
        products = TileProducts(op, tally, config.m_repeat, config.n_repeat * config.streams,
                                config.blocks // op.blocks, fragments, w.of_b, scales=scales, swapped=True)
    orders = partial(hot_loop_schedule, early_writes=True), hot_loop_schedule
    return MainLoop(config.k_tiles, STAGES, sources, products, tally, STAGES, orders)


def source_of(token: Any, slot: Any, tokens: Any, config: GroupedConfig) -> Any:
    """The row of x of a token and slot; past the end for padding, which is of the token past the end."""
    if config.source == "slots":  # slot by slot
        return (token < tokens).select(slot * tokens + token, tokens * config.topk)
    return token if config.source == "token" else token * config.topk + slot


@flyc.jit
def _tile(tensors, tokens, row, expert, names, column, config):
    """The tile of an expert's product from row `row` and column `column`."""
    lane = lane_of(config.wave, scalar=True)
    rows = tokens * config.topk if config.source in ("slot", "slots") else tokens

    def row_of(inside):
        if fx.const_expr(not config.routed):
            return row + inside
        name = names.load(row + inside, 1)[0]
        token = name & TOKEN
        return source_of(token, (name >> 24) & 0xFF, tokens, config)

    loop = products_of(tensors, row_of, rows, expert, column, lane, config)
    with fx.fastmath("contract"):
        _finish(tensors, loop.run(), config, expert, tokens, row, names, column, lane)


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
