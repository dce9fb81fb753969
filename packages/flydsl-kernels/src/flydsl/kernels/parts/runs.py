"""Runs: elements of a vector that follow each other."""

from __future__ import annotations

from typing import Any

__all__ = ["run_of", "runs_of"]


def run_of(values: Any, first: int, count: int) -> Any:
    """`count` elements of a vector from element number `first` on."""
    return values.shuffle(values, list(range(first, first + count)))


def runs_of(values: Any, count: int) -> list[Any]:
    """All elements of a vector, `count` each."""
    return [run_of(values, i, count) for i in range(0, values.numel, count)]
