"""Attention of new tokens over paged caches, with the names of :mod:`..cache` that go with it."""

from ..cache import BlockPool, PagedBatch, build_cache_append_module, paged_batch
from .builders import build_mla_decode_module, build_paged_attention_module

__all__ = ["BlockPool", "PagedBatch", "build_cache_append_module", "build_mla_decode_module",
           "build_paged_attention_module", "paged_batch"]
