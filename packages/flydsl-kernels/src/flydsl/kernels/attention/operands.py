"""The shapes of what the attention operations are given, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..host.arrays import strides_of
from ..host.config import require

__all__ = ["FARTHEST", "WHERE", "Shapes", "reach_of", "shapes_of"]

WHERE = "attention"
FARTHEST = 1 << 31  # bytes of a head that a buffer access can reach
WIDEST = 1 << 30  # tokens: no sequence has as many, and twice as many leave the 32 bits of places in one


def reach_of(side: int) -> int:
    """Tokens of one side of a window for the kernels, which do not ask where it is -1 (all)."""
    return min(max(side, 0), WIDEST)


@dataclass(frozen=True)
class Shapes:
    """Of one call.

    Attributes:
        batch: sequences; `rows`, `keys`: the most of one (of packed rows: given at the call; keys of pages: 0).
        packed: whether q is.
        page: rows of a page, or 0; `pages`: how many there are.
    """

    batch: int
    heads: int
    kv_heads: int
    d: int
    dv: int
    rows: int
    keys: int
    packed: bool
    page: int
    pages: int


def shapes_of(q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, table: Any, lengths: Any,
              longest: int) -> Shapes:
    """The shapes of the operands.

    Raises:
        ValueError: they do not fit together; the message says what is expected.
    """
    packed_q, packed_k, paged = starts_q is not None, starts_k is not None, table is not None
    require(WHERE, len(q.shape) == (3 if packed_q else 4),
            f"q must be {'[total, H, D] with cu_seqlens_q' if packed_q else '[B, Sq, H, D] without cu_seqlens_q'}, got "
            f"shape {tuple(q.shape)}")
    require(WHERE, not (paged and packed_k), "keys are given by block_table or by cu_seqlens_k, not both")
    require(WHERE, not packed_q or packed_k or paged, "cu_seqlens_q needs cu_seqlens_k, or block_table and seqlens_k")
    require(WHERE, not packed_k or packed_q, "cu_seqlens_k needs cu_seqlens_q")
    require(WHERE, not paged or lengths is not None, "block_table needs seqlens_k, the keys of each sequence")
    require(WHERE, not packed_k or lengths is None,
            "seqlens_k is for dense or paged keys; cu_seqlens_k says their number")
    for name, x in (("k", k), ("v", v)):
        form = "[pages, page, Hkv, D]" if paged else "[total, Hkv, D]" if packed_k else "[B, Skv, Hkv, D]"
        require(WHERE, len(x.shape) == (3 if packed_k else 4), f"{name} must be {form}, got shape {tuple(x.shape)}")
    heads, d = (int(n) for n in q.shape[-2:])
    kv_heads, dv = (int(n) for n in v.shape[-2:])
    require(WHERE, tuple(k.shape[:-1]) == tuple(v.shape[:-1]),
            f"k and v differ in more than their last dimension: {tuple(k.shape)} and {tuple(v.shape)}")
    require(WHERE, k.shape[-1] == d, f"q and k must have one last dimension, got {d} and {k.shape[-1]}")
    require(WHERE, kv_heads > 0 and heads % kv_heads == 0,
            f"{heads} heads of q do not divide into {kv_heads} of k and v")
    batch = len(starts_q) - 1 if packed_q else int(q.shape[0])
    require(WHERE, packed_k or paged or k.shape[0] == batch, f"q has {batch} sequences, k and v have {k.shape[0]}")
    rows = longest if packed_q else int(q.shape[1])
    keys = 0 if packed_k or paged else int(k.shape[1])
    for name, x, n in (("cu_seqlens_q", starts_q, batch + 1), ("cu_seqlens_k", starts_k, batch + 1),
                       ("seqlens_k", lengths, batch)):
        require(WHERE, x is None or tuple(x.shape) == (n,), f"{name} must have shape ({n},)"
                + ("" if x is None else f", got {tuple(x.shape)}"))
    if paged:
        require(WHERE, len(table.shape) == 2 and table.shape[0] == batch,
                f"block_table must be [{batch}, pages of a sequence], got {tuple(table.shape)}")
    page = int(k.shape[1]) if paged else 0
    for name, x in (("q", q), ("k", k), ("v", v)):
        reach = ((int(x.shape[-3]) - 1) * strides_of(x)[-3] + int(x.shape[-1])) * x.dtype.itemsize
        require(WHERE, paged and name != "q" or reach < FARTHEST,
                f"{name}: the rows of one head reach over {reach} bytes, below {FARTHEST} are supported")
    pages = int(k.shape[0]) if paged else 0
    return Shapes(batch, heads, kv_heads, d, dv, rows, keys, packed_q, page, pages)
