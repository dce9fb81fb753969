"""What an engine keeps of paged caches on the host: free blocks, and where the tokens of a step lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..host.config import require

__all__ = ["BlockPool", "PagedBatch", "paged_batch"]


class BlockPool:
    """Blocks of a cache that no sequence has.

    Args:
        blocks: of the cache.
        size: tokens of a block.

    Raises:
        ValueError: one of them is not positive.
    """

    def __init__(self, blocks: int, size: int) -> None:
        require("BlockPool", blocks > 0 and size > 0, f"blocks and size must be positive, got {blocks} and {size}")
        self.blocks, self.size = blocks, size
        self._free = list(reversed(range(blocks)))
        self._taken: set[int] = set()

    def __len__(self) -> int:
        """Free blocks."""
        return len(self._free)

    def take(self, tokens: int) -> list[int] | None:
        """Blocks for so many tokens, or None while there are too few."""
        count = -(-tokens // self.size)
        if count > len(self._free):
            return None
        taken = [self._free.pop() for _ in range(count)]
        self._taken.update(taken)
        return taken

    def give(self, blocks: Iterable[int]) -> None:
        """Take blocks back. Raises ValueError for one that is not in use, before anything changes."""
        back = list(blocks)
        wrong = sorted(set(back) - self._taken)
        require("BlockPool.give", not wrong and len(set(back)) == len(back),
                f"each block must be in use and given once, got {wrong or back}")
        self._taken.difference_update(back)
        self._free += reversed(back)


@dataclass(frozen=True)
class PagedBatch:
    """New tokens of several sequences, those of one behind those of another: operands of the operations on caches.

    Attributes:
        positions, slots: int64 (tokens,), of :func:`~flydsl.kernels.ops.rope_cache` and
            :func:`~flydsl.kernels.ops.cache_append`.
        starts: int32 (sequences + 1,): where new tokens of a sequence begin, and the end: `cu_seqlens_q` of
            :func:`~flydsl.kernels.ops.attention`.
        longest: the most new tokens of a sequence.
        whole: all tokens of all sequences are new, so they attend to nothing but each other.
        table, lengths: int32 (sequences, blocks) and (sequences,): of :func:`~flydsl.kernels.ops.paged_attention`. The
            table repeats a sequence's first block behind its last one.
    """

    positions: Any
    slots: Any
    starts: Any
    longest: int
    whole: bool
    table: Any
    lengths: Any


def paged_batch(blocks: Sequence[Sequence[int]], lengths: Sequence[int], new: Sequence[int], size: int,
                device: Any = "cpu") -> PagedBatch:
    """The last tokens of sequences.

    Args:
        blocks: of the cache, for each sequence in the order of its tokens.
        lengths: tokens of each sequence, the new ones with them.
        new: of these the last so many: all of them for a prompt, one for decoding.
        size: tokens of a block.
        device: of the (torch) tensors.

    Raises:
        ValueError: there is no sequence or a sequence has no new token, more new tokens than tokens, or too few blocks.
    """
    import torch

    where = "paged_batch"
    require(where, len(blocks) == len(lengths) == len(new) > 0,
            f"blocks, lengths and new must be of the same sequences, got {len(blocks)}, {len(lengths)}, {len(new)}")
    for i, (owned, length, last) in enumerate(zip(blocks, lengths, new, strict=True)):
        require(where, 0 < last <= length, f"sequence {i} has {length} tokens, of which {last} cannot be new")
        require(where, length <= len(owned) * size,
                f"sequence {i} has {length} tokens, but {len(owned)} blocks of {size}")
    positions = torch.cat([torch.arange(n - last, n) for n, last in zip(lengths, new, strict=True)])
    most = max(map(len, blocks))
    table = torch.tensor([[*owned, *([owned[0]] * (most - len(owned)))] for owned in blocks], dtype=torch.int32)
    sequence = torch.repeat_interleave(torch.tensor(new))
    slots = table[sequence, positions // size].long() * size + positions % size
    starts = torch.tensor([0, *new]).cumsum(0).int()
    return PagedBatch(positions.to(device), slots.to(device), starts.to(device), max(new), list(new) == list(lengths),
                      table.to(device), torch.tensor(lengths, dtype=torch.int32).to(device))
