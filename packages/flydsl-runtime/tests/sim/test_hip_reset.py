"""hipDeviceReset: what a program holds on a device goes, and using it afterwards is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from clangc import compile_gpu, find_clang
from hiplib import find_library

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

HERE = Path(__file__).parent
SOURCE = "KERNEL void fill(GLOBAL u32 *p, u32 v) { p[WG() * 64 + TID()] = v + TID(); }"

PROGRAM = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
sys.path.insert(0, sys.argv[1])
import numpy as np
from hiplib import Sim
from test_hip_memory_api import Access, Location, MB, Prop, allow, create, reserve, used, view
from pathlib import Path

sim = Sim(sys.argv[2])
lib, image, words = sim.lib, Path(sys.argv[3]).read_bytes(), 64
sim.set_arch("gfx942")
lib.hipMemAddressReserve.argtypes = [c_void_p, c_size_t, c_size_t, c_void_p, c_uint64]
lib.hipMemMap.argtypes = [c_void_p, c_size_t, c_size_t, c_uint64, c_uint64]
lib.hipMemCreate.argtypes = [c_void_p, c_size_t, c_void_p, c_uint64]
lib.hipMemSetAccess.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t]
lib.hipMemRelease.argtypes = [c_uint64]

def made(call, *arguments):
    p = c_void_p()
    sim.check(call(byref(p), *arguments))
    return p

def hold(device):
    "Some of everything on a device, each of which works."
    sim.check(lib.hipSetDevice(device))
    module = sim.load(image)
    held = {"module": module, "function": sim.function(module, "fill"), "stream": made(lib.hipStreamCreate),
            "event": made(lib.hipEventCreate), "memory": made(lib.hipMalloc, c_size_t(4 * words)),
            "pinned": made(lib.hipHostMalloc, c_size_t(4 * words), 0),
            "managed": made(lib.hipMallocManaged, c_size_t(4 * words), 1),
            "pooled": made(lib.hipMallocAsync, c_size_t(4 * words), None),
            "pool": made(lib.hipMemPoolCreate, byref(Pool(device))), "handle": create(sim, 2 * MB, device=device)}
    held["piece"] = c_void_p(reserve(sim, 2 * MB))
    sim.check(lib.hipMemMap(held["piece"], 2 * MB, 0, held["handle"], 0))
    sim.check(lib.hipMemSetAccess(held["piece"], 2 * MB, byref(Access(Location(1, device), 3)), 1))
    works(held, device)
    return held

class Pool(ctypes.Structure):
    _fields_ = [("kind", c_int), ("handle", c_int), ("location", Location), ("rest", ctypes.c_char * 72)]
    def __init__(self, device):
        super().__init__(1, 0, Location(1, device))

def works(held, device):
    sim.check(lib.hipSetDevice(device))
    for name in ("memory", "pinned", "managed", "pooled", "piece"):
        sim.check(lib.hipMemset(held[name], 0xEE, c_size_t(4 * words)))
        sim.launch(held["function"], (1,), (64,), [held[name], 7], stream=held["stream"])
        sim.check(lib.hipStreamSynchronize(held["stream"]))
        np.testing.assert_array_equal(view(held[name].value, words), np.arange(64) + 7)
    sim.check(lib.hipEventRecord(held["event"], held["stream"]))
    sim.check(lib.hipEventSynchronize(held["event"]))

def gone(held):
    host = np.zeros(words, np.uint32)
    fails = lambda code: code != 0 or sys.exit("a call succeeds")
    for name in ("memory", "pinned", "managed", "pooled", "piece"):
        fails(lib.hipMemcpy(c_void_p(host.ctypes.data), held[name], c_size_t(4 * words), 4))
        fails(lib.hipMemset(held[name], 0, c_size_t(4 * words)))
        if name != "piece":
            fails(lib.hipFree(held[name]))
    for call in (lib.hipStreamSynchronize, lib.hipStreamQuery, lib.hipStreamDestroy):
        fails(call(held["stream"]))
    for call in (lib.hipEventSynchronize, lib.hipEventQuery, lib.hipEventDestroy):
        fails(call(held["event"]))
    fails(lib.hipEventRecord(held["event"], None))
    fails(lib.hipModuleGetFunction(byref(c_void_p()), held["module"], b"fill"))
    fails(lib.hipModuleUnload(held["module"]))
    fails(lib.hipModuleLaunchKernel(held["function"], 1, 1, 1, 64, 1, 1, 0, None, (c_void_p * 2)(), None))
    fails(lib.hipMemRelease(held["handle"]))
    fails(lib.hipMallocFromPoolAsync(byref(c_void_p()), c_size_t(64), held["pool"], None))

def reset_current():
    sim.check(lib.hipSetDevice(0))
    return lib.hipDeviceReset()

before = used(sim)
for reset in (reset_current, lambda: lib.hipDevicePrimaryCtxReset(0)):
    first, second = hold(0), hold(1)
    sim.check(reset())
    gone(first)
    works(second, 1)
    sim.check(reset())
    again = hold(0)  # the device is as good as new
    works(again, 0)
    sim.check(lib.hipSetDevice(1))
    sim.check(lib.hipDeviceReset())
    gone(second)
    works(again, 0)
assert lib.hipDevicePrimaryCtxReset(2) == 101
sim.check(reset_current())
assert used(sim) - before < MB, used(sim) - before  # arguments of launches stay
print("fine")
"""


def test_reset(sim, build_dir, tmp_path):
    image = tmp_path / "fill.hsaco"
    image.write_bytes(compile_gpu(SOURCE, "gfx942", "2", build_dir))
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(HERE), str(find_library()), str(image)],
                          env={**os.environ, "FLYDSL_SIM_DEVICES": "2"}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
