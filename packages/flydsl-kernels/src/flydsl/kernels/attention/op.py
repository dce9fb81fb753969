"""Attention of arrays."""

from __future__ import annotations

import math
from typing import Any

from ..host.arrays import contiguous, is_torch
from ..host.dtypes import dtype_name
from ..op import Form, Op, Plan, Result
from ..target import Target
from . import reference
from .config import LARGEST, STEP, supported
from .forward import Sizes, build_attention_forward
from .operands import Operand, Shapes, integers, shapes_of

__all__ = ["OPS"]

HALVES = ("f16", "bf16")


def _result_dtype(q: Any) -> Any:
    """That of q; bf16 for fp8."""
    return "bf16" if dtype_name(q, "attention: q", (*HALVES, "f32", "fp8")) == "fp8" else q.dtype


def _results(q: Any, k: Any, v: Any, *rest: Any) -> tuple[Result, ...]:
    rows = q.shape[:-2]
    lse = (rows[0], q.shape[-2], rows[1]) if len(rows) == 2 else (q.shape[-2], rows[0])
    return Result((*q.shape[:-1], v.shape[-1]), _result_dtype(q)), Result(lse, "f32")


def _strided(operand: Operand | None) -> tuple[int, int, int]:
    """(sequence, row, head) strides of [B, S, H, D], or of packed [total, H, D]."""
    s = operand.strides
    return (0, s[0], s[1]) if len(s) == 3 else (s[0], s[1], s[2])


def _bias_strides(shape: tuple[int, ...], strides: tuple[int, ...], heads: int, rows: tuple[int, ...],
                  keys: int) -> tuple[int, int, int]:
    """(sequence, row, head) strides of a bias [Sq, Skv], [H, Sq, Skv] or [B, H, Sq, Skv], 1 for any H or B."""
    full = (*rows[:-1], heads, rows[-1])[-len(shape) + 1 :] if len(shape) > 2 else rows[-1:]
    fits = 2 <= len(shape) <= (2 if len(rows) == 1 else 4) and all(
        n == m or n == 1 and i < len(shape) - 2 for i, (n, m) in enumerate(zip(shape, full, strict=False)))
    if not fits or keys and shape[-1] < keys:
        form = "[total_q, most keys]" if len(rows) == 1 else "[Sq, Skv], [H, Sq, Skv] or [B, H, Sq, Skv]"
        raise ValueError(f"attention: bias must be {form} (1 for any B or H), got shape {shape}")
    by = dict(zip(range(-len(shape), 0), strides, strict=True))
    return tuple(by.get(i, 0) for i in (-4, -2, -3))


