"""Products of rows that lie in the order of their experts, on gfx1250: tiles of the rows and of the weight come to LDS
by tensor moves, which workgroups of a cluster share.

Workgroups along the columns have the same rows; those along the rows the same weight, where their rows are of one
expert.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..gemm.config import run
from ..gemm.wmma_config import SLAB, WmmaConfig, wmma_config
from ..gemm.wmma_kernel import SCALE_ROWS, cluster_place, wmma_loop
from ..host.config import require
from ..parts.index import compute_mcast_masks, div, mod
from ..parts.indices import uniform
from ..parts.lane import Lane, lane_of
from ..parts.memory import Buffer, pointer
from ..parts.scales import RowScales
from ..target import target as current
from .finish import activate, floats

__all__ = ["launch_moe_gemm_a8w4"]

ACTIVATIONS = ("none", "silu", "swiglu")  # by number


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
    if not config.clustered:
        return 0, 0
    x, y = cluster_place()
    of_rows, _ = compute_mcast_masks(x, y, config.cluster_m, config.cluster_n)
    of_w, first = fx.Int32(0), row - x * config.tile_m
    for i in range(config.cluster_m):
        other = expert_of(tensors["ends"], first + i * config.tile_m, config.experts)
        same = fx.min(other, config.experts - 1) == expert
        of_w = of_w | same.select(fx.Int32(1 << i), fx.Int32(0))
    return of_rows, of_w << (y * config.cluster_m)


def _store(tensors: dict[str, Any], acc: list[Any], config: GroupedWmmaConfig, rows: Any, row: Any, column: Any,
           expert: Any, lane: Lane) -> None:
    """Bias and activation of a wave's part, from `row` and `column` on, of which `rows` rows exist."""
    count, gated = config.op.acc_len, config.activation != "none"
    c = Buffer(tensors["c"], config.out, fx.Int64(row) * config.columns, fx.max(rows, 0) * config.columns)
    bias = Buffer(tensors["bias"], fx.Float32, fx.Int64(expert) * config.n, config.n) if config.bias else None
    for ni in range(config.n_repeat):
        at = column + (ni * 16 + lane.group * count)
        addend = floats(bias, at, count) if bias is not None else None
        for mi in range(config.m_repeat):
            value = acc[mi * config.n_repeat + ni]
            value = value if addend is None else value + addend
            if gated:
                gate, up = (value.shuffle(value, list(range(p, count, 2))) for p in range(2))
                value = activate(gate, up, config.activation, config.limit)
            start = (mi * 16 + lane.row) * config.columns + (div(at, 2) if gated else at)
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
    if fx.const_expr(config.clustered):  # a cluster needs all of its workgroups
        m = (expert < config.experts).select(m, 0)
        _tile(tensors, m, row, fx.min(expert, config.experts - 1), config)
    elif expert < config.experts:
        _tile(tensors, m, row, expert, config)


@flyc.jit
def launch_moe_gemm_a8w4(c, a, b, sa, sb, M: fx.Int32, stream: fx.Stream, N: fx.Constexpr[int],  # noqa: N803
                         K: fx.Constexpr[int], tile_m: fx.Constexpr[int], tile_n: fx.Constexpr[int],  # noqa: N803
                         tile_k: fx.Constexpr[int], m_warp: fx.Constexpr[int], n_warp: fx.Constexpr[int],
                         out_is_f16: fx.Constexpr[int], num_buffers: fx.Constexpr[int],
                         a_is_fp4: fx.Constexpr[int], m_tile_map, n_experts: fx.Constexpr[int],
                         stage1_act: fx.Constexpr[int], has_bias: fx.Constexpr[int], bias,
                         swiglu_limit: fx.Constexpr[float], cluster_m: fx.Constexpr[int] = 1,
                         cluster_n: fx.Constexpr[int] = 1):
    """``c = act(a w[expert]^T + bias[expert])`` on gfx1250 of rows in the order of their experts.

    Each expert's rows begin at a multiple of tile_m, and end before ``m_tile_map[expert]`` (i32, ascending); what is
    behind the last is not written.

    Args:
        c: bf16 (f16 if `out_is_f16`) (M, N), or (M, N/2) with an activation.
        a: e4m3 (M, K), or fp4 (M, K/2 bytes) if `a_is_fp4`; sa: its e8m0 scales (M, K/32) as
            ``view(M/tile_m, tile_m/16, 16, K/128, 4).permute(0, 2, 3, 1, 4)``.
        b: fp4 (n_experts, N, K/2 bytes), each expert's by ``preshuffle_b_16x16``; sb: its scales, each expert's by
            ``shuffle_scale_32x4``.
        stage1_act: 0 none, 1 silu, 2 swiglu; gate and up rows of b alternate.
        bias: f32 (n_experts, N) if `has_bias`.
        swiglu_limit: of gate and up if it is positive; 7 otherwise for swiglu.
        cluster_m, cluster_n: workgroups along the rows and columns that load what they share once.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    config = _config(current(), N, K, (tile_m, tile_n, tile_k), (m_warp, n_warp), "f16" if out_is_f16 else "bf16",
                     num_buffers, "fp4" if a_is_fp4 else "fp8", n_experts, stage1_act, bool(has_bias), swiglu_limit,
                     (cluster_m, cluster_n))
    tensors = {"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb, "ends": m_tile_map, "bias": bias}
    run(grouped_wmma_kernel, tensors, M, config, stream)


def _config(target: Any, n: int, k: int, tile: tuple[int, int, int], waves: tuple[int, int], out: str, stages: int,
            a_dtype: str, experts: int, activation: int, bias: bool, limit: float,
            cluster: tuple[int, int]) -> GroupedWmmaConfig:
    where = "launch_moe_gemm_a8w4"
    require(where, activation in (0, 1, 2), f"stage1_act must be 0, 1 or 2, got {activation}")
    require(where, experts >= 1, f"n_experts must be positive, got {experts}")
    require(where, n % 32 == 0, f"N must be a multiple of 32, got {n}")
    base = wmma_config(where, target, n=n, k=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2], m_waves=waves[0],
                       n_waves=waves[1], a_dtype=a_dtype, b_dtype="fp4", out_dtype=out, scales="mx", stages=stages,
                       cluster_m=cluster[0], cluster_n=cluster[1])
    given = {field.name: getattr(base, field.name) for field in fields(base)}
    return GroupedWmmaConfig(**given, experts=experts, activation=ACTIVATIONS[activation], limit=limit or None,
                             bias=bias)
