"""MLA decode: all heads of a token attend to one latent vector a token of the context.

A workgroup takes rows (tokens x heads) and a share of the context. A tile of this is fetched from its pages once, to
LDS (on gfx1250 directly), and read there along its tokens for the scores S^T = K Q^T, and across them for the
sums O^T = V^T P^T. Queries and sums stay in registers. Waves that share rows multiply a share of the columns of keys
each, add up their scores in LDS, and make a share of the columns of the result. Where a wave has all columns of its
rows, these take most registers: two waves share a SIMD, and one multiplies while the other weighs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..attention.config import READY
from ..attention.scores import Logits, RowState, lanes_of
from ..attention.weave import Work, do, weave
from ..cache.pages import Pages
from ..host.dtypes import element_of
from ..parts.index import div, mod
from ..parts.mathx import LOG2E
from ..parts.memory import lds_read, lds_write, pointer
from ..parts.runs import runs_of
from .mla_config import RANK, ROPE, MlaConfig
from .mla_queries import queries_of
from .mla_tile import LatentTile
from .operands import WORD

__all__ = ["attend_latents"]

ACCESS = 4  # f32 that a lane writes to LDS at once


class Exchange:
    """Scores of the waves that share rows come together in LDS, those of a lane in the same lane."""

    def __init__(self, config: MlaConfig, memory: Any, wave: Any, lane: Any) -> None:
        array: Any = fx.Array
        self.config, self.wave, self.lane = config, wave, lane
        self._base = memory.allocate(array[fx.Float32, config.waves * config.exchange, 128]).peek().ptr

    def _place(self, wave: Any, i: int) -> Any:
        return wave * self.config.exchange + (i * self.config.target.wave + ACCESS * self.lane)

    def add(self, scores: Any) -> None:
        """The sums of all shares; one barrier."""
        parts, sharing = runs_of(lanes_of(scores), ACCESS), self.config.sharing
        for i, part in enumerate(parts):
            lds_write(self._base, self._place(self.wave, i * ACCESS), part)
        fx.lds_barrier()
        for i, part in enumerate(parts):
            # Pairs of pairs: in all of these waves the sums, and so the weights, are the same to the bit.
            shares = [part, *(lds_read(self._base, self._place(self.wave ^ w, i * ACCESS), ACCESS)
                              for w in range(1, sharing))]
            while len(shares) > 1:
                shares = [low + high for low, high in zip(shares[::2], shares[1::2], strict=True)]
            parts[i] = shares[0]
        scores.store(fx.Vector.from_elements([x for part in parts for x in part], fx.Float32))


@flyc.jit
def _store(results, sums, found, factor, own, lane):
    """The rows of a wave in its `own` share of the columns, and (from the first) the logarithms of the parts."""
    mine, values = results.place, lanes_of(sums)
    config = mine.config
    for n in fx.range_constexpr(config.blocks):
        row, count, scale = n * config.m + mod(lane, config.m), values.numel // config.blocks, found[n].share(factor)
        if mine.exists(row):
            for first, numbers in config.neighbours():
                at = own * config.columns + first + div(lane, config.m) * config.lane_columns
                results.store(row, at, values.shuffle(values, [n * count + i for i in numbers]) * scale)
            if fx.const_expr(results.logs):
                if (own == 0) & (lane < config.m):
                    results.store_log(row, found[n].log)


@flyc.jit
def attend_latents(tensors, sizes, config, share, results):
    """The work of a workgroup: its share of a context, for the rows of the place of its results."""
    mine, thread, wave = results.place, fx.thread_idx.x, fx.wave_index()
    lane, own = thread % config.target.wave, wave % config.sharing
    first, second = config.tiled_mma(False, 1), config.tiled_mma(True, 1)
    words = WORD // config.stored_element.width
    pages = Pages(pointer(tensors["cache"], fx.Int32), share.table, config.page, div(sizes.keys.page, words),
                  div(sizes.keys.token, words), 0, share.end - 1, uniform=False)
    memory = fx.SharedAllocator()
    tile = LatentTile(config, memory, pages, share.begin, lane, wave)
    exchange = Exchange(config, memory, wave, lane) if config.sharing > 1 else None
    query = element_of(config.query, config.target)
    queries = queries_of(config, memory, first, query, own, lane, wave)
    state = RowState(config, first.get_slice(lane), second.get_slice(lane), config.wave_rows, config.columns,
                     fx.Float32(LOG2E))
    scores, weights, sums, softmax = state.scores, state.weights, state.sums, state.softmax
    q_scale, kv_scale = [pointer(tensors[name], fx.Float32).load() if scaled else fx.Float32(1.0)
                         for name, scaled in (("q_scale", config.q_scaled), ("kv_scale", config.kv_scaled))]
    logits = Logits(config, mine.band(share, sizes.reach), sizes.scale * q_scale * kv_scale)

    if share.tiles > 0:
        tile.look(fx.Int32(0))
        numbers = share.numbers(config)
        # Queries, which need no page number, are the first to be asked for, and operands while the first tile comes.
        queries.load(mine.query_rows(tensors["q"], (RANK + ROPE) * query.width // WORD))
        numbers.require(sizes.pages)
        pipeline = fx.Pipeline(share.tiles + config.late, config.stages, tile.producer(), rolled=True, kept=config.late)
        pipeline.start(queries.arrive)
        tile.found()
        tile.turn()
        if fx.const_expr(config.late):
            weights.fill(0.0)
        if fx.const_expr(config.begun):
            tile.keys(first, scores, own)[0].read(config.begun)
        for step in fx.pipeline_range(pipeline):
            copies = tile.moves(step, len(queries.operands))
            values = tile.values(second, sums, own)
            products = [*tile.keys(first, scores, own, queries.reads, config.begun), values]
            scores.fill(0.0)
            for i, operand in enumerate(queries.operands):
                weave(products[i], operand, (), copies[i], following=products[i + 1], ahead=config.ahead)
            if fx.const_expr(config.sharing > 1):
                exchange.add(scores)
            tokens = share.begin + step.tile * config.keys
            weighing = [Work(partial(logits.apply, scores, state.places, tokens)), *softmax.begin(),
                        *softmax.finish(sums)]
            if not config.late:
                do(weighing)
            turn = {}
            if config.begun:
                tile.turn()
                turn = dict(following=tile.keys(first, scores, own)[0], turn=step, split=not config.late)
            weave(values, config.turned(weights), weighing[:-1] if config.late else (), ahead=config.ahead, first=READY,
                  **turn)
            if config.late:
                weighing[-1].run()  # which may scale the sums, behind all that belongs to the base before
            if not config.begun:
                tile.turn()

    # Places of results are computed here: what the places of queries have in common with them would stay in registers.
    _store(results, sums, softmax.result(), kv_scale, own, fx.Int32(fx.rocdl.computed_here(lane)))
