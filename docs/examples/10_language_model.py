"""A language model on nothing but `flydsl.kernels.ops`: weights from a file, a paged cache, several prompts at once.

The model is a decoder as Llama's: RMS norm, grouped-query attention with rotary embedding, a gated MLP. Its weights are
random bfloat16, which the script writes to a safetensors file first and then reads from there.

* **Paged cache.** Keys and values of all sequences lie in blocks of 16 tokens. A sequence has a table of its blocks; a
  token's *slot* is its block times 16 plus its place. `ops.rope_cache` rotates queries and keys and writes keys and
  values to their slots in one launch, for any mix of tokens.
* **Prefill and decode.** New prompts are packed behind each other and attend causally, each to itself
  (`ops.attention`). Running sequences add one token each, which attends to its blocks (`ops.paged_attention`).
* **Continuous batching.** A step admits waiting prompts while there is room, decodes all running sequences, and frees
  the blocks of those that are done, for the next ones.

At the end every token is checked against the same model in float32 without a cache: it must be the most likely one, but
for what rounding to bfloat16 may exchange. On the simulator the script then says where the time of a step goes, by its
timing model.

    python docs/examples/10_language_model.py
    python docs/examples/10_language_model.py --picture time.svg --layers 4
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _common as common

import flydsl.runtime as rt

try:
    import torch
except ImportError:
    print("SKIP: needs torch")
    sys.exit(0)

from flydsl.kernels import ops

PAGE = 16  # tokens of a block of the cache
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
    positions: int = 256

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of all weights, by name."""
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, self.width), "norm": (self.width,),
                                               "head": (self.vocabulary, self.width)}
        for i in range(self.layers):
            shapes |= {
                f"{i}.attention_norm": (self.width,), f"{i}.mlp_norm": (self.width,),
                f"{i}.qkv": ((self.heads + 2 * self.kv_heads) * self.head, self.width),
                f"{i}.out": (self.width, self.heads * self.head),
                f"{i}.gate_up": (2 * self.inner, self.width), f"{i}.down": (self.width, self.inner)}
        return shapes


# ------------------------------------------------------------------------------------------- safetensors


def write_weights(path: Path, sizes: Sizes, seed: int = 0) -> None:
    """Random weights as a safetensors file: the length of a JSON header, the header, the bytes of the tensors."""
    generator, header, data = torch.Generator().manual_seed(seed), {}, b""
    for name, shape in sizes.shapes().items():
        scale = 1.0 if "norm" in name or name == "embedding" else shape[-1] ** -0.5 * 2
        tensor = (torch.randn(shape, generator=generator) * scale).bfloat16()
        raw = tensor.view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file of bfloat16."""
    whole = path.read_bytes()
    (length,) = struct.unpack_from("<Q", whole)
    weights, data = {}, bytearray(whole[8 + length :])
    for name, entry in json.loads(whole[8 : 8 + length]).items():
        first, last = entry["data_offsets"]
        tensor = torch.frombuffer(data, dtype=torch.bfloat16, count=(last - first) // 2, offset=first)
        weights[name] = tensor.view(entry["shape"]).to(DEVICE)
    return weights


def rotary_tables(sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of each pair's angle at each position."""
    half = sizes.head // 2
    angles = torch.arange(sizes.positions)[:, None] * 10000.0 ** -(torch.arange(half) / half)
    return angles.cos().to(DEVICE), angles.sin().to(DEVICE)


# ------------------------------------------------------------------------------------------- the model


