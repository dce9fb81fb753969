"""A language model on nothing but `flydsl.kernels.ops`: weights from a file, a paged cache, several prompts at once.

The model is a decoder as Llama's: RMS norm, grouped-query attention with rotary embedding, a gated MLP. Its weights are
random bfloat16, which the script writes to a safetensors file first and then reads from there. A step admits waiting
prompts while there is room, packs their tokens behind each other (prefill), adds one token to each running sequence
(decode), and frees the blocks of those that are done. Each rank has a share of the heads and of the MLP; two sums a
layer make one model of them. At the end every token is checked against the same model in float32 without a cache, and
on the simulator the script says where the time of a step goes, by its timing model.

    python docs/examples/10_language_model.py --picture time.svg --layers 4
    torchrun --nproc-per-node 2 docs/examples/10_language_model.py
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import _common as common

import flydsl.runtime as rt

try:
    import torch
    from torch.nn import functional
except ImportError:
    print("SKIP: needs torch")
    sys.exit(0)

from flydsl.kernels import ops
from flydsl.kernels.decode import BlockPool, PagedBatch, paged_batch
from flydsl.kernels.rope import rotary_tables
from flydsl.kernels.safetensors import load_file, save_file

PAGE = 16  # tokens of a block of the cache
RANK, RANKS = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
DEVICE = "cuda" if rt.kind() == "rocm" else "cpu"


@dataclass(frozen=True)
class Sizes:
    """Of the model."""

    vocabulary: int = 256
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    inner: int = 256
    layers: int = 2


def random_weights(s: Sizes, seed: int = 0) -> dict[str, torch.Tensor]:
    """Of a model that nobody trained, by name."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 0.0) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * (scale or 2 * shape[-1] ** -0.5)).bfloat16()

    weights = {"embedding": draw(s.vocabulary, s.width, scale=1), "norm": draw(s.width, scale=1),
               "head": draw(s.vocabulary, s.width)}
    for i in range(s.layers):
        weights |= {f"{i}.attention_norm": draw(s.width, scale=1), f"{i}.mlp_norm": draw(s.width, scale=1),
                    f"{i}.qkv": draw((s.heads + 2 * s.kv_heads) * s.head, s.width),
                    f"{i}.out": draw(s.width, s.heads * s.head),
                    f"{i}.gate_up": draw(2 * s.inner, s.width), f"{i}.down": draw(s.width, s.inner)}
    return weights


def share(name: str, weight: torch.Tensor, s: Sizes) -> torch.Tensor:
    """What a rank has of a weight: rows of heads or of the gate, columns of what follows these, else all."""
    kind = name.rpartition(".")[2]
    if kind in ("out", "down"):
        return weight.chunk(RANKS, 1)[RANK].contiguous()
    if kind in ("qkv", "gate_up"):
        parts = weight.split([n * s.head for n in (s.heads, s.kv_heads, s.kv_heads)] if kind == "qkv" else s.inner)
        return torch.cat([part.chunk(RANKS)[RANK] for part in parts])
    return weight


