"""Loads of what nothing writes while the kernel runs."""

from __future__ import annotations

from typing import Any

from flydsl.tracing.lazy import llvm
from flydsl.tracing.locations import dsl_loc_tracing

from ..values.tensor import Pointer

__all__ = ["load_invariant"]


@dsl_loc_tracing
def load_invariant(pointer: Pointer) -> Any:
    """The value at a global pointer, which nothing writes while the kernel runs.

    At an address that a wave has in common it is loaded by the scalar unit, whatever stands before it: a plain load
    behind a barrier, assembly or a store becomes one of all lanes, whose wait includes theirs.
    """
    element = pointer.element_type
    return element(llvm.load(element.ir_type, pointer.llvm_ptr, alignment=pointer.alignment, invariant=True))
