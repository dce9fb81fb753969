"""Older name of a part of :mod:`flydsl.kernels.attention`."""

from flydsl.kernels.attention import (
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    flydsl_flash_attn_func,
)

__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flydsl_flash_attn_func"]
