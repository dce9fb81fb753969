"""`Pointer` and `Tensor`."""

from __future__ import annotations

import functools
from typing import Any, overload

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.misuse import with_article
from flydsl.tracing.numbers import numpy_scalar

from .._functions import functions
from .._vector import Vector
from ..numeric import Int32, Int64, Integer, Numeric, NumericMeta, as_numeric
from ..utils.classattr import lazy_classattr
from .base import FlyValue, caster_for
from .element import address_space_of, element_class, element_class_of, note_element_class
from .int_tuple import IntTuple, contains_none

_NO_SLICE = ("Python slices do not index tensors: None keeps a whole mode, and tiles are parts of one, "
             "fx.flat_divide(t, (n,))[None, i] for t[i * n : (i + 1) * n]")


def _plain_for_store(value: Any, element: ir.Type) -> Any:
    """A NumPy scalar as a constant; TypeError for what is no value."""
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):
        number = item()
        if isinstance(number, (bool, int, float)):
            return convert_for_store(number, element)
    shape = getattr(value, "shape", None)
    text = f"an array of shape {shape}" if isinstance(shape, tuple) else repr(value)
    given = "None" if value is None else f"{text}, a {type(value).__name__}"
    hint = ": does the function that made it return its result?" if value is None else ""
    expected = f"a number or a DSL value of type {element_class(element)}"
    raise TypeError(f"cannot store {given}, to elements of type {element}{hint}; expected {expected}")


def check_literal(literal: Any, cls: Any) -> None:
    """ValueError for a number that is not among those of an integer class, be it signed or unsigned."""
    if not getattr(cls, "is_integer", False):
        return
    if literal != literal or literal in (float("inf"), float("-inf")) or literal != int(literal):
        raise ValueError(f"cannot store {literal!r} to elements of type {cls}: it is no integer; convert it with "
                         f"{cls}(...) to round towards zero")
    if not -(1 << max(cls.width - 1, 0)) <= int(literal) < 1 << cls.width:
        raise ValueError(f"cannot store {literal!r} to elements of type {cls}: it has more than {cls.width} bits")


def convert_for_store(value: Any, element: ir.Type) -> Any:
    """A literal as a constant of the element type; a typed value must already have it."""
    if isinstance(value, (bool, int, float)) or isinstance(value, Numeric) and value.is_static():
        literal = value.value if isinstance(value, Numeric) else value
        cls = element_class(element)
        check_literal(literal, cls)
        return cls(literal).ir_value()
    if not isinstance(value, ir.Value) and not hasattr(value, "ir_value"):
        return _plain_for_store(value, element)
    raw = value if isinstance(value, ir.Value) else value.ir_value()
    found = raw.type.element_type if isinstance(raw.type, ir.VectorType) else raw.type
    if found != element and raw.type != element:
        given = with_article(str(type(value))) if isinstance(value, Numeric) else f"a value of type {raw.type}"
        how = "take its numbers with .unpack()" if isinstance(value, IntTuple) else "convert it with .to() first"
        raise ValueError(f"cannot store {given} to elements of type {element}; {how}")
    return raw


def _like(value: Any, exemplar: Any) -> Any:
    """`value` with the element class of `exemplar`, a tensor, a pointer or the launch argument of one."""
    cls = getattr(exemplar, "element_class", None)
    return value if cls is None else note_element_class(value, cls)


def _is_integer(x: Any) -> bool:
    x = numpy_scalar(x)
    if isinstance(x, bool):
        return False
    if isinstance(x, (int, Integer)):
        return True
    return isinstance(x, ir.Value) and isinstance(x.type, (ir.IntegerType, ir.IndexType))


