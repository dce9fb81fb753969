"""Where the older names of :mod:`flydsl.kernels.gemm` are: builders and functions with the signatures of callers."""

from __future__ import annotations

__all__ = ["MODULES"]

#: Name to module of this package.
MODULES = {
    name: module for module, names in {
        "preshuffle_gemm": "compile_blockscale_preshuffle_gemm compile_preshuffle_gemm compile_preshuffle_gemm_a8 "
                           "compile_preshuffle_gemm_v2 compile_preshuffle_gemm_w4",
        "mxfp4_preshuffle": "compile_fp4_gemm_4w compile_mxfp4_gemm compile_mxfp6_gemm launch_gemm",
        "fp8_rowscale_gemm": "compile_fp8_gemm_4w compile_fp8_gemm_8w",
        "hgemm_splitk": "compile_hgemm_kernel hgemm_splitk_",
        "gemm_a16w16": "gemm_a16w16 get_default_kwargs get_semaphore",
        "gemm_a16w16_gfx950": "gemm_a16w16_gfx950 make_gemm_a16w16_gfx950_param",
        "rdna_gemm": "compile_fp8_gemm compile_rdna_fp8_gemm create_wmma_gemm_module pick_tile rdna3_gemm_autotuned",
        "wmma_gemm_gfx1250": "compile_wmma_gemm_tdm",
        "gemm_fp8fp4_gfx1250": "compile_a8w4_gemm compile_fp8fp4_gemm compile_mxfp8_gemm compile_mxscale_gemm "
                               "compile_ptpc_gemm launch_gemm_a8w4_mxscale launch_gemm_a8w8",
        "gemm_callers": "flydsl_8wave_gemm_a8 flydsl_batched_gemm_mxfp4 flydsl_hgemm flydsl_preshuffle_gemm_a8 "
                        "run_preshuffle_gemm_a8_gfx1250",
    }.items() for name in names.split()
}
