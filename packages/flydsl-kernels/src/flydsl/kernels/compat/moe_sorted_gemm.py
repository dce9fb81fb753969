"""The products whose rows between lie in the order of sorting, under the names and with the arguments of existing
callers: of microscaled operands (gfx950; fp4 rows between), and of bf16 activations with weights that are converted in
registers (gfx942, gfx950; bf16 rows between).

A launcher is ``launch(x, x_scale, w, w_scale, experts, valid, rows, weights, out, out_scale, hidden, tokens, blocks,
stream=None)`` with None for what the product does not have.
"""
# ruff: noqa: N803 - the specified argument names

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.host.arrays import launch
from flydsl.kernels.host.config import require
from flydsl.kernels.moe.config import GroupedConfig, grouped_config
from flydsl.kernels.moe.sorting import most_blocks
from flydsl.kernels.parts.index import cdiv
from flydsl.kernels.quant.mx import GROUP, build_per_1x32_mx_quant_module
from flydsl.kernels.quant.mx import THREADS as QUANT_THREADS
from flydsl.kernels.target import Target, builder

from .moe_products import launch_product, named, tiled

__all__ = ["compile_gemm1_a16w4_port", "compile_gemm1_a4w4_port", "compile_gemm2_a16w4_port", "compile_gemm2_a4w4_port",
           "flydsl_a16w4_gemm1", "flydsl_a16w4_gemm2", "flydsl_mxfp4_gemm1", "flydsl_mxfp4_gemm2", "gemm1_grid"]

EPILOGUES = {"atomic": "bf16", "nonatomic": "bf16", "nonatomic_cshuffle": "bf16", "nonatomic_mxfp4": "fp4",
             "nonatomic_fp8": "fp8"}
BLOCKS = (16, 32, 64, 128)
MICRO = {"fp4": "mxfp4", "fp8": "a8w4"}
WEIGHTS: dict[str, dict[str, Any]] = {
    "mxfp4": dict(quant="a16w4", scale="e8m0", w_scales="words"),
    "int4": dict(quant="a16u4", scale="bf16", w_scales="rows"),
    "bf16": dict(quant="none"),
}
LAYOUTS = {"standard": "halves", "guinterleave": "pairs"}
STREAMED = 2  # cache bits of weights that are read once


