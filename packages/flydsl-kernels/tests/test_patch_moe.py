"""patch(model) on mixtures of experts: results, what else is returned, gradients, changes of weights, reports."""

import copy

import pytest
from kernel_helpers import GENERAL_GEMM, needs, torch
from mixtures import MIXTURES, StackedExperts, by_expert, make
from torch import nn
from torch.nn import functional as F

import flydsl.kernels as kernels

pytestmark = [needs(*GENERAL_GEMM), pytest.mark.one_arch]  # what it runs has tests


def first(result):
    return result[0] if isinstance(result, tuple) else result


def near(mine, theirs, bound=3e-2):
    assert float((mine.double() - theirs.double()).abs().max()) <= bound * float(theirs.double().abs().max())


@pytest.mark.parametrize("name", MIXTURES)
def test_results(name):
    module, x = make(name)
    model = nn.Sequential()
    model.add_module("block", module)
    with torch.no_grad():
        expected = module(x)
        report = kernels.patch(model)
        result = module(x)
    near(first(result), first(expected))
    assert isinstance(result, tuple) == isinstance(expected, tuple)
    if isinstance(result, tuple):
        assert result[1].shape == expected[1].shape
        near(result[1], expected[1])
    site = next(s for s in report.sites if s.name == "block")
    product = all(size % 8 == 0 for size in (getattr(module, "gate", None) or module.router).weight.shape)
    assert site.kernel == product * "flydsl::linear, " + "flydsl::route, flydsl::moe" and site.calls == 1
    assert not any(s.name.startswith("block.experts") for s in report.sites)
    report.undo()
    with torch.no_grad():
        assert torch.equal(first(module(x)), first(expected))


@pytest.mark.parametrize("name", MIXTURES)
def test_gradients_and_changed_weights(name):
    module, x = make(name)
    exact = copy.deepcopy(module)
    kernels.patch(module)
    for m in (module, exact):
        first(m(x)).float().square().mean().backward()
    for (where, p), q in zip(module.named_parameters(), exact.named_parameters(), strict=True):
        assert (p.grad is None) == (q[1].grad is None), where
        if p.grad is not None and float(q[1].grad.abs().max()) > 1e-6:
            near(p.grad, q[1].grad, 6e-2)
    with torch.no_grad():
        module(x)
        for m in (module, exact):
            for p in m.experts.parameters():
                p.mul_(0.7)
        near(first(module(x)), first(exact(x)))


def test_a_second_patch_leaves_the_first_alone():
    """Parts that a patched module computes itself are no modules of the second one's, nor undone by it."""
    module, x = make("StackedMoeBlock")
    first_report = kernels.patch(module)
    with torch.no_grad():
        out = module(x)
        second = kernels.patch(module)
        assert not second.patched and not any(s.name.startswith("experts") for s in second.sites)
        second.undo()
        assert torch.equal(module(x), out)
    first_report.undo()
    assert not any("forward" in vars(m) for m in module.modules())


def test_a_copy_runs_the_kernels():
    module, x = make("DeepseekV3MoE")
    kernels.patch(module)
    other = copy.deepcopy(module)
    with torch.no_grad():
        assert torch.equal(other(x), module(x))


def test_what_computes_something_else_is_left_alone():
    module, x = make("Qwen3MoeSparseMoeBlock")
    module.norm_topk_prob = True  # and its forward does not do it
    report = kernels.patch(module)
    assert "is not that of a mixture" in report.sites[0].reason
    module, _ = make("MixtralSparseMoeBlock", torch.float32)
    assert "float16 or bfloat16 is needed" in kernels.patch(module).sites[0].reason
    module, _ = make("MixtralSparseMoeBlock")
    module.experts[0].act_fn = nn.Tanh()
    assert "Tanh" in kernels.patch(module).sites[0].reason


def test_calls_that_do_not_fit_fall_back():
    module, x = make("MixtralSparseMoeBlock")
    module.train()
    module.jitter_noise = 0.1
    report = kernels.patch(module, only=("MoeBlock",))
    with pytest.warns(UserWarning, match="noise on the input"):
        module(x)
    assert sum(report.sites[0].fallbacks.values()) == 1


