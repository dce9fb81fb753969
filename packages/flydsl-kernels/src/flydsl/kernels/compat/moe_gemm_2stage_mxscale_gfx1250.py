"""Older builders of a mixture's two products on gfx1250: microscaled and 16-bit operands."""

from __future__ import annotations

from typing import Any

from flydsl.kernels.moe.gfx1250 import launch_moe_gemm_a8w4
from flydsl.kernels.target import Target, builder

from .moe_gemm_2stage import TWO_STAGE
from .moe_products import Row, by_mode, launcher, product_config

__all__ = ["compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex", "launch_moe_gemm_a8w4"]

MXSCALE: dict[str, Row] = {"fp4": ("mxfp4", {"w_scales": "words"}), "fp8": ("mxfp8", {"w_scales": "words"}),
                           "a8w4": ("a8w4", {"w_scales": "words"}), "fp16": TWO_STAGE["fp16"],
                           "bf16": TWO_STAGE["bf16"]}
HALF = ("fp16", "bf16")


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
                            (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, k_batch=k_batch, act=act, topk=topk)
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
                            (tile_m, tile_n, tile_k), out_dtype, doweight_stage2, accumulate=accumulate, topk=topk)
    return launcher(config, "mxscale_moe_gemm2")


compile_mxscale_moe_gemm2_ex = by_mode(compile_mxscale_moe_gemm2)

compile_moe_gemm1, compile_moe_gemm2 = compile_mxscale_moe_gemm1, compile_mxscale_moe_gemm2
compile_moe_gemm2_ex = compile_mxscale_moe_gemm2_ex
