"""Older place of the parts that kernels share: their names, and helpers for other people's kernels."""

import importlib as _importlib
from typing import Any as _Any

_HOME = {
    "flydsl.kernels.parts.reduce": ("block_reduce", "wave_reduce"),
    "flydsl.kernels.common.reduce": ("block_reduce_add", "block_reduce_add2"),
    "flydsl.kernels.common.dpp": ("dpp_xor_f32", "update_dpp_i32"),
    "flydsl.kernels.common.epilogues": ("c_shuffle_epilog", "default_epilog", "mfma_epilog"),
    "flydsl.kernels.parts.index": ("align_up", "cdiv", "div", "is_pow2", "mod"),
    "flydsl.kernels.common.index": (
        "ceildiv", "compute_global_swizzle", "pow2_shift", "split_row_major_2d", "swizzle_128", "swizzle_xor16",
        "tile_chunk_coord_i32", "udiv_const", "urem_const", "xcd_remap_bx_by",
    ),
    "flydsl.kernels.common.memory": (
        "atomic_add", "buffer_atomic_add", "copy_load", "copy_store", "element_ptr", "global_load", "global_load_i32",
        "global_load_i64x2", "global_ptr_from_addr", "global_store", "load_global_16b", "to_llvm_ptr",
    ),
    "flydsl.kernels.common.views": ("GTensor", "STensor"),
    "flydsl.kernels.common.waits": ("anchor", "barrier", "wait_barrier"),
    "flydsl.kernels.common.preshuffle": ("make_preshuffle_b_layout", "make_preshuffle_scale_layout"),
    "flydsl.kernels.common.host": (
        "_run_compiled", "cvt_sr_f32_to_bf16", "dtype_to_elem_type", "get_dtype_str", "get_dtype_vec_size",
        "get_warp_size", "stream_ptr_to_async_token", "validate_moe_dtypes",
    ),
    "flydsl.expr.rocdl.cluster": ("compute_mcast_masks",),
    "flydsl.expr": ("crd2idx", "get", "idx2crd"),
    "flydsl.expr.buffer_ops": (
        "buffer_load", "buffer_store", "create_buffer_resource", "create_buffer_resource_from_addr",
    ),
    "flydsl.kernels.target": ("default_f8_type", "target"),
    "flydsl.kernels.parts.mathx": ("gelu", "relu", "rsqrt", "sigmoid", "silu", "tanh"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_RENAMED = {
    "exp2_amdgcn_scalar": ("flydsl.kernels.parts.mathx", "exp2"),
    "exp2_f32_fast": ("flydsl.kernels.parts.mathx", "exp2"), "rcp_f32": ("flydsl.kernels.parts.mathx", "rcp"),
    "get_dtype_in_kernel": ("flydsl.kernels.host.dtypes", "element_of"), "maxnum": ("flydsl.expr.arith", "maxnumf"),
}
_ABSENT = (
    "G2SLoader", "Mfma16x16x128", "S2RLoader", "StoreC", "TiledMmaDriver", "TorchTensor", "buffer_copy_gmem16_dwordx4",
    "lds_load_pack_k32", "lds_store_16b_xor16", "lds_store_4b_xor16", "lds_store_8b_xor16", "load_b_pack_k32",
    "load_b_raw_w4a16", "make_fp8_buffer_tensor", "unpack_b_w4a16", "unpack_b_w4a16_groupwise",
)
__all__ = [*_MODULE_OF, *_RENAMED, *_ABSENT]


def absent(name: str, instead: str) -> _Any:
    """A function of this name, so that programs that import it and do not call it run: NotImplementedError otherwise.

    Args:
        instead: what does the same here.
    """

    def function(*given: _Any, **named: _Any) -> _Any:
        raise NotImplementedError(f"{name} is not available: flydsl.kernels has only its name; use {instead}")

    function.__name__ = function.__qualname__ = name
    return function


def __getattr__(name: str) -> _Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ABSENT:
        return absent(name, "the copies and products of flydsl.expr, or flydsl.kernels.parts")
    module, own = _RENAMED.get(name) or (_MODULE_OF[name], name)
    return getattr(_importlib.import_module(module), own)
