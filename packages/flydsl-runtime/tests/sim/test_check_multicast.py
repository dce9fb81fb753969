"""FLYDSL_SIM_CHECK=barrier: tensor loads that work-groups of a cluster say they share, and do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError
from test_machine import launch_clusters

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
typedef u32 v8u32 __attribute__((ext_vector_type(8)));
static LDS u32 cells[128] __attribute__((loader_uninitialized));
#define U(x) __builtin_amdgcn_readfirstlane(x)
/* Work-group g loads the rows plan[g][1], plan[g][2], ..., plan[g][3] of them, with the mask plan[g][0]. */
KERNEL void k(GLOBAL u32 *in, GLOBAL u32 *plan, GLOBAL u32 *out) {
  u32 g = __builtin_amdgcn_workgroup_id_x();
  ((volatile LDS u32 *)cells)[TID()] = 0;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  if (U(TID()) < 32)
    for (u32 n = 0; n < U(plan[4 * g + 3]); ++n) {
      u64 a = (u64)(in + 64 * U(plan[4 * g + 1 + n]));
      v4u32 g0 = {1, U((u32)(LDS u32 *)(cells + 64 * n)), U((u32)a), U((u32)(a >> 32) | 2u << 30)};
      v8u32 g1 = {2u << 16 | U(plan[4 * g]), 64 << 16, 1u << 16, 64 << 16, 0, 0, 0, 0};
      asm volatile("tensor_load_to_lds %0, %1\\n s_wait_tensorcnt 0x0" :: "s"(g0), "s"(g1) : "memory");
    }
  __builtin_amdgcn_s_barrier();
  out[64 * g + TID()] = ((volatile LDS u32 *)cells)[TID()];
}
"""
ONLY_ONE = "work-group 0 of the cluster made the request 1 times, work-group 1 0 times"


@pytest.fixture
def launch(sim, build_dir, monkeypatch) -> Callable[..., np.ndarray]:
    """launch(plan of each work-group of a cluster of two): what each has in its LDS."""
    sim.set_arch("gfx1250")
    function = sim.function(sim.load(compile_gpu(SOURCE, "gfx1250", "2", build_dir, "-g")), "k")
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "barrier")

    def run(*plan: tuple[int, int, int, int]) -> np.ndarray:
        rows, out = np.arange(256, dtype=np.uint32).reshape(4, 64), np.zeros((len(plan), 64), np.uint32)
        launch_clusters(sim, function, len(plan), 2, rows, np.array(plan, np.uint32), out)
        np.testing.assert_array_equal(out[:, 0] % 64, 0)
        return out[:, 0] // 64

    return run


@pytest.mark.parametrize(("plan", "first"), [
    ([(3, 2, 0, 1), (3, 2, 0, 1)], [2, 2]),                                # the same row
    ([(3, 2, 1, 2), (3, 1, 2, 2)], [2, 1]),                                # the same rows in another order
    ([(0, 2, 0, 1), (0, 1, 0, 1)], [2, 1]),                                # nothing is shared
    ([(1, 2, 3, 2), (2, 1, 0, 1)], [2, 1]),                                # each shares with itself
    ([(3, 2, 0, 1), (3, 2, 0, 1), (3, 1, 0, 1), (3, 1, 0, 1)], [2, 2, 1, 1]),  # clusters have requests of their own
])
def test_requests_that_match(launch, plan, first):
    np.testing.assert_array_equal(launch(*plan), first)


@pytest.mark.parametrize(("plan", "report"), [
    ([(3, 2, 0, 1), (3, 1, 0, 1)], "mask 0x3 of the tile at address 0x"),   # other rows
    ([(3, 2, 0, 1), (3, 2, 0, 0)], ONLY_ONE),                                 # only the first asks
    ([(3, 2, 2, 1), (3, 2, 2, 2)], "made the request 1 times, work-group 1 2 times"),
    ([(2, 2, 0, 1), (2, 2, 0, 1)], "mask 0x2, made by work-group 0 of a cluster of 2: .*its own among them"),
    ([(7, 2, 0, 1), (7, 2, 0, 1)], "mask 0x7, made by work-group 0 of a cluster of 2"),
])
def test_requests_that_do_not_match(launch, monkeypatch, plan, report):
    with pytest.raises(SimError, match=f"check barrier: a multicast with .*{report}") as info:
        launch(*plan)
    assert "tensor_load_to_lds" in str(info.value) and "<stdin>:" in str(info.value)
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob,race,uninit")
    launch(*plan)  # a matter of speed alone, as far as is known: values are right
