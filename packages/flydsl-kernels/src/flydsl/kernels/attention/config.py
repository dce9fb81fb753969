"""What an attention kernel computes and with which tile, as one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS
from ..parts.index import mod
from ..target import MATRIX_ARCHS, Target
from .places import Tile, tiles_of
from .rows import CHUNK

__all__ = [
    "ARCHS", "CHUNK", "LARGEST", "STATISTICS", "STEP", "AttentionConfig", "BackwardConfig", "ForwardConfig", "Matrix",
    "choose", "choose_backward", "is_short", "matrix_of",
]

ARCHS = MATRIX_ARCHS
LARGEST = 256  # head dimension
STEP = 32  # of head dimensions that kernels have; others are padded
STATISTICS = 2  # of a row of queries that gradients of keys take
RUN = 4  # rows that follow each other in an accumulator
READY = 3  # matrix instructions after which the results of those before can be read

Order = tuple[tuple[int, ...], tuple[int, ...]] | None  # of a mode of a product, as a layout (shape, stride)


@dataclass(frozen=True)
class Matrix:
    """The instruction of both products, and how its operands lie.

    Attributes:
        m: rows of queries, and keys or columns of V, that one takes.
        k: depth.
    """

    m: int
    k: int

    def run(self, lanes: int) -> int:
        """Elements along its depth that follow each other in an operand of one of so many lanes."""
        return min(CHUNK, self.m * self.k // lanes)


def matrix_of(target: Target) -> Matrix:
    """The instruction of an architecture: that of most rows."""
    m = 32 if target.matrix == "mfma" else 16
    return Matrix(m, target.half_k * 16 // m)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(KernelConfig):
    """What kernels of attention have in common: S^T = K Q^T becomes weights, and these O^T = V^T P^T, tile by tile.

    Attributes:
        dtype: of both products, ``"f16"`` or ``"bf16"``.
        stored: of keys and values in memory: `dtype`, or ``"fp8"``.
        group: query heads that share a head of k and v.
        left: whether keys far before a query are hidden.
        softcap, sink: whether there is one.
        page: rows of a page of paged keys and values, or 0.
        split: keys are divided among workgroups, whose results are added.
        keys: rows of k and v of a tile.
        waves: of a workgroup.
        blocks: rows of queries of a wave, in those of an instruction.
        sharing: waves that share rows: each has all of their scores and its share of the columns of sums, where whole
            sums have no room in its registers; or has tokens of its own.
    """

    dtype: str
    stored: str = ""
    group: int = 1
    left: bool = False
    softcap: bool = False
    sink: bool = False
    page: int = 0
    split: bool = False
    keys: int = 64
    waves: int = 4
    blocks: int = 1
    sharing: int = 1

    @property
    def element(self) -> Any:
        """Of both products."""
        return FLOATS[self.dtype]

    @property
    def stored_element(self) -> Any:
        """Of keys and values in memory."""
        return self.target.fp8 if self.stored == "fp8" else self.element

    @property
    def matrix(self) -> Matrix:
        return matrix_of(self.target)

    @property
    def threads(self) -> int:
        return self.waves * self.target.wave

    @property
    def hints(self) -> dict[str, Any]:
        """For the compiler."""
        return {}

    @property
    def wave_rows(self) -> int:
        """Queries of a wave."""
        return self.matrix.m * self.blocks

    def fills_simd(self, sums: int, queries: int) -> bool:
        """Whether what a wave holds (sums and queries of so many columns, scores twice) leaves no room on its SIMD for
        another wave."""
        held = self.wave_rows * (sums + 2 * self.keys + queries // 2) // self.target.wave
        return held > self.target.simd_registers // 2

    @property
    def scales_apart(self) -> bool:
        """Whether sums are scaled in a branch of their own, not where they are the zeros of a first tile."""
        return False

    @property
    def plain(self) -> bool:
        """Whether scores are products times a positive scale, so that both are one multiply-add."""
        return False

    @property
    def converts(self) -> bool:
        """Whether an instruction rounds two numbers to the type of the products."""
        return self.dtype == "f16" or self.target.mx

    @property
    def rolled(self) -> bool:
        """Whether the loop has one tile a turn."""
        return False

    @property
    def values(self) -> int:
        """Scores of a tile that a lane has."""
        return self.keys * self.wave_rows // self.target.wave

    @property
    def early(self) -> int:
        """Of them, those that are weighed beside the product with the values of the tile before."""
        return self.values // 2

    @property
    def together(self) -> int:
        """Of them, those that become probabilities together. Where an instruction says which quarters of the registers
        are meant, one is enough for several of a kind that follow each other."""
        return math.gcd(8, self.early, self.values // self.blocks) if self.target.register_quarters else 2

    @property
    def most(self) -> float:
        """That a lane's probabilities of a tile may sum up to before scores are taken relative to another maximum."""
        return 1024.0

    @property
    def key_chunk(self) -> int:
        """Consecutive columns of a key that a lane reads at once: operands of as many instructions as take them."""
        return CHUNK

    @property
    def orders(self) -> tuple[tuple[Order, Order, Order], ...]:
        """Of rows, columns and depth of both products, as layouts (shape, stride); None: as they come.

        The depth of the first lets a lane's chunk of a row be its operands; that of the second (gfx950) lets the
        accumulator of the first be, lane by lane, its operand.
        """
        chunk, run, apart = self.key_chunk, self.matrix.run(self.target.wave), self.target.wave // self.matrix.m
        chunks = None if chunk == run else ((run, apart, chunk // run), (1, chunk, run))
        pairs = self.target.matrix == "mfma" and run > RUN
        keys = ((RUN, run // RUN, apart), (1, RUN * apart, RUN)) if pairs else None
        return (None, None, chunks), (None, None, keys)

    def tiled_mma(self, second: bool, waves: int = 0) -> Any:
        """Of S^T = K Q^T, or of O^T = V^T P^T: waves along the rows of Q, and in the second along shares of columns.

        The first is that of the threads that have rows of their own. With `waves`, one of so many.
        """
        m, along = self.matrix, waves or self.waves // self.sharing
        make = fx.rocdl.MFMA if self.target.matrix == "mfma" else fx.rocdl.WMMA
        atom = fx.make_mma_atom(make(m.m, m.m, m.k, self.element))
        places = fx.make_layout((self.sharing if second and not waves else 1, along, 1), (along, 1, 0))
        orders = self.orders[second]
        tile = fx.make_tile(*(order and fx.make_layout(*order) for order in orders)) if any(orders) else None
        return fx.make_tiled_mma(atom, places, tile)

    def turned(self, weights: Any) -> Any:
        """What a wave has of an accumulator of the first product, as operand B of the second."""
        return fx.convert_layout(weights, self.tiled_mma(True, 1).thread_values("B", (self.wave_rows, self.keys)),
                                 modes=(1, 0), thread_values=self.tiled_mma(False, 1).thread_values(
                                     "C", (self.keys, self.wave_rows)))

    @property
    def copies_base(self) -> bool:
        """Whether exponents take a copy of a row's base, not what the loop carries: 85 % of gfx942's loop of 128
        columns is busy then instead of 81, others lose a point."""
        return self.target.matrix == "mfma" and not self.target.transposing_reads

    def read_across(self) -> Any:
        """Copy atom of operand A of the second product."""
        if self.target.transposing_reads == 8:
            return fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64), self.element)
        if self.target.transposing_reads == 16:
            return fx.make_copy_atom(fx.rocdl.cdna5.LDSReadTrans(16, 128), self.element)
        return fx.make_copy_atom(fx.UniversalCopy64b() if self.target.wave == 64 else fx.UniversalCopy128b(),
                                 self.element)


@dataclass(frozen=True, kw_only=True)
class ForwardConfig(AttentionConfig):
    """A forward kernel.

    Attributes:
        stored: of q, too; fp8 has a factor for each.
        d, dv: columns of q and k, and of v: multiples of 32.
        right: whether keys far behind a query are hidden. Causal attention has a right bound of 0.
        alibi: whether there are slopes.
        bias: dtype of an addend of the scores, or "".
        packed: sequences of several lengths in one tensor, given by `cu_seqlens`.
        lengths: keys of each sequence are given.
        positive: the scale is positive, so that the largest product is the largest score.
        delay: matrix instructions after which the scores of those before are weighed.
        refilled: registers that keys and values pass through are loaded again as soon as they are stored.
    """

    d: int
    dv: int
    right: bool = False
    alibi: bool = False
    bias: str = ""
    packed: bool = False
    lengths: bool = False
    positive: bool = True
    delay: int = READY
    refilled: bool = True

    @property
    def direct(self) -> Any:
        """The producer that brings k and v to LDS without registers; None where they pass through them."""
        if self.page or self.stored == "fp8":
            return None
        if self.target.tensor_moves:  # which leave padding behind runs of a power of two
            return fx.TensorMove if all(n & (n - 1) == 0 for n in (self.d, self.dv)) else None
        whole = all(self.keys * n % (CHUNK * self.threads) == 0 for n in (self.d, self.dv))
        return fx.Direct if self.target.dma128 and whole else None

    @property
    def stages(self) -> int:
        """Tiles that have a place in LDS at once."""
        return 4 if self.kept else 2

    @property
    def kept(self) -> int:
        """Tiles of them that are not overwritten yet when the next one is read: a wave passes the first half of the
        turn half a step before the second, and reads of LDS go on across it."""
        return int(self.rolled and self.direct is not None)

    @property
    def alone(self) -> bool:
        return self.fills_simd(self.dv, self.d)

    @property
    def beside_others(self) -> bool:
        """Whether waves that share a SIMD are of several workgroups, which may have more or less to do. With more than
        128 columns on gfx9 a wave has registers for itself only."""
        return self.waves <= self.target.simds and self.dv <= 128 and not self.alone

    @property
    def rolled(self) -> bool:
        """The loop is large as it is, or would be with the stages that tensor moves of few columns take to come in
        time."""
        return self.alone or self.splits_turn and self.direct is not None

    @property
    def splits_turn(self) -> bool:
        """Whether a wave passes the barrier of a step among the last products, and reads the first keys of the next one
        behind it: few other waves of its SIMD would use the wait."""
        return self.target.register_quarters and self.blocks > 1

    @property
    def halved(self) -> bool:
        """Whether each product of a step has half of what the step moves to LDS beside it: a wave that shares its SIMD
        with few others issues all of it, and writes keep its own reads waiting."""
        return self.splits_turn and (self.refilled or self.direct is not None)

    @property
    def row_threads(self) -> int:
        """Threads that have rows of their own; those of other shares of the columns have the same again."""
        return self.threads // self.sharing

    def row_thread(self, thread: Any) -> Any:
        """The one of these whose rows a thread has."""
        return thread if self.sharing == 1 else mod(thread, self.row_threads)

    @property
    def rows(self) -> int:
        """Queries of a workgroup."""
        return self.waves // self.sharing * self.wave_rows

    @property
    def plain(self) -> bool:
        """Scores are products times the scale, so that both are one multiply-add."""
        return self.positive and not (self.softcap or self.alibi or self.bias)

    @property
    def tiles(self) -> tuple[tuple[Tile, ...], ...]:
        """How keys and values lie in LDS."""
        return tuple(tiles_of(self.target, self.keys, columns, self.threads, not across, across,
                              self.direct is not None)
                     for across, columns in ((False, self.d), (True, self.dv)))

    @property
    def lds_bytes(self) -> int:
        return 2 * self.stages * sum(tile.size for tiles in self.tiles for tile in tiles)

    @property
    def hints(self) -> dict[str, Any]:
        """For the compiler: two waves share a SIMD of gfx9, if their registers allow it, and one with quarters where
        they need more than 256, or two blocks or more, unless one is `alone`."""
        large = max(self.d, self.dv) > 128
        two = self.blocks > 1 or (self.target.register_quarters if large else self.target.wave == 64)
        return {"rocdl.waves_per_eu": 1 if self.alone else 2} if two else {}

    def checked(self, where: str) -> ForwardConfig:
        """The same, if there is such a kernel."""
        self.target.require(where, *ARCHS)
        for name, n in (("k", self.d), ("v", self.dv)):
            require(where, 0 < n <= LARGEST and n % STEP == 0,
                    f"columns of {name} must be a multiple of {STEP} up to {LARGEST}, got {n}")
        return self.fitting(where)


@dataclass(frozen=True, kw_only=True)
class BackwardConfig(ForwardConfig):
    """A backward kernel: `keys` are the rows of a tile that passes by, of k and v or (`by_keys`) of q and dout.

    Attributes:
        by_keys: a workgroup computes gradients of keys and values; else those of queries.
    """

    by_keys: bool = False

    @property
    def rolled(self) -> bool:
        """Where tensor moves bring the tiles: LDS has room for the stages in which they come in time."""
        return self.target.tensor_moves and super().direct is not None

    @property
    def kept(self) -> int:
        return int(self.rolled)

    @property
    def stages(self) -> int:
        """Two, if there is room in LDS."""
        return super().stages if self.kept or 2 * self._stage_bytes <= self.target.lds_bytes else 1

    @property
    def direct(self) -> Any:
        return super().direct if self.rolled or self.stages == 2 and self.target.dma128 else None

    @property
    def alone(self) -> bool:
        """Whether what a wave holds (both operands, their sums, and S, dP and what they become) leaves no room on its
        SIMD for another wave."""
        columns = (self.d + self.dv) // 2 + self.d + self.by_keys * self.dv + 3 * self.keys
        return self.wave_rows * columns // self.target.wave >= self.target.simd_registers * 3 // 8

    @property
    def late(self) -> bool:
        """Whether what passes starts behind the first product. Sums of four blocks leave no registers for it before;
        and tensor moves, which take LDS from a product that waits for it, keep 70 and 71 % of the loops of 128 columns
        busy then instead of 68 and 67."""
        return self.blocks > 3

    @property
    def statistics(self) -> int:
        """Of each passing row that go through LDS, where its stages have room for them; else waves load them."""
        more = max(self.stages, 2) * (self._stage_bytes + STATISTICS * 4 * self.threads)
        return STATISTICS if self.by_keys and more <= self.target.lds_bytes else 0

    @property
    def _stage_bytes(self) -> int:
        return 2 * sum(tile.size for tiles in self.tiles for tile in tiles)

    @property
    def lds_bytes(self) -> int:
        return self.stages * (self._stage_bytes + self.statistics * 4 * self.threads)

    @property
    def hints(self) -> dict[str, Any]:
        """For the compiler: two waves share a SIMD, of 512 registers each, unless one is `alone`."""
        return {"rocdl.waves_per_eu": 1 if self.alone else 2} if self.target.register_quarters else {}

    @property
    def tiles(self) -> tuple[tuple[Tile, ...], ...]:
        """How the two operands that pass by lie in LDS."""
        return tuple(tiles_of(self.target, self.keys, columns, self.threads, True, across, self.rolled)
                     for columns, across in ((self.d, True), (self.dv, self.by_keys)))


def choose_backward(target: Target, short: bool = False, **options: Any) -> BackwardConfig:
    """The configuration with the tile for an architecture.

    Args:
        short: of `is_short`.
    """
    d, by_keys = max(options["d"], options["dv"]), options["by_keys"]  # sums of keys are twice as many
    small = target.wave == 32 or d > (64 if by_keys else 128) or not target.transposing_reads
    tile = dict(keys=32 if small else 64, waves=4)
    if target.arch == "gfx120":
        # Many waves load and turn each passing tile once. With 32 keys of more columns it has no room in LDS.
        large = d > 64
        tile.update(waves=(8 if large and by_keys else 4) if short else 16 if large else 8,
                    keys=16 if by_keys and large and (short or d > 128) else 32)
    if target.arch == "gfx1250":
        # Each read of LDS, which bounds these kernels, is for several products: for as many as a wave has registers.
        # Beside the sums of keys, what else makes scores leaves them for three.
        more = by_keys and any(options.get(name) for name in ("softcap", "alibi", "bias"))
        large = d > 128
        tile.update(blocks=(1 if large else 2) if short else 2 if large else 3 if more else 4)
    parts = 2 * matrix_of(target).m  # columns that two waves can share
    # Beyond so many, sums of all columns have no room in the registers of a wave; gfx1250 has room for all.
    most = 128 if by_keys else 192 if target.arch == "gfx120" else LARGEST
    if d > most and target.arch != "gfx1250" and options["d"] % parts == options["dv"] % parts == 0:
        tile.update(waves=max(tile["waves"], 4 if target.wave == 64 else 8), sharing=2)
    return BackwardConfig(**{**tile, **options}, target=target)


def is_short(target: Target, rows: int) -> bool:
    """Whether sequences of at most so many rows have a smaller tile of their own."""
    return target.wave == 32 and rows <= 128


def choose(target: Target, short: bool = False, **options: Any) -> ForwardConfig:
    """The configuration with the tile for an architecture.

    Args:
        short: of `is_short`.
    """
    d = max(options["d"], options["dv"])
    # Columns up to which there is room for 64 keys: fewer if they pass through registers; and from which on for 16,
    # where sums take half of the registers.
    staged = options.get("page") or options.get("stored") == "fp8"
    most = {"gfx950": 64 if staged else 128, "gfx942": 0, "gfx90a": 0}.get(target.arch, 64)
    tile = dict(keys=64 if d <= most else 16 if target.arch == "gfx120" and d > 160 else 32,
                waves=4 if target.wave == 64 else 8)
    if target.arch == "gfx950":
        # Its matrix instructions leave softmax the least time: this begins before their results are there (82 % of the
        # loop of 128 columns is busy then instead of 79), at once where it takes longer than they (of 64: 55 for 52).
        tile.update(delay=2 if options["dv"] > 64 else 0)
    if target.arch == "gfx1250" and not short:
        # Each read of LDS, which would bind waves of one block, is for several. With 128 columns a wave has all
        # registers of its SIMD and, with so many keys, as many products a step; but it would wait for rows of pages.
        # With more columns it has all of them in any case: for three blocks where sums of 256 leave little to others.
        if d > 128:
            tile.update(keys=32, waves=4, blocks=3 if d > 192 and (staged or options.get("softcap")) else 4)
        elif options["d"] == options["dv"] == 128 and not options.get("page"):
            tile.update(keys=64, waves=4, blocks=4)
        else:
            tile.update(keys=32, blocks=4 if d <= 64 else 3)
    if target.arch == "gfx120":
        # Loads that start half a step later are there in time, and leave registers to the rest.
        tile.update(refilled=False)
        if d > (128 if short else 64):
            # More threads have less of a passing tile each. Beside queries, sums of all columns have no room beyond
            # 192.
            tile.update(waves=16, sharing=2 if d > 192 else 1)
    return ForwardConfig(**{**tile, **options}, target=target)
