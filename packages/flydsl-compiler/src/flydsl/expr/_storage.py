"""Typed storage: addresses with a trace-time type, arrays, alignment and the bump allocator."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import protocol
from flydsl.tracing.locations import dsl_loc_tracing

from . import primitive as p
from .numeric import Int8, Numeric, NumericMeta, Uint8
from .values.tensor import Pointer

if TYPE_CHECKING:

    class _Parametric(type):
        """Classes that are subscripted with values, which type checkers do not read `__class_getitem__` for."""

        def __getitem__(cls, params: Any) -> Any: ...
else:
    _Parametric = type


def align_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def byte_offset(ptr: Any, offset: int) -> Any:
    """`ptr` advanced by bytes, as an i8 pointer; unchanged for offset 0."""
    return ptr if offset == 0 else p.add_offset(p.recast_iter(Int8, ptr), offset)


class Array(metaclass=_Parametric):
    """``Array[E, N]`` or ``Array[E, N, A]``: `N` elements aligned to `A` bytes; an instance is a typed address."""

    dtype: Any
    size: int
    align: int

    def __class_getitem__(cls, params: Any) -> Any:
        if not isinstance(params, tuple) or len(params) not in (2, 3):
            raise TypeError("Array takes [element type, length] or [element type, length, alignment]")
        dtype, size = params[:2]
        if not isinstance(dtype, NumericMeta) and not _is_storable(dtype):
            raise TypeError(f"Array elements must be a Numeric class or a storable type, got {dtype!r}")
        for what, number in zip(("length", "alignment"), params[1:], strict=False):
            if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
                raise ValueError(f"Array {what} must be a positive int, got {number!r}")
        natural = max(1, dtype.width // 8) if isinstance(dtype, NumericMeta) else protocol.dsl_align_of(dtype)
        return _array_of(dtype, size, params[2] if len(params) == 3 else natural)

    def __init__(self, ptr: Any) -> None:
        if not hasattr(type(self), "dtype"):
            raise TypeError("Array needs parameters: fx.Array[element type, length]")
        self.ptr = p.recast_iter(self.dtype if self._is_numeric() else Int8, ptr)

    @classmethod
    def _is_numeric(cls) -> bool:
        return isinstance(cls.dtype, NumericMeta)

    @classmethod
    def _step(cls) -> int:
        """Bytes from one element to the next."""
        return align_up(protocol.dsl_size_of(cls.dtype), protocol.dsl_align_of(cls.dtype))

    def _place(self, i: Any) -> Any:
        # As an int tuple, so that the alignment of the elements is known for a dynamic index.
        return p.add_offset(self.ptr, p.int_tuple_mul(p.make_int_tuple(i), self._step()))

    def _check_addressable(self) -> None:
        if self._is_numeric() and self.dtype.width == 1 and self.size > 1:
            raise TypeError(f"{type(self).__name__}: an array of Boolean takes a bit an element, and single bits "
                            "cannot be loaded or stored: use an array of Uint8")

    def _check_index(self, i: Any) -> Any:
        """`i`; a known one must be an element (negative ones count from the end). IndexError otherwise."""
        known = i if isinstance(i, int) else i.value if isinstance(i, Numeric) and i.is_static() else None
        if known is None:
            return i
        if not -self.size <= known < self.size:
            raise IndexError(f"element {known} is out of range for {type(self).__name__}")
        return known % self.size

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.size))

    def __getitem__(self, i: Any) -> Any:
        i = self._check_index(i)
        self._check_addressable()
        if self._is_numeric():
            return self.dtype(self.ptr[i])
        return protocol.peek_from_ptr(self.dtype, self._place(i))

    def __setitem__(self, i: Any, value: Any) -> None:
        i = self._check_index(i)
        self._check_addressable()
        if self._is_numeric():
            self.ptr[i] = value
        else:
            protocol.poke_into_ptr(self.dtype, self._place(i), value)

    def __len__(self) -> int:
        return self.size

    def view(self, layout: Any) -> Any:
        """Tensor over the elements; TypeError when they are not numbers."""
        if not self._is_numeric():
            raise TypeError(f"{type(self).__name__}.view: only arrays of numbers are tensors; index the elements")
        self._check_addressable()
        return p.make_view(self.ptr, layout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ptr})"

    def __extract_to_ir_values__(self) -> list[ir.Value]:
        return [self.ptr]

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        (value,) = values
        return cls(Pointer(value))

    def __get_ir_types__(self) -> list[ir.Type]:
        return [self.ptr.type]

    @classmethod
    def __dsl_size_of__(cls) -> int:
        if not cls._is_numeric():
            return cls._step() * cls.size
        return -(-cls.dtype.width * cls.size // 8)  # elements of 4 bits may end inside of a byte

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return cls.align

    @classmethod
    def __peek_from_ptr__(cls, ptr: Any) -> Any:
        return cls(ptr)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Any, value: Any) -> None:
        raise NotImplementedError("writing a whole Array: store its elements, or a Vector through .view(layout)")

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        if not isinstance(value, cls):
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}")
        return value


def _is_storable(ty: Any) -> bool:
    return isinstance(ty, type) and all(
        hasattr(ty, member)
        for member in ("__dsl_size_of__", "__dsl_align_of__", "__peek_from_ptr__", "__poke_into_ptr__")
    )


@functools.cache
def _array_of(dtype: Any, size: int, align: int) -> Any:
    shown = dtype if isinstance(dtype, NumericMeta) else dtype.__name__
    return type(f"Array[{shown}, {size}, {align}]", (Array,), {"dtype": dtype, "size": size, "align": align})


class Align(metaclass=_Parametric):
    """``Align[T, A]``: `T` placed at a multiple of `A` bytes."""

    inner: Any
    align: int

    def __class_getitem__(cls, params: Any) -> Any:
        if not isinstance(params, tuple) or len(params) != 2:
            raise TypeError("Align takes [type, alignment]")
        inner, align = params
        if not isinstance(align, int) or isinstance(align, bool):
            raise TypeError(f"alignment must be an int, got {type(align).__name__}")
        natural = protocol.dsl_align_of(inner)
        if align <= 0 or align & (align - 1) or align < natural:
            raise ValueError(f"alignment must be a power of two of at least {natural}, got {align}")
        return _align_of(inner, align)

    @classmethod
    def __dsl_size_of__(cls) -> int:
        return protocol.dsl_size_of(cls.inner)

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return cls.align

    @classmethod
    def __peek_from_ptr__(cls, ptr: Any) -> Any:
        return protocol.peek_from_ptr(cls.inner, ptr)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Any, value: Any) -> None:
        protocol.poke_into_ptr(cls.inner, ptr, value)

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        return cls.inner.__coerce__(value)


@functools.cache
def _align_of(inner: Any, align: int) -> Any:
    return type(f"Align[{inner.__name__}, {align}]", (Align,), {"inner": inner, "align": align})


def unaligned(ty: Any) -> Any:
    """The type below any `Align`."""
    while isinstance(ty, type) and issubclass(ty, Align):
        ty = ty.inner
    return ty


class Storage(metaclass=_Parametric):
    """``Storage[T](ptr)``: an address plus a trace-time type. Fields are reached as attributes."""

    value_type: Any = None

    def __class_getitem__(cls, value_type: Any) -> Any:
        return _storage_of(value_type)

    def __init__(self, ptr: Any, fields: dict[str, Any] | None = None) -> None:
        if self.value_type is None:
            raise TypeError("Storage needs a parameter: fx.Storage[T](ptr)")
        # Statically allocated structs have one allocation per leaf instead of one address.
        object.__setattr__(self, "_ptr", ptr)
        object.__setattr__(self, "_fields", fields)

    @property
    def ptr(self) -> Any:
        """The address. RuntimeError for a struct whose leaves were allocated apart."""
        if self._ptr is None:
            raise RuntimeError(f"{type(self).__name__} has no single address: its fields are separate allocations")
        return self._ptr

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        composite = unaligned(type(self).value_type)
        offsets = getattr(composite, "__dsl_field_offsets__", None)
        if offsets is None or name not in offsets():
            raise AttributeError(f"{type(self).__name__} has no stored field {name!r}")
        if self._fields is not None:
            return self._fields[name]
        return Storage[composite.__dsl_fields__[name]](byte_offset(self._ptr, offsets()[name]))  # type: ignore[misc]

    @dsl_loc_tracing
    def peek(self) -> Any:
        """Read the value; an Array gives its typed address without a load."""
        ty = unaligned(self.value_type)
        if self._fields is not None:
            return ty.__dsl_from_fields__({name: storage.peek() for name, storage in self._fields.items()})
        return protocol.peek_from_ptr(ty, self._ptr)

    @dsl_loc_tracing
    def poke(self, value: Any) -> None:
        """Write the value, converting each Numeric field."""
        ty = unaligned(self.value_type)
        if self._fields is None:
            protocol.poke_into_ptr(ty, self._ptr, value)
            return
        value = ty.__coerce__(value)
        for name, storage in self._fields.items():
            storage.poke(getattr(value, name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ptr if self._ptr is not None else '...'})"


@functools.cache
def _storage_of(value_type: Any) -> Any:
    return type(f"Storage[{getattr(value_type, '__name__', value_type)}]", (Storage,), {"value_type": value_type})


class Arena:
    """Abstract bump allocator; a subclass supplies `base_ptr`."""

    def __init__(self, base_alignment: int = 16) -> None:
        if not isinstance(base_alignment, int) or isinstance(base_alignment, bool):
            raise TypeError(f"base_alignment must be an int, got {type(base_alignment).__name__}")
        if base_alignment <= 0 or base_alignment & (base_alignment - 1):
            raise ValueError(f"base_alignment must be a power of two, got {base_alignment}")
        self.base_alignment = base_alignment
        self._cursor = 0

    @property
    def allocated_bytes(self) -> int:
        """Bytes handed out so far, with padding."""
        return self._cursor

    @property
    def base_ptr(self) -> Any:
        """Where allocations are counted from."""
        raise NotImplementedError("an Arena subclass supplies base_ptr")

    def allocate(self, what: Any, alignment: int | None = None) -> Any:
        """``Storage[T]`` for a storable type, or ``Storage[Array[Uint8, n]]`` for a number of bytes."""
        if isinstance(what, Numeric):
            what = int(what)
        if isinstance(what, int) and not isinstance(what, bool):
            if what <= 0:
                raise ValueError(f"allocation size must be > 0 bytes, got {what}")
            alignment = alignment or self.base_alignment
            what = Array[Uint8, what, alignment]  # type: ignore[misc]
        natural = protocol.dsl_align_of(what)
        alignment = max(natural, alignment or natural)
        offset = align_up(self._cursor, alignment)
        self._cursor = offset + protocol.dsl_size_of(what)
        return self._place(what, offset, alignment)

    def _place(self, ty: Any, offset: int, alignment: int) -> Any:
        return Storage[ty](byte_offset(self.base_ptr, offset))  # type: ignore[misc]
