"""All of a mixture of experts in one launcher: sorting, gate and up with activation, down, sum over the slots."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..gemm.layouts import shuffle_weight
from ..gemm.weights import in_order
from ..host.arrays import allocate, contiguous
from ..host.config import require
from ..host.dtypes import dtype_name
from ..op import Plan
from ..parts.index import align_up, cdiv
from ..target import Target
from .config import ACTIVATIONS, FORMATS, GroupedConfig, grouped_config, pick_block
from .grouped import launch_grouped
from .reduction import ReduceConfig, launch_reduce
from .sorting import SortConfig, capacity, launch_sort, shares, sort_config, sort_workspace

__all__ = ["Experts", "experts_config", "experts_launcher", "ordered", "plan_experts", "scratch"]

BYTES = {"i32": 4, "f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True)
class Experts:
    """The kernels of a mixture of experts, each with its configuration."""

    sort: SortConfig
    up: GroupedConfig
    down: GroupedConfig
    reduce: ReduceConfig


def _columns(target: Target, block: int, gated: bool) -> int:
    """Columns of a workgroup: as many as the registers hold; few where rows are, so that there are more workgroups."""
    if block == 16:
        return 64
    wide = 256 if target.wave == 64 and block <= 64 else 128
    return wide // 2 if gated else wide


def experts_config(where: str, target: Target, tokens: int, topk: int, experts: int, model: int, inter: int, dtype: str,
                   activation: str, limit: float | None, biases: tuple[bool, bool], mask: bool) -> Experts:
    """A checked configuration for a number of tokens. ValueError says what is not supported."""
    block = pick_block(tokens * topk, experts)
    common: dict[str, Any] = dict(dtype=dtype, block_m=block, topk=topk)
    up = grouped_config(where, target, n=inter, k=model, block_n=_columns(target, block, True), gated=True,
                        activation=activation, limit=limit, source="token", into="slot", bias=biases[0],
                        wide=_is_wide(tokens, model), **common)
    down = grouped_config(where, target, n=model, k=inter, block_n=_columns(target, block, False), source="slot",
                          into="slot", weighted=True, bias=biases[1], wide=_is_wide(tokens * topk, inter), **common)
    sort = sort_config(where, target, experts, topk, block, mask=mask, one=shares(tokens, topk)[0] == 1)
    return Experts(sort, up, down, ReduceConfig(topk, model, dtype, dtype, experts, mask, target=target))


def _is_wide(rows: int, columns: int) -> bool:
    """Whether 16-bit rows leave the 4 GiB that an offset reaches (half of it: a tile further is computed)."""
    return rows * columns * 2 >= 1 << 31


def scratch(config: Experts, tokens: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and dtypes of the workspace."""
    topk, experts, block = config.sort.topk, config.sort.experts, config.sort.block
    rows, dtype = capacity(tokens, topk, experts, block), config.up.dtype
    counts = sort_workspace(tokens, topk, experts)
    arrays = {
        "rows": ((rows,), "i32"), "weights": ((rows,), "f32"), "experts": ((cdiv(rows, block),), "i32"),
        "valid": ((2,), "i32"), "inner": ((tokens * topk, config.up.n), dtype),
        "partial": ((tokens * topk, config.down.n), dtype),
    }
    return {**arrays, "counts": ((counts,), "i32")} if counts else arrays


def scratch_bytes(config: Experts, tokens: int) -> int:
    return sum(math.prod(shape) * BYTES[dtype] for shape, dtype in scratch(config, tokens).values())


@functools.cache  # the configuration has the target
def experts_launcher(config: Experts) -> Any:
    """``launch(operands, work, out, tokens, groups, rounds, blocks, stream=None)``: dictionaries of x, w1, w2, b1, b2,
    ids, weights and mask, and of the arrays of :func:`scratch`."""

    @flyc.jit
    def moe(x, w1, w2, b1, b2, ids, weights, mask, rows, sorted_weights, experts, valid, counts, inner, partial, out,
            tokens: fx.Int32, groups: fx.Int32, rounds: fx.Int32, blocks: fx.Int32,
            stream: fx.Stream = fx.Stream(None)):
        launch_sort(dict(ids=ids, weights=weights, sorted_ids=rows, sorted_weights=sorted_weights,
                         sorted_experts=experts, valid=valid, counts=counts, mask=mask),
                    tokens, groups, rounds, config.sort, stream)
        sorted_rows = capacity(tokens, config.sort.topk, config.sort.experts, config.sort.block)
        routed = dict(rows=rows, weights=sorted_weights, experts=experts, valid=valid)
        launch_grouped(dict(routed, x=x, w=w1, out=inner, bias=b1), tokens, blocks, sorted_rows, config.up, stream)
        launch_grouped(dict(routed, x=inner, w=w2, out=partial, bias=b2), tokens, blocks, sorted_rows, config.down,
                       stream)
        launch_reduce(dict(x=partial, y=out, ids=ids, mask=mask), tokens, config.reduce, stream)

    return moe


