"""Rotary position embedding, alone and fused with writes of key-value caches."""

from .cache_builders import build_fused_rope_cache_module, build_rope_cache_module
from .kernel import build_rope_module

__all__ = ["build_fused_rope_cache_module", "build_rope_cache_module", "build_rope_module"]
