"""Mixture of experts: routing, sorting, grouped products, reduction."""

import importlib as _importlib
from typing import Any as _Any

from .sorting import build_moe_sorting_module

# Builders and functions with the signatures of older callers, by the modules that they are in.
_OLDER = {
    name: module for module, names in {
        "moe_gemm_2stage": "MoeGemm2Mode compile_moe_gemm1 compile_moe_gemm2 compile_moe_gemm2_ex",
        "moe_blockscale_2stage": "compile_moe_blockscale_gemm1 compile_moe_blockscale_gemm2 "
                                 "compile_moe_blockscale_gemm2_ex",
        "mixed_moe_gemm_2stage": "GateMode compile_mixed_moe_gemm1 compile_mixed_moe_gemm2",
        "moe_gemm_2stage_mxscale_gfx1250": "compile_mxscale_moe_gemm1 compile_mxscale_moe_gemm2 "
                                           "compile_mxscale_moe_gemm2_ex launch_moe_gemm_a8w4",
        "moe_sorted_gemm": "compile_gemm1_a16w4_port compile_gemm1_a4w4_port compile_gemm2_a16w4_port "
                           "compile_gemm2_a4w4_port flydsl_a16w4_gemm1 flydsl_a16w4_gemm2 flydsl_mxfp4_gemm1 "
                           "flydsl_mxfp4_gemm2 gemm1_grid",
        "moe_gating": "build_route_module build_topk_gating_softmax_module",
        "moe_reduction": "compile_moe_reduction",
        "moe_sorting": "build_softmax_sorting_module compile_moe_sorting compile_moe_sorting_oneshot_fused "
                       "moe_softmax_sort_flydsl moe_sorting_flydsl moe_sorting_get_workspace_size",
    }.items() for name in names.split()
}

__all__ = [*_OLDER, "build_moe_sorting_module"]


def __getattr__(name: str) -> _Any:
    if name in _OLDER:
        return getattr(_importlib.import_module(f"flydsl.kernels.{_OLDER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
