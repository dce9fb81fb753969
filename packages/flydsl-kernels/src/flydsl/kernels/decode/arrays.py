"""What callers give to decode attention: caches of either order, their scales, tables of pages; checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..cache.arrays import kind_of
from ..cache.layout import block_layouts
from ..host.arrays import MOST_EXTENT, contiguous, flat_of, strides_of, with_rows
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..target import Target

__all__ = ["Caches", "caches_of", "indices_of", "rows_of"]


MOST_SEQUENCES = 65535  # of a launch: y of its grid
WORD_BYTES = 4  # that a kernel addresses rows by


def rows_of(array: Any) -> Any:
    """The array if a kernel can address its rows, else a copy."""
    return with_rows(array, WORD_BYTES)


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

    def scale(self, where: str, name: str, scale: Any, absent: Any) -> tuple[Any, str]:
        """A scale of one of them as f32 vector, and its kind: one a head or one a token. What stands for it, and no
        kind, where there is none."""
        if scale is None:
            return absent, ""
        require(where, self.kind == "fp8", f"{name} is of fp8 caches, and these are {self.kind}")
        each = self.pages, self.heads, self.page
        shape, found = tuple(scale.shape), flat_of(scale, f"{where}: {name}", "f32")
        if len(found) == 1 and math.prod(each) > 1:
            return found, "tensor"
        if shape == (self.heads,):
            return found, "head"
        require(where, shape in (each, (*each, 1)), f"{name} must have one element, {self.heads} (key heads) or the "
                f"shape {each}, got {shape}")
        return found, "token"


def caches_of(where: str, target: Target, k_cache: Any, v_cache: Any, dtype: str, heads: int, dim: int) -> Caches:
    """Of any of the orders of :mod:`..cache.layout`."""
    kind = kind_of(where, target, dtype, k_cache, v_cache)
    keys, values = rows_of(k_cache), rows_of(v_cache)
    k, v, pages = block_layouts(where, keys, values)
    require(where, k.dim == v.dim == dim and k.heads > 0 and heads % k.heads == 0, f"caches must have heads of {dim} "
            f"elements, as q, and a number of heads that divides {heads}, got {tuple(k_cache.shape)} and "
            f"{tuple(v_cache.shape)}")
    packed = len(keys.shape) == 5
    token, unit = (v.feature_strides[0], v.position_strides[1]) if packed else v.position_strides
    strides = (k.block, k.position_strides[0], k.head_stride, k.feature_strides[1], v.block, token, v.head_stride, unit)
    options = {"key_unit": k.features[0], "value_unit": v.positions[0]} if packed else {}
    return Caches(keys, values, kind, pages, k.size, k.heads, strides, options)


def indices_of(where: str, table: Any, lengths: Any, batch: int) -> tuple[Any, Any]:
    require(where, batch <= MOST_SEQUENCES, f"at most {MOST_SEQUENCES} sequences are supported, got {batch}")
    for name, array in (("block_table", table), ("seqlens", lengths)):
        dtype_name(array, f"{where}: {name}", INDICES)
    require(where, len(table.shape) == 2 and table.shape[0] == batch and tuple(lengths.shape) == (batch,),
            f"block_table must be ({batch}, pages of a sequence) and seqlens ({batch},), got {tuple(table.shape)} and "
            f"{tuple(lengths.shape)}")
    near = strides_of(table)[0] * max(batch, 1) <= MOST_EXTENT  # a launch has steps of 32 bits
    return rows_of(table) if near else contiguous(table), contiguous(lengths)
