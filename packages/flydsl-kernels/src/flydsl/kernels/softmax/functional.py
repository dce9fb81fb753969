"""Softmax of arrays: a fresh array out."""

from __future__ import annotations

from typing import Any

from ..common.arrays import as_rows, empty, launch
from ..common.dtypes import dtype_name
from .kernel import build_softmax_bwd_module, build_softmax_module

__all__ = ["softmax_bwd", "softmax_fwd"]


def softmax_fwd(x: Any, *, stream: Any = None) -> Any:
    """Softmax over the last dimension, of any size; f32, f16 or bf16.

    Raises:
        TypeError: the dtype is not supported.
        ValueError: the input is a scalar.
    """
    dtype = dtype_name(x, "softmax")
    rows = as_rows(x, "softmax")
    out = empty(x, tuple(x.shape), dtype)
    if 0 not in x.shape:
        m, n = rows.shape
        launch(build_softmax_module(m, n, dtype), x, rows, out, m, stream=stream)
    return out


def softmax_bwd(dy: Any, y: Any, *, stream: Any = None) -> Any:
    """Gradient of softmax from its output ``y``: ``y * (dy - sum(dy * y))`` over the last dimension."""
    dtype = dtype_name(y, "softmax_bwd")
    if dtype_name(dy, "softmax_bwd: dy") != dtype or tuple(dy.shape) != tuple(y.shape):
        raise ValueError(f"softmax_bwd: dy and y must have one shape and dtype, got {tuple(dy.shape)} {dy.dtype} "
                         f"and {tuple(y.shape)} {y.dtype}")  # fmt: skip
    g, p = as_rows(dy, "softmax_bwd"), as_rows(y, "softmax_bwd")
    out = empty(y, tuple(y.shape), dtype)
    if 0 not in y.shape:
        m, n = p.shape
        launch(build_softmax_bwd_module(n, dtype), y, g, p, out, m, stream=stream)
    return out
