"""Activations of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..host.arrays import flattened, vector_width
from ..host.config import require
from ..host.dtypes import FLOATS, dtype_name
from ..host.models import Model
from ..op import Form, Gradient, Op, Plan, Result, like
from ..target import Target
from .activation import build_activation_module

__all__ = ["ACTIVATION_OPS"]


def _same(where: str, dy: Any, y_shape: tuple[int, ...], x: Any) -> None:
    require(where, tuple(dy.shape) == y_shape and dy.dtype == x.dtype,
            f"dy must be {x.dtype} of shape {y_shape}, got {dy.dtype} {tuple(dy.shape)}")


def _plan(target: Target, x: Any, kind: str, parameter: float, dy: Any = None) -> Plan | None:
    dtype = dtype_name(x, kind)
    if dy is not None:
        _same(f"{kind}: backward", dy, tuple(x.shape), x)
    total = math.prod(x.shape)
    given = [flattened(a) for a in ((x,) if dy is None else (dy, x))]
    vec = vector_width(FLOATS[dtype].width, total, *given) if total else 1
    launcher = build_activation_module(kind, dtype, vector=vec, parameter=parameter, backward=dy is not None,
                                       target=target)
    return Plan(lambda: launcher, lambda out: (*given, flattened(out), total)) if total else None


def _halved(where: str, shape: Any) -> tuple[Any, ...]:
    require(where, len(shape) >= 1 and shape[-1] % 2 == 0,
            f"the last dimension holds gate and up, so it must be even, got shape {tuple(shape)}")
    return (*shape[:-1], shape[-1] // 2)


def _plan_gated(target: Target, x: Any, kind: str, dy: Any = None) -> Plan | None:
    where = f"{kind}_and_mul"
    dtype, shape = dtype_name(x, where), _halved(where, x.shape)
    if dy is not None:
        _same(f"{where}: backward", dy, shape, x)
    total, n = math.prod(shape), shape[-1]
    if not total:
        return None
    given = [flattened(a) for a in ((x,) if dy is None else (dy, x))]
    launcher = build_activation_module(kind, dtype, vector=vector_width(FLOATS[dtype].width, n, *given), columns=n,
                                       backward=dy is not None, target=target)
    return Plan(lambda: launcher, lambda out: (*given, flattened(out), total))


def _plan_pair(target: Target, gate: Any, up: Any, kind: str, dy: Any = None) -> Plan | None:
    where = f"{kind}_and_mul"
    dtype, total = dtype_name(gate, where), math.prod(gate.shape)
    require(where, tuple(up.shape) == tuple(gate.shape) and up.dtype == gate.dtype,
            f"up must be {gate.dtype} of shape {tuple(gate.shape)} as the gate, got {up.dtype} {tuple(up.shape)}")
    if dy is not None:
        _same(f"{where}: backward", dy, tuple(gate.shape), gate)
    if not total:
        return None
    given = [flattened(a) for a in ((gate, up) if dy is None else (dy, gate, up))]
    launcher = build_activation_module(kind, dtype, vector=vector_width(FLOATS[dtype].width, total, *given), pair=True,
                                       backward=dy is not None, target=target)
    return Plan(lambda: launcher, lambda *outs: (*given, *(flattened(out) for out in outs), total))


# ------------------------------------------------------------------------------------------- definitions in f64


def _act(x: Any, kind: str, parameter: float = 0.0) -> Any:
    import torch
    from torch.nn import functional

    x = x.double()
    if kind == "soft_cap":
        return parameter * torch.tanh(x / parameter)
    if kind == "silu":
        return functional.silu(x)
    return functional.gelu(x, approximate="tanh" if kind == "gelu_tanh" else "none")


def _gate(x: Any, kind: str) -> Any:
    gate, up = x.double().chunk(2, -1)
    return _act(gate, kind) * up


def _by_autograd(function: Any, dy: Any, *inputs: Any) -> tuple[Any, ...]:
    import torch

    with torch.enable_grad():
        inputs = tuple(x.detach().double().requires_grad_() for x in inputs)
        return torch.autograd.grad(function(*inputs), inputs, dy.double())


# ------------------------------------------------------------------------------------------- declarations


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.rest = inputs
    ctx.save_for_backward(x)


def _save_pair(ctx: Any, inputs: Any, output: Any) -> None:
    gate, up, ctx.kind = inputs
    ctx.save_for_backward(gate, up)


def _inner_rows(op: Op, draw: Any, model: Model) -> Iterator[tuple[Any, ...]]:
    """Between the halves of an MLP."""
    return (op.sample(draw, 1, model.inner, dtype=dtype) for dtype in ("bf16", "f16"))


ACTIVATE_BWD = Op(
    "activate_bwd", "(Tensor dy, Tensor x, str kind, float parameter=0.0) -> Tensor",
    "Gradient of `activate`: `dy * act'(x)`", public=False,
    results=lambda dy, x, kind, parameter: (like(x),),
    plan=lambda target, dy, x, kind, parameter: _plan(target, x, kind, parameter, dy),
    sample=lambda draw, m, n, dtype="f32", kind="gelu_tanh": (
        draw.normal(m, n, dtype=dtype), draw.normal(m, n, dtype=dtype), kind, 0.0),
    reference=lambda dy, x, kind, parameter: _by_autograd(lambda v: _act(v, kind, parameter), dy, x), widths=(96, 7),
)

ACTIVATE = Op(
    "activate", "(Tensor x, str kind, float parameter=0.0) -> Tensor",
    "An activation: `silu`, `gelu`, `gelu_tanh` or `soft_cap` (at the parameter)", public=False,
    results=lambda x, kind, parameter: (like(x),), plan=_plan,
    sample=lambda draw, m, n, dtype="f32", kind="gelu": (draw.normal(m, n, dtype=dtype), kind, 0.0),
    reference=lambda x, kind, parameter: (_act(x, kind, parameter),), widths=(96, 7),
    gradient=Gradient(lambda ctx, dy: (ACTIVATE_BWD(dy, ctx.saved_tensors[0], *ctx.rest), None, None), _save),
    bench=lambda target, rows: [("gelu", (rows, 8192), {"dtype": "bf16"})], prebuilt=_inner_rows,
)

GATE_BWD = Op(
    "activate_and_mul_bwd", "(Tensor dy, Tensor x, str kind) -> Tensor", "Gradient of `activate_and_mul`", public=False,
    results=lambda dy, x, kind: (like(x),), plan=lambda target, dy, x, kind: _plan_gated(target, x, kind, dy),
    sample=lambda draw, m, n, dtype="f32": (
        draw.normal(m, n, dtype=dtype), draw.normal(m, 2 * n, dtype=dtype), "silu"),
    reference=lambda dy, x, kind: _by_autograd(lambda v: _gate(v, kind), dy, x), widths=(96, 7),
)

GATE = Op(
    "activate_and_mul", "(Tensor x, str kind) -> Tensor",
    "`act(gate) * up` of rows `(gate, up)`: `silu`, `gelu` or `gelu_tanh`", public=False,
    results=lambda x, kind: (Result(_halved(f"{kind}_and_mul", x.shape), x.dtype),), plan=_plan_gated,
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, 2 * n, dtype=dtype), "silu"),
    reference=lambda x, kind: (_gate(x, kind),), widths=(96, 7),
    gradient=Gradient(lambda ctx, dy: (GATE_BWD(dy, ctx.saved_tensors[0], *ctx.rest), None), _save),
    bench=lambda target, rows: [("silu_and_mul", (rows // 2, 8192), {"dtype": "bf16"})], prebuilt=_inner_rows,
)

PAIR_BWD = Op(
    "activate_pair_bwd", "(Tensor dy, Tensor gate, Tensor up, str kind) -> (Tensor, Tensor)",
    "Gradients of `activate_pair`", public=False,
    results=lambda dy, gate, up, kind: (like(gate), like(up)),
    plan=lambda target, dy, gate, up, kind: _plan_pair(target, gate, up, kind, dy),
    sample=lambda draw, m, n, dtype="f32": (*(draw.normal(m, n, dtype=dtype) for _ in range(3)), "gelu_tanh"),
    reference=lambda dy, gate, up, kind: _by_autograd(lambda g, u: _act(g, kind) * u, dy, gate, up), widths=(96, 7),
)

PAIR = Op(
    "activate_pair", "(Tensor gate, Tensor up, str kind) -> Tensor",
    "`act(gate) * up` of two arrays: `silu`, `gelu` or `gelu_tanh`", public=False,
    results=lambda gate, up, kind: (like(gate),), plan=_plan_pair,
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, n, dtype=dtype), draw.normal(m, n, dtype=dtype), "silu"),
    reference=lambda gate, up, kind: (_act(gate, kind) * up.double(),), widths=(96, 7),
    gradient=Gradient(lambda ctx, dy: (*PAIR_BWD(dy, *ctx.saved_tensors, ctx.kind), None), _save_pair),
    bench=lambda target, rows: [("activate_pair", (rows // 2, 8192), {"dtype": "bf16"})],
)


def _gelu_kind(approximate: str) -> str:
    require("gelu", approximate in ("none", "tanh"), f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return "gelu" if approximate == "none" else "gelu_tanh"


def silu(x: Any) -> Any:
    """``x * sigmoid(x)`` of float32, float16 or bfloat16 of any shape; differentiable in torch."""
    return ACTIVATE(x, "silu", 0.0)


def gelu(x: Any, approximate: str = "none") -> Any:
    """``x * P(normal < x)``, by erf or, with ``approximate="tanh"``, by tanh; differentiable in torch."""
    return ACTIVATE(x, _gelu_kind(approximate), 0.0)


def soft_cap(x: Any, cap: float) -> Any:
    """``cap * tanh(x / cap)``, which bounds logits; differentiable in torch. ValueError: the cap is not positive."""
    return ACTIVATE(x, "soft_cap", float(cap))


def _gated(x: Any, up: Any, kind: str) -> Any:
    return GATE(x, kind) if up is None else PAIR(x, up, kind)


def silu_and_mul(x: Any, up: Any = None) -> Any:
    """``silu(x) * up`` or, without `up`, ``silu(x[..., :N]) * x[..., N:]``; rounded once, differentiable in torch.

    With `up`, both have one shape and dtype; without, the last dimension of x is 2 N.
    """
    return _gated(x, up, "silu")


def gelu_and_mul(x: Any, approximate: str = "none", up: Any = None) -> Any:
    """``gelu(x) * up`` or, without `up`, ``gelu(x[..., :N]) * x[..., N:]``; rounded once, differentiable in torch.

    With `up`, both have one shape and dtype; without, the last dimension of x is 2 N.
    """
    return _gated(x, up, _gelu_kind(approximate))


_APPROXIMATE = '(Tensor x, str approximate="none") -> Tensor'
ACTIVATION_OPS = [
    ACTIVATE, ACTIVATE_BWD, GATE, GATE_BWD, PAIR, PAIR_BWD,
    Form("silu", silu, ("silu", "(Tensor x) -> Tensor", silu)),
    Form("gelu", gelu, ("gelu", _APPROXIMATE, gelu)),
    Form("soft_cap", soft_cap, ("soft_cap", "(Tensor x, float cap) -> Tensor", soft_cap)),
    Form("silu_and_mul", silu_and_mul, ("silu_and_mul", "(Tensor x, Tensor? up=None) -> Tensor", silu_and_mul)),
    Form("gelu_and_mul", gelu_and_mul, (
        "gelu_and_mul", '(Tensor x, str approximate="none", Tensor? up=None) -> Tensor', gelu_and_mul)),
]
