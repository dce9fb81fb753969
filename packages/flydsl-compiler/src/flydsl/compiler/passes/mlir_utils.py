"""Contexts of a compile, and walks over its IR."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flydsl.tracing.ir_walk import children, kernel_functions

__all__ = ["children", "kernel_functions", "mlir_context"]


@contextlib.contextmanager
def mlir_context() -> Iterator[Any]:
    """A fresh context without threads; nothing of it stays active when the block fails."""
    from flydsl._mlir import ir

    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        if hasattr(context, "load_all_available_dialects"):
            context.load_all_available_dialects()
        yield context
