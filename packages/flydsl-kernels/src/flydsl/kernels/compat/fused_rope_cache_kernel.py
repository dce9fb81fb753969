"""Older name of :mod:`flydsl.kernels.rope`."""

from flydsl.kernels.rope import build_fused_rope_cache_module

__all__ = ["build_fused_rope_cache_module"]
