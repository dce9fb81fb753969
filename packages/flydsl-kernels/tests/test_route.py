"""Routing against a stable sort in f64: every scoring, bias, groups."""

import pytest
from kernel_helpers import Guarded, cases, close, random, torch

from flydsl.kernels import ops
from flydsl.kernels.moe import build_route_module
from flydsl.kernels.route.op import ROUTE

pytestmark = pytest.mark.each_wave_size

# tokens, experts, k, dtype, scoring, bias, groups, renormalize, scale
CASES = cases(
    [
        (37, 64, 4, "f32", "sigmoid", False, (1, 1), True, 1.0),
        (9, 256, 8, "bf16", "sigmoid", True, (8, 4), True, 2.5),
        (5, 160, 6, "bf16", "softmax", False, (8, 3), False, 16.0),
        (7, 384, 8, "f32", "sigmoid", True, (1, 1), True, 2.827),
        (11, 6, 2, "f16", "sqrtsoftplus", False, (1, 1), True, 1.0),
        (4, 257, 9, "bf16", "sqrtsoftplus", True, (1, 1), False, 1.0),
        (13, 32, 4, "f32", "softmax", True, (8, 2), True, 1.0),
        (1, 8, 8, "f32", "softmax", False, (2, 2), False, 1.0),
        (3, 96, 5, "bf16", "sigmoid", True, (3, 2), True, 1.0),
        (5, 49, 4, "f16", "sigmoid", True, (7, 3), True, 1.0),
        (2, 72, 8, "f32", "softmax", False, (6, 1), True, 1.0),
    ],
    [
        (1025, 256, 8, "bf16", "sigmoid", True, (8, 4), True, 2.5),
        (300, 512, 8, "f16", "sqrtsoftplus", True, (16, 5), True, 1.0),
        (64, 1000, 3, "f32", "sigmoid", True, (1, 1), False, 1.0),
        (200, 128, 8, "bf16", "softmax", False, (4, 1), True, 1.0),
    ],
)


def separated(tokens, experts, dtype, seed=0):
    """Logits no two of which in a row have scores that rounding makes equal, in any order."""
    generator = torch.Generator().manual_seed(seed + experts)
    steps = torch.stack([torch.randperm(experts, generator=generator) for _ in range(tokens)])
    return ((steps - experts / 2) * (4.0 / experts)).to({"f32": torch.float32, "f16": torch.float16,
                                                          "bf16": torch.bfloat16}[dtype])


@pytest.mark.parametrize("tokens, experts, k, dtype, scoring, bias, groups, renormalize, scale".split(", "), CASES)
def test_route(tokens, experts, k, dtype, scoring, bias, groups, renormalize, scale):
    x = separated(tokens, experts, dtype)
    addend = random(experts, seed=3) * 0.3 if bias else None
    weights, ids = Guarded(tokens, k), Guarded(tokens, k)
    launch = build_route_module(experts, k, dtype, scoring=scoring, bias=bias, groups=groups[0], kept_groups=groups[1],
                                renormalize=renormalize, scale=scale)
    launch(x, addend, weights.out, ids.out, tokens)  # integers viewed as f32
    expected, order = ROUTE.reference(x, k, scoring, addend, *groups, renormalize, scale)
    found = ids.check().view(torch.int32)
    assert torch.equal(found.double(), order)
    close(weights.check(), expected, 2e-6 * scale)


@pytest.mark.parametrize("groups", [(1, 1), (8, 3)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid", "sqrtsoftplus"])
def test_equal_scores_take_the_lower_expert(scoring, bias, groups):
    addend = torch.zeros(64) if bias else None
    weights, ids = ops.route(torch.zeros(3, 64), 5, scoring, addend, *groups)
    assert ids.tolist() == [[0, 1, 2, 3, 4]] * 3
    close(weights, torch.full((3, 5), 0.2), 1e-6)


def test_groups_are_judged_by_their_two_best_with_a_bias():
    x = torch.full((1, 16), -2.0)
    x[0, 3], x[0, 4], x[0, 5] = 3.0, 2.0, 2.0  # the best expert is alone in its group
    assert ops.route(x, 2, "sigmoid", None, 4, 1)[1].tolist() == [[3, 0]]
    assert ops.route(x, 2, "sigmoid", torch.zeros(16), 4, 1)[1].tolist() == [[4, 5]]


def test_the_bias_chooses_and_does_not_weigh():
    x, bias = random(5, 16, seed=2), torch.zeros(16)
    bias[7] = 10.0
    weights, ids = ops.route(x, 2, "sigmoid", bias, renormalize=False)
    assert ids[:, 0].tolist() == [7] * 5
    close(weights[:, 0], x[:, 7].sigmoid(), 1e-6)


@pytest.mark.parametrize(("experts", "groups"), [(49, (7, 2)), (1021, (1, 1)), (515, (1, 1))])
def test_the_last_expert_of_the_last_token_is_read(experts, groups):
    """Its logit is the last that there is, and may lie alone in what a lane reads together."""
    for bias in (None, torch.full((experts,), -3.0)):
        x = torch.zeros(3, experts).half()
        x[:, -1] = 1.0
        assert ops.route(x, 1, "sigmoid", bias, *groups)[1].tolist() == [[experts - 1]] * 3


def test_experts_of_minus_infinity_come_last_and_once():
    x = torch.full((2, 60), float("-inf"))
    x[0, 50], x[1, 7] = 1.0, 2.0
    weights, ids = ops.route(x, 3)
    assert ids.tolist() == [[50, 0, 1], [7, 0, 1]]
    close(weights, torch.tensor([[1.0, 0, 0], [1.0, 0, 0]]), 0)


@pytest.mark.parametrize("scoring", ["sigmoid", "sqrtsoftplus"])
@pytest.mark.parametrize("groups", [(1, 1), (8, 3)])
def test_a_token_with_a_nan_gets_valid_experts(scoring, groups):
    x = random(3, 64)
    x[1, 20] = float("nan")
    weights, ids = ops.route(x, 4, scoring, random(64), *groups)
    assert ids[1].tolist() == [0, 1, 2, 3] and bool(weights[1].isnan().all())
    assert not weights[[0, 2]].isnan().any()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid", "sqrtsoftplus"])
def test_gradient(scoring, renormalize, bias):
    x = random(5, 32).requires_grad_()
    addend = random(32, seed=5) if bias else None
    weights, ids = ops.route(x, 3, scoring, addend, 8, 4, renormalize, 1.5)
    exact = x.detach().double().requires_grad_()
    expected, _ = ROUTE.reference(exact, 3, scoring, addend, 8, 4, renormalize, 1.5)
    seed = random(5, 3, seed=4)
    weights.backward(seed)
    expected.backward(seed.double())
    close(x.grad, exact.grad, 1e-6)
    assert not ids.requires_grad


@pytest.mark.parametrize(("arguments", "message"), [
    ((5,), "topk must be in"), ((2, "relu"), "scoring must be one of"), ((2, "softmax", None, 3, 1), "must divide"),
    ((2, "softmax", None, 2, 3), "topk_groups must be in"), ((3, "softmax", None, 2, 1), "fewer than topk"),
    ((2, "softmax", torch.zeros(4), 4, 2), "no second one"), ((2, "sigmoid", torch.zeros(5)), "bias must be f32"),
])
def test_unsupported_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ops.route(torch.zeros(2, 4), *arguments)


def test_groups_that_no_lanes_can_hold_are_refused():
    with pytest.raises(ValueError, match="fit the lanes of a wave"):
        ops.route(torch.zeros(2, 999), 2, "softmax", None, 3, 1)
