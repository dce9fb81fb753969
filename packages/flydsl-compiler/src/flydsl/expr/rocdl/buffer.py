"""Buffer resources: pointers and tensors whose accesses the hardware bounds-checks."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, fly_rocdl
from flydsl.tracing.locations import dsl_loc_tracing, note_buffer_argument

from .. import _emit
from .._target import target_row
from ..numeric import Int64
from ..primitive import cosize, get_iter, get_layout, get_scalar, make_ptr, make_view
from ..values.ends import note_end
from ..values.tensor import Pointer, Tensor, address_space_of
from .enum import TargetAddressSpace

__all__ = ["MAX_RECORDS", "buffer_flags", "get_buffer_rsrc", "make_buffer_ptr", "make_buffer_tensor"]

MAX_RECORDS = 0xFFFFFFFF


def buffer_flags(checked: bool) -> int:
    """Word 3 of the target's descriptor. `checked`: an explicit size, so that RDNA checks bounds as well."""
    row = target_row()
    return row.buffer_rsrc_flags_checked if checked else row.buffer_rsrc_flags


def _int_type(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


@dsl_loc_tracing
def make_buffer_ptr(ptr: Pointer, num_records_bytes: Any = None) -> Pointer:
    """Buffer pointer from a global one; `num_records_bytes` is the size that accesses are checked against."""
    from flydsl._mlir.dialects import fly

    if not isinstance(ptr, Pointer) or address_space_of(ptr.type) != fly.AddressSpace.Global:
        raise ValueError(f"make_buffer_ptr requires a global-address-space pointer, got {ptr}")
    if num_records_bytes is None:
        records = _emit.constant(_int_type(64), MAX_RECORDS)
    elif isinstance(num_records_bytes, int):
        records = _emit.constant(_int_type(64), min(max(num_records_bytes, 0), MAX_RECORDS))
    else:
        records = Int64(num_records_bytes).ir_value()
    flags = buffer_flags(num_records_bytes is not None)
    args = [ptr, _emit.constant(_int_type(16), 0), records, _emit.constant(_int_type(32), flags)]
    ty = fly.PointerType.get(ptr.type.element_type, TargetAddressSpace.BufferDesc, ptr.type.alignment)
    return make_ptr(ty, args)


@dsl_loc_tracing
def make_buffer_tensor(tensor: Tensor, max_size: bool = False, *, num_records_bytes: Any = None) -> Tensor:
    """The tensor through a buffer resource, same layout.

    The resource ends with the last element of the layout: a load beyond it gives zero, a store there does nothing.
    `num_records_bytes` is another size, and ``max_size=True`` gives 4 GiB, for views that reach beyond the tensor.
    Elements of 8 and 16 bits are copied one by one (where the copy is not bounded or predicated) if the end, or a row,
    may be inside of a 32-bit word, of which the hardware would drop all; an argument with a run-time layout is looked
    at when the function is called, and the code of whole words is that of wide accesses.
    Offsets have 32 bits: a launch refuses an argument of over 4 GiB that is used whole. Slice it before.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"make_buffer_tensor expects a Tensor, got {type(tensor).__name__}")
    layout = get_layout(tensor)
    bounded = num_records_bytes is None and not max_size
    if num_records_bytes is None:
        note_buffer_argument(tensor)
    if bounded:
        bits = _emit.bit_width(tensor.type.element_type)
        bits = 8 if bits == 1 else bits  # a Boolean takes a byte in memory
        elements = get_scalar(cosize(layout))
        # In 64 bits: tensors over 2 GiB must not wrap.
        elements = elements if isinstance(elements, int) else Int64(elements)
        num_records_bytes = (elements * bits + 7) // 8 if bits % 8 else elements * (bits // 8)
        if not isinstance(num_records_bytes, int):  # 4 GiB exactly would be 0 in the 32 bits of the descriptor
            largest = _emit.constant(_int_type(64), MAX_RECORDS)
            num_records_bytes = Int64(arith.MinUIOp(num_records_bytes.ir_value(), largest).result)
    pointer = make_buffer_ptr(get_iter(tensor), num_records_bytes)
    if bounded:
        note_end(pointer, tensor)
    return make_view(pointer, layout)


@dsl_loc_tracing
def get_buffer_rsrc(ptr: Pointer) -> ir.Value:
    """The ``!llvm.ptr<8>`` resource of a buffer pointer; its offset is not included."""
    if not isinstance(ptr, Pointer) or str(ptr.type.address_space) != str(TargetAddressSpace.BufferDesc):
        raise ValueError(f"get_buffer_rsrc requires a buffer_desc pointer, got {ptr}")
    return fly_rocdl.get_buffer_rsrc(ptr)
