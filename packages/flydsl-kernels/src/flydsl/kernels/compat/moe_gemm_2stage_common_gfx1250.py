"""Older name of a part of :mod:`flydsl.kernels.moe`."""

from flydsl.kernels.moe import MoeGemm2Mode, compile_moe_reduction

__all__ = ["MoeGemm2Mode", "compile_moe_reduction"]
