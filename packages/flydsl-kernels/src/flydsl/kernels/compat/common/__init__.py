"""Older place of the parts that kernels share: their names, and helpers for other people's kernels."""

import importlib as _importlib
from typing import Any as _Any

_HOME = {
    "flydsl.kernels.parts.reduce": ("block_reduce", "wave_reduce"),
    "flydsl.kernels.common.reduce": ("block_reduce_add", "block_reduce_add2"),
    "flydsl.kernels.common.dpp": ("dpp_xor_f32", "update_dpp_i32"),
    "flydsl.kernels.common.epilogues": ("c_shuffle_epilog", "default_epilog", "mfma_epilog"),
    "flydsl.kernels.parts.index": ("align_up", "cdiv", "compute_mcast_masks", "div", "is_pow2", "mod"),
    "flydsl.kernels.common.index": (
        "ceildiv", "pow2_shift", "split_row_major_2d", "swizzle_128", "swizzle_xor16", "tile_chunk_coord_i32",
        "udiv_const", "urem_const", "xcd_remap_bx_by",
    ),
    "flydsl.kernels.common.preshuffle": ("make_preshuffle_b_layout", "make_preshuffle_scale_layout"),
    "flydsl.kernels.common.host": (
        "_run_compiled", "cvt_sr_f32_to_bf16", "get_dtype_str", "get_dtype_vec_size", "get_warp_size",
        "stream_ptr_to_async_token", "validate_moe_dtypes",
    ),
    "flydsl.expr": ("crd2idx", "idx2crd"),
    "flydsl.kernels.target": ("default_f8_type", "target"),
    "flydsl.kernels.parts.mathx": ("exp2_f32_fast", "gelu", "rcp_f32", "relu", "rsqrt", "sigmoid", "silu", "tanh"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
# Raw buffer access is the compiler's.
_BUFFERS = ("buffer_load", "buffer_store", "create_buffer_resource", "create_buffer_resource_from_addr")

__all__ = [*_MODULE_OF, *_BUFFERS]


def __getattr__(name: str) -> _Any:
    if name in _BUFFERS:
        return getattr(_importlib.import_module("flydsl.expr.buffer_ops"), name)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_importlib.import_module(_MODULE_OF[name]), name)
