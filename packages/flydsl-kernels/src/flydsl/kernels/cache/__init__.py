"""Paged caches of keys and values: their orders, what writes to them, and what an engine keeps of them on the host."""

from .append import build_cache_append_module
from .batch import BlockPool, PagedBatch, paged_batch
from .layout import BlockLayout, block_layouts, packed_blocks

__all__ = ["BlockLayout", "BlockPool", "PagedBatch", "block_layouts", "build_cache_append_module", "packed_blocks",
           "paged_batch"]
