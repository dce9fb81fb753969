"""Pointers, views, register fragments and element access."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.ambient import kernel_scope
from flydsl.tracing.locations import dsl_loc_tracing

from .. import _emit
from .._emit import mlir_type
from .._functions import functions
from .._lanes import FragmentLanes, numel
from .._vector import Vector
from ..numeric import Numeric, NumericMeta
from ..utils.convert import as_ir_value
from ..values.base import FlyValue, require
from ..values.bounds import check_coordinate, check_view
from ..values.element import element_class_of, linear_layout, note_element_class, note_stored
from ..values.ends import WHOLE, end_of
from ..values.int_tuple import IntTuple, check_profile, is_congruent, to_int_tuple
from ..values.layout import ComposedLayout, Layout, Swizzle
from ..values.tensor import Pointer, Tensor, address_space_of, convert_for_store
from .layouts import make_ordered_layout

# AMDGPU LLVM address spaces.
_LLVM_SPACE = {"Generic": 0, "Global": 1, "Shared": 3, "Register": 5}


_STATIC_TILE = (": take a tile of the tensor, e.g. fx.flat_divide(X, (BM, BN))[None, None, i, j], or pass "
                "flyc.from_dlpack(x), whose extents are static")


def _space_name(pointer: Pointer) -> str:
    """Name of the generic address space; empty for a target-specific one."""
    space = address_space_of(pointer.type)
    return space.name if isinstance(space, fly.AddressSpace) else ""


# --------------------------------------------------------------------------- elements of 2 to 7 bits


def _packed_bits(element: Any) -> int:
    """Bits of an element type of which several share a byte; 0 for one that has bytes of its own (so has i1)."""
    if isinstance(element, ir.VectorType):
        return 0
    bits = _emit.bit_width(element)
    return bits if 1 < bits < 8 else 0


def _packed_error(bits: int, what: str) -> ValueError:
    return ValueError(f"{what}: elements of {bits} bits share bytes. Load or store a vector of whole bytes "
                      "(tensor.load(), a copy atom), or recast to Uint8 and shift")


def _check_packed_offset(offset: IntTuple, bits: int, what: str) -> None:
    """ValueError unless a pointer moved by that many elements is known to be at a byte."""
    if not offset.is_static:
        raise _packed_error(bits, f"{what} at a run-time offset")
    if offset.get_static_leaf_int * bits % 8:
        raise _packed_error(bits, f"{what} at the element {offset.get_static_leaf_int}, inside of a byte")


def _check_packed_load(pointer: Pointer, loaded: ir.Type) -> None:
    """ValueError for a load of one element of which it is not known that it starts a byte."""
    bits = _packed_bits(loaded)
    moved = pointer.owner if bits and _space_name(pointer) != "Register" else None
    if isinstance(moved, fly.AddOffsetOp):
        _check_packed_offset(moved.offset, bits, "a load of one element")


def _check_packed_access(memref: Tensor, index: IntTuple, store: bool) -> None:
    """ValueError for access to a single element that cannot be reached by itself."""
    bits = 0 if memref.is_coord_tensor else _packed_bits(memref.type.element_type)
    if not bits:
        return
    what = "a store of one element" if store else "a load of one element"
    if str(address_space_of(memref.type)) == str(fly.AddressSpace.Register):
        if not index.is_static:  # with known indices a fragment is a vector, whose lanes need no address
            raise _packed_error(bits, f"{what} at a run-time index")
        return
    if store:
        raise _packed_error(bits, what)
    layout = memref.type.layout
    if not index.is_static or isinstance(layout, fly.ComposedLayoutType) or not layout.is_static:
        raise _packed_error(bits, f"{what} at a run-time offset")
    _check_packed_offset(fly.crd2idx(index, fly.get_layout(memref)), bits, what)


# --------------------------------------------------------------------------- pointers


def attribute(value: Any) -> ir.Attribute:
    """A Python value as an MLIR attribute (ints are i64)."""
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    raise TypeError(f"cannot make an attribute from {type(value).__name__}")


@dsl_loc_tracing
def make_ptr(result_type: ir.Type, args: Any, *, dict_attrs: Any = None) -> Pointer:
    """Target-specific pointer construction or allocation; `dict_attrs` are its parameters."""
    require(result_type, fly.PointerType, "the type of make_ptr")
    require(args, (tuple, list), "the arguments of make_ptr")
    attrs = None
    if dict_attrs is not None:
        require(dict_attrs, (dict, ir.DictAttr), "the attributes of make_ptr")
        attrs = dict_attrs if isinstance(dict_attrs, ir.Attribute) else ir.DictAttr.get(
            {name: attribute(value) for name, value in dict_attrs.items()}
        )
    return fly.make_ptr(result_type, [as_ir_value(a) for a in args], dict_attrs=attrs)


@dsl_loc_tracing
def get_dyn_shared(dtype: Any = None) -> Pointer:
    """Base of dynamic shared memory: i8 aligned to 1024 bytes, recast to `dtype` when given."""
    base = fly.get_dyn_shared()
    return base if dtype is None else recast_iter(dtype, base)


@functions.announce
@dsl_loc_tracing
def inttoptr(ptr_type: ir.Type, value: Any) -> Pointer:
    """Pointer from an integer address. ValueError for register pointers."""
    require(ptr_type, fly.PointerType, "the type of inttoptr")
    if str(address_space_of(ptr_type)) == str(fly.AddressSpace.Register):
        raise ValueError("inttoptr: register memory has no address")
    return fly.inttoptr(ptr_type, as_ir_value(value))


@functions.announce
@dsl_loc_tracing
def ptrtoint(pointer: Pointer) -> Any:
    """Address as Int32 (shared) or Int64 (global). ValueError for other spaces."""
    require(pointer, Pointer, "ptrtoint's operand")
    if _space_name(pointer) not in ("Shared", "Global"):
        raise ValueError(f"ptrtoint supports shared and global pointers, got {pointer}")
    return Numeric.from_python_value(fly.ptrtoint(pointer))


@functions.announce
@dsl_loc_tracing
def to_llvm_ptr(pointer: Pointer) -> ir.Value:
    """``!llvm.ptr`` in the AMDGPU address space. ValueError for target-specific spaces."""
    name = _space_name(require(pointer, Pointer, "to_llvm_ptr's operand"))
    if not name:
        raise ValueError(f"to_llvm_ptr: {pointer} is in a target-specific address space")
    return fly.to_llvm_ptr(pointer, _LLVM_SPACE[name])


def access_ptr(pointer: Pointer, accessed: ir.Type) -> ir.Value:
    """The LLVM pointer for an access of that type: LLVM knows of no swizzle, which is applied to the address.

    ValueError where the swizzle takes the bytes of the access apart.
    """
    swizzle = pointer.type.swizzle
    if not swizzle.mask:
        return to_llvm_ptr(pointer)
    lanes = numel(accessed.shape) if isinstance(accessed, ir.VectorType) else 1
    run, size = 1 << swizzle.base, lanes * _emit.bit_width(accessed) // 8
    if run % size:
        raise ValueError(f"{pointer} keeps only {run} bytes together, but the access of a {accessed} takes {size}")
    address = ptrtoint(pointer)
    moved = (address & ((1 << swizzle.mask) - 1 << swizzle.base + swizzle.shift)) >> swizzle.shift
    plain = fly.PointerType.get(pointer.type.element_type, pointer.address_space, pointer.alignment)
    return to_llvm_ptr(inttoptr(plain, address ^ moved))


@functions.announce
@dsl_loc_tracing
def add_offset(base: Any, offset: Any) -> Any:
    """Advance a pointer by elements, or add a coordinate to an int-tuple."""
    offset = to_int_tuple(offset)
    if isinstance(base, Pointer) and not offset.is_leaf:
        raise ValueError(f"a pointer offset is a single integer, got {offset}")
    bits = _packed_bits(base.type.element_type) if isinstance(base, Pointer) else 0
    if bits and offset.is_static:
        _check_packed_offset(offset, bits, "a pointer")
    return fly.add_offset(base if isinstance(base, FlyValue) else to_int_tuple(base), offset)


@dsl_loc_tracing
def apply_swizzle(pointer: Pointer, swizzle: Swizzle) -> Pointer:
    """Attach a swizzle to the pointer type."""
    return fly.apply_swizzle(require(pointer, Pointer, "pointer"), require(swizzle, Swizzle, "swizzle"))


@functions.announce
@dsl_loc_tracing
def recast_iter(target: Any, pointer: Pointer) -> Pointer:
    """Reinterpret the element type; space, alignment and swizzle (of the bytes) are kept.

    `target` is a Numeric class or a pointer type. ValueError when the alignment is too small.
    """
    if isinstance(target, fly.PointerType):
        return fly.recast_iter(target, pointer)
    element = getattr(target, "alias_dtype", target)
    if not isinstance(element, NumericMeta):
        raise TypeError(f"recast_iter expects a Numeric class or a pointer type, got {target!r}")
    source = require(pointer, Pointer, "recast_iter's operand").type
    size = max(1, element.width // 8)
    if source.alignment % size:
        raise ValueError(f"recast_iter: {pointer} is aligned to {source.alignment} bytes, {element} needs {size}")
    if source.element_type == element.ir_type and element_class_of(pointer) is element:
        return pointer
    ty = fly.PointerType.get(element.ir_type, source.address_space, source.alignment)
    recast, swizzle = fly.recast_iter(ty, pointer), source.swizzle
    if swizzle.mask:
        recast = fly.apply_swizzle(recast, fly.static(swizzle))
    return note_element_class(recast, element)


@functions.announce
@dsl_loc_tracing
def ptr_load(pointer: Pointer, result_type: Any = None) -> Any:
    """Load a scalar, or a vector for a Vector alias or vector type; the requested class is kept."""
    require(pointer, Pointer, "ptr_load's operand")
    if result_type is None:
        result_type = element_class_of(pointer)
    loaded = mlir_type(result_type)
    _check_packed_load(pointer, loaded)
    value = fly.ptr_load(loaded, pointer)
    if isinstance(result_type, ir.Type):
        return value if isinstance(value, Vector) else Numeric.from_python_value(value)
    return result_type(value)


@functions.announce
@dsl_loc_tracing
def ptr_store(value: Any, pointer: Pointer) -> None:
    """Store a scalar or vector; literals take the element type, nothing else is converted."""
    element = require(pointer, Pointer, "ptr_store's pointer").type.element_type
    stored = convert_for_store(value, element)
    if _packed_bits(stored.type) and _space_name(pointer) != "Register":
        raise _packed_error(_packed_bits(stored.type), "a store of one element")
    note_stored(pointer)
    fly.ptr_store(stored, pointer)


# --------------------------------------------------------------------------- views and fragments


@functions.announce
@dsl_loc_tracing
def make_view(iterator: Any, layout: Any) -> Tensor:
    """Tensor at a pointer, or coordinate tensor at an int-tuple.

    ValueError for a static layout that reaches beyond what was allocated of registers or LDS.
    """
    if not isinstance(layout, (Layout, ComposedLayout)):
        raise TypeError(f"make_view's layout must be a Layout or ComposedLayout, got {type(layout).__name__}")
    if isinstance(iterator, Pointer):
        check_view(iterator, layout)
        return fly.make_view(iterator, layout)
    return fly.make_view(to_int_tuple(iterator), layout)


def _source_layout_type(x: Any) -> Any:
    return x.type.layout if isinstance(x, Tensor) else x.type


def _counts_coordinates(layout_type: Any) -> bool:
    """Whether a mode behind the first one has strides along coordinates."""
    stride = layout_type.stride
    return not stride.is_leaf and any("E" in str(stride.at(i)) for i in range(1, stride.rank))


@dsl_loc_tracing
def make_fragment_like(x: Any, dtype: Any = None) -> Tensor:
    """New register tensor with the fragment layout of `x`; `dtype` defaults to the tensor's element type."""
    if not isinstance(x, (Layout, Tensor)):
        raise TypeError(f"make_fragment_like expects a Tensor or Layout, got {type(x).__name__}")
    if dtype is None and (isinstance(x, Layout) or x.is_coord_tensor):
        raise ValueError("make_fragment_like of a layout or coordinate tensor needs a dtype")
    layout_type = _source_layout_type(x)
    while isinstance(layout_type, fly.ComposedLayoutType):
        layout_type = layout_type.outer
    if not layout_type.is_static_shape:
        raise ValueError(f"make_fragment_like needs a static shape, got {x}{_STATIC_TILE}")
    if _counts_coordinates(layout_type):
        # Coordinates have no order in memory: the first mode runs fastest.
        x = make_ordered_layout(fly.get_shape(x), 0)
    attr = None if dtype is None else ir.TypeAttr.get(mlir_type(dtype))
    fragment = fly.make_fragment_like(x, dtype=attr)
    return note_element_class(fragment, dtype) if isinstance(dtype, NumericMeta) else fragment