@dataclass
class Batch:
    """What a step computes: tokens of several sequences, one behind the other.

    Attributes:
        tokens, positions, slots: of each token.
        starts: where sequences begin and the last one ends (prefill), or None (decode: one token each).
        blocks, lengths: of each sequence's tables and tokens (decode).
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    starts: torch.Tensor | None = None
    longest: int = 0
    blocks: torch.Tensor | None = None
    lengths: torch.Tensor | None = None


class Model:
    """A decoder and its caches."""

    def __init__(self, weights: dict[str, torch.Tensor], sizes: Sizes, pages: int) -> None:
        self.weights, self.sizes, self.tables = weights, sizes, rotary_tables(sizes)
        cache = (sizes.layers, 2, pages, PAGE, sizes.kv_heads, sizes.head)
        self.caches = torch.zeros(cache, dtype=torch.bfloat16, device=DEVICE)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Of the last token of each sequence."""
        w, s = self.weights, self.sizes
        x = ops.embedding(batch.tokens, w["embedding"])
        y = ops.rmsnorm(x, w["0.attention_norm"])
        for i in range(s.layers):
            heads = ops.linear(y, w[f"{i}.qkv"]).view(-1, s.heads + 2 * s.kv_heads, s.head)
            y = ops.linear(self.attend(i, heads, batch).reshape(-1, s.heads * s.head), w[f"{i}.out"])
            y, x = ops.fused_add_rmsnorm(y, x, w[f"{i}.mlp_norm"])
            y = ops.linear(ops.silu_and_mul(ops.linear(y, w[f"{i}.gate_up"])), w[f"{i}.down"])
            following = w[f"{i + 1}.attention_norm"] if i + 1 < s.layers else w["norm"]
            y, x = ops.fused_add_rmsnorm(y, x, following)
        last = y if batch.starts is None else y[batch.starts[1:].long() - 1]
        return ops.linear(last, w["head"])

    def attend(self, layer: int, heads: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Attention of a layer: to the sequence's own new tokens, or to all that the cache holds."""
        s, (keys, values) = self.sizes, self.caches[layer]
        q, k, v = heads.split((s.heads, s.kv_heads, s.kv_heads), 1)
        q, k = ops.rope_cache(q, k, v, *self.tables, batch.positions, keys, values, batch.slots)
        if batch.starts is not None:
            return ops.attention(q, k, v, causal=True, cu_seqlens_q=batch.starts, cu_seqlens_k=batch.starts,
                                 max_seqlen_q=batch.longest)
        return ops.paged_attention(q[:, None], keys, values, batch.blocks, batch.lengths)


def exact_logits(weights: dict[str, torch.Tensor], sizes: Sizes, tokens: list[int]) -> torch.Tensor:
    """The definition in float32, without a cache: logits (tokens, vocabulary)."""
    w, s = {name: t.float().cpu() for name, t in weights.items()}, sizes
    cos, sin = (t.cpu()[: len(tokens), None] for t in rotary_tables(s))

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[name]

    def rotate(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    x = w["embedding"][torch.tensor(tokens)]
    for i in range(s.layers):
        heads = (norm(x, f"{i}.attention_norm") @ w[f"{i}.qkv"].T).view(len(tokens), -1, s.head)
        q, k, v = heads.split((s.heads, s.kv_heads, s.kv_heads), 1)
        q, k, v = (t.transpose(0, 1) for t in (rotate(q), rotate(k), v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(0, 1).flatten(1) @ w[f"{i}.out"].T
        gate, up = (norm(x, f"{i}.mlp_norm") @ w[f"{i}.gate_up"].T).chunk(2, -1)
        x = x + (torch.nn.functional.silu(gate) * up) @ w[f"{i}.down"].T
    return norm(x, "norm") @ w["head"].T


# ------------------------------------------------------------------------------------------- continuous batching


@dataclass
class Sequence:
    """A prompt and what follows it."""

    prompt: str
    wanted: int
    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.tokens) >= len(self.prompt.encode()) + self.wanted

    def slot(self, position: int) -> int:
        return self.blocks[position // PAGE] * PAGE + position % PAGE


class Engine:
    """Steps of a model over waiting and running sequences.

    Args:
        most: sequences that run at once.
    """

    def __init__(self, model: Model, prompts: list[Sequence], most: int) -> None:
        self.model, self.waiting, self.most = model, list(prompts), most
        self.running: list[Sequence] = []
        self.free = list(range(model.caches.shape[2]))

    def _tensor(self, values: list[Any], dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=DEVICE)

    def _room(self, sequence: Sequence) -> bool:
        """Whether a sequence can run to its end; takes its blocks."""
        need = -(-(len(sequence.prompt.encode()) + sequence.wanted) // PAGE)
        if len(self.running) >= self.most or need > len(self.free):
            return False
        sequence.blocks = [self.free.pop() for _ in range(need)]
        return True

    def admit(self) -> list[Sequence]:
        """Waiting sequences for which there is room, in their order."""
        new = []
        while self.waiting and self._room(self.waiting[0]):
            new.append(self.waiting.pop(0))
            new[-1].tokens = list(new[-1].prompt.encode())
            self.running.append(new[-1])
        return new

    def prefill(self, new: list[Sequence]) -> Batch:
        places = [(s, i) for s in new for i in range(len(s.tokens))]
        ends = torch.tensor([0] + [len(s.tokens) for s in new]).cumsum(0).int().to(DEVICE)
        return Batch(self._tensor([s.tokens[i] for s, i in places]), self._tensor([i for _, i in places]),
                     self._tensor([s.slot(i) for s, i in places]), ends, max(len(s.tokens) for s in new))

    def decode(self, active: list[Sequence]) -> Batch:
        most = max(len(s.blocks) for s in active)
        return Batch(
            self._tensor([s.tokens[-1] for s in active]), self._tensor([len(s.tokens) - 1 for s in active]),
            self._tensor([s.slot(len(s.tokens) - 1) for s in active]),
            blocks=self._tensor([s.blocks + [0] * (most - len(s.blocks)) for s in active], torch.int32),
            lengths=self._tensor([len(s.tokens) for s in active], torch.int32))

    def step(self) -> tuple[int, int]:
        """(prompt tokens, new tokens) of a step: prompts are admitted, then all others get their next token."""
        others, new = list(self.running), self.admit()
        count = 0
        for group, make in ((new, self.prefill), (others, self.decode)):
            if group:
                chosen = ops.sample(self.model.logits(make(group)), temperature=0)
                for sequence, token in zip(group, chosen.tolist(), strict=True):
                    sequence.tokens.append(token)
                count += len(group)
        for sequence in [s for s in self.running if s.done]:
            self.running.remove(sequence)
            self.free += sequence.blocks
        return sum(len(s.prompt.encode()) for s in new), count


# ------------------------------------------------------------------------------------------- what it costs


def where_time_goes(engine: Engine) -> tuple[list[tuple[str, float]], int]:
    """(kernel, estimated microseconds) of one step, longest first, and the tokens that it gave."""
    with rt.profile(timing=True) as profile:
        _, count = engine.step()
        common.synchronize()
    times: Counter[str] = Counter()
    for launch in profile.launches:
        times[launch.kernel.strip("_").rsplit("_", 1)[0]] += launch.timing.microseconds
    return times.most_common(), count


def picture(rows: list[tuple[str, float]], title: str) -> str:
    """A bar for each kernel, as SVG."""
    most, lines = max(t for _, t in rows), []
    for i, (name, t) in enumerate(rows):
        y = 34 + 22 * i
        lines.append(f'<text x="190" y="{y + 12}" text-anchor="end">{name}</text><rect x="200" y="{y}" height="16" '
                     f'width="{300 * t / most:.1f}" fill="#4c78a8"/><text x="{206 + 300 * t / most:.1f}" '
                     f'y="{y + 12}">{t:.2f} µs</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="{46 + 22 * len(rows)}" font-size="12" '
            'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
            f'<text x="10" y="18" font-weight="bold">{title}</text>{"".join(lines)}</svg>\n')


def run(sizes: Sizes, path: Path, target: Path | None) -> None:
    """Generate, check, and say what a step costs."""
    write_weights(path, sizes)
    weights = read_weights(path)
    model = Model(weights, sizes, pages=10)
    prompts = [Sequence("The layout of a tensor is", 7), Sequence("A swizzle", 5),
               Sequence("Between the products lies what makes attention", 4), Sequence("Waves", 6)]
    engine = Engine(model, prompts, most=3)
    print(f"{sizes.layers} layers of {sizes.width}, {len(prompts)} prompts on {common.describe_device()}")
    rows: list[tuple[str, float]] = []
    while engine.waiting or engine.running:
        if rt.kind() == "sim" and not rows and len(engine.running) == engine.most:
            rows, count = where_time_goes(engine)
            read, new = 0, count
        else:
            read, new = engine.step()
        print(f"  step: {read} prompt tokens, {new} new ones, {len(engine.free)} blocks free")
    for sequence in prompts:
        logits = exact_logits(weights, sizes, sequence.tokens[:-1])[-sequence.wanted :]
        chosen = logits.gather(1, torch.tensor(sequence.tokens[-sequence.wanted :])[:, None])[:, 0]
        common.check(f"{sequence.prompt!r} and {sequence.wanted} tokens, distance from the best logits",
                     logits.amax(1) - chosen, chosen * 0, 0.02 * float(logits.abs().max()))
    if rows:
        total = sum(t for _, t in rows)
        title = f"a decode step of 3 sequences, estimated: {total:.1f} µs, {3e6 / total:.0f} tokens a second"
        print(title)
        for name, t in rows:
            print(f"  {name:24} {t:7.2f} µs {'#' * round(40 * t / rows[0][1])}")
        if target is not None:
            target.write_text(picture(rows, title))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where to draw the time of a step")
    arguments = parser.parse_args()
    common.require_arch("gfx942", "gfx950", "gfx1201", "gfx1250")
    with tempfile.TemporaryDirectory() as folder:
        run(Sizes(layers=arguments.layers), Path(folder) / "model.safetensors", arguments.picture)


if __name__ == "__main__":
    main()