def _named(where: str, name: str, value: Any, known: Any) -> Any:
    require(where, value in known, f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")
    return value


def _micro(where: str, target: Target, n: int, k: int, BM: int, BN: int, BK: int, a_dtype: str, out: str,
           **options: Any) -> GroupedConfig:
    target.require(where, "gfx950")
    _named(where, "BM", BM, BLOCKS)
    require(where, BN >= 128 and BN % 128 == 0 and BK in (128, 256),
            f"BN must be a multiple of 128 and BK 128 or 256, got {BN} and {BK}")
    quant = MICRO[_named(where, "a_dtype", a_dtype, MICRO)]
    return tiled(where, target, n, k, (BM, BN, BK), quant, out, w_scales="words", **options)


def _half(where: str, target: Target, n: int, k: int, BM: int, TILE_N: int, TILE_K: int, w_dtype: str,
          k_wave: int = 1, **options: Any) -> GroupedConfig:
    target.require(where, "gfx942", "gfx950")
    given = WEIGHTS[_named(where, "w_dtype", w_dtype, WEIGHTS)]
    require(where, TILE_N >= 64 and TILE_N % 64 == 0 and TILE_K in (128, 256),
            f"TILE_N must be a multiple of 64 and TILE_K 128 or 256, got {TILE_N} and {TILE_K}")
    row_bytes = 256 if w_dtype != "bf16" else 128  # of waves that have the same k
    shared = next((s for s in (4, 2) if s <= k_wave and 2 * k % (row_bytes * s) == 0
                   and BM * max(2 * row_bytes * s, 1024 * (s - 1) // s) <= target.lds_bytes), 1)
    config = grouped_config(where, target, n=n, k=k, dtype="bf16", tile_m=BM, tile_n=min(TILE_N, 128 // shared),
                            row_bytes=row_bytes * shared, k_waves=shared, **given, **options)
    require(where, not config.ragged and n % 32 == 0,
            f"K must be a multiple of {config.tile_k} and columns of 32, got {k} and {n}")
    return config


def _launcher(config: GroupedConfig, name: str, quantise: Any = None) -> Any:
    @flyc.jit
    def sorted_gemm(x, x_scale, w, w_scale, experts, valid, rows, weights, out, out_scale, hidden, tokens: fx.Int32,
                    blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        if fx.const_expr(quantise is not None):
            quantise(hidden, x, x_scale, tokens, fx.ceildiv(tokens * (config.k // GROUP), QUANT_THREADS), stream)
        operands = x, w, x_scale, w_scale, rows, experts, weights, valid
        launch_product(config, out, operands, tokens, blocks, stream, out_scale=out_scale)

    return named(sorted_gemm, config, name)


def gemm1_grid(n_tokens: int, BM: int, NE: int, topk: int, D_INTER: int, BN: int = 256) -> int:
    """Workgroups of the first product: those of all blocks of rows that there can be."""
    return most_blocks(n_tokens * topk, NE, BM) * cdiv(2 * D_INTER, BN)


# ------------------------------------------------------------------------------------------- microscaled


@builder
def compile_gemm1_a4w4_port(*, BM: int, use_nt: bool = True, inline_quant: bool = False, NE: int, D_HIDDEN: int,
                            D_INTER: int, topk: int, BN: int = 256, BK: int = 256, interleave: bool = False,
                            xcd_swizzle: int = 0, a_dtype: str = "fp4", act: str = "silu", swiglu_limit: float = 0.0,
                            target: Target) -> Any:
    """fp4 of ``act(gate) * up`` of blocks of sorted rows, with its scales in out_scale; see
    :func:`flydsl_mxfp4_gemm1`.

    Args:
        BM: rows of a block: 16, 32, 64 or 128.
        inline_quant: x u8 (tokens, D_HIDDEN/2, or D_HIDDEN of fp8) and x_scale u8 (tokens, D_HIDDEN/32) are workspace
            that is filled from hidden.
        use_nt: weights are read once and not kept in the caches.
        interleave: gate and up rows take turns by 16.
        act: ``"silu"``, ``"situ"``, ``"gelu"`` or ``"swiglu"``; gate and up are clamped if `swiglu_limit` is positive.
        xcd_swizzle: so many blocks of rows and neighbouring columns run on one die; 0: as launched.
        BN: a hint that is not taken; a workgroup has 128 columns.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_gemm1_a4w4_port"
    require(where, D_HIDDEN % 256 == 0 and D_INTER % 128 == 0,
            f"D_HIDDEN must be a multiple of 256 and D_INTER of 128, got {D_HIDDEN} and {D_INTER}")
    config = _micro(where, target, D_INTER, D_HIDDEN, BM, BN, BK, a_dtype, gated=True, activation=act,
                    limit=swiglu_limit or None, source="token", into="row", out="fp4", topk=topk,
                    strips="pairs" if interleave else "halves", x_scales="rows" if inline_quant else "words",
                    experts=NE, cache=STREAMED * use_nt, group=xcd_swizzle)
    quantise = build_per_1x32_mx_quant_module(D_HIDDEN, a_dtype, target=target) if inline_quant else None
    return _launcher(config, "mxfp_gemm1", quantise)


@builder
def compile_gemm2_a4w4_port(*, BM: int, use_nt: bool = True, epilog: str = "atomic", NE: int, D_HIDDEN: int,
                            D_INTER: int, topk: int, D_INTER_REAL: int | None = None, BN: int = 256, BK: int = 256,
                            xcd_swizzle: int = 0, a_dtype: str = "fp4", target: Target) -> Any:
    """The down projection of sorted rows; see :func:`flydsl_mxfp4_gemm2`.

    Args:
        epilog: ``"atomic"``: times the routing weights, added to out bf16 (tokens, D_HIDDEN), zero before; otherwise
            one row of out for each sorted row, without weights: ``"nonatomic"`` and ``"nonatomic_cshuffle"`` bf16,
            ``"nonatomic_mxfp4"`` fp4 and ``"nonatomic_fp8"`` e4m3, with e8m0 scales in out_scale (sorted rows,
            D_HIDDEN/32).
        D_INTER_REAL: what follows is padding, not read in steps of 128.
        BM, use_nt, xcd_swizzle, BN: as of :func:`compile_gemm1_a4w4_port`.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_gemm2_a4w4_port"
    atomic, out = epilog == "atomic", EPILOGUES[_named(where, "epilog", epilog, EPILOGUES)]
    real = D_INTER if D_INTER_REAL is None else D_INTER_REAL
    require(where, 0 < real <= D_INTER and D_INTER % 128 == 0,
            f"D_INTER must be a multiple of 128, and D_INTER_REAL at most that, got {D_INTER} and {real}")
    config = _micro(where, target, D_HIDDEN, D_INTER, BM, BN, BK, a_dtype, source="sorted",
                    into="token" if atomic else "row", weighted=atomic, out=out, topk=topk, x_scales="words",
                    skip_k=(D_INTER - real) // 128 * 128, out_scales="rows", cache=STREAMED * use_nt,
                    group=xcd_swizzle, experts=NE)
    return _launcher(config, "mxfp_gemm2")


def flydsl_mxfp4_gemm1(*, a_quant: Any, a_scale_sorted_shuffled: Any, w1_u8: Any, w1_scale_u8: Any,
                       sorted_expert_ids: Any, cumsum_tensor: Any, m_indices: Any, inter_sorted_quant: Any,
                       inter_sorted_shuffled_scale: Any, hidden_states: Any = None, n_tokens: int, BM: int, NE: int,
                       D_HIDDEN: int, D_INTER: int, topk: int, use_nt: bool = True, inline_quant: bool = False,
                       BN: int = 256, BK: int = 256, interleave: bool = False, xcd_swizzle: int = 0,
                       a_dtype: str = "fp4", act: str = "silu", swiglu_limit: float = 0.0,
                       stream: Any = None) -> None:
    """``silu(gate) * up`` of sorted rows of microscaled activations, quantised to fp4, into the given tensors (gfx950).

    Args:
        a_quant: fp4 (n_tokens, D_HIDDEN/2 bytes), or e4m3 with `a_dtype` ``"fp8"``.
        a_scale_sorted_shuffled: e8m0 of the sorted rows, by ``moe_mxfp4_sort``.
        w1_u8: fp4 (NE, 2 D_INTER, D_HIDDEN/2 bytes) in the order of ``shuffle_weight_w4``, with `interleave` its
            ``gate_up`` and ``moe_gemm``; w1_scale_u8 by ``e8m0_shuffle`` of (NE 2 D_INTER, D_HIDDEN/32), with
            `interleave` by ``shuffle_scale_w4`` with ``gate_up``.
        sorted_expert_ids, cumsum_tensor, m_indices: of each block its expert, the padded rows, and the token of each
            sorted row (its low 24 bits; of padding one that does not exist).
        inter_sorted_quant: u8 (sorted rows, D_INTER/2); inter_sorted_shuffled_scale in the order of the activations'.
        hidden_states: bf16 (n_tokens, D_HIDDEN), quantised here with `inline_quant`; the quantised ones are then not
            read and may be None.
        use_nt: as below, where there are fewer blocks of rows than experts.
        interleave, xcd_swizzle, act, swiglu_limit, BN, BK: as of :func:`compile_gemm1_a4w4_port`.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    blocks = min(sorted_expert_ids.numel(), most_blocks(n_tokens * topk, NE, BM))
    run = compile_gemm1_a4w4_port(BM=BM, use_nt=use_nt and blocks < NE, inline_quant=inline_quant, NE=NE,
                                  D_HIDDEN=D_HIDDEN, D_INTER=D_INTER, topk=topk, BN=BN, BK=BK, interleave=interleave,
                                  xcd_swizzle=xcd_swizzle, a_dtype=a_dtype, act=act, swiglu_limit=swiglu_limit)
    require("flydsl_mxfp4_gemm1", not inline_quant or hidden_states is not None, "inline_quant needs hidden_states")
    if inline_quant:
        a_quant = w1_u8.new_empty(n_tokens, D_HIDDEN // (2 if a_dtype == "fp4" else 1))
        a_scale_sorted_shuffled = w1_u8.new_empty(n_tokens, D_HIDDEN // GROUP)
    launch(run, w1_u8, a_quant, a_scale_sorted_shuffled, w1_u8, w1_scale_u8, sorted_expert_ids, cumsum_tensor,
           m_indices, None, inter_sorted_quant, inter_sorted_shuffled_scale, hidden_states, n_tokens, blocks,
           stream=stream)


def flydsl_mxfp4_gemm2(*, inter_sorted_quant: Any, inter_sorted_shuffled_scale: Any, w2_u8: Any, w2_scale_u8: Any,
                       sorted_expert_ids: Any, cumsum_tensor: Any, sorted_token_ids: Any, sorted_weights: Any,
                       flat_out: Any, M_logical: int, max_sorted: int, BM: int, NE: int, D_HIDDEN: int, D_INTER: int,
                       topk: int, use_nt: bool = True, epilog: str | None = None, flat_out_scale: Any = None,
                       D_INTER_REAL: int | None = None, BN: int = 256, BK: int = 256, xcd_swizzle: int = 0,
                       a_dtype: str = "fp4", atomic: bool | None = None, mxfp4out: bool = False,
                       cshuffle: bool = False, stream: Any = None) -> None:
    """The down projection of what :func:`flydsl_mxfp4_gemm1` made, into flat_out (gfx950).

    Args:
        w2_u8: fp4 (NE, D_HIDDEN, D_INTER/2 bytes) in the order of ``shuffle_weight_w4``; w2_scale_u8 by
            ``e8m0_shuffle`` of (NE D_HIDDEN, D_INTER/32).
        sorted_token_ids, sorted_weights: of sorting; `M_logical` tokens, `max_sorted` sorted rows at most.
        epilog: as of :func:`compile_gemm2_a4w4_port`, or by the marks `atomic`, `mxfp4out` and `cshuffle`.
        D_INTER_REAL, xcd_swizzle, a_dtype, BN, BK: as of that builder; `use_nt` as above.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    if epilog is None:
        added = "atomic" if atomic is None or atomic else "nonatomic"
        epilog = "nonatomic_mxfp4" if mxfp4out else "nonatomic_cshuffle" if cshuffle else added
    blocks = min(sorted_expert_ids.numel(), cdiv(max_sorted, BM), most_blocks(M_logical * topk, NE, BM))
    run = compile_gemm2_a4w4_port(BM=BM, use_nt=use_nt and blocks < NE, epilog=epilog, NE=NE, D_HIDDEN=D_HIDDEN,
                                  D_INTER=D_INTER, topk=topk, D_INTER_REAL=D_INTER_REAL, BN=BN, BK=BK,
                                  xcd_swizzle=xcd_swizzle, a_dtype=a_dtype)
    require("flydsl_mxfp4_gemm2", flat_out_scale is not None or EPILOGUES[epilog] == "bf16",
            f"epilog={epilog!r} needs flat_out_scale")
    launch(run, w2_u8, inter_sorted_quant, inter_sorted_shuffled_scale, w2_u8, w2_scale_u8, sorted_expert_ids,
           cumsum_tensor, sorted_token_ids, sorted_weights, flat_out, flat_out_scale, None, M_logical, blocks,
           stream=stream)


# ------------------------------------------------------------------------------------------- bf16 activations


@builder
def compile_gemm1_a16w4_port(BM: int, D_HIDDEN: int, D_INTER: int, NE: int, TOPK: int, TILE_N: int = 128,
                             TILE_K: int = 256, act: str = "silu", b_cache_mod: int = 2, xcd_swizzle: int = 0,
                             waves_per_eu: int | None = None, w_dtype: str = "mxfp4", w_layout: str = "standard",
                             k_wave: int = 1, swiglu_limit: float = 0.0, *, target: Target) -> Any:
    """bf16 of ``act(gate) * up`` of blocks of sorted rows of bf16 activations; see :func:`flydsl_a16w4_gemm1`.

    Args:
        b_cache_mod: cache bits of the loads of weights (2: non-temporal).
        act, swiglu_limit, xcd_swizzle: as of :func:`compile_gemm1_a4w4_port`.
        w_dtype: ``"mxfp4"``, ``"int4"`` (nibbles of value + 8) or ``"bf16"``.
        w_layout: ``"standard"``, or ``"guinterleave"``: gate and up rows take turns by 16.
        k_wave: groups of waves (1, 2 or 4) that share k; fewer if D_HIDDEN is no multiple of what they take at once, or
            that does not fit LDS.
        waves_per_eu: a hint that is not taken: the registers of the tile say it.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_gemm1_a16w4_port"
    _named(where, "k_wave", k_wave, (1, 2, 4))
    config = _half(where, target, D_INTER, D_HIDDEN, BM, TILE_N, TILE_K, w_dtype, k_wave, gated=True,
                   activation=act, limit=swiglu_limit or None, source="token", into="row", topk=TOPK, experts=NE,
                   cache=b_cache_mod, group=xcd_swizzle,
                   strips=LAYOUTS[_named(where, "w_layout", w_layout, LAYOUTS)])
    return _launcher(config, "a16w_gemm1")


@builder
def compile_gemm2_a16w4_port(BM: int = 32, *, NE: int, N_OUT: int, D_INTER: int, TILE_N: int = 256, TILE_K: int = 256,
                             xcd_swizzle: int = 1, b_cache_mod: int = 2, waves_per_eu: int | None = None,
                             w_dtype: str = "mxfp4", persist: bool = False, target: Target) -> Any:
    """The down projection of bf16 sorted rows, times the routing weights, added to out bf16 (tokens, N_OUT), zero
    before; arguments as of :func:`compile_gemm1_a16w4_port`, `persist` a hint that is not taken.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    config = _half("compile_gemm2_a16w4_port", target, N_OUT, D_INTER, BM, TILE_N, TILE_K, w_dtype, source="sorted",
                   into="token", weighted=True, experts=NE, cache=b_cache_mod, group=xcd_swizzle)
    return _launcher(config, "a16w_gemm2")


def flydsl_a16w4_gemm1(*, hidden_states: Any, w1_u8: Any, w1_scale_u8: Any, sorted_expert_ids: Any, cumsum_tensor: Any,
                       m_indices: Any, inter_sorted: Any, n_tokens: int, BM: int, NE: int, topk: int,
                       stream: Any = None, **options: Any) -> None:
    """``act(gate) * up`` of sorted rows of bf16 activations, into inter_sorted bf16 (sorted rows, D_INTER).

    Args:
        hidden_states: bf16 (n_tokens, D_HIDDEN).
        w1_u8: (NE, 2 D_INTER, D_HIDDEN): fp4 or int4 packed in the order of ``shuffle_weight_w4``, bf16 in that of
            ``shuffle_weight``; gate rows first, or in turn by 16 (``w_layout="guinterleave"``, of ``gate_up`` and
            ``moe_gemm``).
        w1_scale_u8: of fp4 by ``e8m0_shuffle`` (in turn by ``shuffle_scale_w4``); of int4 bf16 of 32 k, rows in the
            order of the weight; of bf16 None.
        sorted_expert_ids, cumsum_tensor, m_indices: of each block its expert, the padded rows, and the token of each
            sorted row (its low 24 bits; of padding one that does not exist).
        options: the others of :func:`compile_gemm1_a16w4_port`.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    run = compile_gemm1_a16w4_port(BM, NE=NE, TOPK=topk, **options)
    blocks = min(sorted_expert_ids.numel(), most_blocks(n_tokens * topk, NE, BM))
    launch(run, hidden_states, hidden_states, None, w1_u8, w1_scale_u8, sorted_expert_ids, cumsum_tensor, m_indices,
           None, inter_sorted, None, None, n_tokens, blocks, stream=stream)


def flydsl_a16w4_gemm2(*, inter_sorted: Any, w2_u8: Any, w2_scale_u8: Any, sorted_expert_ids: Any, cumsum_tensor: Any,
                       sorted_token_ids: Any, sorted_weights: Any, flat_out: Any, M_logical: int, max_sorted: int,
                       BM: int, NE: int, topk: int, stream: Any = None, **options: Any) -> None:
    """The down projection of what :func:`flydsl_a16w4_gemm1` made, times the routing weights, added to flat_out bf16
    (M_logical, N_OUT), zero before. Weights (NE, N_OUT, D_INTER) as there, not in turn; options of
    :func:`compile_gemm2_a16w4_port`.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    run = compile_gemm2_a16w4_port(BM, NE=NE, **options)
    blocks = min(sorted_expert_ids.numel(), cdiv(max_sorted, BM), most_blocks(M_logical * topk, NE, BM))
    launch(run, inter_sorted, inter_sorted, None, w2_u8, w2_scale_u8, sorted_expert_ids, cumsum_tensor,
           sorted_token_ids, sorted_weights, flat_out, None, None, M_logical, blocks, stream=stream)