def _float32(array: Any, name: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """A contiguous f32 array of one of some shapes, flat; None stays."""
    if array is None:
        return None
    dtype_name(array, f"attention: {name}", ("f32",))
    if tuple(array.shape) not in shapes:
        raise ValueError(f"attention: {name} must have shape {' or '.join(map(str, shapes))}, got {tuple(array.shape)}")
    return contiguous(array).reshape(math.prod(array.shape))


def _ones(like: Any) -> Any:
    return like * 0 + 1


def _plan(target: Target, q: Any, k: Any, v: Any, bias: Any = None, slopes: Any = None, sink: Any = None,
          starts_q: Any = None, starts_k: Any = None, table: Any = None, lengths: Any = None, q_descale: Any = None,
          k_descale: Any = None, v_descale: Any = None, scale: float | None = None, left: int = -1, right: int = -1,
          softcap: float = 0.0, longest: int = 0) -> Plan | None:
    supported(target, "attention")
    stored = dtype_name(q, "attention: q", (*HALVES, "fp8"))
    for name, x in (("k", k), ("v", v)):
        if dtype_name(x, f"attention: {name}", (*HALVES, "fp8")) != stored:
            raise TypeError(f"attention: q, k and v must have one dtype, got {q.dtype} and, for {name}, {x.dtype}")
    shapes = shapes_of(q, k, v, starts_q, starts_k, table, lengths, longest)
    given = [d for d in (q_descale, k_descale, v_descale) if d is not None]
    if given and stored != "fp8":
        raise ValueError(f"attention: descales are for fp8 operands, q is {q.dtype}")
    b, h, hk = shapes.batch, shapes.heads, shapes.kv_heads
    one_of = tuple(dict.fromkeys(((1,), (b, hk))))
    descales = [None if d is None else _float32(d, name, one_of)
                for name, d in (("q_descale", q_descale), ("k_descale", k_descale), ("v_descale", v_descale))]
    if len({tuple(d.shape) for d in given}) > 1:
        raise ValueError("attention: all descales must have one shape, (1,) or (B, Hkv)")
    each = bool(given) and tuple(given[0].shape) == (b, hk) and (b, hk) != (1,)
    operands = [Operand.of(x) for x in (q, k, v)]
    addend, bias_strides, bias_dtype = None, (0, 0, 0), ""
    if bias is not None:
        bias_dtype = dtype_name(bias, "attention: bias")
        addend = Operand.of(bias, aligned=False)
        bias_strides = _bias_strides(tuple(bias.shape), addend.strides, h, tuple(q.shape[:-2]), shapes.keys)
    slopes_flat = _float32(slopes, "alibi_slopes", ((h,), (b, h)))
    sink = _float32(sink, "sink", ((h,),))
    ints = [integers(x, name) for x, name in ((starts_q, "cu_seqlens_q"), (starts_k, "cu_seqlens_k"),
                                              (lengths, "seqlens_k"), (table, "block_table"))]
    if 0 in q.shape or v.shape[-1] == 0:
        return None
    scale = 1 / math.sqrt(shapes.d) if scale is None else scale
    sizes = _sizes(q, shapes, operands, scale, left, right, softcap, bias_strides, slopes, table, each)
    factors = None
    if given:
        factors = tuple(_ones(next(d for d in descales if d is not None)) if d is None else d for d in descales)

    def build() -> Any:
        return build_attention_forward(
            shapes.d, shapes.dv, "bf16" if stored == "fp8" else stored, group=h // hk, stored=stored, left=left >= 0,
            right=right >= 0, softcap=softcap != 0.0, alibi=slopes is not None, sink=sink is not None,
            bias=bias_dtype, packed=shapes.packed_q, lengths=lengths is not None, page=shapes.page,
            positive=scale > 0, target=target)

    return Plan(build, lambda out, lse: (
        *(x.flat for x in operands), out.reshape(-1), lse.reshape(-1), addend.flat if addend else None, slopes_flat,
        sink, *ints, factors, sizes, shapes.rows, h, b))


def _sizes(q: Any, shapes: Shapes, operands: list[Operand], scale: float, left: int, right: int, softcap: float,
           bias: tuple[int, int, int], slopes: Any, table: Any, each: bool) -> Sizes:
    (qb, qr, qh), (kb, kr, kh), (vb, vr, vh) = map(_strided, operands)
    keys = int(table.shape[1]) * shapes.page if table is not None else shapes.keys
    return Sizes(
        heads=shapes.heads, rows=shapes.rows, keys=keys, total=int(q.shape[0]) if shapes.packed_q else 0,
        q_batch=qb, q_row=qr, q_head=qh, k_batch=kb, k_row=kr, k_head=kh, v_batch=vb, v_row=vr, v_head=vh,
        bias_batch=bias[0], bias_row=bias[1], bias_head=bias[2],
        slope_batch=shapes.heads if slopes is not None and len(slopes.shape) == 2 else 0,
        descale_batch=shapes.kv_heads if each else 0, descale_head=int(each),
        table_row=int(table.shape[1]) if table is not None else 0, left=max(left, 0), right=max(right, 0), scale=scale,
        cap=softcap)


def _sample(draw: Any, m: int, n: int, group: int = 2, **options: Any) -> tuple[Any, ...]:
    q = draw.normal(2, m, 2 * group, n, dtype="bf16")
    k, v = (draw.normal(2, m + 3, 2, n, dtype="bf16") for _ in range(2))
    return (q, k, v, *(None,) * 10, None, -1, 0, 0.0, 0)


ATTENTION_FWD = Op(
    "attention_fwd",
    "(Tensor q, Tensor k, Tensor v, Tensor? bias=None, Tensor? alibi_slopes=None, Tensor? sink=None, "
    "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? block_table=None, Tensor? seqlens_k=None, "
    "Tensor? q_descale=None, Tensor? k_descale=None, Tensor? v_descale=None, float? scale=None, int left=-1, "
    "int right=-1, float softcap=0.0, SymInt max_seqlen_q=0) -> (Tensor, Tensor)",
    "softmax(q k^T scale) v with a band, soft cap, bias, ALiBi, sink; packed or paged; and the log of its denominators",
    results=_results, plan=_plan, sample=_sample, widths=(64, 96), reference=reference.attention,
    public=False, tolerance=1e-2, archs=("gfx942", "gfx950", "gfx120", "gfx1250"),
)


# ------------------------------------------------------------------------------------------- functional form


def _padded_columns(x: Any, columns: int) -> Any:
    """x with zeros behind its last dimension."""
    more = columns - x.shape[-1]
    if not more:
        return x
    if is_torch(x):
        import torch

        if x.dtype.itemsize == 1:  # torch pads no fp8
            return torch.nn.functional.pad(x.view(torch.uint8), (0, more)).view(x.dtype)
        return torch.nn.functional.pad(x, (0, more))
    import numpy as np

    return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, more)])


