"""FLYDSL_SIM_CHECK=race: what orders accesses of waves and work-groups, and what does not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
static LDS u32 cells[256] __attribute__((loader_uninitialized));
static LDS u32 last __attribute__((loader_uninitialized));

/* All work-groups store their number to one place. */
KERNEL void one_place(GLOBAL u32 *out) { if (TID() == 0) out[0] = WG() + 1; }
/* Each reads what its neighbour writes. */
KERNEL void neighbour(GLOBAL u32 *a, GLOBAL u32 *b) { u32 i = WG() * 256 + TID(); b[i] = a[i + 256]; a[i] = i + 1; }
/* All store the same value: harmless. */
KERNEL void same_value(GLOBAL u32 *out) { if (TID() == 0) out[0] = 7; }
/* Neighbouring bytes and halves of one dword. */
KERNEL void bytes(GLOBAL u8 *out) { if (TID() == 0) out[WG()] = WG() + 1; }
KERNEL void halves(GLOBAL u16 *out) { if (TID() == 0) out[WG()] = WG() + 1; }
KERNEL void all_atomic(GLOBAL u32 *out) { __atomic_fetch_add(&out[TID() & 3], WG() + 1, __ATOMIC_RELAXED); }
/* Split-K: the work-group that comes last adds the parts. */
KERNEL void split(GLOBAL u32 *parts, GLOBAL u32 *count, GLOBAL u32 *out) {
  u32 t = TID();
  parts[WG() * 256 + t] = WG() + t;
  SYNC();
  if (t == 0) last = __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL) == 3;
  SYNC();
  if (last) { u32 s = 0; for (u32 g = 0; g < 4; ++g) s += parts[g * 256 + t]; out[t] = s; }
}
/* The same without asking who is last. */
KERNEL void unsplit(GLOBAL u32 *parts, GLOBAL u32 *count, GLOBAL u32 *out) {
  u32 t = TID();
  parts[WG() * 256 + t] = WG() + t;
  SYNC();
  if (WG() == 3) { u32 s = 0; for (u32 g = 0; g < 4; ++g) s += parts[g * 256 + t]; out[t] = s; }
}
/* A loop around a compare-and-swap, whose first guess is a plain load; and plain loads that are no guess. */
KERNEL void guess(GLOBAL u32 *out) {
  u32 old = *out, mine = WG() * 100 + TID();
  while (old < mine && !__atomic_compare_exchange_n(out, &old, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
KERNEL void guess_wide(GLOBAL f64 *out) {
  __scoped_atomic_fetch_max(out + (TID() & 3), (f64)(WG() * 100 + TID()), __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
}
KERNEL void no_guess(GLOBAL u32 *out, GLOBAL u32 *seen) {
  u32 old = *out, mine = WG() * 100 + TID();
  while (old < mine && !__atomic_compare_exchange_n(out, &old, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  seen[mine] = out[2];
  __atomic_fetch_add(out + 2, 1, __ATOMIC_RELAXED);
}
/* A flag in memory: atomic loads and stores are plain instructions with a scope. */
KERNEL void flag(GLOBAL u32 *data, GLOBAL u32 *ready, GLOBAL u32 *out) {
  if (TID()) return;
  if (WG() == 0) { data[0] = 42; __atomic_store_n(ready, 1, __ATOMIC_RELEASE); }
  else if (__atomic_load_n(ready, __ATOMIC_ACQUIRE)) out[WG()] = data[0];
}
/* Waves of one work-group hand over through an atomic operation on LDS. */
KERNEL void last_wave(GLOBAL u32 *out) {
  u32 t = TID(), lane = t & 31, wave = t / 64;
  if (t == 0) last = 0;
  SYNC();
  cells[t] = t + 1;
  u32 n = 0;
  if ((t & 63) == 0) n = __atomic_fetch_add(&last, 1, __ATOMIC_ACQ_REL);
  n = __builtin_amdgcn_readfirstlane(n);
  if (n == 3) out[t & 63] = cells[t & 63] + cells[64 + (t & 63)] + cells[128 + (t & 63)] + cells[192 + (t & 63)];
}
/* Two buffers, one barrier each round: correct; and one barrier in all: not. */
KERNEL void buffers(GLOBAL u32 *out, u32 rounds, u32 sync) {
  u32 t = TID(), s = 0;
  for (u32 k = 0; k < rounds; ++k) {
    u32 base = (k & 1) * 128;
    if (t < 128) cells[base + t] = t * k;
    if (sync || k == 0) SYNC();
    s += cells[base + (127 - (t & 127))];
    if (sync > 1) SYNC();
  }
  out[t] = s;
}
"""


