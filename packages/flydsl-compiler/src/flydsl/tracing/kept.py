"""IR that outlives its trace: the user's code, or an error with its frames, may still hold values of it.

A value in Python keeps its context alive, but not the operation that it belongs to, and to print it reads that. So what
a trace leaves or gives up is kept as long as its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from .lazy import fly

__all__ = ["keep_body", "keep_operation", "keeping_body"]

_KEPT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by context


def keep_operation(operation: Any) -> None:
    """Take an operation out of its block. What was in it and was taken before may use its values."""
    context = operation.context
    if context not in _KEPT:
        _KEPT[context] = fly.KeptOperations()
    _KEPT[context].take(operation)


def keep_body(module: Any) -> None:
    """Take what a module contains out of it: it is not used any more."""
    for operation in list(module.body.operations):
        keep_operation(operation.operation)


@contextmanager
def keeping_body(module: Any) -> Iterator[None]:
    """:func:`keep_body`, if the block fails."""
    try:
        yield
    except BaseException:
        keep_body(module)
        raise
