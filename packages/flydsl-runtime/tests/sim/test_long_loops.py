"""Loops that are long and not endless: what a loop depends on is found from LLVM's register uses."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import FIRST, Bench, Program

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
