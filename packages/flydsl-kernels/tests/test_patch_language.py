"""patch(model) on the parts of language models: rotary embedding and attention of Hugging Face's kind, activations,
embeddings, convolutions; and on its models themselves where transformers is installed."""

import copy
import gc
import warnings
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from kernel_helpers import GENERAL_GEMM, needs, random, torch
from language_models import ATTENTION, DENSE, SPARSE, chosen, made
from models import relative
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import flydsl.kernels as kernels

F = nn.functional
pytestmark = [needs(*GENERAL_GEMM), pytest.mark.one_arch]  # what it runs has tests


@pytest.fixture(autouse=True)
def no_unexpected_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


class Names(TorchDispatchMode):
    """The aten operators that run in the block."""

    def __enter__(self):
        self.seen = set()
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "aten":
            self.seen.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


# ------------------------------------------------------------------------------- a module of Hugging Face's kind


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def eager(module, query, key, value, attention_mask, scaling=None, **_):
    causal = attention_mask is None
    out = F.scaled_dot_product_attention(query, key, value, attention_mask, is_causal=causal, scale=scaling,
                                         enable_gqa=True)
    return out.transpose(1, 2), None


class Table(dict):
    def get_interface(self, name, default):
        return default


ALL_ATTENTION_FUNCTIONS = Table()


