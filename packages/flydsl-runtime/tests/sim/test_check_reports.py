"""What every kind of finding says: kernel, source line, instruction, group, wave, lane, place, the other access."""

from __future__ import annotations

import ctypes
import json
import re

import numpy as np
import pytest
from clangc import PRELUDE, compile_gpu, find_clang

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

# The lines that findings must name have a marker.
SOURCE = """
static LDS u32 cells[256] __attribute__((loader_uninitialized));
static LDS u32 more[64] __attribute__((loader_uninitialized));
NOINLINE u32 opaque(u32 v) { asm volatile("" : "+v"(v)); return v; }

KERNEL void race_lds(GLOBAL u32 *out) {
  u32 t = TID();
  cells[t] = t * 3 + 1;                           /* race_lds:site */
  out[t] = cells[255 - t];                        /* race_lds:other */
}
KERNEL void race_global(GLOBAL u32 *out) {
  if (TID() == 7) out[3] = WG() + 1;              /* race_global:site race_global:other */
}
KERNEL void uninit_lds(GLOBAL u32 *out) {
  u32 t = TID();
  if (t < 64) more[t & 31] = t;
  u32 v = more[32 + (t & 31)];                    /* uninit_lds:other */
  out[t] = v;                                     /* uninit_lds:site */
}
KERNEL void uninit_global(GLOBAL u32 *in, GLOBAL u32 *out) {
  u32 v = in[TID()];                              /* uninit_global:other */
  out[TID()] = v + 1;                             /* uninit_global:site */
}
KERNEL void oob_lds(GLOBAL u32 *out, u32 far) {
  u32 t = TID();
  ((volatile LDS u32 *)cells)[t + far] = t;       /* oob_lds:site */
  out[t] = t;
}
KERNEL void barrier(GLOBAL u32 *out) {
  if (opaque(TID()) & 1) __builtin_amdgcn_s_barrier(); /* barrier:site */
  out[TID()] = 1;
}
KERNEL void makes_nan(GLOBAL f32 *in, GLOBAL f32 *out) {
  f32 a = in[TID()];
  out[TID()] = __builtin_amdgcn_sqrtf(a);         /* makes_nan:site */
}
KERNEL void approx(GLOBAL f32 *in, GLOBAL f32 *out) {
  f32 a = __builtin_amdgcn_logf(in[TID()]);       /* approx:other */
  if (a > 1.5f) out[TID()] = 3;                   /* approx:site */
}
"""
LINES = {marker: number for number, line in enumerate((PRELUDE + SOURCE).splitlines(), 1)
         for marker in re.findall(r"\w+:(?:site|other)", line.partition("/*")[2])}

KINDS = {
    "race_lds": ("race", "lds"), "race_global": ("race", "global"), "uninit_lds": ("uninit", "lds"),
    "uninit_global": ("uninit", "global"), "oob_lds": ("oob", "lds"), "barrier": ("barrier", None),
    "makes_nan": ("nan", None), "approx": ("approx", None),
}


@pytest.fixture
def findings(sim, build_dir):
    """findings(arch, check, kernel, groups, arguments): findings of a launch as data."""
    lib = sim.lib
    lib.flysimCheckTake.restype = ctypes.c_char_p

    def collect(arch: str, check: str, kernel: str, groups: int, *arguments) -> list[dict]:
        sim.set_arch(arch)
        module = sim.load(compile_gpu(SOURCE, arch, "1", build_dir, "-g"))
        sim.check(lib.flysimCheck(check.encode(), 100))
        try:
            made = [a() if callable(a) else a for a in arguments]
            lib.flysimCheckTake()
            sim.launch(sim.function(module, kernel), (groups,), (256,), made)
            return json.loads(lib.flysimCheckTake())
        finally:
            sim.check(lib.flysimCheck(None, 0))
            lib.hipModuleUnload(module)

    return collect


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("kernel", sorted(KINDS))
def test_report(sim, findings, arch, kernel):
    check, space = KINDS[kernel]
    out, keep = np.zeros(512, np.uint32), []

    def fresh() -> ctypes.c_void_p:
        p = ctypes.c_void_p()
        sim.check(sim.lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(1024)))
        keep.append(p)
        return p

    bad = np.full(256, 2, np.float32)
    bad[130] = -1  # for makes_nan
    approximate = np.linspace(1, 9, 256, dtype=np.float32)
    arguments = {"uninit_global": [fresh, out], "oob_lds": [out, 16384], "makes_nan": [bad, out],
                 "approx": [approximate, out]}
    found = findings(arch, check, kernel, 3 if kernel == "race_global" else 1, *arguments.get(kernel, [out]))
    assert found, "no finding"
    finding = found[0]
    assert finding["check"] == check and finding["kernel"] == kernel and finding["arch"] == arch
    assert finding["source"].endswith(f"<stdin>:{LINES[kernel + ':site']}"), finding
    assert finding["instruction"] and finding["pc"] > 0 and len(finding["workgroup"]) == 3
    assert 0 <= finding["wave"] < 256 // (64 if arch == "gfx942" else 32)
    if space:
        assert finding["space"] == space and finding["bytes"] >= 1
    if kernel in ("race_lds", "race_global", "uninit_lds", "uninit_global", "oob_lds", "makes_nan"):
        assert 0 <= finding["lane"] < (64 if arch == "gfx942" else 32)
    if kernel + ":other" in LINES:
        other = finding["other"]
        assert other["source"].endswith(f"<stdin>:{LINES[kernel + ':other']}"), finding
        assert other["instruction"] and other["pc"] > 0
        # The text has both, with the place.
        assert f"<stdin>:{LINES[kernel + ':other']}" in finding["message"]
        assert other["instruction"] in finding["message"]
    if kernel == "race_global":
        assert finding["lane"] == 7 % (64 if arch == "gfx942" else 32) and other["lane"] == finding["lane"]
        assert finding["address"] == out.ctypes.data + 12
        assert finding["workgroup"] != other["workgroup"]
    if kernel == "race_lds":
        assert finding["wave"] != other["wave"] and finding["address"] % 4 == 0
    if kernel == "makes_nan":
        assert finding["wave"] * (64 if arch == "gfx942" else 32) + finding["lane"] == 130
    for p in keep:
        sim.check(sim.lib.hipFree(p))