@pytest.mark.parametrize("name", MIXTURES)
def test_a_model_made_wider_after_it_was_patched_falls_back(name):
    module, x = make(name)
    twin = copy.deepcopy(module).float()
    report = kernels.patch(module)
    with pytest.warns(UserWarning, match="both must be float16 or both bfloat16"), torch.no_grad():
        result, expected = module.float()(x.float()), twin(x.float())
    near(first(result), first(expected), 1e-5)
    assert [site.calls for site in report.sites if "moe" in (site.kernel or "")] == [0]


@pytest.mark.parametrize("name", ["MixtralSparseMoeBlock", "DeepseekV3MoE", "GptOssMLP"])
def test_compiles_as_one_graph_and_keeps_its_weights(name, monkeypatch):
    module, x = make(name)
    exact = copy.deepcopy(module)
    kernels.patch(module)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        near(first(compiled(x)), first(exact(x)))

        def never(*_):
            raise AssertionError("the weights were stacked again")

        with monkeypatch.context() as patched:
            patched.setattr("flydsl.kernels.patching.op.stacked", never)
            assert torch.equal(first(compiled(x)), first(module(x)))
        for m in (module, exact):
            for p in m.experts.parameters():
                p.mul_(0.7)
        near(first(compiled(x)), first(exact(x)))
    # Weights that learn are stacked where their gradients can be found.
    for m in (compiled, exact):
        first(m(x)).float().square().mean().backward()
    for p, q in zip(module.parameters(), exact.parameters(), strict=True):
        if p.grad is not None and float(q.grad.abs().max()) > 1e-6:
            near(p.grad, q.grad, 6e-2)


class Stacked(StackedExperts):
    """As its mixture calls it, whatever that does besides. The number of all experts stands for none."""

    more = 0.0

    def forward(self, x, ids, weights):
        def expert(number):
            def run(rows):
                gate, up = F.linear(rows, self.gate_up_proj[number]).chunk(2, -1)
                return F.linear(self.act_fn(gate) * up, self.down_proj[number]) + self.more * rows

            return run

        return by_expert([expert(number) for number in range(len(self.down_proj))], x, weights, ids)


class OtherMoE(nn.Module):
    def __init__(self, more=0.0):
        super().__init__()
        self.experts = Stacked(64, 48, 6)
        self.experts.more = more

    def forward(self, x):
        ids = torch.arange(2 * len(x)).view(-1, 2) % 7  # 6 is none of them
        return self.experts(x, ids, torch.linspace(0.1, 1.0, 2 * len(x)).view(-1, 2).to(x.dtype)) * 0.5


def other(more=0.0):
    generator = torch.Generator().manual_seed(0)
    module = OtherMoE(more)
    for p in module.parameters():
        p.data = torch.randn(p.shape, generator=generator) * p.shape[-1] ** -0.5
    return module.bfloat16(), torch.randn(9, 64, generator=generator).bfloat16()


def test_stacked_experts_of_any_mixture():
    module, x = other()
    exact = copy.deepcopy(module)
    report = kernels.patch(module)
    sites = {site.name: site for site in report.sites}
    assert sites["experts"].kernel == "flydsl::moe" and "no mixture of experts that is known" in sites[""].reason
    for m in (module, exact):
        m(x).float().square().mean().backward()
    for p, q in zip(module.parameters(), exact.parameters(), strict=True):
        near(p.grad, q.grad, 6e-2)
    with torch.no_grad():
        near(module(x), exact(x))
    torch._dynamo.reset()
    with torch.no_grad():
        near(torch.compile(module, fullgraph=True, backend="aot_eager")(x), exact(x))
    assert sites["experts"].calls >= 2 and not sites["experts"].fallbacks


def test_experts_that_compute_something_else_are_left_alone():
    module, x = other(more=0.3)
    expected = module(x)
    assert [s.reason for s in kernels.patch(module).sites if s.name == "experts"] == [
        "its forward is not that of experts by its attributes, of (rows, experts, weights)"]
    assert torch.equal(module(x), expected)
    module.experts.gate_up_proj = nn.Parameter(torch.cat([module.experts.gate_up_proj] * 2))  # some experts are nothing
    assert "are no gated layers" in kernels.patch(module).sites[1].reason
    module, x = other()
    report = kernels.patch(module, only="Stacked")
    with pytest.warns(UserWarning, match="both must be float16 or both bfloat16"):
        module.float()(x.float())
    with pytest.warns(UserWarning, match="other arguments than"):
        module.bfloat16().experts(x, ids=torch.zeros(9, 2).long(), weights=torch.ones(9, 2).bfloat16())
    assert sum(report.patched[0].fallbacks.values()) == 2
