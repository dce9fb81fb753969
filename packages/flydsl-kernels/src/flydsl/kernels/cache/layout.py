"""Paged caches of keys and values: where a (position in a block, head, feature) lies, as one layout for every order.

================================  =====================================  =======================================
order                             keys                                   values
================================  =====================================  =======================================
flash                             ``[blocks, size, heads, D]``           ``[blocks, size, heads, D]``
packed (x = 16 bytes of features) ``[blocks, heads, D / x, size, x]``    ``[blocks, heads, D, size]``
packed, values by positions       the same                               ``[blocks, heads, size / x, D, x]``
================================  =====================================  =======================================

The rank of the keys tells the first from the others; strides may be any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.arrays import strides_of
from ..host.config import require
from ..host.dense import Extent, strided_extent

__all__ = ["BlockLayout", "block_layouts", "packed_blocks"]

Pair = tuple[int, int]
MOST_BYTES = 1 << 31  # of a block, in which offsets have 32 bits


@dataclass(frozen=True)
class BlockLayout:
    """``((p0, p1), head, (d0, d1)) -> element`` of a block: positions and features may be split in two.

    Attributes:
        block: elements from one block to the next.
        positions, features: shapes of the two modes, the faster part first; `heads` of the mode between.
        position_strides, head_stride, feature_strides: in elements.
    """

    block: int
    positions: Pair
    heads: int
    features: Pair
    position_strides: Pair
    head_stride: int
    feature_strides: Pair

    @property
    def size(self) -> int:
        """Positions of a block."""
        return math.prod(self.positions)

    @property
    def dim(self) -> int:
        """Features of a head."""
        return math.prod(self.features)

    @property
    def extent(self) -> int:
        """Elements from the first to behind the last of a block."""
        shape = (*self.positions, self.heads, *self.features)
        strides = (*self.position_strides, self.head_stride, *self.feature_strides)
        return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))

    def cache(self, blocks: Any, element: Any) -> Extent:
        """What a launch takes of a cache of so many blocks."""
        modes = (*zip(self.positions, self.position_strides, strict=True), (self.heads, self.head_stride),
                 *zip(self.features, self.feature_strides, strict=True))
        return strided_extent(blocks, self.block, element, *modes)

    def run(self, vec: int) -> int:
        """How many of `vec` consecutive, aligned features are consecutive in memory."""
        return math.gcd(vec, self.features[0]) if self.feature_strides[0] == 1 else 1

    def layout(self) -> Any:
        """As a layout of the algebra."""
        return fx.make_layout((self.positions, self.heads, self.features),
                              (self.position_strides, self.head_stride, self.feature_strides))


def _block_layout(name: str, where: str, array: Any, packed: bool, values: bool, written: bool) -> BlockLayout:
    n, s = tuple(array.shape), strides_of(array)
    require(where, all(step >= 0 for step in s), f"{name} has a negative stride: {s}")
    reach = sum((size - 1) * step for size, step in zip(n[1:], s[1:], strict=True)) * array.itemsize
    require(where, not written or reach < MOST_BYTES,
            f"a block of {name} reaches over {reach} bytes, below {MOST_BYTES} are supported where it is written")
    require(where, not written or all(step or size == 1 for size, step in zip(n, s, strict=True)),
            f"{name} is written, and elements of it are in one place: its strides are {s}")
    if not packed:
        return BlockLayout(s[0], (n[1], 1), n[2], (n[3], 1), (s[1], 0), s[2], (s[3], 0))
    if not values:
        return BlockLayout(s[0], (n[3], 1), n[1], (n[4], n[2]), (s[3], 0), s[1], (s[4], s[2]))
    if len(n) == 4:
        return BlockLayout(s[0], (n[3], 1), n[1], (n[2], 1), (s[3], 0), s[1], (s[2], 0))
    return BlockLayout(s[0], (n[4], n[2]), n[1], (n[3], 1), (s[4], s[2]), s[1], (s[3], 0))


def block_layouts(where: str, keys: Any, values: Any, written: bool = False) -> tuple[BlockLayout, BlockLayout, int]:
    """The layouts of both caches, and their number of blocks.

    Raises:
        ValueError: the shapes are of no order above, or differ in blocks, positions or heads; or elements of what is to
            be `written` are in one place.
    """
    ranks = len(keys.shape), len(values.shape)
    require(where, ranks in ((4, 4), (5, 4), (5, 5)),
            "caches must be [blocks, size, heads, D] both, or keys [blocks, heads, D/x, size, x] with values "
            f"[blocks, heads, D, size] or [blocks, heads, size/x, D, x], got {tuple(keys.shape)} and "
            f"{tuple(values.shape)}")
    packed = ranks[0] == 5
    k, v = (_block_layout(*a, packed, i == 1, written) for i, a in enumerate((("k_cache", where, keys),
                                                                    ("v_cache", where, values))))
    require(where, (keys.shape[0], k.size, k.heads) == (values.shape[0], v.size, v.heads),
            f"caches differ in blocks, positions of a block or heads: {tuple(keys.shape)} and {tuple(values.shape)}")
    return k, v, keys.shape[0]


def packed_blocks(size: int, heads: int, dim: int, x: int | None) -> tuple[BlockLayout, BlockLayout]:
    """Layouts of contiguous caches: in the flash order, or with `x` in the packed one."""
    if x is None:
        one = BlockLayout(size * heads * dim, (size, 1), heads, (dim, 1), (heads * dim, 0), dim, (1, 0))
        return one, one
    block = heads * dim * size
    return (BlockLayout(block, (size, 1), heads, (x, dim // x), (x, 0), dim * size, (1, size * x)),
            BlockLayout(block, (size, 1), heads, (dim, 1), (1, 0), dim * size, (size, 0)))
