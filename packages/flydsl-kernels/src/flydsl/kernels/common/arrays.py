"""NumPy arrays and torch tensors alike: checks, fresh outputs, streams."""

from __future__ import annotations

import math
from typing import Any

from .arch import target
from .dtypes import dtype_name

__all__ = ["as_rows", "empty", "is_torch", "launch", "stream_of", "vector_dtype", "zeros"]

_NUMPY_NAMES = {"f32": "float32", "f16": "float16", "i8": "int8", "u8": "uint8", "i32": "int32"}
_TORCH_NAMES = {**_NUMPY_NAMES, "bf16": "bfloat16"}


def is_torch(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "torch" or hasattr(array, "new_empty")


def _dtype(array: Any, name: str) -> Any:
    if not is_torch(array):
        import numpy as np

        if name not in _NUMPY_NAMES:
            raise TypeError(f"NumPy has no dtype {name}: pass torch tensors")
        return np.dtype(_NUMPY_NAMES[name])
    import torch

    if name == "fp8":
        fnuz = target().fp8_name == "Float8E4M3FNUZ"
        return torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn
    return getattr(torch, _TORCH_NAMES[name])


def empty(like: Any, shape: tuple[int, ...], name: str) -> Any:
    """Uninitialised array of the kind and device of `like`."""
    if is_torch(like):
        return like.new_empty(shape, dtype=_dtype(like, name))
    import numpy as np

    return np.empty(shape, _dtype(like, name))


def zeros(like: Any, shape: tuple[int, ...], name: str) -> Any:
    """Zeroed array of the kind and device of `like`."""
    if is_torch(like):
        return like.new_zeros(shape, dtype=_dtype(like, name))
    import numpy as np

    return np.zeros(shape, _dtype(like, name))


def as_rows(array: Any, where: str, n: int | None = None) -> Any:
    """A contiguous matrix (rows, n) of an array of any rank whose last dimension is n.

    Raises:
        ValueError: rank 0, or the last dimension is not `n`.
    """
    if len(array.shape) < 1:
        raise ValueError(f"{where}: a tensor of rank 1 or more is needed, got a scalar")
    last = array.shape[-1]
    if n is not None and last != n:
        raise ValueError(f"{where}: the last dimension must be {n}, got shape {tuple(array.shape)}")
    rows = math.prod(array.shape[:-1])
    if is_torch(array):
        return array.contiguous().view(rows, last)
    import numpy as np

    return np.ascontiguousarray(array).reshape(rows, last)


def vector_dtype(vector: Any, n: int, dtype: str, where: str) -> str:
    """dtype name of a weight of `n` elements: that of the activations or f32."""
    if tuple(vector.shape) != (n,):
        raise ValueError(f"{where}: expected a vector of {n} elements, got shape {tuple(vector.shape)}")
    name = dtype_name(vector, where)
    if name not in (dtype, "f32"):
        raise TypeError(f"{where}: the dtype must be {dtype} (as the activations) or f32, got {name}")
    return name


def stream_of(array: Any) -> Any:
    """Where to launch: the current stream of a GPU tensor, else the default stream."""
    if is_torch(array) and array.is_cuda:
        import torch

        return torch.cuda.current_stream(array.device)
    return None


def launch(function: Any, like: Any, *args: Any, stream: Any = None) -> None:
    """Call a launcher on `stream`, or on the stream of `like`."""
    function(*args, stream=stream if stream is not None else stream_of(like))
