"""Attention of arrays."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ..cache.arrays import as_scale
from ..host.arrays import as_int32, autocast, flat_of, flattened, is_torch, padded, span, strides_of, with_rows
from ..host.config import require
from ..host.dtypes import dtype_name
from ..op import Form, Gradient, Op, Plan, Result, like, scratch_of
from ..parts.index import cdiv
from ..target import Target
from . import reference
from .backward import build_attention_backward
from .combine import choose_parts, parts_of
from .config import ARCHS, LARGEST, STATISTICS, STEP, is_short
from .forward import build_attention_forward
from .operands import FARTHEST, WHERE, reach_of, shapes_of
from .sequence import Sizes, Strides
from .tuned import TUNING, found_tile

__all__ = ["OPS"]

HALVES = ("f16", "bf16")
ALIGNMENT = 16  # bytes of an access
BLOCK = 128  # rows that a workgroup is taken to have where it is decided whether keys are shared
SHARE = 512  # fewest keys that are worth a workgroup of their own
MOST_GRID = 65535  # workgroups along z


def _result_dtype(q: Any) -> Any:
    """That of q; bf16 for fp8."""
    return "bf16" if dtype_name(q, "attention: q", (*HALVES, "f32", "fp8")) == "fp8" else q.dtype


def _results(q: Any, k: Any, v: Any, *rest: Any) -> tuple[Result, ...]:
    rows = q.shape[:-2]
    lse = (rows[0], q.shape[-2], rows[1]) if len(rows) == 2 else (q.shape[-2], rows[0])
    return Result((*q.shape[:-1], v.shape[-1]), _result_dtype(q)), Result(lse, "f32")


def _strided(rows: Any) -> tuple[int, ...]:
    """(sequence, row, head) strides of [B, S, H, D], or of packed [total, H, D]."""
    return (0, *strides_of(rows))[-4:-1]


def _bias_strides(shape: tuple[int, ...], strides: tuple[int, ...], heads: int, rows: tuple[int, ...],
                  keys: int) -> tuple[int, int, int]:
    """(sequence, row, head) strides of a bias [Sq, Skv], [H, Sq, Skv] or [B, H, Sq, Skv], 1 for any H or B."""
    full = (*rows[:-1], heads, rows[-1])[-len(shape) + 1 :] if len(shape) > 2 else rows[-1:]
    fits = 2 <= len(shape) <= (2 if len(rows) == 1 else 4) and all(
        n == m or n == 1 and i < len(shape) - 2 for i, (n, m) in enumerate(zip(shape, full, strict=False)))
    form = "[total_q, most keys]" if len(rows) == 1 else "[Sq, Skv], [H, Sq, Skv] or [B, H, Sq, Skv]"
    require(WHERE, fits and (not keys or shape[-1] >= keys),
            f"bias must be {form} (1 for any B or H), got shape {shape}")
    by = dict(zip(range(-len(shape), 0), strides, strict=True))
    return by.get(-4, 0), by.get(-2, 0), by.get(-3, 0)


def _longest(starts: Any) -> int:
    """Rows of the longest packed sequence."""
    return int((starts[1:] - starts[:-1]).max()) if len(starts) > 1 else 0


class _Call:
    """What both directions make of their operands.

    Attributes:
        shapes, operands (q, k and v), integers (of `cu_seqlens` and pages).
        addends: bias and slopes as the kernels take them.
        options: of the kernels' configuration.
    """

    def __init__(self, target: Target, q: Any, k: Any, v: Any, bias: Any, slopes: Any, starts_q: Any, starts_k: Any,
                 table: Any, lengths: Any, scale: float | None, left: int, right: int, softcap: float,
                 longest: int, splits: int = 1) -> None:
        target.require(WHERE, *ARCHS)
        stored = dtype_name(q, "attention: q", (*HALVES, "fp8"))
        for name, x in (("k", k), ("v", v)):
            if dtype_name(x, f"attention: {name}", (*HALVES, "fp8")) != stored:
                raise TypeError(f"attention: q, k and v must have one dtype, got {q.dtype} and, for {name}, {x.dtype}")
        if starts_q is not None and not longest:
            longest = _longest(starts_q)
        self.shapes = shapes = shapes_of(q, k, v, starts_q, starts_k, table, lengths, longest)
        rows = [with_rows(x, ALIGNMENT) for x in (q, k, v)]
        self.operands, strides = [span(x) for x in rows], [_strided(x) for x in rows]
        addend, of_bias, bias_dtype = None, (0, 0, 0), ""
        if bias is not None:
            bias_dtype, given = dtype_name(bias, "attention: bias"), with_rows(bias, bias.itemsize)
            of_bias = _bias_strides(tuple(bias.shape), strides_of(given), shapes.heads, tuple(q.shape[:-2]),
                                    shapes.keys)
            addend = span(given)
        each = (shapes.heads,), (shapes.batch, shapes.heads)
        self.addends = addend, flat_of(slopes, "attention: alibi_slopes", "f32", *each)
        self.integers = [flat_of(as_int32(x, f"attention: {name}"), f"attention: {name}", "i32") for x, name in (
            (starts_q, "cu_seqlens_q"), (starts_k, "cu_seqlens_k"), (lengths, "seqlens_k"), (table, "block_table"))]
        scale = 1 / math.sqrt(shapes.d) if scale is None else scale
        self.options = dict(group=shapes.heads // shapes.kv_heads, left=left >= 0, right=right >= 0,
                            softcap=softcap != 0.0, alibi=slopes is not None, bias=bias_dtype,
                            packed=shapes.packed, positive=scale > 0)
        self.lines = math.prod(q.shape[:-1])
        columns = int(table.shape[1]) if table is not None else 0
        keys = columns * shapes.page if columns else shapes.keys  # the most of a sequence that is not packed
        self.splits = self._splits(target, splits, keys)
        struct: Any = Strides  # made by a decorator that type checkers do not follow
        self._numbers = dict(
            heads=shapes.heads, rows=shapes.rows, keys=keys, total=int(q.shape[0]) if shapes.packed else 0,
            slope_batch=shapes.heads if slopes is not None and len(slopes.shape) == 2 else 0, table_row=columns,
            pages=shapes.pages, splits=self.splits, scale=scale, cap=softcap,
            left=reach_of(left), right=reach_of(right),
            **{name: struct(*steps) for name, steps in zip(("q", "k", "v", "bias"), (*strides, of_bias), strict=True)})

    @property
    def is_plain(self) -> bool:
        """Whether it is such a call as a search runs: dense, and at most causal."""
        shapes, options = self.shapes, self.options
        more = any(options[name] for name in ("left", "softcap", "alibi", "bias", "packed"))
        return not more and not shapes.page and shapes.d == shapes.dv and not self._numbers["right"]

    def _splits(self, target: Target, splits: int, keys: int) -> int:
        """Workgroups that share the keys of a row: those given, or as many as fill the chip where few rows see many
        keys. No more than the parts can be addressed, or the keys have tiles."""
        shapes = self.shapes
        blocks = shapes.batch * shapes.heads * cdiv(shapes.rows, BLOCK)
        if not splits:
            most = keys // SHARE
            splits = choose_parts(target, blocks, most, 1) if most > 1 and 0 < blocks < target.compute_units else 1
        reach = max(shapes.rows * shapes.heads * shapes.dv * 4, 1)
        return max(min(splits, (FARTHEST - 1) // reach, MOST_GRID // max(shapes.batch, 1)), 1)

    def sizes(self, descale_each: bool) -> Sizes:
        """For the kernels; `descale_each`: descales are those of sequences and heads."""
        struct: Any = Sizes
        return struct(descale_batch=self.shapes.kv_heads if descale_each else 0, descale_head=int(descale_each),
                      **self._numbers)


def _plan(target: Target, q: Any, k: Any, v: Any, bias: Any = None, slopes: Any = None, sink: Any = None,
          starts_q: Any = None, starts_k: Any = None, table: Any = None, lengths: Any = None, q_descale: Any = None,
          k_descale: Any = None, v_descale: Any = None, scale: float | None = None, left: int = -1, right: int = -1,
          softcap: float = 0.0, longest: int = 0, splits: int = 1) -> Plan | None:
    call = _Call(target, q, k, v, bias, slopes, starts_q, starts_k, table, lengths, scale, left, right, softcap,
                 longest, splits)
    shapes, stored = call.shapes, dtype_name(q, "attention: q", (*HALVES, "fp8"))
    each = (shapes.batch, shapes.kv_heads)
    descales = [flat_of(d, f"attention: {name}", "f32", (1,), each, (), (1, 1)) for d, name in (
        (q_descale, "q_descale"), (k_descale, "k_descale"), (v_descale, "v_descale"))]
    given = [d for d in descales if d is not None]
    require(WHERE, not given or stored == "fp8", f"descales are for fp8 operands, q is {q.dtype}")
    require(WHERE, len({d.shape for d in given}) < 2, "all descales must have one shape, (1,) or (B, Hkv)")
    sink = flat_of(sink, "attention: sink", "f32", (shapes.heads,))
    if 0 in q.shape or v.shape[-1] == 0:
        return None
    tile = found_tile(target, stored, right >= 0, shapes.rows, shapes.d, shapes.keys) if call.is_plain else {}
    factors = None
    if given:
        ones = given[0] * 0 + 1  # an array of the same kind
        factors = tuple(ones if d is None else d for d in descales)

    def build() -> Any:
        return build_attention_forward(
            shapes.d, shapes.dv, "bf16" if stored == "fp8" else stored, stored=stored, sink=sink is not None,
            lengths=lengths is not None, page=shapes.page, split=call.splits > 1, target=target,
            short=is_short(target, shapes.rows), **tile, **call.options)

    return Plan(build, lambda out, lse, *parts: (
        *call.operands, flattened(out), lse.reshape(-1), parts or None, *call.addends, sink,
        *call.integers, factors, call.sizes(bool(given) and given[0].shape[0] > 1), call.lines,
        shapes.rows, shapes.heads, shapes.batch), scratch=parts_of(call.lines, shapes.dv, call.splits))


def _sample(draw: Any, m: int, n: int, heads: int = 4, group: int = 2, more: int = 3,
            causal: bool = True) -> tuple[Any, ...]:
    q = draw.normal(2, m, heads, n, dtype="bf16")
    k, v = (draw.normal(2, m + more, heads // group, n, dtype="bf16") for _ in range(2))
    return (q, k, v, *(None,) * 10, None, -1, 0 if causal else -1, 0.0, 0, 1)


def _flops(q: Any, k: Any, v: Any, *rest: Any) -> int:
    """Of both products, for the pairs that causality leaves; of dense operands."""
    rows, keys, right = q.shape[1], k.shape[1], rest[12]
    pairs = rows * keys if right < 0 else rows * keys - rows * (rows - 1) // 2
    return 2 * q.shape[0] * q.shape[2] * pairs * (q.shape[-1] + v.shape[-1])


def _cases(target: Target, rows: int) -> list[tuple[str, tuple[int, ...], dict[str, Any]]]:
    dense = dict(heads=32, group=1, more=0)
    return [("attention", (rows, 128), dict(dense, causal=False)), ("attention, causal", (rows, 128), dense)]


def _plan_backward(target: Target, dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, bias: Any = None,
                   slopes: Any = None, starts_q: Any = None, starts_k: Any = None, scale: float | None = None,
                   left: int = -1, right: int = -1, softcap: float = 0.0, longest: int = 0) -> Plan | None:
    stored = dtype_name(q, "attention_bwd: q", HALVES)
    call = _Call(target, q, k, v, bias, slopes, starts_q, starts_k, None, None, scale, left, right, softcap, longest)
    for name, x in (("dout", dout), ("out", out)):
        shape, dtype = (*q.shape[:-1], v.shape[-1]), dtype_name(x, f"attention_bwd: {name}", HALVES)
        require("attention_bwd", tuple(x.shape) == shape and dtype == stored,
                f"{name} must be {shape} of {q.dtype}, got {tuple(x.shape)} of {x.dtype}")
    of_rows = tuple(_results(q, k, v)[1].shape)
    statistics = [flat_of(x, f"attention_bwd: {name}", "f32", of_rows) for name, x in (("lse", lse), ("dlse", dlse))]
    if 0 in q.shape or 0 in k.shape:
        return None
    shapes, most = call.shapes, _longest(starts_k) if starts_k is not None else call.shapes.keys

    def build() -> Any:
        return build_attention_backward(shapes.d, shapes.dv, stored, target=target,
                                        short=is_short(target, max(shapes.rows, most)), **call.options)

    return Plan(build, lambda dq, dk, dv, *passed: (
        *call.operands, flattened(out), flattened(dout), *statistics,
        *passed, flattened(dq), flattened(dk), flattened(dv), *call.addends, *call.integers[:2],
        call.sizes(False), shapes.rows, most, shapes.heads, shapes.kv_heads, shapes.batch),
        zero=(0, 1, 2) if shapes.packed else (), scratch=(Result((math.prod(lse.shape),), "f32"),) * STATISTICS)


def _backward_sample(draw: Any, m: int, n: int) -> tuple[Any, ...]:
    q, k, v, *_ = _sample(draw, m, n)
    out, lse = reference.attention(q, k, v, right=0)
    dlse = draw.normal(*lse.shape)
    return (draw.normal(*out.shape, dtype="bf16"), dlse, q, k, v, out.bfloat16(), lse.float(), *(None,) * 4, None,
            -1, 0, 0.0, 0)


ATTENTION_BWD = Op(
    "attention_bwd",
    "(Tensor dout, Tensor dlse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? bias=None, "
    "Tensor? alibi_slopes=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, float? scale=None, "
    "int left=-1, int right=-1, float softcap=0.0, SymInt max_seqlen_q=0) -> (Tensor, Tensor, Tensor)",
    "Gradients of attention by q, k and v, from its results",
    results=lambda dout, dlse, q, k, v, *rest: (like(q), like(k), like(v)), plan=_plan_backward,
    sample=_backward_sample, widths=(64, 96), reference=reference.attention_backward, public=False, tolerance=2e-2,
    workspace=partial(scratch_of, _plan_backward), archs=ARCHS,
)

_SAVED = ("q", "k", "v", "bias", "alibi_slopes", "sink", "cu_seqlens_q", "cu_seqlens_k")
_NAMES = (*_SAVED, "block_table", "seqlens_k", "q_descale", "k_descale", "v_descale", "scale", "left", "right",
          "softcap", "max_seqlen_q", "num_splits")


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    given = dict(zip(_NAMES, inputs, strict=True))
    ctx.save_for_backward(*(given[name] for name in _SAVED), *output)
    ctx.numbers = [given[name] for name in _NAMES[-6:-1]]
    ctx.missing = [name for name in ("block_table", "seqlens_k", "q_descale", "k_descale", "v_descale")
                   if given[name] is not None]


def _backward(ctx: Any, dout: Any, dlse: Any) -> tuple[Any, ...]:
    q, k, v, bias, slopes, sink, starts_q, starts_k, out, lse = ctx.saved_tensors
    needed = dict(zip(_NAMES, ctx.needs_input_grad, strict=False))  # without those at their defaults
    absent = ctx.missing + [name for name in ("bias", "alibi_slopes") if needed[name]]
    if absent or q.dtype.itemsize == 1:
        raise NotImplementedError("attention: no gradient "
                                  + (f"with or by {', '.join(absent)}" if absent else f"of {q.dtype} operands"))
    dout = out.new_zeros(out.shape) if dout is None else dout
    dlse = lse.new_zeros(lse.shape) if dlse is None else dlse
    gradients = ATTENTION_BWD(dout, dlse, q, k, v, out, lse, bias, slopes, starts_q, starts_k, *ctx.numbers)
    dsink = None
    if sink is not None and needed["sink"]:
        # A sink has its share of the sum and a value of 0.
        delta = (dout.float() * out.float()).sum(-1).movedim(-1, -2) - dlse
        share = (sink[:, None] - lse).exp()
        dsink = -(share * delta).movedim(-2, 0).flatten(1).sum(1)
    return (*gradients, None, None, dsink, *(None,) * (len(_NAMES) - 6))


ATTENTION_FWD = Op(
    "attention_fwd",
    "(Tensor q, Tensor k, Tensor v, Tensor? bias=None, Tensor? alibi_slopes=None, Tensor? sink=None, "
    "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? block_table=None, Tensor? seqlens_k=None, "
    "Tensor? q_descale=None, Tensor? k_descale=None, Tensor? v_descale=None, float? scale=None, int left=-1, "
    "int right=-1, float softcap=0.0, SymInt max_seqlen_q=0, int num_splits=1) -> (Tensor, Tensor)",
    "softmax(q k^T scale) v with a band, soft cap, bias, ALiBi, sink; packed or paged; and the log of its denominators",
    results=_results, plan=_plan, sample=_sample, widths=(64, 96), reference=reference.attention,
    public=False, tolerance=1e-2, gradient=Gradient(_backward, _save), archs=ARCHS, bench=_cases, flops=_flops,
    workspace=partial(scratch_of, _plan), tuning=TUNING,
    prebuilt=lambda op, draw, model: [_sample(draw, 64, model.head, model.heads, model.heads // model.kv_heads, 0)],
)


# ------------------------------------------------------------------------------------------- functional form


def _padded_columns(x: Any) -> Any:
    """x with as many zeros behind its last dimension as kernels take."""
    columns = x.shape[-1]
    require(WHERE, columns <= LARGEST, f"heads have at most {LARGEST} columns, got {columns}")
    return padded(x, -columns % STEP, -1)


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
            padded in a copy. What is not fp8 follows torch's autocast.
        k, v: [B, Skv, Hkv, D] and [B, Skv, Hkv, Dv], or packed with `cu_seqlens_k`, or pages [pages, page, Hkv, D]
            with `block_table` and `seqlens_k`. H is a multiple of Hkv: query head h uses head ``h // (H // Hkv)``.
        causal: hide later keys. scale: of the products, ``1 / sqrt(D)`` if None.
        window: keys before and behind its place that a query sees; -1: all.
        softcap: c > 0 makes scores ``c tanh(score / c)``.
        bias: added to scores: [Sq, Skv], [H, Sq, Skv] or [B, H, Sq, Skv] (1 for any B or H), packed [total, most keys].
        alibi_slopes: f32 [H] or [B, H]: ``-slope * distance`` is added to scores.
        sink: f32 [H]: a score without a value, which takes its share of the sum.
        cu_seqlens_q, cu_seqlens_k: i32 or i64 [B + 1]: where packed sequences begin and end.
        max_seqlen_q: rows of the longest packed sequence; None reads it from `cu_seqlens_q`, which waits for the
            device. max_seqlen_k: not needed.
        block_table: i32 or i64 [B, pages of a sequence]. seqlens_k: the same [B], keys of each sequence, also of dense
            k and v.
        q_descale, k_descale, v_descale: what fp8 values are multiplied by: f32 (B, Hkv), or one or a float for all.
        num_splits: workgroups that share the keys of a row; None or 0: as many as suit, which is several where few rows
            see thousands of keys. deterministic: all results are the same bits each time in any case.
        return_lse: also return the logarithms of the sums, f32 [B, H, Sq] or packed [H, total]; a sink is part of them.

    Returns:
        [B, Sq, H, Dv] or [total, H, Dv]; with `return_lse` and the logarithms.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not fit, or the architecture has no such kernel.
    """
    splits = num_splits or 0
    require(WHERE, splits >= 0, f"num_splits must be 0 (as many as suit) or more, got {splits}")
    require(WHERE, len(window) == 2 and min(window) >= -1, f"window is (left, right), each -1 or more, got {window}")
    left, right = window
    if causal:
        right = 0
    require(WHERE, softcap >= 0, f"softcap must be 0 (none) or more, got {softcap}")
    shapes = [tuple(x.shape) for x in (q, k, v)]
    require(WHERE, min(map(len, shapes)) >= 2, f"q, k and v have 3 or 4 dimensions, got {shapes}")
    d, of_k, dv = (shape[-1] for shape in shapes)
    require(WHERE, d == of_k, f"q and k must have one last dimension, got {d} and {of_k}")
    require(WHERE, d > 0, f"heads of q and k have one column or more, got shape {shapes[0]}")
    require(WHERE, block_table is None or d % STEP == dv % STEP == 0,
            f"heads of pages have multiples of {STEP} columns, got {d} and {dv}")
    if is_torch(q) and q.dtype.itemsize > 1:
        q, k, v = autocast(q, k, v)
    scale = 1 / math.sqrt(d) if scale is None else float(scale)
    descales = (as_scale(q, given) for given in (q_descale, k_descale, v_descale))
    out, lse = ATTENTION_FWD(
        *map(_padded_columns, (q, k, v)), bias, alibi_slopes, sink, cu_seqlens_q, cu_seqlens_k, block_table, seqlens_k,
        *descales, scale, left, right, float(softcap), max_seqlen_q or 0, splits)
    out = out if out.shape[-1] == dv else out[..., :dv]
    return (out, lse) if return_lse else out


OPS = [ATTENTION_FWD, ATTENTION_BWD, Form("attention", attention)]
