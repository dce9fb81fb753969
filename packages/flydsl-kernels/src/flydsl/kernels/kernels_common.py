"""Older name of helpers that the kernels share."""

from .common.arch import default_f8_type, target
from .common.dtypes import element_of as dtype_to_elem_type
from .common.index import align_up, cdiv, is_pow2, xcd_remap_bx_by

__all__ = [
    "align_up", "cdiv", "default_f8_type", "dtype_to_elem_type", "get_warp_size", "is_pow2", "xcd_remap_bx_by",
]  # fmt: skip


def get_warp_size(arch: str | None = None) -> int:
    """Lanes of a wave of `arch`, or of the current architecture."""
    return target(arch).wave
