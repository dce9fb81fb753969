"""Norm, rotation and quantisation of the heads of latent attention, queries and the shared key-value row in one launch.

A head is normalised as a whole and its last features are rotated in neighbouring pairs. The scale of an fp8 group
bounds the values before the rotation times the root of two, which a rotation cannot exceed, so it needs no second pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import Extent, require_operands
from ..parts.convert import e8m0_value, to_quantised
from ..parts.indices import index_at, require_within
from ..parts.mathx import rsqrt
from ..parts.memory import Buffer, float_element
from ..parts.reduce import add, wave_reduce
from ..parts.rows import Columns, Place, RowPlan, Rows, plan_rows
from ..target import Target

__all__ = ["NormRopeConfig", "launch_norm_rope", "make_norm_rope"]

EPS, FLOOR = 1e-6, 1e-12
ROOT = math.sqrt(2.0)
LONGEST = 2048  # features that the lanes of a wave share
SCALES = ("fp32", "e8m0")


@dataclass(frozen=True)
class NormRopeConfig(KernelConfig):
    """Attributes:
        heads, rope: query heads of a token; rotated features at the end of each.
        plan: of a head's features over lanes.
        group: features that share a scale; 0: no quantisation.
        scale: ``"fp32"`` or ``"e8m0"``.
        weighted: the queries have a weight too.
    """

    heads: int
    rope: int
    plan: RowPlan
    group: int
    scale: str
    weighted: bool

    @property
    def threads(self) -> int:
        return self.plan.threads

    @property
    def groups(self) -> int:
        """Scales of a head."""
        return self.plan.n // self.group

    def extents(self, tokens: Any, table_rows: Any) -> dict[str, Extent]:
        """What a launch takes of its operands; tables and weights have a float type of their own."""
        n, table = self.plan.n, Extent(fx.Int64(table_rows) * (self.rope // 2))
        out = self.target.fp8 if self.group else fx.BFloat16
        found = {"positions": Extent(tokens), "cos": table, "sin": table, "kv_weight": Extent(n)}
        if self.weighted:
            found["q_weight"] = Extent(n)
        for name, rows in (("q", fx.Int64(tokens) * self.heads), ("kv", fx.Int64(tokens))):
            found.update({name: Extent(rows * n, fx.BFloat16), f"{name}_out": Extent(rows * n, out)})
            if self.group:
                found[f"{name}_scale"] = Extent(rows * self.groups, self.scale_element)
        return found

    @property
    def scale_element(self) -> Any:
        return fx.Float32 if self.scale == "fp32" else fx.Uint8

    def blocks(self, rows: Any) -> Any:
        """Workgroups of so many rows."""
        return fx.ceildiv(rows, self.plan.rows)


def make_norm_rope(where: str, target: Target, heads: int, dim: int, rope: int, group: int, scale: str,
                   weighted: bool) -> NormRopeConfig:
    """A checked configuration. ValueError: a size is not supported."""
    require(where, heads >= 1 and dim >= 8 and dim % 8 == 0 and dim <= LONGEST,
            f"head_dim must be a multiple of 8 up to {LONGEST}, got {dim} of {heads} heads")
    require(where, 0 < rope <= dim and rope % 8 == 0, f"rope_head_dim must be a multiple of 8 up to {dim}, got {rope}")
    require(where, scale in SCALES, f"scale_dtype must be one of {', '.join(SCALES)}, got {scale!r}")
    plan = plan_rows(dim, 16, target.wave)
    if group:
        target.require_fp8(where)
        lanes = group // plan.vec
        ok = group % plan.vec == 0 and dim % group == 0 and lanes & (lanes - 1) == 0
        require(where, ok and (lanes <= plan.lanes or group == dim),
                f"groups must divide {dim} and have {plan.vec} times a power of two features, got {group}")
    return NormRopeConfig(heads, rope, plan, group, scale, weighted, target=target)


def _rotated(x: Any, i: int, place: Place, config: NormRopeConfig, tables: Any, position: Any) -> Any:
    """The features of a tile, those of the last `rope` turned in pairs."""
    vec, first = config.plan.vec, config.plan.n - config.rope
    column = place.unit(i) * vec
    turns = column >= first
    pair = turns.select((column - first) // 2, 0)
    cos, sin = (t.load(position * (config.rope // 2) + pair, vec // 2).to(fx.Float32) for t in tables)
    out = []
    for j in range(vec // 2):
        even, odd = x[2 * j], x[2 * j + 1]
        out += [even * cos[j] - odd * sin[j], odd * cos[j] + even * sin[j]]
    return turns.select(fx.Vector.from_elements(out, fx.Float32), x)


def _scale_of(top: Any, rstd: Any, config: NormRopeConfig) -> tuple[Any, Any]:
    """(what is stored, what values before the norm are multiplied by) of a group's largest magnitude."""
    top = fx.maxnumf(top, fx.Float32(FLOOR))
    if config.scale == "fp32":
        most = config.target.fp8_max
        return top * rstd * (ROOT / most), most / (top * ROOT)
    bits = ((top * rstd * ROOT).bitcast(fx.Int32) + 0x400000) & 0x7F800000
    byte = fx.max((bits >> 23) - 7, 0)
    return byte, rstd / e8m0_value(byte)


