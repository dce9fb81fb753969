"""patch(model) on language models: results, gradients, training, copies, files, compilation, autocast, reports."""

import copy
import inspect
import io
import pickle
import warnings

import pytest
from kernel_helpers import GENERAL_GEMM, needs, random, torch
from models import MODELS, GemmaRMSNorm, LlamaRMSNorm, make, relative
from torch import nn

import flydsl.kernels as kernels

F = nn.functional
NAMES = list(MODELS)
pytestmark = [needs(*GENERAL_GEMM), pytest.mark.one_arch]  # what it runs has tests
BOUND = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5}


@pytest.fixture(autouse=True)
def no_unexpected_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens).double().flatten(0, 1), tokens.flatten())


def agree(model, exact, tokens, factor=2.0):
    """As near to f64 as torch's own forward in this dtype, within `factor`."""
    with torch.no_grad():
        expected = exact(tokens)
        assert relative(model(tokens), expected) <= BOUND[next(model.parameters()).dtype]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients(name, dtype):
    model, exact, tokens = make(name, dtype)
    plain = copy.deepcopy(model)
    for m in (exact, plain):
        loss_of(m, tokens).backward()
    report = kernels.patch(model)
    loss_of(model, tokens).backward()
    for (where, p), q, r in zip(model.named_parameters(), exact.parameters(), plain.parameters(), strict=True):
        error, theirs = relative(p.grad, q.grad), relative(r.grad, q.grad)
        assert error <= 2 * theirs + 1e-3, f"{where}: {error}, torch has {theirs}"
    for m in (model.train(), model.eval()):
        agree(m, exact, tokens)
    with torch.inference_mode():
        assert relative(model(tokens), exact(tokens)) <= BOUND[dtype]
    assert not report.skipped and all(s.calls == 4 for s in report.patched)


@pytest.mark.one_arch
@pytest.mark.parametrize("name", NAMES)
def test_training_follows_torch(name):
    """A few optimiser steps change weights in place; evaluation between them sees every change."""
    model, _, tokens = make(name, torch.float16)
    plain = copy.deepcopy(model)
    kernels.patch(model)
    for _ in range(3):
        for m in (model, plain):
            optimiser = torch.optim.SGD(m.parameters(), lr=0.05)
            optimiser.zero_grad()
            loss_of(m.train(), tokens).backward()
            optimiser.step()
        agree(model.eval(), copy.deepcopy(plain).double(), tokens)


@pytest.mark.one_arch
@pytest.mark.parametrize("name", NAMES)
def test_state_copies_and_files(name):
    model, exact, tokens = make(name)
    keys, expected = list(model.state_dict()), model(tokens)
    report = kernels.patch(model)
    assert list(model.state_dict()) == keys
    state = {k: torch.randn_like(v) * 0.1 for k, v in model.state_dict().items()}
    if name == "gpt":
        state["head.weight"] = state["embedding.weight"]
    model(tokens)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    fresh = MODELS[name]().bfloat16()
    fresh.load_state_dict(model.state_dict())
    agree(model, fresh.double(), tokens)
    model.load_state_dict(before)
    agree(model, exact, tokens)
    # A copy works on its own weights and counts at the same sites.
    twin = copy.deepcopy(model)
    calls = report.patched[0].calls
    with torch.no_grad():
        for p in twin.parameters():
            p.zero_()
        assert not twin(tokens).any()
    agree(model, exact, tokens)
    assert report.patched[0].calls == calls + 2
    # A saved model comes back without kernels, and can be patched again.
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert relative(loaded(tokens), expected) <= BOUND[torch.bfloat16]
    assert report.patched[0].calls == calls + 2
    assert len(kernels.patch(pickle.loads(pickle.dumps(model))).patched) == len(report.patched)
    assert {s.reason for s in kernels.patch(model).sites} >= {"its forward was replaced already"}
    report.undo()
    assert torch.equal(model(tokens), expected) and "forward" not in twin.norm.__dict__


@pytest.mark.one_arch
@pytest.mark.parametrize(("name", "training"), [("gpt", False), ("llama", True)])
def test_compiles_as_one_graph(name, training):
    model, exact, tokens = make(name)
    kernels.patch(model.train(training))
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.set_grad_enabled(training):
        for part in (tokens, tokens[:, :5]):
            assert relative(compiled(part), exact(part)) <= BOUND[torch.bfloat16]
        if training:
            compiled(tokens).float().sum().backward()
            model.head.weight.grad.zero_()
        with torch.no_grad():
            model.head.weight.mul_(2)
        twice = copy.deepcopy(exact)
        twice.head.weight.data.mul_(2)
        assert relative(compiled(tokens), twice(tokens)) <= BOUND[torch.bfloat16]


