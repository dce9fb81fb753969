"""The gradient kernels of the norms.

With ``xh = (x - mean) * rstd`` and ``w = dy * gamma``: ``dx = (w - xh * mean(w * xh) - mean(w)) * rstd`` (the last
mean and the centring only in layer norm), ``dgamma = sum over rows of dy * xh``, ``dbeta = sum over rows of dy``.

One stage: a workgroup handles one group of rows and adds its share of dgamma with f32 atomics. Two stages: a fixed
number of programs walk over the rows with their share in registers and write it to a partial buffer, which a second
kernel sums in a fixed order: deterministic.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import require_held
from ..host.dtypes import FLOATS
from ..parts.memory import pointer
from ..parts.reduce import Lds, add, reduce_rows
from ..parts.rows import Columns, Held, Place, Rows, RowScalars, each, fold, launch_rows
from .config import NormConfig
from .forward import require_arguments, weight_of

__all__ = ["launch_one_stage", "launch_two_stage"]

REDUCE_COLUMNS, REDUCE_LANES = 64, 4
REDUCE_AHEAD = 8  # loads that a lane has under way


def _row_gradient(tensors: dict[str, Any], config: NormConfig, place: Place, lds: Lds) -> tuple[Held, Held]:
    """Store dx of this thread's row; return the row of ``xh`` and of ``dy``, in f32."""
    plan, keep, element = config.plan, config.keep, FLOATS[config.dtype]
    x_rows, dy_rows = (Rows(tensors[k], element, place) for k in ("Input", "DY"))
    gamma = Columns(tensors["Gamma"], FLOATS[config.weight_dtype], place)
    rstd = RowScalars(tensors["Rstd"], fx.Float32, place).load()
    mean = RowScalars(tensors["Mean"], fx.Float32, place).load() if config.centered else None

    def normal(i: Any) -> Any:
        x = x_rows.load(i).to(fx.Float32)
        return (x if mean is None else place.masked(i, x - mean, 0.0)) * rstd

    xh = Held(normal, plan.tiles, keep)
    dy = Held(lambda i: dy_rows.load(i).to(fx.Float32), plan.tiles, keep)
    weighted = Held(lambda i: dy[i] * weight_of(gamma.load(i), config), plan.tiles, keep)
    zero = fx.full(plan.vec, 0.0, fx.Float32)
    sums = [fold(plan.tiles, keep, zero, lambda total, i: total + weighted[i] * xh[i])]
    if mean is not None:
        sums.append(fold(plan.tiles, keep, zero, lambda total, i: total + weighted[i]))
    means = [s * (1.0 / config.n) for s in reduce_rows(place, [s.reduce("add") for s in sums], add, lds)]
    dx = Rows(tensors["DX"], element, place)
    dres = Rows(tensors["DResidualOut"], element, place) if config.fused else None

    def store(i: Any) -> None:
        value = weighted[i] - xh[i] * means[0]
        if mean is not None:
            value = value - means[1]
        value = value * rstd
        if dres is not None:
            value = value + dres.load(i).to(fx.Float32)
        dx.store(i, value)

    each(plan.tiles, keep, store)
    return xh, dy


@flyc.kernel
def _one_stage_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    plan, lds = config.plan, Lds()
    place = Place(plan, m)
    with fx.fastmath("contract"):
        xh, dy = _row_gradient(tensors, config, place, lds)
        dgamma = Columns(tensors["DWeight"], fx.Float32, place)
        each(plan.tiles, config.keep, lambda i: dgamma.add(i, dy[i] * xh[i]))
        if fx.const_expr(config.centered):
            dbeta = Columns(tensors["DBias"], fx.Float32, place)
            each(plan.tiles, config.keep, lambda i: dbeta.add(i, dy[i]))