# --------------------------------------------------------------------------- memory references


@dsl_loc_tracing
def memref_alloca(memref_type: ir.Type, layout: Any) -> Tensor:
    """Uninitialised register storage; `layout` must match the type."""
    require(memref_type, fly.MemRefType, "the type of memref_alloca")
    require(layout, (Layout, ComposedLayout), "the layout of memref_alloca")
    if memref_type.layout != layout.type:
        raise ValueError(f"memref_alloca: the layout {layout} does not match the type {memref_type}")
    return fly.memref_alloca(memref_type, layout)


def _access_index(memref: Tensor, idx: Any) -> IntTuple:
    if isinstance(idx, IntTuple):
        return idx
    check_coordinate(memref, idx)
    index = to_int_tuple(idx)
    if not index.is_leaf and not is_congruent(index, memref, weak=True):
        rank = memref.rank
        raise ValueError(f"index {idx!r} does not match the profile of {memref} (rank {rank})")
    check_profile(index, memref, weak=True)
    return index


@functions.announce
@dsl_loc_tracing
def memref_load(memref: Tensor, idx: Any) -> Any:
    """Element at a coordinate; one integer is the colexicographic linear coordinate."""
    require(memref, Tensor, "memref_load's operand")
    index = _access_index(memref, idx)
    _check_packed_access(memref, index, store=False)
    value = fly.memref_load(memref, index)
    if isinstance(value, (IntTuple, Vector)):
        return value
    return element_class_of(memref)(value)


