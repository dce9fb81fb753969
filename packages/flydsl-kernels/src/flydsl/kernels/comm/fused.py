"""All-reduce, residual add and RMS norm in one kernel: what stands between two layers of a tensor-parallel model; the
result may be quantised, with one scale a row.

The rounded sum over the ranks stays in registers, where the norm needs it: the result is bit by bit that of the three
operations one after another.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..norm.config import NormConfig
from ..norm.forward import require_arguments, statistics, store_quantised, weight_of
from ..parts.index import align_up
from ..parts.memory import float_element
from ..parts.reduce import Lds
from ..parts.rows import Columns, Held, Place, Rows, each
from .config import PACK_BYTES
from .peers import BLOCKS, HEADER, Peers

__all__ = ["ReducedNorm", "build_reduced_norm"]


@dataclass(frozen=True)
class ReducedNorm:
    """The norm, fused with the sum over `ranks`."""

    norm: NormConfig
    ranks: int


@flyc.kernel
def reduced_norm_kernel(tensors, m: fx.Int32, bases, rank: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                        norm: fx.Constexpr, ranks: fx.Constexpr[int]):
    """``ResidualOut = sum of Input over the ranks + ResidualIn``, Output its norm; both sums rounded."""
    plan, element, lds = norm.plan, FLOATS[norm.dtype], Lds()
    tiles, keep = plan.tiles, norm.keep
    peers = Peers(bases, rank, ranks, signature, limit)

    # A workgroup's rows begin at whole packs: no word is of two, which release what they wrote at different times. They
    # are many packs, or one long row, so that the memory, of twice the largest operand, has room.
    pitch = align_up(plan.rows * plan.n, PACK_BYTES * 8 // element.width)

    def shared(r, block, place):
        return Rows(peers.base(r, element, HEADER), element, place, start=fx.Int64(block) * pitch,
                    count=place.count * plan.n)

    for block in range(fx.block_idx.x, fx.ceildiv(m, plan.rows), fx.grid_dim.x):
        place = Place(plan, m, block * plan.rows)
        x, own = Rows(tensors["Input"], element, place), shared(rank, block, place)
        each(tiles, keep, lambda i: own.store(i, x.load(i)))  # noqa: B023 - called here
    peers.meet()
    for block in range(fx.block_idx.x, fx.ceildiv(m, plan.rows), fx.grid_dim.x):
        place = Place(plan, m, block * plan.rows)
        sources = [shared(r, block, place) for r in fx.range_constexpr(ranks)]
        residual = Rows(tensors["ResidualIn"], element, place)
        added, weight = Rows(tensors["ResidualOut"], element, place), FLOATS[norm.weight_dtype]
        gamma, smooth = Columns(tensors["Gamma"], weight, place), None
        if fx.const_expr(norm.smooth):
            smooth = Columns(tensors["XScale"], float_element(tensors["XScale"], weight), place)

        def total(i):
            with fx.fastmath("none"):  # both roundings stay
                terms = [source.load(i).to(fx.Float32) for source in sources]  # noqa: B023
                reduced = functools.reduce(lambda a, b: a + b, terms).to(element)
                return (reduced.to(fx.Float32) + residual.load(i).to(fx.Float32)).to(element)  # noqa: B023

        with fx.fastmath("contract"):
            row = Held(total, tiles, keep)
            each(tiles, keep, lambda i: added.store(i, row[i]))  # noqa: B023
            _, rstd = statistics(row, norm, place, lds)

            def scaled(i):
                y = row[i].to(fx.Float32) * rstd * weight_of(gamma.load(i), norm)  # noqa: B023
                return y if smooth is None else y * smooth.load(i).to(fx.Float32)  # noqa: B023

            if fx.const_expr(norm.quant):
                store_quantised(tensors, place, Held(scaled, tiles, keep), norm, keep, lds)
            else:
                out = Rows(tensors["Output"], element, place)
                each(tiles, keep, lambda i: out.store(i, scaled(i)))  # noqa: B023
        fx.barrier()  # the next row's sums use the same LDS
    peers.meet()


@functools.cache  # the configuration has the target
def build_reduced_norm(config: ReducedNorm) -> Any:
    """``launch(tensors, m, bases, rank, signature, limit, stream=None)`` of contiguous (m, n) matrices Input,
    ResidualIn, ResidualOut and Output, Gamma (n,) and, as configured, YScale f32 (m,) and XScale (n,); see
    :class:`flydsl.kernels.comm.peers.Peers` for the rest."""

    @flyc.jit
    def all_reduce_rmsnorm(tensors, m: fx.Int32, bases, rank: fx.Int32, signature: fx.Int32, limit: fx.Int32,
                           stream: fx.Stream = fx.Stream(None)):
        planned = config.norm.planned()
        require_arguments(tensors, m, config.norm)
        reduced_norm_kernel(tensors, m, bases, rank, signature, limit, planned, config.ranks).launch(
            grid=fx.min(fx.ceildiv(m, planned.plan.rows), BLOCKS), block=planned.plan.threads, stream=stream)

    return all_reduce_rmsnorm
