"""Top-k gating softmax against a stable sort in f64."""

import pytest
from kernel_helpers import Guarded, cases, close, random, torch

from flydsl.kernels import ops
from flydsl.kernels.moe import build_topk_gating_softmax_module

pytestmark = pytest.mark.each_wave_size

CASES = cases(
    [(37, 64, 4, "f32", True), (5, 256, 8, "bf16", True), (9, 384, 7, "f16", False), (3, 257, 9, "bf16", True),
     (7, 6, 2, "f32", True), (11, 1, 1, "f32", True), (3, 7, 7, "f32", False)],
    [(1025, 128, 8, "bf16", True), (33, 513, 9, "f16", True), (100, 60, 6, "f32", True), (64, 1000, 3, "f32", False)],
)


@pytest.mark.parametrize(("tokens", "experts", "k", "dtype", "renormalize"), CASES)
def test_gating(tokens, experts, k, dtype, renormalize):
    x = random(tokens, experts, dtype=dtype)
    weights, indices, sources = Guarded(tokens, k), Guarded(tokens, k), Guarded(tokens, k)
    launch = build_topk_gating_softmax_module(experts, k, dtype, renormalize)
    launch(x, weights.out, indices.out, sources.out, tokens)  # integers viewed as f32
    p = torch.softmax(x.double(), -1)
    order = torch.sort(x.double(), dim=-1, descending=True, stable=True).indices[:, :k]
    expected = p.gather(1, order)
    expected = expected / expected.sum(-1, keepdim=True) if renormalize else expected
    close(weights.check(), expected, 1e-5)
    assert torch.equal(indices.out.view(torch.int32).long(), order)
    assert torch.equal(sources.out.view(torch.int32).long(), torch.arange(k) * tokens + torch.arange(tokens)[:, None])


def test_equal_values_take_the_lower_expert():
    weights, indices, _ = ops.topk_gating_softmax(torch.zeros(3, 96), 5)
    assert indices.tolist() == [[0, 1, 2, 3, 4]] * 3
    close(weights, torch.full((3, 5), 0.2), 1e-6)


def test_unsupported_arguments():
    with pytest.raises(ValueError, match="topk must be in"):
        build_topk_gating_softmax_module(4, 5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("experts", "k"), [(8, 2), (60, 4), (256, 8), (100, 100)])
def test_tokens_without_a_softmax_get_valid_experts(value, experts, k):
    """Their weights are NaN, as their softmax is; experts stay distinct and in range, other tokens are untouched."""
    x = random(6, experts)
    expected = ops.topk_gating_softmax(x, k)
    bad = x.clone()
    bad[1], bad[4] = value, (value if value < 0 else bad[4])
    if value != float("-inf"):
        bad[4, experts // 2] = value
    weights, indices, sources = ops.topk_gating_softmax(bad, k)
    for token in range(6):
        if token in (1, 4):
            assert bool(weights[token].isnan().all()) and indices[token].tolist() == list(range(k))
        else:
            assert torch.equal(weights[token], expected[0][token]) and torch.equal(indices[token], expected[1][token])
    assert torch.equal(sources, expected[2])
