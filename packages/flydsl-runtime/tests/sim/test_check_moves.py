"""The race and uninit checks follow scalar loads, loads to LDS, and the tensor moves of gfx1250."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

COMMON = """
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
#ifdef __gfx942__
#define SLOAD(v, p) asm volatile("s_load_dword %0, %1, 0x0\\n s_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(p) : "memory")
#else
#define SLOAD(v, p) asm volatile("s_load_b32 %0, %1, 0x0\\n s_wait_kmcnt 0x0" : "=s"(v) : "s"(p) : "memory")
#endif
static LDS u32 cells[256] __attribute__((loader_uninitialized));

KERNEL void fill(GLOBAL u32 *out) { out[WG() * 256 + TID()] = WG() + TID() + 1; }
/* Each work-group reads what the next one writes. */
KERNEL void scalar_across(GLOBAL u32 *in, GLOBAL u32 *out) {
  u32 v; SLOAD(v, in + WG() + 1);
  if (TID() == 0) out[WG()] = v + WG() + 1;
}
/* The last wave writes, all read. */
KERNEL void scalar_within(GLOBAL u32 *data, GLOBAL u32 *out, u32 sync) {
  u32 t = TID(), v;
  if (__builtin_amdgcn_readfirstlane(t / 64) == 3) data[t & 63] = t + 1;
  if (sync) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); SYNC(); }
  SLOAD(v, data + 5);
  out[t] = v;
}
KERNEL void scalar_branch(GLOBAL u32 *data, GLOBAL u32 *out) { u32 v; SLOAD(v, data); if (v & 1) out[TID()] = 1; }
"""

GFX1250 = """
typedef u32 v8u32 __attribute__((ext_vector_type(8)));
#define TENSOR(op, memory, count) TENSOR_TO(op, memory, count, 0)
/* `object`: offset of a barrier object in LDS, by 8; 0: none. */
#define TENSOR_TO(op, memory, count, object) do { \\
  u64 a_ = (u64)(memory); \\
  v4u32 g0_ = {1, (u32)(LDS u32 *)cells, (u32)a_, (u32)(a_ >> 32) | 2u << 30}; \\
  v8u32 g1_ = {2u << 16 | ((object) != 0) << 18, (count) << 16 | (object), 1u << 16, (count) << 16, 0, 0, 0, 0}; \\
  asm volatile(op " %0, %1" :: "s"(g0_), "s"(g1_) : "memory"); } while (0)
#define TENSOR_WAIT() asm volatile("s_wait_tensorcnt 0x0" ::: "memory")
#define FIRST_WAVE() (__builtin_amdgcn_readfirstlane(TID() / 32) == 0)
/* Arrivals, of the lanes or of their copies, and a wait for the phase that they end. */
static LDS u64 objects[2] __attribute__((loader_uninitialized)); /* the second one's offset is not 0 */
KERNEL void arrivals(GLOBAL u32 *in, GLOBAL u32 *out, u32 kind, u32 wait) {
  u32 t = TID(), at = (u32)(LDS u32 *)(cells + t), o = (u32)(LDS u64 *)(objects + 1);
  u64 others = kind == 2 ? 0 : 255, one = 1, before;
  if (t == 0) ((volatile LDS u64 *)objects)[1] = others | others << 32;
  SYNC();
  if (kind == 0) {
    ((volatile LDS u32 *)cells)[t] = in[t];
    asm volatile("ds_atomic_barrier_arrive_rtn_b64 %0, %1, %2\\n s_wait_dscnt 0x0"
                 : "=&v"(before) : "v"(o), "v"(one) : "memory");
  } else if (kind == 1) {
    asm volatile("global_load_async_to_lds_b32 %0, %1, off" :: "v"(at), "v"(in + t) : "memory");
    asm volatile("ds_atomic_async_barrier_arrive_b64 %0" :: "v"(o) : "memory");
  } else if (FIRST_WAVE()) {
    TENSOR_TO("tensor_load_to_lds", in, 256, __builtin_amdgcn_readfirstlane(o >> 3));
  }
  if (wait == 2) { out[t] = ((volatile LDS u32 *)cells)[t]; return; } /* what the lane itself has brought */
  if (wait) while (!(((volatile LDS u32 *)objects)[2] >> 29 & 1)) __builtin_amdgcn_s_sleep(1);
  out[t] = ((volatile LDS u32 *)cells)[t * 7 & 255];
}

