"""Top-k gating softmax: softmax over the experts of a token, then its k largest values.

Experts that divide into a power of two of lanes with 1 to 16 each are kept in registers, several tokens to a wave, with
no LDS. Any other number takes a workgroup a token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig
from ..host.dtypes import FLOATS, float_dtype
from ..parts.index import div, is_pow2, mod
from ..parts.mathx import LOG2E, exp2
from ..parts.memory import Buffer
from ..parts.reduce import Lds, add, fmax, magnitude, wave_reduce
from ..parts.rows import launch_rows
from ..target import Target, builder

__all__ = ["build_topk_gating_softmax_module"]

WAVES = 4
MAX_PER_LANE = 16
INFINITY = 0x7F800000  # bits of f32; NaN lies above
NO_EXPERT = 1 << 30


@dataclass(frozen=True)
class _Config(KernelConfig):
    experts: int
    topk: int
    dtype: str
    renormalize: bool
    lanes: int  # lanes of a token
    per_lane: int  # experts of a lane

    @property
    def wave(self) -> int:
        return self.target.wave

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (fx.ceildiv(m, self.tokens),)

    @property
    def threads(self) -> int:
        return WAVES * self.wave

    @property
    def tokens(self) -> int:
        """Tokens of a workgroup."""
        return self.threads // self.lanes


def _plan(target: Target, experts: int, topk: int, dtype: str, renormalize: bool) -> _Config:
    wave = target.wave
    for per_lane in range(MAX_PER_LANE, 0, -1):
        lanes, rest = divmod(experts, per_lane)
        if rest == 0 and is_pow2(lanes) and lanes <= wave:
            return _Config(experts, topk, dtype, renormalize, lanes, per_lane, target=target)
    threads = WAVES * wave
    return _Config(experts, topk, dtype, renormalize, threads, -(-experts // threads), target=target)


def _better(a, b):
    """The larger (value, expert); the lower expert of equal values."""
    (va, ea), (vb, eb) = a, b
    wins = (vb > va) | ((vb == va) & (eb < ea))
    return wins.select(vb, va), wins.select(eb, ea)


def _arg_max_wave(best, width: int):
    step = width // 2
    while step:
        best = _better(best, tuple(fx.shuffle_xor(v, step, width) for v in best))
        step //= 2
    return best


@flyc.jit
def _over_lanes(config, values, op, thread, lds):
    """Combine f32 values over the lanes of a token."""
    if fx.const_expr(config.lanes <= config.wave):
        return wave_reduce(values, op, config.lanes)
    slots = [lds.array(fx.Float32, WAVES) for _ in values]
    partial = wave_reduce(values, op, config.wave)
    if mod(thread, config.wave) == 0:
        for i in fx.range_constexpr(len(partial)):
            slots[i][div(thread, config.wave)] = partial[i]
    fx.barrier()
    out = []
    for slot in slots:
        total = slot[0]
        for w in fx.range_constexpr(1, WAVES):
            total = op(total, slot[w])
        out.append(total)
    return out


@flyc.jit
def _arg_max(config, best, thread, lds):
    """(value, expert) of the maximum over the lanes of a token."""
    if fx.const_expr(config.lanes <= config.wave):
        return _arg_max_wave(best, config.lanes)
    best = _arg_max_wave(best, config.wave)
    values, experts = lds.array(fx.Float32, WAVES), lds.array(fx.Int32, WAVES)
    if mod(thread, config.wave) == 0:
        values[div(thread, config.wave)] = best[0]
        experts[div(thread, config.wave)] = best[1]
    fx.barrier()
    best = (values[0], experts[0])
    for w in fx.range_constexpr(1, WAVES):
        best = _better(best, (values[w], experts[w]))
    return best


@flyc.kernel
def _gating_kernel(gating, weights, indices, sources, tokens: fx.Int32, config: fx.Constexpr):
    thread, lds = fx.thread_idx.x, Lds()
    first = fx.block_idx.x * config.tokens
    count = fx.min(tokens - first, config.tokens)
    local, lane = div(thread, config.lanes), mod(thread, config.lanes)
    element, per_lane, experts = FLOATS[config.dtype], config.per_lane, config.experts
    source = Buffer(gating, element, fx.Int64(first) * experts, count * experts)
    width = math.gcd(per_lane, 128 // element.width)
    scores = []
    for i in fx.range_constexpr(0, per_lane, width):
        at = local * experts + lane * per_lane + i
        for value in source.load(at, width):
            scores.append(value.to(fx.Float32))
    names = [lane * per_lane + i for i in fx.range_constexpr(per_lane)]
    if fx.const_expr(config.lanes * per_lane != experts):
        scores = [(n < experts).select(s, -math.inf) for n, s in zip(names, scores, strict=True)]
    top = scores[0]
    for s in scores[1:]:
        top = fmax(top, s)
    (top,) = _over_lanes(config, [top], fmax, thread, lds)
    scores = [exp2((s - top) * LOG2E) for s in scores]
    total = scores[0]
    for s in scores[1:]:
        total = total + s
    (total,) = _over_lanes(config, [total], add, thread, lds)
    scale = 1.0 / total
    # A NaN or infinity makes every probability NaN, which no comparison orders: such a token gets the first experts.
    invalid = magnitude(total) > INFINITY
    scores = [invalid.select(0.0, s * scale) for s in scores]
    if fx.const_expr(config.lanes * per_lane != experts):
        # Places without an expert must lose even against a probability of zero.
        scores = [(n < experts).select(s, -math.inf) for n, s in zip(names, scores, strict=True)]
    chosen = []
    for _ in fx.range_constexpr(config.topk):
        best = (scores[0], names[0])
        for s, n in zip(scores[1:], names[1:], strict=True):
            best = _better(best, (s, n))
        best = _arg_max(config, best, thread, lds)
        chosen.append(best)
        scores = [(n == best[1]).select(-math.inf, s) for n, s in zip(names, scores, strict=True)]
    factor = fx.Float32(1.0)
    if fx.const_expr(config.renormalize):
        total = chosen[0][0]
        for value, _ in chosen[1:]:
            total = total + value
        factor = 1.0 / fx.maxnumf(total, fx.Float32(1e-20))
    factor = invalid.select(math.nan, factor)
    start = fx.Int64(first) * config.topk
    out_w = Buffer(weights, fx.Float32, start, count * config.topk)
    out_i = Buffer(indices, fx.Int32, start, count * config.topk)
    out_s = Buffer(sources, fx.Int32, start, count * config.topk)
    if lane == 0:
        for j in fx.range_constexpr(config.topk):
            at = local * config.topk + j
            out_w.store_one(at, chosen[j][0] * factor)
            out_i.store_one(at, chosen[j][1])
            out_s.store_one(at, tokens * j + first + local)


@builder
def build_topk_gating_softmax_module(num_experts: int, topk: int, dtype_str: str = "bf16", renormalize: bool = True, *,
                                     target: Target):
    """``launch(gating, weights, indices, token_expert_indices, num_tokens, *, stream=None)``.

    Args:
        num_experts: E, columns of gating (num_tokens, E).
        topk: k <= E chosen experts of a token.
        dtype_str: of gating: ``"f32"``, ``"f16"`` or ``"bf16"``.
        renormalize: divide the k weights by their sum.

    A token with a NaN, or without a finite maximum, gets the first k experts with NaN weights.
    weights is f32, indices and token_expert_indices i32 (or their bits as f32), all (num_tokens, k). Of equal values
    the lower expert comes first; ``token_expert_indices[t, j] = j * num_tokens + t``.

    Raises:
        ValueError: an argument is not supported.
    """
    where = "build_topk_gating_softmax_module"
    float_dtype(dtype_str, where)
    if num_experts < 1 or not 1 <= topk <= num_experts:
        raise ValueError(f"{where}: topk must be in 1 .. num_experts, got topk = {topk}, num_experts = {num_experts}")
    config = _plan(target, num_experts, topk, dtype_str, renormalize)

    @flyc.jit
    def topk_gating_softmax(gating, weights, indices, token_expert_indices, num_tokens: fx.Int32, *,
                            stream: fx.Stream = fx.Stream(None)):
        target.require_traced()
        launch_rows(lambda: _gating_kernel(gating, weights, indices, token_expert_indices, num_tokens, config),
                    num_tokens, config.tokens, config.threads, stream)

    return topk_gating_softmax
