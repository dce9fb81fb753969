"""Sums over the ranks whose operands travel in 8 bits: half of the bytes of f16, a quarter of f32.

Every 128 elements share an f32 scale, their largest magnitude over that of fp8. A value so transported has a relative
error of 2**-4 at most (half of that to nearest), or 2**-9 of its group's scale where it is small. Sums are f32 and
rounded once; in two stages they travel in 8 bits as well. All ranks have the same bits, since a rank reads its own
operand as the others do.
"""

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.dtypes import FLOATS
from ..parts.convert import scale_of, to_quantised
from ..parts.memory import WORDS, Buffer
from ..parts.reduce import magnitude, wave_reduce
from .config import GROUP_UNITS, UNIT, ExchangeConfig
from .peers import Peers

__all__ = ["quantised_kernel"]


class Codes:
    """fp8 codes and scales of `units` x 16 elements in a rank's payload, from byte `offset` on."""

    def __init__(self, peers: Peers, rank: Any, offset: Any, units: Any, config: ExchangeConfig) -> None:
        self._codes = peers.payload(rank, fx.Int32, offset, units * WORDS)
        scales = fx.Int64(offset) + fx.Int64(units) * UNIT
        self._scales = peers.payload(rank, fx.Float32, scales, units // GROUP_UNITS)
        self._target = config.target

    def store(self, at: Any, x: Any) -> None:
        """Unit `at` from an f32 vector. Consecutive lanes store consecutive units, whole groups of them."""
        (top,) = wave_reduce([magnitude(x).reduce("max")], fx.max, GROUP_UNITS)
        scale = scale_of(top.bitcast(fx.Float32), "fp8", self._target)
        codes = to_quantised(x * (1.0 / scale), "fp8", "nearest", self._target)
        self._codes.store(at * WORDS, codes.bitcast(fx.Int32))
        _store_scale(self._scales, at, scale)

    def load(self, at: Any) -> Any:
        """Unit `at` as an f32 vector."""
        scale = self._scales.load(at // GROUP_UNITS, 1)[0]
        return self._codes.load(at * WORDS, WORDS).bitcast(self._target.fp8).to(fx.Float32) * scale


@flyc.jit
def _store_scale(scales, at, scale):
    if at % GROUP_UNITS == 0:
        scales.store_one(at // GROUP_UNITS, scale)


@flyc.kernel
def quantised_kernel(x, out, bases, rank: fx.Int32, packs: fx.Int32, results: fx.Int32, part: fx.Int32,
                     shares: fx.Int64, signature: fx.Int32, limit: fx.Int32, config: fx.Constexpr):
    """As :func:`flydsl.kernels.comm.exchange.exchange_kernel`, with `part` in units of 16 elements, whole groups."""
    peers = Peers(bases, rank, config.ranks, signature, limit)
    ranks = fx.range_constexpr(config.ranks)
    element = FLOATS[config.dtype]
    words = UNIT * element.width // 32
    operand, result = Buffer(x, fx.Int32, None, packs * WORDS), Buffer(out, fx.Int32, None, results * WORDS)
    units = part * config.ranks if fx.const_expr(config.sliced) else part
    published = [Codes(peers, r, 0, units, config) for r in ranks]
    own = Codes(peers, rank, 0, units, config)
    start = fx.block_idx.x * config.threads + fx.thread_idx.x
    step = fx.grid_dim.x * config.threads
    first = rank * part if fx.const_expr(config.sliced) else fx.Int32(0)

    for i in range(start, part, step):
        for share in fx.range_constexpr(config.ranks if config.sliced else 1):
            at = share * part + i
            own.store(at, operand.load(at * words, words).bitcast(element).to(fx.Float32))
    peers.meet()
    for i in range(start, part, step):
        total = functools.reduce(lambda a, b: a + b, [published[r].load(first + i) for r in ranks])
        if fx.const_expr(config.two_stage):
            Codes(peers, rank, shares, part, config).store(i, total)
        else:
            result.store(i * words, total.to(element).bitcast(fx.Int32))
    if fx.const_expr(config.two_stage):
        peers.meet()
        for i in range(start, part, step):
            for r in ranks:
                total = Codes(peers, r, shares, part, config).load(i)
                result.store((r * part + i) * words, total.to(element).bitcast(fx.Int32))
    peers.meet()
