"""Older builders of a mixture's two products: operands of several types."""

from __future__ import annotations

from enum import Enum
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.host.config import require
from flydsl.kernels.moe.config import FORMATS, GroupedConfig
from flydsl.kernels.target import Target, builder

from .moe_products import BF16, F16, FLOATS, Row, launch_product, named, product_config

__all__ = ["GateMode", "compile_mixed_moe_gemm1", "compile_mixed_moe_gemm2"]

_FP4 = dict(w_scales="words", scale="e8m0")
_INT4 = dict(w_scales="rows", scale="bf16", lane_k=16)
_MICRO = dict(w_scales="words", x_scales="words")
MIXED: dict[tuple[str, str], Row] = {
    ("fp8", "fp4"): ("a8w4", _MICRO), ("fp4", "fp4"): ("mxfp4", _MICRO), ("fp8", "fp8"): ("mxfp8", _MICRO),
    ("fp16", "fp4"): ("a16w4", {**F16, **_FP4}), ("bf16", "fp4"): ("a16w4", {**BF16, **_FP4}),
    ("fp16", "int4"): ("a16i4", {**F16, **_INT4}), ("bf16", "int4"): ("a16i4", {**BF16, **_INT4}),
    ("int8", "int8"): ("int8", {}), ("int8smooth", "int8"): ("int8", {"source": "slots"}),
    ("int8", "int4"): ("int4", {}), ("fp16", "fp16"): ("none", F16), ("bf16", "bf16"): ("none", BF16),
}


class GateMode(Enum):
    """Where gate and up rows are in w.

    SEPARATED: all gate rows first, two streams. MOCK_GATE_ONLY: the same, as one stream of 2 inter rows (with
    `k_batch`). INTERLEAVE: in turn, in tiles of 16 rows. GATE_ONLY: not used.
    """

    SEPARATED = "separated"
    MOCK_GATE_ONLY = "mock_gate_only"
    GATE_ONLY = "gate_only"
    INTERLEAVE = "interleave"


def _pairs(mode: GateMode | str, k_batch: int, where: str) -> str:
    """How gate and up rows lie in w."""
    mode = GateMode(mode.value if isinstance(mode, Enum) else mode)
    require(where, mode is not GateMode.GATE_ONLY, "gate_mode 'gate_only' is reserved: use 'separated' or 'interleave'")
    require(where, mode is not GateMode.MOCK_GATE_ONLY or k_batch > 1, "gate_mode 'mock_gate_only' needs k_batch > 1")
    require(where, mode is not GateMode.INTERLEAVE or k_batch == 1,
            "k_batch > 1 leaves the activation to the caller, who takes all gate columns first: use 'separated'")
    return "pairs" if mode is GateMode.INTERLEAVE else "halves"


