"""Rotary embedding of queries and keys, fused with the write of keys and values into their paged caches.

A workgroup handles one token; its threads take units of the rows of queries, keys and values, in this order. The slot
of the token is wave-uniform, so the caches are addressed from the token's block, with 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..cache.block import CacheBlock
from ..cache.layout import BlockLayout
from ..host.config import KernelConfig
from ..host.dense import Extent, require_dense, require_operands, row_step, steps_of, strided_extent
from ..host.dtypes import FLOATS, element_of
from ..parts.index import cdiv, div, mod
from ..parts.indices import index_at, require_within, uniform
from ..parts.mathx import rsqrt
from ..parts.memory import Buffer, float_element
from ..parts.reduce import add, wave_reduce
from .config import Rotation
from .rotate import Angles, Unit, rotated

__all__ = ["CacheConfig", "launch_rope_cache"]

THREADS = 256
TABLES = ("cos", "sin")
FARTHEST = 1 << 28  # elements that an access reaches, and offsets that mean none lie beyond


@dataclass(frozen=True)
class CacheConfig(KernelConfig):
    """What a launch does with a token.

    Attributes:
        rotation: of the heads of queries and keys.
        values: of the heads of values: their units; nothing of it is rotated.
        q_heads, kv_heads: of a token.
        dtype, cache_dtype: of queries, keys and values; of the caches, the same or ``"fp8"``.
        keys_layout, values_layout: of the caches.
        scaled: the stored values are divided by scales.
        eps: queries and keys are normalised before they are rotated, each head by its root mean square and `eps` and
            times the weights; None: they are not.
        weight_offset: added to the weights in f32 (1 in norms of Gemma, whose weights are differences from one).
        spaced: tokens and heads of tensors (tokens, heads, features) may lie apart, and so may blocks of the caches and
            rows of the tables; else all are dense.
    """

    rotation: Rotation
    values: Rotation
    q_heads: int
    kv_heads: int
    dtype: str
    cache_dtype: str
    keys_layout: BlockLayout
    values_layout: BlockLayout
    scaled: bool
    eps: float | None = None
    weight_offset: float = 0.0
    spaced: bool = False

    @property
    def lanes(self) -> int:
        """Threads of a head of queries or keys: a power of two of one wave where they add up squares."""
        units = self.rotation.units
        return units if self.eps is None else min(1 << (units - 1).bit_length(), self.target.wave)

    @property
    def tiles(self) -> int:
        """Units of a head that a thread has, `lanes` apart."""
        return cdiv(self.rotation.units, self.lanes)

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def turning_units(self) -> int:
        """Threads for the queries and keys of a token."""
        return (self.q_heads + self.kv_heads) * self.lanes

    @property
    def heads(self) -> dict[str, tuple[int, int]]:
        """Heads of a token, and features of a head, of the operands that have them."""
        q, k = (self.q_heads, self.rotation.dim), (self.kv_heads, self.rotation.dim)
        return {"q": q, "k": k, "v": (self.kv_heads, self.values.dim), "q_out": q, "k_out": k}

    def strides(self, tensors: dict[str, Any], name: str) -> list[Any] | None:
        """Of tokens, heads and features, as they are given; None: the operand is dense."""
        return steps_of(tensors[name], 3) if self.spaced else None

    def steps(self, tensors: dict[str, Any], name: str) -> tuple[Any, Any]:
        """Elements between tokens and between heads."""
        given, (heads, dim) = self.strides(tensors, name), self.heads[name]
        return (heads * dim, dim) if given is None else (given[0], given[1])

    def apart(self, tensors: dict[str, Any], name: str, dense: Any) -> Any:
        """Elements between blocks of a cache or rows of a table, of which `dense` ones have so many."""
        step = row_step(tensors[name]) if self.spaced else None
        return dense if step is None else step

    def cache_layout(self, tensors: dict[str, Any], name: str) -> BlockLayout:
        """That of ``"k_cache"`` or ``"v_cache"``."""
        layout = self.keys_layout if name == "k_cache" else self.values_layout
        return replace(layout, block=self.apart(tensors, name, layout.block))

    def extents(self, tensors: dict[str, Any], tokens: Any, blocks: Any, table_rows: Any) -> dict[str, Extent]:
        """What a launch takes of its operands; tables and weights have a float type of their own."""
        element, stored = FLOATS[self.dtype], element_of(self.cache_dtype, self.target)
        columns, found = self.rotation.columns, {}
        for name in TABLES:
            found[name] = Extent(fx.Int64(table_rows) * columns)
            if self.spaced:
                found[name] = strided_extent(table_rows, self.apart(tensors, name, columns), None, (columns, 1))
        for name, (heads, dim) in self.heads.items():
            found[name] = Extent(fx.Int64(tokens) * (heads * dim), element)
            if self.strides(tensors, name) is not None:
                token, head = self.steps(tensors, name)
                found[name] = strided_extent(tokens, token, element, (heads, head), (dim, 1))
        for name in "kv":
            found[f"{name}_cache"] = self.cache_layout(tensors, f"{name}_cache").cache(blocks, stored)
            if self.scaled:
                found[f"{name}_scale"] = Extent(1, fx.Float32)
        if self.eps is not None:
            found.update(q_weight=Extent(self.rotation.dim), k_weight=Extent(self.rotation.dim))
        return {**found, "positions": Extent(tokens), "slots": Extent(tokens)}

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (m, cdiv(self.turning_units + self.kv_heads * self.values.units, THREADS))


@dataclass(frozen=True)
class _Held:
    """Two vectors of a head in a thread. `own`: Boolean: they are the thread's, not its substitute for none; None: all
    are."""

    unit: Unit
    own: Any
    values: tuple[Any, Any]


def _load(source: Buffer, row: Any, lane: Any, config: CacheConfig) -> list[_Held]:
    """The units of a thread of a head that begins at element `row`."""
    r, held = config.rotation, []
    for i in range(config.tiles):
        at = lane + i * config.lanes
        partial = (i + 1) * config.lanes > r.units
        unit = Unit(r, fx.min(at, r.units - 1) if partial else at)
        held.append(_Held(unit, at < r.units if partial else None, unit.load(source, row)))
    return held


def _normalised(held: list[_Held], weight: Any, config: CacheConfig) -> list[_Held]:
    """Those of a head divided by its root mean square, times their weights, in f32."""
    r, total = config.rotation, None
    wide = [[v.to(fx.Float32) for v in h.values] for h in held]
    for h, (a, b) in zip(held, wide, strict=True):
        square = (a * a).reduce("add") + (b * b).reduce("add")
        square = square if h.own is None else h.own.select(square, 0.0)
        total = square if total is None else total + square
    (total,) = wave_reduce([total], add, config.lanes)
    rstd = rsqrt(total * (1.0 / r.dim) + config.eps)
    weights = Buffer(weight, float_element(weight, fx.Float32), None, r.dim)
    out = []
    for h, values in zip(held, wide, strict=True):
        factors = [w.to(fx.Float32) for w in h.unit.load(weights, 0)]
        if config.weight_offset:
            factors = [w + config.weight_offset for w in factors]
        a, b = (v * rstd * w for v, w in zip(values, factors, strict=True))
        out.append(replace(h, values=(a, b)))
    return out


@flyc.jit
def _store_unit(held, out, row):
    if fx.const_expr(held.own is None):
        held.unit.store(out, row, held.values)
    else:
        if held.own:
            held.unit.store(out, row, held.values)


@flyc.kernel
def rope_cache_kernel(tensors, blocks: fx.Int32, table_rows: fx.Int32, config: fx.Constexpr):
    """One workgroup rotates a token's queries and keys and stores its keys and values."""
    r, v, element = config.rotation, config.values, FLOATS[config.dtype]
    token = fx.block_idx.x
    place = fx.thread_idx.x + fx.block_idx.y * THREADS
    position = require_within(index_at(tensors["positions"], token), 0, fx.Int64(table_rows))
    slot = index_at(tensors["slots"], token)
    size = config.keys_layout.size
    within = uniform(require_within((slot < 0).select(fx.Int64(0), slot), 0, fx.Int64(blocks) * size))
    kept = slot >= 0
    angles = Angles(tensors["cos"], tensors["sin"], table_rows, r,
                    tuple(config.apart(tensors, name, r.columns) for name in TABLES))

    def part(name):
        """What a token has of an operand, and the elements between its heads."""
        (heads, dim), (step, across) = config.heads[name], config.steps(tensors, name)
        across = across if isinstance(across, int) else across.to(fx.Int32)
        return Buffer(tensors[name], element, fx.Int64(token) * step, (heads - 1) * across + dim), across

    q_units, kv_units = config.q_heads * config.lanes, config.turning_units
    scales = [tensors[k] if config.scaled else None for k in ("k_scale", "v_scale")]
    if place < kv_units:
        lane, head = mod(place, config.lanes), div(place, config.lanes)

        def turn(name, head):
            source, across = part(name)
            with fx.fastmath("contract"):
                held = _load(source, head * across, lane, config)
                if config.eps is not None:
                    held = _normalised(held, tensors[f"{name}_weight"], config)
                turned = [rotated(h.unit, h.values, angles.of(position, h.unit)) for h in held]
            return [replace(h, values=tuple(x.to(element) for x in t)) for h, t in zip(held, turned, strict=True)]

        if place < q_units:
            out, across = part("q_out")
            for queries in turn("q", head):
                _store_unit(queries, out, head * across)
        else:
            head = head - config.q_heads
            out, across = part("k_out")
            for keys in turn("k", head):
                _store_unit(keys, out, head * across)
                if kept if keys.own is None else kept & keys.own:
                    cache = CacheBlock(tensors["k_cache"], config.cache_layout(tensors, "k_cache"), within, scales[0],
                                       config)
                    cache.store(head, keys.unit.first, keys.values[0], r.dim)
                    cache.store(head, keys.unit.second, keys.values[1], r.dim)
    else:
        if (place < kv_units + config.kv_heads * v.units) & kept:
            rest = place - kv_units
            head, at = div(rest, v.units), mod(rest, v.units) * (2 * v.vec)
            cache = CacheBlock(tensors["v_cache"], config.cache_layout(tensors, "v_cache"), within, scales[1], config)
            source, across = part("v")
            for i in fx.range_constexpr(2):
                feature = at + i * v.vec
                cache.store(head, feature, source.load(head * across + feature, v.vec), v.dim)


