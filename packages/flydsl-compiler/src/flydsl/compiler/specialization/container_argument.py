"""Launch arguments that are no single value: None for an optional one, tuples, lists and dictionaries of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.tracing.protocol import cache_signature, construct_from_ir_values, get_ir_types

__all__ = ["ContainerArg", "NoArg", "make_container"]


class NoArg:
    """None where an optional argument is left out: traced code sees None, and the kernel has no parameter for it."""

    def __get_ir_types__(self) -> list[Any]:
        return []

    def __extract_to_ir_values__(self) -> list[Any]:
        return []

    def __cache_signature__(self) -> object:
        return ("none",)

    def __c_abi_spec__(self) -> list[tuple[Any, Any]]:
        return []

    @classmethod
    def __construct_from_ir_values__(cls, values: list[Any], exemplar: Any = None) -> None:
        return None


class ContainerArg:
    """A tuple, list or dictionary whose entries are arguments themselves; its structure is part of the key.

    Attributes:
        kind: the container's class. parts: (key or position, argument) in order.
    """

    def __init__(self, kind: type, parts: list[tuple[Any, Any]]) -> None:
        self.kind, self.parts = kind, parts

    def __get_ir_types__(self) -> list[Any]:
        return [t for _, part in self.parts for t in get_ir_types(part)]

    def __cache_signature__(self) -> object:
        return (self.kind.__name__, tuple((key, cache_signature(part)) for key, part in self.parts))

    @classmethod
    def __construct_from_ir_values__(cls, values: list[Any], exemplar: ContainerArg) -> Any:
        from .jit_argument import dsl_type_of

        found, start = [], 0
        for key, part in exemplar.parts:
            count = len(get_ir_types(part))
            taken = values[start : start + count]
            found.append((key, construct_from_ir_values(dsl_type_of(part), part, taken)))
            start += count
        return dict(found) if exemplar.kind is dict else exemplar.kind(value for _, value in found)

    def each(self, visit: Callable[[Any, Any], list[Any]]) -> list[Any]:
        """The results of ``visit(key, argument)`` for all entries, one list."""
        return [item for key, part in self.parts for item in visit(key, part)]


def make_container(value: Any, resolve: Callable[[Any, Any], Any]) -> ContainerArg | None:
    """The argument of a plain tuple, list or dictionary by ``resolve(key, entry)``; None for anything else."""
    if type(value) is dict:
        return ContainerArg(dict, [(key, resolve(key, entry)) for key, entry in value.items()])
    if type(value) in (tuple, list):
        return ContainerArg(type(value), [(i, resolve(i, entry)) for i, entry in enumerate(value)])
    return None
