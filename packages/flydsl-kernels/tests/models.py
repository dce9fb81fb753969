"""Two small language models, written the way users write them."""

import math

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, HEADS, LENGTH, LAYERS = 64, 64, 4, 9, 1


def causal(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)


class GptBlock(nn.Module):
    """Layer norms, torch's attention, two layers with GELU."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, bias=False)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.0))

    def forward(self, x):
        h = self.ln_1(x)
        x = x + self.attention(h, h, h, attn_mask=causal(x.shape[1]), need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """The weight of the head is that of the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(32, WIDTH)
        self.blocks = nn.ModuleList(GptBlock() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LlamaRMSNorm(nn.Module):
    """As language models write it: f32 inside, rounded before the weight."""

    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), eps

    def forward(self, hidden_states):
        x = hidden_states.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(hidden_states.dtype)


class GemmaRMSNorm(nn.Module):
    """The name of a known norm, another definition: the weight counts from one."""

    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(size)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


class LlamaBlock(nn.Module):
    """Grouped-query attention spelled out, gated layers."""

    def __init__(self):
        super().__init__()
        self.size, self.groups = WIDTH // HEADS, 2
        self.input_layernorm, self.post_attention_layernorm = LlamaRMSNorm(WIDTH), LlamaRMSNorm(WIDTH)
        narrow, wide = WIDTH // self.groups, 168
        self.q_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, narrow, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(WIDTH, wide, bias=False) for _ in range(2))
        self.down_proj, self.softmax = nn.Linear(wide, WIDTH, bias=False), nn.Softmax(dim=-1)

    def forward(self, x):
        b, n, d = x.shape
        y = self.input_layernorm(x)
        q, k, v = (p(y).view(b, n, -1, self.size).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(self.groups, 1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(self.size)).masked_fill(causal(n), -math.inf)
        x = x + self.o_proj((self.softmax(scores) @ v).transpose(1, 2).reshape(b, n, d))
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    """An untied head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(LAYERS))
        self.norm, self.head = LlamaRMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


MODELS = {"gpt": Gpt, "llama": Llama}


def make(name, dtype=torch.bfloat16):
    """A model, the same one in f64, and tokens."""
    import copy

    torch.manual_seed(0)
    model = MODELS[name]().to(dtype)
    return model, copy.deepcopy(model).double(), torch.randint(0, VOCABULARY, (2, LENGTH))


def relative(a, b):
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).norm() / b.norm().clamp_min(1e-30))