class Model:
    """A decoder and its caches."""

    def __init__(self, weights: dict[str, torch.Tensor], sizes: Sizes, pages: int) -> None:
        self.weights = {name: share(name, weight, sizes) for name, weight in weights.items()}
        self.tables = rotary_tables(pages * PAGE, sizes.head, device=DEVICE)
        self.sizes = sizes = replace(sizes, heads=sizes.heads // RANKS, kv_heads=sizes.kv_heads // RANKS)
        cache = (sizes.layers, 2, pages, PAGE, sizes.kv_heads, sizes.head)
        self.caches = torch.zeros(cache, dtype=torch.bfloat16, device=DEVICE)

    def logits(self, tokens: torch.Tensor, batch: PagedBatch) -> torch.Tensor:
        """Of the last token of each sequence."""
        w, s = self.weights, self.sizes
        x = ops.embedding(tokens, w["embedding"])
        y = ops.rmsnorm(x, w["0.attention_norm"])
        for i in range(s.layers):
            heads = ops.linear(y, w[f"{i}.qkv"]).view(-1, s.heads + 2 * s.kv_heads, s.head)
            y = self.whole(self.attend(i, heads, batch).reshape(-1, s.heads * s.head), w[f"{i}.out"])
            y, x = ops.fused_add_rmsnorm(y, x, w[f"{i}.mlp_norm"])
            y = self.whole(ops.silu_and_mul(ops.linear(y, w[f"{i}.gate_up"])), w[f"{i}.down"])
            following = w[f"{i + 1}.attention_norm"] if i + 1 < s.layers else w["norm"]
            y, x = ops.fused_add_rmsnorm(y, x, following)
        return ops.linear(y[batch.starts[1:].long() - 1], w["head"])

    def whole(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """A product of which each rank has a share of the columns: the sum of theirs, rounded once as on one rank."""
        if RANKS == 1:
            return ops.linear(x, weight)
        return ops.all_reduce(ops.gemm(x, weight, out_dtype=torch.float32)).to(x.dtype)

    def attend(self, layer: int, heads: torch.Tensor, batch: PagedBatch) -> torch.Tensor:
        """Attention of a layer: to the sequence's own new tokens, or to all that the cache holds."""
        s, (keys, values) = self.sizes, self.caches[layer]
        q, k, v = heads.split((s.heads, s.kv_heads, s.kv_heads), 1)
        q, k = ops.rope_cache(q, k, v, *self.tables, batch.positions, keys, values, batch.slots)
        if batch.whole:
            return ops.attention(q, k, v, causal=True, cu_seqlens_q=batch.starts, cu_seqlens_k=batch.starts,
                                 max_seqlen_q=batch.longest)
        return ops.paged_attention(q[:, None], keys, values, batch.table, batch.lengths)


def exact_logits(weights: dict[str, torch.Tensor], sizes: Sizes, tokens: list[int]) -> torch.Tensor:
    """The definition in float32, without a cache: logits (tokens, vocabulary)."""
    w, s = {name: t.float().cpu() for name, t in weights.items()}, sizes
    angles = torch.arange(len(tokens))[:, None, None] * 10000.0 ** -(torch.arange(s.head // 2) / (s.head // 2))
    cos, sin = angles.cos(), angles.sin()

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.rms_norm(x, (s.width,), w[name], 1e-5)

    def rotate(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    x = w["embedding"][torch.tensor(tokens)]
    for i in range(s.layers):
        heads = (norm(x, f"{i}.attention_norm") @ w[f"{i}.qkv"].T).view(len(tokens), -1, s.head)
        q, k, v = heads.split((s.heads, s.kv_heads, s.kv_heads), 1)
        q, k, v = (t.transpose(0, 1) for t in (rotate(q), rotate(k), v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(0, 1).flatten(1) @ w[f"{i}.out"].T
        gate, up = (norm(x, f"{i}.mlp_norm") @ w[f"{i}.gate_up"].T).chunk(2, -1)
        x = x + (functional.silu(gate) * up) @ w[f"{i}.down"].T
    return norm(x, "norm") @ w["head"].T


class Sequence:
    """A prompt, whose bytes are its tokens, and the `wanted` tokens that follow it."""

    def __init__(self, prompt: str, wanted: int) -> None:
        self.prompt, self.wanted, self.tokens = prompt, wanted, list(prompt.encode())
        self.end = len(self.tokens) + wanted
        self.blocks: list[int] = []


class Engine:
    """Steps of a model over waiting and running sequences, `most` at once. Every rank runs the same ones."""

    def __init__(self, model: Model, prompts: list[Sequence], most: int) -> None:
        self.model, self.waiting, self.most = model, list(prompts), most
        self.running: list[Sequence] = []
        self.free = BlockPool(model.caches.shape[2], PAGE)

    def admit(self) -> list[Sequence]:
        """Waiting sequences for which there is room to their end, in their order; they take their blocks."""
        new: list[Sequence] = []
        while self.waiting and len(self.running) + len(new) < self.most:
            blocks = self.free.take(self.waiting[0].end)
            if blocks is None:
                break
            self.waiting[0].blocks = blocks
            new.append(self.waiting.pop(0))
        return new

    def advance(self, group: list[Sequence], whole: bool) -> None:
        """The next token of sequences of which all tokens are new, or the last one is."""
        lengths = [len(s.tokens) for s in group]
        new = lengths if whole else [1] * len(group)
        tokens = torch.tensor([token for s, n in zip(group, new, strict=True) for token in s.tokens[-n:]])
        batch = paged_batch([s.blocks for s in group], lengths, new, PAGE, DEVICE)
        chosen = ops.sample(self.model.logits(tokens.to(DEVICE), batch), temperature=0)
        for sequence, token in zip(group, chosen.tolist(), strict=True):
            sequence.tokens.append(token)

    def step(self) -> str:
        """Waiting prompts are admitted, and all sequences get their next token; what it did."""
        others, new = self.running, self.admit()
        for group in filter(None, (new, others)):
            self.advance(group, group is new)
        self.running = [s for s in others + new if len(s.tokens) < s.end]
        for done in (s for s in others + new if len(s.tokens) == s.end):
            self.free.give(done.blocks)
        read = sum(len(s.prompt.encode()) for s in new)
        return f"{read} prompt tokens, {len(new) + len(others)} new ones, {len(self.free)} blocks free"


def run(sizes: Sizes, path: Path, target: Path | None) -> None:
    """Generate, check, and say what a step costs."""
    save_file(random_weights(sizes), path)
    weights = load_file(path, DEVICE)
    prompts = [Sequence("The layout of a tensor is", 7), Sequence("A swizzle", 5),
               Sequence("Between the products lies what makes attention", 4), Sequence("Waves", 6)]
    engine = Engine(Model(weights, sizes, pages=10), prompts, most=3)
    print(f"{sizes.layers} layers of {sizes.width}, {len(prompts)} prompts on {RANKS} x {common.describe_device()}")
    profile: rt.Profile | None = None
    while engine.waiting or engine.running:
        full = rt.kind() == "sim" and profile is None and len(engine.running) == engine.most
        with rt.profile(timing=True) if full else contextlib.nullcontext(profile) as profile:
            print(f"  step: {engine.step()}")
            rt.synchronize()
    for sequence in prompts:
        logits = exact_logits(weights, sizes, sequence.tokens[:-1])[-sequence.wanted :]
        chosen = logits.gather(1, torch.tensor(sequence.tokens[-sequence.wanted :])[:, None])[:, 0]
        print(f"{sequence.prompt!r}: {sequence.tokens[-sequence.wanted :]}")
        common.check("distance from the best logits", logits.amax(1) - chosen, chosen * 0,
                     0.02 * float(logits.abs().max()))
    if profile is not None:
        # What an exchange waits for is other processes, which no model knows.
        costs = profile.where(lambda launch: "exchange" not in launch.kernel)
        rate = engine.most * 1e6 / sum(kernel.microseconds for kernel in costs.by_kernel())
        title = f"a decode step of {engine.most} sequences, {rate:.0f} tokens a second"
        print(costs.summary(title))
        if target is not None and RANK == 0:
            target.write_text(costs.chart(title))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where to draw the time of a step")
    arguments = parser.parse_args()
    common.require_arch("gfx942", "gfx950", "gfx1201", "gfx1250")
    if RANKS > 1:
        torch.distributed.init_process_group("gloo")
    quiet = contextlib.redirect_stdout(None) if RANK else contextlib.nullcontext()  # the first rank speaks for all
    with quiet, tempfile.TemporaryDirectory() as folder:
        run(Sizes(layers=arguments.layers), Path(folder) / "model.safetensors", arguments.picture)
    if RANKS > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
