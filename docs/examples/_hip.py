"""The HIP C API through ctypes: the same functions in ROCm's libamdhip64 and in the simulator's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import flydsl.runtime as rt

_HOST = 1  # DLPack's number for memory of the host


def call(function: str, *arguments) -> None:
    """Call a HIP function; RuntimeError names it if it does not return hipSuccess."""
    rt.device_info()  # opens the library and chooses the device on the first use
    status = getattr(ctypes.CDLL(rt.library_path()), function)(*arguments)
    if status != 0:
        raise RuntimeError(f"{function} returned error {status}")


class Module:
    """A loaded code object."""

    def __init__(self, code_object: bytes) -> None:
        self.handle = ctypes.c_void_p()
        call("hipModuleLoadData", ctypes.byref(self.handle), code_object)

    def launch(self, kernel: str, grid: int, block: int, *tensors) -> None:
        """Launch a kernel whose arguments are pointers to these contiguous tensors, and wait for it."""
        function = ctypes.c_void_p()
        call("hipModuleGetFunction", ctypes.byref(function), self.handle, kernel.encode())
        seen = [rt.describe_tensor(t) for t in tensors]
        pointers = [ctypes.c_void_p(t.data) for t in seen]
        parameters = (ctypes.c_void_p * len(pointers))(*[ctypes.addressof(p) for p in pointers])
        host = [(p, t.nbytes) for p, t, info in zip(pointers, tensors, seen, strict=True) if info.device_type == _HOST]
        for pointer, size in host:  # without it, memory of the host is out of a GPU's reach
            call("hipHostRegister", pointer, ctypes.c_size_t(size), 0)
        try:
            call("hipModuleLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, parameters, None)
            rt.synchronize()
        finally:
            for pointer, _ in host:
                call("hipHostUnregister", pointer)


class Graph:
    """Work that was recorded from a stream and can be launched again and again."""

    def __init__(self, stream: rt.Stream, record: Callable[[], object]) -> None:
        """Record what ``record`` launches on ``stream``; nothing runs yet."""
        self.stream, graph, self.executable = stream, ctypes.c_void_p(), ctypes.c_void_p()
        handle = ctypes.c_void_p(stream.ptr)
        call("hipStreamBeginCapture", handle, 0)  # hipStreamCaptureModeGlobal
        record()
        call("hipStreamEndCapture", handle, ctypes.byref(graph))
        call("hipGraphInstantiate", ctypes.byref(self.executable), graph, None, None, ctypes.c_size_t(0))
        call("hipGraphDestroy", graph)

    def replay(self) -> None:
        """Launch the recorded work, and wait for it."""
        call("hipGraphLaunch", self.executable, ctypes.c_void_p(self.stream.ptr))
        self.stream.synchronize()
