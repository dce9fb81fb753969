"""FLYDSL_SIM_CHECK=approx: what depends on results that need not have the same bits on hardware."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
#define EXP(x) __builtin_amdgcn_exp2f(x)
static LDS f32 cells[256] __attribute__((loader_uninitialized));
KERNEL void value(const GLOBAL f32 *a, GLOBAL f32 *out) {
  u32 t = TID(); f32 x = EXP(a[t]) + 1.0f; cells[t] = x; SYNC();
  if (a[t] > 0.5f) out[t] = cells[255 - t];
  for (u32 k = 0; k < (t & 3); ++k) out[t] += x;
}
KERNEL void lanes(const GLOBAL f32 *a, GLOBAL f32 *out) { u32 t = TID(); if (EXP(a[t]) > 1.5f) out[t] = a[t + 1]; }
KERNEL void place(const GLOBAL f32 *a, GLOBAL f32 *out) { u32 t = TID(); out[(u32)(EXP(a[t]) * 9.0f) & 255] = 1; }
KERNEL void shared(const GLOBAL f32 *a, GLOBAL f32 *out) {
  u32 t = TID(); cells[t] = EXP(a[t]); SYNC();
  f32 x = cells[255 - t]; out[t] = a[(u32)(x * 7.0f) & 255];
}
KERNEL void stored(const GLOBAL f32 *a, GLOBAL f32 *out) {
  u32 t = TID(); out[t] = EXP(a[t]); SYNC();
  if (out[t ^ 1] > 1.5f) out[t + 256] = a[t];
}
KERNEL void uniform(const GLOBAL f32 *a, GLOBAL f32 *out) {
  u32 t = TID(); f32 x = __builtin_bit_cast(f32, __builtin_amdgcn_readfirstlane(__builtin_bit_cast(u32, EXP(a[t]))));
  for (f32 y = 0; y < x; y += 1.0f) out[t] += y;
}
#define MODE (1 | 31 << 11) /* the whole register */
#if defined(__GFX11__) || defined(__GFX12__)
#define PLACE (23 | 31 << 11)
#else
#define PLACE (4 | 31 << 11)
#endif
KERNEL void mode(const GLOBAL f32 *a, GLOBAL f32 *out) { if (__builtin_amdgcn_s_getreg(MODE) & 16) out[TID()] = 1; }
KERNEL void slot(const GLOBAL f32 *a, GLOBAL f32 *out) { if (__builtin_amdgcn_s_getreg(PLACE) & 16) out[TID()] = 1; }
"""


@pytest.fixture(params=["gfx942", "gfx950", "gfx1201", "gfx1250"])
def run(request, sim, build_dir, monkeypatch):
    """run(kernel) with the check on; the counts of the run."""
    arch = request.param
    sim.set_arch(arch)
    image = compile_gpu(SOURCE, arch, "2", build_dir, "-g")
    sim.lib.flysimApproximations.restype = ctypes.c_char_p
    sim.lib.flysimApproximations()

    def launch(kernel: str) -> dict[str, int]:
        monkeypatch.setenv("FLYDSL_SIM_CHECK", "approx")
        a = np.random.default_rng(1).random(512, np.float32)
        sim.run(image, kernel, (1,), (256,), [a, np.zeros(512, np.float32)])
        return json.loads(sim.lib.flysimApproximations())

    return launch


def test_values_may_depend(run):
    """Arithmetic, LDS and stores of approximate values are no finding; each execution of a wave is counted."""
    assert run("value") in ({"v_exp_f32": 4}, {"v_exp_f32": 8})


@pytest.mark.parametrize(
    "kernel,use",
    [
        ("lanes", "decides which lanes go on"),
        ("place", "is the address of a write"),
        ("shared", "is the address of a read"),
        ("stored", "decides which lanes go on"),
        ("uniform", "decides (a branch|which lanes go on)"),
    ],
)
def test_decisions_and_addresses_are_told(run, kernel, use):
    """The report names the instruction that made the value, its source line, and the use."""
    with pytest.raises(SimError, match=rf"check approx: a result of 'v_(s_)?exp_f32.*<stdin>:\d+.* {use}"):
        run(kernel)


def test_registers_of_the_machine(run):
    """Where a wave runs is the hardware's to say; what the wave itself has set is not approximate."""
    assert run("mode") == {}
    with pytest.raises(SimError, match="check approx: a result of 's_getreg_b32.* decides"):
        run("slot")
