"""Attention of new tokens over paged caches."""

from .builders import build_paged_attention_module

__all__ = ["build_paged_attention_module"]
