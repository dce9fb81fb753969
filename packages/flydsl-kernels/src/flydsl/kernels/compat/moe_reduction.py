"""The builder of the sum over the slots of a token."""

from __future__ import annotations

from flydsl.kernels.host.config import require
from flydsl.kernels.host.dtypes import float_dtype
from flydsl.kernels.moe.reduction import FP8_GROUP, ReduceConfig, reduce_launcher
from flydsl.kernels.target import Target, builder

__all__ = ["compile_moe_reduction"]


@builder
def compile_moe_reduction(*, topk: int, model_dim: int, dtype_str: str = "f16", use_mask: bool = False,
                          num_experts: int = 0, out_dtype_str: str | None = None, target: Target):
    """``launch(X, Y, expert_mask, topk_ids, m_tokens, stream=None)``: the sum of the `topk` rows of each token.

    Args:
        dtype_str: of X (tokens topk, model_dim): ``"f16"``, ``"bf16"`` or ``"f32"``; or ``"fp8"``: (tokens topk,
            model_dim * 9/8) bytes, of each row model_dim e4m3 values of the architecture and then e8m0 scales of 8.
        out_dtype_str: of Y, that of X by default (of fp8 bf16).
        use_mask: leave out slots whose expert (topk_ids i32) is masked out (expert_mask i32[num_experts] of 0).

    Raises:
        ValueError: an argument is not supported.
    """
    where = "compile_moe_reduction"
    require(where, topk >= 1 and model_dim >= 1,
            f"topk and model_dim must be positive, got {topk} and {model_dim}")
    require(where, not use_mask or num_experts >= 1, "a mask needs num_experts")
    eight = dtype_str == "fp8"
    require(where, not eight or model_dim % FP8_GROUP == 0,
            f"rows of fp8 have a scale for {FP8_GROUP} columns: model_dim must be a multiple, got {model_dim}")
    require(where, not eight or target.fp8_name is not None, f"{target.name} has no fp8 type")
    return reduce_launcher(ReduceConfig(
        topk, model_dim, dtype_str if eight else float_dtype(dtype_str, where),
        float_dtype(out_dtype_str or ("bf16" if eight else dtype_str), where), num_experts if use_mask else 0, use_mask,
        target=target))