class SmallAttention(nn.Module):
    is_causal, attention_dropout = True, 0.0

    def __init__(self, heads=4, kv_heads=2, size=32):
        super().__init__()
        self.size = size
        self.q, self.k, self.v = (nn.Linear(64, h * size, bias=False) for h in (heads, kv_heads, kv_heads))

    def forward(self, hidden_states, position_embeddings, attention_mask=None):
        q, k, v = (p(hidden_states).unflatten(-1, (-1, self.size)).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        out, _ = ALL_ATTENTION_FUNCTIONS.get_interface("sdpa", eager)(
            self, q, k, v, attention_mask, scaling=self.size**-0.5)
        return out.flatten(2)


def angles(batch, length, size, dtype):
    half = torch.arange(length)[:, None] * 100.0 ** -(torch.arange(size // 2) / (size // 2))
    both = torch.cat((half, half), -1).expand(batch, -1, -1)
    return both.cos().to(dtype), both.sin().to(dtype)


@pytest.mark.parametrize("masked", [False, True])
def test_rotary_embedding_and_attention(masked):
    torch.manual_seed(0)
    model, x = SmallAttention().bfloat16(), random(2, 7, 64, dtype="bf16")
    mask = torch.ones(7, 7, dtype=torch.bool).tril()[None, None].repeat(2, 1, 1, 1) if masked else None
    if masked:
        mask[1, :, 1:, 0] = False
    exact = copy.deepcopy(model).double()
    table = angles(2, 7, 32, torch.bfloat16)
    expected = exact(x.double(), [t.double() for t in table], mask)
    theirs = relative(model(x, table, mask), expected)
    report = kernels.patch(model)
    out = model(x, table, mask)
    assert relative(out, expected) <= 1.5 * theirs + 1e-3
    site = next(s for s in report.sites if s.kind == "SmallAttention")
    assert site.kernel == "flydsl::rope, flydsl::attention_fwd" and site.calls == 1
    assert torch.equal(copy.deepcopy(model)(x, table, mask), out)
    report.undo()
    assert relative(model(x, table, mask), expected) == theirs


def neighbours(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """DeepSeek's: pairs are neighbours, and come out with their first parts before the second ones."""
    cos, sin = (t[..., : t.shape[-1] // 2].unsqueeze(unsqueeze_dim) for t in (cos, sin))
    return tuple(torch.cat((x[..., ::2] * cos - x[..., 1::2] * sin, x[..., 1::2] * cos + x[..., ::2] * sin), -1)
                 for x in (q, k))


def test_rotary_embedding_of_neighbours(monkeypatch):
    monkeypatch.setitem(globals(), "apply_rotary_pos_emb", neighbours)
    torch.manual_seed(0)
    model, x, table = SmallAttention().bfloat16(), random(2, 7, 64, dtype="bf16"), angles(2, 7, 32, torch.bfloat16)
    expected = copy.deepcopy(model).double()(x.double(), [t.double() for t in table])
    theirs = relative(model(x, table), expected)
    report = kernels.patch(model)
    assert next(s for s in report.sites if s.kind == "SmallAttention").kernel == "flydsl::rope, flydsl::attention_fwd"
    with Names() as names:
        out = model(x, table)
    assert relative(out, expected) <= 1.5 * theirs + 1e-3
    assert not names.seen & {"mul", "sub", "add", "cat"}


def test_another_rotary_function_stays(monkeypatch):
    """Names of the model's source file are tried, not trusted."""
    monkeypatch.setitem(globals(), "apply_rotary_pos_emb", lambda q, k, cos, sin, unsqueeze_dim=1: (q, k))
    report = kernels.patch(model := SmallAttention().bfloat16())
    assert next(s for s in report.sites if s.kind == "SmallAttention").kernel == "flydsl::attention_fwd"
    model(random(1, 3, 64, dtype="bf16"), angles(1, 3, 32, torch.bfloat16))


def test_the_reason_names_what_the_module_calls(monkeypatch):
    """A rotary function alone (GPT-J) says nothing of attention."""

    class RotaryAttention(nn.Module):
        def forward(self, x, cos, sin):
            return apply_rotary_pos_emb(x, x, cos, sin)[0]

    monkeypatch.setitem(globals(), "apply_rotary_pos_emb", lambda q, k, cos, sin, unsqueeze_dim=1: (q, k))
    site, = kernels.patch(nn.Sequential(RotaryAttention())).sites
    assert site.reason == "its apply_rotary_pos_emb computes something else"


@pytest.mark.filterwarnings("default")
def test_calls_that_do_not_fit():
    model = SmallAttention()
    report = kernels.patch(model, only=("Attention",))
    with pytest.warns(UserWarning, match="must be float16 or bfloat16"):
        model(random(1, 3, 64), angles(1, 3, 32, torch.float32))
    assert report.patched[0].calls == 0


class BiasedAttention(SmallAttention):
    """Passes what else its attention function takes."""

    more: dict[str, object] = {}
    mask_dtype = torch.bfloat16

    def forward(self, hidden_states):
        q, k, v = (p(hidden_states).unflatten(-1, (-1, self.size)).transpose(1, 2) for p in (self.q, self.k, self.v))
        bias = torch.linspace(-3, 3, 4 * 49).view(1, 4, 7, 7).to(q.dtype)
        mask = torch.zeros(2, 1, 1, 7, dtype=self.mask_dtype)
        mask[1, ..., 5:] = True if self.mask_dtype == torch.bool else torch.finfo(self.mask_dtype).min
        return ALL_ATTENTION_FUNCTIONS.get_interface("eager", biased)(
            self, q, k, v, mask, position_bias=bias, scaling=0.3, **self.more)[0].flatten(2)


def biased(module, query, key, value, attention_mask, scaling=None, dropout=0.0, position_bias=None, factor=1.0, **_):
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * scaling + attention_mask
    scores = scores if position_bias is None else scores + position_bias * factor
    return (scores.softmax(-1) @ value).transpose(1, 2), None


def small(kind=BiasedAttention, **options):
    """A module, an input, and its result in float64."""
    torch.manual_seed(0)
    model, x = kind(**options).bfloat16(), random(2, 7, 64, dtype="bf16")
    return model, x, copy.deepcopy(model).double()(x.double())


def test_a_bias_of_positions_is_added():
    model, x, expected = small()
    report = kernels.patch(model, only=("Attention",), strict=True)
    assert relative(model(x), expected) <= 8e-3 and report.patched[0].calls == 1


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("options", "more", "reason"), [
    ({}, {"factor": 2.0}, "its attention function takes factor"),
    ({}, {"cu_seq_lens_q": torch.tensor([0, 7])}, "its attention function takes cu_seq_lens_q"),
    ({}, {"dropout": 0.5}, "dropout of 0.5"),
    ({"size": 264}, {}, "heads of 264 columns, at most 256 are supported"),
])
def test_what_the_kernel_cannot_attend_is_the_models_own(options, more, reason, monkeypatch):
    monkeypatch.setattr(BiasedAttention, "more", more)
    model, x, expected = small(**options)
    report = kernels.patch(model, only=("Attention",))
    with pytest.warns(UserWarning, match=reason):
        assert relative(model(x), expected) <= 2e-2
    assert dict(report.patched[0].fallbacks) == {reason: 1}
    report.undo()
    kernels.patch(model, only=("Attention",), strict=True)
    with pytest.raises(RuntimeError, match=reason):
        model(x)


@pytest.mark.filterwarnings("default")
def test_an_eager_function_adds_booleans(monkeypatch):
    monkeypatch.setattr(BiasedAttention, "mask_dtype", torch.bool)
    model, x, expected = small()
    report = kernels.patch(model, only=("Attention",))
    with pytest.warns(UserWarning, match="attention_mask of booleans, which an eager function adds as numbers"):
        assert relative(model(x), expected) <= 2e-2
    assert sum(report.patched[0].fallbacks.values()) == 1


# ------------------------------------------------------------------------------- activations, embedding, convolution


class NewGELUActivation(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


class ScaledEmbedding(nn.Embedding):
    embed_scale = torch.tensor(3.7)

    def forward(self, x):
        return super().forward(x) * self.embed_scale.to(self.weight.dtype)


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


def test_modules_without_a_family():
    torch.manual_seed(0)
    model = nn.ModuleDict({
        "silu": nn.SiLU(), "gelu": nn.GELU(), "tanh": nn.GELU(approximate="tanh"), "new": NewGELUActivation(),
        "quick": QuickGELU(), "embedding": nn.Embedding(11, 24, padding_idx=0),
        "clipped": nn.Embedding(3, 4, max_norm=1), "scaled": ScaledEmbedding(11, 24),
        "conv": nn.Conv2d(4, 6, 3, 2, 1, groups=2), "line": nn.Conv1d(4, 8, 4, padding="same"),
        "circular": nn.Conv1d(4, 8, 3, padding=1, padding_mode="circular")}).bfloat16()
    exact = copy.deepcopy(model).double()
    report = kernels.patch(model)
    reasons = {s.name: s.reason for s in report.sites}
    assert "none of silu, gelu, gelu_tanh" in reasons["quick"] and "max_norm" in reasons["clipped"]
    assert "both ends" in reasons["line"] and "circular" in reasons["circular"]
    inputs = {"embedding": torch.randint(0, 11, (2, 5)), "scaled": torch.arange(11),
              "conv": random(2, 4, 9, 8, dtype="bf16")}
    for site in report.patched:
        x = inputs.get(site.name, random(3, 50, dtype="bf16"))
        wide = x.double() if x.is_floating_point() else x
        assert relative(model[site.name](x), exact[site.name](wide)) <= 4e-3
    assert [s.name for s in report.patched] == ["silu", "gelu", "tanh", "new", "embedding", "scaled", "conv"]
    assert all(s.calls == 1 and s.kernel for s in report.patched)
    F.cross_entropy(model["embedding"](inputs["embedding"]).float().flatten(0, 1), torch.zeros(10).long()).backward()
    assert bool((model["embedding"].weight.grad[0] == 0).all())


# ------------------------------------------------------------------------------- gated layers, capped logits


class SmallMLP(nn.Module):
    def __init__(self, act_fn):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(32, 48, bias=False) for _ in range(2))
        self.down_proj, self.act_fn = nn.Linear(48, 32, bias=False), act_fn

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class FusedMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Linear(32, 96, bias=False), nn.Linear(48, 32, bias=False)
        self.activation_fn = nn.SiLU()

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(up * self.activation_fn(gate))


class OtherMLP(SmallMLP):
    def forward(self, x):
        return super().forward(x) + x


def test_gated_layers():
    torch.manual_seed(0)
    model = nn.ModuleDict({"silu": SmallMLP(nn.SiLU()), "tanh": SmallMLP(NewGELUActivation()), "fused": FusedMLP(),
                           "quick": SmallMLP(QuickGELU()), "other": OtherMLP(nn.SiLU())}).bfloat16()
    exact = copy.deepcopy(model).double()
    report = kernels.patch(model)
    sites = {s.name: s for s in report.sites}
    assert sites["fused"].kernel == "flydsl::activate_and_mul" and sites["silu"].kernel == "flydsl::activate_pair"
    assert "QuickGELU cannot: its forward is none of" in sites["quick"].reason
    assert sites["other"].reason == "its forward is not that of gated layers"
    assert "silu.act_fn" not in sites and sites["other.act_fn"].kernel == "flydsl::activate"
    for name in ("silu", "tanh", "fused"):
        x = random(3, 32, dtype="bf16").requires_grad_()
        wide = x.detach().double().requires_grad_()
        with Names() as names:
            out = model[name](x)
        assert not names.seen & {*COSTLY, "mul"}
        assert relative(out, exact[name](wide)) <= 8e-3
        out.sum().backward()
        exact[name](wide).sum().backward()
        assert relative(x.grad, wide.grad) <= 1.5e-2
        for ours, theirs in zip(model[name].parameters(), exact[name].parameters(), strict=True):
            assert relative(ours.grad, theirs.grad) <= 1.5e-2
    assert all(s.calls for s in report.patched if not s.name.startswith(("quick", "other")))


@dataclass
class Output:
    last_hidden_state: torch.Tensor | None = None
    logits: torch.Tensor | None = None


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(32, 32), nn.Linear(32, 32)

    def forward(self, tokens=None, states=None):
        return Output(self.layer(self.embedding(tokens) if states is None else states))


class CappedModel(nn.Module):
    base_model_prefix = "body"

    def __init__(self, cap=2.0):
        super().__init__()
        self.body, self.lm_head = Body(), nn.Linear(32, 48, bias=False)
        self.config = SimpleNamespace(final_logit_softcapping=cap)

    def forward(self, tokens=None, states=None):
        logits = self.lm_head(self.body(tokens, states).last_hidden_state)
        if self.config.final_logit_softcapping is not None:
            logits = logits / self.config.final_logit_softcapping
            logits = torch.tanh(logits)
            logits = logits * self.config.final_logit_softcapping
        return Output(logits=logits)


class OtherCap(CappedModel):
    def forward(self, tokens=None, states=None):
        return Output(logits=super().forward(tokens, states).logits * 1.5)


def test_capped_logits():
    torch.manual_seed(0)
    model, tokens = CappedModel(0.5).bfloat16(), torch.arange(7)
    exact = copy.deepcopy(model).double()
    plain, before = exact(tokens).logits, model(tokens).logits
    report = kernels.patch(model)
    site = next(s for s in report.sites if not s.name)
    assert site.kernel == "flydsl::activate" and not report.skipped
    out = model(tokens).logits
    assert relative(out, plain) <= 8e-3 and site.calls == 1 and model.config.final_logit_softcapping == 0.5
    states = random(3, 32, dtype="bf16")
    with Names() as names:
        model(None, states)
    assert not names.seen & {*COSTLY, "div", "mul"}
    assert site.calls == 2 and not site.fallbacks
    # What is changed later is seen: the head, the cap; a copy has its own.
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.lm_head.weight.zero_()
    assert not twin(tokens).logits.any() and site.calls == 3
    twin.config.final_logit_softcapping = 100.0
    twin.lm_head = copy.deepcopy(model.lm_head)
    exact.config.final_logit_softcapping = 100.0
    assert relative(twin(tokens).logits, exact(tokens).logits) <= 8e-3
    assert torch.equal(model(tokens).logits, out)
    out.sum().backward()
    assert model.lm_head.weight.grad.isfinite().all() and model.body.layer.weight.grad.any()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(lambda tokens: model(tokens).logits, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(tokens), out)
        model.config.final_logit_softcapping = 3.0
        with pytest.raises(Exception, match="call it once before it is compiled"):
            compiled(tokens)
        capped = model(tokens).logits
        assert not torch.equal(capped, out) and torch.equal(compiled(tokens), capped)
        model.config.final_logit_softcapping = 0.5
    report.undo()
    assert torch.equal(model(tokens).logits, before) and "forward" not in model.__dict__


def test_capped_models_may_be_collected_while_one_is_compiled(monkeypatch):
    """Between the trace and its guards: these must not be of what the other models have left."""
    from torch._dynamo.guards import CheckFunctionManager

    others, tokens = [CappedModel().bfloat16() for _ in range(3)], torch.arange(7)
    model = CappedModel().bfloat16()
    for each in (*others, model):
        kernels.patch(each)
        each(tokens)
    gc.disable()
    others.clear()

    def build_guards(*arguments, original=CheckFunctionManager.build_guards, **options):
        gc.collect()
        return original(*arguments, **options)

    monkeypatch.setattr(CheckFunctionManager, "build_guards", build_guards)
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            compiled = torch.compile(lambda tokens: model(tokens).logits, fullgraph=True, backend="eager")
            assert torch.equal(compiled(tokens), model(tokens).logits)
    finally:
        gc.enable()


def test_another_cap_stays():
    report = kernels.patch(OtherCap().bfloat16())
    assert next(s for s in report.sites if not s.name).reason == (
        "its forward is not that of a head with final_logit_softcapping behind it")


# ------------------------------------------------------------------------------- transformers

COSTLY = {"mm", "bmm", "addmm", "linear", "matmul", "_softmax", "topk", "silu", "gelu", "tanh", "pow", "rsqrt",
          "sigmoid", "exp", "sort", "mean", "sum", "embedding",
          "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"}


@pytest.mark.parametrize("name", chosen(["Gemma2", "Mixtral"], [*DENSE, *sorted(SPARSE)]))
def test_models_of_transformers(name):
    model, tokens = made(name, attn_implementation="eager")
    model = model.eval().bfloat16()
    with torch.no_grad():
        exact = copy.deepcopy(model).float()
        expected, theirs = exact(tokens).logits, model(tokens).logits
        report = kernels.patch(model)
        with Names() as names:
            ours = model(tokens, use_cache=False).logits
        assert not names.seen & COSTLY and not report.skipped
        # Token by token, and the median counts: a router whose experts are as good as equal chooses by rounding, which
        # makes the error of single tokens ten times that of torch, or a tenth.
        errors = [(logits - expected).norm(dim=-1) for logits in (ours, theirs)]
        assert float((errors[0] / errors[1]).median()) <= 1
        tokens = tokens[:8]
        for m in (exact, model):
            m.generation_config.eos_token_id = None
        options = {"max_new_tokens": 6, "do_sample": False, "attention_mask": torch.ones_like(tokens)}
        sequences = exact.generate(tokens, **options)
        new = slice(tokens.shape[1] - 1, -1)
        wide, narrow = (m(sequences, use_cache=False).logits[:, new].float() for m in (exact, model))
        # The same tokens up to where the best one does not lead by more than what rounding changes.
        best = wide.topk(2, -1).values
        sure = (best[..., 0] - best[..., 1] > 3 * (narrow - wide).abs().amax(-1)).int().cumprod(-1).bool()
        same = (model.generate(tokens, **options) == sequences)[:, tokens.shape[1] :]
        assert int(sure.sum()) >= 12 and bool(same[sure].all())
    assert all(s.calls for s in report.patched) and not any(s.fallbacks for s in report.sites), str(report)
    assert {s.kernel for s in report.sites if s.kind.endswith("Attention")} == {"flydsl::rope, flydsl::attention_fwd"}


@pytest.mark.parametrize("name", chosen(["Llama"], DENSE))
def test_training_follows_float32(name):
    """Twenty steps, with products in bf16 as autocast has them: losses stay with those of float32, and fall."""
    exact, _ = made(name, attn_implementation=ATTENTION.get(name, "sdpa"), num_hidden_layers=1)
    model = copy.deepcopy(exact.train())
    report = kernels.patch(model)
    tokens, losses = torch.randint(1, 64, (2, 17)), {}
    for which, autocast in ((exact, False), (model, True)):
        optimiser = torch.optim.AdamW(which.parameters(), lr=1e-3)
        losses[autocast] = []
        for _ in range(20):
            optimiser.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                logits = which(tokens[:, :-1], use_cache=False).logits
            loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimiser.step()
            losses[autocast].append(loss.item())
    theirs, ours = (torch.tensor(losses[key]) for key in (False, True))
    assert theirs[-1] < 0.8 * theirs[0]
    assert float(((ours - theirs) / theirs).abs().max()) <= 0.03, (ours, theirs)
    assert sum(s.calls for s in report.patched) and not any(s.fallbacks for s in report.sites), str(report)


@pytest.mark.parametrize("name", chosen(["Gemma2"], [*DENSE, *sorted(SPARSE)]))
def test_models_of_transformers_compile_as_one_graph(name):
    model, tokens = made(name, attn_implementation=ATTENTION.get(name, "sdpa"))
    kernels.patch(model.eval().bfloat16())
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(tokens, use_cache=False).logits
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert relative(compiled(tokens, use_cache=False).logits, expected) <= 1e-3
