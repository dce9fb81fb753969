"""All of a mixture of experts in one launcher: sorting, gate and up with activation, down, sum over the slots."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.arrays import allocate, contiguous
from ..host.config import require
from ..host.dtypes import FLOATS, dtype_name
from ..host.weights import in_order
from ..op import Plan
from ..parts.index import align_up, cdiv
from ..parts.matrix import MICRO_GROUP
from ..parts.scales import WORD_K, WORD_ROWS
from ..quant.builders import build_per_group_quant_module, build_quant_module
from ..quant.mx import THREADS as MX_THREADS
from ..quant.mx import build_mxfp4_moe_scale_sort_module, build_per_1x32_mx_quant_module
from ..target import Target
from .config import FORMATS, PUBLIC, GroupedConfig, grouped_config, is_wide
from .grouped import launch_grouped
from .reduction import ReduceConfig, launch_reduce
from .sort_op import expert_marks, routing
from .sorting import SortConfig, capacity, launch_sort, most_blocks, shares, sort_config, sort_workspace
from .tuned import Tiles, expert_tiles, is_fused
from .weights import of_rows, ordered, scales_of, weight_dtype

__all__ = ["Experts", "expert_sizes", "experts_config", "experts_launcher", "plan_experts", "scratch", "scratch_bytes"]

BYTES = {"i32": 4, "f32": 4, "f16": 2, "bf16": 2, "fp8": 1, "i8": 1, "u8": 1}


@dataclass(frozen=True)
class Experts:
    """The kernels of a mixture of experts, each with its configuration."""

    sort: SortConfig
    up: GroupedConfig
    down: GroupedConfig
    reduce: ReduceConfig


def experts_config(where: str, target: Target, tokens: int, topk: int, experts: int, model: int, inter: int, dtype: str,
                   activation: str, limit: float | None, biases: tuple[bool, bool], mask: bool, quant: str = "none",
                   scales: tuple[str, str] = ("f32", "f32"), tiles: Tiles | None = None) -> Experts:
    """A checked configuration for a number of tokens, with the types of the scales of groups of both weights; `tiles`
    are those of :func:`expert_tiles` by default. ValueError says what is not supported."""
    tiles = tiles or expert_tiles(target, quant, tokens * topk, experts, model, inter)
    block, up_tile, down_tile = tiles
    common: dict[str, Any] = dict(dtype=dtype, tile_m=block, topk=topk, quant=quant)
    between: dict[str, Any] = dict(source="slot")
    made: dict[str, Any] = dict(into="slot")
    if is_fused(target, quant):
        words = dict(w_scales="words", x_scales="words")
        between = dict(source="sorted", **words)
        made = dict(into="row", out=FORMATS[quant].a, strips="pairs", **words)
        made["x_scales"] = "words" if model % WORD_K == 0 else "rows"

    up = grouped_config(where, target, n=inter, k=model, gated=True, activation=activation, limit=limit, source="token",
                        bias=biases[0], scale=scales[0], wide=is_wide(tokens, model), **up_tile, **made, **common)
    down = grouped_config(where, target, n=model, k=inter, into="slot", weighted=True, bias=biases[1], scale=scales[1],
                          wide=is_wide(tokens * topk, inter), **down_tile, **between, **common)
    require(where, up.format.scales != "micro" or dtype == "bf16",
            f"microscaled activations are made of bf16, got {dtype}")
    sort = sort_config(where, target, experts, topk, block, mask=mask, one=shares(tokens, topk)[0] == 1)
    return Experts(sort, up, down, ReduceConfig(topk, model, dtype, dtype, experts, mask, target=target))


def scratch(config: Experts, tokens: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and dtypes of the workspace."""
    topk, experts, block = config.sort.topk, config.sort.experts, config.sort.block
    rows, dtype = capacity(tokens, topk, experts, block), config.up.dtype
    counts = sort_workspace(tokens, topk, experts)
    arrays = {
        "rows": ((rows,), "i32"), "row_weights": ((rows,), "f32"), "experts": ((cdiv(rows, block),), "i32"),
        "valid": ((2,), "i32"), "partial": ((tokens * topk, config.down.n), dtype),
    }
    if config.up.micro_out:
        arrays["inner_data"] = (rows, config.down.k * config.down.format.bits_a // 8), "u8"
        arrays["inner_scale"] = (align_up(rows, WORD_ROWS), align_up(config.down.scales_k, 8)), "u8"
    else:
        arrays["inner"] = (tokens * topk, config.up.n), dtype
    if config.up.x_scales == "words":
        arrays["sorted_scale"] = (align_up(rows, WORD_ROWS), config.up.scales_k), "u8"
    if counts:
        arrays["counts"] = (counts,), "i32"
    for name, count, part in (("x", tokens, config.up), ("inner", tokens * topk, config.down)):
        kind = part.format
        if kind.a is None or f"{name}_data" in arrays:
            continue
        along = () if kind.scale_k is None else (part.scales_k,)
        micro = kind.scales == "micro"
        arrays[f"{name}_data"] = (count, part.k * kind.bits_a // 8), "u8" if micro else kind.a
        arrays[f"{name}_scale"] = (count, *along), "u8" if micro else "f32"
    return arrays


def scratch_bytes(config: Experts, tokens: int) -> int:
    """Bytes of the workspace."""
    return sum(math.prod(shape) * BYTES[dtype] for shape, dtype in scratch(config, tokens).values())


def _quantiser(config: GroupedConfig) -> Any:
    """``quantise(x, data, scale, rows, stream)`` of the rows of x, from a jit function; None if they stay."""
    kind, target = config.format, config.target
    if kind.a is None:
        return None
    if kind.scales == "blocks":
        return build_per_group_quant_module(config.k, config.dtype, kind.a, target=target)
    if kind.scales == "rows":
        return build_quant_module(config.k, config.dtype, kind.a, target=target)[0]
    micro, groups = build_per_1x32_mx_quant_module(config.k, kind.a, target=target), config.k // MICRO_GROUP
    return lambda x, data, scale, rows, stream: micro(
        x, data, scale, rows, fx.ceildiv(rows * groups, MX_THREADS), stream)


@functools.cache  # the configuration has the target
def experts_launcher(config: Experts) -> Any:
    """``launch(operands, out, tokens, groups, rounds, blocks, stream=None)`` with a dictionary of x, w1, w2, b1, b2,
    w1_scale, w2_scale, ids, weights, mask (None for what there is not) and the arrays of :func:`scratch`."""
    quantise_x = _quantiser(config.up)
    quantise_inner: Any = None if config.up.micro_out else _quantiser(config.down)
    sort_scales: Any = None
    if config.up.x_scales == "words":
        sort_scales = build_mxfp4_moe_scale_sort_module(config.up.k, target=config.up.target)

    @flyc.jit
    def moe(operands, out, tokens: fx.Int32, groups: fx.Int32, rounds: fx.Int32, blocks: fx.Int32,
            stream: fx.Stream = fx.Stream(None)):
        a = operands
        launch_sort(dict(ids=a["ids"], weights=a["weights"], sorted_ids=a["rows"], sorted_weights=a["row_weights"],
                         sorted_experts=a["experts"], valid=a["valid"], counts=a.get("counts"), mask=a["mask"]),
                    tokens, groups, rounds, config.sort, stream)
        sorted_rows = capacity(tokens, config.sort.topk, config.sort.experts, config.sort.block)
        routed = dict(rows=a["rows"], weights=a["row_weights"], experts=a["experts"], valid=a["valid"])
        x, x_scale, inner = a["x"], a.get("x_scale"), a.get("inner", a.get("inner_data"))
        if fx.const_expr(quantise_x is not None):
            x = a["x_data"]
            quantise_x(a["x"], x, x_scale, tokens, stream)
        if fx.const_expr(sort_scales is not None):
            x_scale = a["sorted_scale"]
            sort_scales(a["x_scale"], a["rows"], a["valid"], x_scale, tokens,
                        fx.ceildiv(blocks * config.sort.block, WORD_ROWS), stream)
        launch_grouped(dict(routed, x=x, w=a["w1"], out=inner, bias=a["b1"], x_scale=x_scale,
                            w_scale=a["w1_scale"], out_scale=a.get("inner_scale")),
                       tokens, blocks, sorted_rows, config.up, stream)
        if fx.const_expr(quantise_inner is not None):
            # Slots without an expert are quantised too: what they hold is not used.
            inner = a["inner_data"]
            quantise_inner(a["inner"], inner, a["inner_scale"], tokens * config.sort.topk, stream)
        launch_grouped(dict(routed, x=inner, w=a["w2"], out=a["partial"], bias=a["b2"], x_scale=a.get("inner_scale"),
                            w_scale=a["w2_scale"]), tokens, blocks, sorted_rows, config.down, stream)
        launch_reduce(dict(x=a["partial"], y=out, ids=a["ids"], mask=a["mask"]), tokens, config.reduce, stream)

    return moe


def expert_sizes(x: Any, w1: Any, w2: Any, b1: Any, b2: Any, packed: bool, where: str) -> tuple[int, int, int]:
    """(experts, model, inter). ValueError if the operands do not fit each other."""
    require(where, len(x.shape) == 2 and len(w1.shape) == 3 and len(w2.shape) == 3,
            f"x must be (tokens, model), w1 (experts, 2 inter, model) and w2 (experts, model, inter), got "
            f"{tuple(x.shape)}, {tuple(w1.shape)} and {tuple(w2.shape)}")
    each = 2 if packed else 1
    (experts, two, model), inter = (w1.shape[0], w1.shape[1], w1.shape[2] * each), w2.shape[2] * each
    require(where, x.shape[1] == model and two == 2 * inter and tuple(w2.shape[:2]) == (experts, model),
            f"w1 must be (experts, 2 inter, {x.shape[1] // each}) and w2 (experts, {x.shape[1]}, "
            f"{'inter / 2' if packed else 'inter'}), got {tuple(w1.shape)} and {tuple(w2.shape)}")
    for name, bias, size in (("b1", b1, two), ("b2", b2, model)):
        if bias is not None:
            dtype_name(bias, f"{where}: {name}", (*FLOATS, "float64"))
            require(where, tuple(bias.shape) == (experts, size),
                    f"{name} must be ({experts}, {size}), got {tuple(bias.shape)}")
    return experts, model, inter


def _format(quant: str, scales: tuple[Any, Any], where: str) -> tuple[str, tuple[str, str]]:
    """The format, and the types of the scales of groups."""
    require(where, quant in PUBLIC, f"quant must be one of {', '.join(PUBLIC)}, got {quant!r}")
    # A reduction of 32 has one group, as if the scale were of a row: the other scale tells.
    if quant == "int4" and None not in scales and any(len(s.shape) == 3 and s.shape[2] > 1 for s in scales):
        first, second = (dtype_name(s, f"{where}: w{i}_scale") for i, s in enumerate(scales, 1))
        return "a16i4", (first, second)
    kind = "e8m0" if FORMATS[quant].b == "fp4" else "f32"
    return quant, (kind, kind)


def plan_experts(target: Target, x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, limit: Any,
                 quant: str, w1_scale: Any, w2_scale: Any, b1: Any, b2: Any, expert_mask: Any,
                 interleaved: bool) -> tuple[Experts, Plan | None]:
    """What is launched for operands, all of whose errors are raised here; see :data:`flydsl.kernels.moe.op.MOE`."""
    where = "moe"
    dtype = dtype_name(x, where, ("f16", "bf16"))
    name, scales = _format(quant, (w1_scale, w2_scale), where)
    devices = {str(t.device) for t in (x, w1, w2, weights, ids, w1_scale, w2_scale, b1, b2, expert_mask)
               if t is not None}
    require(where, len(devices) == 1, f"operands must be on one device, got {', '.join(sorted(devices))}")
    local, model, inter = expert_sizes(x, w1, w2, b1, b2, FORMATS[name].b is not None, where)
    ids, weights = routing(ids, weights, where)
    tokens, topk = ids.shape
    require(where, tokens == x.shape[0], f"x has {x.shape[0]} rows, and ids are of {tokens} tokens")
    experts = local if expert_mask is None else expert_mask.shape[0]
    marks = expert_marks(expert_mask, experts, where)
    if marks is not None:
        count = int(in_order(marks, "moe count", lambda m: (m != 0).sum()))
        require(where, count == local, f"expert_mask has {count} experts, and there are weights of {local}")
    config = experts_config(where, target, tokens, topk, experts, model, inter, dtype, activation, limit,
                            (b1 is not None, b2 is not None), marks is not None, name, scales)
    operands = dict(x=contiguous(x), ids=ids, weights=weights, mask=marks)
    for i, w, s, b, part, alternate in ((1, w1, w1_scale, b1, config.up, interleaved),
                                        (2, w2, w2_scale, b2, config.down, False)):
        weight_dtype(w, part, f"{where}: w{i}")
        operands.update({f"w{i}_scale": scales_of(s, local, part, alternate, f"{where}: w{i}_scale"),
                         f"w{i}": ordered(w, part, alternate), f"b{i}": of_rows(b, part, alternate)})
    if not tokens:
        return config, None
    groups, rounds = shares(tokens, topk)
    operands.update({n: allocate(target, x, shape, kind) for n, (shape, kind) in scratch(config, tokens).items()})
    blocks = most_blocks(tokens * topk, experts, config.sort.block)
    return config, Plan(lambda: experts_launcher(config), lambda out: (operands, out, tokens, groups, rounds, blocks))
