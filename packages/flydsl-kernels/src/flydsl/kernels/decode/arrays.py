"""What callers give to decode attention: caches of either order, their scales, tables of pages; checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..cache.arrays import kind_of, require_native
from ..cache.layout import block_layouts
from ..host.arrays import contiguous, strides_of, with_rows
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..target import Target
from .config import CACHES

__all__ = ["Caches", "cache_scale", "caches_of", "indices_of", "rows_of"]


WORD_BYTES = 4  # that a kernel addresses rows by


def rows_of(array: Any) -> Any:
    """The array if a kernel can address its rows, else a copy."""
    return with_rows(array, WORD_BYTES)


def _cache(where: str, name: str, target: Target, cache: Any, dtype: str, heads: int, dim: int) -> tuple[Any, str]:
    """A cache [pages, page, heads, dim] with consecutive rows, and its dtype."""
    require(where, len(cache.shape) == 4, f"{name} must be [pages, page, heads, D], got {tuple(cache.shape)}")
    require(where, cache.shape[3] == dim and cache.shape[2] >= 1 and heads % cache.shape[2] == 0,
            f"{name} must have heads of {dim} elements, as q, and a number of heads that divides {heads}, got "
            f"{tuple(cache.shape)}")
    kind = dtype_name(cache, f"{where}: {name}", CACHES)
    require(where, kind in (dtype, "fp8"), f"{name} must be {dtype} as q or fp8, got {kind}")
    require_native(where, target, ((name, cache, kind),))
    return rows_of(cache), kind


@dataclass(frozen=True)
class Caches:
    """Checked caches of keys and values, with what a launcher is told of them.

    Attributes:
        strides: of keys, then of values: pages, tokens (features of packed values), heads, units.
        options: static ones.
    """

    keys: Any
    values: Any
    kind: str
    pages: int
    page: int
    heads: int
    strides: tuple[int, ...]
    options: dict[str, int]


def caches_of(where: str, target: Target, k_cache: Any, v_cache: Any, dtype: str, heads: int, dim: int) -> Caches:
    """Of either order."""
    if len(k_cache.shape) == 5:
        return _packed(where, target, k_cache, v_cache, dtype, heads, dim)
    keys, kind = _cache(where, "k_cache", target, k_cache, dtype, heads, dim)
    values, other = _cache(where, "v_cache", target, v_cache, dtype, heads, dim)
    require(where, tuple(k_cache.shape) == tuple(v_cache.shape) and kind == other, "the caches must have one shape "
            f"and dtype, got {tuple(k_cache.shape)} {k_cache.dtype} and {tuple(v_cache.shape)} {v_cache.dtype}")
    pages, page, kv_heads, _ = k_cache.shape
    strides = (*strides_of(keys)[:3], 0, *strides_of(values)[:3], 0)
    return Caches(keys, values, kind, pages, page, kv_heads, strides, {})


def _packed(where: str, target: Target, k_cache: Any, v_cache: Any, dtype: str, heads: int, dim: int) -> Caches:
    """Keys [pages, heads, D/x, page, x] with values [pages, heads, D, page] or [pages, heads, page/x, D, x]."""
    keys, values = rows_of(k_cache), rows_of(v_cache)
    k, v, pages = block_layouts(where, keys, values)
    require(where, k.dim == v.dim == dim and heads % k.heads == 0, f"packed caches must have heads of {dim} elements, "
            f"as q, and a number of heads that divides {heads}, got {tuple(k_cache.shape)} and {tuple(v_cache.shape)}")
    kind = kind_of(where, target, dtype, keys, values)
    strides = (k.block, k.position_strides[0], k.head_stride, k.feature_strides[1],
               v.block, v.feature_strides[0], v.head_stride, v.position_strides[1])
    return Caches(keys, values, kind, pages, k.size, k.heads, strides,
                   {"key_unit": k.features[0], "value_unit": v.positions[0]})


def cache_scale(where: str, name: str, scale: Any, pages: int, heads: int, page: int, cache: str) -> tuple[Any, str]:
    """A scale of a cache as f32 vector, and its kind: one a head or one a token."""
    if scale is None:
        return None, ""
    require(where, cache == "fp8", f"{name} is of fp8 caches, and these are {cache}")
    dtype_name(scale, f"{where}: {name}", ("f32",))
    shape = tuple(scale.shape)
    if math.prod(shape) == 1 and heads * page * pages > 1:
        return contiguous(scale).reshape(1), "tensor"
    if shape == (heads,):
        return contiguous(scale), "head"
    require(where, shape in ((pages, heads, page), (pages, heads, page, 1)), f"{name} must have one element, {heads} "
            f"(key heads) or the shape {(pages, heads, page)}, got {shape}")
    return contiguous(scale).reshape(math.prod(shape)), "token"


def indices_of(where: str, table: Any, lengths: Any, batch: int) -> tuple[Any, Any]:
    for name, array in (("block_table", table), ("seqlens", lengths)):
        dtype_name(array, f"{where}: {name}", INDICES)
    require(where, len(table.shape) == 2 and table.shape[0] == batch and tuple(lengths.shape) == (batch,),
            f"block_table must be ({batch}, pages of a sequence) and seqlens ({batch},), got {tuple(table.shape)} and "
            f"{tuple(lengths.shape)}")
    return rows_of(table), contiguous(lengths)