@pytest.mark.one_arch
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_autocast(name, dtype):
    """Weights stay f32, products run in the type of autocast, and nothing falls back."""
    model, exact, tokens = make(name, torch.float32)
    plain = copy.deepcopy(model)
    report = kernels.patch(model)
    with torch.autocast("cpu", dtype=dtype):
        out, theirs = model(tokens), plain(tokens)
    assert out.dtype == theirs.dtype
    assert relative(out, exact(tokens)) <= 2 * relative(theirs, exact(tokens)) + 1e-3
    assert all(s.calls == 1 and not s.fallbacks for s in report.patched)
    out.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        assert relative(model(tokens), exact(tokens)) <= 2 * relative(theirs, exact(tokens)) + 1e-3


@pytest.mark.parametrize("nested", [False, True])
def test_encoder_layers_use_their_modules_in_evaluation(nested):
    """torch's fused form for evaluation calls no module, so that patched ones would silently not be used."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True).bfloat16()
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    x = random(2, 6, 64, dtype="bf16")
    with torch.no_grad():
        expected = model(x)
        report = kernels.patch(model)
        assert relative(model(x), expected) <= BOUND[torch.bfloat16]
    assert all(s.calls == 1 for s in report.patched) and len(report.notes) == 2 and "fused form" in str(report)
    report.undo()
    with torch.no_grad():
        assert torch.equal(model(x), expected)


def test_norms_of_language_models_are_tried():
    """A class is patched for what it computes, not for its name."""

    class GatedRMSNorm(LlamaRMSNorm):
        def forward(self, x, gate):
            return super().forward(x) * gate

    class DoubleRMSNorm(LlamaRMSNorm):
        def forward(self, x):
            return 2 * super().forward(x)

    class FakeRMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(32))

        def forward(self, x):
            return x

    model = nn.ModuleDict({"llama": LlamaRMSNorm(32), "gemma": GemmaRMSNorm(32), "gated": GatedRMSNorm(32),
                           "fake": FakeRMSNorm(), "torch": nn.RMSNorm(32, elementwise_affine=False),
                           "meta": LlamaRMSNorm(32).to("meta"), "twice": DoubleRMSNorm(32)})
    nn.init.normal_(model["llama"].weight)
    nn.init.normal_(model["gemma"].weight)
    expected = copy.deepcopy(model["gemma"]).double()(random(3, 32).double())
    reasons = {s.name: s.reason for s in kernels.patch(model).sites}
    assert not reasons["llama"] and not reasons["torch"]
    assert not reasons["gemma"] and relative(model["gemma"](random(3, 32)), expected) <= 1e-6  # 1 + weight
    assert "its forward is not x * rsqrt" in reasons["twice"] and "could not be tried (TypeError: " in reasons["gated"]
    assert "no epsilon" in reasons["fake"] and "no values yet" in reasons["meta"]
    x = random(3, 32)
    assert relative(model["torch"](x), F.rms_norm(x.double(), (32,))) <= 1e-6
    # A wider weight makes a wider result, as it did before.
    half = random(3, 32, dtype="bf16")
    assert model["llama"](half).dtype == LlamaRMSNorm(32)(half).dtype == torch.float32


class T5LayerNorm(LlamaRMSNorm):
    """An RMS norm by the name of another."""


class CohereLayerNorm(LlamaRMSNorm):
    """A layer norm with one weight."""

    def forward(self, hidden_states):
        x = hidden_states.float()
        x = x - x.mean(-1, keepdim=True)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight.float() * x).to(hidden_states.dtype)


@pytest.mark.parametrize("kind", [T5LayerNorm, CohereLayerNorm])
def test_layer_norms_of_language_models_are_tried(kind):
    norm, x = nn.Sequential(kind(40)).bfloat16(), random(5, 40, dtype="bf16") + 1
    nn.init.normal_(norm[0].weight)
    exact = kind.forward(copy.deepcopy(norm[0]).double(), x.float())
    site, = kernels.patch(norm).sites
    assert site.kernel == {T5LayerNorm: "flydsl::rmsnorm_fwd", CohereLayerNorm: "flydsl::layernorm_fwd"}[kind]
    assert relative(norm(x), exact) <= BOUND[torch.bfloat16] and site.calls == 1
    sharded = nn.Sequential(kind(40))
    sharded[0].weight = nn.Parameter(_two(sharded[0].weight.detach()))
    assert kernels.patch(sharded).sites[0].kernel == site.kernel


def test_classes_that_only_inherit_a_forward():
    """They compute what torch's do, as those that FSDP makes; a forward, a weight or a parametrisation of their own, or
    one that is yet to come, may not."""

    class Own(nn.Linear):
        def reset_parameters(self):
            nn.init.normal_(self.weight, std=0.1)
            nn.init.zeros_(self.bias)

    class Scaled(nn.Linear):
        def forward(self, input):
            return 2 * super().forward(input)

    model = nn.Sequential(Own(32, 32), type("Norm", (nn.LayerNorm,), {})(32), Scaled(32, 32),
                          nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))).bfloat16()
    x = random(3, 32, dtype="bf16")
    expected = copy.deepcopy(model).double()(x.double())
    model.append(nn.LazyLinear(32, dtype=torch.bfloat16))
    report = kernels.patch(model)
    assert [bool(s.kernel) for s in report.sites] == [True, True, False, False, False], str(report)
    assert relative(model[:4](x), expected) <= BOUND[torch.bfloat16] and model(x).shape == (3, 32)


def _two(x):
    from torch.testing._internal.two_tensor import TwoTensor

    return TwoTensor(x, x.clone())


@pytest.mark.parametrize(("of", "kind"), [
    ("weight", _two), ("input", _two), ("input", torch.Tensor.to_sparse),
    ("input", lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged)),
], ids=["weight of a class", "input of a class", "sparse", "nested"])
def test_tensors_that_are_not_plain_run_torch(of, kind):
    """Sharded or quantised weights (of classes that compute by themselves) and the like."""
    model, x = nn.Sequential(nn.Linear(64, 32, bias=False)).bfloat16(), random(3, 64, dtype="bf16")
    expected = model(x)
    report = kernels.patch(model)
    if of == "weight":
        model[0].weight = nn.Parameter(kind(model[0].weight.detach()))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has some of its own about these
        found = model(kind(x) if of == "input" else x)
    rows = found.values() if found.is_nested else found.a if hasattr(found, "a") else found
    assert relative(rows[:3], expected) <= BOUND[torch.bfloat16]
    (why, count), = report.sites[0].fallbacks.items()
    assert count == 1 and "plain tensors are needed" in why


def test_layer_norm_without_weight_or_bias():
    model = nn.Sequential(nn.LayerNorm(40, bias=False), nn.LayerNorm(40, elementwise_affine=False)).bfloat16()
    x = random(5, 40, dtype="bf16")
    expected = copy.deepcopy(model).double()(x.double())
    assert len(kernels.patch(model).patched) == 2
    assert relative(model(x), expected) <= BOUND[torch.bfloat16]


@pytest.mark.filterwarnings("default")
def test_one_kind_is_asked_for():
    """A name alone is that kind, and not those that end with one of its letters."""
    model = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64))
    report = kernels.patch(model, only="LayerNorm")
    assert [s.kind for s in report.patched] == ["LayerNorm"] and "only LayerNorm was asked for" in str(report)
    with pytest.raises(TypeError, match="expected a torch.nn.Module, got function"):
        kernels.patch(test_one_kind_is_asked_for)


def test_signatures_and_exported_programs():
    """Trainers drop what the forward does not name, torch.export asks for its code."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 32)

        def forward(self, x, labels=None):
            return self.layer(x)

    model, x = Model().bfloat16(), random(3, 64, dtype="bf16")
    kernels.patch(model)
    assert list(inspect.signature(model.forward).parameters) == ["x", "labels"]
    assert list(inspect.signature(copy.deepcopy(model).layer.forward).parameters) == ["input"]
    with torch.no_grad():
        expected = model(x)
        program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2)}})
    assert any("flydsl" in str(node.target) for node in program.graph.nodes)
    assert torch.equal(program.module()(x.repeat(2, 1))[:3], expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_stays_as_it_is():
    scripted, x = torch.jit.script(nn.Sequential(nn.Linear(64, 64)).bfloat16()), random(3, 64, dtype="bf16")
    model = nn.Sequential(scripted, nn.LayerNorm(64).bfloat16())
    expected = model(x)
    for patched, count in ((scripted, 0), (model, 1)):
        report = kernels.patch(patched)
        assert len(report.patched) == count and "TorchScript runs its own code" in str(report)
    assert relative(model(x), expected.double()) <= BOUND[torch.bfloat16]


def test_calls_that_do_not_fit_run_torch_and_say_why():
    model = nn.ModuleDict({"linear": nn.Linear(16, 8), "norm": nn.LayerNorm(16), "softmax": nn.Softmax(-1),
                           "plain": nn.LayerNorm(16, elementwise_affine=False)}).bfloat16()
    report = kernels.patch(model)
    x = random(2, 16)
    with pytest.warns(UserWarning, match="input dtype torch.float64"):
        assert model["softmax"](x.double()).dtype == torch.float64
    with pytest.warns(UserWarning, match="last dimension must be 16"), pytest.raises(RuntimeError):
        model["norm"](x[:, :8].bfloat16())
    with pytest.warns(UserWarning, match="last dimension must be 16"), pytest.raises(RuntimeError):
        model["plain"](x[:, :8])
    with pytest.warns(UserWarning, match="last dimension must be 16"), pytest.raises(RuntimeError):
        model["linear"](x[:, :8].bfloat16())
    with pytest.warns(UserWarning, match="both must be float16 or both bfloat16"), pytest.raises(RuntimeError):
        model["linear"](x)
    with pytest.warns(UserWarning, match="rank 0"):
        model["softmax"](torch.tensor(1.0))
    assert model["linear"](input=x.bfloat16()).shape == (2, 8)
    assert sum(sum(s.fallbacks.values()) for s in report.sites) == 6
    assert str(report).count("fell back 1 times") == 6
