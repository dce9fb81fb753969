"""Experts as modules of language models hold them: a layer for each, or stacked either way round."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..host.config import require
from ..host.weights import in_order_of
from ..moe.op import MOE
from ..op import Op, Plan, scratch_of
from ..target import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["MOE_MODULES", "OPS", "kept", "stacked"]


def stacked(w1: Sequence[Tensor], w2: Sequence[Tensor], transposed: bool) -> tuple[Tensor, Tensor]:
    """``(w1, w2)`` of :func:`flydsl.kernels.ops.moe`: (E, 2 inter, model) and (E, model, inter).

    Args:
        w1: gate (inter, model) and up of each expert in turn; or one tensor, gate and up of all.
        w2: (model, inter) of each expert; or one tensor.
        transposed: the one tensor is (experts, inputs, outputs).

    Raises:
        ValueError: there are not two of w1 for each of w2.
    """
    import torch

    if len(w1) == len(w2) == 1:
        return (w1[0].transpose(1, 2), w2[0].transpose(1, 2)) if transposed else (w1[0], w2[0])
    require("moe", len(w1) == 2 * len(w2) > 0 and not transposed,
            f"gate and up of each expert are needed for each down, got {len(w1)} and {len(w2)} weights")
    pairs = zip(w1[::2], w1[1::2], strict=True)
    return torch.stack([torch.cat(pair) for pair in pairs]), torch.stack(list(w2))


def kept(w1: Sequence[Tensor], w2: Sequence[Tensor], transposed: bool) -> tuple[Tensor, Tensor]:
    """The same without gradients, made once for each content of the weights and kept while they live."""
    if len(w1) == 1 and not transposed:
        return w1[0], w2[0]

    def make(*given: Tensor) -> tuple[Tensor, Tensor]:
        both = stacked(given[: len(w1)], given[len(w1):], transposed)
        return both[0].contiguous(), both[1].contiguous()

    return in_order_of((*w1, *w2), f"stacked {transposed}", make)


def _as_stacked(stack: Any, x: Any, w1: Any, w2: Any, weights: Any, ids: Any, activation: str, limit: float | None,
                b1: Any, b2: Any, interleaved: bool, transposed: bool) -> tuple[Any, ...]:
    """Arguments of `moe`."""
    return (x, *stack(w1, w2, transposed), weights, ids, activation, limit, "none", None, None, b1, b2, None,
            interleaved)


def _plan(target: Target, *arguments: Any) -> Plan | None:
    return MOE.plan(target, *_as_stacked(kept, *arguments))


def _sample_modules(draw: Any, m: int, n: int, dtype: str = "bf16") -> tuple[Any, ...]:
    x, w1, w2, weights, ids, activation, limit, *_ = MOE.sample(draw, m, n, dtype=dtype)
    layers = [half.contiguous() for expert in w1 for half in expert.chunk(2)]
    return x, layers, [w.clone() for w in w2], weights, ids, activation, limit, None, None, False, False


MOE_MODULES = Op(
    "moe_modules",
    "(Tensor x, Tensor[] w1, Tensor[] w2, Tensor weights, Tensor ids, str activation, float? limit, Tensor? b1, "
    "Tensor? b2, bool interleaved, bool transposed) -> Tensor",
    "`moe` of weights as modules hold them: gate and up, and down, of each expert; or stacked the other way round",
    results=MOE.results,
    plan=_plan,
    reference=lambda *arguments: MOE.reference(*_as_stacked(stacked, *arguments)), widths=(64, 72), public=False,
    sample=_sample_modules, tolerance=MOE.tolerance, numpy=False, archs=MOE.archs,
    workspace=partial(scratch_of, _plan),
)

OPS = [MOE_MODULES]
