"""Cross entropy of rows of logits and its gradient, each in one pass over the logits.

``loss = log sum exp(x) - x[target]``. A row that does not fit in registers keeps a running maximum and sum in each lane
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
``dx = (exp((x - top) - log sum exp(x - top)) - [j == target]) * dy``: largest value and logarithm are kept apart, since
their sum has lost the logarithm where logits are large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import require_dense
from ..host.dtypes import FLOATS, float_dtype
from ..parts.indices import index_at, require_within
from ..parts.mathx import LN2, LOG2E, exp2
from ..parts.reduce import Lds, add, columns_of, reduce_rows
from ..parts.rows import Held, Place, RowPlan, Rows, RowScalars, each, fits_registers, fold, launch_rows, plan_rows
from ..target import Target, builder

__all__ = ["build_cross_entropy_bwd_module", "build_cross_entropy_module"]

FAR_BELOW = -(2.0 - 2.0**-23) * 2.0**127  # the least finite number: its differences with -inf are not NaN
STREAMED = 2  # cache modifier: written data are not read again


@dataclass(frozen=True)
class _Config(KernelConfig):
    dtype: str
    plan: RowPlan

    @property
    def keep(self) -> bool:
        """The row stays in registers."""
        return fits_registers(self.plan.n)


@flyc.jit
def _target(targets: Any, place: Place, m: Any, ignored: Any) -> tuple[Any, Any]:
    """(column of the row's target, whether it counts); a target outside the row stops the launch."""
    row = place.first + place.row
    given = index_at(targets, fx.min(row, m - 1))
    counts = given != ignored
    return require_within(counts.select(given, fx.Int64(0)), 0, fx.Int64(place.plan.n)), counts


def _top_and_sum(x: Held, config: _Config, place: Place, lds: Lds) -> tuple[Any, Any]:
    """Largest value of the row and the sum of ``exp(x - largest)``."""
    tiles, keep = config.plan.tiles, config.keep
    start, zero = (fx.full(config.plan.vec, v, fx.Float32) for v in (FAR_BELOW, 0.0))
    if keep:
        top = fold(tiles, keep, start, lambda best, i: fx.maxnumf(best, x[i]))
        (top,) = reduce_rows(place, [top.reduce("max")], fx.maxnumf, lds)
        total = fold(tiles, keep, zero, lambda total, i: total + exp2((x[i] - top) * LOG2E))
    else:

        def step(state: Any, i: Any) -> Any:
            best, total = state
            value = x[i]
            new = fx.maxnumf(best, value)
            return [new, total * exp2((best - new) * LOG2E) + exp2((value - new) * LOG2E)]

        best, total = fold(tiles, keep, [start, zero], step)
        (top,) = reduce_rows(place, [best.reduce("max")], fx.maxnumf, lds)
        total = total * exp2((best - top) * LOG2E)
    (total,) = reduce_rows(place, [total.reduce("add")], add, lds)
    return top, total


@flyc.kernel
def _cross_entropy_kernel(tensors, m: fx.Int32, ignored: fx.Int64, config: fx.Constexpr):
    lds, place = Lds(), Place(config.plan, m)
    rows = Rows(tensors["logits"], FLOATS[config.dtype], place)
    target, counts = _target(tensors["targets"], place, m, ignored)
    with fx.fastmath("contract"):
        x = Held(lambda i: place.masked(i, rows.load(i).to(fx.Float32), -math.inf), config.plan.tiles, config.keep)
        top, total = _top_and_sum(x, config, place, lds)
        log_total = fx.math.log2(total) * LN2
        if place.lane == 0:
            loss = log_total + (top - rows.at(target).to(fx.Float32))  # large logits cancel first
            RowScalars(tensors["top"], fx.Float32, place).store(top)
            RowScalars(tensors["log_total"], fx.Float32, place).store(log_total)
            RowScalars(tensors["loss"], fx.Float32, place).store(counts.select(loss, 0.0))


@flyc.kernel
def _cross_entropy_bwd_kernel(tensors, m: fx.Int32, ignored: fx.Int64, config: fx.Constexpr):
    place = Place(config.plan, m)
    rows, out = (Rows(tensors[k], FLOATS[config.dtype], place, c) for k, c in (("logits", 0), ("dlogits", STREAMED)))
    target, counts = _target(tensors["targets"], place, m, ignored)
    top, log_total, dy = (RowScalars(tensors[k], fx.Float32, place).load() for k in ("top", "log_total", "dloss"))

    def store(i):
        with fx.fastmath("contract"):
            p = exp2((rows.load(i).to(fx.Float32) - top) * LOG2E - log_total * LOG2E)
            p = (columns_of(place, i) == target).select(p - 1.0, p)
            out.store(i, counts.select(p * dy, fx.full_like(p, 0.0)))

    each(config.plan.tiles, config.keep, store)


def _config(where: str, target: Target, n: int, dtype: str) -> _Config:
    require(where, isinstance(n, int) and n >= 1, f"N must be a positive int, got {n!r}")
    float_dtype(dtype, where)
    return _Config(dtype, plan_rows(n, FLOATS[dtype].width, target.wave), target=target)


@builder
def build_cross_entropy_module(N: int, dtype: str = "f32", *, target: Target):  # noqa: N803
    """``launch(Logits, Targets, Loss, Top, LogTotal, m, ignored, stream=None)``: of each row the loss, the largest
    value and the logarithm of the sum of ``exp(x - largest)``, all f32.

    Args:
        N: columns, any positive number; Logits is (m, N), row-major.
        dtype: of Logits: ``"f32"``, ``"f16"`` or ``"bf16"``.

    Targets are int32 or int64; the loss is 0 where they are `ignored` (Int64). Another one outside the row stops the
    launch.
    """
    config = _config("build_cross_entropy_module", target, N, dtype)

    @flyc.jit
    def cross_entropy(Logits, Targets, Loss, Top, LogTotal, m: fx.Int32, ignored: fx.Int64,  # noqa: N803
                      stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"logits": Logits, "targets": Targets, "loss": Loss, "top": Top, "log_total": LogTotal}
        require_dense(tensors)
        launch_rows(lambda: _cross_entropy_kernel(tensors, m, ignored, config), m, config.plan.rows,
                    config.plan.threads, stream)

    return cross_entropy


@builder
def build_cross_entropy_bwd_module(N: int, dtype: str = "f32", *, target: Target):  # noqa: N803
    """``launch(Logits, Targets, Top, LogTotal, DLoss, DLogits, m, ignored, stream=None)``: the gradient of each row's
    loss."""
    config = _config("build_cross_entropy_bwd_module", target, N, dtype)

    @flyc.jit
    def cross_entropy_bwd(Logits, Targets, Top, LogTotal, DLoss, DLogits, m: fx.Int32,  # noqa: N803
                          ignored: fx.Int64, stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        tensors = {"logits": Logits, "targets": Targets, "top": Top, "log_total": LogTotal, "dloss": DLoss,
                   "dlogits": DLogits}
        require_dense(tensors)
        launch_rows(lambda: _cross_entropy_bwd_kernel(tensors, m, ignored, config), m, config.plan.rows,
                    config.plan.threads, stream)

    return cross_entropy_bwd
