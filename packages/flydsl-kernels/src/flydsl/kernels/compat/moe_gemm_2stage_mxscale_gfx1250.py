"""Older builders of a mixture's two products on gfx1250: microscaled and 16-bit operands."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.config import run
from flydsl.kernels.host.config import require
from flydsl.kernels.target import Target, builder
from flydsl.kernels.target import target as current

from .moe_gemm_2stage import TWO_STAGE
from .moe_gemm_a8w4_gfx1250 import grouped_wmma_config, grouped_wmma_kernel
from .moe_products import Row, by_mode, launcher, product_config

__all__ = ["compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex", "launch_moe_gemm_a8w4"]

MXSCALE: dict[str, Row] = {"fp4": ("mxfp4", {"w_scales": "words"}), "fp8": ("mxfp8", {"w_scales": "words"}),
                           "a8w4": ("a8w4", {"w_scales": "words"}), "fp16": TWO_STAGE["fp16"],
                           "bf16": TWO_STAGE["bf16"]}
HALF = ("fp16", "bf16")
ACTIVATIONS = ("none", "silu", "swiglu")  # by number


@builder
def compile_mxscale_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                              tile_k: int, doweight_stage1: bool, in_dtype: str = "a8w4", out_dtype: str = "bf16",
                              act: str = "silu", k_batch: int = 1, num_buffers: int = 2, use_tdm_gather: bool = True,
                              use_tdm_store: bool = True, cluster_m: int = 1, cluster_n: int = 1,
                              waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm1` of gfx1250 for microscaled operands: of ``"fp4"``, ``"fp8"`` (e4m3) or ``"a8w4"`` (e4m3
    with weights of fp4), and of ``"fp16"`` and ``"bf16"`` as there.

    w is (E, 2 inter, model) by ``preshuffle_b_16x16``, scale_w of it, each expert's by ``shuffle_scale_32x4``; scale_x
    e8m0 (T, model/32), row by row.

    Args:
        act: ``"silu"``, ``"swiglu"``, ``"gelu"`` or ``"situ"``.
        k_batch: workgroups that share a reduction. They add to out, (T, topk, 2 inter) and zero before, and activation
            and routing weights are the caller's.
        num_buffers, use_tdm_gather, use_tdm_store, cluster_m, cluster_n, waves_per_eu: hints that are not taken: rows
            that are gathered one by one have other ways to LDS.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_mxscale_moe_gemm1"
    if in_dtype not in HALF:
        target.require(where, "gfx1250")
    config = product_config(where, target, MXSCALE, in_dtype, "in_dtype", True, (model_dim, inter_dim),
                            (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, k_batch=k_batch, act=act,
                            experts=experts, topk=topk)
    return launcher(config, "mxscale_moe_gemm1")


@builder
def compile_mxscale_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                              tile_k: int, doweight_stage2: bool, in_dtype: str = "a8w4", out_dtype: str = "bf16",
                              accumulate: bool = True, num_buffers: int = 2, use_tdm_gather: bool = True,
                              use_tdm_store: bool = True, cluster_m: int = 1, cluster_n: int = 1,
                              waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm2` of gfx1250 for the operands of :func:`compile_mxscale_moe_gemm1`."""
    where = "compile_mxscale_moe_gemm2"
    if in_dtype not in HALF:
        target.require(where, "gfx1250")
    config = product_config(where, target, MXSCALE, in_dtype, "in_dtype", False, (model_dim, inter_dim),
                            (tile_m, tile_n, tile_k), out_dtype, doweight_stage2, accumulate=accumulate,
                            experts=experts, topk=topk)
    return launcher(config, "mxscale_moe_gemm2")


compile_mxscale_moe_gemm2_ex = by_mode(compile_mxscale_moe_gemm2)

compile_moe_gemm1, compile_moe_gemm2 = compile_mxscale_moe_gemm1, compile_mxscale_moe_gemm2
compile_moe_gemm2_ex = compile_mxscale_moe_gemm2_ex


@flyc.jit
def launch_moe_gemm_a8w4(c, a, b, sa, sb, M: fx.Int32, stream: fx.Stream, N: fx.Constexpr[int],  # noqa: N803
                         K: fx.Constexpr[int], tile_m: fx.Constexpr[int], tile_n: fx.Constexpr[int],  # noqa: N803
                         tile_k: fx.Constexpr[int], m_warp: fx.Constexpr[int], n_warp: fx.Constexpr[int],
                         out_is_f16: fx.Constexpr[int], num_buffers: fx.Constexpr[int],
                         a_is_fp4: fx.Constexpr[int], m_tile_map, n_experts: fx.Constexpr[int],
                         stage1_act: fx.Constexpr[int], has_bias: fx.Constexpr[int], bias,
                         swiglu_limit: fx.Constexpr[float], cluster_m: fx.Constexpr[int] = 1,
                         cluster_n: fx.Constexpr[int] = 1):
    """``c = act(a w[expert]^T + bias[expert])`` on gfx1250 of rows in the order of their experts.

    Each expert's rows begin at a multiple of tile_m, and end before ``m_tile_map[expert]`` (i32, ascending); what is
    behind the last is not written.

    Args:
        c: bf16 (f16 if `out_is_f16`) (M, N), or (M, N/2) with an activation.
        a: e4m3 (M, K), or fp4 (M, K/2 bytes) if `a_is_fp4`; sa: its e8m0 scales (M, K/32) as
            ``view(M/tile_m, tile_m/16, 16, K/128, 4).permute(0, 2, 3, 1, 4)``.
        b: fp4 (n_experts, N, K/2 bytes), each expert's by ``preshuffle_b_16x16``; sb: its scales, each expert's by
            ``shuffle_scale_32x4``.
        stage1_act: 0 none, 1 silu, 2 swiglu; gate and up rows of b alternate.
        bias: f32 (n_experts, N) if `has_bias`.
        swiglu_limit: of gate and up if it is positive; 7 otherwise for swiglu.
        cluster_m, cluster_n: workgroups along the rows and columns that load what they share once.

    Raises:
        ValueError: the architecture or an argument is not supported.
    """
    where = "launch_moe_gemm_a8w4"
    require(where, stage1_act in range(len(ACTIVATIONS)), f"stage1_act must be 0, 1 or 2, got {stage1_act}")
    config = grouped_wmma_config(
        where, current(), n=N, k=K, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, m_waves=m_warp, n_waves=n_warp,
        a_dtype="fp4" if a_is_fp4 else "fp8", out_dtype="f16" if out_is_f16 else "bf16", stages=num_buffers,
        cluster_m=cluster_m, cluster_n=cluster_n, experts=n_experts, activation=ACTIVATIONS[stage1_act],
        limit=swiglu_limit or None, bias=bool(has_bias))
    tensors = {"c": c, "a": a, "b": b, "scale_a": sa, "scale_b": sb, "ends": m_tile_map, "bias": bias}
    run(grouped_wmma_kernel, tensors, M, config, stream)
