"""The gated layer against its definition in f64."""

import numpy as np
import pytest
from kernel_helpers import GENERAL_GEMM, needs, random, torch

import flydsl.kernels as kernels
from flydsl.kernels import ops
from flydsl.kernels.mlp.op import MLP

pytestmark = [needs(*GENERAL_GEMM), pytest.mark.each_wave_size]


def operands(rows, model=136, inter=72, dtype="bf16"):
    return (random(*rows, model, dtype=dtype), random(2 * inter, model, dtype=dtype, seed=1, scale=model**-0.5),
            random(model, inter, dtype=dtype, seed=2, scale=inter**-0.5))


@pytest.mark.spread
@pytest.mark.parametrize(("activation", "limit", "interleaved"),
                         [("silu", None, False), ("gelu", None, True), ("swiglu", None, False), ("situ", 0.5, True)])
@pytest.mark.parametrize(("rows", "dtype"), [((3, 70), "bf16"), ((1,), "f16"), ((257,), "f16")])
def test_mlp(rows, dtype, activation, limit, interleaved, whole_blocks):
    given = (*operands(rows, dtype=dtype), activation, limit, interleaved)
    result, (exact,) = ops.mlp(*given), MLP.reference(*given)
    assert result.shape == exact.shape
    assert float((result.double() - exact).abs().max()) <= 4 * torch.finfo(result.dtype).eps * float(exact.abs().max())


def test_more_rows_than_a_small_block():
    given = (*operands((70,)), "silu", None, False)
    result, (exact,) = ops.mlp(*given), MLP.reference(*given)
    assert float((result.double() - exact).abs().max()) <= 4 * 2.0**-7 * float(exact.abs().max())


@pytest.mark.parametrize("rows", [60, 100])
def test_workgroups_alone_on_a_compute_unit(rows, monkeypatch):
    """Blocks of many rows with few columns, whose waves share k on gfx9."""
    monkeypatch.setattr("flydsl.kernels.moe.tuned.filling_block", lambda target, quant, block, *_: block)
    given = (*operands((rows,), 104, 1024), "silu", None, False)
    result, (exact,) = ops.mlp(*given), MLP.reference(*given)
    assert float((result.double() - exact).abs().max()) <= 4 * 2.0**-7 * float(exact.abs().max())


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradient_of_every_activation(interleaved):
    for activation, limit in (("silu", None), ("gelu", 0.7), ("swiglu", 0.7), ("situ", None)):
        ours = [t.requires_grad_() for t in operands((11,), 64, 32)]
        exact = [t.detach().double().requires_grad_() for t in ours]
        seed = random(11, 64, seed=5)
        ops.mlp(*ours, activation, limit, interleaved).backward(seed.bfloat16())
        MLP.reference(*exact, activation, limit, interleaved)[0].backward(seed.bfloat16().double())
        for mine, theirs in zip(ours, exact, strict=True):
            assert float((mine.grad.double() - theirs.grad).abs().max()) <= 2e-2 * float(theirs.grad.abs().max())


@pytest.mark.parametrize(("change", "message"), [
    ((1, (70, 64)), r"w_gate_up \(2 inter, model\)"), ((2, (64, 36)), "w_gate_up"), ((0, (5, 72)), "x must be"),
])
def test_unsupported_shapes(change, message):
    given = list(operands((5,), 64, 32))
    given[change[0]] = random(*change[1], dtype="bf16")
    with pytest.raises(ValueError, match=message):
        ops.mlp(*given)


@pytest.mark.parametrize(("x", "message"), [
    (np.zeros((5, 64), np.uint16), "dtype uint16 is not supported"),
    (np.zeros((5, 64), "M8[s]"), r"mlp: NumPy arrays of dtype dtype\('<M8\[s\]'\) are not supported"),
    (np.zeros((5, 64), ">f2"), "mlp: NumPy arrays of dtype"),
])
def test_arrays_that_torch_has_not(x, message):
    with pytest.raises(TypeError, match=message):
        ops.mlp(x, np.zeros((128, 64), np.float16), np.zeros((64, 64), np.float16))


def test_arrays_of_two_kinds():
    x, w1, w2 = operands((5,), 64, 64, "f16")
    with pytest.raises(TypeError, match="mlp: operands must be all torch tensors or all NumPy arrays"):
        ops.mlp(x.numpy(), w1, w2.numpy())


def test_what_a_launch_of_arrays_would_be():
    given = operands((5,), 64, 64, "f16")
    launcher, arguments, _ = MLP.prepare(*(t.numpy() for t in given))
    assert launcher is MLP.prepare(*given)[0] and len(arguments) == 7


def test_arrays_are_not_recorded():
    given = [t.numpy() for t in operands((5,), 64, 64, "f16")]
    with pytest.raises(RuntimeError, match="mlp: NumPy arrays cannot be recorded"):
        kernels.capture(lambda: ops.mlp(*given))
