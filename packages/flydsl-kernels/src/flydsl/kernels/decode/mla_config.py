"""What an MLA decode kernel computes, and how its waves share the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..attention.config import CHUNK, Matrix
from ..host.config import require
from ..host.dense import Extent, strided_extent
from ..host.dtypes import element_of
from ..parts.index import cdiv, div, mod
from ..target import Target
from .config import BLOCK, CACHES, DecodeConfig, require_supported

__all__ = ["RANK", "ROPE", "TURN", "MlaConfig", "mla_config"]

RANK, ROPE = 512, 64  # columns of the latent vector, of which values are made, and of the rotated part of keys
TURN = 4  # columns that a lane reads at once where it turns values
BUSY = 8  # waves that keep a compute unit busy


@dataclass(frozen=True)
class Waves:
    """How a workgroup divides its rows: at most `groups` of waves take rows of their own, and `sharing` waves of each
    a share of the columns; `parked` columns of queries have no room in registers; `blocks`: of `m` rows of a wave,
    where what is read from LDS would limit a wave of one of 16."""

    groups: int
    sharing: int
    parked: int = 0
    blocks: int = 1
    m: int = BLOCK


FEW = 64  # rows that leave a workgroup waves for a second share of the columns
_OF_MANY = {"gfx90a": Waves(8, 1, 96), "gfx942": Waves(8, 1, 96), "gfx950": Waves(4, 1, 192, m=32),
            "gfx120": Waves(4, 4), "gfx1250": Waves(2, 2, 0, 4)}
_OF_FEW = {**dict.fromkeys(_OF_MANY, Waves(4, 2)), "gfx120": Waves(4, 4)}  # gfx120 has 256 registers a lane


@dataclass(frozen=True, kw_only=True)
class MlaConfig(DecodeConfig):
    """Attention of all heads over one latent vector a token, which is key and (its first part) value.

    Attributes:
        query: dtype of q, which may be ``"fp8"``.
        q_scaled, kv_scaled: whether fp8 numbers have a scale.
        sharing: waves that share rows: each multiplies a share of the columns of keys, and makes one of those of
            results.
        parked: columns of queries, the last ones, that wait in LDS where registers are too few.
    """

    query: str
    q_scaled: bool = False
    kv_scaled: bool = False
    parked: int = 0
    m: int = BLOCK

    @property
    def matrix(self) -> Matrix:
        return Matrix(self.m, self.target.half_k * BLOCK // self.m)

    @property
    def alone(self) -> bool:
        return self.fills_simd(self.columns, (RANK + ROPE) // self.sharing - self.parked)

    @property
    def hints(self) -> dict[str, Any]:
        """For the compiler: a wave that is `alone` has all registers of its SIMD; else two share those of one that has
        512 for each."""
        if self.alone:
            return {"rocdl.waves_per_eu": 1}
        return {"rocdl.waves_per_eu": 2} if self.target.register_quarters else {}

    def extents(self, sizes: Any, batch: Any, combined: bool) -> dict[str, Extent]:
        rows = fx.Int64(batch) * self.queries * sizes.heads
        scales = {"q_scale": self.q_scaled, "kv_scale": self.kv_scaled}
        return {**super().extents(sizes, batch, combined),
                "q": Extent(rows * (RANK + ROPE), element_of(self.query, self.target)),
                **{name: Extent(1, fx.Float32) for name, given in scales.items() if given}}

    def cache_extents(self, sizes: Any) -> dict[str, Extent]:
        keys = sizes.keys
        return {"cache": strided_extent(sizes.pages, keys.page, self.stored_element, (self.page, keys.token),
                                        (RANK + ROPE, 1))}

    @property
    def columns(self) -> int:
        """Of latent vectors, of a wave."""
        return RANK // self.sharing

    def key_parts(self, own: Any) -> list[tuple[Any, int]]:
        """(first, number) of the columns of keys that a wave of the `own` share multiplies: all of them, or as many as
        are parked at a time, these at last."""
        columns = (RANK + ROPE) // self.sharing
        each = self.parked or columns
        return [(own * columns + first, each) for first in range(0, columns, each)]

    @property
    def parked_rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """How rows of parked queries lie in LDS, as a layout (shape, stride): those that are read together, 4 or 32,
        begin in other banks. 4 of them are padded together where LDS has no room for more."""
        pitch = self.parked + self.padding
        return (4, self.wave_rows // 4), (pitch, 4 * pitch - (self.padding if self.m == BLOCK else 0))

    @property
    def parked_size(self) -> int:
        """Elements of the parked queries of a wave."""
        (_, count), (_, step) = self.parked_rows
        return count * step if self.parked else 0

    @property
    def reads_across(self) -> bool:
        """Whether values are read from LDS across their rows; else lanes turn them."""
        return self.target.transposing_reads > 0

    def place(self, token: Any) -> Any:
        """Where a token of a tile lies among the others. Instructions of 32 rows read 4 tokens across in blocks of 64
        bytes, and 16 along in chunks of 16: these lie 4 blocks apart then, and their chunks in different banks."""
        if self.m == BLOCK:
            return token
        return mod(token, 4) * 4 + mod(div(token, 4), 4) + div(token, BLOCK) * BLOCK

    def view(self, start: Any, columns: int, turned: bool = False) -> Any:
        """Columns of a stage from a pointer on, as (tokens, columns) or, `turned`, (columns, tokens)."""
        order = ((self.keys,), (1,)) if self.m == BLOCK else ((4, 4, self.keys // BLOCK), (4, 1, BLOCK))
        shape, stride = (order[0], columns), (tuple(step * self.pitch for step in order[1]), 1)
        return fx.make_view(start, fx.make_layout(*((shape[::-1], stride[::-1]) if turned else (shape, stride))))

    @property
    def direct(self) -> bool:
        """Whether tiles are copied to LDS without registers: gfx950 could, but its compiler waits for these copies
        before it reads from LDS, unless each stage has code of its own, which takes twice as long to compile."""
        return self.target.tensor_moves and self.stored != "fp8"

    @property
    def ahead(self) -> int:
        """Reads from LDS before the product that needs them: many where no other wave uses the wait."""
        return 2 if self.reads_across and not self.late else 4

    @property
    def scales_apart(self) -> bool:
        """Sums are half of the registers of a wave that is `late`, and its tiles are few."""
        return bool(self.late)

    @property
    def begun(self) -> int:
        """Of the reads of the next tile, those that are started among the last products of this one by a wave that is
        `alone`: behind the barrier that it then passes there."""
        if self.blocks == 1:
            return self.ahead if self.late else 0
        return self.ahead * 3 // 4

    @property
    def share(self) -> int:
        """Tokens of a tile that a wave moves to LDS."""
        return self.keys // self.waves

    @property
    def padding(self) -> int:
        """Elements between rows in LDS: what a phase of an access reads, along rows or across them, is of rows that
        begin in other banks."""
        return CHUNK * (1 if self.m > BLOCK else self.target.wave // 32)

    @property
    def pitch(self) -> int:
        """Elements from token to token in LDS."""
        return RANK + ROPE + self.padding

    @property
    def stage(self) -> int:
        """Elements of a tile in LDS."""
        return self.keys * self.pitch

    @property
    def late(self) -> int:
        """Tiles between the product of keys and that of values: of one that is `alone` nothing else fills the matrix
        unit while it weighs."""
        return int(self.alone and self.sharing == 1)

    @property
    def stages(self) -> int:
        """Tiles that have a place in LDS: one is on its way while another is multiplied."""
        return 2 + self.late

    @property
    def exchange(self) -> int:
        """f32 of a wave in LDS: its share of the scores."""
        return self.keys * self.wave_rows if self.sharing > 1 else 0

    @property
    def lds_bytes(self) -> int:
        return 2 * (self.stages * self.stage + self.waves * self.parked_size) + 4 * self.waves * self.exchange

    @property
    def resident(self) -> int:
        """Workgroups that share a compute unit: as many as have `BUSY` waves (half of them where one is `alone`),
        where LDS has room."""
        waves = BUSY // 2 if self.alone else BUSY
        return max(min(waves // self.waves, self.target.lds_bytes // self.lds_bytes), 1)

    @property
    def lane_columns(self) -> int:
        """Columns from the result's first of a lane to those of the next lane that has the same row."""
        return self.value_rows * (1 if self.reads_across else TURN)

    def neighbours(self) -> list[tuple[int, list[int]]]:
        """For each run of consecutive columns of a lane's results: the first of lane 0, and the numbers of the values.

        An instruction gives `value_rows` consecutive rows of V^T, which are columns one by one or, where lanes turn
        values, each `TURN`-th of those of `TURN` instructions.
        """
        held, runs = self.value_rows, self.columns // BLOCK
        if self.reads_across:
            apart = held * self.target.wave // self.m
            return [(n * apart, list(range(n * held, (n + 1) * held))) for n in range(self.columns // apart)]
        return [(n * BLOCK + i * TURN, [(n + c) * held + i for c in range(TURN)])
                for n in range(0, runs, TURN) for i in range(held)]


def mla_config(where: str, target: Target, heads: int, queries: int, query: str, cache: str, out: str, page: int,
               **options: Any) -> MlaConfig:
    """A checked configuration. ValueError names the builder and what it supports."""
    require(where, query in CACHES and cache in CACHES, f"q and the cache must be one of {', '.join(CACHES)}, got "
            f"{query} and {cache}")
    wide = {query, cache} - {"fp8"}
    require(where, len(wide) < 2, f"q and the cache must have one dtype or be fp8, got {query} and {cache}")
    require_supported(where, target, queries, out, page, query, cache)
    dtype = wide.pop() if wide else "f16" if out == "f16" else "bf16"
    rows = heads * queries
    waves = (_OF_MANY if rows > FEW else _OF_FEW)[target.arch]
    groups = waves.groups
    while groups >= 2 * cdiv(rows, waves.blocks * waves.m):
        groups //= 2  # threads stay a power of two
    return MlaConfig(dtype=dtype, stored=cache, group=heads, queries=queries, out=out, dim=RANK, page=page,
                     keys=target.half_k, query=query, waves=groups * waves.sharing, sharing=waves.sharing,
                     parked=waves.parked, blocks=waves.blocks, m=waves.m, target=target, **options).fitting(where)
