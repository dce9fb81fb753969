"""Attention of new tokens over paged caches."""

from .builders import build_mla_decode_module, build_paged_attention_module

__all__ = ["build_mla_decode_module", "build_paged_attention_module"]
