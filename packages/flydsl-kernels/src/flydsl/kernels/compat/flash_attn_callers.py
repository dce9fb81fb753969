"""Attention with the signatures that serving and training code already calls."""

from __future__ import annotations

import math
from typing import Any

from flydsl.kernels.attention.op import ATTENTION_FWD
from flydsl.kernels.host.arrays import copy_into, is_torch

__all__ = [
    "copy_result", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flydsl_flash_attn_func",
    "linear_pages",
]


def _attention(*given: Any, **named: Any) -> Any:
    from flydsl.kernels import ops

    forms: Any = ops
    return forms.attention(*given, **named)


def _absent(where: str, **options: Any) -> None:
    """NotImplementedError that names what is given and not there."""
    given = [name for name, value in options.items()
             if hasattr(value, "shape") or value is not None and value not in (False, 0.0)]
    if given:
        raise NotImplementedError(f"{where}: {', '.join(given)} is not supported")


def flash_attn_func(q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None,
                    causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False) -> Any:
    """Attention of q [B, Sq, H, D] to k and v [B, Skv, Hkv, D]; see ``ops.attention``.

    Returns:
        The output; with `return_attn_probs` (output, logarithms of the sums [B, H, Sq], None).

    Raises:
        NotImplementedError: dropout.
    """
    _absent("flash_attn_func", dropout_p=dropout_p)
    out = _attention(q, k, v, causal=causal, scale=softmax_scale, window=tuple(window_size), softcap=softcap,
                     alibi_slopes=alibi_slopes, return_lse=return_attn_probs)
    return (*out, None) if return_attn_probs else out


def flash_attn_varlen_func(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int,
                           max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: float | None = None,
                           causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
                           block_table: Any = None) -> Any:
    """Attention of packed sequences, q [total, H, D]; with `block_table`, k and v are pages [pages, page, Hkv, D].

    Returns:
        The output; with `return_attn_probs` (output, logarithms of the sums [H, total], None).

    Raises:
        NotImplementedError: dropout.
    """
    _absent("flash_attn_varlen_func", dropout_p=dropout_p)
    lengths = None
    if block_table is not None:
        lengths, cu_seqlens_k = cu_seqlens_k[1:] - cu_seqlens_k[:-1], None
    out = _attention(q, k, v, causal=causal, scale=softmax_scale, window=tuple(window_size), softcap=softcap,
                     alibi_slopes=alibi_slopes, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
                     max_seqlen_q=max_seqlen_q, block_table=block_table, seqlens_k=lengths,
                     return_lse=return_attn_probs)
    return (*out, None) if return_attn_probs else out


def _append(k: Any, v: Any, k_cache: Any, v_cache: Any, lengths: Any, table: Any) -> None:
    """Write rows [B, Snew, Hkv, D] behind those of each sequence, by one launch."""
    batch, count = k.shape[:2]
    size = k_cache.shape[1]
    sequences, new = _counted(batch, k), _counted(count, k)
    if tuple(lengths.shape) != (batch,) or table is not None and (len(table.shape) != 2 or table.shape[0] != batch):
        shape = None if table is None else tuple(table.shape)
        raise ValueError(f"flash_attn_with_kvcache: cache_seqlens must be ({batch},) and block_table [{batch}, pages "
                         f"of a sequence], got {tuple(lengths.shape)} and {shape}")
    place = lengths[:, None] + new[None]
    column = place // size
    if table is None:
        page, columns = sequences[:, None], 1
    else:
        columns = table.shape[1]
        page = table[sequences[:, None], column.clip(0, max(columns - 1, 0))]
    inside = (place >= 0) & (column < columns) & (page >= 0)
    # The launch stops at a slot behind the caches; a negative one would not be written.
    slots = inside * (place + (page - column) * size) + ~inside * (k_cache.shape[0] * size)

    from flydsl.kernels import ops

    forms: Any = ops
    forms.cache_append(*(x.reshape(batch * count, *x.shape[2:]) for x in (k, v)), k_cache, v_cache, slots.reshape(-1))


