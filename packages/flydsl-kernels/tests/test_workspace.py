"""Workspaces beyond what test_ops.py holds every operation to; operators keep nothing afterwards."""

import pytest
from kernel_helpers import needs, random, torch
from test_ops import beyond_results

from flydsl.kernels.gemm.op import LINEAR_INFERENCE


def test_the_kernels_stay_inside_their_workspace():
    """The partial sums of the two-stage gradient, between guards."""
    from kernel_helpers import Guarded

    from flydsl.kernels.norm import build_rmsnorm_bwd_two_stage_module

    m, n, programs = 33, 301, 5
    x, w, dy = random(m, n), random(n), random(m, n, seed=1)
    dx, dw, partial = Guarded(m, n), Guarded(n), Guarded(programs * n)
    build_rmsnorm_bwd_two_stage_module(n, "f32", programs)(x, w, dy, torch.ones(m), dx.out, dw.out, partial.out, m)
    assert not bool(dx.check().isnan().any() | dw.check().isnan().any() | partial.check().isnan().any())


@needs("gfx942", "gfx950", "gfx120")
@pytest.mark.parametrize("split_k", [1, 4])
def test_general_gemm(split_k):
    from flydsl.kernels.gemm import gemm_a16w16

    m, n, k = 32, 64, 2048
    a, b = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    gemm_a16w16(a, b)  # the runtime makes tensors of one element to learn how they look, once
    used = beyond_results(lambda: gemm_a16w16(a, b, None, None, user_kwargs={"split_k": split_k}))
    assert used == (split_k * m * n * 4 if split_k > 1 else 0)


@needs("gfx942", "gfx950")
def test_linear_keeps_one_copy_of_a_weight():
    from flydsl.kernels.host import weights

    x, weight = random(16, 128, dtype="bf16"), random(64, 128, dtype="bf16", seed=1)
    weights.clear_preshuffle_cache()

    def used(w):
        return beyond_results(lambda: LINEAR_INFERENCE.run(x, w, None))

    first = used(weight)
    assert first == weight.numel() * weight.element_size()
    assert used(weight) == 0
    weight.add_(1)
    assert used(weight) == first and len(weights._shuffled) == 1
    del weight
    assert not weights._shuffled  # the copy goes with the weight
