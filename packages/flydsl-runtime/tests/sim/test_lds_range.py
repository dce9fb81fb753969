"""LDS accesses outside of the work-group's allocation: stores are dropped and reads give zero, as on hardware."""

from __future__ import annotations

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
#if defined(__GFX12__)
#define FORM(old, new, wait) new " %0, %1\\n s_wait_dscnt 0x0"
#elif defined(__GFX11__)
#define FORM(old, new, wait) new " %0, %1\\n s_waitcnt lgkmcnt(0)"
#else
#define FORM(old, new, wait) old " %0, %1\\n s_waitcnt lgkmcnt(0)"
#endif
static LDS u32 cells[64] __attribute__((loader_uninitialized));
#define BEGIN \\
  u32 t = TID(), at = t & 1 ? 0x7fffffff : (u32)(LDS u32 *)(cells + t); \\
  ((volatile LDS u32 *)cells)[t] = 1000 + t
KERNEL void own(GLOBAL u32 *in, GLOBAL u32 *out) {
  BEGIN;
  u32 v = in[t];
  asm volatile(FORM("ds_write_b32", "ds_store_b32", ) :: "v"(at), "v"(v) : "memory");
  asm volatile(FORM("ds_read_b32", "ds_load_b32", ) : "=v"(v) : "v"(at) : "memory");
  out[t] = v;
  out[64 + t] = ((volatile LDS u32 *)cells)[t];
}
#ifdef __gfx1250__
KERNEL void async(GLOBAL u32 *in, GLOBAL u32 *out) {
  BEGIN;
  asm volatile("s_wait_dscnt 0x0\\n global_load_async_to_lds_b32 %0, %1, off\\n s_wait_asynccnt 0x0"
               :: "v"(at), "v"(in + t) : "memory");
  out[64 + t] = ((volatile LDS u32 *)cells)[t];
  u64 to = (u64)(out + t);
  asm volatile("global_store_async_from_lds_b32 %1, %0, off\\n s_wait_asynccnt 0x0" :: "v"(at), "v"(to) : "memory");
}
#endif
"""


ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


@pytest.mark.parametrize(("arch", "kernel"), [*((arch, "own") for arch in ARCHS), ("gfx1250", "async")])
def test_far_offsets_are_dropped_and_read_zero(sim, build_dir, monkeypatch, arch, kernel):
    """Odd lanes go to offset 0x7fffffff, where a published compiler sends lanes that take no part; `oob` tells."""
    sim.set_arch(arch)
    image = compile_gpu(SOURCE, arch, "2", build_dir, "-g")
    data, out = np.arange(1, 65, dtype=np.uint32), np.full(128, 7, np.uint32)
    odd = np.arange(64) % 2 == 1
    sim.run(image, kernel, (1,), (64,), [data, out])
    np.testing.assert_array_equal(out[:64], np.where(odd, 0, data))
    np.testing.assert_array_equal(out[64:], np.where(odd, 1000 + np.arange(64), data))
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob")
    with pytest.raises(SimError, match="lane 1: check oob: .*write of 4 bytes at LDS offset 2147483647 of 256"):
        sim.run(image, kernel, (1,), (64,), [data, out])


ALIGNED = """
typedef unsigned short u16;
static LDS u16 cells[3] __attribute__((loader_uninitialized, aligned(8)));
KERNEL void whole(GLOBAL u32 *out) {
  for (u32 i = 0; i < 3; ++i)
    ((volatile LDS u16 *)cells)[i] = 17 + i;
  u64 v;
#if __GFX12__
  asm volatile("ds_load_b64 %0, %1\\n s_wait_dscnt 0x0" : "=v"(v) : "v"((u32)(LDS u16 *)cells) : "memory");
#else
  asm volatile("ds_read_b64 %0, %1\\n s_waitcnt lgkmcnt(0)" : "=v"(v) : "v"((u32)(LDS u16 *)cells) : "memory");
#endif
  out[0] = v;
  out[1] = v >> 32 & 0xffff;
}
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_aligned_piece_of_which_a_part_is_allocated(sim, build_dir, monkeypatch, arch):
    sim.set_arch(arch)
    image = compile_gpu(SOURCE.split("static LDS")[0] + ALIGNED, arch, "2", build_dir)
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob")
    out = np.full(2, 7, np.uint32)
    sim.run(image, "whole", (1,), (1,), [out])
    np.testing.assert_array_equal(out, [18 << 16 | 17, 19])
