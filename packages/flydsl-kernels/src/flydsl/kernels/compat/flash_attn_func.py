"""Older name of a part of :mod:`flydsl.kernels.attention`, and the builders that were with it."""

from .flash_attn_callers import (
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    flydsl_flash_attn_func,
)
from .flash_attn_modules import (
    build_flash_attn_dualwave_swp_fp8_module,
    build_flash_attn_dualwave_swp_module,
    build_flash_attn_func_module,
    build_flash_attn_func_module_primary,
    build_gqa_attn,
    dualwave_splitk_workspace_elems,
)

__all__ = [
    "build_flash_attn_dualwave_swp_fp8_module", "build_flash_attn_dualwave_swp_module", "build_flash_attn_func_module",
    "build_flash_attn_func_module_primary", "build_gqa_attn", "dualwave_splitk_workspace_elems", "flash_attn_func",
    "flash_attn_varlen_func", "flash_attn_with_kvcache", "flydsl_flash_attn_func",
]
