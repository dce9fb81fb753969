"""Memory that an operation of :mod:`flydsl.kernels.ops` takes beyond its results.

Operands that are not contiguous are copied first; that is not counted. Weights that are kept in the order of a kernel
live as long as they do.
"""

from __future__ import annotations

from typing import Any

from .op import operations
from .target import target

__all__ = ["workspace"]


def workspace(operation: str, *arguments: Any, **named: Any) -> int:
    """Bytes that a call of an operation (by the name of its operator) with these arguments takes beyond its results.

    Raises:
        ValueError: there is no operation of that name, or only its values tell.
    """
    found = getattr(operations(), operation, None)
    if found is None:
        raise ValueError(f"there is no operation {operation!r}: known are {', '.join(vars(operations()))}")
    if found.workspace is None:
        raise ValueError(f"the workspace of {operation!r} depends on values, not on sizes alone")
    return found.workspace(target(), *found.arguments(*arguments, **named))
