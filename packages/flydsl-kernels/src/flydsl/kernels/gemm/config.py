"""What the configurations of all GEMMs share: tile, waves, grid, epilogue, and the checks of these."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import Extent, require_operands, rows_extent
from ..host.dtypes import FLOATS, element_of
from ..parts.epilogue import Activate, Bias, Epilogue, ScaleBoth, ShufflePlan, Step, TilePlace
from ..parts.grid import block_of
from ..parts.index import align_up, cdiv
from ..parts.lane import Lane
from ..parts.product_config import ProductConfig
from ..parts.tile import CHUNK_BYTES, RowTile

__all__ = ["FLOAT_NAMES", "LARGE_TILE", "GemmConfig", "eight_waves", "run"]

LARGE_TILE = 128 * 256  # elements of C, from which eight waves of gfx950 can be better than four
SMALL_TILE = 64 * 64 * 128  # elements of C times bytes of k
LOW_ROWS = 32  # of a tile that is for no more rows
USUAL_REGISTERS = 256  # those that instructions name directly
FLOAT_NAMES = {"fp16": "f16", "f16": "f16", "bf16": "bf16", "f32": "f32"}  # as callers spell them

Config = TypeVar("Config", bound="GemmConfig")


@dataclass(frozen=True, kw_only=True)
class GemmConfig(ProductConfig):
    """``C[M, N] = A[M, K] B[N, K]^T``.

    Attributes:
        tile_k: of a workgroup's tile.
        out_dtype: of C, one of ``OUT``.
        split_k: workgroups that share a tile's reduction.
        group: block rows of a group in the launch order; 0: plain.
        scheduled: the order of the hot loop is derived and given to the compiler.
        lda, ldb, ldc: elements from a row of A, of B where it has rows, and of C to the next; 0: contiguous.
        cshuffle: C goes through LDS, 16 bytes of a row a lane, instead of directly.
        full: compute units have several workgroups, or each has one with columns of its own; None: if a block of rows
            is enough for that, or may be one of many.
    """

    tile_k: int
    out_dtype: str
    split_k: int = 1
    group: int = 0
    scheduled: bool = True
    lda: int = 0
    ldb: int = 0
    ldc: int = 0
    cshuffle: bool | None = False
    full: bool | None = None

    #: Names of types that C may have.
    OUT: ClassVar[tuple[str, ...]] = ("bf16", "f16")

    @property
    def a_tile(self) -> Any:
        """A's tile in LDS: `tile_m` rows, and as many more as give each thread whole chunks to move."""
        chunks = self.row_bytes // CHUNK_BYTES
        rows = align_up(self.tile_m, self.threads // math.gcd(self.threads, chunks))
        return RowTile(rows, self.row_bytes, self.threads, self.target.bank_bytes)

    @property
    def waves_of_simd(self) -> int:
        """Two, or one where sums take half of the registers, or where LDS has room for no more."""
        resident = self.target.lds_bytes // self.lds_bytes * self.waves
        simds = self.target.simds
        return max(cdiv(self.waves, simds), 1 if self.sums > USUAL_REGISTERS or resident <= simds else 2)

    @property
    def registers(self) -> int:
        """Of a wave, with as many on a SIMD as the kernel asks for."""
        return self.target.wave_registers // (self.waves_of_simd if self.target.tensor_moves else 1)

    @property
    def cluster(self) -> tuple[int, ...] | None:
        """Workgroups that share tiles, if any do."""
        return None

    @property
    def out(self) -> Any:
        """Element class of C."""
        return FLOATS[self.out_dtype]

    @property
    def k_tiles(self) -> int:
        """Tiles along k of a workgroup."""
        return cdiv(cdiv(self.k, self.tile_k), self.split_k)

    def grid(self, m: Any) -> tuple[Any, ...]:
        return fx.ceildiv(m, self.tile_m), cdiv(self.n, self.tile_n), self.split_k

    def corner(self, m: Any) -> tuple[Any, Any]:
        """First row and column of this workgroup's tile."""
        bx, by = block_of(fx.block_idx.x, fx.block_idx.y, fx.ceildiv(m, self.tile_m), cdiv(self.n, self.tile_n),
                          self.group, self.target.xcds)
        return bx * self.tile_m, by * self.tile_n

    # ---------------------------------------------------------------- operands in memory

    @property
    def stored(self) -> tuple[Any, Any]:
        """Element classes of A and B."""
        element = element_of(self.op.dtype, self.target)
        return element, element

    @property
    def a_row_bytes(self) -> int:
        """Bytes from a row of A to the next."""
        return self.op.bytes_of(self.lda or self.k)

    @property
    def b_row_bytes(self) -> int:
        """The same of B, where it has rows."""
        return self.op.bytes_of(self.ldb or self.k, weights=True)

    @property
    def c_stride(self) -> int:
        """Elements from a row of C to the next."""
        return self.ldc or self.n

    @property
    def row_scales(self) -> bool:
        """Whether there is an f32 scale for each row of A and of B."""
        return False

    def extents(self, m: Any) -> dict[str, Extent]:
        """What the product of m rows takes of the operands that the kernel reads and writes at their addresses."""
        a, b = self.stored
        found = {"a": rows_extent(m, self.lda or self.k, self.k, a),
                 "b": rows_extent(self.n, self.ldb or self.k, self.k, b),
                 "c": rows_extent(m, self.c_stride, self.n, self.out)}
        if self.row_scales:
            found.update(scale_a=Extent(m, fx.Float32), scale_b=Extent(self.n, fx.Float32))
        return found

    # ---------------------------------------------------------------- LDS

    @property
    def row_bytes(self) -> int:
        """Of a row of a tile of A."""
        return self.op.bytes_of(self.tile_k)

    @property
    def calls(self) -> int:
        """Calls of the instruction along the k that a wave computes of a tile."""
        return self.tile_k // self.op.k // self.k_waves

    @property
    def blocks(self) -> int:
        """Blocks of k of these."""
        return self.calls * self.op.blocks

    @property
    def products(self) -> int:
        """Matrix instructions of a wave for a tile."""
        return self.m_repeat * self.n_repeat * self.calls * self.op.instructions

    @property
    def reach(self) -> int:
        """Tiles that loads into registers are ahead: the products of a small one take less time than memory does, and
        it has the registers for more. Where each compute unit has columns of its own, one tile of each fills the
        memory's bandwidth, and several workgroups of one hide what a wave waits for."""
        full = self.tile_m > LOW_ROWS or self.n // self.tile_n >= self.target.compute_units
        small = self.tile_m * self.tile_n * self.row_bytes <= SMALL_TILE
        return 3 if small and not (full if self.full is None else self.full) else 1

    @property
    def tile_bytes(self) -> int:
        """Of the operands' tiles that go through LDS."""
        return self.a_tile.bytes

    @property
    def apart(self) -> int:
        """Rows that neighbouring lanes of a fragment of A are apart."""
        return 1

    @property
    def shuffle(self) -> ShufflePlan:
        """How C passes through LDS if `cshuffle`."""
        return ShufflePlan(self.tile_n, self.out.width // 8, self.m_waves, self.m_repeat, self.threads,
                           self.op.acc_len, self.tile_bytes, self.apart)

    def stage_bytes(self, stage: int) -> int:
        """Of a stage; the first also serves the sum over `k_waves` and C."""
        last = 0 if stage else max(self.sum_bytes, self.shuffle.bytes if self.cshuffle else 0)
        return max(self.tile_bytes, last)

    def end_row(self, m: Any, row: Any) -> Any:
        """Where the rows of A end that belong to the tile from `row` on; what is stored past them reads as zero."""
        return m if self.a_tile.rows == self.tile_m else fx.min(m, row + self.tile_m)

    # ---------------------------------------------------------------- places of a lane

    def rows_of(self, lane: Lane) -> list[Any]:
        """Row of the tile of which a lane has values, in each of the wave's 16-row tiles."""
        first, _ = self.wave_place(lane)
        return [first + (mi * 16 + lane.row) for mi in range(self.m_repeat)]

    def columns_of(self, column: Any, lane: Lane) -> list[Any]:
        """First column of C of which it has them, in each of the 16-column tiles; the tile begins with `column`."""
        first = column + self.wave_place(lane)[1]
        return [first + (ni * 16 + lane.group * self.op.acc_len) for ni in range(self.n_repeat)]

    def place(self, m: Any, row: Any, column: Any, lane: Lane) -> TilePlace:
        """Where a lane's accumulators belong in C, of the tile from `row` and `column` on."""
        columns, rows = self.columns_of(column, lane), self.rows_of(lane)
        return TilePlace(m, self.c_stride, row, fx.min(m - row, self.tile_m), rows, columns, self.n % self.tile_n != 0,
                         column, self.wave_of(lane)[0])

    def finish(self, tensors: dict[str, Any], m: Any, activation: str = "none", *, seed: Any = None,
               divisor: int = 1) -> Epilogue:
        """``act(acc / divisor * scale_a[row] * scale_b[column] + bias[column])`` in f32.

        Args:
            tensors: with ``scale_a``, ``scale_b`` if there are `row_scales`, and ``bias`` if the activation's name has
                one.
            activation: ``"none"``, ``"bias"``, or ``"bias_"`` and one of ``ACTIVATE``.
            seed: for stochastic rounding.
            divisor: power of two by which sums are too large. The scale of a row is divided, exactly from ``divisor *
                2**-126`` on.

        Raises:
            ValueError: a divisor without `row_scales`, which would not be applied.
        """
        if divisor != 1 and not self.row_scales:
            raise ValueError(f"sums are divided by way of the scales of their rows, of which there are none: {divisor}")
        steps: list[Step] = []
        if self.row_scales:
            steps.append(ScaleBoth(tensors["scale_a"], tensors["scale_b"], m, self.n, 1.0 / divisor))
        if activation != "none":
            steps.append(Bias(tensors["bias"], self.n))
            name = activation.removeprefix("bias").removeprefix("_")
            if name:
                steps.append(Activate(name))
        return Epilogue(tuple(steps), seed)

    # ---------------------------------------------------------------- checks

    def check_tile(self, where: str, k_unit: int, ragged: bool = False) -> None:
        """ValueError unless tile and waves fit each other, the problem (unless `ragged`) and the types.

        Args:
            k_unit: elements that tile_k is a multiple of.
        """
        need = partial(self.need, where)
        need(self.out_dtype in self.OUT, f"out_dtype must be one of {', '.join(self.OUT)}, got {self.out_dtype!r}")
        self.check_positive(where, "m_waves", "n_waves", "k_waves", "split_k")
        for name, unit in (("tile_m", 16 * self.m_waves), ("tile_n", 16 * self.n_waves), ("tile_k", k_unit)):
            value = getattr(self, name)
            need(value > 0 and value % unit == 0, f"{name} must be a positive multiple of {unit}, got {value}")
        need(self.n > 0 and self.k > 0, f"N and K must be positive, got {self.n} and {self.k}")
        if not ragged:
            need(self.n % self.tile_n == 0, f"N = {self.n} must be a positive multiple of tile_n = {self.tile_n}")
            split, tile = (" * split_k", self.tile_k * self.split_k) if self.split_k > 1 else ("", self.tile_k)
            need(self.k % tile == 0, f"K = {self.k} must be a positive multiple of tile_k{split} = {tile}")

    def check_apart(self, where: str, name: str, least: int, unit: int, ok: bool = True, of: str = "") -> None:
        """ValueError unless rows of `least` elements are contiguous, or `ok` and so far apart as a copy can express."""
        length = getattr(self, name)
        self.need(where, length == 0 or (ok and length >= least and length % unit == 0),
                  f"{name} must be 0 or{of} a multiple of {unit} elements and at least {least}, got {length}")


def eight_waves(config: Config, large: int) -> Config:
    """With eight waves along the columns instead of four, two on a SIMD, if the tile has at least `large` elements of C
    and can be shared so."""
    eight = replace(config, n_waves=8)
    fits = config.tile_n % (16 * eight.n_waves) == 0 and eight.a_tile.rows == config.tile_m
    return eight if fits and config.tile_m * config.tile_n >= large else config


@flyc.jit
def run(kernel, tensors, m, config, stream, before=None):
    """From a jit function: launch ``kernel(tensors, m, config)`` for the tiles of m rows, if there are any, after what
    ``before(tensors, m, config, stream)`` launches. A call is refused whose operands do not fit."""
    config.target.require_traced()
    require_operands(tensors, config.extents(m))
    if fx.const_expr(before is not None):
        before(tensors, m, config, stream)
    if m > 0:
        kernel(tensors, m, config, value_attrs=config.hints).launch(
            grid=config.grid(m), block=config.threads, stream=stream, cluster=config.cluster)
