"""Older name of a part of :mod:`flydsl.kernels.moe`."""

from flydsl.kernels.moe import GateMode, compile_mixed_moe_gemm1, compile_mixed_moe_gemm2

__all__ = ["GateMode", "compile_mixed_moe_gemm1", "compile_mixed_moe_gemm2"]
