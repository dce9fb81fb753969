"""Functional forms of the kernels: arrays in, a fresh array out.

Arrays are NumPy arrays or torch tensors; both operands of one call are of the same kind, dtype, shape and device.
"""

from __future__ import annotations

from typing import Any

from .elementwise import build_add_module
from .elementwise.add import DTYPES, VECTOR_BITS

__all__ = ["add"]

_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def _dtype_name(array: Any) -> str:
    name = str(array.dtype).rpartition(".")[2]
    if name not in _NAMES:
        raise TypeError(f"dtype {name} is not supported: expected one of {', '.join(_NAMES)}")
    return _NAMES[name]


def _is_row_major(array: Any) -> bool:
    if hasattr(array, "is_contiguous"):
        return array.is_contiguous()
    return array.flags["C_CONTIGUOUS"]


def _fresh_like(array: Any) -> Any:
    if hasattr(array, "new_empty"):
        return array.new_empty(array.shape)
    import numpy as np

    return np.empty_like(array)


def add(a: Any, b: Any, *, stream: Any = None) -> Any:
    """``a + b`` for two row-major matrices of shape (rows, cols).

    Args:
        a, b: float32, float16 or bfloat16 matrices of equal shape and dtype; ``cols`` is a multiple of the elements
            in 128 bits (4 for float32, 8 for the 16-bit types).
        stream: where to launch; the default stream if None.

    Returns:
        A new array of the same kind, shape and dtype.

    Raises:
        TypeError: dtypes differ or are not supported.
        ValueError: shapes differ, are not two-dimensional, or are not supported.
    """
    dtype = _dtype_name(a)
    if _dtype_name(b) != dtype:
        raise TypeError(f"add: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(f"add: operands must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if len(a.shape) != 2:
        raise ValueError(f"add: operands must be matrices (rank 2), got rank {len(a.shape)}")
    vector = VECTOR_BITS // DTYPES[dtype].width
    if a.shape[1] % vector:
        raise ValueError(f"add: the number of columns must be a multiple of {vector} for {dtype}, got {a.shape[1]}")
    for name, operand in (("a", a), ("b", b)):
        if not _is_row_major(operand):
            raise ValueError(f"add: operand {name} must be row-major contiguous")
    out = _fresh_like(a)
    if 0 not in a.shape:
        rows, cols = a.shape
        extra = () if stream is None else (stream,)
        build_add_module(dtype)(a, b, out, rows, cols, *extra)
    return out
