"""Sorting of tokens by their experts, of arrays."""

from __future__ import annotations

from typing import Any

from ..host.arrays import allocate, contiguous, converted, flat_of
from ..host.config import require
from ..host.dtypes import dtype_name
from ..op import Op, Plan, Result
from ..parts.index import align_up, cdiv
from ..target import Target
from .sorting import MAX_TOKENS, build_moe_sorting_module, capacity, shares, sort_workspace

__all__ = ["MOE_SORT", "expert_marks", "routing", "sample_routing"]


def routing(ids: Any, weights: Any, where: str) -> tuple[Any, Any]:
    """The experts and weights of tokens, dense i32 and f32 (tokens, k). TypeError or ValueError if they are not as they
    must be."""
    if dtype_name(ids, f"{where}: ids", ("i32", "i64")) == "i64":  # as torch.topk gives them
        ids = converted(ids.clip(-1, 2**31 - 1), "i32")  # no expert stays none
    if dtype_name(weights, f"{where}: weights") != "f32":
        weights = converted(weights, "f32")
    require(where, len(ids.shape) == 2 and tuple(ids.shape) == tuple(weights.shape),
            f"ids and weights must both be (tokens, k), got {tuple(ids.shape)} and {tuple(weights.shape)}")
    require(where, ids.shape[0] < MAX_TOKENS,
            f"at most {MAX_TOKENS - 1} tokens are supported, got {ids.shape[0]}")
    return contiguous(ids), contiguous(weights)


def expert_marks(mask: Any, experts: int, where: str) -> Any:
    """A contiguous mask of local experts, or None."""
    return flat_of(mask, f"{where}: expert_mask", "i32", (experts,))


def _plan_sort(target: Target, ids: Any, weights: Any, num_experts: int, block: int, expert_mask: Any) -> Plan | None:
    where = "moe_sort"
    ids, weights = routing(ids, weights, where)
    tokens, topk = ids.shape
    marks = expert_marks(expert_mask, num_experts, where)
    groups, rounds = shares(tokens, topk)
    run = build_moe_sorting_module(num_experts, topk, block, groups == 1, marks is not None, target=target)
    words = sort_workspace(tokens, topk, num_experts)
    counts = allocate(target, ids, (words,), "i32") if words else None
    return Plan(lambda: run,
                lambda *outs: (ids, weights, *outs, marks, None, counts, None, tokens, groups, rounds, 0, 0))


def _sort_results(ids: Any, weights: Any, num_experts: int, block: int, expert_mask: Any) -> tuple[Result, ...]:
    rows = capacity(ids.shape[0], ids.shape[1], num_experts, block)
    return (Result((rows,), "i32"), Result((rows,), "f32"), Result((cdiv(rows, block),), "i32"),
            Result((2,), "i32"))


def _sort_reference(ids: Any, weights: Any, num_experts: int, block: int, expert_mask: Any) -> tuple[Any, ...]:
    import torch

    (tokens, topk), row, number = ids.shape, 0, 0
    shapes = [r.shape for r in _sort_results(ids, weights, num_experts, block, expert_mask)]
    rows = torch.full(shapes[0], (topk << 24) | tokens)
    factors, experts = torch.zeros(shapes[1]), torch.full(shapes[2], -1)
    for expert in range(num_experts):
        if expert_mask is not None and expert_mask[expert] == 0:
            continue
        found, slots = torch.nonzero(ids == expert, as_tuple=True)
        rows[row : row + len(found)] = (slots << 24) | found
        factors[row : row + len(found)] = weights[found, slots]
        experts[row // block : cdiv(row + len(found), block)] = number
        row, number = row + align_up(len(found), block), number + 1
    return rows.double(), factors.double(), experts.double(), torch.tensor([row, tokens]).double()


def sample_routing(draw: Any, m: int, experts: int, topk: int) -> tuple[Any, Any]:
    """Experts and weights of m tokens."""
    found = draw.normal(m, experts).topk(topk)
    return found.indices.int(), found.values.softmax(-1)


MOE_SORT = Op(
    "moe_sort",
    "(Tensor ids, Tensor weights, int num_experts, int block, Tensor? expert_mask=None) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    """`(rows, weights, experts, valid)`: tokens in the order of their experts, each expert's padded to whole blocks

    Args:
        ids: i32 or i64 (tokens, k), the experts of each token; one that is not in 0 .. num_experts - 1 is left out.
        weights: (tokens, k), f32, f16 or bf16.
        num_experts: E.
        block: rows to whose multiples those of an expert are padded.
        expert_mask: i32 (E,): experts of zero get no rows, and the others are numbered without them.

    Returns:
        With C = tokens * k + E * block - k:

        * rows i32 (C,): ``(slot << 24) | token``, tokens of an expert in their order, then ``(k << 24) | tokens``;
        * weights f32 (C,): of the rows, 0 of padding;
        * experts i32 (ceil(C / block),): of each block, -1 of those after the last row;
        * valid i32 (2,): padded rows, and tokens.
    """,
    results=_sort_results, plan=_plan_sort, reference=_sort_reference, widths=(16, 37),
    sample=lambda draw, m, n, topk=2, block=16: (*sample_routing(draw, m, n, topk), n, block, None),
    workspace=lambda target, ids, weights, num_experts, *_: 4 * sort_workspace(ids.shape[0], ids.shape[1], num_experts),
    bench=lambda target, rows: [("moe_sort 8 of 256", (8192, 256), {"topk": 8, "block": 64})],
)
