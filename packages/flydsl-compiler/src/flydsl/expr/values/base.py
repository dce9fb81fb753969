"""Common base of the value classes whose meaning lies in a `fly` dialect type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flydsl._mlir import ir

C = TypeVar("C", bound=type)


def require(value: Any, classes: Any, what: str) -> Any:
    """``value``, if it is of the class, or one of the classes; else a TypeError that says what ``what`` must be."""
    if not isinstance(value, classes):
        names = " or ".join(c.__name__ for c in (classes if isinstance(classes, tuple) else (classes,)))
        raise TypeError(f"{what} must be a {names}, got {type(value).__name__}")
    return value


class FlyValue(ir.Value):
    """An SSA value of a `fly` type; a `DslType` with one IR value."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, ir.Value):
            raise TypeError(f"{type(self).__name__} wraps a value of a trace, got {type(value).__name__}; "
                            f"new ones come from the fx.make_* functions")
        super().__init__(value)

    def __str__(self) -> str:
        text = str(self.type)
        start = text.find("<")
        return type(self).__name__ + (text[start:] if start >= 0 else "")

    def __repr__(self) -> str:
        owner = self.owner
        where = "block_arg" if isinstance(owner, ir.Block) else f"op={owner.name}"
        return f"{self}({where})"

    def __dir__(self) -> list[str]:
        """The names of the language; those of MLIR values stay reachable without being offered."""
        classes = [cls for cls in type(self).__mro__ if cls.__module__.startswith("flydsl.expr")]
        return sorted({name for cls in classes for name in vars(cls)})

    def __eq__(self, other: object) -> bool:
        return other is not None and ir.Value.__eq__(self, other)  # which takes anything but None

    def __hash__(self) -> int:
        return ir.Value.__hash__(self)

    def ir_value(self) -> ir.Value:
        return self

    def __extract_to_ir_values__(self) -> list[ir.Value]:
        return [self]

    @classmethod
    def __construct_from_ir_values__(cls, values: list[ir.Value], exemplar: Any = None) -> Any:
        if len(values) != 1:
            raise ValueError(f"{cls.__name__}: expected 1 ir.Values, got {len(values)}")
        return cls(values[0])

    def __get_ir_types__(self) -> list[ir.Type]:
        return [self.type]

    @classmethod
    def __coerce__(cls, value: Any) -> Any:
        if not isinstance(value, cls):
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}")
        return value


class NestedValue(FlyValue):
    """A value whose type has the structure of a nested tuple."""

    @property
    def rank(self) -> int:
        return self.type.rank

    @property
    def depth(self) -> int:
        return self.type.depth

    @property
    def is_leaf(self) -> bool:
        return self.type.is_leaf

    @property
    def is_static(self) -> bool:
        return self.type.is_static


def caster_for(*types: Any) -> Callable[[C], C]:
    """Class decorator: values of these dialect types come back as the class."""

    def register(cls: C) -> C:
        for ty in types:
            ir.register_value_caster(ty.static_typeid, replace=True)(cls)
        return cls

    return register


def mode_path(mode: Any) -> list[int]:
    """A mode number or path as a list of non-negative ints."""
    path = list(mode) if isinstance(mode, (list, tuple)) else [mode]
    out = []
    for m in path:
        if hasattr(m, "is_static") and not isinstance(m, ir.Value):
            m = int(m)
        if not isinstance(m, int) or isinstance(m, bool):
            raise TypeError(f"mode numbers are ints, got {type(m).__name__}")
        if m < 0:
            raise ValueError(f"mode numbers are not negative, got {m}")
        out.append(m)
    return out
