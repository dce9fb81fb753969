"""What programs compiled as HIP call: registered kernels and variables, all launches, per-thread streams."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint, c_uint32, c_void_p

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
GLOBAL u32 table[64] __attribute__((visibility("protected")));
GLOBAL u32 *GLOBAL shared __attribute__((visibility("protected")));
KERNEL void fill(GLOBAL u32 *p, u32 v) { p[WG() * 64 + TID()] = v + WG() * 64 + TID(); }
KERNEL void read_table(GLOBAL u32 *p) { p[TID()] = ((volatile GLOBAL u32 *)table)[TID()]; }
KERNEL void add_shared(u32 v) { shared[TID()] += v; }
"""
INVALID, INVALID_DEVICE, INVALID_HANDLE, TOO_LARGE = 1, 101, 400, 720


@pytest.fixture(autouse=True)
def host_memory(monkeypatch):
    """These programs give kernels NumPy arrays that HIP has neither allocated nor registered."""
    monkeypatch.setenv("FLYDSL_SIM_HOST_MEMORY", "mapped")


class Dim3(Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


class Wrapper(Structure):
    """What the compiler puts around a fat binary."""

    _fields_ = [("magic", c_uint32), ("version", c_uint32), ("image", c_void_p), ("unused", c_void_p)]


class Program:
    """A registered program: symbols are the addresses of bytes of `host`."""

    def __init__(self, sim, image: bytes) -> None:
        self.sim, self.lib, self.host = sim, sim.lib, ctypes.create_string_buffer(64)
        self.image = ctypes.create_string_buffer(image, len(image))
        self.wrapper = Wrapper(0x48495046, 1, ctypes.addressof(self.image), None)
        self.lib.__getattr__("__hipRegisterFatBinary").restype = c_void_p
        self.handle = c_void_p(getattr(self.lib, "__hipRegisterFatBinary")(byref(self.wrapper)))
        self.count = 0

    def symbol(self) -> c_void_p:
        self.count += 1
        return c_void_p(ctypes.addressof(self.host) + self.count)

    def kernel(self, name: str) -> c_void_p:
        host = self.symbol()
        rest = [None] * 5
        getattr(self.lib, "__hipRegisterFunction")(self.handle, host, None, name.encode(), c_uint(0), *rest)
        return host

    def variable(self, name: str, size: int) -> c_void_p:
        host = self.symbol()
        no = c_int(0)
        getattr(self.lib, "__hipRegisterVar")(self.handle, host, None, name.encode(), no, c_size_t(size), no, no)
        return host


@pytest.fixture
def program(sim, build_dir):
    sim.set_arch("gfx942")
    registered = Program(sim, compile_gpu(SOURCE, "gfx942", "2", build_dir))
    yield registered
    getattr(sim.lib, "__hipUnregisterFatBinary")(registered.handle)


def arguments(*values):
    array = (c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    array.keep = values
    return array


ONE, WAVE = Dim3(1, 1, 1), Dim3(64, 1, 1)


@pytest.mark.parametrize("name", ["hipLaunchKernel", "hipLaunchKernel_spt", "hipExtLaunchKernel"])
def test_launches(sim, program, name):
    fill, out = program.kernel("fill"), np.zeros(192, np.uint32)
    values = arguments(c_void_p(out.ctypes.data), c_uint(7))
    rest = []
    if name == "hipExtLaunchKernel":
        start, stop = c_void_p(), c_void_p()
        for event in (start, stop):
            sim.check(sim.lib.hipEventCreate(byref(event)))
        rest = [start, stop, c_int(0)]
    launch = getattr(sim.lib, name)
    sim.check(launch(fill, Dim3(3, 1, 1), WAVE, values, c_size_t(0), None, *rest))
    sim.check(sim.lib.hipDeviceSynchronize())
    np.testing.assert_array_equal(out, np.arange(192) + 7)
    if rest:
        elapsed = ctypes.c_float(-1)
        sim.check(sim.lib.hipEventElapsedTime(byref(elapsed), start, stop))
        assert elapsed.value >= 0
        bad = [c_void_p(out.ctypes.data), None, c_int(0)]
        assert launch(fill, ONE, WAVE, values, c_size_t(0), None, *bad) == INVALID_HANDLE
    assert launch(c_void_p(12345), ONE, WAVE, values, c_size_t(0), None, *rest) == INVALID_HANDLE


def test_a_cooperative_launch_runs_at_once(sim, program):
    """The largest has the work-groups that occupancy gives each compute unit."""
    fill, groups, units = program.kernel("fill"), c_int(), c_int()
    sim.check(sim.lib.hipOccupancyMaxActiveBlocksPerMultiprocessor(byref(groups), fill, 1024, c_size_t(40960)))
    sim.check(sim.lib.hipDeviceGetAttribute(byref(units), 63, 0))
    most = groups.value * units.value
    assert 0 < most <= 512
    out = np.zeros((most + 1) * 1024, np.uint32)
    values = arguments(c_void_p(out.ctypes.data), c_uint(1))
    wide, lds = Dim3(1024, 1, 1), c_size_t(40960)
    launch = sim.lib.hipLaunchCooperativeKernel
    sim.check(launch(fill, Dim3(most, 1, 1), wide, values, c_uint(40960), None))
    sim.check(sim.lib.hipDeviceSynchronize())
    assert out[0] == 1
    assert launch(fill, Dim3(most + 1, 1, 1), wide, values, c_uint(40960), None) == TOO_LARGE
    assert f"at most {most} of them at once" in sim.lib.flysimLastErrorMessage().decode()
    sim.check(sim.lib.hipLaunchKernel(fill, Dim3(most + 1, 1, 1), wide, values, lds, None))
    sim.check(sim.lib.hipDeviceSynchronize())


def test_arguments_one_by_one(sim, program):
    fill, out = program.kernel("fill"), np.zeros(64, np.uint32)
    lib, pointer, value = sim.lib, c_void_p(out.ctypes.data), c_uint(5)
    sim.check(lib.hipConfigureCall(ONE, WAVE, c_size_t(0), None))
    sim.check(lib.hipSetupArgument(byref(pointer), c_size_t(8), c_size_t(0)))
    sim.check(lib.hipSetupArgument(byref(value), c_size_t(4), c_size_t(8)))
    sim.check(lib.hipLaunchByPtr(fill))
    np.testing.assert_array_equal(out, np.arange(64) + 5)
    assert lib.hipLaunchByPtr(fill) == 401  # the configuration was used
    assert lib.hipSetupArgument(None, c_size_t(8), c_size_t(0)) == INVALID
    assert lib.hipSetupArgument(byref(value), c_size_t(2**63), c_size_t(2**63)) == INVALID


def test_symbols_in_graphs(sim, program):
    """Copies to and from a variable of the device, as nodes, changed afterwards."""
    table, kernel = program.variable("table", 256), program.kernel("read_table")
    lib, zero = sim.lib, c_size_t(0)
    first, second = np.arange(64, dtype=np.uint32), np.arange(64, dtype=np.uint32) * 3
    out, back = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    at = lambda array: c_void_p(array.ctypes.data)  # noqa: E731
    graph, to, read, executable = (c_void_p() for _ in range(4))
    sim.check(lib.hipGraphCreate(byref(graph), 0))
    sim.check(lib.hipGraphAddMemcpyNodeToSymbol(byref(to), graph, None, zero, table, at(first), c_size_t(256), zero, 1))
    sim.check(lib.hipGraphAddMemcpyNodeFromSymbol(byref(read), graph, byref(to), c_size_t(1), at(back), table,
                                                  c_size_t(128), c_size_t(128), 2))
    sim.check(lib.hipGraphInstantiate(byref(executable), graph, None, None, zero))

    def run(expected) -> None:
        sim.check(lib.hipGraphLaunch(executable, None))
        values = arguments(c_void_p(out.ctypes.data))
        sim.check(lib.hipLaunchKernel(kernel, ONE, WAVE, values, zero, None))
        sim.check(lib.hipDeviceSynchronize())
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(back[:32], expected[32:])

    run(first)
    sim.check(lib.hipGraphExecMemcpyNodeSetParamsToSymbol(executable, to, table, at(second), c_size_t(256), zero, 1))
    run(second)
    sim.check(lib.hipGraphMemcpyNodeSetParamsFromSymbol(read, at(back), table, c_size_t(4), zero, 2))
    for size, offset in ((257, 0), (4, 256), (2**63, 2**63)):
        part = [c_size_t(size), c_size_t(offset)]
        assert lib.hipGraphMemcpyNodeSetParamsToSymbol(to, table, at(first), *part, 1) == INVALID
    assert lib.hipGraphMemcpyNodeSetParamsToSymbol(to, at(first), at(first), c_size_t(4), zero, 1) != 0
    sim.check(lib.hipGraphExecDestroy(executable))
    sim.check(lib.hipGraphDestroy(graph))


def test_managed_variable(sim, program):
    """Host and device see the same memory through a managed variable."""
    initial, pointer = (c_uint * 64)(*range(64)), POINTER(c_uint)()
    add, four = program.kernel("add_shared"), c_uint(4)
    register = getattr(sim.lib, "__hipRegisterManagedVar")
    register(program.handle, byref(pointer), initial, b"shared", c_size_t(256), four)
    pointer[3] = 100
    sim.check(sim.lib.hipLaunchKernel(add, ONE, WAVE, arguments(c_uint(5)), c_size_t(0), None))
    sim.check(sim.lib.hipDeviceSynchronize())
    assert pointer[0] == 5 and pointer[3] == 105 and pointer[63] == 68
    sim.check(sim.lib.hipFree(pointer))


def test_advice_about_managed_memory(sim):
    sim.set_arch("gfx942")
    lib, p, size = sim.lib, c_void_p(), c_size_t(8192)
    sim.check(lib.hipMallocManaged(byref(p), size, 1))

    def attribute(which: int, words: int = 1):
        values = (c_int * words)(*[77] * words)
        sim.check(lib.hipMemRangeGetAttribute(values, c_size_t(4 * words), which, p, size))
        return list(values) if words > 1 else values[0]

    assert [attribute(n) for n in (1, 2, 4, 100)] == [0, -2, -2, 0]
    for advice, device in ((1, 0), (3, -1), (5, 0), (100, 0)):
        sim.check(lib.hipMemAdvise(p, size, advice, device))
    sim.check(lib.hipMemPrefetchAsync(p, size, 0, None))
    assert [attribute(n) for n in (1, 2, 4, 100)] == [1, -1, 0, 1] and attribute(3, 3) == [0, -2, -2]
    for advice, device in ((2, 0), (4, 0), (6, 0), (101, 0)):
        sim.check(lib.hipMemAdvise(p, size, advice, device))
    data = (c_void_p * 2)()
    values = (c_int * 2)(9, 9)
    data[0], data[1] = ctypes.addressof(values), ctypes.addressof(values) + 4
    sim.check(lib.hipMemRangeGetAttributes(data, (c_size_t * 2)(4, 4), (c_int * 2)(1, 2), c_size_t(2), p, size))
    assert list(values) == [0, -2]
    inside = c_void_p(p.value + 4096)
    assert lib.hipMemAdvise(inside, size, 1, 0) == INVALID  # goes beyond the end
    assert lib.hipMemAdvise(p, size, 55, 0) == INVALID and lib.hipMemAdvise(None, size, 1, 0) == INVALID
    assert lib.hipMemAdvise(p, size, 3, 44) == INVALID_DEVICE
    assert lib.hipMemPrefetchAsync(p, size, 44, None) == INVALID_DEVICE
    assert lib.hipMemPrefetchAsync(p, c_size_t(0), 0, None) == INVALID
    assert lib.hipMemRangeGetAttribute(values, c_size_t(3), 1, p, size) == INVALID
    plain = c_void_p()
    sim.check(lib.hipMalloc(byref(plain), size))
    assert lib.hipMemAdvise(plain, size, 1, 0) == INVALID
    for memory in (p, plain):
        sim.check(lib.hipFree(memory))


def test_streams_of_threads(sim):
    """The _spt forms take the null stream as that of the thread; hipGetProcAddress_spt prefers them."""
    sim.set_arch("gfx942")
    lib, data, event = sim.lib, np.zeros(64, np.uint32), c_void_p()
    sim.check(lib.hipMemsetAsync_spt(c_void_p(data.ctypes.data), 1, c_size_t(256), None))
    sim.check(lib.hipStreamSynchronize_spt(None))
    assert (data == 0x01010101).all()
    copy = np.zeros(64, np.uint32)
    sim.check(lib.hipMemcpy_spt(c_void_p(copy.ctypes.data), c_void_p(data.ctypes.data), c_size_t(256), 4))
    np.testing.assert_array_equal(copy, data)
    sim.check(lib.hipEventCreate(byref(event)))
    sim.check(lib.hipEventRecord_spt(event, None))
    sim.check(lib.hipStreamWaitEvent_spt(None, event, 0))
    sim.check(lib.hipStreamQuery_spt(None))
    assert lib.hipStreamQuery_spt(c_void_p(data.ctypes.data)) == INVALID_HANDLE
    found, plain = c_void_p(), c_void_p()
    sim.check(lib.hipGetProcAddress_spt(b"hipMemcpyAsync", byref(found), 7, ctypes.c_uint64(0), None))
    sim.check(lib.hipGetProcAddress(b"hipMemcpyAsync_spt", byref(plain), 7, ctypes.c_uint64(0), None))
    assert found.value == plain.value
    sim.check(lib.hipEventDestroy(event))


def test_fills_of_pitched_memory(sim):
    sim.set_arch("gfx942")
    for bits, dtype, value in ((8, np.uint8, 0x5A), (16, np.uint16, 0xBEEF), (32, np.uint32, 0xDEADBEEF)):
        for form in ("", "Async"):
            data = np.zeros((5, 48), dtype)
            call = getattr(sim.lib, f"hipMemsetD2D{bits}{form}")
            rest = [None] if form else []
            pitch, width, height = (c_size_t(n) for n in (48 * data.itemsize, 30, 4))
            sim.check(call(c_void_p(data.ctypes.data), pitch, c_uint(value), width, height, *rest))
            sim.check(sim.lib.hipDeviceSynchronize())
            assert (data[:4, :30] == value).all() and not data[4].any() and not data[:, 30:].any()
            with pytest.raises(SimError):
                sim.check(call(None, pitch, c_uint(value), width, height, *rest))
