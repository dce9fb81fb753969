"""What a decode kernel computes, and how its matrix instructions see queries, keys and values."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..attention.config import ARCHS, AttentionConfig, Matrix, Order
from ..cache.pages import BLOCK
from ..host.config import require
from ..host.dense import Extent, rows_extent, strided_extent
from ..host.dtypes import FLOATS
from ..parts.index import cdiv
from ..target import Target

__all__ = ["ARCHS", "ACCESS", "BLOCK", "CACHES", "MOST_QUERIES", "DecodeConfig", "PagedConfig", "paged_config",
           "require_supported"]

ACCESS = 16  # bytes of the widest load of a lane
WAVES = 4
MOST_QUERIES = 16  # tokens of a sequence that are decoded together
HEAD_DIMS = range(64, 257, 32)
CACHES = ("f16", "bf16", "fp8")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(AttentionConfig):
    """What kernels of decode attention have in common. Pages are given, and instructions are of 16 x 16.

    Attributes:
        queries: tokens of a sequence that are decoded together.
        out: dtype of the result.
        dim: columns of values and of the result.
        parts_dtype: of the parts of contexts.
        lists: whether page numbers of sequences follow each other in one list, instead of rows of a table.
    """

    queries: int
    out: str
    dim: int
    parts_dtype: str = "f32"
    lists: bool = False

    @property
    def matrix(self) -> Matrix:
        return Matrix(BLOCK, self.target.half_k)

    @property
    def head_rows(self) -> int:
        """Query rows of a key head: tokens x heads of the group, heads fastest."""
        return self.group * self.queries

    @property
    def groups(self) -> int:
        """Of waves; each takes rows of its own."""
        return self.waves // self.sharing

    @property
    def rows(self) -> int:
        """Queries of a workgroup."""
        return self.groups * self.wave_rows

    @property
    def row_blocks(self) -> int:
        """Workgroups that share the rows of a key head."""
        return cdiv(self.head_rows, self.rows)

    @property
    def step(self) -> int:
        """Tokens that a workgroup takes at a time."""
        return self.keys

    def extents(self, sizes: Any, batch: Any, combined: bool) -> dict[str, Extent]:
        """What a launch takes of its operands; `sizes` are those of :class:`.kernel.Sizes`, and parts are added to the
        result if they are `combined`."""
        rows = fx.Int64(batch) * self.queries * sizes.heads
        found = {"lengths": Extent(batch), **self.cache_extents(sizes)}
        if self.lists:
            found.update(table=Extent(sizes.columns), starts=Extent(fx.Int64(batch) + 1))
        else:
            found["table"] = rows_extent(batch, fx.Int64(sizes.table_stride), sizes.columns, None, told=True)
        if combined or not self.split:
            found["out"] = Extent(rows * self.dim, FLOATS[self.out])
        if self.split:
            parts = rows * sizes.parts
            found.update(parts=Extent(parts * self.dim, FLOATS[self.parts_dtype]), lse=Extent(parts, fx.Float32))
        if self.sink:
            found["sink"] = Extent(sizes.heads, fx.Float32)
        return found

    def cache_extents(self, sizes: Any) -> dict[str, Extent]:
        """What a launch takes of the caches, which are where their strides say."""
        raise NotImplementedError

    @property
    def value_rows(self) -> int:
        """Consecutive tokens of 16 whose values a lane holds."""
        return BLOCK * BLOCK // self.target.wave


@dataclass(frozen=True, kw_only=True)
class PagedConfig(DecodeConfig):
    """Attention of a few query tokens of each sequence over its pages; each wave takes tokens of its own, of all rows.

    Attributes:
        key_scales, value_scales: of the cache: ``""``, ``"tensor"``, ``"head"`` or ``"token"``.
        key_unit: features of a key that lie together, before those of the next token; 0: all.
        value_unit: tokens of which the values of one feature lie together; 0: features of a token do.
    """

    key_scales: str = ""
    value_scales: str = ""
    key_unit: int = 0
    value_unit: int = 0

    @property
    def most(self) -> float:
        """Weights are multiplied by what their values are: they stay small."""
        return float(self.values) if self.value_scales == "token" else super().most

    @property
    def lds_bytes(self) -> int:
        return self.waves * BLOCK * 4 * (BLOCK * self.merge_unit + 4 + 2 * self.blocks)

    @property
    def step(self) -> int:
        return self.waves * self.keys

    def extents(self, sizes: Any, batch: Any, combined: bool) -> dict[str, Extent]:
        rows, heads = fx.Int64(batch) * self.queries * sizes.heads, sizes.heads // self.group
        scales = {"tensor": fx.Int32(1), "head": heads, "token": fx.Int64(sizes.pages) * heads * self.page}
        given = {"k_scale": self.key_scales, "v_scale": self.value_scales}
        return {**super().extents(sizes, batch, combined), "q": Extent(rows * self.dim, FLOATS[self.dtype]),
                **{name: Extent(scales[kind], fx.Float32) for name, kind in given.items() if kind}}

    def cache_extents(self, sizes: Any) -> dict[str, Extent]:
        keys, values, heads = sizes.keys, sizes.values, sizes.heads // self.group
        features, tokens = self.key_unit or self.dim, self.value_unit or self.page
        of_keys = (self.page, keys.token), (heads, keys.head), (self.dim // features, keys.unit), (features, 1)
        of_values = ((self.dim, values.token), (heads, values.head), (self.page // tokens, values.unit), (tokens, 1)) \
            if self.value_unit else ((self.page, values.token), (heads, values.head), (self.dim, 1))
        return {name: strided_extent(sizes.pages, strides.page, self.stored_element, *modes) for name, strides, modes in
                (("k_cache", keys, of_keys), ("v_cache", values, of_values))}

    @property
    def uniform(self) -> bool:
        """Whether the tokens of a block are of one page."""
        return self.page % BLOCK == 0

    @property
    def ahead(self) -> bool:
        """Whether keys and values are loaded a tile ahead; else there are registers for one of the two."""
        return self.target.wave == 64 or self.dim <= 64

    @functools.cached_property
    def key_chunk(self) -> int:
        lanes = self.target.wave // BLOCK
        widest = ACCESS * 8 // self.stored_element.width
        return widest if self.dim % max(lanes * widest, self.target.half_k) == 0 else 8

    @functools.cached_property
    def value_chunk(self) -> int:
        """Consecutive head elements of a value that a lane loads at once."""
        if self.value_unit:
            return 1
        chunk = ACCESS * 8 // self.stored_element.width
        while self.dim % (BLOCK * chunk):
            chunk //= 2
        return chunk

    @property
    def orders(self) -> tuple[tuple[Order, Order, Order], ...]:
        first, (_, rows, keys) = super().orders
        chunk = self.value_chunk
        return first, (((BLOCK, chunk, self.dim // (BLOCK * chunk)), (chunk, 1, BLOCK * chunk)), rows, keys)

    @property
    def hints(self) -> dict[str, Any]:
        """For the compiler: two waves share a SIMD, of 512 registers each, where they need more than 256."""
        return {"rocdl.waves_per_eu": 2} if self.target.register_quarters and self.dim > 128 else {}

    @property
    def merge_unit(self) -> int:
        """Blocks of 16 columns of the result that waves merge at a time; a lane stores as many neighbours."""
        return 4 if self.value_unit and self.dim % (4 * BLOCK) == 0 else 2 if self.value_unit else min(
            self.value_chunk, 4)


def require_supported(where: str, target: Target, queries: int, out: str, page: int, *kinds: str) -> None:
    """ValueError, naming the builder, for what no decode kernel has; `kinds`: dtypes of queries and caches."""
    target.require(where, *ARCHS)
    require(where, 1 <= queries <= MOST_QUERIES, f"1 to {MOST_QUERIES} query tokens of a sequence are supported, got "
            f"{queries}")
    require(where, out in FLOATS, f"the result must be one of {', '.join(FLOATS)}, got {out!r}")
    require(where, page >= 1, f"a page must have a token or more, got {page}")
    if "fp8" in kinds:
        target.require_fp8(where)


def paged_config(where: str, target: Target, dim: int, group: int, queries: int, dtype: str, cache: str, out: str,
                 page: int, window: bool = False, **options: Any) -> PagedConfig:
    """A checked configuration, with the tile that suits the rows. ValueError names the builder and what it supports."""
    require_supported(where, target, queries, out, page, cache)
    require(where, dim in HEAD_DIMS, f"heads must have {', '.join(map(str, HEAD_DIMS))} elements, got {dim}")
    require(where, dtype in ("f16", "bf16"), f"queries must be f16 or bf16, got {dtype}")
    require(where, cache in (dtype, "fp8"), f"caches must be {dtype} as the queries or fp8, got {cache}")
    key_unit, value_unit = options.get("key_unit", 0), options.get("value_unit", 0)
    require(where, key_unit == 0 or key_unit in (8, 16), f"packed keys have 8 or 16 features together, got {key_unit}")
    require(where, value_unit == 0 or page % BLOCK == 0 and value_unit % 8 == 0, "packed values need pages of a "
            f"multiple of {BLOCK} tokens and 8 or more together, got pages of {page} and {value_unit}")
    wide = target.wave == 64
    blocks = 2 if wide and group * queries > BLOCK and dim <= 128 else 1
    keys = 2 * BLOCK if dim <= 128 and (wide or dim <= 64) or target.half_k == 32 else BLOCK
    return PagedConfig(dtype=dtype, stored=cache, group=group, queries=queries, out=out, page=page, dim=dim,
                       left=window, keys=keys, waves=WAVES, blocks=blocks, sharing=WAVES, target=target,
                       **options).fitting(where)
