"""FLYDSL_SIM_CHECK=uninit: what depends on registers and memory that nobody wrote, and what only passes it on."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError, assemble

ARCHS = ["gfx942", "gfx1201", "gfx1250"]

HEADER = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 64
  .amdhsa_next_free_sgpr 48
  .amdhsa_group_segment_fixed_size 1024
  {extra}
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: {wave}
    .sgpr_count: 48
    .vgpr_count: 64
    .max_flat_workgroup_size: 256
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
.end_amdgpu_metadata
"""

LOAD_POINTERS = {
    "gfx9": "s_load_dwordx4 s[4:7], s[0:1], 0x0\n  s_waitcnt lgkmcnt(0)\n  v_lshlrev_b32 v1, 2, v0",
    "gfx12": "s_load_b128 s[4:7], s[0:1], 0x0\n  s_wait_kmcnt 0x0\n  v_and_b32 v1, 0x3ff, v0\n"
    "  v_lshlrev_b32 v1, 2, v1",
}


def kernel(arch: str, body: str, build_dir: str) -> bytes:
    """A kernel with v1 = 4 * lane, s[4:5] = out, s[6:7] = in; STORE names the store instruction."""
    gfx12 = arch.startswith("gfx12")
    text = LOAD_POINTERS["gfx12" if gfx12 else "gfx9"] + "\n  " + body
    text = text.replace("STORE4", "global_store_b128" if gfx12 else "global_store_dwordx4")
    text = text.replace("STORE", "global_store_b32" if gfx12 else "global_store_dword")
    text = text.replace("LOAD", "global_load_b32" if gfx12 else "global_load_dword")
    text = text.replace("WAIT", "s_wait_loadcnt 0x0" if gfx12 else "s_waitcnt vmcnt(0)")
    text = text.replace("ADDU", "v_add_nc_u32" if gfx12 else "v_add_u32")
    extra = ".amdhsa_wavefront_size32 1" if gfx12 else ".amdhsa_accum_offset 64"
    return assemble(HEADER.format(arch=arch, body=text, extra=extra, wave=32 if gfx12 else 64), arch, build_dir)


@pytest.fixture(params=ARCHS)
def run(request, sim, build_dir, monkeypatch):
    """run(body) assembles and runs one wave under the check; returns `out`."""
    arch = request.param
    sim.set_arch(arch)
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "uninit")

    def launch(body: str, source: np.ndarray | None = None) -> np.ndarray:
        out = np.zeros(512, np.uint32)
        source = np.arange(512, dtype=np.uint32) if source is None else source
        sim.run(kernel(arch, body, build_dir), "k", (1,), (32 if arch.startswith("gfx12") else 64,), [out, source])
        return out

    launch.arch = arch
    return launch


BAD = {
    "stored": ("STORE v1, v9, s[4:5]", r"v9 was never written; .* is stored to memory"),
    "computed": (
        "v_add_f32 v2, v9, v9\n  v_mul_f32 v3, v2, v2\n  STORE v1, v3, s[4:5]",
        r"v9 was never written; .* is stored to memory",
    ),
    "scalar": ("v_mov_b32 v2, s20\n  STORE v1, v2, s[4:5]", r"s20 was never written; .* is stored"),
    "address": ("v_mov_b32 v2, 1\n  ADDU v3, v9, v1\n  STORE v3, v2, s[4:5]", r"v9 was never written; .* address"),
    "scalar address": ("v_mov_b32 v2, 1\n  STORE v1, v2, s[20:21]", r"s20 was never written; .* address"),
    "branch": (
        "s_and_b32 s22, s20, 1\n  s_cmp_lg_u32 s22, 0\n  s_cbranch_scc1 skip\n  s_nop 0\nskip:",
        r"s20 was never written; .* decides a branch",
    ),
    "half": ("v_pk_add_f16 v2, v9, v9\n  STORE v1, v2, s[4:5]", r"v9 was never written"),
}


@pytest.mark.parametrize("name", BAD)
def test_registers(run, name):
    body, message = BAD[name]
    with pytest.raises(SimError, match=f"check uninit: {message}"):
        run(body)


GOOD = {
    # Selected away, masked away, shifted out.
    "select": "v_mov_b32 v2, 5\n  v_cmp_eq_u32 vcc_lo, v1, v1\n  v_cndmask_b32 v3, v9, v2, vcc_lo",
    "mask": "v_and_b32 v3, 0, v9\n  v_or_b32 v3, 5, v3",
    "shift": "v_mov_b32 v2, 5\n  v_lshlrev_b32 v9, 16, v9\n  v_and_b32 v9, 0xffff, v9\n  v_or_b32 v3, v9, v2",
    "permute": "v_mov_b32 v2, 5\n  s_mov_b32 s30, 0x03020100\n  v_perm_b32 v3, v9, v2, s30",
    "copied": "v_mov_b32 v8, v9\n  v_mov_b32 v3, 5",
    "lane": "v_readlane_b32 s30, v9, 3\n  v_mov_b32 v3, 5",
    "saved": "v_writelane_b32 v20, s33, 1\n  v_readlane_b32 s33, v20, 1\n  v_mov_b32 v3, 5",
}


