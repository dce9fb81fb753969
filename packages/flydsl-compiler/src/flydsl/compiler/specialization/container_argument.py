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

    def plan_entry(self, name: str) -> dict[str, Any]:
        """The argument's entry in the launch plan: every call must leave it out, too."""
        return {"kind": "absent", "name": name}

    @classmethod
    def __construct_from_ir_values__(cls, values: list[Any], exemplar: Any = None) -> None:
        return None


class ContainerArg:
    """A tuple, list or dictionary whose entries are arguments themselves; its structure is part of the key.

    Attributes:
        kind: the container's class. parts: (key or position, argument) in order. type_of: gives the class that an
            argument has while tracing.
    """

    def __init__(self, kind: Any, parts: list[tuple[Any, Any]], type_of: Callable[[Any], Any]) -> None:
        self.kind, self.parts, self.type_of = kind, parts, type_of

    def __get_ir_types__(self) -> list[Any]:
        return [t for _, part in self.parts for t in get_ir_types(part)]

    def __cache_signature__(self) -> object:
        return (self.kind.__name__, tuple((key, cache_signature(part)) for key, part in self.parts))

    @classmethod
    def __construct_from_ir_values__(cls, values: list[Any], exemplar: ContainerArg) -> Any:
        found, start = [], 0
        for key, part in exemplar.parts:
            count = len(get_ir_types(part))
            taken = values[start : start + count]
            found.append((key, construct_from_ir_values(exemplar.type_of(part), part, taken)))
            start += count
        return dict(found) if exemplar.kind is dict else exemplar.kind(value for _, value in found)

    def entry(self, value: Any, key: Any) -> Any:
        """The entry of a container that is passed in a call. TypeError unless it has the structure of this one."""
        keys = [key for key, _ in self.parts]
        if type(value) is not self.kind or len(value) != len(keys) or self.kind is dict and list(value) != keys:
            entries = f"the keys {keys}" if self.kind is dict else f"{len(keys)} entries"
            given = f"the keys {list(value)}" if type(value) is dict else f"{value!r:.60}"
            raise TypeError(f"expected a {self.kind.__name__} with {entries}, got {given}")
        return value[key]

    def each(self, visit: Callable[[Any, Any], list[Any]]) -> list[Any]:
        """The results of ``visit(key, argument)`` for all entries, one list."""
        return [item for key, part in self.parts for item in visit(key, part)]


def make_container(
    value: Any, resolve: Callable[[Any, Any], Any], type_of: Callable[[Any], Any]
) -> ContainerArg | None:
    """The argument of a plain tuple, list or dictionary by ``resolve(key, entry)``; None for anything else."""
    if type(value) is dict:
        return ContainerArg(dict, [(key, resolve(key, entry)) for key, entry in value.items()], type_of)
    if type(value) in (tuple, list):
        return ContainerArg(type(value), [(i, resolve(i, entry)) for i, entry in enumerate(value)], type_of)
    return None
