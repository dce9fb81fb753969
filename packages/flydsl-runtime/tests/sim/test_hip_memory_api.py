"""Virtual memory, memory of graphs, operations on memory in streams, libraries, batched and peer copies."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError, find_library

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

HERE = Path(__file__).parent
MB = 1 << 20
INVALID, OUT_OF_MEMORY, ILLEGAL, NOT_SUPPORTED = 1, 2, 700, 801

SOURCE = """
KERNEL void fill(GLOBAL u32 *p, u32 n, u32 v) { u32 i = WG() * 64 + TID(); if (i < n) p[i] = v + i; }
KERNEL void wide(GLOBAL v4u32 *p, u32 at) { p[at + TID()] = (v4u32)(TID()); }
KERNEL void sum(const GLOBAL u32 *p, GLOBAL u32 *out, u32 n) {
  u32 s = 0; for (u32 i = 0; i < n; ++i) s += p[i];
  if (TID() == 0) out[0] = s;
}
"""


@pytest.fixture(autouse=True)
def host_memory(monkeypatch):
    """These programs give kernels NumPy arrays that HIP has neither allocated nor registered."""
    monkeypatch.setenv("FLYDSL_SIM_HOST_MEMORY", "mapped")


class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class Prop(Structure):
    """hipMemAllocationProp: pinned memory of device 0 that may be exported as a file descriptor."""

    _fields_ = [("type", c_int), ("handle_type", c_int), ("location", Location), ("meta", c_void_p),
                ("flags", c_uint64)]

    def __init__(self, handle_type: int = 1, device: int = 0) -> None:
        super().__init__(1, handle_type, Location(1, device), None, 0)


class Access(Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


@pytest.fixture
def lib(sim):
    """The library with 64-bit arguments where ctypes would guess ints."""
    sim.set_arch("gfx942")
    library = sim.lib
    library.hipMemRelease.argtypes = [c_uint64]
    library.hipMemMap.argtypes = [c_void_p, c_size_t, c_size_t, c_uint64, c_uint64]
    library.hipMemUnmap.argtypes = library.hipMemAddressFree.argtypes = [c_void_p, c_size_t]
    library.hipMemAddressReserve.argtypes = [POINTER(c_void_p), c_size_t, c_size_t, c_void_p, c_uint64]
    library.hipMemCreate.argtypes = [POINTER(c_uint64), c_size_t, c_void_p, c_uint64]
    library.hipMemSetAccess.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t]
    library.hipMemGetAccess.argtypes = [POINTER(c_uint64), c_void_p, c_void_p]
    library.hipMemExportToShareableHandle.argtypes = [c_void_p, c_uint64, c_int, c_uint64]
    library.hipMemImportFromShareableHandle.argtypes = [POINTER(c_uint64), c_void_p, c_int]
    library.hipMemRetainAllocationHandle.argtypes = [POINTER(c_uint64), c_void_p]
    library.hipMemGetAllocationPropertiesFromHandle.argtypes = [c_void_p, c_uint64]
    return library


@pytest.fixture
def kernel(sim, lib, build_dir):
    """kernel(name): a function of the module above."""
    module = sim.load(compile_gpu(SOURCE, "gfx942", "2", build_dir))
    # The first launch allocates memory for arguments, which stays.
    sim.launch(sim.function(module, "fill"), (1,), (64,), [np.zeros(64, np.uint32), 0, 0])
    yield lambda name: sim.function(module, name)
    sim.lib.hipModuleUnload(module)


def reserve(sim, size: int, alignment: int = 0) -> int:
    p = c_void_p()
    sim.check(sim.lib.hipMemAddressReserve(byref(p), size, alignment, None, 0))
    return p.value


def create(sim, size: int, **properties) -> int:
    handle, prop = c_uint64(), Prop(**properties)
    sim.check(sim.lib.hipMemCreate(byref(handle), size, byref(prop), 0))
    return handle.value


def allow(sim, at: int, size: int, flags: int = 3) -> None:
    sim.check(sim.lib.hipMemSetAccess(at, size, byref(Access(Location(1, 0), flags)), 1))


def view(at: int, words: int) -> np.ndarray:
    return np.ctypeslib.as_array((c_uint * words).from_address(at))


def used(sim) -> int:
    free, total = c_size_t(), c_size_t()
    sim.check(sim.lib.hipMemGetInfo(byref(free), byref(total)))
    return total.value - free.value


class TestVirtualMemory:
    def test_growing_segment(self, sim, lib, kernel):
        """As in expandable segments: pieces are mapped side by side, used as one, and given back."""
        before = used(sim)
        base = reserve(sim, 64 * MB, 2 * MB)
        assert base % (2 * MB) == 0
        for n in range(3):
            handle = create(sim, 2 * MB)
            sim.check(lib.hipMemMap(base + 2 * MB * n, 2 * MB, 0, handle, 0))
            sim.check(lib.hipMemRelease(handle))  # the mapping keeps the memory
        assert used(sim) == before + 6 * MB
        allow(sim, base, 6 * MB)
        words = 6 * MB // 4
        sim.launch(kernel("fill"), (words // 64,), (64,), [c_void_p(base), words, 5])
        np.testing.assert_array_equal(view(base, words), np.arange(words, dtype=np.uint32) + 5)
        sim.launch(kernel("wide"), (1,), (64,), [c_void_p(base + 2 * MB - 8), 0])  # a lane across the border
        np.testing.assert_array_equal(view(base + 2 * MB - 8, 256), np.arange(64).repeat(4))
        host = np.zeros(words, np.uint32)
        sim.check(lib.hipMemcpy(c_void_p(host.ctypes.data), c_void_p(base), c_size_t(6 * MB), 2))
        sim.check(lib.hipMemset(c_void_p(base), 1, c_size_t(6 * MB)))
        assert (view(base, words) == 0x01010101).all()
        sim.check(lib.hipMemUnmap(base + 2 * MB, 4 * MB))
        assert used(sim) == before + 2 * MB
        with pytest.raises(SimError) as info:
            sim.launch(kernel("fill"), (1,), (64,), [c_void_p(base + 2 * MB), 64, 5])
        assert info.value.code == ILLEGAL
        with pytest.raises(SimError):
            sim.check(lib.hipMemcpy(c_void_p(host.ctypes.data), c_void_p(base), c_size_t(6 * MB), 2))
        sim.check(lib.hipMemUnmap(base, 2 * MB))
        sim.check(lib.hipMemAddressFree(base, 64 * MB))
        assert used(sim) == before

    def test_the_same_memory_in_two_places(self, sim, lib):
        handle = create(sim, 4 * MB)
        base = reserve(sim, 8 * MB)
        sim.check(lib.hipMemMap(base, 4 * MB, 0, handle, 0))
        sim.check(lib.hipMemMap(base + 4 * MB, 2 * MB, 2 * MB, handle, 0))
        allow(sim, base, 6 * MB)
        view(base, 4)[:] = 1
        view(base + 2 * MB, 4)[:] = [4, 3, 2, 1]
        assert view(base + 4 * MB, 4).tolist() == [4, 3, 2, 1]
        again = c_uint64()
        sim.check(lib.hipMemRetainAllocationHandle(byref(again), base + 100))
        assert again.value == handle
        prop = Prop()
        sim.check(lib.hipMemGetAllocationPropertiesFromHandle(byref(prop), handle))
        assert (prop.type, prop.location.id) == (1, 0)
        for _ in range(2):
            sim.check(lib.hipMemRelease(handle))
        assert lib.hipMemRelease(handle) == INVALID
        sim.check(lib.hipMemUnmap(base, 6 * MB))
        sim.check(lib.hipMemAddressFree(base, 8 * MB))

    def test_access(self, sim, lib, kernel):
        base, handle, flags = reserve(sim, 2 * MB), create(sim, 2 * MB), c_uint64(9)
        sim.check(lib.hipMemMap(base, 2 * MB, 0, handle, 0))
        store = lambda: sim.launch(kernel("fill"), (1,), (64,), [c_void_p(base), 64, 5])  # noqa: E731
        for allowed in (None, 0, 1):
            if allowed is not None:
                allow(sim, base, 2 * MB, allowed)
            sim.check(lib.hipMemGetAccess(byref(flags), byref(Location(1, 0)), base + 8))
            assert flags.value == (allowed or 0)
            with pytest.raises(SimError, match="write of 4 bytes") as info:
                store()
            assert info.value.code == ILLEGAL
        out = np.full(1, 9, np.uint32)
        sim.launch(kernel("sum"), (1,), (64,), [c_void_p(base), out, 16])
        assert out[0] == 0
        allow(sim, base, 2 * MB)
        store()
        sim.check(lib.hipMemUnmap(base, 2 * MB))
        sim.check(lib.hipMemRelease(handle))
        sim.check(lib.hipMemAddressFree(base, 2 * MB))

    def test_granularity(self, sim, lib):
        small, large = c_size_t(), c_size_t()
        sim.check(lib.hipMemGetAllocationGranularity(byref(small), byref(Prop()), 0))
        sim.check(lib.hipMemGetAllocationGranularity(byref(large), byref(Prop()), 1))
        assert 0 < small.value <= large.value and large.value % small.value == 0
        assert lib.hipMemGetAllocationGranularity(byref(small), byref(Prop()), 2) == INVALID
        assert lib.hipMemGetAllocationGranularity(None, byref(Prop()), 0) == INVALID
        assert lib.hipMemGetAllocationGranularity(byref(small), byref(Prop(device=7)), 0) == INVALID

    def test_wrong_arguments(self, sim, lib):
        p, handle = c_void_p(), c_uint64()
        for size, alignment, flags in ((0, 0, 0), (100, 0, 0), (2 * MB, 3, 0), (2 * MB, 0, 1)):
            assert lib.hipMemAddressReserve(byref(p), size, alignment, None, flags) == INVALID
        assert lib.hipMemAddressReserve(None, 2 * MB, 0, None, 0) == INVALID
        assert lib.hipMemAddressReserve(byref(p), 1 << 60, 0, None, 0) == OUT_OF_MEMORY
        assert lib.hipMemCreate(byref(handle), 1 << 50, byref(Prop()), 0) == OUT_OF_MEMORY
        for size, prop, flags in ((0, Prop(), 0), (5, Prop(), 0), (2 * MB, Prop(device=9), 0), (2 * MB, Prop(), 3)):
            assert lib.hipMemCreate(byref(handle), size, byref(prop), flags) == INVALID
        assert lib.hipMemCreate(byref(handle), 2 * MB, byref(Prop(2)), 0) == NOT_SUPPORTED
        base, memory = reserve(sim, 4 * MB), create(sim, 2 * MB)
        for at, size, offset, which in ((base, 2 * MB, 0, 1234), (base, 4 * MB, 0, memory),
                                        (base, 2 * MB, 4096, memory), (base + 1, 4096, 0, memory),
                                        (base + 3 * MB, 2 * MB, 0, memory),
                                        (4096, 4096, 0, memory), (base, 0, 0, memory)):
            assert lib.hipMemMap(at, size, offset, which, 0) == INVALID
        sim.check(lib.hipMemMap(base, 2 * MB, 0, memory, 0))
        assert lib.hipMemMap(base + MB, MB, 0, memory, 0) == INVALID  # mapped already
        assert lib.hipMemUnmap(base, MB) == INVALID
        assert lib.hipMemUnmap(base + 2 * MB, MB) == INVALID
        assert lib.hipMemAddressFree(base, 4 * MB) == INVALID
        assert lib.hipFree(c_void_p(base)) == INVALID and lib.hipFree(c_void_p(base + 4096)) == INVALID
        for at, size, flags in ((base, 4 * MB, 3), (base, 2 * MB, 7), (base + MB, MB, 3)):
            assert lib.hipMemSetAccess(at, size, byref(Access(Location(1, 0), flags)), 1) == INVALID
        assert lib.hipMemSetAccess(base, 2 * MB, None, 1) == INVALID
        sim.check(lib.hipMemUnmap(base, 2 * MB))
        assert lib.hipMemAddressFree(base, 2 * MB) == INVALID
        sim.check(lib.hipMemAddressFree(base, 4 * MB))
        sim.check(lib.hipMemRelease(memory))

    def test_another_process(self, sim, lib):
        """A file descriptor of the memory works in another process, by value and by address."""
        base, handle, file = reserve(sim, 2 * MB), create(sim, 2 * MB), c_int()
        sim.check(lib.hipMemMap(base, 2 * MB, 0, handle, 0))
        allow(sim, base, 2 * MB)
        view(base, 4)[:] = [1, 2, 3, 4]
        sim.check(lib.hipMemExportToShareableHandle(byref(file), handle, 1, 0))
        for form in ("value", "address"):
            command = [sys.executable, "-c", CHILD, str(HERE), str(find_library()), str(file.value), form]
            done = subprocess.run(command, pass_fds=[file.value], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
        assert view(base, 4).tolist() == [1, 2, 5, 4]
        os.close(file.value)
        assert lib.hipMemExportToShareableHandle(byref(file), handle, 2, 0) == INVALID
        imported = c_uint64()
        with open(os.devnull, encoding="utf-8") as other:
            assert lib.hipMemImportFromShareableHandle(byref(imported), other.fileno(), 1) == INVALID
        assert lib.hipMemImportFromShareableHandle(byref(imported), 987654, 1) == INVALID
        plain = create(sim, 2 * MB, handle_type=0)
        assert lib.hipMemExportToShareableHandle(byref(file), plain, 1, 0) == INVALID
        for h in (plain, handle):
            sim.check(lib.hipMemRelease(h))
        sim.check(lib.hipMemUnmap(base, 2 * MB))
        sim.check(lib.hipMemAddressFree(base, 2 * MB))


CHILD = r"""
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import ctypes
from hiplib import Sim
from test_hip_memory_api import *
sim = Sim(Path(sys.argv[2]))
file = c_int(int(sys.argv[3]))
handle = c_uint64()
sim.lib.hipMemImportFromShareableHandle.argtypes = [POINTER(c_uint64), c_void_p, c_int]
sim.check(sim.lib.hipMemImportFromShareableHandle(
    byref(handle), file.value if sys.argv[4] == "value" else ctypes.addressof(file), 1))
