"""What callers give to decode attention: caches of either order, their scales, tables of pages; checked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..host.arrays import address, array_dtype, contiguous, is_torch
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..rope.cache import block_layouts
from ..target import Target
from .config import CACHES

__all__ = ["Caches", "cache_scale", "caches_of", "indices_of", "one_scale", "require_native", "rows_of", "strides_of"]


def strides_of(array: Any) -> tuple[int, ...]:
    return tuple(array.stride()) if is_torch(array) else tuple(s // array.itemsize for s in array.strides)


def rows_of(array: Any) -> Any:
    """The array if the elements of its rows are consecutive and rows begin at whole words, else a copy."""
    steps = strides_of(array)
    whole = all(s * array.itemsize % 4 == 0 for s in steps[:-1]) and address(array) % 4 == 0
    return array if (steps[-1] == 1 or array.shape[-1] < 2) and min(steps) >= 0 and whole else contiguous(array)


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


def require_native(where: str, target: Target, arrays: Iterable[tuple[str, Any, str]]) -> None:
    """ValueError if an array of fp8 (name, array, dtype) has not that of the target."""
    for name, array, kind in arrays:
        if kind == "fp8":
            target.require_fp8(where)
            native = array_dtype(target, array, "fp8")
            require(where, array.dtype == native, f"{target.name} has {native}, {name} is {array.dtype}")


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
    kinds = {dtype_name(c, f"{where}: {name}", (dtype, "fp8"))
             for name, c in (("k_cache", keys), ("v_cache", values))}
    require(where, len(kinds) == 1, f"the caches must have one dtype, got {k_cache.dtype} and {v_cache.dtype}")
    (kind,) = kinds
    require_native(where, target, (("k_cache", keys, kind), ("v_cache", values, kind)))
    strides = (k.block, k.position_strides[0], k.head_stride, k.feature_strides[1],
               v.block, v.feature_strides[0], v.head_stride, v.position_strides[1])
    return Caches(keys, values, kind, pages, k.size, k.heads, strides,
                   {"key_unit": k.features[0], "value_unit": v.positions[0]})


def one_scale(where: str, name: str, scale: Any, kind: str, absent: Any) -> Any:
    """A scale of a whole array of fp8 as a vector of one f32, or what stands for it where there is none."""
    if scale is None:
        return absent
    require(where, kind == "fp8", f"{name} is of fp8 caches or queries, and these are {kind}")
    dtype_name(scale, f"{where}: {name}", ("f32",))
    require(where, math.prod(scale.shape) == 1, f"{name} must have one element, got {tuple(scale.shape)}")
    return contiguous(scale).reshape(1)


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
