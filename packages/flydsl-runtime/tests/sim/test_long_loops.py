"""Loops that are long and not endless, and endless ones: what a loop depends on is found from LLVM's register uses."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program
from clangc import compile_gpu, find_clang
from hiplib import SimError

TIMES = 3_000_000  # more instructions than the simulator runs before it looks for endless loops


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_a_flag_that_is_written_does_not_hide_the_counter(sim, build_dir, arch, monkeypatch):
    """LLVM numbers SCC as it does s0: a loop that writes SCC and counts in s0 was taken for one without a state."""
    monkeypatch.setenv("FLYDSL_SIM_STALL_SECONDS", "0.1")
    programs = []
    for place in range(4):  # the loop is looked at after a round number of instructions: at each of its four
        code = "  s_nop 0\n" * place + f"""  s_mov_b32 s0, 0
  s_mov_b32 s20, {TIMES}
again{place}:
  s_and_b32 s21, s20, 1
  s_add_u32 s0, s0, 1
  s_cmp_lt_u32 s0, s20
  s_cbranch_scc1 again{place}
  v_mov_b32 v{FIRST}, s0"""
        programs.append(Program(f"count{place}", code, 1, FIRST, 1))
    bench = Bench(sim, arch, programs, build_dir)
    for p in programs:
        assert np.all(bench.run(p.name, np.zeros((1, bench.wave), np.uint32)) == TIMES)


#: Waves that meet at a barrier in each round, with registers, LDS and memory as they were, or not.
ROUNDS = """
static LDS u32 cell __attribute__((loader_uninitialized));
#define MEET() __builtin_amdgcn_s_barrier()
KERNEL void never(GLOBAL volatile u32 *flag) { while (*flag == 0) MEET(); }
KERNEL void locked(GLOBAL u32 *lock) {
  for (u32 seen = 1; seen;) { // as Triton takes a lock: one lane tries, all are told
    if (TID() == 0) { u32 was = 1; __atomic_compare_exchange_n(lock, &was, 1, 0, 2, 2); cell = was; }
    MEET(); seen = cell; MEET();
  }
}
KERNEL void counted(GLOBAL volatile u32 *x) {
  u32 left = 20000;
  while (left && x[0] == 0) { MEET(); --left; }
  x[1 + TID()] = left + 7;
}
KERNEL void stores(GLOBAL volatile u32 *x) {
  while (x[0] != 20000) { MEET(); if (TID() == 0) x[0] += 1; MEET(); }
  x[1 + TID()] = 7;
}
KERNEL void told(GLOBAL volatile u32 *x) {
  if (WG() == 0) { while (x[0] == 0) { MEET(); MEET(); } x[1 + TID()] = 7; return; }
  for (u32 n = 0; n < 3000000; ++n) __asm__ volatile("");
  if (TID() == 0) __atomic_store_n(x, 1, 3);
}
"""


@pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")
@pytest.mark.parametrize("arch", ["gfx950", "gfx1201"])
def test_rounds_with_barriers(sim, build_dir, arch, monkeypatch):
    """A loop is endless as well when its waves wait for each other in it."""
    monkeypatch.setenv("FLYDSL_SIM_STALL_SECONDS", "0.2")
    sim.set_arch(arch)
    image = compile_gpu(ROUNDS, arch, "2", build_dir)
    for name, first in (("never", 0), ("locked", 1)):
        with pytest.raises(SimError, match="endless loop: each time round"):
            sim.run(image, name, (2,), (128,), [np.full(1, first, np.uint32)])
    for name, groups in (("counted", 1), ("stores", 1), ("told", 2)):
        out = np.zeros(129, np.uint32)
        sim.run(image, name, (groups,), (128,), [out])
        assert (out[1:] == 7).all(), name
