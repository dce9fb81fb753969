"""Sizes of language models in use, for which operators are prebuilt and measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MODELS", "Model", "model"]


@dataclass(frozen=True)
class Model:
    """What of a model decides the shapes of its operators.

    Attributes:
        name: as it is published.
        hidden: width of a token.
        inner: width between the two halves of an MLP, or of one expert's.
        heads, kv_heads, head: query heads, key and value heads, and their size.
        vocabulary: logits of a token.
        experts, topk: experts of a layer and of a token; 0 in a dense model.
    """

    name: str
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    experts: int = 0
    topk: int = 0

    @property
    def projections(self) -> tuple[tuple[int, int], ...]:
        """(n, k) of the dense layers' weights: attention in and out, and of a dense MLP gate with up, and down."""
        attention = ((self.heads + 2 * self.kv_heads) * self.head, self.hidden), (self.hidden, self.heads * self.head)
        return attention if self.experts else (*attention, (2 * self.inner, self.hidden), (self.hidden, self.inner))


MODELS = (
    Model("Llama-3.2-1B", 2048, 8192, 32, 8, 64, 128256),
    Model("Llama-3.1-8B", 4096, 14336, 32, 8, 128, 128256),
    Model("Llama-3.1-70B", 8192, 28672, 64, 8, 128, 128256),
    Model("Qwen3-8B", 4096, 12288, 32, 8, 128, 151936),
    Model("Qwen3-32B", 5120, 25600, 64, 8, 128, 151936),
    Model("Gemma-2-9B", 3584, 14336, 16, 8, 256, 256000),
    Model("Mixtral-8x7B", 4096, 14336, 32, 8, 128, 32000, 8, 2),
    Model("Qwen3-30B-A3B", 2048, 768, 32, 4, 128, 151936, 128, 8),
    Model("DeepSeek-V3", 7168, 2048, 128, 128, 128, 129280, 256, 8),
    Model("gpt-oss-120b", 2880, 2880, 64, 8, 64, 201088, 128, 4),
)


def model(name: str) -> Model:
    """A model by name. ValueError for one that is not in the table."""
    for found in MODELS:
        if found.name.lower() == name.lower():
            return found
    raise ValueError(f"no sizes of the model {name!r}: known are {', '.join(m.name for m in MODELS)}")
