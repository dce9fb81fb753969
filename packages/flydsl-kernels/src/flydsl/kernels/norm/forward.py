"""The forward norm kernel: RMS or layer norm, with residual add, statistics and quantised output as configured.

A row is read once and stays in registers; statistics and the affine step are f32 and there is one rounding at the
store. The variance is the mean of squared differences from the mean, taken from the registers, so a large mean
costs no accuracy.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dense import require_dense, require_held
from ..host.dtypes import FLOATS, element_of
from ..parts.convert import scale_of, to_quantised
from ..parts.mathx import rsqrt
from ..parts.memory import float_element
from ..parts.reduce import Lds, add, amax_of, reduce_rows
from ..parts.rows import Columns, Held, Place, Rows, RowScalars, each, fold, launch_rows
from .config import NormConfig

__all__ = ["launch_norm", "norm_kernel", "require_arguments", "statistics", "weight_of"]

STREAMED = 2  # cache modifier of data that are not read again
EARLY = 32    # elements of a row that a lane holds, up to which there are registers for weights beside them


def weight_of(gamma: Any, config: NormConfig) -> Any:
    """What a tile with the weights `gamma` is multiplied by, in f32."""
    weight = gamma.to(fx.Float32)
    return weight + config.weight_offset if config.weight_offset else weight


def _input(tensors: dict[str, Any], config: NormConfig, place: Place) -> Held:
    """The row to normalise, in the activation dtype: the input, or the rounded sum, which is stored on the way."""
    element, tiles = FLOATS[config.dtype], config.plan.tiles
    x = Rows(tensors["Input"], element, place)
    if not config.fused:
        return Held(x.load, tiles, config.keep)
    residual = Rows(tensors["ResidualIn"], element, place)
    out = Rows(tensors["ResidualOut"], element, place)

    def total(i: Any) -> Any:
        # Without flags: "contract" would let the compiler drop the rounding before the statistics.
        with fx.fastmath("none"):
            return (x.load(i).to(fx.Float32) + residual.load(i).to(fx.Float32)).to(element)

    row = Held(total, tiles, config.keep)
    each(tiles, config.keep, lambda i: out.store(i, row[i]))
    return row


def statistics(row: Held, config: NormConfig, place: Place, lds: Lds) -> tuple[Any, Any]:
    """(mean, rstd) of the row; the mean is None for RMS norm."""
    tiles, keep, n = config.plan.tiles, config.keep, float(config.n)
    zero = fx.full(config.plan.vec, 0.0, fx.Float32)

    def squares(total: Any, i: Any) -> Any:
        x = row[i].to(fx.Float32)
        if mean is not None:
            x = place.masked(i, x - mean, 0.0)
        return total + x * x

    mean = None
    if config.centered:
        total = fold(tiles, keep, zero, lambda total, i: total + row[i].to(fx.Float32))
        mean = reduce_rows(place, [total.reduce("add")], add, lds)[0] * (1.0 / n)
    square = fold(tiles, keep, zero, squares)
    (square,) = reduce_rows(place, [square.reduce("add")], add, lds)
    return mean, rsqrt(square * (1.0 / n) + config.eps)


@flyc.kernel
def norm_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup normalises ``config.plan.rows`` rows."""
    plan, lds = config.plan, Lds()
    tiles, keep = plan.tiles, config.keep
    place = Place(plan, m)
    weight = FLOATS[config.weight_dtype]
    gamma = Columns(tensors["Gamma"], weight, place)
    with fx.fastmath("contract"):
        row = _input(tensors, config, place)
        # On their way beside the row, so that nothing is waited for after the statistics. With a residual and a bias,
        # they would cost a workgroup its place on the compute unit.
        early = keep and plan.elements <= EARLY and not (config.fused and config.centered)
        weights = Held(gamma.load, tiles, early)
        if fx.const_expr(config.centered):
            biases = Held(Columns(tensors["Beta"], weight, place).load, tiles, early)
        mean, rstd = statistics(row, config, place, lds)

        def affine(i):
            x = row[i].to(fx.Float32)
            if fx.const_expr(config.centered):
                x = x - mean
            y = x * rstd * weight_of(weights[i], config)
            if fx.const_expr(config.centered):
                y = y + biases[i].to(fx.Float32)
            if fx.const_expr(config.smooth):
                y = y * x_scale.load(i).to(fx.Float32)
            return y

        if fx.const_expr(config.smooth):
            x_scale = Columns(tensors["XScale"], float_element(tensors["XScale"], weight), place)
        if fx.const_expr(config.stats):
            if place.lane == 0:
                RowScalars(tensors["Rstd"], fx.Float32, place).store(rstd)
                if fx.const_expr(config.centered):
                    RowScalars(tensors["Mean"], fx.Float32, place).store(mean)
        if fx.const_expr(not config.quant):
            out = Rows(tensors["Output"], FLOATS[config.dtype], place, STREAMED)
            each(tiles, keep, lambda i: out.store(i, affine(i)))
        else:
            y = Held(affine, tiles, keep)
            store_quantised(tensors, place, y, config, keep, lds)


@flyc.jit
def store_quantised(tensors, place, row, config, keep, lds):
    """Store a row with one scale: ``scale = max|y| / Qmax`` (1 if zero) in YScale, ``y / scale`` in Output."""
    tiles = place.plan.tiles
    scale = scale_of(amax_of(place, row, keep, lds), config.quant, config.target)
    inverse = 1.0 / scale
    if place.lane == 0:
        RowScalars(tensors["YScale"], fx.Float32, place).store(scale)
    out = Rows(tensors["Output"], element_of(config.quant, config.target), place, STREAMED)
    each(tiles, keep, lambda i: out.store(i, to_quantised(row[i] * inverse, config.quant, config.rounding,
                                                         config.target)))


def require_arguments(tensors: dict[str, Any], m: Any, config: NormConfig) -> None:
    """From a jit function of a norm: a call is refused of tensors with gaps, or with less than m rows of n elements."""
    require_dense(tensors)
    whole = fx.Int64(m) * config.n
    require_held(tensors, ("Input", "ResidualIn", "ResidualOut", "DY", "DResidualOut", "DX"), whole,
                 FLOATS[config.dtype])
    require_held(tensors, ("Output",), whole)
    require_held(tensors, ("Gamma", "Beta", "XScale", "DWeight", "DBias"), config.n)
    require_held(tensors, ("Rstd", "Mean", "YScale"), m)


def launch_norm(tensors: dict[str, Any], m: Any, config: NormConfig, stream: Any) -> None:
    """Launch from a jit function."""
    planned = config.planned()
    plan = planned.plan
    require_arguments(tensors, m, config)
    launch_rows(lambda: norm_kernel(tensors, m, planned), m, plan.rows, plan.threads, stream)
