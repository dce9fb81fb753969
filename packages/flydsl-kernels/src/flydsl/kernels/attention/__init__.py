"""Attention: softmax(Q K^T) V, forward and backward."""

import importlib as _importlib
from typing import Any as _Any

from .backward import build_attention_backward
from .forward import build_attention_forward

# Builders and functions with the signatures of existing callers, which are imported when they are used.
_OLDER = {
    name: module for module, names in {
        "flash_attn_callers": "flash_attn_func flash_attn_varlen_func flash_attn_with_kvcache flydsl_flash_attn_func",
        "flash_attn_modules": "build_flash_attn_dualwave_swp_fp8_module build_flash_attn_dualwave_swp_module "
                              "build_flash_attn_func_module build_flash_attn_func_module_primary build_gqa_attn "
                              "dualwave_splitk_workspace_elems",
        "pa_decode_fp8": "compile_pa_decode_metadata compile_pa_decode_sw compile_pa_decode_sw_reduce "
                         "compile_pa_decode_tile compile_pa_metadata_reduce compile_pa_metadata_v1 get_pa_metadata "
                         "get_recommended_splits pa_decode_ps_launch pa_decode_tile pa_metadata_reduce",
        "mla_fwd_decode": "flydsl_mla_fwd_decode flydsl_mla_reduce_v1 launch_mla_fwd_decode_m16x8_fp8_fp8",
    }.items() for name in names.split()
}

__all__ = [*_OLDER, "build_attention_backward", "build_attention_forward"]


def __getattr__(name: str) -> _Any:
    if name in _OLDER:
        return getattr(_importlib.import_module(f"flydsl.kernels.{_OLDER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
