"""`@struct` and `@union`: composite value types, their layout in memory, and the predicates on them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, TypeVar

from flydsl._mlir import ir
from flydsl.tracing.lazy import protocol
from flydsl.utils.annotations import evaluate_annotation

from ._storage import Align, Arena, Array, Storage, align_up, byte_offset, unaligned
from .numeric import NumericMeta
from .values.base import FlyValue
from .values.params import Stream, is_constexpr

__all__ = [
    "struct", "Struct", "union", "Union", "Array", "Align", "Storage", "Arena", "is_composite_type", "is_struct_type",
    "is_specializable_struct_type",
]

_Declared = TypeVar("_Declared")
_RESERVED = ("replace", "peek", "poke")


class _Composite:
    """Base of the generated classes."""

    __dsl_fields__: dict[str, Any] = {}
    __dsl_is_struct__ = False
    __dsl_static__: dict[str, Any] = {}

    @classmethod
    def _stored(cls) -> dict[str, Any]:
        return {name: ty for name, ty in cls.__dsl_fields__.items() if not is_constexpr(ty)}

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return max((_storable(cls, name, ty, "align") for name, ty in cls._stored().items()), default=1)


def _storable(owner: Any, name: str, ty: Any, what: str) -> int:
    try:
        return protocol.dsl_align_of(ty) if what == "align" else protocol.dsl_size_of(ty)
    except TypeError as error:
        raise TypeError(f"field {name!r} of {owner.__name__} is not Storable: {error}") from error


class _StructValue(_Composite):
    """Immutable product value."""

    __dsl_is_struct__ = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        values = cls._bind(args, kwargs)
        return _specialize(cls, values)._from_values(values)

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Any:
        self = object.__new__(cls)
        object.__setattr__(self, "_values", values)
        return self

    @classmethod
    def _bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """One coerced value per field. TypeError for missing, extra, duplicate or unknown fields."""
        name = cls.__name__
        fields = cls.__dsl_fields__
        open_fields = [f for f in fields if f not in cls.__dsl_static__]
        # A specialised class may be called with or without the fields it already fixes.
        order = open_fields if len(args) + len(kwargs) <= len(open_fields) and cls.__dsl_static__ else list(fields)
        if len(args) > len(order):
            raise TypeError(f"{name} takes {len(order)} fields, got {len(args)} positional values")
        given = dict(zip(order, args, strict=False))
        for key, value in kwargs.items():
            if key not in fields:
                raise TypeError(f"{name} has no field {key!r}")
            if key in given:
                raise TypeError(f"{name}: field {key!r} given twice")
            given[key] = value
        for key, value in cls.__dsl_static__.items():
            given.setdefault(key, value)
        missing = [f for f in fields if f not in given]
        if missing:
            raise TypeError(f"{name}: missing field {', '.join(repr(f) for f in missing)}")
        return {f: _coerce(cls, f, ty, given[f]) for f, ty in fields.items()}

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values")
        if values is None or name not in values:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r} of {type(self).__name__}: use .replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r} of {type(self).__name__}")

    def replace(self, **changes: Any) -> Any:
        """A new value with some fields changed."""
        return _base_of(type(self))(**{**self._values, **changes})

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, _StructValue) or _base_of(type(self)) is not _base_of(type(other)):
            return NotImplemented
        return all(bool(self._values[f] == other._values[f]) for f in self.__dsl_fields__)

    def __hash__(self) -> int:
        return hash((_base_of(type(self)), tuple(self._values.items())))

    def __repr__(self) -> str:
        shown = ", ".join(f"{f}={v!r}" for f, v in self._values.items())
        return f"{type(self).__name__}({shown})"

    # ---------------------------------------------------------------- protocols

    def __dsl_runtime_fields__(self) -> dict[str, Any]:
        """The fields that are values of the running program, in order: all but the `Constexpr` ones."""
        return {f: self._values[f] for f in self._stored()}

    def __extract_to_ir_values__(self) -> list[ir.Value]:
        return [v for field in self.__dsl_runtime_fields__().values() for v in protocol.extract_to_ir_values(field)]

    def __get_ir_types__(self) -> list[ir.Type]:
        return [t for field in self.__dsl_runtime_fields__().values() for t in protocol.get_ir_types(field)]

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        if isinstance(exemplar, _StructValue):
            return exemplar._rebuild(values)
        counts = {f: _ir_count(ty) for f, ty in cls._stored().items()}
        if sum(counts.values()) != len(values):
            raise ValueError(f"{cls.__name__}: expected {sum(counts.values())} ir.Values, got {len(values)}")
        fields, start = dict(cls.__dsl_static__), 0
        for f, ty in cls._stored().items():
            fields[f] = unaligned(ty).__construct_from_ir_values__(values[start : start + counts[f]])
            start += counts[f]
        return cls(**fields)

    def _rebuild(self, values: list[ir.Value]) -> Any:
        fields, start = dict(self._values), 0
        for f, old in self.__dsl_runtime_fields__().items():
            count = len(protocol.get_ir_types(old))
            fields[f] = protocol.construct_from_ir_values(type(old), old, values[start : start + count])
            start += count
        if start != len(values):
            raise ValueError(f"{type(self).__name__}: expected {start} ir.Values, got {len(values)}")
        return type(self)._from_values(fields)

    def __cache_signature__(self) -> Any:
        return (type(self), *((f, protocol.cache_signature(v)) for f, v in self.__dsl_runtime_fields__().items()))

    def __c_abi_spec__(self) -> list[Any]:
        spec = []
        for f, value in self.__dsl_runtime_fields__().items():
            for slot, fill in protocol.c_abi_spec(value):
                spec.append((slot, functools.partial(_fill_field, f, fill)))
        return spec

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        if not isinstance(value, cls):
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}")
        return value

    # ---------------------------------------------------------------- storage

    @classmethod
    def __dsl_field_offsets__(cls) -> dict[str, int]:
        offsets, cursor = {}, 0
        for name, ty in cls._stored().items():
            offsets[name] = align_up(cursor, _storable(cls, name, ty, "align"))
            cursor = offsets[name] + _storable(cls, name, ty, "size")
        return offsets

    @classmethod
    def __dsl_size_of__(cls) -> int:
        offsets = cls.__dsl_field_offsets__()
        if not offsets:
            return 0
        last = next(reversed(offsets))
        return align_up(offsets[last] + protocol.dsl_size_of(cls.__dsl_fields__[last]), cls.__dsl_align_of__())

    @classmethod
    def __dsl_from_fields__(cls, fields: dict[str, Any]) -> Any:
        return cls(**{**cls.__dsl_static__, **fields})

    @classmethod
    def __peek_from_ptr__(cls, ptr: Any) -> Any:
        fields = {}
        for name, offset in cls.__dsl_field_offsets__().items():
            fields[name] = protocol.peek_from_ptr(cls.__dsl_fields__[name], byte_offset(ptr, offset))
        return cls.__dsl_from_fields__(fields)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Any, value: Any) -> None:
        value = cls.__coerce__(value)
        for name, offset in cls.__dsl_field_offsets__().items():
            protocol.poke_into_ptr(cls.__dsl_fields__[name], byte_offset(ptr, offset), getattr(value, name))


class _UnionType(_Composite):
    """Overlay of fields at offset 0; it has no value form."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{cls.__name__} is a union and has no value form; reach it through fx.Storage")

    @classmethod
    def __dsl_field_offsets__(cls) -> dict[str, int]:
        return dict.fromkeys(cls._stored(), 0)

    @classmethod
    def __dsl_size_of__(cls) -> int:
        size = max((_storable(cls, name, ty, "size") for name, ty in cls._stored().items()), default=0)
        return align_up(size, cls.__dsl_align_of__())

    @classmethod
    def __peek_from_ptr__(cls, ptr: Any) -> Any:
        raise NotImplementedError(f"peek of the union {cls.__name__}: peek one of its variants")

    @classmethod
    def __poke_into_ptr__(cls, ptr: Any, value: Any) -> None:
        raise NotImplementedError(f"poke of the union {cls.__name__}: poke one of its variants")


