"""Helpers around the expression types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["lazy_classattr", "print_typst"]


class lazy_classattr:  # noqa: N801 - used like a decorator
    """A class attribute that is computed at every access (MLIR types belong to one context)."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.func(owner if owner is not None else type(instance))


def print_typst(obj: Any, *, color: Callable[..., str] | None = None, file: Any = None) -> None:
    """Typst markup of a static layout, MMA or tiled copy; see `flydsl.expr.utils.typst`."""
    from .typst import print_typst as implementation

    implementation(obj, color=color, file=file)
