"""Older name of a part of :mod:`flydsl.kernels.moe`."""

from flydsl.kernels.moe import compile_moe_gemm1, compile_moe_gemm2, launch_moe_gemm_a8w4

__all__ = ["compile_moe_gemm1", "compile_moe_gemm2", "launch_moe_gemm_a8w4"]
