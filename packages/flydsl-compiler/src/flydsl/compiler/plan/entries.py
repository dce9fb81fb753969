"""Runtime arguments as entries of the launch plan, and as what the native launcher reads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ..specialization.container_argument import ContainerArg
from ..specialization.signature import is_stream

__all__ = ["converters", "plan_entries", "positions"]

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


def _converters(name: str, argument: Any, annotation: Any) -> list[Callable[[Any], Any] | None]:
    if isinstance(argument, ContainerArg):
        return argument.each(lambda key, part: [_entry(argument, key, c)
                                                for c in _converters(f"{name}[{key!r}]", part, None)])
    if _is_simple(argument, annotation):
        return [None]
    return [_converter(slot, fill) for slot, fill in _abi(name, argument)]


def _entry(container: ContainerArg, key: Any, convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Takes an entry of a container, and converts that."""
    if convert is None:
        return lambda value: container.entry(value, key)
    return lambda value: convert(container.entry(value, key))


def _converter(slot: Any, fill: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        storage = slot()
        fill(value, storage)
        return storage.value

    return convert