KERNEL void tensor_load(GLOBAL u32 *in, GLOBAL u32 *out, u32 wait, u32 sync) {
  u32 t = TID();
  if (FIRST_WAVE()) { TENSOR("tensor_load_to_lds", in, 256); if (wait) TENSOR_WAIT(); }
  if (sync) __builtin_amdgcn_s_barrier();
  out[t] = ((volatile LDS u32 *)cells)[t * 7 & 255];
}
KERNEL void tensor_store(GLOBAL u32 *out, u32 wait, u32 sync) {
  u32 t = TID();
  ((volatile LDS u32 *)cells)[t] = t + 1;
  SYNC();
  if (FIRST_WAVE()) { TENSOR("tensor_store_from_lds", out, 256); if (wait) TENSOR_WAIT(); }
  if (sync) __builtin_amdgcn_s_barrier();
  ((volatile LDS u32 *)cells)[t] = 7;
}
KERNEL void tensor_across(GLOBAL u32 *data, GLOBAL u32 *out) {
  u32 t = TID();
  data[WG() * 256 + t] = WG() + t + 1;
  if (FIRST_WAVE()) { TENSOR("tensor_load_to_lds", data + (WG() + 1) * 256, 256); TENSOR_WAIT(); }
  SYNC();
  out[WG() * 256 + t] = ((volatile LDS u32 *)cells)[t];
}
KERNEL void tensor_same_place(GLOBAL u32 *out) {
  ((volatile LDS u32 *)cells)[TID()] = WG() + TID() + 1;
  SYNC();
  if (FIRST_WAVE()) { TENSOR("tensor_store_from_lds", out, 256); TENSOR_WAIT(); }
}
KERNEL void tensor_unwritten(GLOBAL u32 *out, u32 write) {
  u32 t = TID();
  if (t < write) ((volatile LDS u32 *)cells)[t] = t + 1;
  SYNC();
  if (FIRST_WAVE()) { TENSOR("tensor_store_from_lds", out, 256); TENSOR_WAIT(); }
}
KERNEL void async_load(GLOBAL u32 *in, GLOBAL u32 *out, u32 wait, u32 sync) {
  u32 t = TID(), at = (u32)(LDS u32 *)(cells + t);
  asm volatile("global_load_async_to_lds_b32 %0, %1, off" :: "v"(at), "v"(in + t) : "memory");
  if (wait) asm volatile("s_wait_asynccnt 0x0" ::: "memory");
  if (sync) __builtin_amdgcn_s_barrier();
  out[t] = ((volatile LDS u32 *)cells)[t + 32 & 255];
}
"""

GFX942 = """
KERNEL void direct_load(GLOBAL u32 *in, GLOBAL u32 *out, u32 wait, u32 sync) {
  u32 t = TID(), wave = __builtin_amdgcn_readfirstlane(t / 64);
  __builtin_amdgcn_global_load_lds(in + t, cells + wave * 64, 4, 0, 0);
  if (wait) asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  if (sync) __builtin_amdgcn_s_barrier();
  out[t] = ((volatile LDS u32 *)cells)[t + 64 & 255];
}
"""
SOURCES = {"gfx942": COMMON + GFX942, "gfx1201": COMMON, "gfx1250": COMMON + GFX1250}
ACROSS = "check race: .*no atomic operation that orders the work-groups"


@pytest.fixture
def launch(sim, build_dir, monkeypatch):
    """launch(check, arch, kernel, groups, arguments): an int argument is a size_t when it is an address."""

    def run(check: str, arch: str, kernel: str, groups: int, *arguments) -> None:
        sim.set_arch(arch)
        monkeypatch.setenv("FLYDSL_SIM_CHECK", check)
        image = compile_gpu(SOURCES[arch], arch, "1", build_dir, "-g")
        sim.run(image, kernel, (groups,), (256,), list(arguments))

    return run


def words(n: int = 4096) -> np.ndarray:
    return np.zeros(n, np.uint32)


@pytest.fixture
def device(sim):
    """device(words): fresh device memory."""
    kept = []

    def allocate(n: int) -> ctypes.c_void_p:
        p = ctypes.c_void_p()
        sim.check(sim.lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(4 * n)))
        kept.append(p)
        return p

    yield allocate
    for p in kept:
        sim.check(sim.lib.hipFree(p))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
class TestScalarLoads:
    def test_what_another_group_writes(self, launch, arch):
        same = words()
        with pytest.raises(SimError, match=ACROSS) as info:
            launch("race", arch, "scalar_across", 8, same, same)
        assert "s_load" in str(info.value) and "<stdin>:" in str(info.value)

    def test_other_memory_and_other_launches(self, launch, arch):
        data, out = words(), words()
        launch("race", arch, "fill", 4, data)
        launch("race", arch, "scalar_across", 8, data, out)
        np.testing.assert_array_equal(out[:8], data[1:9] + np.arange(8) + 1)

    def test_waves_of_a_group(self, launch, arch):
        out = words(256)
        launch("race", arch, "scalar_within", 1, words(), out, 1)
        assert (out == 198).all()
        with pytest.raises(SimError, match=r"check race: .*s_load.*no barrier in between"):
            launch("race", arch, "scalar_within", 1, words(), words(256), 0)

    def test_memory_that_nobody_wrote(self, launch, arch, monkeypatch, device):
        monkeypatch.setenv("FLYDSL_SIM_CHECK", "uninit")
        data, out = device(64), words(256)
        with pytest.raises(SimError, match=r"check uninit: .*nobody has written it.*s_load.*decides a branch"):
            launch("uninit", arch, "scalar_branch", 1, data, out)
        data = device(256)
        launch("uninit", arch, "fill", 1, data)
        launch("uninit", arch, "scalar_branch", 1, data, out)


KINDS = [("gfx1250", "tensor_load"), ("gfx1250", "async_load"), ("gfx942", "direct_load")]


@pytest.mark.parametrize("arch,kernel", KINDS)
class TestLoadsToLds:
    def test_waited_for_before_the_barrier(self, launch, arch, kernel):
        data, out = np.arange(1, 257, dtype=np.uint32), words(256)
        launch("race", arch, kernel, 1, data, out, 1, 1)
        t = np.arange(256)
        place = {"tensor_load": t * 7, "async_load": t + 32, "direct_load": t + 64}[kernel]
        np.testing.assert_array_equal(out, data[place % 256])

    def test_barrier_without_a_wait(self, launch, arch, kernel):
        with pytest.raises(SimError, match=r"check race: .*(lds|no wait for its end)") as info:
            launch("race", arch, kernel, 1, words(256), words(256), 0, 1)
        assert "no wait for its end" in str(info.value) or arch == "gfx942"
        assert "LDS offset" in str(info.value) and "<stdin>:" in str(info.value)

    def test_wait_without_a_barrier(self, launch, arch, kernel):
        with pytest.raises(SimError, match=r"check race: .*no barrier in between"):
            launch("race", arch, kernel, 1, words(256), words(256), 1, 0)

    def test_memory_that_nobody_wrote(self, launch, arch, kernel, monkeypatch, device):
        monkeypatch.setenv("FLYDSL_SIM_CHECK", "uninit")
        data, out = device(256), device(256)
        with pytest.raises(SimError, match="check uninit: .*is stored to memory"):
            launch("uninit", arch, kernel, 1, data, out, 1, 1)
        launch("uninit", arch, "fill", 1, data)
        launch("uninit", arch, kernel, 1, data, out, 1, 1)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_barrier_objects_order(launch, kind):
    """Who has seen the phase change may read what was stored, or copied, before the arrivals."""
    data, out = np.arange(1, 257, dtype=np.uint32), words(256)
    launch("race,uninit", "gfx1250", "arrivals", 1, data, out, kind, 1)
    np.testing.assert_array_equal(out, data[np.arange(256) * 7 % 256])
    with pytest.raises(SimError, match="check race: .*(no wait for its end|no barrier in between)"):
        launch("race", "gfx1250", "arrivals", 1, data, out, kind, 0)


def test_an_arrival_of_copies_is_no_wait_for_them(launch):
    """Nor for the wave that makes it, of what its own lanes copy."""
    with pytest.raises(SimError, match="check race: .*no wait for its end"):
        launch("race", "gfx1250", "arrivals", 1, words(256), words(256), 1, 2)


class TestTensorMoves:
    def test_a_wave_waits_for_its_own_transfer(self, launch):
        with pytest.raises(SimError, match="check race: .*tensor_load_to_lds.*no wait for its end"):
            launch("race", "gfx1250", "tensor_load", 1, words(256), words(256), 0, 0)

    def test_a_store_reads_until_it_was_waited_for(self, launch):
        out = words(256)
        launch("race", "gfx1250", "tensor_store", 1, out, 1, 1)
        np.testing.assert_array_equal(out, np.arange(1, 257))
        for wait, sync in ((0, 1), (0, 0), (1, 0)):
            with pytest.raises(SimError, match="tensor_store_from_lds.*with no (wait for its end|barrier)"):
                launch("race", "gfx1250", "tensor_store", 1, words(256), wait, sync)

    def test_work_groups(self, launch):
        with pytest.raises(SimError, match=ACROSS) as info:
            launch("race", "gfx1250", "tensor_across", 4, words(2048), words(2048))
        assert "tensor_load_to_lds" in str(info.value)
        with pytest.raises(SimError, match=ACROSS):
            launch("race", "gfx1250", "tensor_same_place", 4, words(256))
        launch("race", "gfx1250", "tensor_same_place", 1, words(256))

    def test_two_launches(self, launch):
        data, out = words(256), words(256)
        launch("race", "gfx1250", "tensor_same_place", 1, data)
        launch("race", "gfx1250", "tensor_load", 1, data, out, 1, 1)
        np.testing.assert_array_equal(out, data[np.arange(256) * 7 % 256])

    def test_lds_that_nobody_wrote(self, launch):
        with pytest.raises(SimError, match="check uninit: LDS offset 800 .*no wave of the work-group has written it.*"
                                           "is stored to memory"):
            launch("uninit", "gfx1250", "tensor_unwritten", 1, words(256), 200)
        launch("uninit", "gfx1250", "tensor_unwritten", 1, words(256), 256)
