"""torch.ops.flydsl.*: opcheck, gradients, torch.compile; patch(model)."""

import subprocess
import sys

import numpy as np
import pytest
from kernel_helpers import DENSE_GEMM, close, needs, random, torch

import flydsl.kernels as kernels
from flydsl.kernels import ops
from flydsl.kernels.target import target

ops._torch()
flydsl = torch.ops.flydsl
F = torch.nn.functional


def leaf(*shape, dtype="f32", seed=0):
    return random(*shape, dtype=dtype, seed=seed).requires_grad_()


def gradients(function, *inputs):
    for t in inputs:
        t.grad = None
    function(*inputs).backward()
    return [t.grad.clone() for t in inputs]


def test_gradients_equal_torch():
    x, w, b, r = leaf(3, 8, 96), leaf(96, seed=1), leaf(96, seed=2), leaf(3, 8, 96, seed=3)

    def ours(x, w, b, r):
        y, added = ops.fused_add_rmsnorm(x, r, w)
        return (ops.softmax(ops.layernorm(y + added, w, b)) * ops.rmsnorm(x, w)).pow(2).sum()

    def theirs(x, w, b, r):
        added = x + r
        y = F.rms_norm(added, (96,), w, 1e-5)
        return (F.softmax(F.layer_norm(y + added, (96,), w, b), -1) * F.rms_norm(x, (96,), w, 1e-5)).pow(2).sum()

    for a, b_ in zip(gradients(ours, x, w, b, r), gradients(theirs, x, w, b, r), strict=True):
        close(a, b_, 2e-4 * max(1.0, b_.abs().max().item()))


@needs(*DENSE_GEMM)
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_gemm_gradients(layout):
    a = leaf(*((24, 64) if layout[0] == "n" else (64, 24)), dtype="bf16")
    b = leaf(*((64, 40) if layout[1] == "n" else (40, 64)), dtype="bf16", seed=1)

    def theirs(a, b):
        return ((a if layout[0] == "n" else a.T) @ (b if layout[1] == "n" else b.T)).float().pow(2).sum()

    expected = gradients(theirs, a, b)
    for mine, theirs_ in zip(gradients(lambda a, b: ops.gemm(a, b, None, layout).float().pow(2).sum(), a, b), expected,
                             strict=True):
        close(mine, theirs_, 0.02 * theirs_.abs().max().item())


@pytest.mark.one_arch
def test_compiles_without_graph_break():
    x, w, b = leaf(4, 64), leaf(64, seed=1), leaf(64, seed=2)

    def function(x, w, b):
        return ops.softmax(ops.layernorm(ops.rmsnorm(x, w), w, b)).pow(2).sum()

    eager = gradients(function, x, w, b)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for a, b_ in zip(eager, gradients(compiled, x, w, b), strict=True):
        close(a, b_, 1e-6)


EAGER = """
import sys, torch
from flydsl.kernels import ops
x = torch.ones(3, 64, requires_grad=True)
ops.softmax(x).pow(2).sum().backward()
assert x.grad is not None and "torch._dynamo" not in sys.modules
"""


