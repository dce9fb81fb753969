"""NumPy arrays and torch tensors alike: checks, fresh outputs, streams."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import flydsl.runtime as rt

from ..target import Target
from .dtypes import INDICES, dtype_name

__all__ = [
    "MOST_EXTENT", "address", "allocate", "array_dtype", "as_int32", "as_numpy", "as_rows", "as_torch", "autocast",
    "contiguous", "converted", "copy_into", "device_type", "flat_of", "flattened", "is_recorded", "is_torch",
    "launch", "on_stream", "padded", "permuted", "require_lasting", "span", "stream_of", "strides_of", "transposed",
    "vector", "vector_width", "with_rows",
]

ACCESS_BYTES = 16  # of a lane at most
MOST_EXTENT = 2**31 - 1  # of a dimension of an argument

_NUMPY_NAMES = {"f32": "float32", "f16": "float16", "i8": "int8", "i4": "int8", "u8": "uint8",
                "i32": "int32", "i64": "int64"}
_TORCH_NAMES = {**_NUMPY_NAMES, "bf16": "bfloat16"}


def is_torch(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "torch" or hasattr(array, "new_empty")


def array_dtype(found: Target, array: Any, name: Any) -> Any:
    """The dtype of a name for arrays of the kind of `array`; a dtype stays. ``"fp8"`` is the variant of the target.

    Raises:
        TypeError: NumPy has no such dtype.
        ValueError: the name is not known.
    """
    if not isinstance(name, str):
        return name
    if name not in (*_TORCH_NAMES, "fp8"):
        raise ValueError(f"dtype {name!r} is not known: expected one of {', '.join(_TORCH_NAMES)}, fp8")
    if not is_torch(array):
        import numpy as np

        if name not in _NUMPY_NAMES:
            raise TypeError(f"NumPy has no dtype {name}: pass torch tensors")
        return np.dtype(_NUMPY_NAMES[name])
    import torch

    if name == "fp8":
        fnuz = found.fp8_name == "Float8E4M3FNUZ"
        return torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn
    return getattr(torch, _TORCH_NAMES[name])


def as_torch(value: Any, where: str) -> Any:
    """A torch tensor in the memory of a NumPy array (in a copy's, if torch has not its strides or may not write there),
    and those of the arrays of a list; what is no array stays.

    Raises:
        TypeError: torch is not installed, has no such dtype, or it is a torch tensor (among NumPy arrays).
        RuntimeError: launches are recorded.
    """
    if isinstance(value, list | tuple):
        return [as_torch(v, where) for v in value]
    if is_torch(value):
        raise TypeError(f"{where}: operands must be all torch tensors or all NumPy arrays")
    if not hasattr(value, "__array_interface__"):
        return value
    require_lasting(value, where)
    try:
        import torch
    except ImportError as error:
        raise TypeError(f"{where}: torch is needed, which orders its weights, for NumPy arrays too") from error
    fits = value.flags.writeable and all(s >= 0 and s % value.itemsize == 0 for s in value.strides)
    try:
        return torch.from_numpy(value if fits else value.copy())
    except (TypeError, ValueError) as error:  # of other byte orders too
        raise TypeError(f"{where}: NumPy arrays of dtype {value.dtype!r} are not supported") from error


def as_numpy(tensor: Any) -> Any:
    """The memory of a torch tensor as a NumPy array. TypeError if NumPy has no such dtype."""
    if tensor.dtype.is_floating_point and str(tensor.dtype).startswith(("torch.bfloat", "torch.float8")):
        raise TypeError(f"NumPy has no dtype {str(tensor.dtype).removeprefix('torch.')}: pass torch tensors")
    return tensor.numpy()


def allocate(found: Target, like: Any, shape: tuple[int, ...], dtype: Any, zero: bool = False) -> Any:
    """An array of the kind and device of `like`, uninitialised unless `zero`; `dtype` is a name or a dtype."""
    dtype = array_dtype(found, like, dtype)
    if is_torch(like):
        return (like.new_zeros if zero else like.new_empty)(shape, dtype=dtype)
    import numpy as np

    return (np.zeros if zero else np.empty)(shape, dtype)


def address(array: Any) -> int:
    """Of the first element."""
    return array.data_ptr() if is_torch(array) else array.__array_interface__["data"][0]


def strides_of(array: Any) -> tuple[int, ...]:
    """In elements; that of a dimension of 1 says nothing, and is 0, or 1 of the last dimension."""
    given = array.stride() if is_torch(array) else [s // array.itemsize for s in array.strides]
    last = len(given) - 1
    return tuple(int(s) if n != 1 else int(i == last) for i, (n, s) in enumerate(zip(array.shape, given, strict=True)))


def with_rows(array: Any, alignment: int) -> Any:
    """The array if the elements of its rows are consecutive and rows begin at multiples of so many bytes, else a
    copy."""
    steps = strides_of(array)
    whole = all(s >= 0 and s * array.itemsize % alignment == 0 for s in steps[:-1]) and address(array) % alignment == 0
    return array if steps[-1:] in ((), (1,)) and whole else contiguous(array)


def span(array: Any) -> Any:
    """The memory from the first to the last element of an array of any strides, as a vector in place: what a kernel
    addresses by the strides.

    What is longer than an argument's dimension may be becomes the rows of a matrix, which may overlap.
    """
    steps = strides_of(array)
    length = 1 + sum((n - 1) * s for n, s in zip(array.shape, steps, strict=True)) if 0 not in array.shape else 0
    shape: tuple[int, ...] = (length,)
    strides: tuple[int, ...] = (1,)
    if length > MOST_EXTENT:
        least = 2 * length // MOST_EXTENT
        rows = next((rows for rows in range(least, 4096 + least) if length % rows == 0), least)
        step = length // rows
        shape, strides = (rows, length - (rows - 1) * step), (step, 1)
    if is_torch(array):
        return array.as_strided(shape, strides)
    import numpy as np

    return np.lib.stride_tricks.as_strided(array, shape, tuple(s * array.itemsize for s in strides))


def flattened(array: Any) -> Any:
    """The elements of a dense array in place, or of a dense copy: a vector, or what :func:`span` makes of long ones."""
    array = contiguous(array)
    count = math.prod(array.shape)
    return array.reshape(count) if count <= MOST_EXTENT else span(array)


def vector_width(bits: int, count: int, *arrays: Any) -> int:
    """Elements of `bits` bits of the widest access that `count` of them and the beginnings of the arrays allow; 1 where
    an array does not begin with an element, which its launch refuses."""
    aligned = math.gcd(ACCESS_BYTES, *(address(a) for a in arrays))
    return math.gcd(count, max(aligned * 8 // bits, 1))


def autocast(*arrays: Any) -> tuple[Any, ...]:
    """Floating-point tensors in the dtype of torch's autocast, where that is on."""
    import torch

    kind = arrays[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return arrays
    dtype = torch.get_autocast_dtype(kind)
    return tuple(a.to(dtype) if a is not None and a.is_floating_point() else a for a in arrays)


def copy_into(out: Any, values: Any) -> None:
    """Write an array or a number to `out`, converted to its dtype."""
    out[...] = values


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


def contiguous(array: Any) -> Any:
    """The array, or a copy of it, with its elements in row-major order."""
    if is_torch(array):
        return array.contiguous()
    import numpy as np

    return np.ascontiguousarray(array)


def converted(array: Any, name: str) -> Any:
    """A copy in the dtype of that name."""
    if not is_torch(array):
        return array.astype(_NUMPY_NAMES[name])
    import torch

    return array.to(getattr(torch, _TORCH_NAMES[name]))


def as_int32(array: Any, where: str) -> Any:
    """An array of i32, or i64 in a copy, where what does not fit is the least or largest that does; None stays.

    TypeError for another dtype.
    """
    if array is None or dtype_name(array, where, INDICES) == "i32":
        return array
    return converted(array.clip(-(2**31), 2**31 - 1), "i32")


def transposed(matrix: Any) -> Any:
    """A row-major copy of the transpose."""
    return contiguous(matrix.T)


def permuted(array: Any, order: tuple[int, ...]) -> Any:
    """A view whose dimension i is dimension ``order[i]`` of the array."""
    return array.permute(order) if is_torch(array) else array.transpose(order)


def padded(array: Any, count: int, axis: int) -> Any:
    """A copy with `count` zeros added at the end of an axis, counted from the last where it is negative; the array
    itself where there are none to add."""
    if not count:
        return array
    shape = list(array.shape)
    shape[axis] += count
    if is_torch(array):
        out = array.new_zeros(shape)
    else:
        import numpy as np

        out = np.zeros(shape, array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out


def vector(array: Any, n: int, dtype: str, where: str) -> tuple[Any, str]:
    """A weight of `n` elements, contiguous, and its dtype name: that of the activations or f32.

    Raises:
        TypeError: another dtype.
        ValueError: another shape.
    """
    name = dtype_name(array, where)
    if tuple(array.shape) != (n,):
        raise ValueError(f"{where}: expected a vector of {n} elements, got shape {tuple(array.shape)}")
    if name not in (dtype, "f32"):
        raise TypeError(f"{where}: the dtype must be {dtype} (as the activations) or f32, got {name}")
    return contiguous(array), name


def flat_of(array: Any, where: str, dtype: str, *shapes: tuple[int, ...]) -> Any:
    """A contiguous vector of the elements of an array of a dtype and one of some shapes (any, if none is given); None
    stays.

    Raises:
        TypeError: another dtype.
        ValueError: another shape.
    """
    if array is None:
        return None
    dtype_name(array, where, (dtype,))
    if shapes and tuple(array.shape) not in shapes:
        raise ValueError(f"{where} must be {dtype} of shape {' or '.join(map(str, dict.fromkeys(shapes)))}, got "
                         f"{tuple(array.shape)}")
    return contiguous(array).reshape(math.prod(array.shape))


_STREAM: ContextVar[Any] = ContextVar("_STREAM", default=None)


@contextlib.contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Within the block, launches of this thread that are told no stream go to this one, which records them."""
    token = _STREAM.set(stream)
    try:
        yield
    finally:
        _STREAM.reset(token)


def is_recorded() -> bool:
    """Whether launches of this thread are recorded now, so that results have no values yet."""
    return _STREAM.get() is not None


def require_lasting(array: Any, where: str) -> None:
    """RuntimeError if launches are recorded, and it is a NumPy array, whose memory no graph keeps."""
    if is_recorded() and not is_torch(array):
        raise RuntimeError(f"{where}: NumPy arrays cannot be recorded: a graph keeps the memory of torch tensors alone")


def stream_of(array: Any) -> Any:
    """Where to launch: in the stream of :func:`on_stream`, the current one of a GPU tensor, or the default stream."""
    if _STREAM.get() is not None:
        return _STREAM.get()
    if is_torch(array) and array.is_cuda:
        import torch

        return torch.cuda.current_stream(array.device)
    return None


@functools.cache
def device_type() -> str:
    """torch's name of the devices whose memory kernels access: the host's on the simulator.

    torch calls AMD GPUs "cuda" too. A process has one kind of runtime.
    """
    return "cuda" if rt.kind() == "rocm" else "cpu"


def _is_whole(array: Any) -> bool:
    """Whether there are no gaps between elements in row-major order: it is contiguous, or a long :func:`span`."""
    if array.is_contiguous() if is_torch(array) else array.flags["C_CONTIGUOUS"]:
        return True
    if len(array.shape) != 2 or math.prod(array.shape) <= MOST_EXTENT:
        return False
    step, one = strides_of(array)
    return bool(one == 1 and 0 < step <= array.shape[1])


def _check_operands(name: str, like: Any, args: tuple[Any, ...]) -> None:
    where, needed = like.device.type if is_torch(like) else "cpu", device_type()
    if where != needed:
        raise ValueError(f"{name}: an operand is on device {where!r}, and kernels run on {needed!r} here")
    for other in args:
        if not hasattr(other, "shape"):
            continue
        if is_torch(other) != is_torch(like):
            raise TypeError(f"{name}: operands must be all torch tensors or all NumPy arrays")
        if is_torch(like) and other.device != like.device:
            raise ValueError(f"{name}: operands must be on one device, got {like.device} and {other.device}")
        if not _is_whole(other):
            raise ValueError(f"{name}: an operand of shape {tuple(other.shape)} is not contiguous")


def launch(function: Any, like: Any, *args: Any, stream: Any = None, **static: Any) -> None:
    """Call a launcher on `stream`, or on the stream of `like`; `static` arguments are no operands.

    Raises:
        TypeError: NumPy arrays and torch tensors are mixed.
        ValueError: an operand is on a device that kernels cannot access, or operands are on several devices.
        RuntimeError: NumPy arrays while launches are recorded.
    """
    name = getattr(function, "__name__", "flydsl kernel")
    _check_operands(name, like, args)
    require_lasting(like, name)
    function(*args, stream=stream if stream is not None else stream_of(like), **static)
