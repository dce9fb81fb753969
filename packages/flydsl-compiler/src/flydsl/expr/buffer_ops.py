"""Raw AMD buffer access without layouts. New code uses `fx.rocdl.make_buffer_tensor` and buffer copies."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith, fly, llvm, memref, rocdl, scf
from flydsl.tracing.locations import dsl_loc_tracing, note_buffer_argument

from . import _emit
from ._emit import mlir_type
from ._target import target_row
from .numeric import Numeric
from .rocdl.utils import call_intrinsic, operand
from .values.tensor import Pointer, Tensor

__all__ = [
    "BufferResourceDescriptor", "buffer_load", "buffer_store", "create_buffer_resource",
    "create_buffer_resource_from_addr", "create_llvm_ptr", "extract_base_index", "get_element_ptr",
]

_MAX_RECORDS = 0xFFFFFFFF
# Past every buffer whose size is given: a masked lane's access is dropped.
_MASKED_OFFSET = 0x7FFFFFFF
_GEP_DYNAMIC = -(2**31)


def _int(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def _as_int(value: Any, bits: int) -> ir.Value:
    raw = operand(value, _int(bits))
    return _emit.int_resize(raw, _int(bits), getattr(raw, "signed", True) is not False)


@dsl_loc_tracing
def create_llvm_ptr(value: Any, address_space: int = 0) -> ir.Value:
    """``!llvm.ptr<address_space>`` from an integer or index address."""
    ty = ir.Type.parse(f"!llvm.ptr<{address_space}>" if address_space else "!llvm.ptr")
    return llvm.inttoptr(ty, _as_int(value, 64))


@dsl_loc_tracing
def get_element_ptr(base_ptr: Any, byte_offset: Any = None, static_byte_offset: int = 0, elem_type: Any = None,
                    no_wrap_flags: Any = None) -> ir.Value:
    """`llvm.getelementptr` over `elem_type` (default i8) by the dynamic plus the static offset."""
    if not isinstance(static_byte_offset, int):
        raise TypeError(f"static_byte_offset must be an int, got {type(static_byte_offset).__name__}")
    element = _int(8) if elem_type is None else mlir_type(elem_type)
    flags = 0 if no_wrap_flags is None else no_wrap_flags
    if byte_offset is None:
        return llvm.getelementptr(base_ptr.type, base_ptr, [], [static_byte_offset], element, flags)
    offset = operand(byte_offset)
    if _emit.is_index_type(offset.type):
        offset = _as_int(offset, 64)
    if static_byte_offset:
        offset = arith.addi(offset, _emit.constant(offset.type, static_byte_offset))
    return llvm.getelementptr(base_ptr.type, base_ptr, [offset], [_GEP_DYNAMIC], element, flags)


@dsl_loc_tracing
def extract_base_index(tensor: Any, address_space: int = 1) -> ir.Value:
    """Base address of a tensor or pointer as an index value."""
    if not isinstance(tensor, (Tensor, Pointer)):
        return memref.extract_aligned_pointer_as_index(tensor)
    ptr_type = ir.Type.parse(f"!llvm.ptr<{address_space}>")
    pointer = fly.extract_aligned_pointer_as_index(ptr_type, tensor)
    return arith.index_cast(ir.IndexType.get(), llvm.ptrtoint(_int(64), pointer))


def _base_pointer(value: Any) -> ir.Value:
    ptr_type = ir.Type.parse("!llvm.ptr<1>")
    if isinstance(value, (Tensor, Pointer)):
        return fly.extract_aligned_pointer_as_index(ptr_type, value)
    return llvm.inttoptr(ptr_type, _as_int(memref.extract_aligned_pointer_as_index(value), 64))


def _records(num_records_bytes: Any, memref_val: Any, max_size: bool) -> ir.Value:
    if num_records_bytes is None and not max_size and isinstance(getattr(memref_val, "type", None), ir.MemRefType):
        ty = ir.MemRefType(memref_val.type)
        if ty.has_static_shape:
            num_records_bytes = _emit.bit_width(ty.element_type) // 8
            for extent in ty.shape:
                num_records_bytes *= extent
    if num_records_bytes is None:
        num_records_bytes = _MAX_RECORDS
    if isinstance(num_records_bytes, int):
        return _emit.constant(_int(64), min(max(num_records_bytes, 0), _MAX_RECORDS))
    return _as_int(num_records_bytes, 64)


def _descriptor(base: ir.Value, records: ir.Value, stride: Any = 0, *, checked: bool = False) -> ir.Value:
    from .rocdl.buffer import buffer_flags

    # RDNA checks bounds only where the descriptor says so: with a size of the user's, masked accesses rely on it.
    flags = buffer_flags(checked)
    rsrc = ir.Type.parse("!llvm.ptr<8>")
    return rocdl.make_buffer_rsrc(rsrc, base, _as_int(stride, 16), records, _emit.constant(_int(32), flags))


@dsl_loc_tracing
def create_buffer_resource(memref_val: Any, stride: Any = 0, max_size: bool = True, *, num_records_bytes: Any = None,
                           base_byte_offset: Any = None) -> ir.Value:
    """Buffer descriptor (``!llvm.ptr<8>``) of a tensor; accesses are checked against `num_records_bytes`."""
    base = _base_pointer(memref_val)
    if base_byte_offset is not None:
        base = get_element_ptr(base, base_byte_offset)
    elif num_records_bytes is None:
        note_buffer_argument(memref_val)  # offsets have 32 bits
    records = _records(num_records_bytes, memref_val, max_size)
    return _descriptor(base, records, stride, checked=num_records_bytes is not None)


@dsl_loc_tracing
def create_buffer_resource_from_addr(addr_i64: Any, *, num_records_bytes: Any = None) -> ir.Value:
    """Buffer descriptor of a raw 64-bit address."""
    records = _records(num_records_bytes, None, True)
    return _descriptor(create_llvm_ptr(addr_i64, 1), records, checked=num_records_bytes is not None)


def _byte_offset(offset: Any, element: ir.Type, in_bytes: bool) -> ir.Value:
    value = _as_int(offset, 32)
    size = max(1, _emit.bit_width(element) // 8)
    return value if in_bytes or size == 1 else arith.muli(value, _emit.constant(_int(32), size))


def _masked_offset(rsrc: ir.Value) -> int | None:
    """An offset at which an access of the resource is dropped; None where the hardware may not check it.

    CDNA checks every access, and no buffer of 32-bit size reaches the last byte. Elsewhere only resources whose
    size is given are checked (RDNA), or the size is rounded up (gfx1250).
    """
    if target_row().has("buffer_checks_all"):
        return 0xFFFFFFFF
    maker = rsrc.owner
    if isinstance(maker, ir.Block) or maker.name != "rocdl.make.buffer.rsrc":
        return None
    size = maker.operands[2].owner
    known = not isinstance(size, ir.Block) and size.name == "arith.constant"
    unlimited = known and size.attributes["value"].value == _MAX_RECORDS
    return None if unlimited else _MASKED_OFFSET


def _masked(rsrc: ir.Value, offset: ir.Value, mask: Any, result: ir.Type | None, access: Any) -> Any:
    """``access(offset)`` where `mask` holds; lanes without get zeros and touch no memory."""
    if mask is None:
        return access(offset)
    condition = _emit.to_i1(operand(mask))
    outside = _masked_offset(rsrc)
    if outside is not None:
        return access(arith.select(condition, offset, _emit.constant(_int(32), outside)))
    branch = scf.IfOp(condition, [] if result is None else [result], has_else=result is not None)
    with ir.InsertionPoint(branch.then_block):
        value = access(offset)
        scf.YieldOp([] if result is None else [value])
    if result is None:
        return None
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([_emit.constant(result, 0)])
    return branch.results[0].maybe_downcast()


@dsl_loc_tracing
def buffer_load(rsrc: Any, offset: Any, vec_width: int = 4, dtype: Any = None, mask: Any = None,
                cache_modifier: int = 0, soffset_bytes: Any = None, is_scalar: bool = False) -> Any:
    """Load `vec_width` elements at an element offset; lanes with a false `mask` get 0."""
    element = ir.F32Type.get() if dtype is None else mlir_type(dtype)
    if is_scalar:
        if mask is not None or soffset_bytes is not None:
            raise ValueError("a scalar buffer load takes neither mask nor soffset_bytes")
        return _scalar_load(rsrc, offset, vec_width, element, cache_modifier)
    ty = element if vec_width == 1 else ir.VectorType.get([vec_width], element)
    soffset = _as_int(0 if soffset_bytes is None else soffset_bytes, 32)
    aux = _emit.constant(_int(32), cache_modifier)
    address = _byte_offset(offset, element, False)
    return _masked(rsrc, address, mask, ty, lambda at: rocdl.raw_ptr_buffer_load(ty, rsrc, at, soffset, aux))


def _scalar_load(rsrc: Any, offset: Any, vec_width: int, element: ir.Type, cache_modifier: int) -> Any:
    if vec_width not in (1, 4) or _emit.bit_width(element) != 32:
        raise ValueError("a scalar buffer load reads 1 or 4 elements of 32 bits")
    words = ir.VectorType.get([4], _int(32))
    address = llvm.ptrtoint(_int(128), rsrc)
    descriptor = llvm.bitcast(words, address)
    suffix, ty = ("i32", _int(32)) if vec_width == 1 else ("v4i32", words)
    operands = [descriptor, _byte_offset(offset, element, False), _emit.constant(_int(32), cache_modifier)]
    return call_intrinsic(f"llvm.amdgcn.s.buffer.load.{suffix}", operands, ty)


@dsl_loc_tracing
def buffer_store(data: Any, rsrc: Any, offset: Any, mask: Any = None, cache_modifier: int = 0, *,
                 soffset_bytes: Any = None, offset_is_bytes: bool = False) -> None:
    """Store a scalar or vector at an element (or byte) offset; lanes with a false `mask` store nothing."""
    value = data.ir_value() if isinstance(data, Numeric) else operand(data)
    element = _emit.element_type(value.type)
    soffset = _as_int(0 if soffset_bytes is None else soffset_bytes, 32)
    aux = _emit.constant(_int(32), cache_modifier)
    address = _byte_offset(offset, element, offset_is_bytes)
    _masked(rsrc, address, mask, None, lambda at: rocdl.raw_ptr_buffer_store(value, rsrc, at, soffset, aux))


class BufferResourceDescriptor:
    """Holder of a buffer descriptor in `.rsrc`."""

    def __init__(self, rsrc: ir.Value) -> None:
        self.rsrc = rsrc

    @staticmethod
    def from_memref(memref_val: Any, stride: Any = 0, max_size: bool = True, data_format: str = "f32",
                    num_records_bytes: Any = None,
                    base_byte_offset: Any = None) -> BufferResourceDescriptor:
        """Descriptor of a tensor; `data_format` is informative (raw accesses ignore it)."""
        return BufferResourceDescriptor(
            create_buffer_resource(
                memref_val, stride, max_size, num_records_bytes=num_records_bytes, base_byte_offset=base_byte_offset
            )
        )
