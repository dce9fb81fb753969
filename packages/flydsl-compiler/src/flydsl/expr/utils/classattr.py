"""Attributes of classes that are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class lazy_classattr:  # noqa: N801 - used like a decorator
    """A class attribute that is computed at every access (MLIR types belong to one context)."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.func(owner if owner is not None else type(instance))