def flash_attn_with_kvcache(q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None,
                            rotary_sin: Any = None, cache_seqlens: Any = None, cache_batch_idx: Any = None,
                            cache_leftpad: Any = None, block_table: Any = None, softmax_scale: float | None = None,
                            causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Any = None, num_splits: int = 0,
                            return_softmax_lse: bool = False) -> Any:
    """Attention of q [B, Sq, H, D] to caches [B, Skv, Hkv, D], or pages [pages, page, Hkv, D] with `block_table`.

    Args:
        k, v: rows [B, Snew, Hkv, D] that are first written behind the `cache_seqlens` rows of each sequence.
        rotary_cos, rotary_sin: (positions, R / 2), of the first R features; new rows are rotated by their positions
            before they are written, and so is q: row i by position ``cache_seqlens + i``, or without `causal` and
            `window_size` all rows by ``cache_seqlens``. Only with `k`.
        rotary_interleaved: pairs are neighbours; else of the first and the second half.
        cache_seqlens: i32 [B], or an int for all: rows that are valid before that.
        cache_batch_idx: i32 [B], the entry of the caches that belongs to each sequence; not with `block_table`.
        cache_leftpad: i32 [B], at least 0: rows before the first of each sequence, which lengths and positions count.
            Not with `block_table`. Costs a table of all rows in each call.
        num_splits: workgroups that share the keys of a row, 0: as many as suit.

    Raises:
        ValueError: new rows, and the lengths are not given; options that exclude each other; or shapes do not fit.

    New rows that a sequence has no room for, or whose page does not exist, stop the launch that writes them; a negative
    `cache_leftpad` stops the one that would read before the caches.
    """
    where = "flash_attn_with_kvcache"
    if isinstance(cache_seqlens, int):
        cache_seqlens = _of_sequences(q, cache_seqlens)
    for name, option in (("cache_batch_idx", cache_batch_idx), ("cache_leftpad", cache_leftpad)):
        if option is not None and (block_table is not None or tuple(option.shape) != (q.shape[0],)):
            raise ValueError(f"{where}: {name} must be ({q.shape[0]},), a number for each sequence, and there is no "
                             f"block_table then; got {tuple(option.shape)}")
    if cache_batch_idx is not None or cache_leftpad is not None:
        # A dense cache is one page a sequence.
        block_table = (_counted(q.shape[0], q) if cache_batch_idx is None else cache_batch_idx)[:, None]
        if cache_seqlens is None:
            cache_seqlens = _of_sequences(q, k_cache.shape[1])
    if rotary_cos is not None:
        if k is None or rotary_sin is None or cache_seqlens is None:
            raise ValueError(f"{where}: rotary embeddings need rotary_cos, rotary_sin, k and cache_seqlens")
        tables = rotary_cos, rotary_sin, cache_seqlens, rotary_interleaved
        q = _rotated(q, *tables, in_order=causal or tuple(window_size) != (-1, -1))
        k = _rotated(k, *tables, in_order=True)
    if k is not None:
        if cache_seqlens is None or v is None:
            raise ValueError(f"{where}: new rows need k, v and cache_seqlens")
        _append(k, v, k_cache, v_cache, cache_seqlens, block_table)
        cache_seqlens = cache_seqlens + k.shape[1]
    if cache_leftpad is not None:
        # Pages of one row begin anywhere; what would lie before an entry of the caches is page -1.
        rows = k_cache.shape[1]
        places = (cache_leftpad[:, None] + _counted(rows, q)[None]).clip(-1, rows - 1)
        block_table = (places >= 0) * (block_table * rows + places + 1) - 1
        cache_seqlens = (cache_seqlens.clip(0, rows) - cache_leftpad).clip(0)
        k_cache, v_cache = (x.reshape(-1, 1, *x.shape[2:]) for x in (k_cache, v_cache))
    return _attention(q, k_cache, v_cache, causal=causal, scale=softmax_scale, window=tuple(window_size),
                      softcap=softcap, alibi_slopes=alibi_slopes, block_table=block_table, seqlens_k=cache_seqlens,
                      num_splits=num_splits, return_lse=return_softmax_lse)


def _counted(count: int, beside: Any) -> Any:
    """``0 .. count - 1`` as i32 on the device of the array `beside`."""
    if is_torch(beside):
        import torch

        return torch.arange(count, device=beside.device, dtype=torch.int32)
    import numpy as np

    return np.arange(count, dtype=np.int32)


def _of_sequences(q: Any, number: int) -> Any:
    """`number` for each sequence of q, i32 [B] beside it."""
    return 0 * _counted(q.shape[0], q) + number


def _rotated(x: Any, cos: Any, sin: Any, starts: Any, interleaved: bool, in_order: bool) -> Any:
    """Rows [B, S, H, D] turned by the angles of positions ``starts + i``, or all of ``starts``."""
    steps = _counted(x.shape[1], starts)
    positions = starts[:, None] + (steps if in_order else 0 * steps)[None]

    from flydsl.kernels import ops

    forms: Any = ops
    return forms.rope(x, cos, sin, positions=positions, interleaved=interleaved, rotary_dim=2 * cos.shape[1])


