"""Elementwise operations of arrays: a fresh array out."""

from __future__ import annotations

from typing import Any

from ..common.arrays import as_rows, empty, is_torch, launch
from ..common.dtypes import FLOATS, dtype_name
from .add import VECTOR_BITS, build_add_module

__all__ = ["add"]


def add(a: Any, b: Any, *, stream: Any = None) -> Any:
    """``a + b`` of two row-major matrices; see :func:`flydsl.kernels.ops.add`."""
    dtype = dtype_name(a, "add")
    if dtype_name(b, "add") != dtype:
        raise TypeError(f"add: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"add: operands must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if len(a.shape) != 2:
        raise ValueError(f"add: operands must be matrices (rank 2), got rank {len(a.shape)}")
    vector = VECTOR_BITS // FLOATS[dtype].width
    if a.shape[1] % vector:
        raise ValueError(f"add: the number of columns must be a multiple of {vector} for {dtype}, got {a.shape[1]}")
    for name, operand in (("a", a), ("b", b)):
        contiguous = operand.is_contiguous() if is_torch(operand) else operand.flags["C_CONTIGUOUS"]
        if not contiguous:
            raise ValueError(f"add: operand {name} must be row-major contiguous")
    out = empty(a, tuple(a.shape), dtype)
    if 0 not in a.shape:
        launch(build_add_module(dtype), a, as_rows(a, "add"), as_rows(b, "add"), out, *a.shape, stream=stream)
    return out
