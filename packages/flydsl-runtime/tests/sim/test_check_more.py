"""FLYDSL_SIM_CHECK: NaNs of matrix instructions, buffer descriptors, bounds of allocations, loads to LDS."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

GFX942 = """
typedef f16 v4f16 __attribute__((ext_vector_type(4)));
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
static LDS u32 cells[256] __attribute__((loader_uninitialized));

KERNEL void product(GLOBAL v4f32 *out, const GLOBAL f32 *a, const GLOBAL f32 *b, const GLOBAL v4f32 *c) {
  u32 t = TID();
  out[t] = __builtin_amdgcn_mfma_f32_16x16x4f32(a[t], b[t], c[t], 0, 0, 0);
}
KERNEL void unset(GLOBAL v4f32 *out, const GLOBAL v4f16 *a, const GLOBAL v4f16 *b, GLOBAL u32 *n) {
  u32 t = TID();
  v4f32 c;
  if (n[0]) c = (v4f32){0, 0, 0, 0};
  else __asm__ volatile("" : "=v"(c)); /* whatever the registers hold */
  out[t] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[t], b[t], c, 0, 0, 0);
}
KERNEL void buffered(GLOBAL f32 *out, GLOBAL f32 *in, u32 bytes) {
  __amdgpu_buffer_rsrc_t r = __builtin_amdgcn_make_buffer_rsrc(in, 0, bytes, 0x00027000);
  out[TID()] = __builtin_bit_cast(f32, __builtin_amdgcn_raw_buffer_load_b32(r, TID() * 4, 0, 0));
}
/* Wave 0 fetches into LDS past the registers; with `sync` the others wait for it. */
KERNEL void fetched(GLOBAL u32 *out, const GLOBAL u32 *in, u32 sync) {
  u32 t = TID();
  if (t < 64)
    for (u32 k = 0; k < 4; ++k)
      __builtin_amdgcn_global_load_lds((const GLOBAL void *)(in + 64 * k + t), (LDS void *)(cells + 64 * k), 4, 0, 0);
  if (sync) { __builtin_amdgcn_s_waitcnt(0); SYNC(); }
  out[t] = cells[t ^ 255];
}
KERNEL void past(GLOBAL u32 *out, GLOBAL u32 *in, u32 at, u32 store) {
  if (store) in[at] = 1;
  out[0] = in[at];
}
"""


@pytest.fixture
def run(sim, build_dir, monkeypatch):
    """run(checks, kernel, block, arguments) on gfx942."""
    sim.set_arch("gfx942")
    image = compile_gpu(GFX942, "gfx942", "2", build_dir, "-g")

    def launch(checks: str, kernel: str, block: int, *arguments) -> None:
        monkeypatch.setenv("FLYDSL_SIM_CHECK", checks)
        sim.run(image, kernel, (1,), (block,), list(arguments))

    return launch


def operands() -> list[np.ndarray]:
    """Small random operands of a 16 x 16 x 4 product, in registers: out, a, b, c."""
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, 64).astype(np.float32) for _ in range(2))
    return [np.zeros((64, 4), np.float32), a, b, np.zeros((64, 4), np.float32)]


def test_matrix_that_overflows(run):
    """Row 10 of A and column 5 of B are large: only their product overflows. A[i, k] is in lane 16 k + i."""
    out, a, b, c = operands()
    a[10::16] = 1e30
    run("nan", "product", 64, out, a, b, c)
    b[5::16] = 1e30
    report = r"v_mfma_f32_16x16x4.*lane 37: check nan: the result 0x7f800000 \(row 10, column 5 of the product\)"
    with pytest.raises(SimError, match=report):
        run("nan", "product", 64, out, a, b, c)


def test_matrix_that_passes_nans_on(run):
    """NaNs and infinities of an operand may reach their row, column or element."""
    for which, value in ((1, np.nan), (2, np.inf), (3, -np.inf)):
        arguments = operands()
        arguments[which].reshape(-1)[21] = value
        run("nan", "product", 64, *arguments)
        assert not np.isfinite(arguments[0]).all()


def test_accumulator_that_was_never_set(run):
    out = np.zeros((64, 4), np.float32)
    a = b = np.ones((64, 4), np.float16)
    run("uninit", "unset", 64, out, a, b, np.ones(1, np.uint32))
    with pytest.raises(SimError, match=r"check uninit: [va]\d+ was never written; a value made from it is stored"):
        run("uninit", "unset", 64, out, a, b, np.zeros(1, np.uint32))


def test_buffer_descriptor(run):
    """Out of range is legal: it is told only when the check has been asked for."""
    out, data = np.ones(64, np.float32), np.ones(64, np.float32)
    run("all", "buffered", 64, out, data, 200)
    assert out.sum() == 50
    run("buffer", "buffered", 64, out, data, 256)
    with pytest.raises(
        SimError, match=r"lane 50: check buffer: read of 4 bytes at offset 200 of a buffer of 200 bytes"
    ):
        run("buffer", "buffered", 64, out, data, 200)


def test_loads_to_lds(run):
    """Waves race with a load that writes LDS itself, and what it wrote is initialised."""
    out, data = np.zeros(256, np.uint32), np.arange(256, dtype=np.uint32)
    run("race,uninit,oob", "fetched", 256, out, data, 1)
    np.testing.assert_array_equal(out, 255 - np.arange(256))
    with pytest.raises(SimError, match=r"check race: read at LDS offset \d+, which was written by 'global_load_lds"):
        run("race", "fetched", 256, out, data, 0)


class TestEndOfAnAllocation:
    """Hardware knows pages: a read within the last one is no fault, unless exact bounds are asked for."""

    @pytest.fixture
    def memory(self, sim):
        pointer = ctypes.c_void_p()
        sim.check(sim.lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(148)))
        yield pointer
        sim.check(sim.lib.hipFree(pointer))

    def test_reads(self, run, memory):
        out = np.full(1, 7, np.uint32)
        run("", "past", 1, out, memory, 37, 0)
        assert out[0] == 0
        run("", "past", 1, out, memory, 1023, 0)
        with pytest.raises(SimError, match="read of 4 bytes .* past the end of the allocation of 148 bytes"):
            run("", "past", 1, out, memory, 1024, 0)
        run("oob", "past", 1, out, memory, 36, 0)
        with pytest.raises(SimError, match="read of 4 bytes .* 0 bytes past the end of the allocation of 148 bytes"):
            run("oob", "past", 1, out, memory, 37, 0)

    def test_writes(self, run, memory):
        with pytest.raises(SimError, match="write of 4 bytes .* past the end of the allocation of 148 bytes"):
            run("", "past", 1, np.zeros(1, np.uint32), memory, 37, 1)


FAULT = r"""
#include "hip_api.h"
#include <stdio.h>
int main(int argc, char **argv) {
  hipModule_t module; hipFunction_t past; void *out; int at = 37, store = 1;
  if (argc != 2 || hipModuleLoad(&module, argv[1]) || hipModuleGetFunction(&past, module, "past"))
    return 2;
  if (hipMalloc(&out, 148))
    return 2;
  void *arguments[] = {&out, &out, &at, &store};
  int error = hipModuleLaunchKernel(past, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
  if (!error) error = hipDeviceSynchronize();
  printf("%s\n", hipGetErrorName(error));
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_fault_of_a_c_program(sim, build_dir, tmp_path):
    """A program that does not know the simulator gets the code; what happened is on stderr, once."""
    image, program, source = tmp_path / "k.hsaco", tmp_path / "program", tmp_path / "program.c"
    image.write_bytes(compile_gpu(GFX942, "gfx942", "2", build_dir, "-g"))
    source.write_text(FAULT)
    library = Path(sim.lib._name)
    subprocess.run(
        ["gcc", "-I", Path(__file__).parent, "-o", program, source, library, f"-Wl,-rpath,{library.parent}"], check=True
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLYDSL_SIM_")}
    done = subprocess.run([program, image], env=environment, capture_output=True, text=True)
    assert done.stdout == "hipErrorIllegalAddress\n"
    assert done.stderr.startswith("HIP simulator: kernel past (gfx942), instruction 'global_store_dword")
    assert done.stderr.count("\n") == 1 and "past the end of the allocation of 148 bytes" in done.stderr
