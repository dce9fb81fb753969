"""Device memory: allocation, copies, and arrays for programs that have NumPy only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._provider import kind
from .streams import Stream

if TYPE_CHECKING:
    import numpy

__all__ = ["DeviceArray", "TensorInfo", "close_ipc", "describe_tensor", "free", "ipc_handle", "malloc", "memcpy",
           "memset", "open_ipc"]

#: A device address, or a contiguous tensor (NumPy, torch, any DLPack producer, DeviceArray).
Memory = int | Any
StreamLike = Stream | int | None


class TensorInfo(NamedTuple):
    """What a launch sees of a tensor."""

    dtype: str
    """MLIR spelling, such as ``"f32"``."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    data: int
    """Address of the first element."""
    device_type: int
    """DLPack device type: 1 host, 10 ROCm."""
    device_id: int


def describe_tensor(tensor: Any) -> TensorInfo | None:
    """Memory of a NumPy array, torch tensor or DLPack producer; ``None`` for any other object.

    Raises TypeError for a tensor whose dtype no kernel can take.
    """
    info = None if tensor is None else _native.describe_tensor(tensor)
    return None if info is None else TensorInfo(*info)


def export_once(tensor: Any) -> Any:
    """What a wrapper keeps of a tensor: the DLPack capsule if only ``tensor.__dlpack__()`` says where its memory is, so
    that launches do not call it again; else the tensor, whose memory each launch asks for."""
    return _native.export_once(tensor)


def malloc(nbytes: int, *, uncached: bool = False) -> int:
    """Allocate ``nbytes`` of device memory; the address.

    Args:
        uncached: memory that other devices and the host see change while a kernel runs, for signals between ranks.

    Raises:
        HipError: there is not enough.
        ValueError: a negative size.
    """
    _require_size("malloc", nbytes)
    return _native.malloc_uncached(nbytes) if uncached else _native.malloc(nbytes)


def free(address: int) -> None:
    """Free memory that :func:`malloc` returned."""
    _native.free(address)


def ipc_handle(address: int) -> bytes:
    """A handle of 64 bytes by which another process on this machine opens the memory at an address of :func:`malloc`.

    The memory must live as long as others use it. Raises HipError for an address that is none of an allocation.
    """
    return _native.ipc_handle(address)


def open_ipc(handle: bytes) -> int:
    """Map the memory of another process; its address here, to be given back by :func:`close_ipc`.

    Raises:
        HipError: the other process has ended, or it is this one.
        ValueError: not a handle.
    """
    return _native.open_ipc(handle)


def close_ipc(address: int) -> None:
    """Unmap memory that :func:`open_ipc` returned."""
    _native.close_ipc(address)


def memcpy(dst: Memory, src: Memory, nbytes: int | None = None, stream: StreamLike = None) -> None:
    """Copy between host and device memory in any direction.

    ``nbytes`` defaults to the size of the tensors; needed if both sides are addresses. With a
    ``stream`` the copy is queued there, without it has happened on return.
    Raises ValueError if a side is too small or not contiguous.
    """
    dst_address, dst_bytes = _extent(dst)
    src_address, src_bytes = _extent(src)
    sizes = [size for size in (dst_bytes, src_bytes) if size is not None]
    if nbytes is None:
        if not sizes or len(set(sizes)) != 1:
            raise ValueError("memcpy: give nbytes, or two tensors of one size")
        nbytes = sizes[0]
    _require_size("memcpy", nbytes)
    if any(nbytes > size for size in sizes):
        raise ValueError(f"memcpy: {nbytes} bytes do not fit in a tensor of {min(sizes)} bytes")
    _native.memcpy(dst_address, src_address, nbytes, _handle(stream))


def memset(dst: Memory, value: int, nbytes: int | None = None, stream: StreamLike = None) -> None:
    """Set ``nbytes`` bytes (default: the whole tensor) to ``value``; queued if a stream is given."""
    address, size = _extent(dst)
    if nbytes is None:
        if size is None:
            raise ValueError("memset: give nbytes for an address")
        nbytes = size
    _require_size("memset", nbytes)
    if size is not None and nbytes > size:
        raise ValueError(f"memset: {nbytes} bytes do not fit in a tensor of {size} bytes")
    _native.memset(address, value, nbytes, _handle(stream))


class DeviceArray:
    """A row-major array in device memory, for programs without a tensor library.

    Can be passed to a kernel like any tensor. ``dtype`` is NumPy's.

    Raises:
        ValueError: a negative extent.
    """

    def __init__(self, shape: tuple[int, ...] | int, dtype: Any = "float32") -> None:
        import numpy

        self.dtype = numpy.dtype(dtype)
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"DeviceArray: extents are not negative, got {self.shape}")
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self._device = -1 if kind() == "sim" else _native.current_device()
        self._address = malloc(max(self.nbytes, 1))

    @classmethod
    def from_numpy(cls, array: numpy.ndarray) -> DeviceArray:
        """Copy a NumPy array to the current device."""
        import numpy

        source = numpy.ascontiguousarray(array)
        result = cls(source.shape, source.dtype)
        memcpy(result._address, source, source.nbytes)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        """``numpy.asarray`` copies, as :meth:`numpy` does. Raises ValueError for ``copy=False``."""
        if copy is False:
            raise ValueError("a DeviceArray is copied to become a NumPy array: copy=False is not possible")
        return self.numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def numpy(self) -> numpy.ndarray:
        """Copy the contents to a new NumPy array, after all work of the default stream."""
        import numpy

        result = numpy.empty(self.shape, self.dtype)
        memcpy(result, self._address, self.nbytes)
        return result

    # The attributes by which the launcher reads torch tensors.

    def data_ptr(self) -> int:
        """Device address of the first element."""
        return self._address

    def stride(self) -> tuple[int, ...]:
        """Strides in elements."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def get_device(self) -> int:
        """Device index, -1 for memory of the host."""
        return self._device

    def __del__(self) -> None:
        address = getattr(self, "_address", 0)
        if address:
            try:
                free(address)
            except RuntimeError:
                # A finaliser cannot report, and at exit HIP may be gone already.
                pass

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, address={self._address:#x})"


def _require_size(function: str, nbytes: int) -> None:
    if nbytes < 0:
        raise ValueError(f"{function}: {nbytes} is no number of bytes")


def _extent(memory: Memory) -> tuple[int, int | None]:
    """Address and size in bytes; the size of an address is unknown."""
    if isinstance(memory, int):
        return memory, None
    info = describe_tensor(memory)
    if info is None:
        raise TypeError(f"expected an address or a tensor, got {type(memory).__name__}")
    expected = 1
    for extent, stride in zip(reversed(info.shape), reversed(info.strides), strict=True):
        if extent != 1 and stride != expected and math.prod(info.shape) != 0:
            raise ValueError("expected a contiguous (row-major) tensor")
        expected *= extent
    return info.data, expected * _native.dtype_bytes(info.dtype)


def _handle(stream: StreamLike) -> int | None:
    return stream.ptr if isinstance(stream, Stream) else stream