@caster_for(fly.PointerType)
class Pointer(FlyValue):
    """A typed address; arithmetic counts elements.

    ``Pointer[dtype, space, alignment]`` is a class of pointers that can be stored: 8 bytes for Global, 4 for Shared.
    """

    def __class_getitem__(cls, params: Any) -> Any:
        params = params if isinstance(params, tuple) else (params,)
        if not 1 <= len(params) <= 3:
            raise TypeError("Pointer takes [element class(, address space(, alignment in bytes))]")
        dtype = params[0]
        if not isinstance(dtype, NumericMeta):
            raise TypeError(f"Pointer: the element must be a Numeric class, got {dtype!r}")
        space = fly.AddressSpace(int(params[1])) if len(params) > 1 else fly.AddressSpace.Global
        if space.name not in ("Global", "Shared"):
            raise ValueError(f"Pointer[...]: only Global and Shared pointers can be stored, got {space.name}")
        natural = max(1, dtype.width // 8)
        alignment = params[2] if len(params) > 2 else natural
        if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment <= 0 or alignment % natural:
            raise ValueError(f"Pointer: the alignment must be a positive multiple of {natural}, got {alignment!r}")
        return _stored_pointer(dtype, space, alignment)

    @property
    def element_type(self) -> Any:
        """Numeric class of the element; unsigned memory is unsigned through views, fragments and loads."""
        return element_class_of(self)

    dtype = element_type
    value_type = element_type
    element_class = element_type

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        return _like(super().__construct_from_ir_values__(values), exemplar)

    @property
    def address_space(self) -> Any:
        """Memory that it points to: global, shared, register or a buffer resource."""
        return address_space_of(self.type)

    memspace = address_space

    @property
    def alignment(self) -> int:
        """Known alignment in bytes."""
        return self.type.alignment

    @property
    def llvm_ptr(self) -> Any:
        """The address as an LLVM pointer."""
        return functions.to_llvm_ptr(self)

    def __add__(self, offset: Any) -> Any:
        if not (_is_integer(offset) or isinstance(offset, IntTuple)):
            return NotImplemented
        return functions.add_offset(self, offset)

    __radd__ = __add__

    def __sub__(self, offset: Any) -> Any:
        if not _is_integer(offset):
            return NotImplemented
        return functions.add_offset(self, -offset if isinstance(offset, int) else -as_numeric(offset))

    def load(self, dtype: Any = None) -> Any:
        """The element here, or a value of `dtype` (Numeric class, Vector alias or MLIR type)."""
        return functions.ptr_load(self, dtype)

    def store(self, value: Any) -> None:
        """Store one element here."""
        functions.ptr_store(value, self)

    def __iter__(self) -> Any:
        raise TypeError("a Pointer is not iterable: it has no end. Index it in a loop (for i in range(n): ... p[i])")

    def __getitem__(self, i: Any) -> Any:
        return (self + i).load()

    def __setitem__(self, i: Any, value: Any) -> None:
        (self + i).store(value)

    def view(self, layout: Any) -> Any:
        """The tensor of a layout from here on."""
        return functions.make_view(self, layout)


@caster_for(fly.MemRefType, fly.CoordTensorType)
class Tensor(FlyValue):
    """A pointer with a layout, or (coordinate tensor) a base coordinate with a layout."""

    @property
    def is_coord_tensor(self) -> bool:
        """Whether elements are coordinates, of no memory."""
        return isinstance(self.type, fly.CoordTensorType)

    def _memref_type(self, what: str) -> Any:
        if self.is_coord_tensor:
            raise TypeError(f"a coordinate tensor has no {what}")
        return self.type

    @property
    def element_type(self) -> Any:
        """Numeric class of the elements; unsigned memory is unsigned through views, fragments and loads."""
        self._memref_type("element type")
        return element_class_of(self)

    dtype = element_type
    value_type = element_type

    @property
    def element_class(self) -> Any:
        """Like `element_type`; None for a coordinate tensor."""
        return None if self.is_coord_tensor else element_class_of(self)

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        return _like(super().__construct_from_ir_values__(values), exemplar)

    @property
    def address_space(self) -> Any:
        """Memory that it lies in: global, shared, register or a buffer resource."""
        return address_space_of(self._memref_type("address space"))

    memspace = address_space

    @property
    def alignment(self) -> int:
        """Known alignment of the first element in bytes."""
        return self._memref_type("alignment").alignment

    @property
    def leading_dim(self) -> Any:
        """First mode with static stride 1: an int, a path, or None."""
        return self._memref_type("leading dimension").leading_dim

    @property
    def layout(self) -> Any:
        """The layout from coordinates to elements."""
        return functions.get_layout(self)

    @property
    def iter(self) -> Any:
        """The pointer, or the base coordinate of a coordinate tensor."""
        return functions.get_iter(self)

    @property
    def shape(self) -> IntTuple:
        """Extents of the modes."""
        return functions.get_shape(self)

    @property
    def stride(self) -> IntTuple:
        """Elements between neighbours of each mode, congruent to the shape."""
        return functions.get_stride(self)

    @property
    def rank(self) -> int:
        """Number of modes at the top level."""
        return fly.rank(self)

    @property
    def depth(self) -> int:
        """Deepest nesting of the shape: 0 for a single extent."""
        return fly.depth(self)

    def __iter__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} is not iterable: its extents may be known at run time only. Iterate over its "
            "coordinates (for i in range(n): ... t[i]), or load it (for v in t.load()) when its shape is static"
        )

    def _coordinate(self, c: Any) -> Any:
        """The checked coordinate; one entry for the one mode of a leaf layout is the entry itself."""
        if c is None:
            raise ValueError("t[None] is not supported: use one index per mode, with None for the modes to keep")
        if isinstance(c, slice):
            raise TypeError(_NO_SLICE)
        if isinstance(c, (tuple, list)):
            if len(c) != self.rank:
                shown = f"({', '.join(str(entry) for entry in c)})"
                raise ValueError(f"coordinate {shown} has {len(c)} entries for a tensor of rank {self.rank} ({self})")
            for entry in c:
                if isinstance(entry, slice):
                    raise TypeError(_NO_SLICE)
            if len(c) == 1 and c[0] is not None and self.type.layout.is_leaf:
                return c[0]
        return c

    @overload
    def __getitem__(self, c: int | Numeric | tuple[int | Numeric, ...]) -> Numeric: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, c: tuple[Any, ...] | None) -> Tensor: ...
    @overload
    def __getitem__(self, c: Any) -> Any: ...
    @dsl_loc_tracing
    def __getitem__(self, c: Any) -> Any:
        """A scalar, or with ``None`` in the coordinate a view of the kept modes.

        One integer is the colexicographic linear coordinate; a coordinate tensor gives its coordinate.
        """
        c = self._coordinate(c)
        if contains_none(c):
            return functions.slice(self, c)
        return functions.memref_load(self, c)

    @dsl_loc_tracing
    def __setitem__(self, c: Any, value: Any) -> None:
        c = self._coordinate(c)
        if contains_none(c):
            functions.slice(self, c).store(value)
        else:
            functions.memref_store(value, self, c)

    @dsl_loc_tracing
    def load(self) -> Vector:
        """All elements as a `Vector` of this tensor's shape, lanes in colexicographic order."""
        return functions.memref_load_vec(self)

    @dsl_loc_tracing
    def store(self, vector: Any) -> None:
        """Store a vector of as many lanes and exactly this element type."""
        functions.memref_store_vec(vector, self)

    @dsl_loc_tracing
    def fill(self, value: Any) -> None:
        """Set every element; the shape must be static. ValueError for a number that the elements cannot be."""
        if isinstance(value, (int, float)):
            check_literal(value, self.dtype)
        if not self.shape.is_static:
            raise ValueError(f"fill needs a static shape, got {self}")
        self.store(Vector.filled(self.shape.to_py_value(), value, self.dtype))