@pytest.mark.one_arch
def test_eager_calls_do_not_load_the_compiler_of_torch():
    """It takes seconds to import."""
    result = subprocess.run([sys.executable, "-c", EAGER], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.one_arch
def test_eager_calls_inside_a_compiled_call_are_not_compiled():
    torch._dynamo.reset()
    x, frames = random(4, 64), torch._dynamo.utils.counters["frames"]
    eager = torch.compiler.disable(lambda x: flydsl.softmax(x), recursive=False)
    expected, before = eager(x + 1) * 2, frames["total"]
    compiled = torch.compile(lambda x: eager(x + 1) * 2, backend="eager")
    assert torch.equal(compiled(x), expected)
    assert frames["total"] - before < 10  # the caller, before and after the call, and the operator; nothing below it


@pytest.mark.one_arch
def test_short_forms_and_numpy():
    x, w = random(4, 40), random(40, seed=1)
    assert torch.equal(flydsl.rmsnorm(x, w), ops.rmsnorm(x, w))
    y = ops.rmsnorm(x.numpy(), w.numpy())
    assert isinstance(y, np.ndarray) and np.array_equal(y, ops.rmsnorm(x, w).numpy())
    assert np.array_equal(ops.softmax(x.numpy()), ops.softmax(x).numpy())


def test_outputs_are_fresh_and_inputs_untouched():
    x, w = random(4, 64), torch.ones(64)
    copy = x.clone()
    a, b = ops.rmsnorm(x, w), ops.rmsnorm(x, w)
    assert a.data_ptr() != b.data_ptr() and torch.equal(x, copy)
    strided = random(64, 8).T
    close(ops.softmax(strided), torch.softmax(strided.double(), -1), 1e-6)


class LlamaRMSNorm(torch.nn.Module):
    """As language models write it."""

    def __init__(self, size):
        super().__init__()
        self.weight, self.variance_epsilon = torch.nn.Parameter(torch.ones(size)), 1e-6

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.LayerNorm(64), torch.nn.Linear(64, 128), torch.nn.RMSNorm(128), LlamaRMSNorm(128),
        torch.nn.Softmax(-1), torch.nn.Softmax(1), torch.nn.Identity(), torch.nn.Linear(128, 5),
    ).bfloat16()


@pytest.mark.one_arch
@needs(*DENSE_GEMM)
def test_patch_reports_and_undoes():
    net, x = model(), random(4, 64, dtype="bf16")
    expected = net(x)
    report = kernels.patch(net)
    close(net(x), expected, 2e-3)
    assert [s.name for s in report.patched] == ["0", "1", "2", "3", "4"]
    reasons = {s.name: s.reason for s in report.skipped}
    assert "dim is 1" in reasons["5"] and "multiples of 8" in reasons["7"]
    assert all(s.calls == 1 and not s.fallbacks for s in report.patched)
    text = str(report)
    assert f"on {target().arch}" in text and "flydsl::layernorm_fwd (1 calls)" in text
    report.undo()
    assert torch.equal(net(x), expected) and report.patched[0].calls == 1


@pytest.mark.one_arch
def test_patch_falls_back_loudly():
    net = torch.nn.Sequential(torch.nn.LayerNorm(16))
    report = kernels.patch(net)
    x = torch.randn(2, 16, dtype=torch.float64)
    net.double()
    with pytest.warns(UserWarning, match="input dtype torch.float64"):
        net(x)
    net(x)
    assert report.sites[0].fallbacks == {"input dtype torch.float64": 2}
    report.undo()
    kernels.patch(net, strict=True)
    with pytest.raises(RuntimeError, match="cannot use flydsl::layernorm_fwd: input dtype"):
        net(x)


@pytest.mark.one_arch
def test_patched_model_compiles_and_trains():
    net, x = torch.nn.Sequential(torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)).bfloat16(), leaf(8, 64, dtype="bf16")
    expected = gradients(lambda x: net(x).float().pow(2).sum(), x)[0]
    kernels.patch(net)
    close(gradients(lambda x: net(x).float().pow(2).sum(), x)[0], expected, 0.05 * expected.abs().max().item())
    torch._dynamo.reset()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    close(compiled(x.detach()), net(x.detach()), 1e-6)


@pytest.mark.one_arch
def test_patch_reports_other_devices():
    net = torch.nn.Sequential(torch.nn.LayerNorm(16))
    report = kernels.patch(net)
    net.to("meta")
    with pytest.warns(UserWarning, match="input on device 'meta'"):
        assert net(torch.empty(2, 16, device="meta")).device.type == "meta"
    assert report.sites[0].calls == 0 and sum(report.sites[0].fallbacks.values()) == 1
    assert "fell back 1 times: input on device 'meta'" in str(report)


def test_patch_names_what_the_architecture_lacks(monkeypatch):
    """No convolution on gfx11: it stays torch's, with the reason; the rest is patched."""
    for name in ("ARCH", "FLYDSL_GPU_ARCH"):
        monkeypatch.setenv(name, "gfx1100")
    report = kernels.patch(torch.nn.Sequential(model(), torch.nn.Conv1d(4, 4, 3)))
    assert "Linear" in {s.kind for s in report.patched}
    (conv,) = (s for s in report.skipped if s.kind == "Conv1d")
    assert "not available on gfx1100" in conv.reason