@functions.announce
@dsl_loc_tracing
def memref_store(value: Any, memref: Tensor, idx: Any) -> None:
    """Store an element; literals take the element type, typed values must already have it."""
    element = require(memref, Tensor, "memref_store's target")._memref_type("storage").element_type
    index = _access_index(memref, idx)
    _check_packed_access(memref, index, store=True)
    note_stored(memref)
    watch = (kernel_scope() or {}).get("on_element_store")
    if watch is not None:
        watch(memref, index)
    fly.memref_store(convert_for_store(value, element), memref, index)


def _static_shape(memref: Tensor, what: str) -> Any:
    layout = memref.type.layout
    if isinstance(layout, fly.ComposedLayoutType) and memref.is_coord_tensor:
        raise ValueError(f"{what} needs a plain layout, got {memref}")
    if not linear_layout(layout).is_static_shape:
        raise ValueError(f"{what} needs a static shape, got {memref}{_STATIC_TILE}")
    return fly.get_shape(memref).to_py_value()


def _one_by_one(memref: Tensor) -> bool:
    """Whether elements are loaded and stored each by itself: a swizzle places them, or the end of a buffer may split
    a word of them."""
    if isinstance(memref.type.layout, fly.ComposedLayoutType):
        return True
    is_buffer = not memref.is_coord_tensor and not _space_name(memref)
    return is_buffer and end_of(memref) != WHOLE


