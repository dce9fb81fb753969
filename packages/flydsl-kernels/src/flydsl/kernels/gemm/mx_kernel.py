"""GEMM of microscaled operands (fp4, fp6, fp8 with one e8m0 scale per 32 k) by the scaled MFMA of gfx950.

A goes through LDS, B (shuffled) and the scale words straight to registers. One scale word of a lane covers 32 rows
and 256 k: byte ``2 * khalf + rowhalf`` belongs to 16 rows and 128 k, and the instruction's selector takes it.

While tile t is multiplied, B of tile t + 1 is on its way to registers, A of a later tile goes from registers to LDS
and A of the one after that is on its way to registers. Where a tile has 128 k and LDS has room, there is a barrier
every other tile. The turn of the loop is as many tiles as it takes for all that is held to be in its first place again:
nothing is copied between registers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.epilogue import Epilogue, store_tile
from ..parts.index import cdiv
from ..parts.lane import lane_of
from ..parts.mainloop import Held, KTile, MainLoop, Staged
from ..parts.memory import pointer
from ..parts.operand import Advance, Fragments, Rows, Shuffled
from ..parts.products import TileProducts, part_rows
from ..parts.reduce import Lds
from ..parts.scales import WORD_K, HeldScales, PairedScales
from ..parts.schedule import Tally, hot_loop_schedule
from ..parts.tile import LANE_GROUPS
from .config import run

__all__ = ["launch_mx"]

WAVE = 64


class _Weights:
    """B of a wave and the scale words of both operands, which are fetched together: the words between the strips, since
    they take less of the memory pipeline, or after them if all strips are needed at once.

    Args:
        between: whether the words go between the strips.
    """

    def __init__(self, b: Shuffled, scales: tuple[PairedScales, PairedScales], strips: int, between: bool) -> None:
        self._b, self._scales, self._strips, self._between = b, scales, strips, between

    def loads(self, t: KTile) -> int:
        """Loads of a tile."""
        return self._b.loads + sum(side.loads(t) for side in self._scales)

    def fetch(self, t: KTile, before: Any) -> tuple[Any, Any]:
        """Start loading (strips, words of A and B) of a tile; the words of the tile `before` hold for all 256 k."""
        todo = [(side, i) for side in (0, 1) for i in range(self._scales[side].loads(t))]
        strips: list[Any] = []
        words: list[list[Any]] = [[], []]
        for ni in range(self._strips):
            strips.append(self._b.strip(t, ni))
            share = cdiv(len(todo), self._strips - ni) if self._between or ni == self._strips - 1 else 0
            for side, i in todo[:share]:
                words[side].append(self._scales[side].word(t, i))
            todo = todo[share:]
        return strips, words if words[0] else before[1]


@flyc.kernel
def mx_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C of one batch entry."""
    tile, batch, lane = config.a_tile, fx.Int64(fx.block_idx.z), lane_of(WAVE, scalar=True)
    row, column = config.corner(m)
    wave_strip = lane.wave * config.n_repeat
    wave_column = column + wave_strip * 16
    stages, tally = config.stages_in(Lds()), Tally()
    reach = config.together + 1  # tiles from one to that whose A is fetched with it
    a = Rows(tensors["a"], tile, stages, lane, row=row, rows_total=config.end_row(m, row), row_bytes=config.a_row_bytes,
             start=batch * config.entry(m, config.a_row_bytes, config.a_batch), advance=Advance.LANES, near=reach,
             place=config.a.place)
    b = Shuffled(tensors["b"], lane, column=column, strip_words=config.b_row_bytes * 4, advance=Advance.LANES,
                 tile_strips=config.tile_n // 16, blocks=config.steps * config.b.step_bytes // 64,
                 strips=[wave_strip + ni for ni in fx.range_constexpr(config.n_repeat)],
                 start=batch * (config.n * config.b_row_bytes))
    scale_a = PairedScales(tensors["scale_a"], batch * config.scale_entry(m), config.scale_columns, m, [row],
                           config.m_repeat, config.tile_m % 32 == 0, lane, config.tile_k)
    scale_b = PairedScales(tensors["scale_b"], batch * (config.n * config.groups), config.groups, config.n,
                           [wave_column], config.n_repeat, config.n_repeat % 2 == 0, lane, config.tile_k)
    # The order in a part: by columns if these are many, since the last of B arrives late; else by rows, as the second
    # of A does.
    by_columns = config.n_repeat > part_rows(config.m_repeat)
    weights = _Weights(b, (scale_a, scale_b), config.n_repeat, by_columns)

    scales = HeldScales((scale_a, scale_b), lambda held: held[0][1])
    products = TileProducts(config.op, tally, config.m_repeat, config.n_repeat, config.steps,
                            a.reader(lane, 0, LANE_GROUPS),
                            Fragments(lambda held, strip, block: held[0][0][strip][block], reads=0), scales=scales.of,
                            columns_first=by_columns)
    sources: list[Any] = [Held(weights.fetch, weights.loads), Staged(a, reach, config.together)]
    # Of what is loaded while its predecessor is in use there are two: a turn is as many tiles as it takes.
    acc = MainLoop(config.k_tiles, config.stages, sources, products, tally, 2 * (WORD_K // config.tile_k),
                   (partial(hot_loop_schedule, early_writes=True), hot_loop_schedule), (fx.barrier,),
                   config.together).run()
    c = pointer(tensors["c"], config.out) + batch * config.entry(m, config.c_stride, config.c_batch)
    store_tile(c, config.out, acc, Epilogue(), config.place(m, row, column, lane))


#: Launch from a jit function: ``launch_mx(tensors, m, config, stream)``.
launch_mx = partial(run, mx_kernel)
