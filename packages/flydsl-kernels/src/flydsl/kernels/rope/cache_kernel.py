"""Rotary embedding of queries and keys, fused with the write of keys and values into their paged caches.

A workgroup handles one token; its threads take units of the rows of queries, keys and values, in this order. The slot
of the token is wave-uniform, so the caches are addressed from the token's block, with 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dtypes import FLOATS, element_of
from ..parts.convert import to_quantised
from ..parts.index import cdiv, div, mod
from ..parts.indices import index_at, require_within, uniform
from ..parts.mathx import rsqrt
from ..parts.memory import Buffer, float_element, pointer
from ..parts.reduce import add, wave_reduce
from .cache import BlockLayout
from .config import Rotation
from .rotate import Angles, Unit, rotated

__all__ = ["CacheConfig", "launch_rope_cache"]

THREADS = 256
ROUNDS_TO_ZERO = 2.0**-11  # half of the smallest e4m3fnuz number; -0 is that type's NaN


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

    @property
    def lanes(self) -> int:
        """Threads of a head of queries or keys: a power of two where they add up squares."""
        units = self.rotation.units
        return units if self.eps is None else 1 << (units - 1).bit_length()

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def turning_units(self) -> int:
        """Threads for the queries and keys of a token."""
        return (self.q_heads + self.kv_heads) * self.lanes

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (m, cdiv(self.turning_units + self.kv_heads * self.values.units, THREADS))


def _stored(value: Any, config: CacheConfig, inverse: Any) -> Any:
    """A vector as it is kept in a cache."""
    if config.cache_dtype != "fp8":
        return value
    value = value.to(fx.Float32)
    value = value if inverse is None else value * inverse
    if config.target.fp8_name == "Float8E4M3FNUZ":
        value = ((value < 0.0) & (value >= -ROUNDS_TO_ZERO)).select(fx.full_like(value, 0.0), value)
    return to_quantised(value, "fp8", "nearest", config.target)


class _Block:
    """The block of a cache that a slot is in.

    Args:
        slot: Int32 of 0 or more, the same in the workgroup.
        scale: f32[1], or None.
    """

    def __init__(self, data: Any, layout: BlockLayout, slot: Any, scale: Any, config: CacheConfig) -> None:
        self._layout, self._config = layout, config
        self._element = element_of(config.cache_dtype, config.target)
        self._position = mod(slot, layout.size)
        start = fx.Int64(div(slot, layout.size)) * layout.block
        self._buffer = Buffer(data, self._element, start, layout.extent)
        self._inverse = None if scale is None else 1.0 / pointer(scale, fx.Float32).load()

    def store(self, head: Any, feature: Any, value: Any, dim: int) -> None:
        """Write consecutive features of a head; those past the end of the head are dropped."""
        value, layout = _stored(value, self._config, self._inverse), self._layout
        run = layout.run(value.numel)
        for i in range(0, value.numel, run):
            at = fx.get_scalar(fx.crd2idx((self._position, head, feature + i), layout.layout()))
            at = (feature + i < dim).select(at, (1 << 30) // (self._element.width // 8))
            self._buffer.store(at, value.shuffle(value, list(range(i, i + run))))


def _normalised(values: tuple[Any, Any], unit: Unit, own: Any, weight: Any, config: CacheConfig) -> tuple[Any, ...]:
    """Two vectors of a head divided by its root mean square, times their weights, in f32."""
    r, wide = config.rotation, [v.to(fx.Float32) for v in values]
    square = (wide[0] * wide[0]).reduce("add") + (wide[1] * wide[1]).reduce("add")
    square = square if own is None else own.select(square, 0.0)  # the last units' threads of nothing hold them too
    (square,) = wave_reduce([square], add, config.lanes)
    rstd = rsqrt(square * (1.0 / r.dim) + config.eps)
    weights = unit.load(Buffer(weight, float_element(weight, fx.Float32), None, r.dim), 0)
    factors = [w.to(fx.Float32) for w in weights]
    if config.weight_offset:
        factors = [w + config.weight_offset for w in factors]
    return tuple(v * rstd * w for v, w in zip(wide, factors, strict=True))


@flyc.jit
def _store_unit(unit, own, out, row, values):
    if fx.const_expr(own is None):
        unit.store(out, row, values)
    else:
        if own:
            unit.store(out, row, values)


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
    angles = Angles(tensors["cos"], tensors["sin"], table_rows, r)

    def part(name, heads, dim):
        return Buffer(tensors[name], element, fx.Int64(token) * (heads * dim), heads * dim)

    q_units, kv_units = config.q_heads * config.lanes, config.turning_units
    scales = [tensors[k] if config.scaled else None for k in ("k_scale", "v_scale")]
    if place < kv_units:
        lane = mod(place, config.lanes)
        unit = Unit(r, fx.min(lane, r.units - 1) if config.lanes > r.units else lane)
        own = lane < r.units if config.lanes > r.units else None
        head = div(place, config.lanes)

        def turn(name, heads, row):
            with fx.fastmath("contract"):
                values = unit.load(part(name, heads, r.dim), row)
                if config.eps is not None:
                    values = _normalised(values, unit, own, tensors[f"{name}_weight"], config)
                values = rotated(unit, values, angles.of(position, unit))
            return tuple(x.to(element) for x in values)

        if place < q_units:
            row = head * r.dim
            queries = turn("q", config.q_heads, row)
            _store_unit(unit, own, part("q_out", config.q_heads, r.dim), row, queries)
        else:
            head = head - config.q_heads
            row = head * r.dim
            keys = turn("k", config.kv_heads, row)
            _store_unit(unit, own, part("k_out", config.kv_heads, r.dim), row, keys)
            if kept if own is None else kept & own:
                cache = _Block(tensors["k_cache"], config.keys_layout, within, scales[0], config)
                cache.store(head, unit.first, keys[0], r.dim)
                cache.store(head, unit.second, keys[1], r.dim)
    else:
        if (place < kv_units + config.kv_heads * v.units) & kept:
            rest = place - kv_units
            head, at = div(rest, v.units), mod(rest, v.units) * (2 * v.vec)
            cache = _Block(tensors["v_cache"], config.values_layout, within, scales[1], config)
            source = part("v", config.kv_heads, v.dim)
            for i in fx.range_constexpr(2):
                feature = at + i * v.vec
                cache.store(head, feature, source.load(head * v.dim + feature, v.vec), v.dim)


@flyc.jit
def launch_rope_cache(tensors: dict[str, Any], tokens: Any, blocks: Any, table_rows: Any, config: CacheConfig,
                      stream: Any) -> None:
    """Launch from a jit function; nothing where there are no tokens."""
    config.target.require_traced()
    if tokens > 0:
        rope_cache_kernel(tensors, blocks, table_rows, config).launch(
            grid=config.grid(tokens), block=config.threads, stream=stream)
