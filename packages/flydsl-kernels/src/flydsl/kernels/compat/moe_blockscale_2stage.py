"""Older builders of a mixture's two products: fp8 with scales of blocks."""

from __future__ import annotations

from typing import Any

from flydsl.kernels.target import Target, builder

from .moe_products import MoeGemm2Mode, Row, by_mode, launcher, product_config
from .moe_reduction import compile_moe_reduction

__all__ = [
    "MoeGemm2Mode", "compile_moe_blockscale_gemm1", "compile_moe_blockscale_gemm2", "compile_moe_blockscale_gemm2_ex",
    "compile_moe_reduction",
]

BLOCKS: dict[int, Row] = {128: ("fp8_block", {"turned_scales": True})}  # k of a scale


@builder
def compile_moe_blockscale_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                                 tile_k: int, doweight_stage1: bool, scale_block_k: int = 128, out_dtype: str = "f16",
                                 use_cshuffle_epilog: bool | None = None, waves_per_eu: int | None = None,
                                 target: Target) -> Any:
    """:func:`compile_moe_gemm1` of fp8 with scale_x f32[model/128, T] and scale_w f32[E, 2 inter/128, model/128].
    `waves_per_eu` is a hint that is not taken: the registers of the tile say it."""
    config = product_config("compile_moe_blockscale_gemm1", target, BLOCKS, scale_block_k, "scale_block_k", True,
                            (model_dim, inter_dim), (tile_m, tile_n, tile_k), out_dtype, doweight_stage1,
                            experts=experts, topk=topk)
    return launcher(config, "moe_blockscale_gemm1")


@builder
def compile_moe_blockscale_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
                                 tile_k: int, doweight_stage2: bool, scale_block_k: int = 128, out_dtype: str = "f16",
                                 accumulate: bool = True, use_cshuffle_epilog: bool | None = None,
                                 waves_per_eu: int | None = None, target: Target) -> Any:
    """:func:`compile_moe_gemm2` of fp8 with scale_x f32[inter/128, T topk] and scale_w f32[E, model/128, inter/128];
    hints as of :func:`compile_moe_blockscale_gemm1`."""
    config = product_config("compile_moe_blockscale_gemm2", target, BLOCKS, scale_block_k, "scale_block_k", False,
                            (model_dim, inter_dim), (tile_m, tile_n, tile_k), out_dtype, doweight_stage2,
                            accumulate=accumulate, experts=experts, topk=topk)
    return launcher(config, "moe_blockscale_gemm2")


compile_moe_blockscale_gemm2_ex = by_mode(compile_moe_blockscale_gemm2)