base = c_void_p()
sim.check(sim.lib.hipMemAddressReserve(byref(base), c_size_t(2 * MB), c_size_t(0), None, c_uint64(0)))
sim.check(sim.lib.hipMemMap(base, c_size_t(2 * MB), c_size_t(0), handle, c_uint64(0)))
sim.check(sim.lib.hipMemSetAccess(base, c_size_t(2 * MB), byref(Access(Location(1, 0), 3)), c_size_t(1)))
values = view(base.value, 4)
assert values.tolist()[:2] == [1, 2], values
values[2] += 1
"""


class MemOp(Structure):
    _fields_ = [("operation", c_int), ("address", c_void_p), ("value", c_uint64), ("flags", c_uint),
                ("alias", c_void_p),
                ("pad", c_uint64)]


def test_operations_on_memory_in_a_stream(sim, lib):
    stream = c_void_p()
    sim.check(lib.hipStreamCreate(byref(stream)))
    words = np.zeros(4, np.uint64)
    at = words.ctypes.data
    operations = (MemOp * 5)(MemOp(2, at, 7), MemOp(6), MemOp(1, at, 7, 1), MemOp(5, at + 8, 1 << 40),
                             MemOp(4, at + 8, 5, 0))
    sim.check(lib.hipStreamBatchMemOp(stream, 5, operations, 0))
    sim.check(lib.hipStreamSynchronize(stream))
    assert words.tolist() == [7, 1 << 40, 0, 0]
    # What waits goes on when the value is there, and what follows waits with it.
    sim.check(lib.hipStreamBatchMemOp(stream, 2, (MemOp * 2)(MemOp(1, at + 16, 3, 1), MemOp(2, at + 24, 1)), 0))
    assert lib.hipStreamQuery(stream) == 600 and words[3] == 0
    words[2] = 3
    sim.check(lib.hipStreamSynchronize(stream))
    assert words[3] == 1
    for count, listed, flags in ((0, operations, 0), (5, None, 0), (5, operations, 1), (1000, operations, 0),
                                 (1, (MemOp * 1)(MemOp(9, at, 1)), 0), (1, (MemOp * 1)(MemOp(2, None, 1)), 0),
                                 (1, (MemOp * 1)(MemOp(1, at, 1, 9)), 0)):
        assert lib.hipStreamBatchMemOp(stream, count, listed, flags) == INVALID
    assert lib.hipStreamBatchMemOp(c_void_p(at), 1, operations, 0) == 400
    sim.check(lib.hipStreamDestroy(stream))


@pytest.mark.parametrize("bits", [32, 64])
def test_values_at_addresses_that_nobody_has(sim, lib, bits):
    """Waiting for a value and writing one are accesses like others: an error, at once or of the stream."""
    stream, value = c_void_p(), (c_uint64 if bits == 64 else c_uint)(1)
    wait, write = getattr(lib, f"hipStreamWaitValue{bits}"), getattr(lib, f"hipStreamWriteValue{bits}")
    for flags in (0, 1):  # a stream that does and one that does not wait for the null stream
        sim.check(lib.hipStreamCreateWithFlags(byref(stream), flags))
        for address in (16, 0xDEAD0000, 2**64 - 4):
            at = c_void_p(address)
            assert ILLEGAL in (wait(stream, at, value, 1, value), lib.hipStreamSynchronize(stream))
            assert ILLEGAL in (write(stream, at, value, 0), lib.hipStreamSynchronize(stream))
        sim.check(lib.hipStreamDestroy(stream))


class AllocParams(Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("rest", c_uint64 * 9),
                ("access", c_void_p), ("count", c_size_t), ("bytes", c_size_t), ("pointer", c_void_p)]

    def __init__(self, size: int, device: int = 0) -> None:
        super().__init__(1, 0, Location(1, device))
        self.bytes = size


class NodeParams(Structure):
    """hipGraphNodeParams, the union as bytes."""

    _fields_ = [("type", c_int), ("reserved", c_int * 3), ("union", ctypes.c_char * 232), ("last", c_uint64)]

    @classmethod
    def of(cls, kind: int, value=None):
        p = cls(kind)
        if value is not None:
            ctypes.memmove(ctypes.addressof(p) + 16, byref(value), ctypes.sizeof(value))
        return p


class KernelParams(Structure):
    _fields_ = [("block", c_uint * 3), ("extra", c_void_p), ("function", c_void_p), ("grid", c_uint * 3),
                ("arguments", c_void_p), ("lds", c_uint)]


class SetParams(Structure):
    _fields_ = [("dst", c_void_p), ("element", c_uint), ("height", c_size_t), ("pitch", c_size_t), ("value", c_uint),
                ("width", c_size_t)]


def kernel_params(function, groups: int, values: list) -> KernelParams:
    arguments = (c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    params = KernelParams((c_uint * 3)(64, 1, 1), None, function, (c_uint * 3)(groups, 1, 1),
                          ctypes.addressof(arguments), 0)
    params.keep = (arguments, values)
    return params


def instantiate(sim, graph) -> c_void_p:
    executable = c_void_p()
    sim.check(sim.lib.hipGraphInstantiate(byref(executable), graph, None, None, c_size_t(0)))
    return executable


class TestGraphMemory:
    def test_allocate_use_free(self, sim, lib, kernel):
        """Memory between an allocation and a free node, launched twice; the address is known before."""
        before, out = used(sim), np.zeros(1, np.uint32)
        graph, alloc, fill, total, free = (c_void_p() for _ in range(5))
        sim.check(lib.hipGraphCreate(byref(graph), 0))
        params = AllocParams(4096)
        sim.check(lib.hipGraphAddMemAllocNode(byref(alloc), graph, None, c_size_t(0), byref(params)))
        assert params.pointer
        first = kernel_params(kernel("fill"), 4, [c_void_p(params.pointer), c_uint(256), c_uint(1)])
        sim.check(lib.hipGraphAddKernelNode(byref(fill), graph, byref(alloc), c_size_t(1), byref(first)))
        second = kernel_params(kernel("sum"), 1, [c_void_p(params.pointer), c_void_p(out.ctypes.data), c_uint(256)])
        sim.check(lib.hipGraphAddKernelNode(byref(total), graph, byref(fill), c_size_t(1), byref(second)))
        sim.check(lib.hipGraphAddMemFreeNode(byref(free), graph, byref(total), c_size_t(1), c_void_p(params.pointer)))
        read, where, kind = AllocParams(0), c_void_p(), c_int()
        sim.check(lib.hipGraphMemAllocNodeGetParams(alloc, byref(read)))
        sim.check(lib.hipGraphMemFreeNodeGetParams(free, byref(where)))
        assert (read.bytes, read.pointer, where.value) == (4096, params.pointer, params.pointer)
        for node, number in ((alloc, 10), (free, 11)):
            sim.check(lib.hipGraphNodeGetType(node, byref(kind)))
            assert kind.value == number
        executable = instantiate(sim, graph)
        for _ in range(2):
            out[:] = 0
            sim.check(lib.hipGraphLaunch(executable, None))
            sim.check(lib.hipDeviceSynchronize())
            assert out[0] == 256 * 257 // 2
        assert lib.hipFree(c_void_p(params.pointer)) == INVALID  # the free node has freed it
        sim.check(lib.hipGraphExecDestroy(executable))
        sim.check(lib.hipGraphDestroy(graph))
        assert used(sim) == before

    @pytest.mark.parametrize("destroy_first", [False, True])
    def test_memory_that_outlives_its_launch(self, sim, lib, kernel, destroy_first):
        before = used(sim)
        graph, alloc, fill = c_void_p(), c_void_p(), c_void_p()
        sim.check(lib.hipGraphCreate(byref(graph), 0))
        generic = NodeParams.of(10, AllocParams(4096))
        sim.check(lib.hipGraphAddNode(byref(alloc), graph, None, c_size_t(0), byref(generic)))
        pointer = AllocParams.from_buffer_copy(bytes(generic)[16:136]).pointer
        params = kernel_params(kernel("fill"), 4, [c_void_p(pointer), c_uint(256), c_uint(9)])
        sim.check(lib.hipGraphAddKernelNode(byref(fill), graph, byref(alloc), c_size_t(1), byref(params)))
        executable = instantiate(sim, graph)
        sim.check(lib.hipGraphLaunch(executable, None))
        sim.check(lib.hipDeviceSynchronize())

        def destroy() -> None:
            sim.check(lib.hipGraphExecDestroy(executable))
            sim.check(lib.hipGraphDestroy(graph))

        if destroy_first:
            destroy()
        np.testing.assert_array_equal(view(pointer, 256), np.arange(256) + 9)
        sim.check(lib.hipFree(c_void_p(pointer)))
        if not destroy_first:
            destroy()
        assert used(sim) == before
        assert lib.hipFree(c_void_p(pointer)) == INVALID

    def test_wrong_arguments(self, sim, lib):
        graph, node = c_void_p(), c_void_p()
        sim.check(lib.hipGraphCreate(byref(graph), 0))
        for params in (AllocParams(0), AllocParams(64, device=9)):
            assert lib.hipGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(params)) == INVALID
        assert lib.hipGraphAddMemAllocNode(byref(node), None, None, c_size_t(0), byref(AllocParams(64))) == INVALID
        assert lib.hipGraphAddMemFreeNode(byref(node), graph, None, c_size_t(0), c_void_p(4096)) == INVALID
        sim.check(lib.hipGraphDestroy(graph))


def test_nodes_of_any_kind(sim, lib, kernel):
    """hipGraphAddNode, hipGraphNodeSetParams and hipGraphExecNodeSetParams with the common kinds."""
    data, out = np.zeros(256, np.uint32), np.zeros(1, np.uint32)
    graph, fill, kern, copy, empty = (c_void_p() for _ in range(5))
    sim.check(lib.hipGraphCreate(byref(graph), 0))

    def add(node, kind, value, *after) -> None:
        deps = (c_void_p * max(1, len(after)))(*after)
        params = NodeParams.of(kind, value)
        sim.check(lib.hipGraphAddNode(byref(node), graph, deps, c_size_t(len(after)), byref(params)))

    setting = lambda v: SetParams(data.ctypes.data, 4, 1, 1024, v, 256)  # noqa: E731
    add(fill, 2, setting(3))
    add(empty, 5, None, fill)
    params = kernel_params(kernel("sum"), 1, [c_void_p(data.ctypes.data), c_void_p(out.ctypes.data), c_uint(256)])
    add(kern, 0, params, empty)
    executable = instantiate(sim, graph)

    def run(expected: int) -> None:
        sim.check(lib.hipGraphLaunch(executable, None))
        sim.check(lib.hipDeviceSynchronize())
        assert out[0] == expected

    run(768)
    sim.check(lib.hipGraphExecNodeSetParams(executable, fill, byref(NodeParams.of(2, setting(5)))))
    run(1280)
    sim.check(lib.hipGraphNodeSetParams(fill, byref(NodeParams.of(2, setting(7)))))
    run(1280)
    sim.check(lib.hipGraphExecDestroy(executable))
    executable = instantiate(sim, graph)
    run(1792)
    assert lib.hipGraphNodeSetParams(fill, byref(NodeParams.of(0, params))) == INVALID
    assert lib.hipGraphAddNode(byref(copy), graph, None, c_size_t(0), byref(NodeParams.of(8))) == NOT_SUPPORTED
    assert lib.hipGraphAddNode(byref(copy), graph, None, c_size_t(0), byref(NodeParams.of(99))) == INVALID
    value, read = c_int(3), c_int()
    sim.check(lib.hipGraphKernelNodeSetAttribute(kern, 8, byref(value)))
    sim.check(lib.hipGraphKernelNodeGetAttribute(kern, 8, byref(read)))
    assert read.value == 3
    assert lib.hipGraphKernelNodeSetAttribute(fill, 8, byref(value)) == INVALID
    assert lib.hipGraphKernelNodeGetAttribute(kern, 77, byref(read)) == INVALID
    sim.check(lib.hipGraphExecDestroy(executable))
    sim.check(lib.hipGraphDestroy(graph))


@pytest.mark.parametrize("from_file", [False, True])
def test_library(sim, lib, build_dir, tmp_path, from_file):
    image = compile_gpu(SOURCE, "gfx942", "2", build_dir)
    library, function, count, no = c_void_p(), c_void_p(), c_uint(), c_uint(0)
    if from_file:
        path = tmp_path / "kernels.hsaco"
        path.write_bytes(image)
        sim.check(lib.hipLibraryLoadFromFile(byref(library), str(path).encode(), None, None, no, None, None, no))
    else:
        sim.check(lib.hipLibraryLoadData(byref(library), image, None, None, no, None, None, no))
    sim.check(lib.hipLibraryGetKernelCount(byref(count), library))
    assert count.value == 3
    sim.check(lib.hipLibraryGetKernel(byref(function), library, b"fill"))
    out = np.zeros(64, np.uint32)
    sim.launch(function, (1,), (64,), [out, 64, 3])
    np.testing.assert_array_equal(out, np.arange(64) + 3)
    assert lib.hipLibraryGetKernel(byref(function), library, b"other") == 500
    assert lib.hipLibraryGetKernelCount(None, library) == INVALID
    sim.check(lib.hipLibraryUnload(library))
    assert lib.hipLibraryUnload(library) == 400
    assert lib.hipLibraryLoadFromFile(byref(library), b"/nowhere.hsaco", None, None, no, None, None, no) == 301
    assert lib.hipLibraryLoadData(byref(library), b"\0" * 4096, None, None, no, None, None, no) == 200


class Box(Structure):
    """hipMemcpy3DPeerParms: source, destination (array, position, pitched pointer, device), extent."""

    _fields_ = [("side", (c_uint64 * 9) * 2), ("extent", c_size_t * 3)]


def test_copies_between_devices_and_in_batches(sim, lib):
    rng = np.random.default_rng(3)
    source, target = rng.integers(0, 255, (3, 5, 16), np.uint8), np.zeros((3, 5, 32), np.uint8)
    box = Box()
    box.side[0][:] = [0, 0, 0, 0, source.ctypes.data, 16, 16, 5, 0]
    box.side[1][:] = [0, 4, 0, 0, target.ctypes.data, 32, 32, 5, 0]
    box.extent[:] = [16, 5, 3]
    sim.check(lib.hipMemcpy3DPeer(byref(box)))
    np.testing.assert_array_equal(target[:, :, 4:20], source)
    assert not target[:, :, :4].any() and not target[:, :, 20:].any()
    box.side[0][8] = 5
    assert lib.hipMemcpy3DPeerAsync(byref(box), None) == 101
    assert lib.hipMemcpy3DPeer(None) == INVALID

    parts = [rng.integers(0, 255, n, np.uint8) for n in (10, 1, 300)]
    copies = [np.zeros(300, np.uint8) for _ in range(3)]
    pointers = lambda arrays: (c_void_p * 3)(*[a.ctypes.data for a in arrays])  # noqa: E731
    sizes, failed = (c_size_t * 3)(10, 1, 300), c_size_t(77)
    arguments = [pointers(copies), pointers(parts), sizes, c_size_t(3), None, None, c_size_t(0), byref(failed), None]
    sim.check(lib.hipMemcpyBatchAsync(*arguments))
    for a, b in zip(parts, copies, strict=True):
        np.testing.assert_array_equal(b[: a.size], a)
    sizes[1] = 1 << 60
    assert lib.hipMemcpyBatchAsync(*arguments) == ILLEGAL and failed.value == 1
    arguments[3] = c_size_t(0)
    assert lib.hipMemcpyBatchAsync(*arguments) == INVALID


def test_memory_that_is_gone(sim, lib):
    """Copies and fills of freed memory are errors, also right after it was accessible."""
    host, p, pinned = np.zeros(1024, np.uint32), c_void_p(), c_void_p()
    sim.check(lib.hipMalloc(byref(p), c_size_t(4096)))
    sim.check(lib.hipHostMalloc(byref(pinned), c_size_t(4096), 0))
    at = c_void_p(host.ctypes.data)
    for memory, release in ((p, lib.hipFree), (pinned, lib.hipHostFree)):
        sim.check(lib.hipMemcpy(at, memory, c_size_t(4096), 4))
        sim.check(release(memory))
        assert lib.hipMemcpy(at, memory, c_size_t(4096), 4) == ILLEGAL
        assert lib.hipMemset(memory, 1, c_size_t(4096)) == ILLEGAL
    libc = ctypes.CDLL(None)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_size_t]
    block = libc.mmap(None, 1 << 16, 3, 0x22, -1, 0)
    sim.check(lib.hipMemcpy(at, c_void_p(block), c_size_t(4096), 4))
    libc.munmap(c_void_p(block), c_size_t(1 << 16))
    assert lib.hipMemcpy(at, c_void_p(block), c_size_t(4096), 4) == ILLEGAL
    assert lib.hipMemsetD32(c_void_p(block), 1, c_size_t(16)) == ILLEGAL


def test_sizes_that_overflow(sim, lib):
    """Products and sums of sizes beyond 64 bits are errors, not short copies."""
    data = np.zeros(64, np.uint32)
    at, huge, p, pitch = c_void_p(data.ctypes.data), c_size_t(2**64 - 8), c_void_p(), c_size_t()
    assert lib.hipMemset(at, 1, huge) == ILLEGAL and lib.hipMemcpy(at, at, huge, 3) == ILLEGAL
    assert lib.hipMemsetD32(at, 1, c_size_t(2**62)) == INVALID
    for row, width, height in ((4, 4, 2**45), (2**20, 4, 2**40), (0, 0, 2**62), (2**40, 2**40, 2**40)):
        # Nothing to set, or an error; at once, whatever the number of rows.
        code = lib.hipMemset2D(at, c_size_t(row), 1, c_size_t(width), c_size_t(height))
        assert code in (ILLEGAL, INVALID) if width else code in (0, INVALID)
    assert lib.hipMalloc(byref(p), huge) == OUT_OF_MEMORY
    assert lib.hipMallocPitch(byref(p), byref(pitch), huge, c_size_t(1)) == OUT_OF_MEMORY
    assert lib.hipMallocPitch(byref(p), byref(pitch), c_size_t(2**33), c_size_t(2**33)) == OUT_OF_MEMORY
    assert not data.any()


def test_contexts(sim, lib):
    context, current = c_void_p(), c_void_p()
    sim.check(lib.hipDevicePrimaryCtxRetain(byref(context), 0))
    sim.check(lib.hipCtxPushCurrent(context))
    sim.check(lib.hipCtxPopCurrent(byref(current)))
    assert current.value == context.value
    assert lib.hipCtxPushCurrent(None) == 201 and lib.hipDevicePrimaryCtxRelease(9) == 101
