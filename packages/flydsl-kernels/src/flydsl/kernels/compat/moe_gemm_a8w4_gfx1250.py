"""Products of rows that lie in the order of their experts, on gfx1250: tiles of the rows and of the weight come to LDS
by tensor moves, which workgroups of a cluster share.

Workgroups along the columns have the same rows; those along the rows the same weight, where their rows are of one
expert.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.wmma import SCALE_ROWS, SLAB, WmmaConfig, cluster_place, wmma_config, wmma_loop
from flydsl.kernels.host.config import require
from flydsl.kernels.host.dense import Extent
from flydsl.kernels.parts.epilogue import gated
from flydsl.kernels.parts.index import div, mod
from flydsl.kernels.parts.indices import uniform
from flydsl.kernels.parts.lane import Lane, lane_of
from flydsl.kernels.parts.matrix import MICRO_GROUP
from flydsl.kernels.parts.memory import Buffer, pointer
from flydsl.kernels.parts.scales import RowScales
from flydsl.kernels.target import Target

__all__ = ["GroupedWmmaConfig", "grouped_wmma_config", "grouped_wmma_kernel"]


@dataclass(frozen=True, kw_only=True)
class GroupedWmmaConfig(WmmaConfig):
    """A product of gfx1250 whose rows are of experts.

    Attributes:
        experts: their number; n rows of w are of one.
        activation: gate and up rows of w alternate, and the result has n/2 columns; ``"none"``: n.
        limit: of the activation.
        bias: f32 (experts, n) is added.
    """

    experts: int
    activation: str = "none"
    limit: float | None = None
    bias: bool = False

    @property
    def columns(self) -> int:
        """Of the result."""
        return self.n if self.activation == "none" else self.n // 2

    def extents(self, m: Any) -> dict[str, Extent]:
        rows, scales = self.experts * self.n, self.k // MICRO_GROUP
        found = {"a": super().extents(m)["a"], "b": Extent(rows * self.k, self.stored[1]),
                 "c": Extent(fx.Int64(m) * self.columns, self.out), "scale_a": Extent(fx.Int64(m) * scales, fx.Uint8),
                 "scale_b": Extent(rows * scales, fx.Uint8), "ends": Extent(self.experts, fx.Int32)}
        return {**found, "bias": Extent(rows, fx.Float32)} if self.bias else found


def expert_of(ends: Any, row: Any, experts: int) -> Any:
    """The first expert whose rows end after `row`, by bisection; `experts` if there is none."""
    buffer, expert, step = Buffer(ends, fx.Int32, None, experts), fx.Int32(0), 1 << experts.bit_length() - 1
    while step:
        last = expert + (step - 1)
        passed = (last < experts) & (buffer.load(fx.min(last, experts - 1), 1)[0] <= row)
        expert, step = passed.select(expert + step, expert), step // 2
    return uniform(expert)


def _scales(tensors: dict[str, Any], config: GroupedWmmaConfig, m: Any, row: Any, column: Any, expert: Any,
            lane: Lane) -> tuple[RowScales, RowScales]:
    """Of the rows and columns of a wave. Of a tile of rows, the words of those with the same remainder by 16 lie
    together; of the weight, those of 32 rows."""
    words, repeat, size = config.k // 128, config.tile_m // 16, config.tile_m

    def place_a(at: Any) -> Any:
        return (div(at, size) * size + mod(at, 16) * repeat) * words + div(mod(at, size), 16)

    def place_b(at: Any) -> Any:
        return div(at, SCALE_ROWS) * (SCALE_ROWS * words) + mod(at, SCALE_ROWS)

    a = Buffer(tensors["scale_a"], fx.Int32, None, fx.Int64(m) * words)
    b = Buffer(tensors["scale_b"], fx.Int32, fx.Int64(expert) * (config.n * words), config.n * words)
    return (RowScales(a, place_a, repeat, 2, row, config.m_repeat, SCALE_ROWS, lane.lane),
            RowScales(b, place_b, SCALE_ROWS, SCALE_ROWS * words, column, config.n_repeat, SCALE_ROWS, lane.lane))


def _masks(tensors: dict[str, Any], config: GroupedWmmaConfig, row: Any, expert: Any) -> tuple[Any, Any]:
    """Workgroups of the cluster that share the tile of the rows, and that of the weight."""
    if not config.cluster:
        return 0, 0
    x, y = cluster_place()
    of_rows, _ = fx.rocdl.cluster.compute_mcast_masks(x, y, config.cluster_m, config.cluster_n)
    of_w, first = fx.Int32(0), row - x * config.tile_m
    for i in range(config.cluster_m):
        other = expert_of(tensors["ends"], first + i * config.tile_m, config.experts)
        same = fx.min(other, config.experts - 1) == expert
        of_w = of_w | same.select(fx.Int32(1 << i), fx.Int32(0))
    return of_rows, of_w << (y * config.cluster_m)


def _store(tensors: dict[str, Any], acc: list[Any], config: GroupedWmmaConfig, rows: Any, row: Any, column: Any,
           expert: Any, lane: Lane) -> None:
    """Bias and activation of a wave's part, from `row` and `column` on, of which `rows` rows exist."""
    count, halved = config.op.acc_len, config.activation != "none"
    c = Buffer(tensors["c"], config.out, fx.Int64(row) * config.columns, fx.max(rows, 0) * config.columns)
    bias = Buffer(tensors["bias"], fx.Float32, fx.Int64(expert) * config.n, config.n) if config.bias else None
    for ni in range(config.n_repeat):
        at = column + (ni * 16 + lane.group * count)
        addend = bias.load(at, count) if bias is not None else None
        for mi in range(config.m_repeat):
            value = acc[mi * config.n_repeat + ni]
            value = value if addend is None else value + addend
            if halved:
                gate, up = (value.shuffle(value, list(range(p, count, 2))) for p in range(2))
                value = gated(gate, up, config.activation, config.limit)
            start = (mi * 16 + lane.row) * config.columns + (div(at, 2) if halved else at)
            c.store(start, value.to(config.out))


