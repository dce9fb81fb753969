"""The largest logit of a row, and a token drawn from a row's distribution.

Drawing needs no sorted row. The k largest values are those of at least a threshold, and so is the smallest set of
values whose probabilities reach p; both thresholds are found bit by bit in the integers that order floats. Of what is
left, the token with the largest ``w / e`` is drawn, where ``w`` is its weight and ``e`` exponentially distributed
(equivalently, the largest logit plus Gumbel noise). The noise is a function of seed, row and column alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import require_dense
from ..host.dtypes import FLOATS, float_dtype
from ..parts.mathx import LOG2E, exp2
from ..parts.reduce import LOWEST, Lds, add, argmax_of, key_value, order_key, reduce_rows
from ..parts.rows import Held, Place, RowPlan, Rows, RowScalars, fits_registers, fold, launch_rows, plan_rows
from ..target import Target, builder

__all__ = ["build_argmax_module", "build_sample_module"]

BITS = 32  # of a key
INFINITE_KEY = 0x7F800000  # of +inf
NOTHING_KEY = LOWEST + 0x7FFFFF  # of -inf: only places past the row lie below
NO_TOKEN = -1
BELOW_ONE = 1.0 - 2.0**-24  # the noise is finite, so that the largest value has a positive score


@dataclass(frozen=True)
class _Config(KernelConfig):
    dtype: str
    plan: RowPlan
    top_k: bool = False
    top_p: bool = False

    @property
    def keep(self) -> bool:
        """The row stays in registers."""
        return fits_registers(self.plan.n)


@flyc.kernel
def _argmax_kernel(X, Out, m: fx.Int32, config: fx.Constexpr):
    lds, place = Lds(), Place(config.plan, m)
    rows = Rows(X, FLOATS[config.dtype], place)
    keys = Held(lambda i: place.masked(i, order_key(rows.load(i).to(fx.Float32)), LOWEST), config.plan.tiles,
                config.keep)
    _, at = argmax_of(place, keys, config.keep, lds)
    if place.lane == 0:
        RowScalars(Out, fx.Int64, place).store(at.to(fx.Int64))


@flyc.jit
def _threshold(config: fx.Constexpr, place: Any, lds: Any, amount: Any, wanted: Any) -> Any:
    """The largest key t for which ``amount`` of the keys from t on is `wanted` or more.

    Args:
        amount: ``amount(i, t)``: a vector of what the keys of a tile that are at least t contribute.
    """
    found = fx.Int32(LOWEST)
    for step in range(BITS):
        trial = found + (fx.Int32(1) << (BITS - 1 - fx.Int32(step)))  # as unsigned, the bit is clear before
        zero = fx.full_like(amount(0, trial), 0)
        total = fold(config.plan.tiles, config.keep, zero, lambda total, i, trial=trial: total + amount(i, trial))
        (total,) = reduce_rows(place, [total.reduce("add")], add, lds)
        found = (total >= wanted).select(trial, found)
        if fx.const_expr(config.plan.lanes > fx.num_warp_threads()):
            fx.barrier()  # the next step reuses the LDS of the reduction
    return found


def _noise(place: Place, tile: Any, seed: Any) -> Any:
    """f32 vector of exponentially distributed numbers, one for each column that a lane holds in a tile."""
    vec, row = place.plan.vec, place.first + place.row
    first = place.unit(tile) * vec

    def words(group: Any) -> tuple[Any, ...]:
        return fx.random.randint4x(seed, (fx.Uint64(fx.Uint32(row)) << 32) | fx.Uint64(fx.Uint32(group)))

    if vec >= 4:
        bits = [w for i in range(0, vec, 4) for w in words((first + i) >> 2)]
    else:
        four, at = words(first >> 2), first & 3
        bits = []
        for i in range(vec):
            word = four[0]
            for j in range(1, 4):
                word = (at + i == j).select(four[j], word)
            bits.append(word)
    uniform = fx.Vector.from_elements([(b.to(fx.Float32) + 0.5) * 2.0**-32 for b in bits], fx.Float32)
    return -fx.math.log1p(-fx.min(uniform, fx.full_like(uniform, BELOW_ONE)))


@flyc.kernel
def _sample_kernel(X, Out, m: fx.Int32, temperature: fx.Float32, top_k: fx.Int32, top_p: fx.Float32, seed: fx.Int64,
                   config: fx.Constexpr):
    tiles, keep = config.plan.tiles, config.keep
    lds, place = Lds(), Place(config.plan, m)
    rows = Rows(X, FLOATS[config.dtype], place)
    keys = Held(lambda i: place.masked(i, order_key(rows.load(i).to(fx.Float32)), LOWEST), tiles, keep)
    top, _ = argmax_of(place, keys, keep, lds)
    high, factor = key_value(top), LOG2E / temperature
    from_key = fx.Int32(NOTHING_KEY)
    if fx.const_expr(config.top_k):
        from_key = fx.max(from_key, _threshold(config, place, lds, lambda i, t: (keys[i] >= t).to(fx.Int32), top_k))

    def weight(i, least):
        w = exp2((key_value(keys[i]) - high) * factor)
        return (keys[i] >= least).select(w, fx.full_like(w, 0.0))

    if fx.const_expr(config.top_p):
        zero = fx.full(config.plan.vec, 0.0, fx.Float32)
        total = fold(tiles, keep, zero, lambda total, i: total + weight(i, from_key))
        (total,) = reduce_rows(place, [total.reduce("add")], add, lds)
        among = from_key
        found = _threshold(config, place, lds, lambda i, t: weight(i, fx.max(t, among)), total * top_p)
        from_key = fx.max(from_key, fx.min(found, top))

    def score(i):
        # Weights below the smallest f32 are 0: such a token loses to the largest, whose score is positive.
        value = weight(i, from_key) / _noise(place, i, seed)
        return (keys[i] >= from_key).select(value.bitcast(fx.Int32), fx.full_like(keys[i], LOWEST))

    _, at = argmax_of(place, Held(score, tiles, keep), keep, lds)
    valid = (top < INFINITE_KEY) & (top > NOTHING_KEY)
    if place.lane == 0:
        RowScalars(Out, fx.Int64, place).store(valid.select(at, NO_TOKEN).to(fx.Int64))


def _config(where: str, target: Target, n: int, dtype: str, **options: bool) -> _Config:
    require(where, isinstance(n, int) and n >= 1, f"N must be a positive int, got {n!r}")
    float_dtype(dtype, where)
    return _Config(dtype, plan_rows(n, FLOATS[dtype].width, target.wave), target=target, **options)


@builder
def build_argmax_module(N: int, dtype: str = "f32", *, target: Target):  # noqa: N803
    """``launch(X, Out, m, stream=None)``: the first column of the largest value of each row, as int64; NaN is largest.

    Args:
        N: columns, any positive number; X is (m, N), row-major.
        dtype: of X: ``"f32"``, ``"f16"`` or ``"bf16"``.
    """
    config = _config("build_argmax_module", target, N, dtype)

    @flyc.jit
    def argmax(X, Out, m: fx.Int32, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        target.require_traced()
        require_dense({"X": X, "Out": Out})
        launch_rows(lambda: _argmax_kernel(X, Out, m, config), m, config.plan.rows, config.plan.threads, stream)

    return argmax


@builder
def build_sample_module(N: int, dtype: str = "f32", *, top_k: bool = False, top_p: bool = False,  # noqa: N803
                        target: Target):
    """``launch(X, Out, m, temperature, top_k, top_p, seed, stream=None)``: an int64 column drawn from each row.

    Args:
        N: columns, any positive number; X is (m, N), row-major.
        dtype: of X: ``"f32"``, ``"f16"`` or ``"bf16"``.
        top_k, top_p: whether the launch's numbers are looked at.

    The temperature is positive; the seed has 64 bits (Int64). A row with a NaN, +inf or nothing above -inf has no
    distribution and gets -1.
    """
    config = _config("build_sample_module", target, N, dtype, top_k=top_k, top_p=top_p)

    @flyc.jit
    def sample(X, Out, m: fx.Int32, temperature: fx.Float32, k: fx.Int32, p: fx.Float32, seed: fx.Int64,  # noqa: N803
               stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        require_dense({"X": X, "Out": Out})
        launch_rows(lambda: _sample_kernel(X, Out, m, temperature, k, p, seed, config), m, config.plan.rows,
                    config.plan.threads, stream)

    return sample
