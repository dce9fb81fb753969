"""Writing to paged caches of arrays."""

from __future__ import annotations

from typing import Any

from ..host.arrays import contiguous, span
from ..host.config import require
from ..host.dtypes import INDICES, dtype_name
from ..op import Op, Plan
from ..target import Target
from .append import build_cache_append_module
from .arrays import as_scale, both_scales, kind_of
from .layout import block_layouts

__all__ = ["OPS"]


def _plan_append(target: Target, k: Any, v: Any, k_cache: Any, v_cache: Any, slots: Any, k_scale: Any,
                 v_scale: Any) -> Plan | None:
    where = "cache_append"
    dtype = dtype_name(k, where)
    keys, values, blocks = block_layouts(where, k_cache, v_cache, written=True)
    tokens = k.shape[0] if len(k.shape) else 0
    require(where, dtype_name(v, f"{where}: v") == dtype and tuple(k.shape) == (tokens, keys.heads, keys.dim)
            and tuple(v.shape) == (tokens, values.heads, values.dim),
            f"k and v must be {dtype} (tokens, {keys.heads}, {keys.dim}) and (tokens, {values.heads}, {values.dim}) as "
            f"the caches, got {k.dtype} {tuple(k.shape)} and {v.dtype} {tuple(v.shape)}")
    cache = kind_of(where, target, dtype, k_cache, v_cache)
    dtype_name(slots, f"{where}: slots", INDICES)
    require(where, tuple(slots.shape) == (tokens,), f"slots must be ({tokens},), got {tuple(slots.shape)}")
    slots = contiguous(slots)
    scales = both_scales(where, k_scale, v_scale, cache, slots)
    if 0 in k.shape or 0 in v.shape:
        return None
    launcher = build_cache_append_module(keys, values, dtype, cache, scaled=k_scale is not None, target=target)
    given = (contiguous(k), contiguous(v), span(k_cache), span(v_cache), slots, *scales, tokens, blocks)
    return Plan(lambda: launcher, lambda: given)


def _cache_append(op: Op, k: Any, v: Any, k_cache: Any, v_cache: Any, slots: Any, *, k_scale: Any = None,
                  v_scale: Any = None) -> None:
    """Write keys and values of new tokens to their slots of paged caches, which are changed in place.

    Args:
        k, v: (tokens, Hkv, D) and (tokens, Hkv, Dv): f32, f16 or bf16.
        k_cache, v_cache: [pages, page, Hkv, D] and [pages, page, Hkv, Dv], or keys [pages, Hkv, D/x, page, x] with
            values [pages, Hkv, Dv, page] or [pages, Hkv, page/x, Dv, x]; of any strides, of the dtype of k or the
            chip's fp8. The two parts of an MLA cache are views of one: ``cache[..., :512], cache[..., 512:]``.
        slots: int32 or int64 (tokens,): ``page * tokens of a page + place in it``; negative: the token is not stored.
            A slot behind the caches stops the launch. The order of two writes to one slot is not defined.
        k_scale, v_scale: of fp8 caches, which hold ``x / scale``, saturated: one f32 or a float; 1 if None.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: a shape is not.
    """
    return op(k, v, k_cache, v_cache, slots, as_scale(k, k_scale), as_scale(k, v_scale))


def _sample_append(draw: Any, m: int, n: int, dtype: str = "f32", cache: str = "", heads: int = 2) -> tuple[Any, ...]:
    blocks = m // 8 + 1
    k, v = (draw.normal(m, heads, n, dtype=dtype) for _ in range(2))
    caches = (draw.normal(blocks, 8, heads, n, dtype=cache or dtype) for _ in range(2))
    return (k, v, *caches, draw.integers(0, 2**20, m, dtype="i64").argsort(), None, None)


CACHE_APPEND = Op(
    "cache_append",
    "(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor slots, Tensor? k_scale=None, "
    "Tensor? v_scale=None) -> ()",
    "Writes keys and values of new tokens to their slots of paged caches, in place (flash or packed order, fp8 too)",
    results=lambda *_: (), plan=_plan_append, form=_cache_append, reference=lambda *_: (), sample=_sample_append,
    widths=(64, 10),
)

OPS = [CACHE_APPEND]
