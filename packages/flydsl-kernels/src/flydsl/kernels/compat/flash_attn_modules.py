"""Builders of attention launchers with the signatures of older callers. What tuned their kernels has no effect here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.kernels.attention.op import ATTENTION_FWD
from flydsl.kernels.host.arrays import contiguous
from flydsl.kernels.host.config import require
from flydsl.kernels.target import kept

from .flash_attn_callers import linear_pages

__all__ = [
    "build_flash_attn_dualwave_swp_fp8_module", "build_flash_attn_dualwave_swp_module", "build_flash_attn_func_module",
    "build_flash_attn_func_module_primary", "build_gqa_attn", "dualwave_splitk_workspace_elems",
]

_DTYPES = ("f16", "bf16", "f32", "fp8")


@kept
def build_flash_attn_func_module_primary(
        num_heads: int, head_dim: int, causal: bool = True, dtype_str: str = "f16", sm_scale: float | None = None,
        waves_per_eu: int = 2, flat_work_group_size: int | None = None, block_m: int | None = None,
        unsafe_fp_math: bool = True, fast_fp_math: bool = True, daz: bool = True, path_tag: str = "auto",
        num_kv_heads: int | None = None, cross_seqlen: bool = False, varlen: bool = False, paged: bool = False,
        kv_cache_layout: str = "linear", skip_kv_pad_mask: bool = False, return_lse: bool = False,
        num_kv_splits: int = 1, **tuning: Any) -> Callable[..., None]:
    """``launch(Q, K, V, Out, B, S, *, cu_seqlens_q, cu_seqlens_kv, block_table, block_table_stride, seq_len_kv, lse,
    bias, alibi_slopes, sink, q_descale, k_descale, v_descale, stream)``.

    Q and Out are [B, S, H, D] or flat; with `varlen` [total, H, D], S the rows of the longest sequence. K and V have
    `seq_len_kv` rows a sequence with `cross_seqlen`, else S; with `paged` they are pages of 64 rows in a layout of
    :func:`.flash_attn_callers.linear_pages`, `block_table` is i32 of `block_table_stride` entries a sequence, and
    `seq_len_kv` i32 [B]. `lse` is f32 [B, H, S], written if `return_lse`. With ``.compile``, which gives the launcher.

    Raises:
        ValueError: the dtype or the heads are not supported; the launcher is called with another dtype, or with arrays
            that do not fit.
    """
    where, kv_heads = "build_flash_attn_func_module", num_heads if num_kv_heads is None else num_kv_heads
    require(where, dtype_str in _DTYPES, f"dtype_str must be one of {', '.join(_DTYPES)}, got {dtype_str!r}")
    _require_heads(where, num_heads, kv_heads, head_dim)
    scale = head_dim**-0.5 if sm_scale is None else float(sm_scale)

    def launcher(Q: Any, K: Any, V: Any, Out: Any, B: int, S: int, *, cu_seqlens_q: Any = None,
                 cu_seqlens_kv: Any = None, block_table: Any = None, block_table_stride: int | None = None,
                 seq_len_kv: Any = None, lse: Any = None, bias: Any = None, alibi_slopes: Any = None,
                 sink: Any = None, q_descale: Any = None, k_descale: Any = None, v_descale: Any = None,
                 stream: Any = None) -> None:
        _check_dtype(dtype_str, Q)
        lead = (-1,) if varlen else (B, S)
        keys = (-1, 64) if paged else (-1,) if varlen else (B, seq_len_kv if cross_seqlen else S)
        if contiguous(Out) is not Out:
            raise ValueError(f"flash_attn: Out must be dense, got shape {tuple(Out.shape)} with gaps")
        q, out = Q.reshape(*lead, num_heads, head_dim), Out.reshape(*lead, num_heads, head_dim)
        if paged and kv_cache_layout != "linear":
            x = 16 // K.dtype.itemsize
            K, V = linear_pages(where, kv_cache_layout,
                                K.reshape(-1, kv_heads, head_dim // x, 64, x),
                                V.reshape(-1, kv_heads, 64 // x, head_dim, x))
        k, v = (x.reshape(*keys, kv_heads, head_dim) for x in (K, V))
        if block_table is not None and len(block_table.shape) == 1:
            block_table = block_table.reshape(B, block_table_stride or -1)
        ATTENTION_FWD.run(q, k, v, bias=bias, alibi_slopes=alibi_slopes, sink=sink, cu_seqlens_q=cu_seqlens_q,
                          cu_seqlens_k=cu_seqlens_kv, block_table=block_table,
                          seqlens_k=seq_len_kv if paged else None, q_descale=q_descale, k_descale=k_descale,
                          v_descale=v_descale, scale=scale, right=0 if causal else -1,
                          max_seqlen_q=S if varlen else 0, num_splits=num_kv_splits, stream=stream,
                          into=(out, lse if return_lse else None))

    return _compilable(launcher)


build_flash_attn_func_module = build_flash_attn_func_module_primary


def _compilable(launcher: Any) -> Any:
    """With the ``compile`` of older launchers, which gives the launcher itself: it compiles at its first call."""
    launcher.compile = lambda *arguments, **options: launcher
    return launcher


def _require_heads(where: str, heads: int, kv_heads: int, dim: int) -> None:
    require(where, min(heads, kv_heads, dim) > 0 and heads % kv_heads == 0,
            f"{heads} heads of {dim} features must be a multiple of {kv_heads} key heads")


def _check_dtype(dtype_str: str, Q: Any) -> None:
    from flydsl.kernels.host.dtypes import dtype_name

    found = dtype_name(Q, "flash_attn: Q", _DTYPES)
    if found != dtype_str:
        raise ValueError(f"flash_attn: the launcher was built for {dtype_str}, Q is {Q.dtype}")


def build_flash_attn_dualwave_swp_module(
        num_heads: int, head_dim: int, causal: bool = True, dtype_str: str = "bf16", num_kv_heads: int | None = None,
        waves_per_eu: int = 2, daz: bool = True, dualwave_swp_lazy_rescale: bool = True,
        dualwave_swp_setprio: bool = True, dualwave_swp_debug_lazy_counts: bool = False,
        dualwave_swp_enable_stagger: bool = True, num_kv_splits: int = 1, varlen: bool = False,
        cross_seqlen: bool = False, paged: bool = False, kv_cache_layout: str = "linear", return_lse: bool = False,
        has_bias: bool = False, has_alibi: bool = False, has_sink: bool = False,
        _xcd_swizzle: bool = False) -> Callable[..., None]:
    """As :func:`build_flash_attn_func_module`; debug counts are not written.

    Raises:
        NotImplementedError: `dualwave_swp_debug_lazy_counts`.
    """
    if dualwave_swp_debug_lazy_counts:
        raise NotImplementedError("build_flash_attn_dualwave_swp_module: there are no debug counts")
    return build_flash_attn_func_module(num_heads, head_dim, causal, dtype_str, num_kv_heads=num_kv_heads,
                                        cross_seqlen=cross_seqlen, varlen=varlen, paged=paged,
                                        kv_cache_layout=kv_cache_layout, return_lse=return_lse,
                                        num_kv_splits=num_kv_splits)


def build_flash_attn_dualwave_swp_fp8_module(
        num_heads: int, head_dim: int, causal: bool = True, dtype_str: str = "fp8", num_kv_heads: int | None = None,
        waves_per_eu: int = 2, daz: bool = True, cross_seqlen: bool = False, **tuning: Any) -> Callable[..., None]:
    """As :func:`build_flash_attn_func_module`, of fp8 operands with descales f32 [1]; Out is bf16."""
    return build_flash_attn_func_module(num_heads, head_dim, causal, dtype_str, num_kv_heads=num_kv_heads,
                                        cross_seqlen=cross_seqlen)


def dualwave_splitk_workspace_elems(B: int, H: int, S: int, splits: int, head_dim: int = 128) -> int:  # noqa: N803
    """f32 elements of the workspace that older callers allocate for split keys. It is not used here."""
    count = B * splits * H * S
    return count * (head_dim // 2) + 2 * count


@kept
def build_gqa_attn(*, ATTN_B: int = 16, ATTN_H: int = 64, ATTN_H_KV: int = 8, ATTN_D: int = 128, waves_per_eu: int = 2,
                   sliding_window: tuple[int, int] | None = None) -> Callable[..., None]:
    """``launch(Q, K, V, O, Q_stride1, K_stride1, V_stride1, O_stride1, seq_q, seq_kv, stream)`` of bf16 torch tensors
    [ATTN_B, rows, heads, ATTN_D] from their first element on, flat or of any shape, whose strides are the elements from
    one row of a sequence to the next.

    `sliding_window` is (left, right): query i sees the keys from ``i - left`` to ``i + right``; None is all. With
    ``.compile``, which gives the launcher itself: it compiles at its first call.

    Raises:
        ValueError: the heads do not fit; the launcher is called with operands of another dtype, with rows of O that are
            not dense, or with queries that see no key.
    """
    _require_heads("build_gqa_attn", ATTN_H, ATTN_H_KV, ATTN_D)
    left, right = (-1, -1) if sliding_window is None else sliding_window

    def launcher(Q: Any, K: Any, V: Any, O: Any, Q_stride1: int, K_stride1: int, V_stride1: int,  # noqa: E741
                 O_stride1: int, seq_q: int, seq_kv: int, stream: Any = None) -> None:
        def rows(data: Any, stride: int, total: int, heads: int, count: int | None = None) -> Any:
            return data.as_strided((ATTN_B, total if count is None else count, heads, ATTN_D),
                                   (total * stride, stride, ATTN_D, 1))

        _check_dtype("bf16", Q)
        if O_stride1 != ATTN_H * ATTN_D or contiguous(O) is not O:
            raise ValueError(f"gqa_attn: rows of O must be dense, {ATTN_H * ATTN_D} elements apart, got {O_stride1} "
                             f"and strides {O.stride()}")
        keys = min(seq_kv, seq_q + right) if right >= 0 else seq_kv  # no query sees what is behind them
        # Older callers count the window from equal row and key numbers, `ops.attention` from the last key.
        shift = keys - seq_q
        require("gqa_attn", left < 0 or left + shift >= 0,
                f"the window {sliding_window} of {seq_q} queries and {seq_kv} keys leaves queries without a key: pass "
                "fewer queries")
        ATTENTION_FWD.run(rows(Q, Q_stride1, seq_q, ATTN_H), rows(K, K_stride1, seq_kv, ATTN_H_KV, keys),
                          rows(V, V_stride1, seq_kv, ATTN_H_KV, keys), scale=ATTN_D**-0.5,
                          left=left if left < 0 else left + shift, right=right if right < 0 else right - shift,
                          stream=stream, into=(rows(O, O_stride1, seq_q, ATTN_H),))

    return _compilable(launcher)