@pytest.fixture(params=["gfx942", "gfx1201", "gfx1250"])
def run(request, sim, build_dir, monkeypatch):
    """run(kernel, groups, arguments) under the race check."""
    sim.set_arch(request.param)
    image = compile_gpu(SOURCE, request.param, "2", build_dir, "-g")
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "race")

    def launch(kernel: str, groups: int, *arguments) -> None:
        sim.run(image, kernel, (groups,), (256,), list(arguments))

    return launch


def words(n: int = 4096) -> np.ndarray:
    """Zeros of an aligned array."""
    return np.zeros(n, np.uint32)


ACROSS = r"check race: .* of workgroup \(\d+,0,0\).*no atomic operation that orders the work-groups"


def test_work_groups_that_store_to_one_place(run):
    with pytest.raises(SimError, match=ACROSS) as info:
        run("one_place", 8, words())
    assert "write at address 0x" in str(info.value) and "<stdin>:" in str(info.value)


def test_work_groups_that_read_what_others_write(run):
    with pytest.raises(SimError, match=ACROSS):
        run("neighbour", 8, words(), words())


@pytest.mark.parametrize("kernel", ["same_value", "bytes", "halves", "all_atomic"])
def test_harmless_sharing(run, kernel):
    run(kernel, 8, words())


def test_split_k(run):
    out = words(256)
    run("split", 4, words(), words(4), out)
    np.testing.assert_array_equal(out, 6 + 4 * np.arange(256))
    with pytest.raises(SimError, match=ACROSS):
        run("unsplit", 4, words(), words(4), words(256))


def test_first_guess_of_a_loop(run):
    out = words(4)
    run("guess", 8, out)
    assert out[0] == 955
    wide = np.zeros(4)
    run("guess_wide", 8, wide)
    np.testing.assert_array_equal(wide, [952, 953, 954, 955])
    with pytest.raises(SimError, match="check race: .*(no atomic operation that orders|no barrier in between)"):
        run("no_guess", 8, words(4), words())


def test_flag(run):
    run("flag", 8, words(4), words(4), words(8))


def test_last_wave(run):
    run("last_wave", 2, words())


def test_double_buffer(run):
    out = words(256)
    run("buffers", 1, out, 6, 2)
    run("buffers", 1, out, 6, 1)
    with pytest.raises(SimError, match=r"check race: .* at LDS offset \d+.* with no barrier in between"):
        run("buffers", 1, out, 6, 0)


def test_findings_as_data(sim, run, monkeypatch):
    """Collected findings name both accesses, and the launch goes on."""
    sim.lib.flysimCheckTake.restype = __import__("ctypes").c_char_p
    sim.lib.flysimCheckTake()
    monkeypatch.delenv("FLYDSL_SIM_CHECK")
    assert sim.lib.flysimCheck(b"race", 10) == 0
    try:
        out = words()
        run("one_place", 8, out)
        assert out[0] in range(1, 9)
        found = json.loads(sim.lib.flysimCheckTake())
    finally:
        sim.lib.flysimCheck(None, 0)
    assert found and all(f["check"] == "race" and f["kernel"] == "one_place" for f in found)
    first = found[0]
    assert first["space"] == "global" and first["address"] == out.ctypes.data
    assert first["access"] == "write" and first["other"]["access"] == "write"
    assert first["workgroup"] != first["other"]["workgroup"] and first["source"]
    run("one_place", 8, words())  # nothing is checked any more
    assert json.loads(sim.lib.flysimCheckTake()) == []


def test_unknown_names(sim):
    assert sim.lib.flysimCheck(b"rase", 0) != 0
