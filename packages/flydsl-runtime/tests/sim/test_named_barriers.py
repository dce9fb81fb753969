"""Barriers of gfx12 by number: membership, the first arrival, the state that programs can read."""

from __future__ import annotations

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble


@pytest.mark.parametrize("arch", ["gfx1200", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("in_register", [False, True])
def test_two_waves_meet_at_a_named_barrier(sim, build_dir, arch, in_register):
    """Wave 1 reads what wave 0 wrote to LDS before the barrier; one of them was the first; both may leave."""
    barrier = "m0" if in_register else "1"
    both = "  s_barrier_signal -1\n  s_barrier_wait -1\n"
    code = f"""  v_readfirstlane_b32 s20, v0
  s_lshr_b32 s20, s20, 7
  s_mov_b32 m0, 0x20001
  s_cmp_eq_u32 s20, 0
  s_cbranch_scc0 other
  s_barrier_init {barrier}
other:
{both}  s_barrier_join {barrier}
  v_and_b32 v5, 0x7f, v0
  s_cmp_eq_u32 s20, 0
  s_cbranch_scc0 reader
  ds_store_b32 v5, v8
  s_wait_dscnt 0x0
reader:
  s_get_barrier_state s24, {barrier}
  s_barrier_signal_isfirst {barrier}
  s_cselect_b32 s21, 1, 0
  s_barrier_wait 1
  ds_load_b32 v5, v5
  s_get_barrier_state s22, {barrier}
  s_wait_kmcnt 0x0
  s_wait_dscnt 0x0
{both}  s_barrier_leave
  s_cselect_b32 s23, 1, 0
  v_mov_b32 v2, s21
  v_mov_b32 v3, s22
  v_mov_b32 v4, s23
  v_mov_b32 v6, s24
"""
    text = module_text(arch, [Program("meet", code, 1, 2, 5)], 32)
    text = text.replace(".group_segment_fixed_size: 0", ".group_segment_fixed_size: 256")
    more = "\n  .amdhsa_group_segment_fixed_size 256\n"
    if arch == "gfx1250":
        more += "  .amdhsa_named_barrier_count 1\n"
    sim.set_arch(arch)
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more + ".end_amdhsa_kernel"), arch, build_dir))
    data = np.random.default_rng(1).integers(0, 2**32, 64, np.uint32)
    out = np.zeros((5, 64), np.uint32)
    sim.launch(sim.function(module, "meet"), (1,), (64,), [data, out])
    first, state, left, values, before = out
    assert {tuple(first[:32]), tuple(first[32:])} == {(0,) * 32, (1,) * 32}
    assert set(state.tolist()) == {2 << 4 | 1}, "two members, nobody waiting, valid"
    assert {v & ~(1 << 16) for v in before.tolist()} == {2 << 4 | 1}
    assert set(left.tolist()) == {1}
    np.testing.assert_array_equal(values, np.concatenate([data[:32], data[:32]]))
