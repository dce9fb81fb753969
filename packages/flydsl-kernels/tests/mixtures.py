"""Mixtures of experts, written the way language models write them."""

import torch
from torch import nn
from torch.nn import functional as F


class GatedLayer(nn.Module):
    def __init__(self, width, inter, names=("gate_proj", "up_proj", "down_proj")):
        super().__init__()
        self.names, self.act_fn = names, nn.SiLU()
        for name, shape in zip(names, ((width, inter), (width, inter), (inter, width)), strict=True):
            setattr(self, name, nn.Linear(*shape, bias=False))

    def forward(self, x):
        gate, up, down = (getattr(self, name) for name in self.names)
        return down(self.act_fn(gate(x)) * up(x))


def by_expert(experts, x, weights, ids):
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, slot = torch.where(ids == number)
        out.index_add_(0, token, expert(x[token]) * weights[token, slot, None].to(x.dtype))
    return out


class MixtralSparseMoeBlock(nn.Module):
    """A list of modules; returns the router's logits too."""

    layers, renormalize = ("w1", "w3", "w2"), True

    def __init__(self, width=64, inter=48, experts=6, k=2):
        super().__init__()
        self.top_k, self.jitter_noise = k, 0.0
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(GatedLayer(width, inter, self.layers) for _ in range(experts))

    def forward(self, hidden_states):
        x = hidden_states.view(-1, hidden_states.shape[-1])
        logits = self.gate(x)
        weights, ids = logits.softmax(-1, dtype=torch.float).topk(self.top_k, -1)
        weights = weights / weights.sum(-1, keepdim=True) if self.renormalize else weights
        return by_expert(self.experts, x, weights, ids).view(hidden_states.shape), logits


class Qwen3MoeSparseMoeBlock(MixtralSparseMoeBlock):
    layers, renormalize = ("gate_proj", "up_proj", "down_proj"), False

    def __init__(self, **options):
        super().__init__(**options)
        self.norm_topk_prob = False


class DeepseekV3TopkRouter(nn.Module):
    def __init__(self, width, experts, k):
        super().__init__()
        self.top_k, self.n_group, self.topk_group, self.norm_topk_prob = k, 4, 2, True
        self.routed_scaling_factor = 2.5
        self.weight = nn.Parameter(torch.empty(experts, width))
        self.register_buffer("e_score_correction_bias", torch.zeros(experts))

    def forward(self, x):
        scores = F.linear(x.float(), self.weight.float()).sigmoid()
        choice = scores + self.e_score_correction_bias
        marks = choice.unflatten(1, (self.n_group, -1)).topk(2, -1)[0].sum(-1)
        kept = torch.zeros_like(marks).scatter(1, marks.topk(self.topk_group)[1], 1.0)
        kept = kept.repeat_interleave(scores.shape[1] // self.n_group, 1)
        ids = choice.masked_fill(kept == 0, 0.0).topk(self.top_k)[1]
        weights = scores.gather(1, ids)
        return ids, weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.routed_scaling_factor


class DeepseekV3MoE(nn.Module):
    """A router of its own and shared experts."""

    def __init__(self, width=64, inter=48, experts=16, k=4):
        super().__init__()
        self.experts = nn.ModuleList(GatedLayer(width, inter) for _ in range(experts))
        self.gate, self.shared_experts = DeepseekV3TopkRouter(width, experts, k), GatedLayer(width, 2 * inter)

    def forward(self, hidden_states):
        x = hidden_states.view(-1, hidden_states.shape[-1])
        ids, weights = self.gate(x)
        return by_expert(self.experts, x, weights, ids).view(hidden_states.shape) + self.shared_experts(hidden_states)


class GptOssExperts(nn.Module):
    """Stacked parameters (experts, inputs, outputs), gate and up alternating, with biases."""

    def __init__(self, width, inter, experts):
        super().__init__()
        self.alpha, self.limit = 1.702, 7.0
        shapes = dict(gate_up_proj=(width, 2 * inter), gate_up_proj_bias=(2 * inter,), down_proj=(inter, width),
                      down_proj_bias=(width,))
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.empty(experts, *shape)))

    def forward(self, x, number):
        z = x @ self.gate_up_proj[number] + self.gate_up_proj_bias[number]
        gate, up = z[..., ::2].clamp(max=self.limit), z[..., 1::2].clamp(-self.limit, self.limit)
        h = (up + 1) * gate * (gate * self.alpha).sigmoid()
        return h @ self.down_proj[number] + self.down_proj_bias[number]


