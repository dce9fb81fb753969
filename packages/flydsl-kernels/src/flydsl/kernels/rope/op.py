"""Rotary position embedding of arrays."""

from __future__ import annotations

import math
from typing import Any

from ..cache.arrays import as_scale, both_scales, kind_of
from ..cache.layout import block_layouts
from ..host.arrays import contiguous, is_torch, span
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..op import Gradient, Op, Plan, like
from ..target import Target
from .cache_builders import build_rope_cache_module
from .kernel import build_rope_module

__all__ = ["OPS"]


def _tables(where: str, cos: Any, sin: Any, rotary: int, full: bool = False) -> tuple[Any, Any, int]:
    """Both tables contiguous, and their rows; with `full` they may have a column for each feature."""
    widths = (rotary // 2, rotary) if full else (rotary // 2,)
    for name, table in (("cos", cos), ("sin", sin)):
        dtype_name(table, f"{where}: {name}")
        require(where, len(table.shape) == 2 and table.shape[1] in widths and table.shape == cos.shape,
                f"{name} must be (positions, {rotary // 2}), half of the {rotary} rotated features"
                f"{', or one for each' * full}, got shape {tuple(table.shape)}")
    return contiguous(cos), contiguous(sin), cos.shape[0]


def _positions(where: str, positions: Any, shape: tuple[int, ...]) -> Any:
    """Positions of all tokens, contiguous; those of one sequence stand for all sequences."""
    dtype_name(positions, f"{where}: positions", INDICES)
    given = tuple(positions.shape)
    require(where, given in (shape, shape[-1:]),
            f"positions must have the shape {shape} or {shape[-1:]}, got {given}")
    if given == shape:
        return contiguous(positions)
    if is_torch(positions):
        return positions.expand(shape).contiguous()
    import numpy as np

    return np.ascontiguousarray(np.broadcast_to(positions, shape))


def _plan_rope(target: Target, x: Any, cos: Any, sin: Any, positions: Any, interleaved: bool, rotary_dim: int | None,
               inverse: bool) -> Plan | None:
    where = "rope"
    dtype = dtype_name(x, where)
    require(where, len(x.shape) >= 3, f"x must be (..., sequence, heads, head size), got shape {tuple(x.shape)}")
    *tokens, heads, dim = x.shape
    rotary = dim if rotary_dim is None else rotary_dim
    cos, sin, rows = _tables(where, cos, sin, rotary, not interleaved)
    sequence = tokens[-1]
    if positions is not None:
        positions = _positions(where, positions, tuple(tokens))
    else:
        require(where, sequence <= rows, f"the tables have {rows} positions, the sequence {sequence}")
    if 0 in x.shape:
        return None

    def launcher() -> Any:
        return build_rope_module(heads, dim, dtype, rotary_dim=rotary, interleaved=interleaved,
                                 positions=positions is not None, inverse=inverse, full_table=cos.shape[1] == rotary,
                                 target=target)

    given = (contiguous(x).reshape(-1, dim), cos, sin, *(() if positions is None else (positions.reshape(-1),)))
    launcher()  # refuses what is not supported
    return Plan(launcher, lambda out: (*given, out.reshape(-1, dim), math.prod(tokens), sequence, rows))


def _rope(op: Op, x: Any, cos: Any, sin: Any, *, positions: Any = None, interleaved: bool = False,
          rotary_dim: int | None = None) -> Any:
    """Rotary position embedding of queries or keys; differentiable in x.

    Args:
        x: (..., S, H, D), usually (B, S, H, D): float32, float16 or bfloat16.
        cos, sin: (positions, rotary_dim / 2), of any of these dtypes: of the angle of each pair at each position. Or,
            where pairs are not neighbours, (positions, rotary_dim): of the angle that each feature is turned by.
        positions: int32 or int64 of shape (..., S) or (S,): rows of the tables; ``0 .. S - 1`` by default. A position
            outside the tables stops the launch.
        interleaved: pairs are neighbours ``(2 i, 2 i + 1)`` (GPT-J); else ``(i, i + rotary_dim / 2)`` (NeoX, Llama).
        rotary_dim: the first so many features are rotated, the others stay; all by default.

    Returns:
        ``(x1 cos - x2 sin, x2 cos + x1 sin)`` of each pair, of the shape and dtype of x.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape is not, or ``rotary_dim`` is odd or larger than D.
    """
    return op(x, cos, sin, positions, interleaved, rotary_dim)


def _reference_rope(x: Any, cos: Any, sin: Any, positions: Any, interleaved: bool, rotary_dim: int | None,
                    inverse: bool) -> tuple[Any, ...]:
    import torch

    x = x.double()
    rotary = rotary_dim or x.shape[-1]
    positions = torch.arange(x.shape[-3]) if positions is None else positions.long()
    c, s = (t.double()[positions].unsqueeze(-2) for t in (cos, sin))
    s = -s if inverse else s
    turned, kept = x[..., :rotary], x[..., rotary:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        out = torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        (c, c2), (s, s2) = ((t, t) if t.shape[-1] < rotary else t.chunk(2, -1) for t in (c, s))
        out = torch.cat((a * c - b * s, b * c2 + a * s2), -1)
    return (torch.cat((out, kept), -1),)


def _sample_rope(draw: Any, m: int, n: int, dtype: str = "f32", batch: int = 2, heads: int = 3) -> tuple[Any, ...]:
    rows = m + 5
    tables = (draw.normal(rows, n // 2) for _ in range(2))
    return (draw.normal(batch, m, heads, n, dtype=dtype), *tables,
            draw.integers(0, rows, batch, m, dtype="i64"), False, None, False)


def _save_rope(ctx: Any, inputs: Any, output: Any) -> None:
    _, cos, sin, positions, ctx.interleaved, ctx.rotary, ctx.inverse = inputs
    ctx.save_for_backward(cos, sin, positions)


def _rope_gradient(ctx: Any, dout: Any) -> tuple:
    cos, sin, positions = ctx.saved_tensors
    dx = ROPE(dout, cos, sin, positions, ctx.interleaved, ctx.rotary, not ctx.inverse)
    return dx, None, None, None, None, None, None


ROPE = Op(
    "rope",
    "(Tensor x, Tensor cos, Tensor sin, Tensor? positions=None, bool interleaved=False, int? rotary_dim=None, "
    "bool inverse=False) -> Tensor",
    "Rotary position embedding of (..., S, H, D) by tables (positions, D / 2), whole or of the first features",
    results=lambda x, *_: (like(x),), plan=_plan_rope, form=_rope, sample=_sample_rope, widths=(64, 10),
    reference=_reference_rope, gradient=Gradient(_rope_gradient, _save_rope, of=("x",)),
    bench=lambda target, rows: [("rope", (rows, 128), {"dtype": "bf16", "batch": 1, "heads": 32})],
    prebuilt=lambda op, draw, model: (_sample_rope(draw, 1, model.head, dtype, 1, heads) for dtype in ("bf16", "f16")
                                      for heads in {model.heads, model.kv_heads}),
)


# ------------------------------------------------------------------------------------------- with caches


def _vector_of(where: str, name: str, array: Any, tokens: int) -> Any:
    dtype_name(array, f"{where}: {name}", INDICES)
    require(where, tuple(array.shape) == (tokens,), f"{name} must have the shape ({tokens},), got {tuple(array.shape)}")
    return contiguous(array)


def _plan_rope_cache(target: Target, q: Any, k: Any, v: Any, cos: Any, sin: Any, positions: Any, k_cache: Any,
                     v_cache: Any, slots: Any, interleaved: bool, k_scale: Any, v_scale: Any,
                     rotary_dim: int | None, q_weight: Any, k_weight: Any, eps: float,
                     weight_offset: float) -> Plan | None:
    where = "rope_cache"
    dtype = dtype_name(q, where)
    for name, array in (("k", k), ("v", v)):
        require(where, dtype_name(array, f"{where}: {name}") == dtype, f"{name} must have the dtype {dtype} of q")
    require(where, all(len(a.shape) == 3 for a in (q, k, v)), "q, k and v must be (tokens, heads, head size), got "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    tokens, q_heads, dim = q.shape
    keys, values, blocks = block_layouts(where, k_cache, v_cache, written=True)
    require(where, tuple(k.shape) == (tokens, keys.heads, dim) and dim == keys.dim
            and tuple(v.shape) == (tokens, keys.heads, values.dim),
            f"k and v must be ({tokens}, heads, head size) as in the caches ({keys.heads} heads of {keys.dim} and "
            f"{values.dim}) and q, got {tuple(k.shape)} and {tuple(v.shape)}, q {tuple(q.shape)}")
    cache_dtype = kind_of(where, target, dtype, k_cache, v_cache)
    rotary = dim if rotary_dim is None else rotary_dim
    cos, sin, rows = _tables(where, cos, sin, rotary, not interleaved)
    require(where, (q_weight is None) == (k_weight is None), "q_weight and k_weight are given both or neither")
    require(where, q_weight is not None or not weight_offset, f"weight_offset {weight_offset} is added to q_weight and "
            "k_weight, which are not given")
    for name, weight in (("q_weight", q_weight), ("k_weight", k_weight)):
        if weight is not None:
            dtype_name(weight, f"{where}: {name}")
            require(where, tuple(weight.shape) == (dim,), f"{name} must be ({dim},), got shape {tuple(weight.shape)}")
    scales = both_scales(where, k_scale, v_scale, cache_dtype, cos)
    indices = [_vector_of(where, name, array, tokens) for name, array in (("positions", positions), ("slots", slots))]
    if 0 in q.shape or 0 in k.shape:
        return None
    require(where, 0 not in v.shape and blocks > 0, f"nothing fits the caches {tuple(k_cache.shape)} and "
            f"{tuple(v_cache.shape)}")
    given = (*(contiguous(a) for a in (q, k, v)), cos, sin, indices[0], span(k_cache), span(v_cache), indices[1],
             *scales, *((cos, cos) if q_weight is None else map(contiguous, (q_weight, k_weight))))
    launcher = build_rope_cache_module(
        q_heads, keys, values, dtype, cache_dtype, interleaved=interleaved, scaled=k_scale is not None,
        rotary_dim=rotary, full_table=cos.shape[1] == rotary, eps=None if q_weight is None else eps,
        weight_offset=weight_offset, target=target)
    return Plan(lambda: launcher, lambda *outs: (*given, *outs, tokens, blocks, rows))


def _rope_cache(op: Op, q: Any, k: Any, v: Any, cos: Any, sin: Any, positions: Any, k_cache: Any, v_cache: Any,
                slots: Any, *, interleaved: bool = False, k_scale: Any = None, v_scale: Any = None,
                rotary_dim: int | None = None, q_weight: Any = None, k_weight: Any = None,
                eps: float = 1e-6, weight_offset: float = 0.0) -> tuple[Any, Any]:
    """Rotate queries and keys, normalised first with weights, and write keys and values to their paged caches, in one
    launch.

    Args:
        q: (tokens, query heads, D): float32, float16 or bfloat16.
        k, v: (tokens, heads, D) and (tokens, heads, Dv).
        cos, sin: (rows, rotary_dim / 2), of any of these dtypes, or (rows, rotary_dim), see :func:`rope`.
        positions: int32 or int64 (tokens,): the token's row of the tables.
        k_cache, v_cache: changed in place, of any strides: ``[blocks, size, heads, D]`` both, or keys
            ``[blocks, heads, D/x, size, x]`` with values ``[blocks, heads, Dv, size]`` or
            ``[blocks, heads, size/x, Dv, x]``. Of the dtype of q, or the chip's fp8.
        slots: int32 or int64 (tokens,): ``block * size + position in it``; the token is not stored where negative.
            A slot behind the caches or a position outside the tables stops the launch.
        interleaved: pairs are neighbours, see :func:`rope`.
        k_scale, v_scale: one f32 or a float: fp8 caches hold ``x / scale``, saturated; 1 if not given.
        rotary_dim: the first so many features are rotated, the others stay; all by default.
        q_weight, k_weight: (D,), of any of these dtypes: each head is divided by ``sqrt(mean(x**2) + eps)`` and
            multiplied by them before the rotation, in f32, as by :func:`rmsnorm` but rounded once.
        weight_offset: added to both in f32: 1 for weights that are differences from one (Gemma).

    Returns:
        ``(q, k)`` as they are used: normalised, if so, and rotated.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape is not.
    """
    return op(q, k, v, cos, sin, positions, k_cache, v_cache, slots, interleaved, as_scale(q, k_scale),
              as_scale(q, v_scale), rotary_dim, q_weight, k_weight, eps, weight_offset)


def _sample_rope_cache(draw: Any, m: int, n: int, dtype: str = "f32", heads: tuple[int, int] = (4, 2)) -> tuple:
    q, k, v = (draw.normal(m, h, n, dtype=dtype) for h in (heads[0], heads[1], heads[1]))
    tables = (draw.normal(40, n // 2) for _ in range(2))
    blocks = m // 8 + 1
    caches = (draw.normal(blocks, 8, heads[1], n, dtype=dtype) * 0 for _ in range(2))
    # Each slot once: the order of two writes of one slot is not defined.
    slots = draw.integers(0, 2**20, m, dtype="i64").argsort()
    weights = (draw.normal(n) for _ in range(2))
    return (q, k, v, *tables, draw.integers(0, 40, m, dtype="i64"), *caches, slots, False, None, None, None, *weights,
            1e-6, 1.0)


def _reference_rope_cache(q: Any, k: Any, v: Any, cos: Any, sin: Any, positions: Any, k_cache: Any, v_cache: Any,
                          slots: Any, interleaved: bool, k_scale: Any, v_scale: Any, rotary_dim: int | None = None,
                          q_weight: Any = None, k_weight: Any = None, eps: float = 1e-6,
                          weight_offset: float = 0.0) -> tuple[Any, ...]:
    """The rotated queries and keys."""
    results = []
    for x, weight in ((q.double(), q_weight), (k.double(), k_weight)):
        if weight is not None:
            x = x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * (weight.double() + weight_offset)
        results.append(_reference_rope(x[None], cos, sin, positions[None], interleaved, rotary_dim, False)[0][0])
    return tuple(results)


ROPE_CACHE = Op(
    "rope_cache",
    "(Tensor q, Tensor k, Tensor v, Tensor cos, Tensor sin, Tensor positions, Tensor(a!) k_cache, Tensor(b!) v_cache, "
    "Tensor slots, bool interleaved=False, Tensor? k_scale=None, Tensor? v_scale=None, int? rotary_dim=None, "
    "Tensor? q_weight=None, Tensor? k_weight=None, float eps=1e-6, float weight_offset=0.0) -> (Tensor, "
    "Tensor)",
    "`(q, k)` with rotary embedding, after norms of heads; writes keys and values to their paged caches (flash or "
    "packed order, fp8 too)",
    results=lambda q, k, *_: (like(q), like(k)), plan=_plan_rope_cache, form=_rope_cache,
    sample=_sample_rope_cache, widths=(64, 10),
    reference=_reference_rope_cache,
    bench=lambda target, rows: [("rope_cache", (rows // 8, 128), {"dtype": "bf16", "heads": (32, 8)})],
    prebuilt=lambda op, draw, model: (),  # the blocks of its caches are the caller's
)

OPS = [ROPE, ROPE_CACHE]
