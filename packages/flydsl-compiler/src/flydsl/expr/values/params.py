"""Parameter annotations: compile-time values and launch queues."""

from __future__ import annotations

import ctypes
import functools
import operator
import typing
from collections.abc import Callable
from typing import Any

from flydsl._mlir import ir

_ALLOWED = (int, bool, float, str, tuple)


class Constexpr:
    """Annotation of a compile-time parameter or struct field: ``Constexpr[T]``, or bare for any supported value.

    `T` is int, bool, float, str, tuple, ``Tuple[...]`` or Callable; anything else is a TypeError.
    """

    inner: Any = None

    def __class_getitem__(cls, inner: Any) -> Any:
        return _constexpr_of(inner)

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        if cls.inner is None:
            return value
        if cls.inner is Callable or typing.get_origin(cls.inner) is Callable or _is_callable_form(cls.inner):
            ok = callable(value)
        else:
            base = typing.get_origin(cls.inner) or cls.inner
            ok = type(value) is base
        if not ok:
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}")
        return value


def _is_callable_form(inner: Any) -> bool:
    import collections.abc

    return inner in (typing.Callable, collections.abc.Callable) or typing.get_origin(inner) is collections.abc.Callable


@functools.cache
def _constexpr_of(inner: Any) -> Any:
    base = typing.get_origin(inner) or inner
    if not (base in _ALLOWED or _is_callable_form(inner)):
        raise TypeError(f"Constexpr[{inner!r}] is not supported: use int, bool, float, str, tuple or Callable")
    name = getattr(inner, "__name__", str(inner))
    return type(f"Constexpr[{name}]", (Constexpr,), {"inner": inner, "__module__": __name__})


def is_constexpr(annotation: Any) -> bool:
    """Whether an annotation is `Constexpr` or ``Constexpr[T]``."""
    return isinstance(annotation, type) and issubclass(annotation, Constexpr)


class Stream:
    """A launch queue: ``None`` (default), a raw handle, or an object with ``cuda_stream``.

    While tracing, `value` is the ``!gpu.async.token`` argument.
    """

    _is_stream_param = True
    #: The handle under the name that other libraries' streams have, where the launcher looks first.
    cuda_stream = property(operator.attrgetter("value"))

    def __init__(self, value: Any = None) -> None:
        if isinstance(value, Stream):
            value = value.value  # type: ignore[has-type]
        elif hasattr(value, "cuda_stream"):
            value = value.cuda_stream
        if isinstance(value, bool) or not (value is None or isinstance(value, (int, ir.Value))):
            raise ValueError(f"a stream is None, an int handle or an object with cuda_stream, got {value!r}")
        self.value = value

    def __repr__(self) -> str:
        return f"Stream({self.value!r})"

    def __extract_to_ir_values__(self) -> list[ir.Value]:
        if not isinstance(self.value, ir.Value):
            raise TypeError("a host stream has no IR value; declare a parameter `stream: fx.Stream`")
        return [self.value]

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        if len(values) != 1:
            raise ValueError(f"Stream: expected 1 ir.Values, got {len(values)}")
        return cls(values[0])

    def __get_ir_types__(self) -> list[ir.Type]:
        return [ir.Type.parse("!gpu.async.token")]

    def __cache_signature__(self) -> Any:
        return (Stream,)

    def __c_abi_spec__(self) -> list[Any]:
        return [(ctypes.c_void_p, _fill_stream)]

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        return value if isinstance(value, cls) else cls(value)


def _fill_stream(argument: Any, slot: Any) -> None:
    slot.value = Stream(argument).value
