"""Runtime arguments as entries of the launch plan, and as what the native launcher reads."""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..specialization.container_argument import ContainerArg
from ..specialization.signature import is_stream

__all__ = ["converters", "is_of_registered_type", "plan_entries", "positions"]

_SLOT_TYPES = {
    ctypes.c_bool: "i1", ctypes.c_int8: "i8", ctypes.c_int16: "i16", ctypes.c_int32: "i32", ctypes.c_int64: "i64",
    ctypes.c_uint8: "u8", ctypes.c_uint16: "u16", ctypes.c_uint32: "u32", ctypes.c_uint64: "u64",
    ctypes.c_float: "f32", ctypes.c_double: "f64",
}


def _scalar_type(cls: Any) -> str:
    named = {"Boolean": "i1", "Index": "index", "BFloat16": "bf16"}.get(cls.__name__)
    if named is not None:
        return named
    if cls.signed is None:
        return f"f{cls.width}"
    return f"{'i' if cls.signed else 'u'}{cls.width}"


def _is_number(argument: Any) -> bool:
    cls = type(argument)
    return hasattr(cls, "width") and hasattr(cls, "signed")


def _is_simple(argument: Any, annotation: Any) -> bool:
    """Whether the launcher reads the argument itself, in one slot."""
    return (
        hasattr(argument, "plan_entry") or is_stream(annotation) or is_stream(type(argument)) or _is_number(argument)
    )


def plan_entries(name: str, argument: Any, annotation: Any) -> list[dict[str, Any]]:
    """The launch plan entries of one runtime argument: one, or one for each slot of its C ABI.

    Raises:
        TypeError: the argument has no C ABI. NotImplementedError: a slot type that launch plans do not have.
    """
    if isinstance(argument, ContainerArg):
        return argument.each(lambda key, part: plan_entries(f"{name}[{key!r}]", part, None))
    if hasattr(argument, "__dsl_runtime_fields__"):
        fields = argument.__dsl_runtime_fields__().items()
        return [entry for field, part in fields for entry in plan_entries(f"{name}.{field}", part, None)]
    if hasattr(argument, "plan_entry"):
        return [argument.plan_entry(name)]
    if is_stream(annotation) or is_stream(type(argument)):
        return [{"kind": "stream", "name": name}]
    spec = _abi(name, argument)
    if _is_number(argument):
        return [{"kind": "scalar", "name": name, "type": _scalar_type(type(argument))}]
    return [_slot_entry(name if len(spec) == 1 else f"{name}.{i}", slot) for i, (slot, _) in enumerate(spec)]


def _abi(name: str, argument: Any) -> list[tuple[Any, Any]]:
    from flydsl.tracing.protocol import c_abi_spec

    try:
        return c_abi_spec(argument)
    except TypeError as error:
        raise TypeError(f"argument {name!r}: {error}") from None


def _slot_entry(name: str, slot: Any) -> dict[str, Any]:
    if slot is ctypes.c_void_p:
        return {"kind": "pointer", "name": name}
    for known, text in _SLOT_TYPES.items():  # c_int is c_int32, c_long is c_int64, ...
        if slot is known:
            return {"kind": "scalar", "name": name, "type": text}
    raise NotImplementedError(f"argument {name!r}: launch plans have no slot of type {getattr(slot, '__name__', slot)}")


def positions(runtime: list[tuple[str, Any, Any]], names: list[str]) -> list[int]:
    """For each plan argument the position of its parameter among ``names``; ``runtime`` has (name, argument,
    annotation) of each runtime parameter."""
    found = []
    for name, argument, annotation in runtime:
        found += [names.index(name)] * len(_converters(name, argument, annotation))
    return found


def converters(runtime: list[tuple[str, Any, Any]]) -> list[Callable[[Any], Any] | None]:
    """For each plan argument the function that turns the object passed into a value, None where none is needed."""
    return [c for name, argument, annotation in runtime for c in _converters(name, argument, annotation)]


def is_of_registered_type(converter: Callable[[Any], Any] | None) -> bool:
    """Whether Python code of the argument's own type makes the value, which no other caller can run."""
    while isinstance(converter, _Part):
        converter = converter.convert
    return converter is not None


def _converters(name: str, argument: Any, annotation: Any) -> list[Callable[[Any], Any] | None]:
    if isinstance(argument, ContainerArg):
        return argument.each(lambda key, part: [_Part(functools.partial(argument.entry, key=key), c)
                                                for c in _converters(f"{name}[{key!r}]", part, None)])
    if hasattr(argument, "__dsl_runtime_fields__"):
        fields = argument.__dsl_runtime_fields__().items()
        return [_Part(operator.attrgetter(field), c)
                for field, part in fields for c in _converters(f"{name}.{field}", part, None)]
    if _is_simple(argument, annotation):
        return [None]
    return [functools.partial(_converted, slot, fill) for slot, fill in _abi(name, argument)]


@dataclass(frozen=True)
class _Part:
    """Takes an entry of a container or a field of a struct, and converts that."""

    get: Callable[[Any], Any]
    convert: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> Any:
        part = self.get(value)
        return part if self.convert is None else self.convert(part)


def _converted(slot: Any, fill: Any, value: Any) -> Any:
    storage = slot()
    fill(value, storage)
    return storage.value
