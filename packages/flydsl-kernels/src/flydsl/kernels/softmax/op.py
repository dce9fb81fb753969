"""Softmax of arrays."""

from __future__ import annotations

from typing import Any

from ..host.arrays import as_rows
from ..host.dtypes import dtype_name
from ..op import Gradient, Op, Plan, hidden_rows, like
from ..target import Target
from .kernel import build_softmax_bwd_module, build_softmax_module

__all__ = ["OPS"]


def _plan(target: Target, x: Any) -> Plan | None:
    dtype = dtype_name(x, "softmax")
    rows = as_rows(x, "softmax")
    m, n = rows.shape
    if 0 in x.shape:
        return None
    return Plan(lambda: build_softmax_module(None, n, dtype, target=target), lambda out: (rows, out, m), by_rows=True)


def _plan_bwd(target: Target, dy: Any, y: Any) -> Plan | None:
    dtype = dtype_name(y, "softmax_bwd")
    if dtype_name(dy, "softmax_bwd: dy") != dtype or tuple(dy.shape) != tuple(y.shape):
        raise ValueError(f"softmax_bwd: dy and y must have one shape and dtype, got {tuple(dy.shape)} {dy.dtype} "
                         f"and {tuple(y.shape)} {y.dtype}")
    g, p = as_rows(dy, "softmax_bwd"), as_rows(y, "softmax_bwd")
    m, n = p.shape
    if 0 in y.shape:
        return None
    return Plan(lambda: build_softmax_bwd_module(n, dtype, target=target), lambda out: (g, p, out, m), by_rows=True)


def _reference_bwd(dy: Any, y: Any) -> tuple[Any, ...]:
    dy, y = dy.double(), y.double()
    return (y * (dy - (dy * y).sum(-1, keepdim=True)),)


SOFTMAX_BWD = Op(
    "softmax_bwd", "(Tensor dy, Tensor y) -> Tensor",
    "Gradient of softmax from its output: `y * (dy - sum(dy * y))` over the last dimension",
    results=lambda dy, y: (like(y),), plan=_plan_bwd, reference=_reference_bwd, widths=(96, 101),
    sample=lambda draw, m, n, dtype="f32": (draw.normal(2, m, n, dtype=dtype), draw.normal(2, m, n, dtype=dtype)),
    bench=lambda target, rows: [("softmax_bwd", size, {"dtype": "bf16"})
                                for size in ((512, 8192), (128, 32768), (512, 65536))],
    prebuilt=hidden_rows,
)

SOFTMAX = Op(
    "softmax", "(Tensor x) -> Tensor", "Softmax over the last dimension, of any size; f32, f16 or bf16",
    results=lambda x: (like(x),), plan=_plan, widths=(96, 101),
    sample=lambda draw, m, n, dtype="f32": (draw.normal(2, m, n, dtype=dtype),),
    reference=lambda x: (x.double().softmax(-1),),
    gradient=Gradient(lambda ctx, dy: SOFTMAX_BWD(dy, ctx.saved_tensors[0]),
                      lambda ctx, inputs, output: ctx.save_for_backward(output)),
    bench=lambda target, rows: [("softmax", (rows // 2, 8192), {"dtype": "bf16"})],
    prebuilt=hidden_rows,
)

OPS = [SOFTMAX, SOFTMAX_BWD]
