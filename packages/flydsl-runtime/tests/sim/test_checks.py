"""FLYDSL_SIM_CHECK: each check finds its fault and leaves correct kernels alone."""

from __future__ import annotations

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
static LDS u32 cells[256] __attribute__((loader_uninitialized));
KERNEL void good(GLOBAL u32 *out) {
  u32 t = TID();
  for (u32 k = 0; k < 3; ++k) {
    cells[t] = t + k; SYNC();
    out[t] = cells[255 - t]; SYNC();
  }
  __atomic_fetch_add(&cells[t & 3], 1, __ATOMIC_RELAXED); SYNC();
  if (t < 4) out[t] = cells[t];
}
KERNEL void racy(GLOBAL u32 *out) { u32 t = TID(); cells[t] = t; out[t] = cells[255 - t]; }
KERNEL void racy_global(GLOBAL u32 *out) { u32 t = TID(); out[t] = t; out[255 - t] += 1; }
KERNEL void unwritten(GLOBAL u32 *out) { u32 t = TID(); if (t < 128) cells[t] = t; SYNC(); out[t] = cells[t]; }
KERNEL void outside(GLOBAL u32 *out, u32 by) { u32 t = TID(); cells[t] = 1; SYNC(); out[t] = cells[t + by]; }
KERNEL void diverged(GLOBAL u32 *out) { u32 t = TID(); if (t & 1) { __builtin_amdgcn_s_barrier(); out[t] = 1; } }
KERNEL void numbers(const GLOBAL f32 *a, GLOBAL f32 *out) { u32 t = TID(); f32 x = a[t]; out[t] = x * x + 1.0f; }
"""


@pytest.fixture(params=["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def run(request, sim, build_dir, monkeypatch):
    """run(checks, kernel, arguments) on one architecture."""
    arch = request.param
    sim.set_arch(arch)
    image = compile_gpu(SOURCE, arch, "2", build_dir, "-g")

    def launch(checks: str, kernel: str, *arguments) -> None:
        monkeypatch.setenv("FLYDSL_SIM_CHECK", checks)
        sim.run(image, kernel, (1,), (256,), list(arguments))

    return launch


def test_correct_kernel_passes(run):
    out = np.zeros(256, np.uint32)
    run("oob,uninit,race,barrier,nan", "good", out)
    np.testing.assert_array_equal(out[4:], 255 - np.arange(4, 256) + 2)


def test_race_in_lds(run):
    """The report names both accesses with their waves and source lines."""
    report = r"check race: (read|write) at LDS offset \d+, which was (written|read) by 'ds_\w+.*of wave \d"
    with pytest.raises(SimError, match=report) as info:
        run("race", "racy", np.zeros(256, np.uint32))
    assert "<stdin>:" in str(info.value) and "lane" in str(info.value)
    run("barrier", "racy", np.zeros(256, np.uint32))


def test_race_in_global_memory(run):
    with pytest.raises(SimError, match=r"check race: .* at address 0x"):
        run("race", "racy_global", np.zeros(256, np.uint32))


def test_uninitialised_lds(run):
    with pytest.raises(SimError, match=r"check uninit: LDS offset [5-9]\d\d is read"):
        run("uninit", "unwritten", np.zeros(256, np.uint32))


def test_lds_bounds(run):
    run("oob", "outside", np.zeros(256, np.uint32), 0)
    with pytest.raises(SimError, match=r"check oob: read of 4 bytes at LDS offset 1024 of 1024"):
        run("oob", "outside", np.zeros(256, np.uint32), 1)


def test_divergent_barrier(run):
    with pytest.raises(SimError, match=r"check barrier: the barrier is reached with (16|32) of (32|64) lanes"):
        run("barrier", "diverged", np.zeros(256, np.uint32))


def test_numbers(run):
    """The instruction that overflows is named; special values that are only passed on are not."""
    a = np.ones(256, np.float32)
    out = np.zeros_like(a)
    a[3] = np.inf
    run("nan", "numbers", a, out)
    a[77] = 3e38
    with pytest.raises(SimError, match=r"(v_fma|v_mul)\w*.*lane (13|45).*|check nan: the result 0x7f800000") as info:
        run("nan", "numbers", a, out)
    assert "check nan" in str(info.value)


def test_unknown_check(run):
    with pytest.raises(SimError, match="none of oob"):
        run("everything", "good", np.zeros(256, np.uint32))


def test_host_reads(run, sim):
    """With the launch's arrays known, a read next to one is found."""
    import ctypes

    whole = np.ones(1024, np.float32)
    out = np.zeros(256, np.float32)
    for part, good in ((whole[:256], True), (whole[:200], False)):
        bases = (ctypes.c_void_p * 2)(part.ctypes.data, out.ctypes.data)
        sizes = (ctypes.c_size_t * 2)(part.nbytes, out.nbytes)
        sim.lib.flysimLaunchRanges(bases, sizes, 2)
        if good:
            run("oob", "numbers", part, out)
            continue
        with pytest.raises(SimError, match="read of 4 bytes at 0x"):
            run("oob", "numbers", part, out)
