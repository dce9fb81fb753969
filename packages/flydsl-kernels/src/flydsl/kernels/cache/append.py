"""Keys and values of new tokens into their slots of paged caches, in any of the orders of :mod:`.layout`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS, element_of, float_dtype
from ..parts.index import cdiv, div, mod
from ..parts.indices import index_at, require_within, uniform
from ..parts.memory import Buffer
from ..target import Target, builder
from .block import CacheBlock
from .layout import BlockLayout

__all__ = ["AppendConfig", "build_cache_append_module"]

THREADS = 256
ACCESS_BITS = 128


@dataclass(frozen=True)
class AppendConfig(KernelConfig):
    """What is stored of a token: `dtype` to `cache_dtype`, in blocks of the layouts; `scaled`: divided by scales."""

    keys: BlockLayout
    values: BlockLayout
    dtype: str
    cache_dtype: str
    scaled: bool

    @property
    def threads(self) -> int:
        return THREADS

    def vec(self, layout: BlockLayout) -> int:
        """Features that a thread takes at once."""
        return math.gcd(layout.dim, ACCESS_BITS // FLOATS[self.dtype].width)

    def units(self, layout: BlockLayout) -> int:
        """Of all heads of a token."""
        return layout.heads * layout.dim // self.vec(layout)

    def extents(self, tokens: Any, blocks: Any) -> dict[str, Extent]:
        """What a launch takes of its operands."""
        stored, found = element_of(self.cache_dtype, self.target), {"slots": Extent(tokens)}
        for name, layout in (("k", self.keys), ("v", self.values)):
            found[name] = Extent(fx.Int64(tokens) * (layout.heads * layout.dim), FLOATS[self.dtype])
            found[f"{name}_cache"] = layout.cache(blocks, stored)
            if self.scaled:
                found[f"{name}_scale"] = Extent(1, fx.Float32)
        return found

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (m, cdiv(self.units(self.keys) + self.units(self.values), THREADS))


@flyc.jit
def _append(tensors, name, layout, unit, token, slot, config):
    """Store a unit of a token's keys or values."""
    vec = config.vec(layout)
    source = Buffer(tensors[name], FLOATS[config.dtype], fx.Int64(token) * (layout.heads * layout.dim),
                    layout.heads * layout.dim)
    scale = tensors[f"{name}_scale"] if config.scaled else None
    block = CacheBlock(tensors[f"{name}_cache"], layout, slot, scale, config)
    block.store(div(unit * vec, layout.dim), mod(unit * vec, layout.dim), source.load(unit * vec, vec))


@flyc.kernel
def cache_append_kernel(tensors, blocks: fx.Int32, config: fx.Constexpr):
    """Workgroup (token, some of its units); keys come first."""
    token, unit = fx.block_idx.x, fx.thread_idx.x + fx.block_idx.y * THREADS
    slot, keys, values = index_at(tensors["slots"], token), config.keys, config.values
    within = uniform(require_within((slot < 0).select(fx.Int64(0), slot), 0, fx.Int64(blocks) * keys.size))
    of_keys = config.units(keys)
    if slot >= 0:
        if unit < of_keys:
            _append(tensors, "k", keys, unit, token, within, config)
        else:
            if unit < of_keys + config.units(values):
                _append(tensors, "v", values, unit - of_keys, token, within, config)


@builder
def build_cache_append_module(keys: BlockLayout, values: BlockLayout, dtype: str = "bf16", cache: str = "bf16", *,
                              scaled: bool = False, target: Target) -> Any:
    """``launch(K, V, KeyCache, ValueCache, Slots, KScale, VScale, tokens, blocks, stream=None)``.

    Args:
        keys, values: layouts of a block of the caches; K and V are (tokens, heads, D or Dv) in row-major order.
        dtype: of K and V; `cache`: of the caches, the same or ``"fp8"``.
        scaled: the caches hold ``x / scale`` with KScale and VScale, f32 of one element; else any tensors.

    A token with a negative slot is not stored; slots of ``blocks * size`` and more stop the launch.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_cache_append_module"
    float_dtype(dtype, where)
    require(where, cache in (dtype, "fp8"), f"the caches must have the dtype {dtype} of the keys or fp8, got {cache}")
    require(where, not scaled or cache == "fp8", "scales are of fp8 caches")
    if cache == "fp8":
        target.require_fp8(where)
    config = AppendConfig(keys, values, dtype, cache, scaled, target=target).fitting(where)

    @flyc.jit
    def cache_append(K, V, KeyCache, ValueCache, Slots, KScale, VScale, tokens: fx.Int32,  # noqa: N803
                     blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"k": K, "v": V, "k_cache": KeyCache, "v_cache": ValueCache, "slots": Slots, "k_scale": KScale,
                   "v_scale": VScale}
        require_operands(tensors, config.extents(tokens, blocks))
        if tokens > 0:
            cache_append_kernel(tensors, blocks, config).launch(grid=config.grid(tokens), block=THREADS, stream=stream)

    return cache_append
