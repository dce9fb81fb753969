"""Losses of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..host.arrays import as_rows, contiguous, flat_of
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..host.models import Model
from ..op import Form, Gradient, Op, Plan, Result, like
from ..target import Target
from .kernel import build_cross_entropy_bwd_module, build_cross_entropy_module

__all__ = ["OPS"]

IGNORED = -100
_REDUCTIONS = ("mean", "sum", "none")


def _operands(where: str, logits: Any, targets: Any) -> tuple[str, Any, Any]:
    """dtype, the matrix and the vector."""
    dtype = dtype_name(logits, where)
    dtype_name(targets, f"{where}: targets", INDICES)
    require(where, len(logits.shape) >= 1 and tuple(targets.shape) == tuple(logits.shape[:-1]),
            f"targets must have the shape of the rows of the logits {tuple(logits.shape)}, got {tuple(targets.shape)}")
    return dtype, as_rows(logits, where), contiguous(targets).reshape(-1)


def _plan(target: Target, logits: Any, targets: Any, ignore_index: int) -> Plan | None:
    dtype, rows, given = _operands("cross_entropy", logits, targets)
    m, n = rows.shape
    if not m:
        return None
    return Plan(lambda: build_cross_entropy_module(n, dtype, target=target),
                lambda *outs: (rows, given, *(out.reshape(m) for out in outs), m, ignore_index))


def _plan_bwd(target: Target, dloss: Any, logits: Any, targets: Any, top: Any, log_total: Any,
              ignore_index: int) -> Plan | None:
    where = "cross_entropy_bwd"
    dtype, rows, given = _operands(where, logits, targets)
    m, n = rows.shape
    given_rows = (("top", top), ("log_total", log_total), ("dloss", dloss))
    scalars = [flat_of(a, f"{where}: {k}", "f32", tuple(targets.shape)) for k, a in given_rows]
    if not m:
        return None
    return Plan(lambda: build_cross_entropy_bwd_module(n, dtype, target=target),
                lambda out: (rows, given, *scalars, out, m, ignore_index))


def _reference(logits: Any, targets: Any, ignore_index: int) -> tuple[Any, ...]:
    from torch.nn import functional

    wide = logits.double()
    flat = functional.cross_entropy(wide.reshape(-1, wide.shape[-1]), targets.reshape(-1).long(), reduction="none",
                                    ignore_index=ignore_index)
    top = wide.amax(-1)
    return flat.reshape(targets.shape), top, (wide - top[..., None]).logsumexp(-1)


def _reference_bwd(dloss: Any, logits: Any, targets: Any, top: Any, log_total: Any,
                   ignore_index: int) -> tuple[Any, ...]:
    import torch

    with torch.enable_grad():
        x = logits.detach().double().requires_grad_()
        return torch.autograd.grad(_reference(x, targets, ignore_index)[0], x, dloss.double())


def _sample(draw: Any, m: int, n: int, dtype: str = "f32") -> tuple[Any, ...]:
    targets = draw.integers(0, n, m, dtype="i64")
    targets[1:2] = IGNORED
    return draw.normal(m, n, dtype=dtype, scale=3.0), targets, IGNORED


def _sample_bwd(draw: Any, m: int, n: int, dtype: str = "f32") -> tuple[Any, ...]:
    logits, targets, ignored = _sample(draw, m, n, dtype)
    return draw.normal(m), logits, targets, *(t.float() for t in _reference(logits, targets, ignored)[1:]), ignored


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    logits, targets, ctx.ignored = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(logits, targets, *output[1:])


def _gradient(ctx: Any, dloss: Any, *_: Any) -> tuple:
    return CROSS_ENTROPY_BWD(dloss, *ctx.saved_tensors, ctx.ignored), None, None


def _logits(op: Op, draw: Any, model: Model) -> Iterator[tuple[Any, ...]]:
    """Of a model's vocabulary, as a training step has them."""
    yield op.sample(draw, 1, model.vocabulary, dtype="bf16")


CROSS_ENTROPY_BWD = Op(
    "cross_entropy_bwd",
    "(Tensor dloss, Tensor logits, Tensor targets, Tensor top, Tensor log_total, int ignore_index=-100) -> Tensor",
    "Gradient of `cross_entropy_fwd` from its largest values and logarithms",
    results=lambda dloss, logits, *_: (like(logits),), plan=_plan_bwd, sample=_sample_bwd, reference=_reference_bwd,
    widths=(96, 101),
    bench=lambda target, rows: [("cross_entropy_bwd", (rows // 8, 32768), {"dtype": "bf16"})],
    prebuilt=_logits,
)

CROSS_ENTROPY_FWD = Op(
    "cross_entropy_fwd", "(Tensor logits, Tensor targets, int ignore_index=-100) -> (Tensor, Tensor, Tensor)",
    "`(loss, top, log sum exp(x - top))` of each row in f32; the loss is 0 where the target is ignored",
    results=lambda logits, targets, _: tuple(Result(tuple(logits.shape[:-1]), "f32") for _ in range(3)),
    plan=_plan, sample=_sample, reference=_reference, widths=(96, 101),
    gradient=Gradient(_gradient, _save, of=("logits",)),
    bench=lambda target, rows: [("cross_entropy", (rows // 8, 32768), {"dtype": "bf16"})],
    prebuilt=_logits,
)


def cross_entropy(logits: Any, targets: Any, ignore_index: int = IGNORED, reduction: str = "mean") -> Any:
    """``-log softmax(logits)[target]`` over the last dimension, in f32; differentiable in the logits.

    Args:
        logits: (..., N): float32, float16 or bfloat16; read once, and once more in the backward.
        targets: (...,), int32 or int64. One outside ``0 .. N - 1`` that is not ignored stops the launch.
        ignore_index: targets that do not count.
        reduction: ``"mean"`` over those that count (NaN if there are none), ``"sum"`` or ``"none"``.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape or the reduction is not.
    """
    require("cross_entropy", reduction in _REDUCTIONS,
            f"reduction must be one of {', '.join(_REDUCTIONS)}, got {reduction!r}")
    loss, *_ = CROSS_ENTROPY_FWD(logits, targets, ignore_index)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / (targets != ignore_index).sum()


OPS = [
    CROSS_ENTROPY_FWD, CROSS_ENTROPY_BWD,
    Form("cross_entropy", cross_entropy, (
        "cross_entropy", '(Tensor logits, Tensor targets, int ignore_index=-100, str reduction="mean") -> Tensor',
        cross_entropy)),
]
