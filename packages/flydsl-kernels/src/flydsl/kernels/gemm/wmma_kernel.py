"""GEMM of gfx1250: tensor moves fill a ring of LDS buffers; f16, bf16, and fp8 and fp4 with scales.

Fragments are read one part ahead (`mainloop`); e8m0 scales go to registers, a tile ahead. A word of scales covers 128
k of one row; the 32 lanes hold those of 32 rows, and the instruction takes one half of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.epilogue import store_tile
from ..parts.index import cdiv, compute_mcast_masks, div, mod
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import Held, KTile, MainLoop, Ring
from ..parts.matrix import SCALE_BLOCK
from ..parts.memory import Buffer, pointer
from ..parts.products import TileProducts
from ..parts.reduce import Lds
from ..parts.scales import RowScales
from ..parts.schedule import Tally
from ..parts.tensor_tile import TensorMoves
from ..parts.tile import CHUNK_BYTES
from .config import run
from .epilogue import gemm_epilogue
from .wmma_config import SCALE_ROWS, SLAB, WmmaConfig

__all__ = ["cluster_place", "launch_wmma", "wmma_loop"]

CLEAR_THREADS = 256


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
    # A row of B's tile in memory and in LDS: of B, or a slab of them.
    slab = SLAB if config.shuffled else 1
    a_move = a_tile.descriptor(a_data, row, m, config.a_row_bytes, ring, masks[0])
    b_move = b_tile.descriptor(b_data, div(column, slab), config.n // slab, config.b_row_bytes,
                               ring + a_tile.bytes // 4, masks[1])
    moves = TensorMoves((a_move, b_move), (a_tile.row_bytes, b_tile.row_bytes), stage_bytes,
                        config.m_waves * config.n_waves, lane.wave)
    place = lane.row * a_tile.pitch + lane.group * CHUNK_BYTES
    a = a_tile.fragments(ring, stage_bytes, wave[0] * a_tile.pitch + place, 16)
    place = lane.lane * CHUNK_BYTES if config.shuffled else lane.row * b_tile.pitch + lane.group * CHUNK_BYTES
    b = b_tile.fragments(ring, stage_bytes, div(wave[1], slab) * b_tile.pitch + a_tile.bytes + place,
                         16 // slab, slab)

    def fetch_scales(t: KTile, _: Any) -> list[Any]:
        return [[side.fetch(t.index * config.steps + s) for side in scales] for s in range(config.steps)]

    def scales_of(t: KTile, held: list[Any]) -> Any:
        return lambda call: [side.of(words) for side, words in zip(scales, held[0][call], strict=True)]

    products = TileProducts(config.op, tally, config.m_repeat, config.n_repeat, config.steps, a, b,
                            scales=scales_of if scales else None, stepped=config.steps > 1)
    copies = Ring(moves.issue, moves.count, moves.count, lambda n: fx.rocdl.s_wait_tensorcnt(n), vector=False)
    held = [Held(fetch_scales, config.scale_words)] if scales else []
    if config.cluster:
        fx.rocdl.cluster.cluster_barrier()  # all are there
    # After two tiles fragments are in their first registers again, and nothing is copied between them.
    return MainLoop(config.k_tiles, config.stages, [*held, copies], products, tally, 2,
                    barrier=(fx.rocdl.cluster.cluster_barrier if config.cluster else fx.lds_barrier,), begin=begin)


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
        masks = compute_mcast_masks(*cluster_place(), config.cluster_m, config.cluster_n)
    scales = _scales_of(tensors, config, m, row + wave_row, column + wave_column, lane.lane)
    loop = wmma_loop(config, pointer(tensors["a"], fx.Int32), pointer(tensors["b"], fx.Int32), m, row, column,
                     lane, masks, scales,
                     fx.block_idx.z * config.k_tiles if config.split_k > 1 else 0)
    acc = loop.run()
    place = config.place(m, row, column, lane)
    if fx.const_expr(config.cluster is not None):  # there may be workgroups past the last row
        place = replace(place, rows=(row < m).select(place.rows, 0))
    epilogue = gemm_epilogue(tensors, m, config.n, "none", config.scales == "rows")
    store_tile(tensors["c"], config.out, acc, epilogue, place,
               Buffer.store if config.split_k == 1 else Buffer.add)


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