class GptOssTopKRouter(nn.Module):
    def __init__(self, width, experts, k):
        super().__init__()
        self.top_k = k
        self.weight, self.bias = nn.Parameter(torch.empty(experts, width)), nn.Parameter(torch.empty(experts))


class GptOssMLP(nn.Module):
    """Returns the scores of all experts too."""

    def __init__(self, width=64, inter=64, experts=6, k=2):
        super().__init__()
        self.router, self.experts = GptOssTopKRouter(width, experts, k), GptOssExperts(width, inter, experts)

    def forward(self, hidden_states):
        x = hidden_states.reshape(-1, hidden_states.shape[-1])
        logits = F.linear(x, self.router.weight, self.router.bias)
        values, ids = logits.topk(self.router.top_k, -1)
        weights = values.softmax(-1)
        calls = [lambda rows, number=number: self.experts(rows, number) for number in range(logits.shape[1])]
        scores = torch.zeros_like(logits).scatter(1, ids, weights)
        return by_expert(calls, x, weights, ids).view(hidden_states.shape), scores


class StackedExperts(nn.Module):
    def __init__(self, width, inter, experts):
        super().__init__()
        self.act_fn = nn.SiLU()
        self.gate_up_proj = nn.Parameter(torch.empty(experts, 2 * inter, width))
        self.down_proj = nn.Parameter(torch.empty(experts, width, inter))


class StackedMoeBlock(nn.Module):
    """Parameters (experts, outputs, inputs), and nothing but the output."""

    def __init__(self, width=64, inter=48, experts=6, k=2):
        super().__init__()
        self.gate, self.experts = GptOssTopKRouter(width, experts, k), StackedExperts(width, inter, experts)
        self.gate.bias = None

    def forward(self, hidden_states):
        x, e = hidden_states.view(-1, hidden_states.shape[-1]), self.experts
        weights, ids = F.linear(x, self.gate.weight).softmax(-1, dtype=torch.float).topk(self.gate.top_k)
        weights = weights / weights.sum(-1, keepdim=True)

        def expert(number):
            def run(rows):
                gate, up = F.linear(rows, e.gate_up_proj[number]).chunk(2, -1)
                return F.linear(e.act_fn(gate) * up, e.down_proj[number])

            return run

        calls = [expert(number) for number in range(len(e.down_proj))]
        return by_expert(calls, x, weights, ids).view(hidden_states.shape)


class GptOssMLPOfWeights(GptOssMLP):
    """Returns the weights of the chosen experts instead, as later versions do."""

    def forward(self, hidden_states):
        y, scores = super().forward(hidden_states)
        return y, scores.topk(self.router.top_k, -1)[0]


class DeepseekV3MoEOfGroups(DeepseekV3MoE):
    """Its router has another name for the number of groups."""

    def __init__(self, **options):
        super().__init__(**options)
        self.gate = RenamedRouter(64, 16, 4)


class RenamedRouter(DeepseekV3TopkRouter):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.num_group = self.__dict__.pop("n_group")

    def forward(self, x):
        self.n_group = self.num_group
        try:
            return super().forward(x)
        finally:
            del self.n_group


MIXTURES = {c.__name__: c for c in (MixtralSparseMoeBlock, Qwen3MoeSparseMoeBlock, DeepseekV3MoE, GptOssMLP,
                                    StackedMoeBlock, GptOssMLPOfWeights, DeepseekV3MoEOfGroups)}


def make(name, dtype=torch.bfloat16):
    """A mixture with random weights, and an input."""
    generator = torch.Generator().manual_seed(len(name))
    module = MIXTURES[name]()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * (p.shape[-1] ** -0.5 if p.dim() > 1 else 0.3))
        for b in module.buffers():
            b.copy_(torch.rand(b.shape, generator=generator) * 0.2)
    return module.to(dtype), torch.randn(2, 7, 64, generator=generator).to(dtype)
