"""Captured functions: what torch and kernels compute, in one graph, replayed of new data."""

import numpy as np
import pytest
from kernel_helpers import GENERAL_GEMM, cases, needs, random, torch
from language_models import ATTENTION, DENSE, SPARSE, made

import flydsl.kernels as kernels
import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.elementwise.add import build_add_module
from flydsl.kernels.patching.op import MOE_MODULES

pytestmark = [needs(*GENERAL_GEMM), pytest.mark.one_arch]  # what it runs has tests
ROOM, PROMPT = 16, 5  # tokens that a cache has room for, and that it begins with


class Step:
    """A decode step of a model with a static cache of its own; what changes is in tensors."""

    def __init__(self, model, prompt):
        cache = pytest.importorskip("transformers").StaticCache
        self.model, self.cache = model, cache(config=model.config, max_cache_len=ROOM)
        self._set(prompt, torch.arange(PROMPT))
        self()
        self._set(prompt[:, :1].clone(), torch.tensor([0]))

    def _set(self, tokens, positions):
        self.tokens, self.positions = tokens, positions[None]
        self.mask = self._visible(positions).to(torch.bfloat16)

    @staticmethod
    def _visible(positions):
        """What is added to the scores of tokens at these positions."""
        return torch.zeros(1, 1, len(positions), ROOM).masked_fill_(torch.arange(ROOM) > positions[:, None], -torch.inf)

    def take(self, tokens, position):
        """New data, in the same memory."""
        self.tokens.copy_(tokens)
        self.positions.fill_(position)
        self.mask.copy_(self._visible(self.positions[0]))

    def __call__(self):
        # A cache with a window counts its tokens in Python, and models with windows would make masks of that count.
        windows = "sliding_attention" in (getattr(self.model.config, "layer_types", None) or ())
        mask = {"full_attention": self.mask, "sliding_attention": self.mask} if windows else self.mask
        with torch.no_grad():
            return self.model(self.tokens, position_ids=self.positions, attention_mask=mask,
                              past_key_values=self.cache, use_cache=True).logits


USUAL = ["Llama", "Qwen3", "Gemma2", "Mixtral"]


@pytest.mark.parametrize("name", cases(USUAL, sorted({*DENSE, *SPARSE} - {*USUAL})))
def test_decode_step_of_a_patched_model(name):
    """Every replay gives the bits of the same step without a graph, and leaves the same caches."""
    model, tokens = made(name, attn_implementation=ATTENTION.get(name, "sdpa"))
    kernels.patch(model.eval().bfloat16())
    prompt, following = tokens[:2, :PROMPT], tokens[2:].reshape(2, -1, 1)[:, :6].transpose(0, 1)
    steps = step, eager = [Step(model, prompt) for _ in range(2)]
    for each in steps:
        each.take(following[0], PROMPT)
        each()  # compiles and loads: a cache would move on in a warmup
    graph = kernels.capture(step, warmup=0)
    for position, token in enumerate(following[1:], PROMPT + 1):
        for each in steps:
            each.take(token, position)
        graph.result.fill_(torch.nan)
        assert torch.equal(graph.replay(), eager())
    for ours, theirs in zip(step.cache.layers, eager.cache.layers, strict=True):
        assert torch.equal(ours.keys, theirs.keys) and torch.equal(ours.values, theirs.values)


def test_a_model_that_feeds_itself():
    """Positions and mask come of the cache's own counter, and each replay writes the token that the next one reads."""
    model, tokens = made("Llama", attn_implementation="sdpa")
    kernels.patch(model.eval().bfloat16())
    model.generation_config.eos_token_id = None
    prompt = tokens[:2, :PROMPT]
    expected = model.generate(prompt, max_new_tokens=6, do_sample=False, attention_mask=torch.ones_like(prompt))
    cache = pytest.importorskip("transformers").StaticCache(config=model.config, max_cache_len=ROOM)
    with torch.no_grad():
        token = ops.argmax(model(prompt, past_key_values=cache).logits[:, -1:])

    def step():
        token.copy_(ops.argmax(model(token, past_key_values=cache).logits))
        return token

    found = [token.clone()]
    with torch.no_grad():
        found.append(step().clone())
    graph = kernels.capture(step, warmup=0)
    found += [graph.replay().clone() for _ in range(4)]
    assert torch.equal(torch.cat(found, 1), expected[:, PROMPT:])


# ------------------------------------------------------------------------------- what is recorded, and what is refused