def _fill_field(name: str, fill: Any, argument: Any, slot: Any) -> None:
    fill(getattr(argument, name), slot)


def _ir_count(ty: Any) -> int:
    ty = unaligned(ty)
    if isinstance(ty, NumericMeta) or (isinstance(ty, type) and issubclass(ty, (FlyValue, Array, Stream, ir.Value))):
        return 1
    if isinstance(ty, type) and issubclass(ty, _StructValue):
        return sum(_ir_count(f) for f in ty._stored().values())
    raise TypeError(f"{ty!r} needs an exemplar to be rebuilt")


def _coerce(owner: Any, field: str, ty: Any, value: Any) -> Any:
    coerce = getattr(ty, "__coerce__", None)
    try:
        if coerce is not None:
            return coerce(value)
        if isinstance(ty, type) and not isinstance(value, ty):
            raise TypeError(f"expects {ty.__name__}, got {type(value).__name__}")
        return value
    except TypeError as error:
        raise TypeError(f"{owner.__name__}.{field} {error}") from error


def _base_of(cls: Any) -> Any:
    return cls.__dict__.get("__dsl_base__", cls)


def _specialize(cls: Any, values: dict[str, Any]) -> Any:
    """The cached subclass that fixes the compile-time fields; `cls` itself when it has none."""
    base = _base_of(cls)
    static = {f: values[f] for f, ty in base.__dsl_fields__.items() if is_constexpr(ty)}
    nested = {
        f: type(values[f])
        for f, ty in base.__dsl_fields__.items()
        if isinstance(ty, type) and issubclass(ty, _StructValue) and type(values[f]) is not ty
    }
    if not static and not nested:
        return base
    return _specialized(base, tuple((f, type(v), v) for f, v in static.items()), tuple(nested.items()))


