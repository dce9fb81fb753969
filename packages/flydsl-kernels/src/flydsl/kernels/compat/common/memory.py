"""Raw memory accesses of older kernels: by address, by buffer descriptor, and through one register of a copy atom.

`data` is a tensor, a pointer, an ``!llvm.ptr`` or a 64-bit address of global memory; offsets count elements.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm
from flydsl.expr.numeric import as_numeric
from flydsl.expr.rocdl.utils import call_intrinsic
from flydsl.kernels.comm.system import at
from flydsl.kernels.parts.memory import pointer

__all__ = [
    "atomic_add", "buffer_atomic_add", "copy_load", "copy_store", "element_ptr", "global_load", "global_load_i32",
    "global_load_i64x2", "global_ptr_from_addr", "global_store", "load_global_16b", "to_llvm_ptr",
]

GLOBAL = 1  # LLVM's number of the address space
_INTEGERS = {4: fx.Int32, 8: fx.Int64}
_ORDERINGS = {"monotonic": fx.AtomicOrdering.Monotonic, "acquire": fx.AtomicOrdering.Acquire,
              "release": fx.AtomicOrdering.Release, "acq_rel": fx.AtomicOrdering.AcqRel,
              "seq_cst": fx.AtomicOrdering.SeqCst}


def to_llvm_ptr(value: Any, address_space: int = GLOBAL) -> Any:
    """The ``!llvm.ptr`` of a tensor, a pointer or an address."""
    if isinstance(value, (fx.Tensor, fx.Pointer)):
        value = fx.buffer_ops.extract_base_index(value, address_space)
    return fx.buffer_ops.create_llvm_ptr(value, address_space)


def global_ptr_from_addr(addr: Any) -> Any:
    """The ``!llvm.ptr<1>`` of a 64-bit address."""
    return to_llvm_ptr(addr)


def element_ptr(data: Any, offset: Any, element: Any) -> Any:
    """Pointer (`fx.Pointer`) to element `offset` of global memory, seen as elements of the class `element`."""
    if isinstance(data, (fx.Tensor, fx.Pointer)):
        return pointer(data, element) + offset
    if isinstance(data, ir.Value) and str(data.type).startswith("!llvm.ptr"):
        data = fx.Int64(llvm.ptrtoint(fx.T.i64, data))
    return at(data, element, offset)


def global_load(data: Any, offset: Any = 0, dtype: Any = fx.Float32, count: int = 1) -> Any:
    """The value at an offset, or a vector of `count` of them, read at once; aligned to one element."""
    return fx.llvm.generic_load(element_ptr(data, offset, dtype), count=count)


def global_load_i32(data: Any, offset: Any = 0) -> Any:
    """An i32."""
    return global_load(data, offset, fx.Int32)


def global_load_i64x2(data: Any, offset: Any = 0) -> Any:
    """A vector of two i64; `offset` counts i64."""
    return global_load(data, offset, fx.Int64, 2)


def load_global_16b(data: Any, offset: Any = 0) -> Any:
    """The 16 bytes at a byte offset, as a vector of four i32."""
    return global_load(element_ptr(data, offset, fx.Int8).llvm_ptr, 0, fx.Int32, 4)


def global_store(data: Any, value: Any, offset: Any = 0) -> None:
    """Store a value or a vector at an offset that counts elements of it."""
    value = value if isinstance(value, fx.Vector) else as_numeric(value)
    fx.llvm.generic_store(element_ptr(data, offset, value.dtype), value)


def atomic_add(dst: Any, offset: Any, value: Any, *, dtype_bytes: int = 4, syncscope: str = "agent",
               ordering: Any = "monotonic", alignment: int | None = None, ptr_type: Any = None) -> Any:
    """Add to the integer or float at an offset; what was there before.

    Args:
        offset: counts elements of `dtype_bytes` bytes.
        value: a number (an integer of `dtype_bytes` if it is Python's), i32, i64, f32 or f64.
        ordering: an `fx.AtomicOrdering` or its name.
        alignment: that the address is known to have; `dtype_bytes` if it is None.
        ptr_type: the ``!llvm.ptr`` type of `dst`, where `dst` is an address that is not of global memory.

    Raises:
        ValueError: a value of another size, an alignment below it, an unknown ordering.
    """
    if isinstance(value, int) and dtype_bytes in _INTEGERS:
        value = _INTEGERS[dtype_bytes](value)
    value = as_numeric(value)
    if value.dtype.width != 8 * dtype_bytes:
        raise ValueError(f"atomic_add: a value of {dtype_bytes} bytes is needed (dtype_bytes), got {value.dtype}")
    if alignment is not None and alignment < dtype_bytes:
        raise ValueError(f"atomic_add: {dtype_bytes} bytes are added to at a multiple of them, not of {alignment}")
    if not isinstance(ordering, fx.AtomicOrdering):
        if ordering not in _ORDERINGS:
            raise ValueError(f"atomic_add: the ordering must be one of {', '.join(_ORDERINGS)}, got {ordering!r}")
        ordering = _ORDERINGS[ordering]
    if ptr_type is None:
        place = element_ptr(dst, offset, value.dtype)
    else:
        address = fx.Int64(dst) + fx.Int64(offset) * dtype_bytes
        place = llvm.inttoptr(ptr_type, address.ir_value())
    return fx.llvm.atomic_add(place, value, syncscope=syncscope, ordering=ordering)


def buffer_atomic_add(vdata: Any, rsrc: Any, offset: Any, soffset: Any = 0, aux: int = 0) -> Any:
    """Add an i32, an f32 or a pair of 16-bit floats in the memory of a buffer descriptor; what was there before.

    Args:
        rsrc: from `create_buffer_resource`.
        offset, soffset: bytes, of the lane and of the wave.
        aux: cache bits.

    Raises:
        TypeError: another type.
    """
    pair = isinstance(vdata, fx.Vector) and vdata.numel == 2 and vdata.dtype in (fx.Float16, fx.BFloat16)
    vdata = vdata if isinstance(vdata, fx.Vector) else as_numeric(vdata)
    if not pair and (isinstance(vdata, fx.Vector) or vdata.dtype not in (fx.Int32, fx.Uint32, fx.Float32)):
        raise TypeError(f"buffer_atomic_add: an i32, an f32 or two f16 or bf16 are needed, got {vdata!r}")
    data = vdata.ir_value()
    suffix, result = str(data.type), data.type
    if isinstance(vdata, fx.Vector):
        suffix = f"v{vdata.numel}{vdata.dtype.ir_type}"
    kind = "fadd" if vdata.dtype.is_float else "add"
    integers = [fx.Int32(v).ir_value() for v in (offset, soffset, aux)]
    old = call_intrinsic(f"llvm.amdgcn.raw.ptr.buffer.atomic.{kind}.{suffix}", [data, rsrc, *integers], result)
    return fx.Vector(old, (vdata.numel,), vdata.dtype) if isinstance(vdata, fx.Vector) else vdata.dtype(old)


def _at(view: Any, offset: Any, register: Any) -> Any:
    return fx.make_view(fx.get_iter(view) + offset, fx.get_layout(register))


def copy_load(view: Any, offset: Any, atom: Any, register: Any) -> Any:
    """Copy what a register tensor holds from a view at an offset, and give it as a vector."""
    fx.copy(atom, _at(view, offset, register), register)
    return register.load()


def copy_store(view: Any, offset: Any, atom: Any, register: Any, value: Any) -> None:
    """Put a vector in a register tensor and copy it to a view at an offset."""
    register.store(value)
    fx.copy(atom, register, _at(view, offset, register))
