"""Decode attention of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ..attention.combine import choose_parts, parts_of
from ..cache.arrays import as_scale, one_scale, require_native
from ..host.arrays import contiguous, flat_of, span, strides_of
from ..host.config import require
from ..host.dtypes import dtype_name, float_name
from ..op import Op, Plan, Result, like, scratch_of
from ..parts.index import cdiv
from ..target import Target
from . import reference
from .arrays import caches_of, indices_of, rows_of
from .builders import build_mla_decode_module, build_paged_attention_module
from .config import ARCHS, CACHES, paged_config
from .kernel import sizes_of
from .mla_config import RANK, ROPE, mla_config

__all__ = ["OPS"]

MLA_SHARE = 64  # fewest tokens of a context that are worth a workgroup of MLA
MLA_EVEN = 0.9  # share of the compute units' time that is worth no further parts of 512 columns each


# ------------------------------------------------------------------------------------------- paged attention


def _plan(target: Target, builder: Callable[..., Any], operands: tuple[Any, ...], given: tuple[Any, ...], lines: int,
          columns: int, parts: int, dtype: str = "f32") -> Plan:
    """Attention of so many lines in `parts` of each context: what the builder makes takes operands, the result, scratch
    for the parts (of this dtype), and what is given."""
    scratch = parts_of(lines, columns, parts, dtype)
    return Plan(partial(builder, split=bool(scratch), target=target),
                lambda out, *held: (*operands, out, *(held or operands[:2]), *given), scratch=scratch)


def _plan_paged(target: Target, q: Any, k_cache: Any, v_cache: Any, table: Any, lengths: Any, scale: Any, left: int,
           right: int, softcap: float, sink: Any, k_scale: Any, v_scale: Any, out_dtype: Any) -> Plan | None:
    where = "paged_attention"
    dtype = dtype_name(q, where, ("f16", "bf16"))
    require(where, len(q.shape) == 4, f"q must be [B, Sq, H, D], got {tuple(q.shape)}")
    batch, queries, heads, dim = q.shape
    caches = caches_of(where, target, k_cache, v_cache, dtype, heads, dim)
    page, kv_heads = caches.page, caches.heads
    table, lengths = indices_of(where, table, lengths, batch)
    require(where, left >= -1 and right >= -1, f"a window is of -1 (all) or more tokens, got {(left, right)}")
    require(where, softcap >= 0.0, f"softcap must not be negative, got {softcap}")
    sink = flat_of(sink, f"{where}: sink", "f32", (heads,))
    (k_scale, of_keys), (v_scale, of_values) = (
        caches.scale(where, name, given, lengths) for name, given in (("k_scale", k_scale), ("v_scale", v_scale)))
    out = dtype_name(q, where) if out_dtype is None else out_dtype
    static = (dim, heads // kv_heads, queries, dtype, caches.kind, out, page)
    options: dict[str, Any] = {"window": left >= 0, "softcap": softcap > 0.0, "sink": sink is not None,
                               "key_scales": of_keys, "value_scales": of_values, **caches.options}
    config = paged_config(where, target, *static, **options)
    if 0 in q.shape:
        return None
    capacity = table.shape[1] * page
    parts = choose_parts(target, batch * kv_heads * config.row_blocks, cdiv(capacity, config.step))
    operands = (contiguous(q), span(caches.keys), span(caches.values), span(table), lengths,
                lengths if sink is None else sink, k_scale, v_scale, lengths)
    places = (strides_of(table)[0], table.shape[1], caches.pages, *caches.strides)
    sizes = sizes_of(heads, parts, places, float(dim**-0.5 if scale is None else scale), left, float(softcap))
    return _plan(target, partial(build_paged_attention_module, *static, **options), operands, (batch, sizes),
                 batch * queries * heads, dim, parts)


def _paged_attention(op: Op, q: Any, k_cache: Any, v_cache: Any, block_table: Any, seqlens: Any, *,
                     scale: float | None = None, window: tuple[int, int] = (-1, -1), softcap: float = 0.0,
                     sink: Any = None, k_scale: Any = None, v_scale: Any = None, out_dtype: Any = None) -> Any:
    """Attention of the newest tokens of sequences over their keys and values in paged caches.

    Query i of Sq is token ``seqlens[b] - Sq + i`` of its sequence and sees the tokens up to itself; a query that sees
    nothing gives 0.

    Args:
        q: [B, Sq, H, D] with Sq of 1 to 16, f16 or bf16; D is a multiple of 32 from 64 to 256.
        k_cache, v_cache: [pages, page, Hkv, D] of q's dtype or the chip's fp8 (torch), of any strides; H is a multiple
            of Hkv and query head h sees key head ``h // (H // Hkv)``. Or packed, as :func:`cache_append` writes them:
            keys [pages, Hkv, D/x, page, x] with x of 8 or 16, and values [pages, Hkv, D, page] or
            [pages, Hkv, page/x, D, x], with pages of a multiple of 16 tokens.
        block_table: int32 or int64 [B, n]: page numbers of a sequence's tokens, in order. What lies behind its length
            is not looked at, nor what a window hides of all queries. A number that is no page stops the launch.
        seqlens: int32 or int64 [B]: tokens of a sequence, those of q included. More than n pages hold stops the launch.
        scale: of the products, ``D**-0.5`` if None.
        window: (left, right): keys more than `left` tokens back are hidden, -1: none. Nothing lies to the right.
        softcap: scores become ``softcap * tanh(score / softcap)``; 0: they stay.
        sink: f32 [H]: a score without a value, which takes its share of the weights.
        k_scale, v_scale: of fp8 caches, whose numbers stand for ``x * scale``: one f32, [Hkv], or one for each token,
            [pages, Hkv, page]; a float is one f32.
        out_dtype: ``"f32"``, ``"f16"``, ``"bf16"``, or such a dtype; that of q if None.

    Returns:
        [B, Sq, H, D].

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape, an option or the architecture is not supported.
    """
    left, right = window
    return op(q, k_cache, v_cache, block_table, seqlens, scale, left, right, softcap, sink,
              as_scale(q, k_scale), as_scale(q, v_scale), float_name(out_dtype, "paged_attention: out_dtype"))


def _contexts(draw: Any, m: int, context: int, page: int, full: bool) -> tuple[int, Any, Any]:
    """Number of pages, table and lengths of m sequences: of some tokens in pages that they share, or all `full` and in
    pages of their own."""
    width = cdiv(context, page)
    if full:
        own = draw.integers(0, 2**30, m * width, dtype="i32").argsort().reshape(m, width)
        return m * width, own.int(), draw.integers(context, context + 1, m, dtype="i32")
    table = draw.integers(0, 2 * width + 1, m, width, dtype="i32")
    return 2 * width + 1, table, draw.integers(0, context + 1, m, dtype="i32")


def _sample_paged(draw: Any, m: int, n: int, dtype: str = "f16", cache: str = "", context: int = 48, page: int = 16,
                  heads: tuple[int, int] = (4, 2), queries: int = 1, full: bool = False) -> tuple[Any, ...]:
    """m sequences of up to `context` tokens, and heads of n elements."""
    pages, table, lengths = _contexts(draw, m, context, page, full)
    q = draw.normal(m, queries, heads[0], n, dtype=dtype)
    caches = [draw.normal(pages, page, heads[1], n, dtype=cache or dtype) for _ in range(2)]
    return (q, *caches, table, lengths, None, -1, -1, 0.0, None, None, None, None)


PAGED_ATTENTION = Op(
    "paged_attention",
    "(Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_table, Tensor seqlens, float? scale=None, "
    "int window_left=-1, int window_right=-1, float softcap=0.0, Tensor? sink=None, Tensor? k_scale=None, "
    "Tensor? v_scale=None, str? out_dtype=None) -> Tensor",
    "Attention of 1 to 16 new tokens of each sequence over paged caches (f16, bf16, fp8): GQA, window, soft cap, sinks",
    results=lambda q, *rest: (like(q, rest[-1]),), plan=_plan_paged,
    workspace=partial(scratch_of, _plan_paged), form=_paged_attention,
    reference=reference.paged_attention, sample=_sample_paged, widths=(64, 96), tolerance=2e-3, archs=ARCHS,
    flops=lambda q, k, v, table, lengths, *_: 4 * math.prod(q.shape[1:]) * int(lengths.sum()),
    bench=lambda target, rows: [
        (f"paged_attention {cache} cache, 64 x 8192", (64, 128),
         {"dtype": "bf16", "cache": cache, "context": 8192, "heads": (8, 1), "full": True})
        for cache in ("bf16", "fp8")],
)

# ------------------------------------------------------------------------------------------- MLA


def _plan_mla(target: Target, q: Any, cache: Any, table: Any, lengths: Any, scale: float, rank: int, q_scale: Any,
               kv_scale: Any, out_dtype: Any) -> Plan | None:
    where = "mla_decode"
    query = dtype_name(q, where, CACHES)
    require(where, rank == RANK and len(q.shape) == 4 and q.shape[3] == RANK + ROPE,
            f"q must be [B, Sq, H, {RANK + ROPE}] and kv_lora_rank {RANK}, got {tuple(q.shape)} and {rank}")
    batch, queries, heads, dim = q.shape
    require(where, len(cache.shape) == 4 and tuple(cache.shape[2:]) == (1, dim),
            f"kv_cache must be [pages, page, 1, {dim}], got {tuple(cache.shape)}")
    kind = dtype_name(cache, f"{where}: kv_cache", CACHES)
    require_native(where, target, (("q", q, query), ("kv_cache", cache, kind)))
    table, lengths = indices_of(where, table, lengths, batch)
    scales = [one_scale(where, name, given, its, lengths)
              for name, given, its in (("q_scale", q_scale, query), ("kv_scale", kv_scale, kind))]
    out = out_dtype or (query if query != "fp8" else "bf16")
    page = cache.shape[1]
    static = (heads, queries, query, kind, out, page)
    config = mla_config(where, target, *static)
    if 0 in q.shape:
        return None
    rows = rows_of(cache)
    most = cdiv(table.shape[1] * page, MLA_SHARE)
    parts = choose_parts(target, batch * config.row_blocks, most, config.resident, MLA_EVEN)
    operands = (contiguous(q), span(rows), span(table), lengths, *scales)
    places = (strides_of(table)[0], table.shape[1], cache.shape[0], *(*strides_of(rows)[:2], 0, 0) * 2)
    # Parts of 512 columns are a sixth of what is moved of 8192 tokens: of bf16 results they are rounded to bf16.
    kept = out if out == "bf16" else "f32"
    builder = partial(build_mla_decode_module, *static, q_scaled=q_scale is not None, kv_scaled=kv_scale is not None,
                      parts_dtype=kept)
    return _plan(target, builder, operands, (batch, sizes_of(heads, parts, places, float(scale))),
                 batch * queries * heads, RANK, parts, kept)


def _mla_decode(op: Op, q: Any, kv_cache: Any, block_table: Any, seqlens: Any, *, scale: float,
                kv_lora_rank: int = RANK, q_scale: Any = None, kv_scale: Any = None, out_dtype: Any = None) -> Any:
    """Multi-head latent attention of the newest tokens of sequences: one vector of 576 a token is the key of all heads,
    and its first 512 elements are the value.

    Args:
        q: [B, Sq, H, 576] with Sq of 1 to 16, absorbed queries: f16, bf16 or the chip's fp8.
        kv_cache: [pages, page, 1, 576] of q's dtype or fp8 (with fp8 queries any of them), of any strides.
        block_table, seqlens: see :func:`paged_attention`; a page often has one token.
        scale: of the products; that of the model, as 576 is not the head size it comes from.
        kv_lora_rank: 512.
        q_scale, kv_scale: of fp8, whose numbers stand for ``x * scale``: one f32 or a float.
        out_dtype: ``"f32"``, ``"f16"``, ``"bf16"``, or such a dtype; that of q if None, bf16 of fp8.

    Returns:
        [B, Sq, H, 512]; 0 where a query sees nothing.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape, an option or the architecture is not supported.
    """
    return op(q, kv_cache, block_table, seqlens, scale, kv_lora_rank, as_scale(q, q_scale), as_scale(q, kv_scale),
              float_name(out_dtype, "mla_decode: out_dtype"))


def _reference_mla(q: Any, cache: Any, table: Any, lengths: Any, scale: float, rank: int = RANK, q_scale: Any = None,
                   kv_scale: Any = None, out_dtype: Any = None) -> tuple[Any, ...]:
    exact = q.double() if q_scale is None else q.double() * q_scale.double()
    return reference.paged_attention(exact, cache, cache[..., :rank], table, lengths, scale, k_scale=kv_scale,
                                     v_scale=kv_scale)


def _sample_mla(draw: Any, m: int, n: int, dtype: str = "f16", cache: str = "", context: int = 40, page: int = 4,
                heads: int = 4, queries: int = 1, full: bool = False) -> tuple[Any, ...]:
    pages, table, lengths = _contexts(draw, m, context, page, full)
    q, latent = draw.normal(m, queries, heads, n, dtype=dtype), draw.normal(pages, page, 1, n, dtype=cache or dtype)
    return (q, latent, table, lengths, 0.07, RANK, None, None, None)


MLA_DECODE = Op(
    "mla_decode",
    "(Tensor q, Tensor kv_cache, Tensor block_table, Tensor seqlens, float scale, int kv_lora_rank=512, "
    "Tensor? q_scale=None, Tensor? kv_scale=None, str? out_dtype=None) -> Tensor",
    "Multi-head latent attention of 1 to 16 new tokens of each sequence over paged vectors of 576 (f16, bf16, fp8)",
    results=lambda q, cache, table, lengths, scale, rank, q_scale, kv_scale, out: (
        Result((*q.shape[:3], rank), out or ("bf16" if q.dtype.itemsize == 1 else q.dtype)),),
    plan=_plan_mla, workspace=partial(scratch_of, _plan_mla), form=_mla_decode,
    reference=_reference_mla, sample=_sample_mla, widths=(RANK + ROPE,), tolerance=2e-3, archs=ARCHS,
    flops=lambda q, cache, table, lengths, *_: 2 * math.prod(q.shape[1:3]) * (2 * RANK + ROPE) * int(lengths.sum()),
    bench=lambda target, rows: [
        ("mla_decode 128 heads, 16 x 4096", (16, RANK + ROPE),
         {"dtype": "bf16", "context": 4096, "page": 1, "heads": 128, "full": True})],
)

OPS = [PAGED_ATTENTION, MLA_DECODE]
