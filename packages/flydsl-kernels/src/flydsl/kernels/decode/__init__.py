"""Attention of new tokens over paged caches, and what puts their keys and values there."""

from .append import build_cache_append_module
from .builders import build_mla_decode_module, build_paged_attention_module

__all__ = ["build_cache_append_module", "build_mla_decode_module", "build_paged_attention_module"]
