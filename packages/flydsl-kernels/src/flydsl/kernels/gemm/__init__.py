"""Dense matrix products: ``C[M, N] = A[M, K] B[N, K]^T`` in the forms of the kernels' types and layouts."""

import importlib as _importlib
from typing import Any as _Any

from . import dense
from .dense import *  # noqa: F403

# These need torch, which the builders do not.
_TORCH = {
    "shuffle_weight": "layouts", "shuffle_weight_w4": "layouts", "shuffle_scale_w4": "layouts",
    "e8m0_shuffle": "layouts", "preshuffle_b_16x16": "layouts", "preshuffle_b_fp8": "layouts",
    "shuffle_scale_32x4": "layouts", "shuffle_scale_for_int4": "layouts", "layout_of": "layouts",
    "preshuffled": "weights", "clear_preshuffle_cache": "weights",
}

# Builders with the signatures of older callers, by the modules that they are in.
_OLDER = {
    name: module for module, names in {
        "preshuffle_gemm": "compile_blockscale_preshuffle_gemm compile_preshuffle_gemm compile_preshuffle_gemm_a8 "
                           "compile_preshuffle_gemm_v2 compile_preshuffle_gemm_w4",
        "mxfp4_preshuffle": "compile_fp4_gemm_4w compile_mxfp4_gemm compile_mxfp6_gemm launch_gemm",
        "fp8_rowscale_gemm": "compile_fp8_gemm_4w compile_fp8_gemm_8w",
        "hgemm_splitk": "compile_hgemm_kernel hgemm_splitk_",
        "gemm_a16w16_gfx950": "gemm_a16w16_gfx950 make_gemm_a16w16_gfx950_param",
        "rdna_gemm": "compile_fp8_gemm compile_rdna_fp8_gemm create_wmma_gemm_module pick_tile rdna3_gemm_autotuned",
        "wmma_gemm_gfx1250": "compile_wmma_gemm_tdm",
        "gemm_fp8fp4_gfx1250": "compile_a8w4_gemm compile_fp8fp4_gemm compile_mxfp8_gemm compile_mxscale_gemm "
                               "compile_ptpc_gemm launch_gemm_a8w4_mxscale launch_gemm_a8w8",
    }.items() for name in names.split()
}
_CALLERS = ("flydsl_8wave_gemm_a8", "flydsl_hgemm", "flydsl_preshuffle_gemm_a8")
_FORMS = ("blockscale_gemm", "linear", "mx_gemm", "preshuffle_gemm", "scaled_gemm")

__all__ = [*dense.__all__, *_OLDER]


def __getattr__(name: str) -> _Any:
    modules = {**_OLDER, **dict.fromkeys(_CALLERS, "gemm_callers"), **dict.fromkeys(_FORMS, "ops")}
    if name in modules:
        return getattr(_importlib.import_module(f"flydsl.kernels.{modules[name]}"), name)
    if name in _TORCH:
        return getattr(_importlib.import_module(f"{__name__}.{_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