def _require_heads(name: str, tensors: dict[str, Any], tokens: Any, config: CacheConfig) -> None:
    """From a jit function: a call is refused whose tensor (tokens, heads, features) has strides that accesses have
    not."""
    given = config.strides(tensors, name)
    if given is None:
        return
    token, head, feature = given
    heads, dim = config.heads[name]
    vec = (config.values if name == "v" else config.rotation).vec
    fx.host_assert((feature == 1) | (tokens == 0), f"{name}: the features of a head must follow each other")
    for fits in ((token % vec == 0) | (tokens <= 1), head % vec == 0 if heads > 1 else True):
        fx.host_assert(fits, f"{name}: heads must begin at multiples of {vec} elements")
    fx.host_assert(head >= 0 if heads > 1 else True, f"{name}: heads must lie in ascending order")
    fx.host_assert((heads - 1) * head + dim < FARTHEST,
                   f"{name}: the heads of a token reach over {FARTHEST} elements or more")


def _require_table(name: str, tensors: dict[str, Any], rows: Any, config: CacheConfig) -> None:
    """The same of the rows of a table."""
    columns = config.rotation.columns
    step = config.apart(tensors, name, columns)
    if not isinstance(step, int) or step != columns:
        fx.host_assert((step % config.rotation.vec == 0) | (rows <= 1),
                       f"{name}: rows must begin at multiples of {config.rotation.vec} elements")
        fx.host_assert(fx.Int64(rows) * step < FARTHEST, f"{name}: the rows reach over {FARTHEST} elements or more")


@flyc.jit
def launch_rope_cache(tensors: dict[str, Any], tokens: Any, blocks: Any, table_rows: Any, config: CacheConfig,
                      stream: Any) -> None:
    """Launch from a jit function; nothing where there are no tokens. A call is refused whose operands do not fit."""
    config.target.require_traced()
    for name in config.heads:
        _require_heads(name, tensors, tokens, config)
    if fx.const_expr(config.spaced):
        require_dense({name: tensors[name] for name in (*TABLES, "k_cache", "v_cache")}, rows_apart=True)
    for name in TABLES:
        _require_table(name, tensors, table_rows, config)
    require_operands(tensors, config.extents(tensors, tokens, blocks, table_rows))
    if tokens > 0:
        rope_cache_kernel(tensors, blocks, table_rows, config).launch(
            grid=config.grid(tokens), block=config.threads, stream=stream)
