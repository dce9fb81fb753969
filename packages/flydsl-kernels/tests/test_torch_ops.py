"""Operators of torch.ops.flydsl: what is not in every declaration (for that, test_ops.py)."""

import pytest
from kernel_helpers import random, torch

from flydsl.kernels import ops
from flydsl.kernels.target import current_arch

ops._torch()
flydsl = torch.ops.flydsl
LAYOUT = "b_16x16"
CDNA = ("gfx942", "gfx950")


def operands(m=6):
    """Of the preshuffle GEMM."""
    from flydsl.kernels.gemm import shuffle_weight

    a, weight = random(m, 128).to(torch.int8), shuffle_weight(random(64, 128, seed=1).to(torch.int8))
    return a, weight, random(m).abs(), random(64).abs(), None, "none", torch.bfloat16, LAYOUT


def test_all_on_meta_gives_meta():
    assert flydsl.softmax(torch.empty(3, 8, device="meta")).device.type == "meta"


def test_numpy_and_torch_do_not_mix():
    with pytest.raises(TypeError, match="all torch tensors or all NumPy arrays"):
        ops.rmsnorm(random(2, 8).numpy(), random(8))


def test_an_operator_without_gradient_says_so():
    x = random(4, 256).requires_grad_()
    _, scale = flydsl.quantize_per_token(x, "i8")
    assert not scale.requires_grad or pytest.raises(RuntimeError, scale.sum().backward)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, which it imports then
def test_forward_differentiation_is_refused():
    """torch would make zeros of the tangents."""
    x, one = random(2, 8), torch.ones(8)
    for function in (ops.softmax, lambda x: ops.rmsnorm(one.expand(2, 8), x[0]), ops.argmax):
        with pytest.raises(NotImplementedError, match=r"forward differentiation \(jvp\) is not supported"):
            torch.func.jvp(function, (x,), (torch.ones_like(x),))
    with torch.autograd.forward_ad.dual_level():
        assert ops.softmax(x).shape == x.shape  # which has none


def test_functional_transforms():
    x = random(3, 2, 8)
    for transform in (torch.func.grad, lambda f: torch.func.vmap(torch.func.grad(f)), torch.func.jacrev):
        with pytest.raises(NotImplementedError, match="softmax: torch.func.grad, vjp and jacrev do not take"):
            transform(lambda x: ops.softmax(x).square().sum())(x)
    y = x.clone().requires_grad_()
    out = torch.func.vmap(ops.softmax)(y)  # one after another
    assert torch.equal(out, ops.softmax(x)) and torch.autograd.grad(out[0, 0, 0], y)[0].any()


def test_gradients_that_there_are_not_are_named():
    x = random(2, 8).requires_grad_()
    (first,) = torch.autograd.grad(ops.softmax(x)[0, 0], x, create_graph=True)
    with pytest.raises(NotImplementedError, match="softmax_bwd has no gradient: second derivatives are not supported"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match="quantize_per_token has no gradient$"):
        ops.quantize_per_token(x)[1].sum().backward()


@pytest.mark.skipif(not current_arch().startswith(CDNA), reason="preshuffle GEMM")
def test_layout_tag_is_checked():
    a, b, scale_a, scale_b, *_ = operands()
    from flydsl.kernels.gemm import shuffle_weight

    plain = random(64, 128, seed=1).to(torch.int8)
    shuffled = shuffle_weight(plain)
    out = ops.preshuffle_gemm(a, shuffled, scale_a, scale_b)
    exact = a.double() @ plain.double().T * scale_a[:, None].double() * scale_b.double()
    assert (out.double() - exact).abs().max() <= 2.0**-7 * exact.abs().max()
    for weight in (plain, shuffled.clone(), torch.nn.Parameter(shuffled, requires_grad=False)):
        with pytest.raises(ValueError, match="layout 'b_16x16', but it is tagged"):
            ops.preshuffle_gemm(a, weight, scale_a, scale_b)
    assert torch.equal(flydsl.preshuffle_gemm(a, shuffled.clone(), scale_a, scale_b, None, "none", torch.bfloat16,
                                              LAYOUT), out)
    torch._dynamo.reset()
    compiled = torch.compile(ops.preshuffle_gemm, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, shuffled, scale_a, scale_b), out)
    with pytest.raises(ValueError, match="layout 'b_16x16', but it is tagged None"):
        compiled(a, plain, scale_a, scale_b)


@pytest.mark.skipif(not current_arch().startswith(CDNA), reason="preshuffle GEMM")
def test_weight_updates_in_place_are_seen():
    linear = torch.nn.Linear(64, 64, bias=False).bfloat16()
    x = random(8, 64, dtype="bf16")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: ops.linear(x, linear.weight), fullgraph=True, backend="aot_eager")
    optimiser = torch.optim.SGD(linear.parameters(), lr=0.5)
    with torch.no_grad():
        for change in (lambda: linear.weight.mul_(2), lambda: linear.weight.copy_(torch.randn(64, 64)),
                       lambda: linear.weight[3].zero_(), lambda: linear.load_state_dict(
                           {"weight": torch.randn(64, 64)}), optimiser.step):
            ops.linear(x, linear.weight)
            linear.weight.grad = torch.ones_like(linear.weight)
            change()
            exact = x.double() @ linear.weight.double().T
            for out in (ops.linear(x, linear.weight), compiled(x)):
                assert (out.double() - exact).abs().max() <= 2.0**-7 * exact.abs().max()
