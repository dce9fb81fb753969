"""The preshuffle GEMM kernel: A through LDS, B (shuffled by ``shuffle_weight``) straight to registers.

Four or eight waves lie along N and interleave strips of 16 columns: accumulator (mi, ni) of wave w covers rows
``16 mi`` and columns ``16 (waves ni + w)``. While tile t is computed, B of tile t + 1 is on its way to registers, A of
tile t + 1 goes from registers to the other LDS buffer, and A of tile t + 2 is on its way to registers; with direct
copies, A of tile t + 1 is on its way to the other buffer. Two tiles are one turn of the loop: the LDS buffers have
fixed addresses.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..parts.cshuffle import shuffle_tile
from ..parts.epilogue import store_tile
from ..parts.lane import lane_of
from ..parts.mainloop import Held, MainLoop, Ring, Staged
from ..parts.memory import WORDS
from ..parts.operand import Advance, Fragments, Rows, Shuffled
from ..parts.packed import int4_chunk
from ..parts.products import BlockScaledProducts, TileProducts
from ..parts.reduce import Lds
from ..parts.schedule import Tally, hot_loop_schedule
from .block_scales import SharedScales, register_scales
from .config import run
from .epilogue import gemm_epilogue
from .preshuffle_config import INT4_FACTOR, PreshuffleConfig

__all__ = ["launch_preshuffle"]

WAVE = 64
SUMS_DELAY = 1  # matrix instructions of a tile, and after its barrier, before partial sums of block scales are added


def _orders(config: PreshuffleConfig) -> tuple[Any, Any] | None:
    """The order of a tile before its barrier and after it. With long instructions, another one follows the barrier
    before the first read: the wait for the other waves is shorter."""
    order = partial(hot_loop_schedule, beside=config.op.blocks, delay=SUMS_DELAY)
    orders = (partial(order, preload=config.preload, early_writes=True),
              partial(order, reads_from=int(config.op.blocks > 1)))
    return orders if config.scheduled else None


@flyc.kernel
def preshuffle_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C."""
    op, tile, lane = config.op, config.a_tile, lane_of(WAVE)
    row, column = config.corner(m)
    memory, tally = Lds(), Tally()
    stages = config.stages_in(memory)
    a = Rows(tensors["a"], tile, stages, lane, row=row, rows_total=config.end_row(m, row),
             row_bytes=config.a_stride * op.element_bytes, advance=Advance.TURN)
    chunk_words = WORDS // 2 if config.int4 else WORDS
    strip_words = config.k * op.element_bytes // op.block_bytes * WAVE * chunk_words
    weights = Shuffled(tensors["b"], lane, column=column, strip_words=strip_words,
                       tile_strips=config.tile_n // 16, blocks=config.blocks, chunk_words=chunk_words,
                       strips=[config.strip(lane.wave, ni) for ni in fx.range_constexpr(config.n_repeat)])
    sources: list[Any] = [Held(lambda t, _: weights.fetch(t), weights.loads)]
    if fx.const_expr(config.use_async):
        sources.append(Ring(a.copy, a.loads, a.loads))
    else:
        sources.append(Staged(a))
    convert = int4_chunk if config.int4 else lambda words: words
    b = Fragments(lambda held, strip, block: convert(held[0][strip][block]), reads=0, converts=config.converts)
    wave = op, tally, config.m_repeat, config.n_repeat, config.blocks // op.blocks, a.reader(lane, 0, op.groups), b
    products: Any = None
    if fx.const_expr(config.block_scale):
        where = tensors["scale_a"], tensors["scale_b"], config, m, row, column, lane
        scales: Any = SharedScales(*where, memory) if config.shared_scales else register_scales(*where)
        sources.append(scales.source)
        products = BlockScaledProducts(*wave, scales)
    else:
        products = TileProducts(*wave)
    loop = MainLoop(config.k_tiles, config.stages, sources, products, tally, 2, _orders(config))
    with fx.fastmath("contract"):
        acc = loop.run()
    acc = acc[0] if fx.const_expr(config.block_scale) else acc
    epilogue = gemm_epilogue(tensors, m, config.n, config.epilogue, op.element_bytes == 1 and not config.block_scale,
                             divisor=INT4_FACTOR if config.int4 else 1)
    place = config.place(m, row, column, lane)
    if fx.const_expr(config.cshuffle):
        shuffle_tile(tensors["c"], config.out, acc, epilogue, place, stages[0], config.shuffle)
    else:
        store_tile(tensors["c"], config.out, acc, epilogue, place)


#: Launch from a jit function: ``launch_preshuffle(tensors, m, config, stream)``.
launch_preshuffle = partial(run, preshuffle_kernel)
