"""Attention: softmax(Q K^T) V, forward and backward."""

from .backward import build_attention_backward
from .callers import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache, flydsl_flash_attn_func
from .forward import build_attention_forward

__all__ = [
    "build_attention_backward", "build_attention_forward", "flash_attn_func", "flash_attn_varlen_func",
    "flash_attn_with_kvcache", "flydsl_flash_attn_func",
]