@functools.cache
def _specialized(base: Any, static: tuple[Any, ...], nested: tuple[Any, ...]) -> Any:
    shown = [f"{f}={v!r}" for f, _, v in static] + [f"{f}={ty.__name__}" for f, ty in nested]
    namespace = {
        "__dsl_base__": base,
        "__dsl_static__": {f: v for f, _, v in static},
        "__dsl_fields__": {**base.__dsl_fields__, **dict(nested)},
        "__module__": base.__module__,
    }
    return type(f"{base.__name__}[{', '.join(shown)}]", (base,), namespace)


# --------------------------------------------------------------------------- declaration


def _resolve_annotations(cls: type, depth: int) -> dict[str, Any]:
    """Annotations of a class with strings evaluated where the class was written."""
    annotations = cls.__dict__.get("__annotations__")
    if annotations is None:  # Python 3.14 keeps them lazily
        annotations = getattr(cls, "__annotations__", {})
    if not any(isinstance(a, str) for a in annotations.values()):
        return dict(annotations)
    scope: dict[str, Any] = dict(vars(sys.modules.get(cls.__module__, sys)))
    frame = sys._getframe(depth)
    scope.update(frame.f_globals)
    scope.update(frame.f_locals)
    return {name: evaluate_annotation(a, scope) for name, a in annotations.items()}


def _check_fields(fields: Mapping[str, Any], generated: bool) -> None:
    for name in fields:
        if name.startswith("_") and not generated:
            raise ValueError(f"field name {name!r} must not start with an underscore")
        if name in _RESERVED:
            raise ValueError(f"field name {name!r} is reserved")


def _inline_fields(params: Any) -> tuple[dict[str, Any], bool]:
    params = params if isinstance(params, tuple) else (params,)
    if not params:
        raise ValueError("a composite needs at least one field")
    named = [isinstance(entry, slice) for entry in params]
    if any(named) != all(named):
        raise TypeError("inline composites take either named fields or types, not both")
    for ty in (entry.stop if isinstance(entry, slice) else entry for entry in params):
        if isinstance(ty, (str, int, float, tuple, list, dict, set)):
            raise TypeError(f"the type of an inline field is expected, got {ty!r}")
    if not all(named):
        return {f"_{i}": ty for i, ty in enumerate(params)}, True
    fields: dict[str, Any] = {}
    for entry in params:
        if not isinstance(entry.start, str) or entry.step is not None or entry.stop is None:
            raise TypeError('inline fields are written "name": type')
        if entry.start in fields:
            raise ValueError(f"duplicate field {entry.start!r}")
        fields[entry.start] = entry.stop
    return fields, False


class _Declarator:
    """`struct` or `union`: a class decorator that can also be subscripted with inline fields."""

    def __init__(self, kind: str, base: type) -> None:
        self._kind = kind
        self._base = base
        self._inline: dict[Any, Any] = {}
        self.__name__ = kind

    def __call__(self, cls: type | None = None) -> Any:
        if cls is None:
            return self
        if not isinstance(cls, type):
            raise TypeError(f"expected a class whose annotations are the fields, got {cls!r}")
        fields = _resolve_annotations(cls, 2)
        _check_fields(fields, generated=False)
        # Methods and properties of the decorated class are kept.
        kept = {
            k: v for k, v in vars(cls).items()
            if k not in fields and k not in ("__dict__", "__weakref__", "__annotations__", "__init__", "__new__")
        }
        return type(cls.__name__, (self._base,), {**kept, "__dsl_fields__": fields, "__qualname__": cls.__qualname__})

    def __getitem__(self, params: Any) -> Any:
        fields, generated = _inline_fields(params)
        _check_fields(fields, generated)
        key = tuple(fields.items())
        if key not in self._inline:
            shown = ", ".join(f"{n}: {getattr(t, '__name__', t)}" for n, t in fields.items())
            self._inline[key] = type(f"{self._kind}[{shown}]", (self._base,), {"__dsl_fields__": fields})
        return self._inline[key]

    def __repr__(self) -> str:
        return f"<{self._kind} declarator>"


Struct: Any = _Declarator("struct", _StructValue)
if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform()
    def struct(cls: type[_Declared]) -> type[_Declared]:
        """As type checkers see it: a class that is made of its fields."""
        ...

else:
    struct = Struct
union = _Declarator("union", _UnionType)
Union = union


Empty: Any = struct(type("Empty", (), {"__annotations__": {}, "__doc__": "A struct without fields: size 0."}))


def is_composite_type(ty: Any) -> bool:
    """Whether `ty` is a struct or union type."""
    return isinstance(ty, type) and issubclass(ty, _Composite)


def is_struct_type(ty: Any) -> bool:
    """Whether `ty` is a struct type (not a union)."""
    return isinstance(ty, type) and issubclass(ty, _StructValue)


def is_specializable_struct_type(ty: Any) -> bool:
    """Whether `ty` is a struct type with a Constexpr field, nested ones included."""
    if not is_struct_type(ty):
        return False
    return any(is_constexpr(f) or is_specializable_struct_type(f) for f in _base_of(ty).__dsl_fields__.values())
