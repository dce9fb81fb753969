"""Older name of helpers that the kernels share; see :mod:`flydsl.kernels.common`."""

from flydsl.kernels.common.host import (
    _run_compiled,
    cvt_sr_f32_to_bf16,
    dtype_to_elem_type,
    get_dtype_str,
    get_dtype_vec_size,
    get_warp_size,
    stream_ptr_to_async_token,
    validate_moe_dtypes,
)
from flydsl.kernels.common.index import ceildiv, xcd_remap_bx_by
from flydsl.kernels.host.dtypes import element_of as get_dtype_in_kernel
from flydsl.kernels.parts.index import align_up, cdiv, is_pow2
from flydsl.kernels.target import default_f8_type

__all__ = [
    "_run_compiled", "align_up", "cdiv", "ceildiv", "cvt_sr_f32_to_bf16", "default_f8_type", "dtype_to_elem_type",
    "get_dtype_in_kernel", "get_dtype_str", "get_dtype_vec_size", "get_warp_size", "is_pow2",
    "stream_ptr_to_async_token", "validate_moe_dtypes", "xcd_remap_bx_by",
]