def _mixed(where: str, target: Target, a_dtype: str, b_dtype: str, pads: tuple[int, int], *arguments: Any,
           **options: Any) -> GroupedConfig:
    if FORMATS[MIXED.get((a_dtype, b_dtype), ("none", {}))[0]].scales in ("groups", "micro"):
        target.require(where, "gfx942", "gfx950")
    # Only what is a multiple of a step of the instruction can be left out: the rest of a step is multiplied.
    return product_config(where, target, MIXED, (a_dtype, b_dtype), "a_dtype and b_dtype", *arguments,
                          skip_n=pads[0] // 16 * 16, skip_k=pads[1] // 128 * 128, **options)


@builder
def compile_mixed_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                            tile_k: int, doweight_stage1: bool, a_dtype: str = "fp8", b_dtype: str = "fp4",
                            out_dtype: str = "f16", act: str = "silu", use_cshuffle_epilog: bool | None = None,
                            enable_bias: bool = False, model_dim_pad: int = 0, inter_dim_pad: int = 0,
                            persist_m: int = 1, use_async_copy: bool = False, waves_per_eu: int | None = 4,
                            k_batch: int = 1, b_nt: int = 0, gate_mode: GateMode | str = GateMode.SEPARATED,
                            a_scale_one: bool = False, xcd_swizzle: int = 0, swiglu_limit: float = 0.0,
                            target: Target) -> Any:
    """``launch(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias,
    out_scale_sorted, tokens, inter, model, size_expert_ids, stream=None)``: the activation of gate and up.

    x is (T, model) and out (T, topk, inter); w (E, 2 inter, model) is in the order of ``shuffle_weight`` (of
    ``shuffle_weight_w4`` with `gate_up` and `moe_gemm` where gate and up take turns; int4 packed after it).

    Scales of fp4 and fp8 are e8m0 of 32 k: scale_w in the order of ``e8m0_shuffle`` (``shuffle_scale_w4`` with
    `gate_up` where they take turns), scale_x of the sorted rows, by ``moe_mxfp4_sort``, not read with `a_scale_one`.
    Scales of int8 are f32 of rows; those of int4 weights with 16-bit activations bf16 (E, 2 inter, model/32).

    Args:
        a_dtype, b_dtype: ``"fp4"``, ``"fp8"``, ``"fp16"``, ``"bf16"``, ``"int8"`` or ``"int8smooth"`` with ``"fp4"``,
            ``"fp8"``, ``"int4"``, ``"int8"`` or the same 16-bit type.
        out_dtype: ``"f16"``, ``"bf16"``; or ``"fp4"``, ``"fp8"``: quantised by 32 columns, with scales in
            out_scale_sorted in the order of those of x.
        act: ``"silu"``, ``"swiglu"``, ``"gelu"`` or ``"situ"``; `swiglu_limit` clamps gate and up if it is positive.
        enable_bias: add bias f32 (E, 2 inter), all of gate first.
        model_dim_pad, inter_dim_pad: of model and inter so much is padding, which whole tiles leave out.
        k_batch: workgroups that share a reduction. They add to out, (T, topk, 2 inter) of f16 or bf16 and zero
            before, and the activation is the caller's (``silu_and_mul``); routing weights then are too.
        b_nt: cache bits of the loads of w (2: non-temporal).
        xcd_swizzle: tiles of neighbouring columns and of so many blocks of rows run on one die; 0: as launched.
        use_cshuffle_epilog, persist_m, use_async_copy, waves_per_eu: hints that are not taken.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_mixed_moe_gemm1"
    strips = _pairs(gate_mode, k_batch, where)
    require(where, k_batch == 1 or inter_dim_pad == 0, "k_batch > 1 makes all columns (inter_dim_pad)")
    config = _mixed(where, target, a_dtype, b_dtype, (inter_dim_pad, model_dim_pad), True, (model_dim, inter_dim),
                    (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, k_batch=k_batch, act=act, limit=swiglu_limit,
                    outs=(*FLOATS, "fp4", "fp8"), strips=strips, bias=enable_bias, scale_one=a_scale_one,
                    experts=experts, topk=topk,
                    cache=b_nt, group=xcd_swizzle)

    @flyc.jit
    def mixed_moe_gemm1(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias,
                        out_scale_sorted, tokens: fx.Int32, inter: fx.Int32, model: fx.Int32,
                        size_expert_ids: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        launch_product(config, out, operands, tokens, size_expert_ids, stream, bias=bias, out_scale=out_scale_sorted)

    return named(mixed_moe_gemm1, config, "mixed_moe_gemm1")


@builder
def compile_mixed_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                            tile_k: int, doweight_stage2: bool, a_dtype: str = "fp8", b_dtype: str = "fp4",
                            out_dtype: str = "f16", use_cshuffle_epilog: bool | None = None, accumulate: bool = True,
                            enable_bias: bool = False, model_dim_pad: int = 0, inter_dim_pad: int = 0,
                            persist_m: int = 4, sort_block_m: int = 0, use_async_copy: bool = False,
                            waves_per_eu: int | None = None, b_nt: int = 2, a_scale_one: bool = False,
                            xcd_swizzle: int = 0, target: Target) -> Any:
    """``launch(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias, tokens,
    model, inter, size_expert_ids, stream=None)``: the product of x (T, topk, inter) with w (E, model, inter).

    With `accumulate` the slots of a token are added to out (T, model), zero before; otherwise out is (T topk, model).
    bias is f32 (E, model), `sort_block_m` the rows of a block of sorting (0: tile_m). Otherwise as
    :func:`compile_mixed_moe_gemm1`.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    config = _mixed("compile_mixed_moe_gemm2", target, a_dtype, b_dtype, (model_dim_pad, inter_dim_pad), False,
                    (model_dim, inter_dim), (tile_m, tile_n, tile_k), out_dtype, doweight_stage2,
                    accumulate=accumulate, bias=enable_bias, sort_block=sort_block_m, scale_one=a_scale_one,
                    experts=experts, topk=topk,
                    cache=b_nt, group=xcd_swizzle)

    @flyc.jit
    def mixed_moe_gemm2(out, x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids, bias,
                        tokens: fx.Int32, model: fx.Int32, inter: fx.Int32, size_expert_ids: fx.Int32,
                        stream: fx.Stream = fx.Stream(None)):
        operands = x, w, scale_x, scale_w, sorted_token_ids, expert_ids, sorted_weights, num_valid_ids
        launch_product(config, out, operands, tokens, size_expert_ids, stream, bias=bias)

    return named(mixed_moe_gemm2, config, "mixed_moe_gemm2")
