"""The gated layer of dense models: gate and up in one product with the activation behind it, then down.

It is a mixture of one expert to which all rows go, so that nothing is sorted.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..elementwise.gated import activation_gradient, activation_reference, halves, joined
from ..gemm.op import GEMM
from ..host.arrays import as_rows
from ..host.config import require
from ..host.dtypes import dtype_name
from ..moe.config import GroupedConfig
from ..moe.experts import experts_config
from ..moe.grouped import launch_grouped
from ..moe.weights import ordered, weight_dtype
from ..op import Gradient, Op, Plan, Result, like, scratch_of
from ..parts.index import cdiv
from ..target import MATRIX_ARCHS, Target

__all__ = ["MLP", "OPS"]


def _sizes(x: Any, w_gate_up: Any, w_down: Any) -> tuple[int, int, int]:
    """(rows, model, inter); ValueError if they do not fit each other."""
    model, inter = w_down.shape if len(w_down.shape) == 2 else (0, 0)
    fits = len(x.shape) > 0 and x.shape[-1] == model and tuple(w_gate_up.shape) == (2 * inter, model)
    require("mlp", fits, f"x must be (..., model), w_gate_up (2 inter, model) and w_down (model, inter), got "
            f"{tuple(x.shape)}, {tuple(w_gate_up.shape)} and {tuple(w_down.shape)}")
    return math.prod(x.shape[:-1]), model, inter


@functools.cache  # the configurations have the target
def _launcher(up: GroupedConfig, down: GroupedConfig) -> Any:
    """``launch(x, w_gate_up, w_down, inner, out, rows, blocks, stream=None)``."""

    @flyc.jit
    def mlp(x, w_gate_up, w_down, inner, out, rows: fx.Int32, blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        launch_grouped(dict(x=x, w=w_gate_up, out=inner), rows, blocks, rows, up, stream)
        launch_grouped(dict(x=inner, w=w_down, out=out), rows, blocks, rows, down, stream)

    return mlp


def _plan(target: Target, x: Any, w_gate_up: Any, w_down: Any, activation: str, limit: float | None,
          interleaved: bool) -> Plan | None:
    where = "mlp"
    dtype = dtype_name(x, where, ("f16", "bf16"))
    m, model, inter = _sizes(x, w_gate_up, w_down)
    found = experts_config(where, target, m, 1, 1, model, inter, dtype, activation, limit, (False, False), False)
    up, down = (replace(part, source="row", into="row", weighted=False) for part in (found.up, found.down))
    for weight, config in ((w_gate_up, up), (w_down, down)):
        weight_dtype(weight, config, where)
    if not m:
        return None
    operands = as_rows(x, where), ordered(w_gate_up, up, interleaved), ordered(w_down, down)
    return Plan(lambda: _launcher(up, down), lambda out, inner: (*operands, inner, out, m, cdiv(m, up.tile_m)),
                scratch=(Result((m, inter), dtype),))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, w_gate_up, w_down, ctx.activation, ctx.limit, ctx.interleaved = inputs
    ctx.save_for_backward(x, w_gate_up, w_down)


def _gradient(ctx: Any, g: Any) -> tuple[Any, ...]:
    import torch

    x, w_gate_up, w_down = ctx.saved_tensors
    rows, dy = x.reshape(-1, x.shape[-1]), g.to(x.dtype).reshape(-1, x.shape[-1])
    z = GEMM(rows, w_gate_up, None, "nt", torch.float32)
    dh = GEMM(dy, w_down, None, "nn", torch.float32)
    h, dgate, dup = activation_gradient(*halves(z, ctx.interleaved), dh, ctx.activation, ctx.limit)
    dz, h = joined(dgate, dup, ctx.interleaved).to(x.dtype), h.to(x.dtype)
    dx = GEMM(dz, w_gate_up, None, "nn").view(x.shape)
    return dx, GEMM(dz, rows, None, "tn"), GEMM(dy, h, None, "tn"), None, None, None


def _reference(x: Any, w_gate_up: Any, w_down: Any, activation: str, limit: float | None,
               interleaved: bool) -> tuple[Any]:
    gate, up = halves(x.double() @ w_gate_up.double().T, interleaved)
    return (activation_reference(gate, up, activation, limit) @ w_down.double().T,)


def _sample(draw: Any, m: int, n: int, inter: int = 40, dtype: str = "bf16") -> tuple[Any, ...]:
    return (draw.normal(m, n, dtype=dtype), draw.normal(2 * inter, n, dtype=dtype, scale=n**-0.5),
            draw.normal(n, inter, dtype=dtype, scale=inter**-0.5), "silu", None, False)


MLP = Op(
    "mlp",
    '(Tensor x, Tensor w_gate_up, Tensor w_down, str activation="silu", float? limit=None, bool interleaved=False) -> '
    "Tensor",
    """`(activation(gate) * up) w_down^T` with `gate, up = x w_gate_up^T`, of f16 or bf16

    Args:
        x: (..., model).
        w_gate_up: (2 inter, model), gate rows first (alternating if `interleaved`); w_down: (model, inter). Their order
            for the kernel is made once and kept while they live.
        activation, limit: as of :func:`moe`.
    """,
    results=lambda x, *_: (like(x),), plan=_plan, reference=_reference, widths=(64, 72), sample=_sample, numpy=False,
    tolerance=2.0**-7, archs=MATRIX_ARCHS,
    gradient=Gradient(_gradient, _save, of=("x", "w_gate_up", "w_down")),
    workspace=partial(scratch_of, _plan),
    bench=lambda target, rows: [(f"mlp of {m} rows", (m, 2048), {"inter": 4096}) for m in (16, 1024)],
    flops=lambda x, w_gate_up, w_down, *_: 6 * math.prod(x.shape) * w_down.shape[1],
)

OPS = [MLP]