@flyc.kernel
def _partial_kernel(tensors, m: fx.Int32, programs: fx.Int32, config: fx.Constexpr):
    plan, lds = config.plan, Lds()
    program = fx.block_idx.x
    total = fx.make_rmem_tensor(plan.elements, fx.Float32)
    total.store(fx.full(plan.elements, 0.0, fx.Float32))

    def piece(i):
        return fx.make_view(fx.get_iter(total) + i * plan.vec, fx.make_layout(plan.vec, 1))

    with fx.fastmath("contract"):
        for group in range(program, fx.ceildiv(m, plan.rows), programs):
            place = Place(plan, m, fx.Int32(group) * plan.rows)
            xh, dy = _row_gradient(tensors, config, place, lds)
            for i in fx.range_constexpr(plan.tiles):
                piece(i).store(piece(i).load() + dy[i] * xh[i])
            fx.barrier()  # the next row reuses the LDS of the reduction
    place = Place(plan, m, fx.Int32(0))
    out = pointer(tensors["DWeightPartial"], fx.Float32) + fx.Int64(program) * plan.n
    partial = Columns(out, fx.Float32, place)
    if fx.const_expr(plan.rows == 1):
        for i in fx.range_constexpr(plan.tiles):
            partial.store(i, piece(i).load())
    else:
        store_sum_of_rows(partial, piece, place, lds)


@flyc.jit
def store_sum_of_rows(partial, piece, place, lds):
    """Sum a thread's vectors over the rows of the workgroup, through LDS, and store them."""
    plan = place.plan
    width = plan.tiles * plan.lanes * plan.vec
    slots = lds.array(fx.Float32, plan.rows * width)
    for i in fx.range_constexpr(plan.tiles):
        at = place.row * width + place.unit(i) * plan.vec
        fx.make_view(slots.ptr + at, fx.make_layout(plan.vec, 1)).store(piece(i).load())
    fx.barrier()
    if place.row == 0:
        for i in fx.range_constexpr(plan.tiles):
            value = fx.full(plan.vec, 0.0, fx.Float32)
            for row in fx.range_constexpr(plan.rows):
                at = place.unit(i) * plan.vec + row * width
                value = value + fx.make_view(slots.ptr + at, fx.make_layout(plan.vec, 1)).load()
            partial.store(i, value)


@flyc.kernel
def _sum_kernel(Partial, DWeight, programs: fx.Int32, config: fx.Constexpr):
    """64 columns a workgroup; four lanes share a column and walk over the programs."""
    n, thread = config.n, fx.thread_idx.x
    column = fx.block_idx.x * REDUCE_COLUMNS + thread % REDUCE_COLUMNS
    part = thread // REDUCE_COLUMNS
    slots = Lds().array(fx.Float32, REDUCE_COLUMNS * REDUCE_LANES)
    inside = column < n
    source = pointer(Partial, fx.Float32) + inside.select(column, 0)
    total = fx.Float32(0.0)
    for first in range(part, programs, REDUCE_LANES * REDUCE_AHEAD):
        # All loads of a round are under way before the first addition waits for one.
        values = []
        for i in fx.range_constexpr(REDUCE_AHEAD):
            program = fx.Int32(first) + i * REDUCE_LANES
            exists = program < programs
            value = (source + fx.Int64(exists.select(program, 0)) * n).load()
            values.append(exists.select(value, 0.0))
        for value in values:
            total = total + value
    slots[thread] = total
    fx.barrier()
    if part == 0:
        if inside:
            total = slots[thread]
            for i in fx.range_constexpr(1, REDUCE_LANES):
                total = total + slots[thread + i * REDUCE_COLUMNS]
            (pointer(DWeight, FLOATS[config.weight_dtype]) + column).store(total.to(FLOATS[config.weight_dtype]))


def launch_one_stage(tensors: dict[str, Any], m: Any, config: NormConfig, stream: Any) -> None:
    """Launch from a jit function. DWeight (and DBias) are f32 and already zero."""
    planned = config.planned()
    plan = planned.plan
    require_arguments(tensors, m, config)
    launch_rows(lambda: _one_stage_kernel(tensors, m, planned), m, plan.rows, plan.threads, stream)


def launch_two_stage(tensors: dict[str, Any], m: Any, programs: int, config: NormConfig, stream: Any) -> None:
    """Launch both kernels from a jit function. DWeightPartial holds ``programs * N`` f32."""
    planned = config.planned()
    require_arguments(tensors, m, config)
    require_held(tensors, ("DWeightPartial",), programs * config.n, fx.Float32)
    weight = tensors.pop("DWeight")
    count = fx.Int32(programs)
    _partial_kernel(tensors, m, count, planned).launch(grid=programs, block=planned.plan.threads, stream=stream)
    _sum_kernel(tensors["DWeightPartial"], weight, count, planned).launch(
        grid=-(-config.n // REDUCE_COLUMNS), block=REDUCE_COLUMNS * REDUCE_LANES, stream=stream
    )
