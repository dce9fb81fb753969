"""GEMM of gfx1250: tensor moves fill a ring of LDS buffers; f16, bf16, and fp8 and fp4 with scales.

Fragments are read one part ahead (`mainloop`); e8m0 scales go to registers, a tile ahead. A word of scales covers 128
k of one row; the 32 lanes hold those of 32 rows, and the instruction takes one half of them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import Extent
from ..parts.epilogue import store_tile
from ..parts.index import cdiv, div, mod
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import SPLIT_BARRIER, WHOLE_BARRIER, Held, KTile, MainLoop, Ring
from ..parts.matrix import FORMATS, MICRO_GROUP, SCALE_BLOCK, MatrixOp, matrix_op, microscaled_op
from ..parts.memory import Buffer, pointer
from ..parts.operand import Fragments, Shuffled
from ..parts.products import TileProducts, part_rows
from ..parts.reduce import Lds
from ..parts.scales import RowScales
from ..parts.schedule import Tally
from ..parts.tensor_tile import TensorMoves, TensorTile
from ..parts.tile import CHUNK_BYTES
from ..target import Target
from .config import GemmConfig, run

__all__ = ["DATA_FORMATS", "SCALE_ROWS", "SLAB", "WmmaConfig", "cluster_place", "launch_wmma", "wmma_config",
           "wmma_loop"]

DATA_FORMATS = {"fp4": ("fp4", "fp4"), "fp8": ("fp8", "fp8"), "a8w4": ("fp8", "fp4")}  # of A and B
SLAB = 16  # rows of b that lie together
SCALE_ROWS = 32  # that share a word of scales of every lane
MAX_WAVES = 32
MAX_CLUSTER = 16
LANE_BYTES = 8  # of a row for each register of a lane: two lanes share it
OTHER_REGISTERS = 24  # addresses, and what the schedule needs beside the products


@dataclass(frozen=True, kw_only=True)
class WmmaConfig(GemmConfig):
    """f16 or bf16, or fp8 and fp4 with scales; with split_k the workgroups add to C.

    Attributes:
        a_dtype, b_dtype: ``"fp8"`` (e4m3) or ``"fp4"`` (e2m1), with B in the order of ``preshuffle_b_16x16``, or both
            ``"f16"`` or ``"bf16"``, with B row-major.
        scales: ``"mx"`` e8m0 per 32 k in the order of ``shuffle_scale_32x4``, ``"block"`` e8m0 per 128 k of a row of A
            (transposed) and per 128 k of 128 columns, ``"rows"`` f32 per row and column;
            ``"none"`` of f16 and bf16.
        scale_stride: of the block scales of A, from 128 k to the next; 0: M.
        cluster_m, cluster_n: workgroups along the rows and columns that share the tiles they load.
        direct: a wave's strips of B come straight to its registers. Where two waves have the same, L1 serves the second
            one, beside LDS, which binds large tiles of which both operands go through it.
    """

    CALLED = {"m_waves": "m_warp", "n_waves": "n_warp", "stages": "num_buffers", "scale_stride": "stride_ascale_k"}
    OUT: ClassVar[tuple[str, ...]] = ("bf16", "f16", "f32")

    a_dtype: str
    b_dtype: str
    scales: str
    scale_stride: int = 0
    cluster_m: int = 1
    cluster_n: int = 1
    direct: bool = False

    def grid(self, m: Any) -> tuple[Any, ...]:
        blocks = fx.ceildiv(m, self.tile_m * self.cluster_m) * self.cluster_m
        return blocks, self.n // self.tile_n, self.split_k

    @property
    def op(self) -> MatrixOp:
        if self.scaled:
            return microscaled_op(self.target, self.a_dtype, self.b_dtype)
        return matrix_op(self.target, self.a_dtype)

    @property
    def scaled(self) -> bool:
        """Whether the instruction takes scales."""
        return self.scales in ("mx", "block")

    @property
    def cluster(self) -> tuple[int, ...] | None:
        return (self.cluster_m, self.cluster_n, 1) if self.cluster_m * self.cluster_n > 1 else None

    @property
    def hints(self) -> dict[str, Any]:
        shared = {"rocdl.cluster_dims": ",".join(map(str, self.cluster))} if self.cluster else {}
        return {**super().hints, **shared}

    @property
    def slab(self) -> int:
        """Rows of B that are one of its tile, in memory and in LDS: what lanes read of a slab together lies together.
        """
        return 1 if self.scales == "none" else SLAB

    @property
    def b_row_bytes(self) -> int:
        """Bytes from a row of the tile of B to the next, in memory."""
        return super().b_row_bytes * self.slab

    @property
    def stored(self) -> tuple[Any, Any]:
        return (FORMATS[self.a_dtype].element, FORMATS[self.b_dtype].element) if self.scaled else super().stored

    @property
    def row_scales(self) -> bool:
        return self.scales == "rows"

    def extents(self, m: Any) -> dict[str, Extent]:
        found = super().extents(m)
        if self.scales == "mx":
            groups = self.k // MICRO_GROUP * SCALE_ROWS  # bytes of 32 rows
            found.update(scale_a=Extent(fx.ceildiv(fx.Int64(m), SCALE_ROWS) * groups, fx.Uint8),
                         scale_b=Extent(cdiv(self.n, SCALE_ROWS) * groups, fx.Uint8))
        elif self.scales == "block":
            blocks = self.k // SCALE_BLOCK
            step = fx.Int64(self.scale_stride or m)
            found["scale_a"] = Extent(step * (blocks - 1) + m, fx.Uint8, spaced=self.scale_stride > 0)
            found["scale_b"] = Extent(cdiv(self.n, SCALE_BLOCK) * blocks, fx.Uint8)
        return found

    @property
    def a_tile(self) -> TensorTile:
        return TensorTile(self.tile_m, self.row_bytes, True)

    @property
    def b_tile(self) -> TensorTile:
        """A slab is one of its rows."""
        row_bytes = self.op.bytes_of(self.tile_k, weights=True)
        return TensorTile(self.tile_n // self.slab, row_bytes * self.slab, self.slab == 1)

    @property
    def tile_bytes(self) -> int:
        return self.a_tile.bytes + (0 if self.direct else self.b_tile.bytes)

    @property
    def scale_rows(self) -> tuple[int, int]:
        """Rows of A, and columns, that a word of scales of every lane covers."""
        columns = self.n_repeat * 16
        within_blocks = columns % SCALE_BLOCK == 0 or SCALE_BLOCK % columns == 0
        return 32, SCALE_BLOCK if self.scales == "block" and within_blocks else 32

    @property
    def scale_words(self) -> int:
        """Registers for the scales of a tile."""
        a, b = self.scale_rows
        return self.calls * (cdiv(self.m_repeat * 16, a) + cdiv(self.n_repeat * 16, b)) if self.scaled else 0

    @property
    def fits(self) -> bool:
        """Whether a wave has about the registers it needs: sums, fragments and scales, which have successors."""
        a, b = (blocks * self.op.block_bytes // LANE_BYTES for blocks in (self.op.blocks, self.op.b_blocks))
        fragments = 2 * (part_rows(self.m_repeat) * a + self.n_repeat * b)
        scales = (3 if self.scales == "block" else 2) * self.scale_words  # a byte is repeated first
        return self.sums + fragments + scales + OTHER_REGISTERS <= self.registers


def _with_waves(config: WmmaConfig) -> WmmaConfig | None:
    """With as many waves as it takes for the registers, more along the longer side of a wave's part. None if no number
    is enough."""
    while not config.fits:
        rows, columns = config.m_repeat, config.n_repeat
        if 2 * config.waves > MAX_WAVES or rows % 2 and columns % 2:
            return None
        longer = "n_waves" if columns % 2 == 0 and (columns > rows or rows % 2) else "m_waves"
        config = replace(config, **{longer: 2 * getattr(config, longer)})
    return config


@functools.lru_cache
def wmma_config(where: str, target: Target, **fields: Any) -> WmmaConfig:
    """A checked configuration, with more waves than asked for (along the longer side of a
    wave's part) where the part would not fit the registers. ValueError says what is not supported."""
    target.require(where, "gfx1250")
    config = WmmaConfig(target=target, **fields)
    need = partial(config.need, where)
    config.check_tile(where, config.op.k)
    config.check_positive(where, "cluster_m", "cluster_n")
    need(config.cluster_m * config.cluster_n <= MAX_CLUSTER, f"a cluster has at most {MAX_CLUSTER} workgroups, "
         f"got {config.cluster_m} x {config.cluster_n}")
    need(config.n // config.tile_n % config.cluster_n == 0,
         f"N = {config.n} must be a multiple of tile_n * cluster_n = {config.tile_n * config.cluster_n}")
    need(not (config.cluster and config.group), "workgroups of a cluster lie as launched: no group is possible")
    need(not config.direct or (config.slab > 1 and config.stages > 2 and not config.cluster),
         "strips of B come straight to registers with three stages or more of A, no cluster, and 8 or 4 bits")
    need(2 <= config.stages <= 4, f"stages must be 2, 3 or 4, got {config.stages}")
    config.check_apart(where, "lda", config.k, 32)
    config.check_apart(where, "ldc", config.n, 8)
    need(config.scale_stride >= 0, f"scale_stride must not be negative, got {config.scale_stride}")
    found = _with_waves(config)
    need(found is not None, f"a tile of {config.tile_m} x {config.tile_n} x {config.tile_k} does not fit the "
         f"registers of {config.m_waves} x {config.n_waves} waves, nor of up to {MAX_WAVES}")
    return (found or config).fitting(where)


# ------------------------------------------------------------------------------------------- the kernel


def _scales_of(tensors: dict[str, Any], config: WmmaConfig, m: Any, row: Any, column: Any,
               lane: Any) -> tuple[RowScales, ...]:
    """Of the rows and columns of a wave, if the instruction takes scales."""
    a_rows, b_rows = config.scale_rows
    if config.scales == "mx":
        group = config.k // 4  # words of 32 rows

        def side(name: str, size: Any, first: Any, tiles: int) -> RowScales:
            words = div(size + (SCALE_ROWS - 1), SCALE_ROWS) * group
            return RowScales(Buffer(tensors[name], fx.Int32, None, words),
                             lambda row: div(row, SCALE_ROWS) * group + mod(row, SCALE_ROWS), SCALE_ROWS, group, first,
                             tiles, SCALE_ROWS, lane)

        return side("scale_a", m, row, config.m_repeat), side("scale_b", config.n, column, config.n_repeat)
    if config.scales == "block":
        blocks = config.k // SCALE_BLOCK
        stride = config.scale_stride or m
        a = Buffer(tensors["scale_a"], fx.Int8, None, stride * (blocks - 1) + m)
        b = Buffer(tensors["scale_b"], fx.Int8, None, cdiv(config.n, SCALE_BLOCK) * blocks)
        return (RowScales(a, lambda x: x, stride, a_rows, row, config.m_repeat, a_rows, lane),
                RowScales(b, lambda x: div(x, SCALE_BLOCK) * blocks, 1, blocks if b_rows == SCALE_BLOCK else None,
                        column, config.n_repeat, b_rows, lane))
    return ()


def wmma_loop(config: WmmaConfig, a_data: Any, b_data: Any, m: Any, row: Any, column: Any, lane: Lane,
              masks: tuple[Any, Any], scales: tuple[RowScales, ...], begin: Any = 0) -> MainLoop:
    """The main loop of the tile of C from `row` and `column` on.

    Args:
        a_data, b_data: pointers to A, of `m` rows, and to B.
        masks: workgroups of the cluster that share the tile of A, and that of B.
        scales: of A and B, if the instruction takes them.
        begin: the first k tile.
    """
    a_tile, b_tile, tally, stage_bytes = config.a_tile, config.b_tile, Tally(), config.tile_bytes
    wave = config.wave_place(lane)
    ring = Lds().array(fx.Int32, config.lds_bytes // 4).ptr
    slab, turn = config.slab, 2
    held: list[Held] = []
    if config.direct:
        turn, half = config.stages, replace(a_tile, rows=a_tile.rows // 2)
        descriptors = [half.descriptor(a_data, row + i * half.rows, m, config.a_row_bytes, ring + i * half.bytes // 4)
                       for i in range(2)]
        steps = a_tile.row_bytes, a_tile.row_bytes
        strips = [div(wave[1], slab) + i for i in range(config.n_repeat)]
        strip = Shuffled(b_data, lane, column=column, strip_words=config.b_row_bytes // 4,
                         tile_strips=config.tile_n // slab, strips=strips, lanes=config.wave,
                         blocks=b_tile.row_bytes // (config.wave * CHUNK_BYTES))
        held.append(Held(lambda t, _: strip.fetch(t), strip.loads))
        b = Fragments(lambda tiles, tile, block: tiles[0][tile][block], reads=0)
    else:
        descriptors = [a_tile.descriptor(a_data, row, m, config.a_row_bytes, ring, masks[0]),
                       b_tile.descriptor(b_data, div(column, slab), config.n // slab, config.b_row_bytes,
                                         ring + a_tile.bytes // 4, masks[1])]
        steps = a_tile.row_bytes, b_tile.row_bytes
        place = lane.lane * CHUNK_BYTES if slab > 1 else lane.row * b_tile.pitch + lane.group * CHUNK_BYTES
        b = b_tile.fragments(ring, stage_bytes, div(wave[1], slab) * b_tile.pitch + a_tile.bytes + place,
                             16 // slab, slab)
    moves = TensorMoves(tuple(descriptors), steps, stage_bytes, config.m_waves * config.n_waves, lane.wave)
    place = lane.row * a_tile.pitch + lane.group * CHUNK_BYTES
    a = a_tile.fragments(ring, stage_bytes, wave[0] * a_tile.pitch + place, 16, stages=turn)

    def fetch_scales(t: KTile, _: Any) -> list[Any]:
        return [[side.fetch(t.index * config.calls + s) for side in scales] for s in range(config.calls)]

    def scales_of(t: KTile, held: list[Any]) -> Any:
        return lambda call: [side.of(words) for side, words in zip(scales, held[-1][call], strict=True)]

    products = TileProducts(config.op, tally, config.m_repeat, config.n_repeat, config.calls, a, b,
                            scales=scales_of if scales else None, stepped=config.calls > 1)
    copies = Ring(moves.issue, moves.count, moves.count, lambda n: fx.rocdl.s_wait_tensorcnt(n), vector=False,
                  lead=2 if config.direct else 1)
    if scales:
        held.append(Held(fetch_scales, config.scale_words))
    barrier = SPLIT_BARRIER if config.direct else WHOLE_BARRIER
    if config.cluster:
        barrier = (fx.rocdl.cluster.cluster_barrier,)
        fx.rocdl.cluster.cluster_barrier()  # all are there
    # After two tiles fragments are in their first registers again, and nothing is copied between them; after as many as
    # there are stages, the numbers of these are known.
    return MainLoop(config.k_tiles, config.stages, [*held, copies], products, tally, turn, barrier=barrier, begin=begin)


def cluster_place() -> tuple[Any, Any]:
    """Row and column of this workgroup in its cluster."""
    return fx.Int32(fx.rocdl.cluster_workgroup_id_x()), fx.Int32(fx.rocdl.cluster_workgroup_id_y())


@flyc.kernel
def wmma_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C, or with split_k adds its share of the reduction to it."""
    lane = lane_of(config.target.wave, scalar=True)
    row, column = config.corner(m)
    wave_row, wave_column = config.wave_place(lane)
    masks = (0, 0)
    if fx.const_expr(config.cluster is not None):
        masks = fx.rocdl.cluster.compute_mcast_masks(*cluster_place(), config.cluster_m, config.cluster_n)
    scales = _scales_of(tensors, config, m, row + wave_row, column + wave_column, lane.lane)
    loop = wmma_loop(config, pointer(tensors["a"], fx.Int32), pointer(tensors["b"], fx.Int32), m, row, column,
                     lane, masks, scales,
                     fx.block_idx.z * config.k_tiles if config.split_k > 1 else 0)
    acc = loop.run()
    place = config.place(m, row, column, lane)
    if fx.const_expr(config.cluster is not None):  # there may be workgroups past the last row
        place = replace(place, rows=(row < m).select(place.rows, 0))
    store_tile(tensors["c"], config.out, acc, config.finish(tensors, m), place,
               Buffer.store if config.split_k == 1 else Buffer.add)


CLEAR_THREADS = 256


@flyc.kernel
def clear_kernel(tensors, config: fx.Constexpr):
    """Write zero to a part of a row of C."""
    element = config.out
    count = CHUNK_BYTES * 8 // element.width
    c = Buffer(tensors["c"], element, fx.Int64(fx.block_idx.x) * config.c_stride, config.n)
    c.store((fx.block_idx.y * CLEAR_THREADS + fx.thread_idx.x) * count, fx.full(count, 0.0, element))


def _clear(tensors: dict[str, Any], m: Any, config: WmmaConfig, stream: Any) -> None:
    """Launch from a jit function what clears C."""
    chunks = config.n * config.out.width // (CHUNK_BYTES * 8)
    clear_kernel(tensors, config).launch(grid=(m, cdiv(chunks, CLEAR_THREADS)), block=CLEAR_THREADS, stream=stream)


def launch_wmma(tensors: dict[str, Any], m: Any, config: WmmaConfig, stream: Any) -> None:
    """Launch from a jit function: ``c``, ``a``, ``b``, ``scale_a`` and ``scale_b``."""
    run(wmma_kernel, tensors, m, config, stream, _clear if config.split_k > 1 else None)