@functions.announce
@dsl_loc_tracing
def memref_load_vec(memref: Tensor) -> Vector:
    """All elements as a Vector; lane k is the element at colexicographic coordinate k."""
    shape = _static_shape(require(memref, Tensor, "memref_load_vec's operand"), "a vector load")
    if _one_by_one(memref):
        lanes = [memref_load(memref, k) for k in range(numel(shape))]
        return Vector(Vector.from_elements(lanes, element_class_of(memref)).ir_value(), shape,
                      element_class_of(memref), order="colex")
    value = fly.memref_load_vec(memref)
    if memref.is_coord_tensor:
        return Vector(value, shape, None, order="colex")
    of_fragment = _space_name(memref) == "Register"
    return Vector(value, shape, element_class_of(memref), order=FragmentLanes(memref) if of_fragment else "colex")


@functions.announce
@dsl_loc_tracing
def memref_store_vec(vector: Any, memref: Tensor) -> None:
    """Inverse of `memref_load_vec`; ValueError unless lane count and element type match."""
    element = require(memref, Tensor, "memref_store_vec's target")._memref_type("storage").element_type
    shape = _static_shape(memref, "a vector store")
    if not isinstance(vector, ir.Value) or not isinstance(vector.type, ir.VectorType):
        hint = "; .fill(x) sets all elements to a number" if isinstance(vector, (int, float, Numeric)) else ""
        raise ValueError(f"a vector store needs a Vector, got {type(vector).__name__}{hint}")
    value = vector
    if value.type.element_type != element:
        raise ValueError(f"cannot store lanes of {value.type.element_type} to {memref}; convert with .to() first")
    lanes = 1
    for extent in value.type.shape:
        lanes *= extent
    if lanes != numel(shape):
        raise ValueError(f"cannot store {lanes} lanes to the {numel(shape)} elements of {memref}")
    if _one_by_one(memref):
        given = Vector(value, (lanes,), element_class_of(memref))
        for k in range(lanes):
            memref_store(given[k], memref, k)
        return
    note_stored(memref)
    announce_copy(memref)
    fly.memref_store_vec(value, memref)


def announce_copy(memref: Tensor, pred: Tensor | None = None, atom: Any = None) -> None:
    """Say that all of a view is about to be stored to, to whom the kernel's scope names (see `tracing.ambient`)."""
    watch = (kernel_scope() or {}).get("on_copy")
    if watch is not None:
        watch(memref, pred, atom)


def element_bits(tensor: Tensor) -> int:
    """Width of the tensor's elements in bits."""
    return _emit.bit_width(tensor.type.element_type)
