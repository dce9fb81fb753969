"""Sequences in paged caches, for tests of decode attention."""

from __future__ import annotations

import math

from kernel_helpers import fp8_dtype, torch

NAMES = {"f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f16": 2e-3, "bf16": 1.2e-2}


class Batch:
    """Sequences whose pages lie anywhere in a cache, in which everything that is not theirs is NaN.

    Args:
        lengths: of the sequences; heads: (of queries, of keys); spare: pages that no sequence owns.
        shared: the first pages of all sequences are the same ones.
    """

    def __init__(self, lengths, heads=(4, 2), dim=64, page=16, dtype="f16", cache=None, queries=1, shared=0, spare=3,
                 seed=0, values=True, scale=1.0):
        generator = torch.Generator().manual_seed(seed)
        kind = fp8_dtype() if cache == "fp8" else NAMES[cache or dtype]
        counts = [-(-n // page) for n in lengths]
        width, total = max([*counts, 1]), sum(counts) + spare
        free = torch.randperm(total, generator=generator).tolist()
        # What lies behind a sequence in the table is no page at all.
        self.table = torch.full((len(lengths), width), 2**30, dtype=torch.int32)
        for b, count in enumerate(counts):
            owned = [free.pop() for _ in range(count)]
            self.table[b, :count] = torch.tensor(owned, dtype=torch.int32)
            if b:
                both = min(shared, count, counts[0])
                self.table[b, :both] = self.table[0, :both]
        self.lengths = torch.tensor(lengths, dtype=torch.int32)
        self.q = torch.randn(len(lengths), queries, heads[0], dim, generator=generator).mul(scale).to(NAMES[dtype])
        self.caches = [self._cache(total, page, heads[1], dim, kind, generator) for _ in range(1 + values)]

    def _cache(self, pages, page, heads, dim, kind, generator):
        live = torch.zeros(pages, page, dtype=torch.bool)
        for row, n in zip(self.table, self.lengths.tolist(), strict=True):
            for t in range(n):
                live[row[t // page], t % page] = True
        data = torch.randn(pages, page, heads, dim, generator=generator)
        return torch.where(live[..., None, None], data, math.nan).to(kind)

    @property
    def operands(self):
        return (self.q, *self.caches, self.table, self.lengths)


def close(out, exact, dtype):
    assert out.shape == exact.shape and not out.isnan().any()
    bound = TOLERANCE[dtype] * max(float(exact.abs().max()), 1e-3)
    assert float((out.double() - exact).abs().max()) <= bound


def packed(batch, x, by_tokens):
    """The caches of a batch in packed order: keys by x features, values by features or by x tokens of them."""
    k, v = batch.caches
    pages, page, heads, dim = k.shape
    keys = k.reshape(pages, page, heads, dim // x, x).permute(0, 2, 3, 1, 4).contiguous()
    if by_tokens:
        return keys, v.reshape(pages, page // x, x, heads, dim).permute(0, 3, 1, 4, 2).contiguous()
    return keys, v.permute(0, 2, 3, 1).contiguous()


def latent(lengths, **options):
    return Batch(lengths, **{"heads": (options.pop("count", 4), 1), "dim": 576, "values": False, **options})
