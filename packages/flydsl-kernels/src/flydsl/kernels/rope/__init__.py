"""Rotary position embedding, alone and fused with writes of key-value caches, or with norms and quantisation."""

from .cache_builders import build_fused_rope_cache_module, build_rope_cache_module
from .kernel import build_rope_module
from .qk_norm import compile_flydsl_qk_norm_rope_quant, flydsl_qk_norm_rope_quant
from .tables import rotary_tables

__all__ = ["build_fused_rope_cache_module", "build_rope_cache_module", "build_rope_module",
           "compile_flydsl_qk_norm_rope_quant", "flydsl_qk_norm_rope_quant", "rotary_tables"]