@functools.cache
def _stored_pointer(dtype: Any, space: Any, alignment: int) -> Any:
    """The class of pointers to `dtype` in `space` that structs and arrays can hold."""
    bits = Int64 if space.name == "Global" else Int32

    def ir_type() -> ir.Type:
        return fly.PointerType.get(dtype.ir_type, space, alignment)

    def coerce(cls: Any, value: Any) -> Any:
        if not isinstance(value, Pointer):
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}")
        if value.type != ir_type():
            raise TypeError(f"expects {ir_type()}, got {value.type}")
        return value

    def peek(cls: Any, ptr: Any) -> Any:
        address = functions.ptr_load(functions.recast_iter(bits, ptr), bits)
        return note_element_class(functions.inttoptr(ir_type(), address), dtype)

    def poke(cls: Any, ptr: Any, value: Any) -> None:
        address = functions.ptrtoint(coerce(cls, value))
        functions.ptr_store(bits(address), functions.recast_iter(bits, ptr))

    namespace = {
        "__dsl_size_of__": classmethod(lambda cls: bits.width // 8),
        "__dsl_align_of__": classmethod(lambda cls: bits.width // 8),
        "__peek_from_ptr__": classmethod(peek),
        "__poke_into_ptr__": classmethod(poke),
        "__coerce__": classmethod(coerce),
        "ir_type": lazy_classattr(lambda cls: ir_type()),
    }
    return type(f"Pointer[{dtype}, {space.name}, {alignment}]", (Pointer,), namespace)
