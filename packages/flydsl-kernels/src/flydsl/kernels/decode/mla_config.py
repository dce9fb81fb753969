"""What an MLA decode kernel computes, and how its waves share the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.config import require
from ..host.dtypes import FLOATS
from ..parts.index import cdiv
from ..target import Target
from .config import ARCHS, BLOCK, CACHES, MOST_QUERIES, AttentionConfig
from .merge import Place

__all__ = ["HALVES", "KEY_PASS", "RANK", "ROPE", "SHARING", "VALUE_PASS", "MlaConfig", "mla_config"]

RANK, ROPE = 512, 64  # columns of the latent vector, of which values are made, and of the rotated part of keys
SHARING = 4  # waves that share rows: each multiplies half of the columns of half of the keys, and makes a quarter of
HALVES = 2   # the columns of the result
MOST_ROWS = 64  # of a workgroup
KEY_PASS, VALUE_PASS = 96, 64  # columns that are in registers at a time
PADDING = 8  # elements behind a token's row in LDS: neighbouring rows begin in other banks


@dataclass(frozen=True)
class MlaConfig(AttentionConfig):
    """Attention of all heads over one latent vector a token, which is key and (its first part) value.

    Attributes:
        query: dtype of q, which may be ``"fp8"``.
        q_scaled, kv_scaled: whether fp8 numbers have a scale.
        groups: of waves; each takes rows of its own.
    """

    query: str = "bf16"
    q_scaled: bool = False
    kv_scaled: bool = False
    groups: int = 1

    @property
    def dim(self) -> int:
        """Elements of a key."""
        return RANK + ROPE

    @property
    def waves(self) -> int:
        return self.groups * SHARING

    @property
    def threads(self) -> int:
        return self.waves * self.target.wave

    @property
    def wave_rows(self) -> int:
        return self.tiles * BLOCK

    @property
    def row_blocks(self) -> int:
        """Workgroups that share the rows of a sequence."""
        return cdiv(self.rows, self.groups * self.wave_rows)

    def place(self, block: Any, sequence: Any, heads: Any, part: Any, parts: Any, token: Any = None) -> Place:
        """Of a wave of a workgroup, while tracing."""
        group = block * self.groups + fx.wave_index() // SHARING
        return Place(self, group * self.wave_rows, sequence, 0, heads, part, parts, token)

    @property
    def key_chunk(self) -> int:
        return 8

    @property
    def value_chunk(self) -> int:
        return VALUE_PASS // BLOCK

    @property
    def pitch(self) -> int:
        """Elements from token to token in LDS."""
        return self.dim + PADDING

    @property
    def exchange(self) -> int:
        """f32 of a wave in LDS: its share of the scores."""
        return BLOCK * self.wave_rows

    @property
    def lds_bytes(self) -> int:
        return self.tokens * self.pitch * 2 + self.waves * self.exchange * 4


def mla_config(where: str, target: Target, heads: int, queries: int, query: str, cache: str, out: str, page: int,
               **options: Any) -> MlaConfig:
    """A checked configuration. ValueError names the builder and what it supports."""
    target.require(where, *ARCHS)
    require(where, 1 <= queries <= MOST_QUERIES, f"1 to {MOST_QUERIES} query tokens of a sequence are supported, got "
            f"{queries}")
    require(where, query in CACHES and cache in CACHES, f"q and the cache must be one of {', '.join(CACHES)}, got "
            f"{query} and {cache}")
    wide = {query, cache} - {"fp8"}
    require(where, len(wide) < 2, f"q and the cache must have one dtype or be fp8, got {query} and {cache}")
    require(where, out in FLOATS, f"the result must be one of {', '.join(FLOATS)}, got {out!r}")
    require(where, page >= 1, f"a page must have a token or more, got {page}")
    if "fp8" in (query, cache):
        target.require_fp8(where)
    dtype = wide.pop() if wide else "f16" if out == "f16" else "bf16"
    tiles = 2 if target.wave == 64 and heads * queries > BLOCK else 1
    groups = MOST_ROWS // (tiles * BLOCK)
    while groups > cdiv(heads * queries, tiles * BLOCK):
        groups //= 2  # threads stay a power of two
    return MlaConfig(heads, queries, dtype, cache, out, page, tiles=tiles, query=query, groups=groups, target=target,
                     **options).fitting(where)