def test_nothing_is_computed_while_it_is_recorded():
    x, count = random(6, 40, dtype="bf16"), torch.zeros((), dtype=torch.int64)
    turned, calls = torch.zeros(40, 6, dtype=torch.bfloat16), []

    def step():
        calls.append(1)
        count.add_(1)
        y = ops.silu(x.t())  # the operator copies it first
        turned.copy_(y)
        values, places = (y.float() * count).sort(-1)
        return values[:, :2], places, y.split(3, -1)[1], torch.full((3,), 7.0), x.new_empty(2)

    graph = kernels.capture(step)
    assert len(calls) == 2 and count == 1
    for seed in (1, 2):
        x.copy_(random(6, 40, dtype="bf16", seed=seed))
        turned.zero_()
        values, places, second, constant, _ = graph.replay()
        y = ops.silu(x.t())
        expected = (y.float() * (1 + seed)).sort(-1)
        assert count == 1 + seed and len(calls) == 2 and torch.equal(turned, y)
        assert torch.equal(values, expected[0][:, :2]) and torch.equal(places, expected[1])
        assert torch.equal(second, y[:, 3:]) and constant.tolist() == [7.0] * 3


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: ops.silu(x)[0, 0].item(), "aten._local_scalar_dense.default is left out of a graph: what it gives"),
    (lambda x: ops.silu(x) if bool((x > 0).all()) else x, "aten._local_scalar_dense.default is left out"),
    (lambda x: x[x > 0], "aten.index.Tensor is left out|aten.nonzero.default is left out"),
    (lambda x: ops.argmax(x).tolist(), "Tensor.tolist is left out of a graph: what it gives"),
    (lambda x: ops.silu(x).numpy(), "Tensor.numpy is left out"),
    (lambda x: np.asarray(ops.silu(x)), "Tensor.__array__ is left out"),
    (lambda x: str(ops.silu(x)), "Tensor.__repr__ is left out"),
    (lambda x: f"{ops.silu(x)}", "Tensor.__format__ is left out"),
    (lambda x: ops.silu(x.detach().numpy()), "Tensor.numpy is left out"),
    (lambda x: ops.silu(np.ones(8, np.float32)), "NumPy arrays cannot be recorded"),
    (lambda x: torch.empty(0).resize_(4), "aten.resize_.default changes the shape of an operand"),
])
def test_what_depends_on_values_is_refused(function, message):
    x = random(2, 8)
    with pytest.raises(RuntimeError, match=message):
        kernels.capture(lambda: function(x))
    assert torch.equal(kernels.capture(lambda: x + 1).replay(), x + 1)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: build_add_module("f32", 4)(x, x, torch.empty_like(x), *x.shape), "work on the null stream while"),
    (lambda x: kernels.capture(lambda: ops.silu(x)), "not permitted while a stream is captured"),
    (lambda x: rt.synchronize(), "not permitted while a stream is captured"),
])
def test_what_goes_past_the_graph_is_refused(function, message):
    x = random(2, 8)
    build_add_module("f32", 4)(x, x, torch.empty_like(x), *x.shape)  # loads it
    rt.synchronize()
    with pytest.raises(rt.HipError, match=message):
        kernels.capture(lambda: function(x), warmup=0)
    with pytest.raises(ValueError, match="warmup must be 0 or positive"):
        kernels.capture(lambda: function(x), warmup=-1)
    assert torch.equal(kernels.capture(lambda: x + 1).replay(), x + 1)


def test_a_weight_that_has_no_order_yet_is_refused():
    """Its order would be kept, and have no values before the first replay."""
    x, weight = random(2, 8, 20, dtype="bf16"), random(8, 8, 3, dtype="bf16", seed=1)
    with pytest.raises(RuntimeError, match="call the function once before it is captured"):
        kernels.capture(lambda: ops.conv(x, weight), warmup=0)
    expected = ops.conv(x, weight)
    assert torch.equal(kernels.capture(lambda: ops.conv(x, weight), warmup=0).replay(), expected)


def test_weights_that_change_behind_the_capture():
    """A graph reads their copies in the order of the kernel: these follow, also where others are made outside of it."""
    x, weight = random(3, 64, dtype="bf16"), random(32, 64, dtype="bf16", seed=1)
    experts = [torch.nn.Parameter(random(2, *shape, dtype="bf16", seed=i) / 8) for i, shape in
               enumerate(((128, 64), (64, 64)))]
    layers = [random(64, 64, dtype="bf16", seed=i) / 8 for i in range(2)]
    mask, ids, weights = torch.tensor([1, 1, 0]), torch.tensor([[0], [1], [0]]), torch.ones(3, 1)

    def step():
        split = MOE_MODULES(x, layers, [layers[0]], weights[:, :1], ids * 0, "silu", None, None, None, False, False)
        return ops.linear(x, weight), ops.moe(x, *experts, weights, ids, expert_mask=mask), split

    graph = kernels.capture(step)
    optimizer = torch.optim.SGD(experts, lr=0.5, fused=True)
    for one in experts:
        one.grad = torch.ones_like(one)
    for change in (lambda: weight.mul_(-2), lambda: experts[0].detach().mul_(3), lambda: layers[1].neg_(),
                   optimizer.step, lambda: None):
        change()
        outside = [y.clone() for y in graph.replay()]
        with torch.no_grad():
            assert all(map(torch.equal, outside, step()))  # which makes new copies
        assert all(map(torch.equal, outside, graph.replay()))
    mask[1] = 0
    with pytest.raises(RuntimeError, match="in a way that a graph cannot follow: capture again"):
        graph.replay()


def test_a_kernel_that_is_stopped_is_told_at_its_replay():
    indices, table = torch.tensor([1, 3]), random(4, 8)
    graph = kernels.capture(lambda: ops.embedding(indices, table))
    indices[1] = 4
    with pytest.raises(rt.SimulatorError):
        graph.replay()
    indices[1] = 0
    assert torch.equal(graph.replay(), table[indices])


def test_operators_of_other_libraries_and_errors_of_torch():
    x, index = random(4), torch.tensor([3])
    graph = kernels.capture(lambda: x.index_select(0, index))
    assert torch.equal(graph.replay(), x[3:])
    index.fill_(4)
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        graph.replay()
