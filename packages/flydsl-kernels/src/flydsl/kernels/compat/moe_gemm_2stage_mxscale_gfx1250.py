"""Older name of a part of :mod:`flydsl.kernels.moe`."""

from flydsl.kernels.moe import compile_mxscale_moe_gemm1 as compile_moe_gemm1
from flydsl.kernels.moe import compile_mxscale_moe_gemm2 as compile_moe_gemm2
from flydsl.kernels.moe import compile_mxscale_moe_gemm2_ex as compile_moe_gemm2_ex
from flydsl.kernels.moe import launch_moe_gemm_a8w4

__all__ = ["compile_moe_gemm1", "compile_moe_gemm2", "compile_moe_gemm2_ex", "launch_moe_gemm_a8w4"]
