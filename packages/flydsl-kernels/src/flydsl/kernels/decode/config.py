"""What a decode kernel computes, and how its matrix instructions see queries, keys and values."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..cache.pages import BLOCK
from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS, element_of
from ..parts.index import cdiv
from ..target import Target

__all__ = ["ARCHS", "ACCESS", "BLOCK", "CACHES", "MOST_QUERIES", "AttentionConfig", "PagedConfig", "paged_config",
           "require_supported"]

ACCESS = 16  # bytes of the widest load of a lane
MOST_QUERIES = 16  # tokens of a sequence that are decoded together
WAVES = 4
HEAD_DIMS = range(64, 257, 32)
CACHES = ("f16", "bf16", "fp8")
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx120", "gfx1250")


def _k_order(target: Target, chunk: int) -> Any:
    """The order of K (head elements) of the first product in which a lane's `chunk` consecutive elements are the
    operands of consecutive instructions; None if that is the instruction's own order."""
    run = min(8, BLOCK * target.half_k // target.wave)  # consecutive elements of a lane in an instruction
    if chunk == run:
        return None
    lanes = target.wave // BLOCK
    return fx.make_layout((run, lanes, chunk // run), (1, chunk, run))


@dataclass(frozen=True)
class AttentionConfig(KernelConfig):
    """What kernels of decode attention have in common.

    Attributes:
        group: query heads of a key head.
        queries: tokens of a sequence that are decoded together.
        dtype: of products.
        cache: of keys and values; `out`: of the result.
        page: tokens of a page.
        window: whether keys are hidden that lie too far back; `softcap`: whether scores are capped; `sink`: whether
            each head has a sink.
        split: whether the context is split over workgroups, whose results are combined afterwards.
        tiles: tiles of 16 query rows of a wave; `blocks`: blocks of 16 tokens of a tile.
        parts_dtype: of the parts of contexts.
    """

    group: int
    queries: int
    dtype: str
    cache: str
    out: str
    page: int
    window: bool = False
    softcap: bool = False
    sink: bool = False
    split: bool = False
    tiles: int = 1
    blocks: int = 2
    parts_dtype: str = "f32"

    @property
    def waves(self) -> int:
        """Of a workgroup."""
        raise NotImplementedError

    @property
    def threads(self) -> int:
        return self.waves * self.target.wave

    @property
    def rows(self) -> int:
        """Query rows of a key head: tokens x heads of the group, heads fastest."""
        return self.group * self.queries

    @property
    def wave_rows(self) -> int:
        """Query rows of a wave."""
        return self.tiles * BLOCK

    @property
    def tokens(self) -> int:
        """Of a tile of a wave."""
        return self.blocks * BLOCK

    @property
    def element(self) -> Any:
        """Class that products are computed in."""
        return FLOATS[self.dtype]

    @property
    def cache_element(self) -> Any:
        return element_of(self.cache, self.target)

    @property
    def uniform(self) -> bool:
        """Whether the tokens of a block are of one page."""
        return self.page % BLOCK == 0

    @property
    def value_rows(self) -> int:
        """Consecutive tokens of a block whose values a lane holds."""
        return BLOCK * BLOCK // self.target.wave

    @property
    def key_chunk(self) -> int:
        """Consecutive head elements of a key that a lane loads at once."""
        raise NotImplementedError

    @property
    def value_chunk(self) -> int:
        """Consecutive head elements of a value that a lane loads at once."""
        raise NotImplementedError

    def products(self, columns: int) -> tuple[Any, Any]:
        """Tiled MMAs of one wave, while tracing: S^T = K Q^T and O^T = V^T P^T of so many columns of V.

        The accumulator of the first is, lane by lane, an operand of the second.
        """
        matrix = fx.rocdl.MFMA if self.target.matrix == "mfma" else fx.rocdl.WMMA
        atom = fx.make_mma_atom(matrix(BLOCK, BLOCK, self.target.half_k, self.element))
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        order = _k_order(self.target, self.key_chunk)
        pairs = fx.make_layout((4, 2, 4), (1, BLOCK, 4)) if self.target.arch == "gfx950" else None
        chunk = self.value_chunk
        turned = fx.make_layout((BLOCK, chunk, columns // (BLOCK * chunk)), (chunk, 1, BLOCK * chunk))
        first = fx.make_tiled_mma(atom, alone, None if order is None else fx.make_tile(None, None, order))
        return first, fx.make_tiled_mma(atom, alone, fx.make_tile(turned, None, pairs))


@dataclass(frozen=True)
class PagedConfig(AttentionConfig):
    """Attention of a few query tokens of each sequence over its pages.

    Attributes:
        dim: elements of a head.
        key_scales, value_scales: of the cache: ``""``, ``"tensor"``, ``"head"`` or ``"token"``.
        key_unit: features of a key that lie together, before those of the next token; 0: all.
        value_unit: tokens of which the values of one feature lie together; 0: features of a token do.
        lists: whether page numbers of sequences follow each other in one list, instead of rows of a table.
    """

    dim: int = 128
    key_scales: str = ""
    value_scales: str = ""
    key_unit: int = 0
    value_unit: int = 0
    lists: bool = False

    @property
    def waves(self) -> int:
        """Of a workgroup; each takes tokens of its own."""
        return WAVES

    @property
    def lds_bytes(self) -> int:
        return self.waves * BLOCK * 4 * (BLOCK * self.merge_unit + 4 + 2 * self.tiles)

    @property
    def row_blocks(self) -> int:
        """Workgroups that share the rows of a key head."""
        return cdiv(self.rows, self.tiles * BLOCK)

    @property
    def ahead(self) -> bool:
        """Whether keys and values are loaded a tile ahead; else there are registers for one of the two."""
        return self.target.wave == 64 or self.dim <= 64

    @functools.cached_property
    def key_chunk(self) -> int:
        lanes = self.target.wave // BLOCK
        widest = ACCESS * 8 // self.cache_element.width
        return widest if self.dim % max(lanes * widest, self.target.half_k) == 0 else 8

    @functools.cached_property
    def value_chunk(self) -> int:
        if self.value_unit:
            return 1
        chunk = ACCESS * 8 // self.cache_element.width
        while self.dim % (BLOCK * chunk):
            chunk //= 2
        return chunk

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
                 page: int, **options: Any) -> PagedConfig:
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
    tiles = 2 if wide and group * queries > BLOCK and dim <= 128 else 1
    blocks = 2 if dim <= 128 and (wide or dim <= 64) or target.half_k == 32 else 1
    return PagedConfig(group, queries, dtype, cache, out, page, dim=dim, tiles=tiles, blocks=blocks, target=target,
                       **options).fitting(where)
