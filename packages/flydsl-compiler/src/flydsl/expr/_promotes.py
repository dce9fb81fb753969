"""What type checkers know of arithmetic between scalars; the stub file beside this one has it."""

from __future__ import annotations

from typing import Any

__all__ = ["BooleanOperators", "FloatOperators", "IntegerOperators", "Operators"]


class BooleanOperators:
    """A base without members at run time."""

    __slots__ = ()


class IntegerOperators:
    """``IntegerOperators[with an int, with a float, quotient]``: a base without members at run time."""

    __slots__ = ()

    def __class_getitem__(cls, results: Any) -> Any:
        return cls


class FloatOperators:
    """``FloatOperators[with a number]``: a base without members at run time."""

    __slots__ = ()

    def __class_getitem__(cls, results: Any) -> Any:
        return cls


class Operators:
    """``Operators[of arithmetic, of comparisons]``: a base without members at run time."""

    __slots__ = ()

    def __class_getitem__(cls, results: Any) -> Any:
        return cls
