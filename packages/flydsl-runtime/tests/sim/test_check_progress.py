"""Work-groups that wait for each other make progress while they are checked, in either schedule."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError, find_library

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

HERE = Path(__file__).parent
LIMIT = 60.0  # seconds on a busy machine; each of these takes well under one alone

SOURCE = """
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); } while (0)
#define LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
static LDS u32 total[256] __attribute__((loader_uninitialized));

/* A grid barrier between two phases: every work-group reads what the next one wrote before. */
KERNEL void grid_barrier(GLOBAL u32 *arrived, GLOBAL u32 *data, GLOBAL u32 *out, u32 groups) {
  u32 t = TID(), g = WG();
  data[g * 256 + t] = g * 1000 + t;
  SYNC();
  if (t == 0) {
    __atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
    while (LOAD(arrived) < groups) PAUSE;
  }
  SYNC();
  out[g * 256 + t] = data[(g + 1) % groups * 256 + 255 - t];
}
/* The same without waiting at the barrier. */
KERNEL void no_barrier(GLOBAL u32 *arrived, GLOBAL u32 *data, GLOBAL u32 *out, u32 groups) {
  u32 t = TID(), g = WG();
  data[g * 256 + t] = g * 1000 + t;
  SYNC();
  if (t == 0) __atomic_fetch_add(arrived, 0, __ATOMIC_RELAXED);
  out[g * 256 + t] = data[(g + 1) % groups * 256 + 255 - t];
}
/* Stream-K: work-group g adds the part of work-group g + 1, which comes later in the grid. */
KERNEL void stream_k(GLOBAL u32 *ready, GLOBAL u32 *parts, GLOBAL u32 *out, u32 groups) {
  u32 t = TID(), g = WG();
  total[t] = (g + 1) * t;
  SYNC();
  u32 sum = total[255 - t];
  if (g + 1 < groups) {
    if (t == 0) while (LOAD(&ready[g + 1]) == 0) PAUSE;
    SYNC();
    sum += parts[(g + 1) * 256 + t];
  }
  parts[g * 256 + t] = sum;
  SYNC();
  if (t == 0) __atomic_store_n(&ready[g], 1, __ATOMIC_RELEASE);
  if (g == 0) out[t] = sum;
}
/* Every work-group of a device tells the other device, then waits for its work-groups and reads their data. */
KERNEL void exchange(GLOBAL u32 *mine, GLOBAL u32 *theirs, GLOBAL u32 *data, GLOBAL u32 *other, GLOBAL u32 *out,
                     u32 device, u32 groups) {
  u32 t = TID(), g = WG();
  data[g * 256 + t] = (device + 1) * 100000 + g * 256 + t;
  SYNC();
  if (t == 0) {
    __scoped_atomic_fetch_add(theirs, 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
    while (__scoped_atomic_load_n(mine, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_SYSTEM) < groups) PAUSE;
  }
  SYNC();
  out[g * 256 + t] = other[(groups - 1 - g) * 256 + t];
}
"""
CHECKS = ["race", "uninit", "oob", "race,uninit,oob,barrier"]
SCHEDULES = [None, "random:5"]


def source(pause: bool) -> str:
    return SOURCE.replace("PAUSE", "__builtin_amdgcn_s_sleep(1)" if pause else "")


@pytest.fixture(params=["gfx942", "gfx1250"])
def arch(request, sim):
    sim.set_arch(request.param)
    return request.param


@pytest.fixture(params=CHECKS)
def checked(request, monkeypatch):
    monkeypatch.setenv("FLYDSL_SIM_CHECK", request.param)


@pytest.fixture(params=SCHEDULES)
def schedule(request, monkeypatch):
    if request.param:
        monkeypatch.setenv("FLYDSL_SIM_SCHED", request.param)


@pytest.mark.parametrize("pause", [True, False])
def test_grid_barrier(sim, build_dir, arch, checked, schedule, pause):
    groups, start = 12, time.perf_counter()
    arrived, data, out = np.zeros(1, np.uint32), np.zeros(groups * 256, np.uint32), np.zeros(groups * 256, np.uint32)
    image = compile_gpu(source(pause), arch, "2", build_dir)
    sim.run(image, "grid_barrier", (groups,), (256,), [arrived, data, out, groups])
    g, t = np.divmod(np.arange(groups * 256), 256)
    np.testing.assert_array_equal(out, (g + 1) % groups * 1000 + 255 - t)
    assert time.perf_counter() - start < LIMIT


@pytest.mark.parametrize("pause", [True, False])
def test_stream_k(sim, build_dir, arch, checked, schedule, pause):
    groups, start = 10, time.perf_counter()
    ready, parts, out = np.zeros(groups, np.uint32), np.zeros(groups * 256, np.uint32), np.zeros(256, np.uint32)
    image = compile_gpu(source(pause), arch, "2", build_dir)
    sim.run(image, "stream_k", (groups,), (256,), [ready, parts, out, groups])
    np.testing.assert_array_equal(out, groups * (groups + 1) // 2 * (255 - np.arange(256)))
    assert time.perf_counter() - start < LIMIT


def test_a_missing_grid_barrier_is_a_race(sim, build_dir, arch, schedule, monkeypatch):
    """The interleaved work-groups are still told apart."""
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "race")
    arrays = [np.zeros(1, np.uint32), np.zeros(12 * 256, np.uint32), np.zeros(12 * 256, np.uint32), 12]
    with pytest.raises(SimError, match="check race: .*no atomic operation that orders the work-groups"):
        sim.run(compile_gpu(source(True), arch, "2", build_dir), "no_barrier", (12,), (256,), arrays)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
def test_signals_where_stores_have_no_scope(sim, build_dir, arch, monkeypatch):
    """There an atomic store has the code of a plain one: what an atomic load takes it for decides."""
    sim.set_arch(arch)
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "race")
    image, groups = compile_gpu(source(True), arch, "2", build_dir), 10
    ready, parts, out = np.zeros(groups, np.uint32), np.zeros(groups * 256, np.uint32), np.zeros(256, np.uint32)
    sim.run(image, "stream_k", (groups,), (256,), [ready, parts, out, groups])
    np.testing.assert_array_equal(out, groups * (groups + 1) // 2 * (255 - np.arange(256)))
    arrays = [np.zeros(1, np.uint32), np.zeros(12 * 256, np.uint32), np.zeros(12 * 256, np.uint32), 12]
    with pytest.raises(SimError, match="check race: .*no atomic operation that orders the work-groups"):
        sim.run(image, "no_barrier", (12,), (256,), arrays)


def test_many_groups_wait_without_sleeping(sim, build_dir, monkeypatch):
    """Waiting is recognised by what a wave does, not by how long it runs: 200 work-groups start at once."""
    sim.set_arch("gfx942")
    groups, start = 200, time.perf_counter()
    image = compile_gpu(source(False), "gfx942", "2", build_dir)
    for checks in ("", "race"):
        monkeypatch.setenv("FLYDSL_SIM_CHECK", checks)
        ready, parts, out = np.zeros(groups, np.uint32), np.zeros(groups * 256, np.uint32), np.zeros(256, np.uint32)
        sim.run(image, "stream_k", (groups,), (256,), [ready, parts, out, groups])
        np.testing.assert_array_equal(out, groups * (groups + 1) // 2 * (255 - np.arange(256)))
    assert time.perf_counter() - start < LIMIT


DEVICES = r"""
import ctypes, sys, numpy as np
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from hiplib import Sim
sim = Sim(Path(sys.argv[2]))
sim.set_arch("gfx942")
module = sim.load(Path(sys.argv[3]).read_bytes())
exchange = sim.function(module, "exchange")
GROUPS = 6
def memory(words):
    p = ctypes.c_void_p()
    sim.check(sim.lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(4 * words)))
    return p
