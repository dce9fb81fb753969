"""Helpers around the expression types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .classattr import lazy_classattr

__all__ = ["lazy_classattr", "print_typst"]


def print_typst(obj: Any, *, color: Callable[..., str] | None = None, file: Any = None) -> None:
    """Typst markup of a static layout, MMA or tiled copy; see `flydsl.expr.utils.typst`."""
    from .typst import print_typst as implementation

    implementation(obj, color=color, file=file)
