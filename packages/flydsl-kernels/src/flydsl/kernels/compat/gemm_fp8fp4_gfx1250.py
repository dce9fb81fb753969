"""Older name of :mod:`flydsl.kernels.gemm.gfx1250` and :mod:`flydsl.kernels.gemm.fp8fp4`."""

from flydsl.kernels.gemm.fp8fp4 import (
    compile_a8w4_gemm,
    compile_fp8fp4_gemm,
    compile_mxfp4_gemm,
    compile_mxfp8_gemm,
    compile_mxscale_gemm,
    compile_ptpc_gemm,
    launch_gemm_a8w4_mxscale,
)
from flydsl.kernels.gemm.gfx1250 import launch_gemm_a8w8

__all__ = [
    "compile_a8w4_gemm", "compile_fp8fp4_gemm", "compile_mxfp4_gemm", "compile_mxfp8_gemm", "compile_mxscale_gemm",
    "compile_ptpc_gemm", "launch_gemm_a8w4_mxscale", "launch_gemm_a8w8",
]