@pytest.mark.parametrize("name", GOOD)
def test_values_that_do_not_matter(run, name):
    body = GOOD[name]
    if not run.arch.startswith("gfx12"):
        body = body.replace("vcc_lo", "vcc")
    out = run(body + "\n  STORE v1, v3, s[4:5]")
    assert (out[:32] == 5).all()


def test_partly_written_tuple(run):
    """A vector store whose elements are not all defined is what compilers make of a padded struct."""
    out = run("v_mov_b32 v4, 5\n  v_lshlrev_b32 v1, 2, v1\n  STORE4 v1, v[4:7], s[4:5]")
    assert (out[: 4 * 32 : 4] == 5).all()
    with pytest.raises(SimError, match="v20 was never written"):
        run("v_lshlrev_b32 v1, 2, v1\n  STORE4 v1, v[20:23], s[4:5]")


def test_lanes(run):
    """Only lanes that were active have a value."""
    mask = "s_mov_b32 exec_lo, 0xff" if run.arch.startswith("gfx12") else "s_mov_b64 exec, 0xff"
    full = "s_mov_b32 exec_lo, -1" if run.arch.startswith("gfx12") else "s_mov_b64 exec, -1"
    body = f"{mask}\n  v_mov_b32 v3, 5\n  MIDDLE\n  STORE v1, v3, s[4:5]"
    run(body.replace("MIDDLE", "s_nop 0"))
    with pytest.raises(SimError, match=r"lane 8: check uninit: v3 was never written"):
        run(body.replace("MIDDLE", full))


class TestDeviceMemory:
    """Memory from hipMalloc counts as written when the host, a copy or a kernel wrote it."""

    @pytest.fixture
    def memory(self, run, sim):
        pointer = ctypes.c_void_p()
        sim.check(sim.lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(2048)))
        yield pointer
        sim.check(sim.lib.hipFree(pointer))

    def copy(self, sim, run, build_dir, source: ctypes.c_void_p) -> np.ndarray:
        out = np.zeros(512, np.uint32)
        image = kernel(run.arch, "LOAD v2, v1, s[6:7]\n  WAIT\n  STORE v1, v2, s[4:5]", build_dir)
        sim.run(image, "k", (1,), (32 if run.arch.startswith("gfx12") else 64,), [out, source])
        return out

    def test_never_written(self, sim, run, build_dir, memory):
        with pytest.raises(
            SimError,
            match=r"check uninit: address 0x\w+ \(0 bytes into the allocation of 2048 bytes.*"
            r"nobody has written it \('global_load.*stored to memory",
        ):
            self.copy(sim, run, build_dir, memory)

    def test_not_used(self, sim, run, build_dir, memory):
        out = np.zeros(512, np.uint32)
        image = kernel(
            run.arch, "LOAD v2, v1, s[6:7]\n  WAIT\n  v_and_b32 v2, 0, v2\n  STORE v1, v2, s[4:5]", build_dir
        )
        sim.run(image, "k", (1,), (32,), [out, memory])

    def test_memset_and_copy(self, sim, run, build_dir, memory):
        sim.check(sim.lib.hipMemset(memory, 7, ctypes.c_size_t(64)))
        sim.check(sim.lib.hipMemcpy(ctypes.c_void_p(memory.value + 64), bytes(range(192)), ctypes.c_size_t(192), 1))
        assert self.copy(sim, run, build_dir, memory)[0] == 0x07070707
        sim.check(sim.lib.hipMemset(memory, 7, ctypes.c_size_t(2048)))
        self.copy(sim, run, build_dir, memory)

    def test_host_stores(self, sim, run, build_dir, memory):
        ctypes.memset(memory, 3, 256)
        assert self.copy(sim, run, build_dir, memory)[0] == 0x03030303

    def test_kernel_stores(self, sim, run, build_dir, memory):
        """What one kernel wrote, the next may read; what it left out, not."""
        image = kernel(run.arch, "v_mov_b32 v2, 9\n  STORE v1, v2, s[6:7]", build_dir)
        lanes = 32 if run.arch.startswith("gfx12") else 64
        sim.run(image, "k", (1,), (lanes,), [np.zeros(4, np.uint32), memory])
        assert (self.copy(sim, run, build_dir, memory)[:lanes] == 9).all()
        with pytest.raises(SimError, match=r"address 0x\w+ \(256 bytes into"):
            self.copy(sim, run, build_dir, ctypes.c_void_p(memory.value + 4 * lanes + (256 - 4 * lanes)))


PRIVATE = """
KERNEL void k(GLOBAL u32 *out, GLOBAL u32 *in) {
  volatile u32 a[8];
  u32 t = TID();
  for (u32 n = 0; n < in[0]; ++n) a[n] = t;
  out[t] = a[5];
}
"""


@pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")
@pytest.mark.parametrize("arch", ARCHS)
def test_private_memory(sim, build_dir, monkeypatch, arch):
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "uninit")
    sim.set_arch(arch)
    image = compile_gpu(PRIVATE, arch, "2", build_dir, "-g")
    sim.run(image, "k", (1,), (64,), [np.zeros(64, np.uint32), np.full(1, 8, np.uint32)])
    with pytest.raises(SimError, match=r"check uninit: private memory at offset \d+ is read, but the lane.*<stdin>"):
        sim.run(image, "k", (1,), (64,), [np.zeros(64, np.uint32), np.full(1, 5, np.uint32)])
