"""Attention with the signatures that serving and training code already calls."""

from __future__ import annotations

from typing import Any

from ..host.arrays import copy_into

__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flydsl_flash_attn_func"]


def _attention(*given: Any, **named: Any) -> Any:
    from .. import ops

    forms: Any = ops
    return forms.attention(*given, **named)


def _absent(where: str, **options: Any) -> None:
    """NotImplementedError that names what is given and not there."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != 0.0]
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


def flash_attn_with_kvcache(q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None,
                            rotary_sin: Any = None, cache_seqlens: Any = None, cache_batch_idx: Any = None,
                            cache_leftpad: Any = None, block_table: Any = None, softmax_scale: float | None = None,
                            causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Any = None, num_splits: int = 0,
                            return_softmax_lse: bool = False) -> Any:
    """Attention of q [B, Sq, H, D] to caches [B, Skv, Hkv, D], or pages [pages, page, Hkv, D] with `block_table`.

    Args:
        k, v: rows [B, Snew, Hkv, D] that are first written behind the `cache_seqlens` rows of each sequence.
        cache_seqlens: i32 [B], or an int for all: rows that are valid before that.
        num_splits: ignored: keys are not split.

    Raises:
        NotImplementedError: rotary embeddings, `cache_batch_idx` or `cache_leftpad`.
        ValueError: new rows, and the lengths are not given.
    """
    _absent("flash_attn_with_kvcache", rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_batch_idx=cache_batch_idx,
            cache_leftpad=cache_leftpad)
    batch = q.shape[0]
    if isinstance(cache_seqlens, int):
        like = q[:, 0, 0, 0] * 0
        whole = like.int() if hasattr(like, "new_empty") else like.astype("int32")
        cache_seqlens = whole + cache_seqlens
    if k is not None:
        if cache_seqlens is None or v is None:
            raise ValueError("flash_attn_with_kvcache: new rows need k, v and cache_seqlens")
        for b in range(batch):
            for i in range(k.shape[1]):
                at = int(cache_seqlens[b]) + i
                place = (b, at) if block_table is None else (
                    int(block_table[b, at // k_cache.shape[1]]), at % k_cache.shape[1])
                copy_into(k_cache[place], k[b, i])
                copy_into(v_cache[place], v[b, i])
        cache_seqlens = cache_seqlens + k.shape[1]
    return _attention(q, k_cache, v_cache, causal=causal, scale=softmax_scale, window=tuple(window_size),
                      softcap=softcap, alibi_slopes=alibi_slopes, block_table=block_table, seqlens_k=cache_seqlens,
                      return_lse=return_softmax_lse)


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
    `dualwave_swp_*`, `xcd_swizzle`) and `num_kv_splits` have no effect.

    Raises:
        NotImplementedError: `kv_cache_layout` other than "linear", `debug_counts` or a `stream` of its own.
        ValueError: `num_kv_heads` is not that of k.
    """
    if kv_cache_layout != "linear":
        raise NotImplementedError(f"flydsl_flash_attn_func: kv_cache_layout={kv_cache_layout!r} is not supported, only "
                                  "'linear' pages [pages, page, Hkv, D]")
    _absent("flydsl_flash_attn_func", debug_counts=debug_counts, stream=stream)
    if num_kv_heads is not None and num_kv_heads != k.shape[-2]:
        raise ValueError(f"flydsl_flash_attn_func: num_kv_heads is {num_kv_heads}, k has {k.shape[-2]} heads")
    result, lse = _attention(q, k, v, causal=causal, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_kv,
                             max_seqlen_q=max_seqlen_q, block_table=block_table, seqlens_k=seqlen_k, bias=bias,
                             alibi_slopes=alibi_slopes, sink=sink, q_descale=q_descale, k_descale=k_descale,
                             v_descale=v_descale, return_lse=True)
    if out is not None:
        copy_into(out, result)
        result = out
    return (result, lse) if return_lse else result
