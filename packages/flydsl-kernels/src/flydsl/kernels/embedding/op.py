"""Embedding of arrays."""

from __future__ import annotations

from typing import Any

from ..host.arrays import allocate, as_rows, contiguous, copy_into, vector_width
from ..host.config import require
from ..host.dtypes import FLOATS, INDICES, dtype_name
from ..op import Gradient, Op, Plan, Result
from ..target import Target
from .kernel import build_embedding_bwd_module, build_embedding_module

__all__ = ["OPS"]

F32 = 4


def _plan(target: Target, indices: Any, weight: Any, padding_idx: int | None) -> Plan | None:
    where = "embedding"
    dtype_name(indices, f"{where}: indices", INDICES)
    dtype = dtype_name(weight, where)
    require(where, len(weight.shape) == 2, f"the table must be (rows, columns), got shape {tuple(weight.shape)}")
    rows, n = weight.shape
    require(where, padding_idx is None or 0 <= padding_idx < rows,
            f"padding_idx must be a row of the table, 0 .. {rows - 1}, got {padding_idx}")
    if 0 in indices.shape or n == 0:
        return None
    table, given = contiguous(weight), contiguous(indices).reshape(-1)
    vec = vector_width(FLOATS[dtype].width, n, table)
    return Plan(lambda: build_embedding_module(n, dtype, vec, target=target),
                lambda out: (table, given, out.reshape(given.shape[0], n), given.shape[0], rows))


def _plan_bwd(target: Target, dy: Any, indices: Any, rows: int, padding_idx: int | None) -> Plan | None:
    where = "embedding_bwd"
    dtype_name(indices, f"{where}: indices", INDICES)
    dtype = dtype_name(dy, where)
    require(where, tuple(dy.shape[:-1]) == tuple(indices.shape),
            f"dy must be (*indices.shape, columns), got {tuple(dy.shape)} for indices of shape {tuple(indices.shape)}")
    if 0 in dy.shape:
        return None
    given, matrix = contiguous(indices).reshape(-1), as_rows(dy, where)
    m, n = matrix.shape
    vec = vector_width(FLOATS[dtype].width, n, matrix)
    sums = None if dtype == "f32" else allocate(target, dy, (rows, n), "f32", True)

    def finish(dtable: Any) -> None:
        if sums is not None:
            copy_into(dtable, sums)

    return Plan(lambda: build_embedding_bwd_module(n, dtype, vec, target=target),
                lambda dtable: (matrix, given, dtable if sums is None else sums, m, rows,
                                -1 if padding_idx is None else padding_idx), zero=(0,), finish=finish)


def _bwd_workspace(target: Target, dy: Any, indices: Any, rows: int, padding_idx: int | None) -> int:
    """f32 sums, where the result has another dtype."""
    return 0 if dtype_name(dy, "workspace") == "f32" else rows * dy.shape[-1] * F32


def _reference_bwd(dy: Any, indices: Any, rows: int, padding_idx: int | None) -> tuple[Any, ...]:
    out = dy.new_zeros((rows, dy.shape[-1])).double()
    out.index_add_(0, indices.reshape(-1).long(), dy.double().reshape(-1, dy.shape[-1]))
    if padding_idx is not None:
        out[padding_idx] = 0
    return (out,)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    indices, weight, ctx.padding = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(indices)


def _embedding(op: Op, indices: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """``weight[indices]``: rows of a table; differentiable in the table.

    Args:
        indices: int32 or int64 of any shape. One outside ``0 .. rows - 1`` stops the launch.
        weight: (rows, columns): float32, float16 or bfloat16.
        padding_idx: a row that gets no gradient, counted from the end where negative.

    Returns:
        (*indices.shape, columns), of the dtype of the table.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape is not.
    """
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
        require("embedding", padding_idx >= 0,
                f"padding_idx must be a row of the table of {weight.shape[0]}, got {padding_idx - weight.shape[0]}")
    return op(indices, weight, padding_idx)


EMBEDDING_BWD = Op(
    "embedding_bwd", "(Tensor dy, Tensor indices, int rows, int? padding_idx=None) -> Tensor",
    "Gradient of the table of `embedding`: rows of dy added by index, in f32",
    results=lambda dy, indices, rows, padding_idx: (Result((rows, dy.shape[-1]), dy.dtype),), plan=_plan_bwd,
    sample=lambda draw, m, n, dtype="f32": (draw.normal(m, n, dtype=dtype), draw.integers(0, 11, m, dtype="i64"), 11,
                                            4),
    reference=_reference_bwd, widths=(96, 7), workspace=_bwd_workspace, stable=False,
)

EMBEDDING = Op(
    "embedding", "(Tensor indices, Tensor weight, int? padding_idx=None) -> Tensor",
    "Rows of a table (rows, columns) by int32 or int64 indices of any shape",
    results=lambda indices, weight, _: (Result((*indices.shape, weight.shape[1]), weight.dtype),), plan=_plan,
    sample=lambda draw, m, n, dtype="f32": (draw.integers(0, 50, m, dtype="i64"), draw.normal(50, n, dtype=dtype),
                                            None),
    reference=lambda indices, weight, _: (weight.double()[indices.long()],), widths=(96, 7), form=_embedding,
    gradient=Gradient(lambda ctx, dy: (None, EMBEDDING_BWD(dy, ctx.saved_tensors[0], ctx.rows, ctx.padding), None),
                      _save, of=("weight",)),
    bench=lambda target, rows: [("embedding", (rows // 2, 8192), {"dtype": "bf16"})],
)

OPS = [EMBEDDING, EMBEDDING_BWD]
