"""What an MLA decode kernel computes, and how its waves share the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx

from ..attention.config import CHUNK
from ..attention.config import AttentionConfig as Scores
from ..host.config import require
from ..host.dtypes import FLOATS
from ..parts.index import cdiv
from ..target import Target
from .config import ARCHS, BLOCK, CACHES, MOST_QUERIES, AttentionConfig
from .merge import Place

__all__ = ["HALVES", "KEY_PASS", "RANK", "ROPE", "SHARING", "TURN", "VALUE_PASS", "MlaConfig", "ScoresConfig",
           "WideConfig", "mla_config"]

RANK, ROPE = 512, 64  # columns of the latent vector, of which values are made, and of the rotated part of keys
SHARING = 4  # waves that share rows: each multiplies half of the columns of half of the keys, and makes a quarter of
HALVES = 2   # the columns of the result
MOST_ROWS = 64  # of a workgroup
KEY_PASS, VALUE_PASS = 96, 64  # columns that are in registers at a time
TURN = 4  # tokens and columns of what a lane turns, and columns of a result that it stores at once
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
    def sharing(self) -> int:
        """Waves that share rows."""
        return SHARING

    @property
    def waves(self) -> int:
        return self.groups * self.sharing

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
        group = block * self.groups + fx.wave_index() // self.sharing
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


@dataclass(frozen=True)
class ScoresConfig(Scores):
    """Scores of one wave for :class:`..attention.scores.Softmax`, in the instruction of 16 x 16."""

    @property
    def matrix(self) -> Any:
        return replace(super().matrix, m=BLOCK)


@dataclass(frozen=True)
class WideConfig(MlaConfig):
    """Of waves with 16 rows each, all of their scores and all columns of their results, which take most registers."""

    @property
    def sharing(self) -> int:
        return 1

    @property
    def scores(self) -> ScoresConfig:
        """Of the softmax."""
        return ScoresConfig(self.dtype, self.dim, RANK, positive=False, keys=self.tokens, waves=1, target=self.target)

    @property
    def reads_across(self) -> bool:
        """Whether values are read from LDS across their rows; else lanes turn them."""
        return self.target.dma128

    @property
    def direct(self) -> bool:
        """Whether tiles are copied to LDS without registers."""
        return self.target.dma128 and self.cache != "fp8"

    @property
    def stages(self) -> int:
        """Tiles that have a place in LDS."""
        return 2

    @property
    def value_chunk(self) -> int:
        return 1

    @property
    def parked(self) -> int:
        """Columns of latent queries that wait in LDS, as the rotated ones do: as many as there is room for."""
        return 3 * ROPE if self.target.dma128 else ROPE // 2

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """(first, number) of the columns of keys that are multiplied one after the other: those of which queries stay
        in registers, and the others."""
        whole, size = RANK - self.parked, min(self.parked, ROPE)
        return (0, whole), *((first, size) for first in range(whole, RANK, size)), (RANK, ROPE)

    @property
    def ahead(self) -> int:
        """Reads from LDS before the product that needs them, of which gfx942 has two for each."""
        return 2 if self.target.dma128 else 4

    @property
    def share(self) -> int:
        """Tokens of a tile that a wave moves to LDS."""
        return self.tokens // self.waves

    @property
    def pitch(self) -> int:
        """Elements from token to token of the latent vectors in LDS: what a phase of an access reads, along rows or
        across them, is of rows that begin in other banks, two chunks apart."""
        return RANK + 2 * CHUNK

    @property
    def rotated_pitch(self) -> int:
        """The same of rotated parts, which a direct copy writes one behind the other."""
        return ROPE if self.target.dma128 else ROPE + 2 * CHUNK

    @property
    def rotated_swizzle(self) -> tuple[int, int, int]:
        """(bits, base, shift) of the exchange of chunks of rotated parts, where they have no padding."""
        return (3, 3, 4) if self.target.dma128 else (0, 0, 0)

    @property
    def lds_bytes(self) -> int:
        stage, rows = self.tokens * (self.pitch + self.rotated_pitch), self.groups * self.wave_rows
        return 2 * (self.stages * stage + rows * (self.parked + ROPE))

    @property
    def lane_columns(self) -> int:
        """Columns from the result's first of a lane to those of the next lane that has the same row."""
        return self.value_rows * (1 if self.reads_across else TURN)

    def neighbours(self) -> list[tuple[int, list[int]]]:
        """For each run of consecutive columns of a lane's results: the first of lane 0, and the numbers of the values.

        An instruction gives `value_rows` consecutive rows of V^T, which are columns one by one or, where lanes turn
        values, each `TURN`-th of those of `TURN` instructions.
        """
        held, runs = self.value_rows, RANK // BLOCK
        if self.reads_across:
            return [(n * BLOCK, list(range(n * held, (n + 1) * held))) for n in range(runs)]
        return [(n * BLOCK + i * TURN, [(n + c) * held + i for c in range(TURN)])
                for n in range(0, runs, TURN) for i in range(held)]


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
    if target.wave == 64 and heads * queries > MOST_ROWS:
        return WideConfig(heads, queries, dtype, cache, out, page, blocks=target.half_k // BLOCK, query=query,
                          groups=8, target=target, **options).fitting(where)
    tiles = 2 if target.wave == 64 and heads * queries > BLOCK else 1
    groups = MOST_ROWS // (tiles * BLOCK)
    while groups > cdiv(heads * queries, tiles * BLOCK):
        groups //= 2  # threads stay a power of two
    return MlaConfig(heads, queries, dtype, cache, out, page, tiles=tiles, query=query, groups=groups, target=target,
                     **options).fitting(where)