def linear_pages(where: str, layout: str, k: Any, v: Any) -> tuple[Any, Any]:
    """Pages [pages, page, Hkv, D] of keys and values as the kernels take them.

    "linear" pages are that. "vectorized" ones, keys [pages, Hkv, D/x, page, x] and values [pages, Hkv, page/x, D, x],
    are copied into that order, all of them, in each call.

    Raises:
        ValueError: another layout, or another number of dimensions.
    """
    if layout == "linear":
        return k, v
    if layout != "vectorized" or len(k.shape) != 5 or len(v.shape) != 5:
        raise ValueError(f"{where}: kv_cache_layout is 'linear', or 'vectorized' with keys [pages, Hkv, D/x, page, x] "
                         f"and values [pages, Hkv, page/x, D, x]; got {layout!r}, {tuple(k.shape)} and "
                         f"{tuple(v.shape)}")

    def ordered(cache: Any, order: tuple[int, ...], heads: int, rows: int, columns: int) -> Any:
        turned = cache.permute(order) if is_torch(cache) else cache.transpose(order)
        return turned.reshape(cache.shape[0], rows, heads, columns)

    return (ordered(k, (0, 3, 1, 2, 4), k.shape[1], k.shape[3], k.shape[2] * k.shape[4]),
            ordered(v, (0, 2, 4, 1, 3), v.shape[1], v.shape[2] * v.shape[4], v.shape[3]))


def copy_result(where: str, out: Any, result: Any) -> Any:
    """`result` in the array `out` of a caller, which is returned. ValueError if it has another shape."""
    if tuple(out.shape) != tuple(result.shape):
        raise ValueError(f"{where}: out must have shape {tuple(result.shape)}, got {tuple(out.shape)}")
    copy_into(out, result)
    return out


def flydsl_flash_attn_func(q: Any, k: Any, v: Any, *, causal: bool = True, num_kv_heads: int | None = None,
                           cu_seqlens_q: Any = None, cu_seqlens_kv: Any = None, max_seqlen_q: int | None = None,
                           max_seqlen_kv: int | None = None, cross_seqlen: Any = None, block_table: Any = None,
                           seqlen_k: Any = None, kv_cache_layout: str = "linear", num_kv_splits: int = 1,
                           bias: Any = None, alibi_slopes: Any = None, sink: Any = None, q_descale: Any = None,
                           k_descale: Any = None, v_descale: Any = None, out: Any = None, return_lse: bool = False,
                           waves_per_eu: int = 2, daz: bool = True, dualwave_swp_lazy_rescale: bool = True,
                           dualwave_swp_setprio: bool = True, dualwave_swp_enable_stagger: bool = True,
                           xcd_swizzle: Any = None, debug_counts: Any = None, stream: Any = None) -> Any:
    """The older name of ``ops.attention``: ``out``, or (out, lse). What tunes one kernel (`waves_per_eu`, `daz`,
    `dualwave_swp_*`, `xcd_swizzle`) has no effect. `kv_cache_layout` is that of :func:`linear_pages`.

    With a `stream` there is one launch in it and no gradient: `out` is dense, and heads have multiples of 32 columns.
    (Vectorised pages are copied in the current stream.)

    Raises:
        NotImplementedError: `debug_counts`.
        ValueError: `num_kv_heads` is not that of k, `kv_cache_layout` is none, or `out` has another shape.
    """
    _absent("flydsl_flash_attn_func", debug_counts=debug_counts)
    k, v = linear_pages("flydsl_flash_attn_func", kv_cache_layout, k, v)
    if num_kv_heads is not None and num_kv_heads != k.shape[-2]:
        raise ValueError(f"flydsl_flash_attn_func: num_kv_heads is {num_kv_heads}, k has {k.shape[-2]} heads")
    common: dict[str, Any] = dict(
        bias=bias, alibi_slopes=alibi_slopes, sink=sink, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_kv,
        block_table=block_table, seqlens_k=seqlen_k, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale,
        num_splits=num_kv_splits)
    if stream is not None:
        result, lse = ATTENTION_FWD.run(q, k, v, scale=1 / math.sqrt(q.shape[-1]), right=0 if causal else -1,
                                        max_seqlen_q=max_seqlen_q or 0, stream=stream, into=(out,), **common)
    else:
        result, lse = _attention(q, k, v, causal=causal, max_seqlen_q=max_seqlen_q, return_lse=True, **common)
        if out is not None:
            result = copy_result("flydsl_flash_attn_func", out, result)
    return (result, lse) if return_lse else result
