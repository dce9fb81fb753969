"""Extension protocols: how objects become IR values, cache signatures and launch arguments.

Every function dispatches on the object and recurses through namespaces, dicts, tuples and lists, so
that such containers of DSL values can be carried by control flow and passed to kernels.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

__all__ = [
    "DslType", "JitArgument", "Storable", "c_abi_spec", "cache_signature", "construct_from_ir_values", "dsl_align_of",
    "dsl_size_of", "extract_to_ir_values", "get_ir_types", "peek_from_ptr", "poke_into_ptr",
]


@runtime_checkable
class DslType(Protocol):
    """A value that exists while tracing: a wrapper of IR values."""

    @classmethod
    def __construct_from_ir_values__(cls, values: list[Any], exemplar: Any = None) -> Any: ...

    def __extract_to_ir_values__(self) -> list[Any]: ...


@runtime_checkable
class JitArgument(Protocol):
    """A value that a host call passes to a jit function."""

    def __get_ir_types__(self) -> list[Any]: ...

    def __cache_signature__(self) -> object: ...

    def __c_abi_spec__(self) -> list[tuple[Any, Any]]: ...


@runtime_checkable
class Storable(Protocol):
    """A type with a memory representation."""

    @classmethod
    def __dsl_size_of__(cls) -> int: ...

    @classmethod
    def __dsl_align_of__(cls) -> int: ...

    @classmethod
    def __peek_from_ptr__(cls, ptr: Any) -> Any: ...

    @classmethod
    def __poke_into_ptr__(cls, ptr: Any, value: Any) -> None: ...


_ir: Any = None


def _value_class() -> Any:
    """`ir.Value`, imported late: a launch from the cache must not load MLIR."""
    global _ir
    if _ir is None:
        from flydsl._mlir import ir

        _ir = ir
    return _ir.Value


def _has(obj: Any, name: str) -> bool:
    return getattr(obj, name, None) is not None


def extract_to_ir_values(obj: Any) -> list[Any]:
    """The IR values in ``obj``, depth first. TypeError names an object that holds none."""
    if isinstance(obj, _value_class()):
        return [obj]
    if _has(obj, "__extract_to_ir_values__"):
        return list(obj.__extract_to_ir_values__())
    if obj is None:  # an argument that is left out
        return []
    if isinstance(obj, SimpleNamespace):
        return [v for item in vars(obj).values() for v in extract_to_ir_values(item)]
    if isinstance(obj, dict):
        return [v for item in obj.values() for v in extract_to_ir_values(item)]
    if isinstance(obj, (tuple, list)):
        return [v for item in obj for v in extract_to_ir_values(item)]
    raise TypeError(f"{obj!r} ({type(obj).__name__}) holds no IR values: it has no __extract_to_ir_values__")


def get_ir_types(obj: Any) -> list[Any]:
    """The IR types of ``obj`` as an argument, depth first."""
    if isinstance(obj, _value_class()):
        return [obj.type]
    if _has(obj, "__get_ir_types__"):
        return list(obj.__get_ir_types__())
    if isinstance(obj, SimpleNamespace):
        return [t for item in vars(obj).values() for t in get_ir_types(item)]
    if isinstance(obj, dict):
        return [t for item in obj.values() for t in get_ir_types(item)]
    if isinstance(obj, (tuple, list)):
        return [t for item in obj for t in get_ir_types(item)]
    try:
        return [v.type for v in extract_to_ir_values(obj)]
    except Exception as error:
        raise TypeError(f"cannot derive IR types of {obj!r} ({type(obj).__name__}): {error}") from error


def cache_signature(obj: Any) -> object:
    """What of ``obj`` enters the cache key: a hashable value."""
    if _has(obj, "__cache_signature__"):
        return obj.__cache_signature__()
    if isinstance(obj, SimpleNamespace):
        return tuple((name, cache_signature(item)) for name, item in vars(obj).items())
    if isinstance(obj, (tuple, list)):
        return tuple(cache_signature(item) for item in obj)
    raise TypeError(f"{type(obj).__name__} has no cache signature: it does not define __cache_signature__")


def c_abi_spec(obj: Any) -> list[tuple[Any, Any]]:
    """The launch slots of ``obj``: (ctypes type, fill function) each."""
    if _has(obj, "__c_abi_spec__"):
        return list(obj.__c_abi_spec__())
    raise TypeError(f"{type(obj).__name__} has no C-ABI description: it does not define __c_abi_spec__")


def _count(exemplar: Any) -> int:
    return len(extract_to_ir_values(exemplar))


def _check_count(name: str, expected: int, values: list[Any]) -> None:
    if len(values) != expected:
        raise ValueError(f"{name}: expected {expected} ir.Values, got {len(values)}")


def construct_from_ir_values(dsl_type: Any, args: Any, values: list[Any]) -> Any:
    """Rebuild an object of ``dsl_type`` around new IR values; ``args`` is the exemplar.

    Raises:
        ValueError: the number of values does not fit. TypeError: the type cannot be rebuilt.
    """
    values = list(values)
    if args is None and dsl_type is type(None):
        _check_count("None", 0, values)
        return None
    if isinstance(args, (SimpleNamespace, dict)):
        items = vars(args) if isinstance(args, SimpleNamespace) else args
        rebuilt = dict(zip(items, _rebuild_members(type(args).__name__, items.values(), values), strict=True))
        return SimpleNamespace(**rebuilt) if isinstance(args, SimpleNamespace) else type(args)(rebuilt)
    if _has(dsl_type, "__construct_from_ir_values__"):
        return dsl_type.__construct_from_ir_values__(values, args)
    if isinstance(args, (tuple, list)):
        types = dsl_type if isinstance(dsl_type, (tuple, list)) and len(dsl_type) == len(args) else None
        members = _rebuild_members(type(args).__name__, args, values, types)
        return type(args)(*members) if hasattr(args, "_fields") else type(args)(members)
    if isinstance(args, _value_class()):
        _check_count("ir.Value", 1, values)
        return values[0]
    name = getattr(dsl_type, "__name__", str(dsl_type))
    raise TypeError(f"cannot rebuild {name} from IR values: it has no __construct_from_ir_values__")


def _rebuild_members(name: str, members: Any, values: list[Any], types: Any = None) -> list[Any]:
    members = list(members)
    counts = [_count(member) for member in members]
    _check_count(name, sum(counts), values)
    rebuilt, start = [], 0
    for i, (member, count) in enumerate(zip(members, counts, strict=True)):
        kind = type(member) if types is None else types[i]
        rebuilt.append(construct_from_ir_values(kind, member, values[start : start + count]))
        start += count
    return rebuilt


def _storable(kind: Any, member: str) -> Any:
    function = getattr(kind, member, None)
    if function is None:
        raise TypeError(f"{getattr(kind, '__name__', kind)} is not Storable: it does not define {member}")
    return function


def dsl_size_of(kind: Any) -> int:
    """Size of a Storable type in bytes."""
    return _storable(kind, "__dsl_size_of__")()


def dsl_align_of(kind: Any) -> int:
    """Alignment of a Storable type in bytes."""
    return _storable(kind, "__dsl_align_of__")()


def peek_from_ptr(kind: Any, ptr: Any) -> Any:
    """Load a Storable value."""
    return _storable(kind, "__peek_from_ptr__")(ptr)


def poke_into_ptr(kind: Any, ptr: Any, value: Any) -> None:
    """Store a Storable value."""
    _storable(kind, "__poke_into_ptr__")(ptr, value)
