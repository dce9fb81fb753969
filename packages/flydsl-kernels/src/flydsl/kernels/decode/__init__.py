"""Attention of new tokens over paged caches, and what puts their keys and values there."""

from .append import build_cache_append_module
from .batch import BlockPool, PagedBatch, paged_batch
from .builders import build_mla_decode_module, build_paged_attention_module

__all__ = ["BlockPool", "PagedBatch", "build_cache_append_module", "build_mla_decode_module",
           "build_paged_attention_module", "paged_batch"]
