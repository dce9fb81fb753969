"""A whole decode step as one graph: captured once, replayed for tokens, positions and lengths that came later."""

import pytest
from kernel_helpers import GENERAL_GEMM, needs, random, torch

from flydsl.kernels import capture, ops

pytestmark = needs(*GENERAL_GEMM)

WIDTH, HEADS, KEY_HEADS, HEAD, INNER, VOCABULARY, PAGE = 128, 4, 2, 64, 256, 64, 16
EXPERTS, CHOSEN = 8, 2


class Step:
    """One layer of a decoder, for a token of each of three sequences; nothing but kernels computes. With `mixture` its
    layer is a mixture of experts."""

    def __init__(self, mixture=False, seed=0):
        self.mixture = mixture
        shapes = {"embedding": (VOCABULARY, WIDTH), "norm": (WIDTH,), "q": (HEADS * HEAD, WIDTH),
                  "k": (KEY_HEADS * HEAD, WIDTH), "v": (KEY_HEADS * HEAD, WIDTH), "out": (WIDTH, HEADS * HEAD),
                  "gate_up": (2 * INNER, WIDTH), "down": (WIDTH, INNER), "router": (EXPERTS, WIDTH),
                  "w1": (EXPERTS, 2 * INNER, WIDTH), "w2": (EXPERTS, WIDTH, INNER)}
        self.weights = {name: random(*shape, dtype="bf16", seed=seed + i, scale=1.0 if name == "norm" else 0.1)
                        for i, (name, shape) in enumerate(shapes.items())}
        self.tables = [random(200, HEAD // 2, seed=seed + 20 + i) for i in range(2)]
        self.caches = [random(12, PAGE, KEY_HEADS, HEAD, dtype="bf16", seed=seed + 30 + i) for i in range(2)]
        self.blocks = torch.tensor([[1, 4, 9], [2, 3, 0], [11, 5, 6]], dtype=torch.int32)
        self.tokens, self.positions, self.slots = (torch.zeros(3, dtype=torch.int64) for _ in range(3))
        self.lengths = torch.zeros(3, dtype=torch.int32)

    def take(self, tokens, positions):
        """New data, in the same memory."""
        self.tokens.copy_(torch.tensor(tokens))
        self.positions.copy_(torch.tensor(positions))
        self.lengths.copy_(self.positions + 1)
        pages = self.blocks.long().gather(1, self.positions[:, None] // PAGE)[:, 0]
        self.slots.copy_(pages * PAGE + self.positions % PAGE)

    def logits(self):
        w = self.weights
        x = ops.embedding(self.tokens, w["embedding"])
        y = ops.rmsnorm(x, w["norm"])
        q, k, v = (ops.linear(y, w[name]).view(3, -1, HEAD) for name in "qkv")
        q, _ = ops.rope_cache(q, k, v, *self.tables, self.positions, *self.caches, self.slots)
        y = ops.paged_attention(q[:, None], *self.caches, self.blocks, self.lengths).view(3, HEADS * HEAD)
        y, x = ops.fused_add_rmsnorm(ops.linear(y, w["out"]), x, w["norm"])
        if self.mixture:
            y = ops.moe(y, w["w1"], w["w2"], *ops.route(ops.linear(y, w["router"]), CHOSEN))
        else:
            y = ops.linear(ops.silu_and_mul(ops.linear(y, w["gate_up"])), w["down"])
        y, _ = ops.fused_add_rmsnorm(y, x, w["norm"])
        return ops.linear(y, w["embedding"])


DATA = [([3, 60, 7], [5, 31, 16]), ([1, 1, 2], [6, 32, 47]), ([63, 0, 9], [0, 15, 33])]


@pytest.mark.parametrize("mixture", [False, True])
def test_captured_once_and_replayed_with_new_data(mixture):
    step, eager = Step(mixture), Step(mixture)
    expected = []
    for tokens, positions in DATA:
        eager.take(tokens, positions)
        expected.append(eager.logits())
    step.take(*DATA[0])
    graph = capture(step.logits)
    for (tokens, positions), exact in zip(DATA, expected, strict=True):
        step.take(tokens, positions)
        graph.result.fill_(torch.nan)
        assert torch.equal(graph.replay(), exact)
    assert all(torch.equal(a, b) for a, b in zip(step.caches, eager.caches, strict=True))