@pytest.mark.one_arch
@needs(*DENSE_GEMM)
def test_patch_only():
    report = kernels.patch(model(), only=("Linear",))
    assert {s.kind for s in report.patched} == {"Linear"}


@needs(*DENSE_GEMM)
def test_gradients_of_an_f32_result():
    """The result is not detached: asking for f32 output must not lose the gradient."""
    a, b, bias = leaf(24, 64, dtype="bf16"), leaf(40, 64, dtype="bf16", seed=1), leaf(40, dtype="bf16", seed=2)

    def ours(a, b, bias):
        return ops.gemm(a, b, bias, "nt", torch.float32).pow(2).sum()

    expected = gradients(lambda a, b, bias: (a.double() @ b.double().T + bias.double()).pow(2).sum(), a, b, bias)
    assert ops.gemm(a, b, bias, "nt", "f32").dtype == torch.float32
    torch._dynamo.reset()
    for function in (ours, torch.compile(ours, fullgraph=True, backend="aot_eager")):
        for mine, theirs in zip(gradients(function, a, b, bias), expected, strict=True):
            close(mine, theirs, 0.02 * theirs.abs().max().item())


@needs(*DENSE_GEMM)
def test_linear_without_rows_has_a_gradient():
    x, w, b = leaf(0, 64, dtype="bf16"), leaf(16, 64, dtype="bf16", seed=1), leaf(16, dtype="bf16", seed=2)
    for gradient, like in zip(gradients(lambda *t: ops.linear(*t).float().sum(), x, w, b), (x, w, b), strict=True):
        assert gradient.shape == like.shape and not gradient.any()


@needs(*DENSE_GEMM)
@pytest.mark.parametrize("grad", [False, True])
def test_linear_of_nothing(grad):
    for n, k in ((0, 64), (16, 0), (0, 0)):
        x, w, b = (random(*shape, dtype="bf16") for shape in ((2, 3, k), (n, k), (n,)))
        assert torch.equal(ops.linear(x, w.requires_grad_(grad), b), b.expand(2, 3, n))


@needs(*DENSE_GEMM)
def test_products_follow_autocast():
    x, w = leaf(5, 64), leaf(16, 64, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for out in (ops.linear(x, w), ops.gemm(x, w)):
            assert out.dtype == torch.bfloat16
            close(out, x.double() @ w.double().T, 0.2)
            out.float().sum().backward()
    assert x.grad.dtype == w.grad.dtype == torch.float32
    with pytest.raises(TypeError, match="float32 is not supported"):
        ops.linear(x, w)


def test_norms_without_weight_or_bias():
    x = leaf(6, 40)
    ones, zeros = torch.ones(40), torch.zeros(40)
    assert torch.equal(ops.layernorm(x, None, None), ops.layernorm(x, ones, zeros))
    assert torch.equal(ops.layernorm(x, ones, None), ops.layernorm(x, ones, zeros))
    assert torch.equal(ops.rmsnorm(x, None), ops.rmsnorm(x, ones))
    ours = gradients(lambda x: ops.layernorm(x, None, None).pow(3).sum(), x)[0]
    close(ours, gradients(lambda x: F.layer_norm(x, (40,)).pow(3).sum(), x)[0], 1e-4)


@pytest.mark.one_arch
def test_arguments_that_are_no_tensors():
    with pytest.raises(TypeError, match="softmax: x must be a torch tensor or a NumPy array, got list"):
        ops.softmax([1.0, 2.0])
    with pytest.raises(ValueError, match="dtype 'int8' is not known"):
        ops.quantize_per_token(random(4, 8), "int8")
    x = random(4, 40)
    by_number, by_tensor = (ops.quantize_per_tensor(x, "i8", scale) for scale in (0.05, torch.tensor([0.05])))
    assert all(torch.equal(a, b) for a, b in zip(by_number, by_tensor, strict=True))
