"""Elementwise operations."""

from __future__ import annotations

import math
from typing import Any

from ..host.arrays import address, contiguous, is_torch
from ..host.dtypes import FLOATS, dtype_name
from ..op import Gradient, Op, Plan, hidden_rows, like
from ..target import Target
from .activation_op import ACTIVATION_OPS
from .add import VECTOR_BITS, build_add_module

__all__ = ["OPS"]

ROW = 4096  # elements of a row of operands that are looked at as one vector


def _matrix(shape: tuple[int, ...], vector: int) -> tuple[int, int]:
    """Rows and columns as which contiguous elements are read: their own last dimension if vectors fit it, else any that
    vectors fit, else their own."""
    total, last = math.prod(shape), shape[-1] if shape else 1
    if last % vector == 0 or total % vector:
        return total // last, last
    columns = math.gcd(total, ROW)
    return total // columns, columns


def _plan_add(target: Target, a: Any, b: Any) -> Plan | None:
    dtype = dtype_name(a, "add")
    if dtype_name(b, "add") != dtype:
        raise TypeError(f"add: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"add: operands must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if 0 in a.shape:
        return None
    rows, columns = _matrix(tuple(a.shape), VECTOR_BITS // FLOATS[dtype].width)
    left, right = (contiguous(x).reshape(rows, columns) for x in (a, b))
    # A part of a larger array may begin anywhere.
    aligned = math.gcd(address(left), address(right), VECTOR_BITS // 8) * 8
    vector = math.gcd(columns, aligned // FLOATS[dtype].width)
    return Plan(lambda: build_add_module(dtype, vector, target=target),
                lambda out: (left, right, out.reshape(rows, columns), rows, columns))


def _add(op: Op, a: Any, b: Any, *, stream: Any = None) -> Any:
    """``a + b`` of two arrays of equal shape and dtype; differentiable in torch (without `stream`).

    Args:
        a, b: float32, float16 or bfloat16 of any shape. Operands that are not contiguous are copied first.
        stream: where to launch; the default stream if None.

    Returns:
        A new array of the same kind, shape and dtype.

    Raises:
        TypeError: dtypes differ or are not supported.
        ValueError: shapes differ.
    """
    if is_torch(a) and is_torch(b) and stream is None:
        return op(a, b)
    return op.run(a, b, stream=stream)


ADD = Op(
    "add", "(Tensor a, Tensor b) -> Tensor", "`a + b` of equal shape and dtype",
    results=lambda a, b: (like(a),), plan=_plan_add, form=_add,
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, n, dtype=dtype), draw.normal(m, n, dtype=dtype)),
    reference=lambda a, b: (a.double() + b.double(),), widths=(256, 7),
    gradient=Gradient(lambda ctx, dy: (dy, dy)),
    bench=lambda target, rows: [("add", (rows, 8192), {"dtype": "bf16"})],
    prebuilt=hidden_rows,
)

OPS = [ADD, *ACTIVATION_OPS]