flags, data, out = [], [], []
for device in range(2):
    sim.check(sim.lib.hipSetDevice(device))
    sim.check(sim.lib.hipDeviceEnablePeerAccess(1 - device, 0))
    flags.append(memory(1)); data.append(memory(GROUPS * 256)); out.append(memory(GROUPS * 256))
    sim.check(sim.lib.hipMemset(flags[device], 0, ctypes.c_size_t(4)))
for device in range(2):
    sim.check(sim.lib.hipSetDevice(device))
    sim.launch(exchange, (GROUPS,), (256,), [flags[device], flags[1 - device], data[device], data[1 - device],
                                             out[device], device, GROUPS])
for device in range(2):
    sim.check(sim.lib.hipSetDevice(device))
    sim.check(sim.lib.hipDeviceSynchronize())
    got = np.zeros(GROUPS * 256, np.uint32)
    sim.check(sim.lib.hipMemcpy(got.ctypes.data_as(ctypes.c_void_p), out[device], ctypes.c_size_t(got.nbytes), 2))
    g, t = np.divmod(np.arange(GROUPS * 256), 256)
    np.testing.assert_array_equal(got, (2 - device) * 100000 + (GROUPS - 1 - g) * 256 + t)
print("fine")
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_two_devices(build_dir, tmp_path, checked, schedule, threads):
    """Kernels of two devices exchange data through flags, with fewer threads than work-groups."""
    image = tmp_path / "exchange.hsaco"
    image.write_bytes(compile_gpu(source(False), "gfx942", "2", build_dir))
    environment = {**os.environ, "FLYDSL_SIM_DEVICES": "2", "FLYDSL_SIM_THREADS": threads}
    command = [sys.executable, "-c", DEVICES, str(HERE), str(find_library()), str(image)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "fine" in done.stdout
