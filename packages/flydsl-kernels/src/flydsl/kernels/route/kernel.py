"""Routing: the k best experts of a token by their scores, and weights of them.

Experts that divide into a power of two of lanes with 1 to 16 each are kept in registers, several tokens to a wave, with
no LDS. Any other number takes a workgroup a token.

Experts are ordered by *keys*: integers in the order of floats, so that a place that is taken, or that has no expert,
lies below every number. Scores grow with their logits; so without a bias the keys are those of the logits themselves,
and no two experts become equal by rounding a score.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dense import Extent, require_operands
from ..host.dtypes import FLOATS, float_dtype
from ..parts.index import cdiv, div, is_pow2, mod
from ..parts.mathx import LOG2E, exp2, sigmoid
from ..parts.memory import Buffer
from ..parts.reduce import (
    LOWEST,
    Lds,
    add,
    better,
    key_value,
    lane_combine,
    lane_reduce,
    magnitude,
    number_key,
    wave_combine,
    wave_reduce,
)
from ..parts.rows import launch_rows
from ..target import Target

__all__ = [
    "SCORINGS", "RouteConfig", "choose", "route_config", "route_launcher",
]

WAVES = 4
MAX_PER_LANE = 16
INFINITY = 0x7F800000  # bits of f32; NaN lies above
SCORINGS = ("softmax", "sigmoid", "sqrtsoftplus")


@dataclass(frozen=True)
class RouteConfig(KernelConfig):
    """How experts are chosen.

    Attributes:
        experts, topk: E, and how many of them a token gets.
        dtype: of the logits.
        scoring: one of ``SCORINGS``.
        bias: f32[E] is added to the scores for the choice, and not to the weights.
        groups, kept_groups: experts are chosen from the best groups of consecutive ones.
        renormalize: divide the weights by their sum.
        scale: factor of the weights.
        lanes, per_lane: of a token, and experts of a lane.
    """

    experts: int
    topk: int
    dtype: str
    scoring: str = "softmax"
    bias: bool = False
    groups: int = 1
    kept_groups: int = 1
    renormalize: bool = True
    scale: float = 1.0
    lanes: int = 0
    per_lane: int = 0

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (fx.ceildiv(m, self.tokens),)

    @property
    def threads(self) -> int:
        return WAVES * self.wave

    @property
    def tokens(self) -> int:
        """Tokens of a workgroup."""
        return self.threads // self.lanes

    def extents(self, tokens: Any) -> dict[str, Extent]:
        """What a launch takes of its operands."""
        tokens = fx.Int64(tokens)
        chosen = tokens * self.topk
        found = {"logits": Extent(tokens * self.experts, FLOATS[self.dtype]), "weights": Extent(chosen, fx.Float32),
                 "indices": Extent(chosen, fx.Int32), "sources": Extent(chosen, fx.Int32)}
        return {**found, "bias": Extent(self.experts, fx.Float32)} if self.bias else found

    @property
    def group_size(self) -> int:
        return self.experts // self.groups


def _lanes(target: Target, experts: int, group: int) -> tuple[int, int]:
    """Lanes of a token and experts of a lane; a lane has whole groups, or a power of two of lanes has one. With groups
    the last lanes may have no experts."""
    for grouped in (False, True)[: 1 + (group < experts)]:
        for per_lane in range(MAX_PER_LANE, 0, -1):
            lanes = cdiv(experts, per_lane)
            lanes = 1 << (lanes - 1).bit_length() if grouped else lanes
            whole = group == experts or per_lane % group == 0 or (group % per_lane == 0 and is_pow2(group // per_lane))
            full = grouped or (experts % per_lane == 0 and is_pow2(lanes))
            if full and whole and lanes <= target.wave:
                return lanes, per_lane
    threads = WAVES * target.wave
    return threads, cdiv(experts, threads)


def route_config(where: str, target: Target, experts: int, topk: int, dtype: str, **options: Any) -> RouteConfig:
    """A checked configuration. ValueError says what is not supported."""
    float_dtype(dtype, where)
    config = RouteConfig(experts, topk, dtype, target=target, **options)
    need = functools.partial(require, where)
    need(experts >= 1 and 1 <= topk <= experts,
         f"topk must be in 1 .. num_experts, got topk = {topk}, num_experts = {experts}")
    need(config.scoring in SCORINGS, f"scoring must be one of {', '.join(SCORINGS)}, got {config.scoring!r}")
    groups, kept = config.groups, config.kept_groups
    need(groups >= 1 and experts % groups == 0, f"num_groups must divide the {experts} experts, got {groups}")
    need(1 <= kept <= groups, f"topk_groups must be in 1 .. num_groups = {groups}, got {kept}")
    need(topk <= kept * config.group_size,
         f"{kept} groups of {config.group_size} experts have fewer than topk = {topk}")
    need(groups == 1 or not config.bias or config.group_size > 1,
         "a group is judged by its two best experts where there is a bias: groups of one have no second one")
    lanes, per_lane = _lanes(target, experts, config.group_size)
    need(groups == 1 or lanes <= target.wave,
         f"the groups of a token must fit the lanes of a wave, got {groups} groups of {config.group_size}; without "
         "groups (num_groups = 1) any number is supported")
    return RouteConfig(experts, topk, dtype, lanes=lanes, per_lane=per_lane, target=target, **options)


def _two_best(a: Any, b: Any) -> list[Any]:
    """The two largest of two pairs that are in order."""
    (first, second), (other, last) = a, b
    return [fx.maxnumf(first, other), fx.maxnumf(fx.minnumf(first, other), fx.maxnumf(second, last))]


def _best_groups(config: RouteConfig, keys: list[Any], values: list[Any], lane: Any) -> list[Any]:
    """Keys without those of experts outside of the best groups.

    A group is as good as its best expert, or with a bias as the sum of its two best.
    """
    size = config.group_size
    here = max(config.per_lane // size, 1)  # groups of which a lane has experts
    width = max(size // config.per_lane, 1)  # lanes of a group
    names, marks, lowest = [div(lane, width) * here + i for i in range(here)], [], fx.Float32(-math.inf)
    for i in range(here):
        part = slice(i * size, (i + 1) * size) if here > 1 or width == 1 else slice(None)
        if config.bias:
            first, second = wave_combine(functools.reduce(_two_best, [(v, lowest) for v in values[part]]), _two_best,
                                         width)
            marks.append(number_key(first + second))
        else:
            marks += wave_reduce([functools.reduce(fx.max, keys[part])], fx.max, width)
    marks = [(n < config.groups).select(m, LOWEST) for n, m in zip(names, marks, strict=True)]
    kept = [fx.Boolean(False) for _ in names]
    for _ in range(config.kept_groups):
        best = wave_combine(functools.reduce(better, zip(marks, names, strict=True)), better, config.lanes)
        kept = [k | (n == best[1]) for k, n in zip(kept, names, strict=True)]
        marks = [(n == best[1]).select(LOWEST, m) for n, m in zip(names, marks, strict=True)]
    return [kept[i // size if here > 1 else 0].select(key, LOWEST) for i, key in enumerate(keys)]


def _score(config: RouteConfig, logit: Any, top: Any, factor: Any) -> Any:
    """The score of a logit; of softmax by the largest logit and one over the sum."""
    if config.scoring == "softmax":
        return exp2((logit - top) * LOG2E) * factor
    if config.scoring == "sigmoid":
        return sigmoid(logit)
    return fx.math.sqrt(fx.maxnumf(logit, fx.Float32(0.0)) + fx.math.log1p(exp2(abs(logit) * -LOG2E)))


@flyc.jit
def choose(config, source, bias, local, lane, thread, lds):
    """The k best experts of a token as (weight, expert), and whether it has none: a NaN, or no finite softmax.

    Args:
        source: Buffer of the logits, from the first token of the workgroup; `bias` f32[E], if there is one.
        local, lane: the token in the workgroup and the lane in the token.
    """
    per_lane, experts = config.per_lane, config.experts
    # No access has experts of two tokens, or goes past the last one's, where all of it would be zero.
    width = math.gcd(per_lane, experts, 128 // source.element.width)
    logits, addends = [], []
    for i in fx.range_constexpr(0, per_lane, width):
        at = lane * per_lane + i
        logits += [value.to(fx.Float32) for value in source.load(local * experts + at, width)]
        if fx.const_expr(config.bias):
            words = math.gcd(width, 4)
            for j in fx.range_constexpr(0, width, words):
                addends += list(bias.load(at + j, words))
    names = [lane * per_lane + i for i in fx.range_constexpr(per_lane)]
    whole = config.lanes * per_lane == experts
    if fx.const_expr(not whole):
        logits = [(n < experts).select(x, -math.inf) for n, x in zip(names, logits, strict=True)]
    (top,) = lane_reduce([functools.reduce(fx.maxnumf, logits)], fx.maxnumf, config.lanes, thread, lds)
    scores = [_score(config, x, top, 1.0) for x in logits]
    (total,) = lane_reduce([functools.reduce(add, scores)], add, config.lanes, thread, lds)
    # A NaN (or the softmax of an infinity) has no order: such a token gets the first experts.
    invalid = magnitude(total) > INFINITY
    factor = 1.0 / total if config.scoring == "softmax" else fx.Float32(1.0)
    values = logits
    if fx.const_expr(config.bias):
        values = [s * factor + b for s, b in zip(scores, addends, strict=True)]
    keys = [invalid.select(0, number_key(v)) for v in values]
    if fx.const_expr(not whole):
        keys = [(n < experts).select(key, LOWEST) for n, key in zip(names, keys, strict=True)]
    if fx.const_expr(config.groups > 1):
        keys = _best_groups(config, keys, [invalid.select(0.0, v) for v in values], lane)
    carried = [logits] if config.bias else []
    chosen = []
    for _ in fx.range_constexpr(config.topk):
        best = functools.reduce(better, zip(keys, names, *carried, strict=True))
        best = lane_combine(best, better, config.lanes, thread, lds)
        logit = best[2] if config.bias else key_value(best[0])
        chosen.append((_score(config, logit, top, factor), best[1]))
        keys = [(n == best[1]).select(LOWEST, key) for n, key in zip(names, keys, strict=True)]
    factor = fx.Float32(config.scale)
    if fx.const_expr(config.renormalize):
        total = functools.reduce(add, [weight for weight, _ in chosen])
        factor = config.scale / fx.maxnumf(total, fx.Float32(1e-20))
    factor = invalid.select(math.nan, factor)
    return [(weight * factor, expert) for weight, expert in chosen]


@flyc.kernel
def _route_kernel(logits, bias, weights, indices, sources, tokens: fx.Int32, config: fx.Constexpr):
    thread, lds = fx.thread_idx.x, Lds()
    first = fx.block_idx.x * config.tokens
    count = fx.min(tokens - first, config.tokens)
    local, lane = div(thread, config.lanes), mod(thread, config.lanes)
    source = Buffer(logits, FLOATS[config.dtype], fx.Int64(first) * config.experts, count * config.experts)
    addend = Buffer(bias, fx.Float32, None, config.experts) if config.bias else None
    chosen = choose(config, source, addend, local, lane, thread, lds)
    start = fx.Int64(first) * config.topk
    out_w = Buffer(weights, fx.Float32, start, count * config.topk)
    out_i = Buffer(indices, fx.Int32, start, count * config.topk)
    if lane == 0:
        for j in fx.range_constexpr(config.topk):
            at = local * config.topk + j
            out_w.store_one(at, chosen[j][0])
            out_i.store_one(at, chosen[j][1])
            if fx.const_expr(sources is not None):
                out_s = Buffer(sources, fx.Int32, start, count * config.topk)
                out_s.store_one(at, tokens * j + first + local)


@functools.cache  # the configuration has the target
def route_launcher(config: RouteConfig) -> Any:
    """``launch(logits, bias, weights, indices, sources, tokens, stream=None)``, with None for what there is not.

    weights are f32 and indices i32, (tokens, k), from the best expert on; of equal ones the lower comes first. A token
    with a NaN, or without a finite softmax, gets the first experts with NaN weights. ``sources[t, j] = j tokens + t``.
    """
    names = "logits", "bias", "weights", "indices", "sources"

    @flyc.jit
    def route(logits, bias, weights, indices, sources, tokens: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        config.target.require_traced()
        tensors = logits, bias, weights, indices, sources
        require_operands(dict(zip(names, tensors, strict=True)), config.extents(tokens))
        launch_rows(lambda: _route_kernel(*tensors, tokens, config), tokens, config.tokens, config.threads, stream)

    return route