@flyc.jit
def _rows(tensors, name, m, heads, weighted, place, tables, table_rows, config):
    """The rows of one matrix, (m, n), that the workgroup has; `heads` rows of a token."""
    plan, element = config.plan, fx.BFloat16
    x_rows = Rows(tensors[name], element, place)
    row = place.first + place.row
    position = require_within(index_at(tensors["positions"], fx.min(row, m - 1) // heads), 0, fx.Int64(table_rows))
    with fx.fastmath("contract"):
        x = [x_rows.load(i).to(fx.Float32) for i in range(plan.tiles)]
        square = x[0] * x[0]
        for v in x[1:]:
            square = square + v * v
        (square,) = wave_reduce([square.reduce("add")], add, plan.lanes)
        rstd = rsqrt(square * (1.0 / plan.n) + EPS)
        if fx.const_expr(weighted):
            weight = Columns(tensors[f"{name}_weight"], float_element(tensors[f"{name}_weight"], element), place)
            x = [v * weight.load(i).to(fx.Float32) for i, v in enumerate(x)]
        turned = [_rotated(v, i, place, config, tables, position) for i, v in enumerate(x)]
        if fx.const_expr(not config.group):
            out = Rows(tensors[f"{name}_out"], element, place)
            for i in fx.range_constexpr(plan.tiles):
                out.store(i, turned[i] * rstd)
        else:
            store_groups(tensors, name, m, row, place, [abs(v).reduce("max") for v in x], turned, rstd, config)


@flyc.jit
def store_groups(tensors, name, m, row, place, tops, values, rstd, config):
    """Store quantised values, and one scale for each group."""
    plan, lanes = config.plan, config.group // config.plan.vec
    out = Rows(tensors[f"{name}_out"], config.target.fp8, place)
    scales = Buffer(tensors[f"{name}_scale"], config.scale_element, None, fx.Int64(m) * config.groups)
    if fx.const_expr(lanes > plan.lanes):  # one group of all tiles
        top = tops[0]
        for t in tops[1:]:
            top = fx.maxnumf(top, t)
        tops = [top] * plan.tiles
    tops = wave_reduce(tops, fx.maxnumf, min(lanes, plan.lanes))
    for i in fx.range_constexpr(plan.tiles):
        stored, factor = _scale_of(tops[i], rstd, config)
        out.store(i, to_quantised(values[i] * factor, "fp8", "nearest", config.target))
        unit = place.unit(i)
        if (unit % lanes == 0) & (unit * plan.vec < plan.n) & (row < m):
            scales.store_one(row * config.groups + unit // lanes, stored)


@flyc.kernel
def norm_rope_kernel(tensors, tokens: fx.Int32, table_rows: fx.Int32, config: fx.Constexpr):
    """The first workgroups take query heads, the others key-value rows."""
    angles = fx.Int64(table_rows) * (config.rope // 2)
    tables = [Buffer(tensors[k], float_element(tensors[k], fx.BFloat16), None, angles) for k in ("cos", "sin")]
    queries = tokens * config.heads
    before = config.blocks(queries)
    if fx.block_idx.x < before:
        _rows(tensors, "q", queries, config.heads, config.weighted, Place(config.plan, queries), tables, table_rows,
              config)
    else:
        place = Place(config.plan, tokens, (fx.block_idx.x - before) * config.plan.rows)
        _rows(tensors, "kv", tokens, 1, True, place, tables, table_rows, config)


@flyc.jit
def launch_norm_rope(tensors: dict[str, Any], tokens: Any, table_rows: Any, config: NormRopeConfig,
                     stream: Any) -> None:
    """Launch from a jit function; nothing where there are no tokens. A call is refused whose operands do not fit."""
    config.target.require_traced()
    require_operands(tensors, config.extents(tokens, table_rows))
    if tokens > 0:
        norm_rope_kernel(tensors, tokens, table_rows, config).launch(
            grid=config.blocks(tokens * config.heads) + config.blocks(tokens), block=config.threads, stream=stream)
