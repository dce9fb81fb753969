"""Older builders of a mixture's two products: operands of one type, scales of rows."""

from __future__ import annotations

from typing import Any

from flydsl.kernels.host.config import require
from flydsl.kernels.target import Target, builder

from .moe_products import BF16, F16, MoeGemm2Mode, Row, by_mode, launcher, product_config
from .moe_reduction import compile_moe_reduction

__all__ = ["MoeGemm2Mode", "compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex", "compile_moe_reduction"]

TWO_STAGE: dict[str, Row] = {
    "fp8": ("fp8", {}), "int8": ("int8", {}), "int8smooth": ("int8", {"source": "slots"}), "int4": ("int4", {}),
    "fp16": ("none", F16), "bf16": ("none", BF16), "int4_bf16": ("a16i4", {**BF16, "lane_k": 16}),
}


def _groups(where: str, target: Target, in_dtype: str, group_size: int, scale_is_bf16: bool) -> dict[str, Any]:
    if in_dtype != "int4_bf16":
        return {}
    require(where, group_size in (-1, 32), f"group_size must be -1 or 32, got {group_size}")
    require(where, target.matrix == "mfma", f"int4_bf16 needs matrix instructions of 64 lanes, not {target.name}")
    return dict(w_scales="pairs" if group_size == 32 else "row", scale="bf16" if scale_is_bf16 else "f32")


@builder
def compile_moe_gemm1(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int, tile_k: int,
                      doweight_stage1: bool, out_dtype: str = "f16", in_dtype: str = "fp8", group_size: int = -1,
                      scale_is_bf16: bool = False, use_cshuffle_epilog: bool | None = None, target: Target) -> Any:
    """``out[T, topk, inter] = silu(gate) * up`` (times the routing weight if `doweight_stage1`) of sorted tokens.

    x is (T, model), of int8smooth (topk T, model) slot by slot; w is (E, 2 inter, model) in the order of
    ``shuffle_weight`` (int4: packed after it), scale_x f32[T] and scale_w f32[E 2 inter], both unused by 16-bit types.
    ``"int4_bf16"`` has bf16 activations and int4 weights, whose scales (bf16 if `scale_is_bf16`) are of rows, or of
    32 k with a `group_size` of 32, in the order of ``shuffle_scale_for_int4``.
    `use_cshuffle_epilog` is a hint that is not taken: a lane has consecutive columns.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_moe_gemm1"
    config = product_config(where, target, TWO_STAGE, in_dtype, "in_dtype", True, (model_dim, inter_dim),
                            (tile_m, tile_n, tile_k), out_dtype, doweight_stage1, experts=experts, topk=topk,
                            **_groups(where, target, in_dtype, group_size, scale_is_bf16))
    return launcher(config, "moe_gemm1")


@builder
def compile_moe_gemm2(*, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int, tile_k: int,
                      doweight_stage2: bool, out_dtype: str = "f16", in_dtype: str = "fp8", accumulate: bool = True,
                      group_size: int = -1, scale_is_bf16: bool = False, use_cshuffle_epilog: bool | None = None,
                      target: Target) -> Any:
    """The product of x (T topk, inter) with w (E, model, inter), times the routing weights if `doweight_stage2`.

    With `accumulate` the slots of a token are added to out (T, model), zero before, in any order (f16, bf16, f32);
    otherwise out is (T topk, model), see ``compile_moe_reduction`` (f16, bf16). Otherwise as
    :func:`compile_moe_gemm1`, scale_x f32[T topk] and scale_w f32[E model].

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "compile_moe_gemm2"
    config = product_config(where, target, TWO_STAGE, in_dtype, "in_dtype", False, (model_dim, inter_dim),
                            (tile_m, tile_n, tile_k), out_dtype, doweight_stage2, accumulate=accumulate,
                            experts=experts, topk=topk,
                            **_groups(where, target, in_dtype, group_size, scale_is_bf16))
    return launcher(config, "moe_gemm2")


compile_moe_gemm2_ex = by_mode(compile_moe_gemm2)