def most_blocks(config: Experts, tokens: int) -> int:
    """Blocks of rows that there can be: no expert has padding that has no row."""
    entries, block = tokens * config.sort.topk, config.sort.block
    return cdiv(entries + min(config.sort.experts, entries) * (block - 1), block)


def ordered(weight: Any, config: GroupedConfig, interleaved: bool = False) -> Any:
    """Weights of experts (E, rows, k) in the order of the kernel, kept while they live: gate before up, each padded to
    16 rows, k to whole tiles."""

    def make(w: Any) -> Any:
        import torch

        halves = [w[:, s:: config.streams] if interleaved else w[:, s * config.n : (s + 1) * config.n]
                  for s in range(config.streams)]
        rows = align_up(config.n, 16)
        k = config.strip_words // 16 * 32 // config.format.bits_b
        out = torch.zeros(w.shape[0], rows * config.streams, k, dtype=w.dtype, device=w.device)
        for s, half in enumerate(halves):
            out[:, s * rows : s * rows + config.n, : w.shape[2]] = half
        return shuffle_weight(out)

    return in_order(weight, f"moe {config.streams} {interleaved} {config.strip_words}", make)


def single(bias: Any, streams: int, interleaved: bool) -> Any:
    """A bias (E, rows) as f32, gate before up, kept while it lives; None stays."""

    def make(b: Any) -> Any:
        b = b.unflatten(-1, (-1, streams)).transpose(-1, -2).flatten(-2) if interleaved else b
        return contiguous(b.float())

    return None if bias is None else in_order(bias, f"moe bias {interleaved}", make)


def _sizes(x: Any, w1: Any, w2: Any, b1: Any, b2: Any, where: str) -> tuple[int, int, int]:
    """(experts, model, inter). ValueError if the operands do not fit each other."""
    require(where, len(x.shape) == 2 and len(w1.shape) == 3 and len(w2.shape) == 3,
            f"x must be (tokens, model), w1 (experts, 2 inter, model) and w2 (experts, model, inter), got "
            f"{tuple(x.shape)}, {tuple(w1.shape)} and {tuple(w2.shape)}")
    (experts, two, model), inter = w1.shape, w2.shape[2]
    require(where, x.shape[1] == model and two == 2 * inter and tuple(w2.shape) == (experts, model, inter),
            f"w1 must be (experts, 2 inter, {x.shape[1]}) and w2 (experts, {x.shape[1]}, inter), got {tuple(w1.shape)} "
            f"and {tuple(w2.shape)}")
    for name, bias, size in (("b1", b1, two), ("b2", b2, model)):
        require(where, bias is None or tuple(bias.shape) == (experts, size),
                f"{name} must be ({experts}, {size}), got {None if bias is None else tuple(bias.shape)}")
    return experts, model, inter


def plan_experts(target: Target, x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, limit: Any,
                 quant: str, b1: Any, b2: Any, marks: Any, interleaved: bool) -> tuple[Experts, Plan | None]:
    """What is launched for operands, all of whose errors are raised here; see :data:`flydsl.kernels.moe.op.MOE`."""
    from .op import expert_marks, routing

    where = "moe"
    require(where, quant in FORMATS, f"quant must be one of {', '.join(FORMATS)}, got {quant!r}")
    dtype = dtype_name(x, where, ("f16", "bf16"))
    for name, w in (("w1", w1), ("w2", w2)):
        if dtype_name(w, f"{where}: {name}", ("f16", "bf16")) != dtype:
            raise TypeError(f"{where}: x and the weights must have one dtype, got {x.dtype} and {w.dtype} of {name}")
    local, model, inter = _sizes(x, w1, w2, b1, b2, where)
    tokens, topk = routing(ids, weights, where)
    require(where, tokens == x.shape[0], f"x has {x.shape[0]} rows, and ids are of {tokens} tokens")
    experts = local if marks is None else marks.shape[0]
    marks = expert_marks(marks, experts, where)
    if marks is not None:
        count = int(in_order(marks, "moe count", lambda m: (m != 0).sum()))
        require(where, count == local, f"expert_mask has {count} experts, and there are weights of {local}")
    require(where, activation in ACTIVATIONS[1:],
            f"activation must be one of {', '.join(ACTIVATIONS[1:])}, got {activation!r}")
    config = experts_config(where, target, tokens, topk, experts, model, inter, dtype, activation, limit,
                            (b1 is not None, b2 is not None), marks is not None)
    if not tokens:
        return config, None
    run = experts_launcher(config)
    groups, rounds = shares(tokens, topk)
    work = {name: allocate(target, x, shape, kind) for name, (shape, kind) in scratch(config, tokens).items()}
    operands = (contiguous(x), ordered(w1, config.up, interleaved), ordered(w2, config.down),
                single(b1, 2, interleaved), single(b2, 1, False), contiguous(ids), contiguous(weights), marks,
                work["rows"], work["weights"], work["experts"], work["valid"], work.get("counts"), work["inner"],
                work["partial"])
    return config, Plan(lambda: run, lambda out: (*operands, out, tokens, groups, rounds, most_blocks(config, tokens)))
