"""Gradients of experts: products by kernels, what is done element by element by torch.

The pre-activations are computed again. With z = x w1^T, h = f(z) and y = sum over slots of p (h w2^T): dy w2 gives the
gradients of h and of p, that of z times w1 those of x; the gradients of the weights are a product for each expert.
"""

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..elementwise.gated import activation_gradient, halves, joined
from ..gemm.op import GEMM
from ..host.arrays import allocate
from ..host.config import require
from ..host.dtypes import dtype_name
from ..host.weights import in_order
from ..op import Plan
from ..target import Target
from .config import USUAL_ROWS, GroupedConfig, grouped_config
from .experts import expert_sizes
from .grouped import launch_grouped
from .reduction import ReduceConfig, reduce_launcher
from .sort_op import MOE_SORT, expert_marks, routing
from .sorting import most_blocks
from .tuned import pick_block, tile_columns
from .weights import of_rows, ordered

__all__ = ["plan_gradient"]


@functools.cache  # the configuration has the target
def _product_launcher(config: GroupedConfig) -> Any:
    """``launch(tensors, tokens, blocks, sorted_rows, stream=None)``, as of :func:`launch_grouped`."""

    @flyc.jit
    def product(tensors, tokens: fx.Int32, blocks: fx.Int32, sorted_rows: fx.Int32,
                stream: fx.Stream = fx.Stream(None)):
        launch_grouped(tensors, tokens, blocks, sorted_rows, config, stream)

    return product


def _turned(weight: Any) -> Any:
    return in_order(weight, "moe turned", lambda w: w.transpose(1, 2).contiguous())


def plan_gradient(target: Target, dy: Any, x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str,
                  limit: float | None, b1: Any, b2: Any, expert_mask: Any, interleaved: bool) -> Plan | None:
    """What is launched for the gradients of x, w1, w2, weights, b1 and b2. Errors as of the forward."""
    import torch

    where = "moe_bwd"
    dtype = dtype_name(x, where, ("f16", "bf16"))
    require(where, w1.dtype == x.dtype == w2.dtype, f"w1 and w2 must be {x.dtype} as x, got {w1.dtype} and {w2.dtype}")
    local, model, inter = expert_sizes(x, w1, w2, b1, b2, False, where)
    ids, weights = routing(ids, weights, where)
    (tokens, topk), two = ids.shape, 2 * inter
    dtype_name(dy, f"{where}: dy")
    require(where, tuple(dy.shape) == tuple(x.shape) and tokens == len(x),
            f"dy must be {tuple(x.shape)} as x, and ids of its tokens, got {tuple(dy.shape)} and {tuple(ids.shape)}")
    if not tokens:
        return None
    dy, x = dy.to(x.dtype).contiguous(), x.contiguous()
    b1, b2 = (None if b is None else b.contiguous() for b in (b1, b2))
    experts = local if expert_mask is None else expert_mask.shape[0]
    expert_mask = expert_marks(expert_mask, experts, where)
    block = min(pick_block(tokens * topk, experts), USUAL_ROWS)

    def run(*results: Any, stream: Any = None) -> None:
        rows, _, numbers, valid = MOE_SORT.run(ids, weights, experts, block, expert_mask, stream=stream)

        def product(data: Any, weight: Any, n: int, source: str, out: str, bias: Any = None) -> Any:
            config = grouped_config(where, target, n=n, k=data.shape[1], dtype=dtype, out=out, tile_m=block,
                                    topk=topk,
                                    tile_n=tile_columns(target, block, False), source=source, into="slot",
                                    bias=bias is not None)
            made = allocate(target, x, (tokens * topk, n), out)
            tensors = dict(x=data, w=ordered(weight, config), bias=of_rows(bias, config, False), out=made, rows=rows,
                           experts=numbers, valid=valid)
            _product_launcher(config)(tensors, tokens, most_blocks(tokens * topk, experts, block), len(rows),
                                      stream=stream)
            return made

        # Slots whose expert does not exist, or is not here, hold nothing.
        marks = torch.ones_like(ids[0]).new_ones(experts) if expert_mask is None else expert_mask
        exists = (ids >= 0) & (ids < experts) & (marks[ids.clamp(0, experts - 1).long()] != 0)
        there = exists.reshape(-1, 1)
        z = torch.where(there, product(x, w1, two, "token", "f32", b1), 0)
        q = torch.where(there, product(dy, _turned(w2), inter, "token", "f32"), 0)
        p = weights.reshape(-1, 1) * there
        h, dgate, dup = activation_gradient(*halves(z, interleaved), q * p, activation, limit)
        dp = (h * q).sum(-1)
        dz, h = joined(dgate, dup, interleaved).to(x.dtype), h.to(x.dtype)
        partial = product(dz, _turned(w1), model, "slot", dtype)
        dx, dw1, dw2, dweights, db1, db2 = results
        add_slots = reduce_launcher(ReduceConfig(topk, model, dtype, dtype, experts, True, target=target))
        add_slots(partial, dx, marks, ids, tokens, stream=stream)
        number = 0
        for expert in range(experts):
            if expert_mask is not None and not int(expert_mask[expert]):
                continue
            at, slots = torch.nonzero(ids == expert, as_tuple=True)
            these = at * topk + slots
            weighted = (dy[at].float() * p[these]).to(x.dtype)
            for out, left, right in ((dw1, dz[these], x[at]), (dw2, weighted, h[these])):
                out[number] = GEMM.run(left, right, None, "tn", None, stream=stream) if len(at) else 0
            if b1 is not None:
                db1[number] = dz[these].float().sum(0)
            if b2 is not None:
                db2[number] = weighted.float().sum(0)
                dp[these] += dy[at].float() @ b2[number].float()
            number += 1
        dweights.copy_(dp.view(tokens, topk) * exists)

    return Plan(lambda: run, lambda *results: results)