@flyc.jit
def _tile(tensors, m, row, expert, config):
    """A tile of the result; rows from `m` on do not exist."""
    lane, column = lane_of(config.target.wave, scalar=True), fx.block_idx.y * config.tile_n
    wave_row, wave_column = config.wave_place(lane)
    w = pointer(tensors["b"], fx.Int32) + fx.Int64(expert) * (config.n // SLAB * (config.b_row_bytes // 4))
    scales = _scales(tensors, config, m, row + wave_row, column + wave_column, expert, lane)
    loop = wmma_loop(config, pointer(tensors["a"], fx.Int32), w, m, row, column, lane,
                     _masks(tensors, config, row, expert), scales)
    acc = loop.run()
    first = row + wave_row
    _store(tensors, acc, config, fx.min(m - first, config.m_repeat * 16), first, column + wave_column, expert, lane)


@flyc.kernel
def grouped_wmma_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """A workgroup computes `tile_m` rows of one expert and `tile_n` rows of its weight."""
    row = fx.block_idx.x * config.tile_m
    expert = expert_of(tensors["ends"], row, config.experts)
    if fx.const_expr(config.cluster is not None):  # a cluster needs all of its workgroups
        m = (expert < config.experts).select(m, 0)
        _tile(tensors, m, row, fx.min(expert, config.experts - 1), config)
    elif expert < config.experts:
        _tile(tensors, m, row, expert, config)


def grouped_wmma_config(where: str, target: Target, *, experts: int, activation: str, limit: float | None, bias: bool,
                        **fields: Any) -> GroupedWmmaConfig:
    """A checked configuration, with `fields` of :func:`..gemm.wmma.wmma_config`. ValueError says what is not
    supported."""
    base = wmma_config(where, target, b_dtype="fp4", scales="mx", **fields)
    require(where, experts >= 1, f"n_experts must be positive, got {experts}")
    require(where, base.n % SCALE_ROWS == 0, f"N must be a multiple of {SCALE_ROWS}, got {base.n}")
    given = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
    return GroupedWmmaConfig(**given, experts=experts, activation=activation, limit=limit, bias=bias)
