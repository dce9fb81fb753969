"""The codes that HIP documents for arguments that mean nothing, one call a line."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble

VALUE, CONFIGURATION, PITCH, DIRECTION, DEVICE, HANDLE, NOT_FOUND = 1, 9, 12, 21, 101, 400, 500
BAD = c_void_p(0x1234)   # no handle of anything
KINDS = (-1, 5, 1000)


@pytest.fixture(scope="module")
def made(sim, build_dir):
    """What calls need that are wrong in one thing only: by name."""
    sim.set_arch("gfx942")
    lib, text = sim.lib, module_text("gfx942", [Program("k", "  s_endpgm\n", 1, 2, 1)], 64)
    stream, event, untimed = c_void_p(), c_void_p(), c_void_p()
    sim.check(lib.hipStreamCreate(byref(stream)))
    sim.check(lib.hipEventCreate(byref(event)))
    sim.check(lib.hipEventCreateWithFlags(byref(untimed), c_uint(2)))
    module = sim.load(assemble(text, "gfx942", build_dir))
    host = c_void_p()
    sim.check(lib.hipHostMalloc(byref(host), c_size_t(4096), c_uint(0)))
    rows = np.full((16, 64), 0xA5, np.uint8)
    yield {"stream": stream, "event": event, "untimed": untimed, "module": module,
           "function": sim.function(module, "k"), "rows": rows, "at": c_void_p(rows.ctypes.data), "host": host,
           "out": c_void_p(), "devices": _devices(lib)}
    for release, handle in ((lib.hipStreamDestroy, stream), (lib.hipEventDestroy, event),
                            (lib.hipEventDestroy, untimed), (lib.hipModuleUnload, module), (lib.hipHostFree, host)):
        sim.check(release(handle))


def _devices(lib) -> int:
    count = c_int()
    lib.hipGetDeviceCount(byref(count))
    return count.value


def _copies(m):
    at, size = m["at"], c_size_t
    for name, stream in (("hipMemcpy2D", ()), ("hipMemcpy2DAsync", (m["stream"],))):
        yield PITCH, name, at, size(31), at, size(64), size(32), size(4), 3, *stream
        yield PITCH, name, at, size(64), at, size(31), size(32), size(4), 3, *stream
        yield PITCH, name, at, size(0), at, size(0), size(32), size(1), 3, *stream
        yield VALUE, name, None, size(64), at, size(64), size(32), size(4), 3, *stream
        yield VALUE, name, at, size(64), None, size(64), size(32), size(4), 3, *stream
        for kind in KINDS:
            yield DIRECTION, name, at, size(64), at, size(64), size(32), size(4), kind, *stream
        yield 0, name, at, size(64), at, size(64), size(0), size(4), 3, *stream
        yield 0, name, at, size(64), at, size(64), size(32), size(0), 3, *stream
    yield HANDLE, "hipMemcpy2DAsync", at, size(64), at, size(64), size(32), size(4), 3, BAD
    for name, stream in (("hipMemcpy", ()), ("hipMemcpyAsync", (m["stream"],))):
        yield VALUE, name, None, at, size(4), 3, *stream
        yield VALUE, name, at, None, size(4), 3, *stream
        yield 0, name, None, None, size(0), 3, *stream
        for kind in KINDS:
            yield DIRECTION, name, at, at, size(4), kind, *stream
    yield HANDLE, "hipMemcpyAsync", at, at, size(4), 3, BAD
    for name, stream in (("hipMemcpyPeer", ()), ("hipMemcpyPeerAsync", (m["stream"],))):
        for to, source in ((-1, 0), (0, m["devices"])):
            yield DEVICE, name, at, to, at, source, size(4), *stream
        yield VALUE, name, None, 0, at, 0, size(4), *stream
    yield VALUE, "hipMemset", None, 0, size(4)
    yield 0, "hipMemset", at, 0, size(0)
    yield VALUE, "hipMemset2D", at, size(16), 0, size(32), size(4)
    yield HANDLE, "hipMemsetAsync", at, 0, size(4), BAD
    for name in ("hipMemcpy3D", "hipMemcpyParam2D", "hipDrvMemcpy3D"):
        yield VALUE, name, None


def _handles(m):
    out, flags, ms = byref(m["out"]), c_uint(), c_float()
    yield VALUE, "hipStreamCreate", None
    yield VALUE, "hipStreamCreateWithFlags", out, c_uint(2)
    yield VALUE, "hipStreamIsCapturing", m["stream"], None
    yield VALUE, "hipStreamEndCapture", m["stream"], None
    yield VALUE, "hipGraphCreate", out, c_uint(1)
    for name in ("hipStreamDestroy", "hipStreamSynchronize", "hipStreamQuery"):
        yield HANDLE, name, BAD
    for name in ("hipStreamGetFlags", "hipStreamGetPriority", "hipStreamGetDevice", "hipStreamGetId"):
        yield VALUE, name, m["stream"], None
        yield HANDLE, name, BAD, out
    yield HANDLE, "hipStreamWaitEvent", m["stream"], BAD, c_uint(0)
    yield HANDLE, "hipStreamWaitEvent", BAD, m["event"], c_uint(0)
    yield VALUE, "hipEventCreate", None
    for wrong in (8, 4, 0xC0000002):  # unknown; between processes, with timing; released to device and system
        yield VALUE, "hipEventCreateWithFlags", out, c_uint(wrong)
    for name in ("hipEventDestroy", "hipEventSynchronize", "hipEventQuery"):
        yield HANDLE, name, BAD
        yield HANDLE, name, None
    yield HANDLE, "hipEventRecord", BAD, m["stream"]
    yield HANDLE, "hipEventRecord", m["event"], BAD
    yield VALUE, "hipEventElapsedTime", None, m["event"], m["event"]
    yield HANDLE, "hipEventElapsedTime", byref(ms), BAD, m["event"]
    yield HANDLE, "hipEventElapsedTime", byref(ms), m["event"], m["event"]  # never recorded
    yield HANDLE, "hipEventElapsedTime", byref(ms), m["untimed"], m["untimed"]
    yield VALUE, "hipModuleLoad", out, None
    yield VALUE, "hipModuleLoad", None, c_char_p(b"/nowhere")
    yield 301, "hipModuleLoad", out, c_char_p(b"/nowhere")
    yield VALUE, "hipModuleLoadData", out, None
    yield HANDLE, "hipModuleUnload", BAD
    yield VALUE, "hipModuleGetFunction", None, m["module"], c_char_p(b"k")
    yield VALUE, "hipModuleGetFunction", out, m["module"], None
    yield HANDLE, "hipModuleGetFunction", out, BAD, c_char_p(b"k")
    yield NOT_FOUND, "hipModuleGetFunction", out, m["module"], c_char_p(b"other")
    yield VALUE, "hipModuleGetFunctionCount", None, m["module"]
    yield HANDLE, "hipModuleGetFunctionCount", byref(flags), BAD
    yield VALUE, "hipModuleGetGlobal", out, None, m["module"], None
    yield HANDLE, "hipModuleGetGlobal", out, None, BAD, c_char_p(b"g")
    yield NOT_FOUND, "hipModuleGetGlobal", out, None, m["module"], c_char_p(b"g")
    one = (1, 1, 1, 64, 1, 1, 0)
    yield HANDLE, "hipModuleLaunchKernel", BAD, *one, None, None, None
    yield HANDLE, "hipModuleLaunchKernel", m["function"], *one, BAD, None, None
    for sizes in ((1 << 26, 1, 1, 64), (1, 1 << 26, 1, 1, 64), (1 << 31, 1 << 31, 4, 1)):  # work-items, work-groups
        sizes = [c_uint(n) for n in (*sizes, 1, 1, 0)[:7]]
        yield CONFIGURATION, "hipModuleLaunchKernel", m["function"], *sizes, None, None, None


def _devices_and_memory(m):
    none, out, number = m["devices"], byref(m["out"]), c_int()
    name = ctypes.create_string_buffer(64)
    for device in (-1, none):
        yield DEVICE, "hipSetDevice", device
        yield DEVICE, "hipDeviceGet", byref(number), device
        yield DEVICE, "hipDeviceGetAttribute", byref(number), 1, device
        yield DEVICE, "hipDeviceGetName", name, 64, device
        yield DEVICE, "hipDeviceGetPCIBusId", name, 64, device
        yield DEVICE, "hipDeviceGetUuid", name, device
        yield DEVICE, "hipDeviceTotalMem", out, device
        yield DEVICE, "hipDeviceCanAccessPeer", byref(number), 0, device
        yield DEVICE, "hipDevicePrimaryCtxRetain", out, device
        yield DEVICE, "hipDevicePrimaryCtxSetFlags", device, c_uint(0)
    for call in ("hipGetDevice", "hipGetDeviceCount", "hipDriverGetVersion", "hipRuntimeGetVersion"):
        yield VALUE, call, None
    yield VALUE, "hipDeviceGetAttribute", None, 1, 0
    yield VALUE, "hipDeviceGetAttribute", byref(number), 99999, 0
    yield VALUE, "hipDeviceGetName", None, 64, 0
    yield VALUE, "hipDeviceGetPCIBusId", name, 0, 0
    yield VALUE, "hipDeviceGetPCIBusId", name, 12, 0
    yield 0, "hipDeviceGetPCIBusId", name, 13, 0
    for wrong in (3, 6, 32):  # two schedules; unknown
        yield VALUE, "hipSetDeviceFlags", c_uint(wrong)
    yield VALUE, "hipDeviceGetUuid", None, 0
    yield VALUE, "hipDeviceGetByPCIBusId", None, c_char_p(b"0:0:0")
    yield DEVICE, "hipDeviceGetByPCIBusId", byref(number), c_char_p(b"0:7:0")
    yield VALUE, "hipDeviceTotalMem", None, 0
    yield VALUE, "hipDeviceCanAccessPeer", None, 0, 0
    yield VALUE, "hipMalloc", None, c_size_t(64)
    yield 0, "hipFree", None
    yield VALUE, "hipFree", BAD
    yield HANDLE, "hipFreeAsync", None, BAD
    yield VALUE, "hipFreeAsync", None, m["stream"]
    yield VALUE, "hipMallocManaged", out, c_size_t(64), c_uint(3)
    yield VALUE, "hipHostMalloc", out, c_size_t(64), c_uint(0xC0000000)
    yield VALUE, "hipHostGetDevicePointer", out, m["host"], c_uint(1)
    yield VALUE, "hipHostGetDevicePointer", None, m["host"], c_uint(0)
    yield VALUE, "hipHostRegister", None, c_size_t(64), c_uint(0)
    yield VALUE, "hipHostRegister", m["at"], c_size_t(64), c_uint(0x10)
    yield 713, "hipHostUnregister", m["at"]
    yield VALUE, "hipPointerGetAttributes", None, m["host"]
    yield NOT_FOUND, "hipMemGetAddressRange", out, None, BAD


@pytest.mark.parametrize("calls", [_copies, _handles, _devices_and_memory])
def test_codes_of_calls_that_are_wrong_in_one_thing(sim, made, calls):
    """Each call says what is wrong with the code that HIP documents, and changes no memory."""
    before = made["rows"].copy()
    wrong = []
    for expected, name, *arguments in calls(made):
        code = getattr(sim.lib, name)(*arguments)
        if code != expected:
            wrong.append((name, arguments, code, expected))
    assert wrong == []
    np.testing.assert_array_equal(made["rows"], before)


def test_a_capture_ends_with_its_stream(sim):
    """What must not be called meanwhile may be called again, also where another thread has destroyed the stream."""
    lib, memory = sim.lib, c_void_p()
    for mode, elsewhere in ((0, False), (1, False), (0, True), (1, True)):
        stream = c_void_p()
        sim.check(lib.hipStreamCreateWithFlags(byref(stream), c_uint(1)))
        sim.check(lib.hipStreamBeginCapture(stream, mode))
        assert lib.hipMalloc(byref(memory), c_size_t(64)) == 900
        if elsewhere:
            with ThreadPoolExecutor() as pool:
                assert pool.submit(lib.hipStreamDestroy, stream).result() == 0
        else:
            sim.check(lib.hipStreamDestroy(stream))
        sim.check(lib.hipMalloc(byref(memory), c_size_t(64)))
        sim.check(lib.hipFree(memory))


def test_copies_beyond_an_allocation(sim):
    """They are invalid values, as in HIP, and nothing is copied; also when a graph or a stream would do it."""
    lib, size, host, p, node = sim.lib, 4096, np.arange(2048, dtype=np.uint32), c_void_p(), c_void_p()
    sim.check(lib.hipMalloc(byref(p), c_size_t(size)))
    sim.check(lib.hipMemset(p, 0xEE, c_size_t(size)))
    device = np.ctypeslib.as_array((c_uint * (size // 4)).from_address(p.value))
    at, behind = c_void_p(host.ctypes.data), c_void_p(p.value + size - 8)
    graph, stream = c_void_p(), c_void_p()
    sim.check(lib.hipGraphCreate(byref(graph), 0))
    sim.check(lib.hipStreamCreate(byref(stream)))
    rows = [c_size_t(n) for n in (1024, 256, 5)]  # of the fifth, nothing is left
    beyond = [lib.hipMemcpy(p, at, c_size_t(size + 1), 1), lib.hipMemcpy(at, p, c_size_t(size + 1), 2),
              lib.hipMemcpy(behind, at, c_size_t(9), 4), lib.hipMemset(behind, 0, c_size_t(9)),
              lib.hipMemcpyAsync(p, at, c_size_t(size + 1), 1, stream),
              lib.hipMemsetD32(p, 1, c_size_t(size // 4 + 1)),
              lib.hipMemset2D(p, rows[0], 0, rows[1], rows[2]),
              lib.hipMemcpy2D(p, rows[0], at, rows[0], rows[1], rows[2], 1),
              lib.hipGraphAddMemcpyNode1D(byref(node), graph, None, c_size_t(0), p, at, c_size_t(size + 1), 1)]
    assert beyond == [VALUE] * len(beyond)
    assert (device == 0xEEEEEEEE).all() and (host == np.arange(2048)).all()
    rows[2] = c_size_t(4)
    for code in (lib.hipMemcpy(p, at, c_size_t(size), 1), lib.hipMemset(behind, 0, c_size_t(8)),
                 lib.hipMemcpy2D(p, rows[0], at, rows[0], rows[1], rows[2], 1),
                 lib.hipStreamDestroy(stream), lib.hipGraphDestroy(graph), lib.hipFree(p)):
        sim.check(code)
