"""The tiles that the functional forms choose: one table an architecture, largest first.

An entry is taken when it divides the problem and leaves enough workgroups for the compute units; the last one that
divides the problem is taken otherwise. ``tests/test_gemm_tuned.py`` compiles every entry and fails if one spills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..host.tuned import Problem, Tuning, known
from ..parts.index import align_up, cdiv
from ..target import Target

__all__ = [
    "BLOCK_SCALE", "DEEP", "DENSE", "DENSE_KNOWN", "DENSE_TUNING", "FEW", "MX", "PRESHUFFLE", "RDNA_FP8", "ROW_SCALE",
    "WMMA", "DenseTile", "Tile", "choose", "dense_knobs", "dense_tiles", "row_scale_block", "scaled_tiles",
    "takes_preshuffled", "tile_tuning", "whole_knobs",
]

FEW_ROWS = 16  # rows of the smallest tile
MEMORY_ROWS = 64  # of a tile that is bound by the matrix unit
SIZES = "rows, columns, reduction"
GROUPS = (0, 4)  # block rows of a group, of those that a search tries


@dataclass(frozen=True)
class Tile:
    """A tile.

    Attributes:
        m, n, k: elements of C and of the reduction.
        group: block rows of a group in the launch order; 0: plain.
        stages: LDS buffers, of the preshuffle GEMMs on gfx1250.
        direct: B comes straight to registers, of the products of gfx1250 with 8 and 4 bits.
    """

    m: int
    n: int
    k: int
    group: int = 0
    stages: int = 2
    direct: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """As a configuration has them."""
        return dict(tile_m=self.m, tile_n=self.n, tile_k=self.k)

    def blocks(self, m: int, n: int) -> int:
        return cdiv(m, self.m) * cdiv(n, self.n)

    def full(self, target: Target, m: int, n: int) -> bool:
        """Whether compute units have several of these, or each has one with columns of its own."""
        return self.blocks(m, n) > target.compute_units or cdiv(n, self.n) >= target.compute_units


# Entries for few rows are bound by memory: they are narrow, so that all compute units read the weight, and deep where k
# allows it, so that enough of it is on its way. With more rows the registers for that cost waves, which count for more.
_SMALL_8 = (Tile(16, 128, 256), Tile(16, 64, 256))
_SMALL_16 = (Tile(16, 128, 128), Tile(16, 64, 128))
_LAST_8 = (Tile(64, 64, 256), Tile(64, 64, 128), Tile(32, 64, 256), Tile(32, 64, 128), Tile(64, 64, 64))
_LAST_16 = (Tile(64, 64, 64), Tile(32, 64, 128), Tile(32, 64, 64), Tile(64, 64, 32))

# Unpacking int4 takes vector instructions for each fragment of the weight: a tall tile uses one more often.
# Half as many bytes are on their way for as much k.
_INT4 = (Tile(128, 256, 128), Tile(64, 256, 128), Tile(64, 128, 128), Tile(32, 128, 256), Tile(32, 128, 128),
         Tile(32, 64, 512), Tile(16, 128, 256), Tile(16, 64, 512), Tile(16, 64, 256), *_LAST_8)

#: By architecture and bytes of an element of the weight (of int4 a half).
PRESHUFFLE: dict[str, dict[float, tuple[Tile, ...]]] = {
    "gfx942": {
        0.5: _INT4,
        1: (Tile(64, 256, 128), Tile(64, 128, 128), Tile(32, 128, 128), *_SMALL_8, *_LAST_8),
        2: (Tile(128, 128, 64), Tile(64, 128, 64), Tile(32, 128, 64), *_SMALL_16, *_LAST_16),
    },
    "gfx950": {
        0.5: _INT4,
        1: (Tile(128, 256, 128, group=4), Tile(128, 128, 128), Tile(64, 128, 128),
            Tile(32, 128, 128), *_SMALL_8, *_LAST_8),
        # 64 rows would use each fragment of the weight half as often: the first-level cache is too slow for that.
        2: (Tile(128, 256, 64, group=4), Tile(64, 256, 64, group=4), Tile(128, 128, 64), Tile(64, 128, 64),
            Tile(32, 128, 64), *_SMALL_16, *_LAST_16),
    },
}


def takes_preshuffled(target: Target, n: int, k: int, element_bytes: int) -> bool:
    """Whether the preshuffle GEMM runs a weight of n x k on an architecture."""
    return target.arch in PRESHUFFLE and n % 64 == 0 and k * element_bytes % 64 == 0


#: fp8 with a scale per 128 k.
BLOCK_SCALE: dict[str, tuple[Tile, ...]] = {
    "gfx942": (Tile(128, 128, 128), Tile(64, 128, 128), Tile(32, 128, 128), Tile(16, 64, 256), Tile(32, 64, 128)),
    "gfx950": (Tile(128, 256, 128), Tile(64, 256, 128), Tile(64, 128, 256), Tile(64, 128, 128), Tile(32, 128, 128),
               Tile(16, 64, 256), Tile(32, 64, 256), Tile(32, 64, 128)),
}

_MX_4 = (Tile(128, 256, 256), Tile(64, 256, 256), Tile(64, 128, 256), Tile(32, 128, 256), Tile(32, 64, 256),
         Tile(64, 64, 128))
_MX_FEW = (Tile(64, 128, 128), Tile(32, 128, 256), Tile(32, 128, 128), Tile(16, 128, 256), Tile(32, 64, 256),
           Tile(32, 64, 128))
_MX_8 = (Tile(128, 256, 256), Tile(128, 256, 128), Tile(128, 128, 128), Tile(64, 128, 256), *_MX_FEW)
# fp6 has twice the bytes of fp4, and without fp8 the instruction takes half the clocks: the widest tile.
_MX_6 = (Tile(128, 512, 128), Tile(128, 256, 128), Tile(128, 128, 128), *_MX_FEW)

#: Microscaled operands on gfx950, by the types of activations and weights.
MX: dict[tuple[str, ...], tuple[Tile, ...]] = {
    ("fp4", "fp4"): _MX_4, ("fp4", "fp8"): _MX_4, ("fp6", "fp4"): _MX_6, ("fp6", "fp8"): _MX_8,
    ("fp8", "fp4"): _MX_8, ("fp8", "fp8"): _MX_8,
}

# A tile of few products takes less time than its move from memory: those are deep or in rings of more buffers. Few rows
# are bound by memory, and by LDS, which two waves of 16 rows read least of.
_WMMA_LAST = (
    Tile(128, 128, 512), Tile(128, 128, 256, stages=3), Tile(128, 128, 128, stages=3), Tile(64, 128, 512),
    Tile(64, 128, 128, stages=4), Tile(64, 64, 256, stages=4), Tile(64, 32, 512, stages=3), Tile(64, 32, 128, stages=4),
    Tile(32, 32, 512, stages=4), Tile(16, 32, 1024, stages=3), Tile(16, 32, 256, stages=4),
)

_WMMA_8 = (Tile(256, 256, 128, stages=4, direct=True), *_WMMA_LAST)

#: 8 and 4 bits on gfx1250, on 2 x 2 waves (1 x 2 for 16 rows): fp8 with scales per row and column, else microscaled
#: activations and weights. Bound by LDS, of which the waves of large tiles read least; with B beside it, L2 binds.
WMMA: dict[tuple[str, ...], tuple[Tile, ...]] = {
    ("fp8",): _WMMA_8, ("fp8", "fp4"): _WMMA_8, ("fp8", "fp8"): _WMMA_8,
    ("fp4", "fp4"): (Tile(128, 256, 256), *_WMMA_LAST),
}

#: fp8 with scales per row and column on gfx120x, without LDS, on four waves beside each other: for many rows, and for
#: few or other columns. Where K allows it, two or four times as much k is a tile.
RDNA_FP8 = (Tile(32, 256, 32), Tile(32, 128, 32))


def scaled_tiles(target: Target) -> tuple[Tile, ...]:
    """Those of fp8 with scales per row and column and a plain weight, whatever the kernel."""
    if target.tensor_moves:
        return WMMA["fp8",]
    return PRESHUFFLE[target.arch][1] if target.arch in PRESHUFFLE else RDNA_FP8


#: Blocks (rows, columns of C) of the fp8 GEMM of gfx950 with scales per row and column, both operands through LDS, of
#: which a compute unit has one.
ROW_SCALE = ((256, 256), (256, 224))


def row_scale_block(target: Target, m: int, n: int) -> tuple[int, int]:
    """The block of :data:`ROW_SCALE` with which the compute units are done first: a last round of a few workgroups
    takes as long as a full one."""
    return min(ROW_SCALE, key=lambda b: cdiv(cdiv(m, b[0]) * cdiv(n, b[1]), target.compute_units) * b[0] * b[1])


def choose(tiles: tuple[Tile, ...], where: str, target: Target, kind: str, m: int, n: int, k: int) -> Tile:
    """The tile for a problem of operation `where` with operands of `kind`: what a search found, else by rule.

    Raises:
        ValueError: none divides N and K.
    """
    found = known(where, target, kind, m, n, k)
    if found is not None:
        return Tile(**found)
    fitting = [t for t in tiles if n % t.n == 0 and k % t.k == 0]
    if not fitting:
        sizes = ", ".join(sorted({f"{t.n} x {t.k}" for t in tiles}))
        raise ValueError(f"{where}: N x K must be a multiple of one of {sizes}, got {n} x {k}")
    # Rows beyond M are wasted, fewer than MEMORY_ROWS read the weight more often, and compute units without a
    # workgroup idle.
    least = min(t.m for t in fitting)
    within = [t for t in fitting if t.m <= max(align_up(m, FEW_ROWS), least)]
    enough = max(t.m for t in within if t.m <= max(MEMORY_ROWS, least))
    suited = [t for t in within if t.m >= enough]
    busy = [t for t in suited if t.blocks(m, n) >= target.compute_units]
    return busy[0] if busy else max(suited, key=lambda t: (t.blocks(m, n), t.k))


def tile_tuning(tiles: Callable[[Target, str], tuple[Tile, ...]], *kinds: str) -> Tuning:
    """What a search tries of a table, ``tiles(target, kind)``: those that divide the problem, in two launch orders."""
    def choices(target: Target, problem: Problem) -> Iterable[dict[str, Any]]:
        for tile in dict.fromkeys(replace(t, group=0) for t in tiles(target, problem.kind)):
            if problem.n % tile.n == 0 and problem.k % tile.k == 0:
                yield from (asdict(replace(tile, group=group)) for group in GROUPS)

    return Tuning(kinds, choices, lambda op, draw, p: op.sample(draw, p.m, p.k, columns=p.n), SIZES)


# ------------------------------------------------------------------------------------------- general GEMM


@dataclass(frozen=True)
class DenseTile(Tile):
    """A tile of the general GEMM.

    Attributes:
        waves: along m, n and k.
        least: M from which it is considered.
        direct_stores: C is not put through LDS first.
        layouts: for which it is.
        ahead: fragments are read a tile ahead.
    """

    waves: tuple[int, int, int] = (2, 2, 1)
    least: int = 1
    direct_stores: bool = False
    layouts: tuple[str, ...] = ("nt", "nn", "tn", "tt")
    ahead: bool = False

    def knobs(self, split_k: int) -> dict[str, int]:
        """Options of ``build_gemm_module``."""
        more = ({"cshuffle": False} if self.direct_stores else {}) | ({"tile_ahead": True} if self.ahead else {})
        return dict(more, block_m=self.m, block_n=self.n, block_k=self.k, stages=self.stages, split_k=split_k,
                    group_m=self.group, **dict(zip(("m_waves", "n_waves", "k_waves"), self.waves, strict=True)))


def _usual(k: int, most: int = 128 * 128, first: int = 0, ahead: int = 0, stages: int = 2) -> tuple[DenseTile, ...]:
    """Tiles of 2 x 2 waves, the largest with `first` k instead of `k`; those of more than `most` elements store
    directly, as they have no registers to spare; those of up to `ahead` elements read fragments a tile ahead."""
    sizes = ((128, 128, 65), (128, 64, 65), (64, 128, 33), (64, 64, 33), (32, 64, 1))
    depths = (first or k, *(k,) * (len(sizes) - 1))
    return tuple(DenseTile(m, n, depth, least=least, direct_stores=m * n > most, stages=stages, ahead=m * n <= ahead)
                 for (m, n, least), depth in zip(sizes, depths, strict=True))


DENSE: dict[str, tuple[DenseTile, ...]] = {
    "gfx90a": _usual(64, first=32),  # LDS, registers and matrix shapes are those of gfx942; no search was made
    "gfx942": _usual(64, first=32),
    # With a third buffer two tiles are on their way while one is read. For 32 rows that is not enough to read B at the
    # memory's speed; where A is turned around, it is not copied directly, and registers have it on its way.
    "gfx950": (DenseTile(256, 256, 64, waves=(2, 4, 1), group=4, least=129),
               *_usual(64, ahead=128 * 128, stages=3)[:-1],
               DenseTile(32, 64, 64, stages=4, layouts=("nt", "nn"), ahead=True),
               DenseTile(32, 64, 64, layouts=("tn", "tt"))),
    # Fragments take twice the registers of gfx12, too many for 64 x 64 of a wave. A third buffer lets the first ones of
    # a tile be read before the barrier; smaller tiles would lose more in launches, with fewer workgroups on a compute
    # unit, than their loops gain.
    "gfx11": (DenseTile(128, 128, 32, waves=(4, 2, 1), stages=3, least=65), *_usual(32, ahead=64 * 64)[1:]),
    # Where both operands are turned around, each thread of the larger workgroup turns less.
    "gfx120": (DenseTile(256, 128, 32, waves=(4, 2, 1), group=4, least=129, direct_stores=True, layouts=("tn",)),
               *_usual(32, most=128 * 64, ahead=128 * 64)),
    # Bound by LDS, of which waves with 128 x 128 of the tile read least: one on a SIMD has the registers for them.
    # The others have a third buffer, for which LDS has room, and the smaller ones more k between barriers.
    "gfx1250": (DenseTile(256, 256, 64, group=4, least=129, direct_stores=True),
                DenseTile(128, 128, 64, stages=3, least=65),
                DenseTile(128, 64, 128, stages=3, least=65),
                DenseTile(64, 128, 128, stages=3, least=33),
                DenseTile(64, 64, 128, waves=(1, 2, 1), stages=3, least=33),
                DenseTile(32, 64, 128, stages=3)),
}


#: Small grids are bound by latency: with three buffers of twice the k, a compute unit that has one workgroup has enough
#: on its way. The reduction must be a whole number of tiles, which are copied to LDS directly.
DEEP: dict[str, tuple[DenseTile, ...]] = {"gfx950": tuple(
    DenseTile(m, 64, 128, stages=3, least=least, layouts=("nt", "nn"), ahead=m > 32)
    for m, least in ((128, 65), (64, 33), (32, 1)))}

FEW_COLUMNS = 32  # of most tiles for few rows


def _few(stages: int) -> tuple[DenseTile, ...]:
    return tuple(DenseTile(m, FEW_COLUMNS, 256, waves=(1, 2, 4), stages=stages, layouts=("nt",)) for m in (16, 32))


#: Few rows, up to twice those of the last tile, are bound by reading B: blocks of few columns are many workgroups that
#: each read theirs once, and waves that share the k of a deep tile keep much of it on its way: three tiles with the
#: direct copies of gfx950.
FEW: dict[str, tuple[DenseTile, ...]] = {
    "gfx942": _few(2), "gfx120": _few(2),
    # The last is for many columns, of which it reads A for twice as many at a time.
    "gfx1250": (*_few(2), DenseTile(64, 64, 128, waves=(2, 2, 2), layouts=("nt",))),
    "gfx950": (*_few(4), DenseTile(64, FEW_COLUMNS, 128, stages=4, layouts=("nt",), ahead=True)),
}
LEAST_COLUMNS = 32 * FEW_COLUMNS  # of C; with fewer the reduction is split instead
#: Compute units that have room for one of these: with more columns, wider tiles are done earlier.
ONE_EACH = ("gfx942",)

#: Shapes with published choices, by architecture: (largest M, N, K) to (tile, split_k).
DENSE_KNOWN: dict[str, dict[tuple[int, int, int], tuple[DenseTile, int]]] = {"gfx950": {
    (2048, 2048, 2048): (DenseTile(128, 128, 64, waves=(4, 4, 1), stages=4, least=1025), 1),
    (32, 384, 7168): (DenseTile(32, 64, 64, stages=5), 16),
    (32, 7168, 2048): (DenseTile(16, 64, 128, waves=(1, 2, 2), stages=4), 1),
    (32, 384, 16384): (DenseTile(32, 64, 256, waves=(1, 4, 1), stages=3), 16),
    (32, 2880, 2048): (DenseTile(16, 64, 128, waves=(1, 4, 1), stages=5), 2),
    (16, 5120, 2880): (DenseTile(16, 64, 64, waves=(1, 2, 1), stages=5), 3),
}}

MOST_SLICES, LEAST_TILES = 16, 8  # of a split reduction, and k tiles of a slice


def dense_tiles(target: Target, layout: str) -> list[DenseTile]:
    """All tiles of the general GEMM for a layout: those of :data:`DENSE`, then those for few rows and small grids."""
    tables = DENSE[target.arch], FEW.get(target.arch, ()), DEEP.get(target.arch, ())
    return [t for table in tables for t in table if layout in t.layouts]


def dense_knobs(target: Target, m: int, n: int, k: int, layout: str = "nt") -> dict[str, Any]:
    """Knobs of the general GEMM for a problem: what a search found, or was published, else by rule."""
    found = known("gemm", target, f"bf16 {layout}", m, n, k)
    if found is not None:
        return found
    for (most, columns, depth), (tile, split) in DENSE_KNOWN.get(target.arch, {}).items():
        if (columns, depth) == (n, k) and tile.least <= m <= most:
            return tile.knobs(split)
    few = [t for t in FEW.get(target.arch, ()) if layout in t.layouts and k % t.k == 0]
    narrow, wide = ([t for t in few if (t.n > FEW_COLUMNS) is wider] for wider in (False, True))
    most = FEW_COLUMNS * target.compute_units if target.arch in ONE_EACH else n
    if narrow and m <= 2 * narrow[-1].m and LEAST_COLUMNS <= n <= most:
        # The lowest tile that leaves no compute unit a second workgroup: a second block of rows reads B again.
        lower = [t for t in narrow if t.m <= max(align_up(m, FEW_ROWS), narrow[0].m)]
        first = next((t for t in lower if t.blocks(m, n) <= target.compute_units), lower[-1])

        def read(tile: DenseTile) -> int:
            """Rows of A and columns of B that a compute unit reads, in rounds of a workgroup on each."""
            return cdiv(tile.blocks(m, n), target.compute_units) * (tile.m + tile.n)

        return min((first, *wide), key=read).knobs(1)
    return deep_knobs(target, m, n, k, layout) or whole_knobs(target, m, n, k, layout)


def whole_knobs(target: Target, m: int, n: int, k: int, layout: str = "nt") -> dict[str, Any]:
    """Knobs by rule of tiles whose waves do not share k: smaller ones and a split reduction where large ones are too
    few."""
    fitting = [t for t in DENSE[target.arch] if layout in t.layouts]
    narrow = min(t.n for t in fitting)
    tiles = [t for t in fitting if m >= t.least and (n >= t.n or t.n == narrow)]
    # The largest kind is for grids that fill the chip, and has no registers for a ragged k, which cannot be copied to
    # LDS directly; of the others the size of the problem decides.
    first = tiles[0]
    if len(tiles) > 1 and first.group and (first.blocks(m, n) < target.compute_units // 2 or k % first.k):
        first = tiles[1]
    return first.knobs(_slices(target, first, m, n, k, LEAST_TILES))


def _slices(target: Target, tile: DenseTile, m: int, n: int, k: int, least: int) -> int:
    """Of a reduction, `least` tiles of k each, as long as there are no more than the compute units have room for."""
    split = 1
    while (split < MOST_SLICES and tile.blocks(m, n) * split * 2 <= target.compute_units
           and k // (split * 2) >= least * tile.k):
        split *= 2
    return split


def deep_knobs(target: Target, m: int, n: int, k: int, layout: str) -> dict[str, Any] | None:
    """Knobs of the tiles of :data:`DEEP` where whole ones would not fill the chip without a split reduction, or None:
    the largest of which there is one for each compute unit, or the smallest."""
    tiles = [t for t in DEEP.get(target.arch, ())
             if layout in t.layouts and k % t.k == 0 and m >= t.least and (t.m >= MEMORY_ROWS or m <= t.m)]
    usual = whole_knobs(target, m, n, k, layout)
    if not tiles or (usual["split_k"] == 1 and usual["block_m"] > MEMORY_ROWS):
        return None
    tile = next((t for t in tiles if t.blocks(m, n) >= target.compute_units), tiles[-1])
    return tile.knobs(_slices(target, tile, m, n, k, LEAST_TILES // 2))


def _dense_choices(target: Target, problem: Problem) -> Iterable[dict[str, Any]]:
    """Every tile, with all splits of the reduction that leave enough of it."""
    for tile in dense_tiles(target, problem.kind.split()[-1]):
        split = 1
        while split <= MOST_SLICES and (split == 1 or problem.k >= split * LEAST_TILES * tile.k):
            yield tile.knobs(split)
            split *= 2


#: What a search tries for the general GEMM.
DENSE_TUNING = Tuning(
    tuple(f"bf16 {layout}" for layout in ("nt", "nn", "tn", "tt")), _dense_choices,
    lambda op, draw, p: op.sample(draw, p.m, p.k, columns=p.n, layout=p.kind.split()[-1]), SIZES)
