"""The calls of the simulator library that a Triton launch needs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

from .. import _provider
from .._errors import SimulatorError
from .memory import Array

_ALL = ctypes.c_size_t(-1).value  # whatever is mapped around an address
_COOPERATIVE, _CLUSTER = 2, 4  # hipLaunchAttributeID


class _Argument(ctypes.Structure):
    """FlysimArgument."""

    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("item_bytes", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


class _Attribute(ctypes.Structure):
    """hipLaunchAttribute, with the three numbers of a cluster or one of a flag."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class _Configuration(ctypes.Structure):
    """HIP_LAUNCH_CONFIG."""

    _fields_ = [("sizes", ctypes.c_uint * 7), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint)]


class Library:
    """The simulator as loaded by this process."""

    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self._lib.flysimLastErrorMessage.restype = ctypes.c_char_p
        self._lib.hipGetErrorName.restype = ctypes.c_char_p

    def _check(self, code: int) -> None:
        if code:
            message = self._lib.flysimLastErrorMessage().decode(errors="replace")
            raise SimulatorError(message, code, self._lib.hipGetErrorName(code).decode())

    def choose(self, arch: str) -> None:
        """Simulates this architecture. Raises ValueError for an unknown one."""
        if self._lib.flysimSetArch(arch.encode()):
            raise ValueError(self._lib.flysimLastErrorMessage().decode())

    def load(self, image: bytes, name: str) -> tuple[int, int]:
        """Module and function of a kernel. Raises SimulatorError for an image that is none."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._lib.flysimModuleLoadSized(ctypes.byref(module), image, ctypes.c_size_t(len(image))))
        self._check(self._lib.hipModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return int(module.value or 0), int(function.value or 0)

    def unload(self, module: int) -> None:
        self._check(self._lib.hipModuleUnload(ctypes.c_void_p(module)))

    def attribute(self, function: int, number: int) -> int:
        """hipFuncGetAttribute."""
        value = ctypes.c_int()
        self._check(self._lib.hipFuncGetAttribute(ctypes.byref(value), number, ctypes.c_void_p(function)))
        return value.value

    def launch(self, function: int, grid: Sequence[int], threads: int, shared: int, stream: int, cluster: int,
               cooperative: bool, values: Sequence[ctypes._CData], arrays: Sequence[Array],
               addresses: Sequence[int]) -> None:
        """Runs a kernel. ``arrays`` is the host memory that it may use, beside what is mapped around ``addresses``.

        Raises SimulatorError with kernel, line, work-group and lane if the launch fails.
        """
        self._state(arrays, addresses)
        pointers = [ctypes.addressof(value) for value in values]
        parameters = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        attributes = (_Attribute * 2)()
        attributes[0].id, attributes[0].value[0:3] = _CLUSTER, [cluster, 1, 1]
        attributes[1].id, attributes[1].value[0] = _COOPERATIVE, int(cooperative)
        x, y, z = grid
        configuration = _Configuration((x * cluster, y, z, threads, 1, 1, shared), stream, attributes, 2)
        if cluster == 1:  # the size that the kernel's metadata has
            configuration.attributes = ctypes.pointer(attributes[1])
            configuration.count = 1
        call = self._lib.hipDrvLaunchKernelEx
        self._check(call(ctypes.byref(configuration), ctypes.c_void_p(function), parameters, None))

    def _state(self, arrays: Sequence[Array], addresses: Sequence[int]) -> None:
        bases = [array.base for array in arrays] + list(addresses)
        sizes = [array.bytes for array in arrays] + [_ALL] * len(addresses)
        # Without any array a kernel may use what is mapped: one that has no tensors gets an empty one.
        count = max(1, len(bases))
        self._lib.flysimLaunchRanges((ctypes.c_void_p * count)(*bases), (ctypes.c_size_t * count)(*sizes), count)
        named = [array for array in arrays if array.name]
        table = (_Argument * max(1, len(named)))()
        for entry, array in zip(table, named, strict=False):
            rank = len(array.shape)
            numbers = ctypes.c_int64 * max(1, rank)
            entry.name, entry.type, entry.base = array.name.encode(), array.type.encode(), array.data
            entry.item_bytes, entry.rank = array.item_bytes, rank
            entry.shape, entry.strides = numbers(*array.shape), numbers(*array.strides)
        self._lib.flysimLaunchArguments(table, len(named))


@cache
def simulator() -> Library:
    """The library of this process. Raises RuntimeError if it uses a GPU."""
    import os

    os.environ.setdefault("FLYDSL_RUNTIME_KIND", "sim")
    if _provider.kind() != "sim":
        raise RuntimeError("flydsl.runtime.triton runs kernels on the simulator; this process uses a GPU. Set "
                           "FLYDSL_RUNTIME_KIND=sim")
    return Library(_provider.library_path())
