"""gfx1250: copies from global memory to LDS that bypass registers; a lane has addresses of its own on both sides."""

from __future__ import annotations

import flydsl.layout as algebra
from flydsl._mlir import ir
from flydsl.tracing.locations import dsl_loc_tracing

from .. import _emit
from .._target import require_feature
from ..primitive import AddressSpace, add_offset, crd2idx, get_iter, get_layout, get_scalar
from ..primitive.bounds import divisor
from ..primitive.memory import access_ptr
from ..values.plain import plain
from ..values.tensor import Tensor, address_space_of
from .universal import ASYNC_BYTES, global_load_async_to_lds

__all__ = ["async_copy"]


def _chunk(tensor: Tensor, what: str) -> tuple[int, int]:
    """(values of mode 0, calls) of a partition. ValueError unless its values are known to be consecutive."""
    ty, swizzles, offsets = tensor.type.layout, [], []
    while not hasattr(ty, "shape"):
        swizzles.append(ty.inner)
        offsets.append(ty.offset)
        ty = ty.outer
    if not ty.is_static_shape or ty.rank < 2:
        raise ValueError(f"async_copy: {what} {tensor} needs a static shape (values, repeats...), as a partition of "
                         "a tile has")
    layout = plain(ty)
    values, first = int(algebra.size(layout.shape[0])), algebra.coalesce(layout[0])
    if values > 1 and not (first.is_static and first.stride == 1):
        raise ValueError(f"async_copy moves consecutive elements, but those of mode 0 of the {what} {tensor} are not "
                         "known to be")
    for swizzle in swizzles:
        # Chunks that it permutes are of 2^base elements; every access must lie in one.
        starts = [divisor(offset) for offset in offsets if offset.is_leaf]
        if not hasattr(swizzle, "base") or (1 << swizzle.base) < values or any(n % values for n in starts):
            raise ValueError(f"async_copy moves {values} elements at once, but the swizzle of the {what} {tensor} "
                             "takes them apart: give it a larger base, and rows that are multiples of it")
    return values, int(algebra.size(layout.shape)) // values


@dsl_loc_tracing
def async_copy(src: Tensor, dst: Tensor, *, cache_policy: int = 0) -> None:
    """Start copying a partition of global memory to the partition of a tile in LDS (gfx1250), without registers.

    Both are ``(values, repeats...)`` with one static shape: what ``partition_S`` and ``partition_D`` of a tiled copy
    give a thread. The values of each repeat are consecutive on both sides and have 1, 4, 8 or 16 bytes. Every lane
    has addresses of its own, so any layout of the tile in LDS will do, padded and swizzled ones too.

    The copy ends some time later: ``s_wait_asynccnt(n)`` waits until at most n instructions (one a repeat) are in
    flight. `fx.Direct` derives that.

    Raises:
        ValueError: another target, or views that do not fit. TypeError: operands that are no such tensors.
    """
    require_feature("async_copy", "async_lds_copy", "; use a direct copy (BufferCopyLDS), or copy through registers")
    for tensor, what, space in ((src, "source", AddressSpace.Global), (dst, "destination", AddressSpace.Shared)):
        if not isinstance(tensor, Tensor) or tensor.is_coord_tensor or address_space_of(tensor.type) != space:
            raise TypeError(f"async_copy: the {what} must be a tensor in {space.name} memory, got {tensor}")
    if src.type.element_type != dst.type.element_type:
        raise ValueError(f"async_copy: element types mismatch: {src} and {dst}; recast one of them")
    (values, calls), (held, repeats) = _chunk(src, "source"), _chunk(dst, "destination")
    size = values * _emit.bit_width(src.type.element_type)
    if (values, calls) != (held, repeats):
        raise ValueError(f"async_copy: {src} and {dst} have different shapes")
    if size % 8 or size // 8 not in ASYNC_BYTES:
        raise ValueError(f"async_copy moves 1, 4, 8 or 16 bytes at once, but mode 0 of {src} has {size} bits")
    moved = ir.VectorType.get([values], src.type.element_type)
    for call in range(calls):
        first, second = (
            access_ptr(add_offset(get_iter(tensor), get_scalar(crd2idx(call * values, get_layout(tensor)))), moved)
            for tensor in (src, dst))
        global_load_async_to_lds(first, second, size // 8, cpol=cache_policy)