def _columns(n: int) -> int:
    if n > LARGEST:
        raise ValueError(f"attention: heads have at most {LARGEST} columns, got {n}")
    return -(-n // STEP) * STEP


def _longest(starts: Any) -> int:
    """Rows of the longest packed sequence."""
    return int((starts[1:] - starts[:-1]).max()) if len(starts) > 1 else 0


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None,
              window: tuple[int, int] = (-1, -1), softcap: float = 0.0, bias: Any = None, alibi_slopes: Any = None,
              sink: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, max_seqlen_q: int | None = None,
              max_seqlen_k: int | None = None, block_table: Any = None, seqlens_k: Any = None, q_descale: Any = None,
              k_descale: Any = None, v_descale: Any = None, num_splits: int | None = None, deterministic: bool = False,
              return_lse: bool = False) -> Any:
    """``softmax(q k^T * scale) v`` for each head, in f32 arithmetic; differentiable in q, k and v.

    Query i of a sequence of Sq queries and Skv keys stands at the place of key ``i + Skv - Sq``: causality and the
    window count from there. A query that sees no key gives 0, and -inf as its logarithm.

    Args:
        q: [B, Sq, H, D], or packed [total, H, D] with `cu_seqlens_q`. f16 or bf16, or fp8 (the result then is bf16);
            any strides, of which a last one of 1 is not copied. D up to 256, multiples of 32 as they are, others
            padded in a copy.
        k, v: [B, Skv, Hkv, D] and [B, Skv, Hkv, Dv], or packed with `cu_seqlens_k`, or pages [pages, page, Hkv, D]
            with `block_table` and `seqlens_k`. H is a multiple of Hkv: query head h uses head ``h // (H // Hkv)``.
        causal: hide later keys. scale: of the products, ``1 / sqrt(D)`` if None.
        window: keys before and behind its place that a query sees; -1: all.
        softcap: c > 0 makes scores ``c tanh(score / c)``.
        bias: added to scores: [Sq, Skv], [H, Sq, Skv] or [B, H, Sq, Skv] (1 for any B or H), packed [total, most keys].
        alibi_slopes: f32 [H] or [B, H]: ``-slope * distance`` is added to scores.
        sink: f32 [H]: a score without a value, which takes its share of the sum.
        cu_seqlens_q, cu_seqlens_k: i32 [B + 1]: where packed sequences begin and end.
        max_seqlen_q: rows of the longest packed sequence; None reads it from `cu_seqlens_q`, which waits for the
            device. max_seqlen_k: not needed.
        block_table: i32 [B, pages of a sequence]. seqlens_k: i32 [B], keys of each sequence, also of dense k and v.
        q_descale, k_descale, v_descale: f32 (1,) or (B, Hkv): what fp8 values are multiplied by.
        num_splits: None or 1. deterministic: all results are the same bits each time in any case.
        return_lse: also return the logarithms of the sums, f32 [B, H, Sq] or packed [H, total]; a sink is part of them.

    Returns:
        [B, Sq, H, Dv] or [total, H, Dv]; with `return_lse` and the logarithms.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not fit, or the architecture has no such kernel.
        NotImplementedError: `num_splits` above 1.
    """
    if num_splits not in (None, 0, 1):
        raise NotImplementedError(f"attention: keys are not split here (num_splits={num_splits}); pass None")
    if len(window) != 2 or min(window) < -1:
        raise ValueError(f"attention: window is (left, right), each -1 or more, got {window}")
    left, right = window
    if causal:
        right = 0
    if softcap < 0:
        raise ValueError(f"attention: softcap must be 0 (none) or more, got {softcap}")
    if len(q.shape) < 2 or len(k.shape) < 2 or len(v.shape) < 2:
        raise ValueError(f"attention: q, k and v have 3 or 4 dimensions, got {[tuple(x.shape) for x in (q, k, v)]}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention: q and k must have one last dimension, got {q.shape[-1]} and {k.shape[-1]}")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if cu_seqlens_q is not None and max_seqlen_q is None:
        max_seqlen_q = _longest(cu_seqlens_q)
    d, dv = _columns(q.shape[-1]), _columns(v.shape[-1])
    if block_table is not None and (d != k.shape[-1] or dv != v.shape[-1]):
        raise ValueError(f"attention: heads of pages have multiples of {STEP} columns, got {k.shape[-1]} and "
                         f"{v.shape[-1]}")
    out, lse = ATTENTION_FWD(
        _padded_columns(q, d), _padded_columns(k, d), _padded_columns(v, dv), bias, alibi_slopes, sink, cu_seqlens_q,
        cu_seqlens_k, block_table, seqlens_k, q_descale, k_descale, v_descale, scale, left, right, float(softcap),
        max_seqlen_q or 0)
    out = out if dv == v.shape[-1] else out[..., : v.shape[-1]]
    return (out, lse) if return_lse else out


OPS = [ATTENTION_FWD, Form("attention", attention)]
