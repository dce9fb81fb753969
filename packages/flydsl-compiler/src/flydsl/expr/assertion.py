"""Conditions that each launch checks on the host."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.context import current_kernel
from flydsl.tracing.locations import dsl_loc_tracing

from .utils.arith import raw_operand

__all__ = ["host_assert"]


@dsl_loc_tracing
def host_assert(condition: Any, message: str) -> None:
    """From a jit function: a call of it ends with a HostAssertionError unless ``condition`` is true.

    A condition that is known while tracing is checked then; one of run-time numbers (extents, strides, scalars) is
    checked on the host at each launch, in its place among the launches of the function: ::

        fx.host_assert(N % 64 == 0, "the kernel takes rows of a multiple of 64 elements")

    Args:
        condition: Python's or the language's Boolean.
        message: text of the error, without a run-time value.

    Raises:
        flydsl.runtime.HostAssertionError: the condition is known and false.
        TypeError: the condition is no Boolean.
        RuntimeError: called from a kernel, which cannot end a call.
    """
    if current_kernel() is not None:
        raise RuntimeError("host_assert is checked on the host, by jit functions; a kernel may branch and fx.printf")
    if isinstance(condition, bool):
        if not condition:
            from flydsl.runtime import HostAssertionError

            raise HostAssertionError(message)
        return
    value = raw_operand(condition)
    if not isinstance(value, ir.Value) or str(value.type) != "i1":
        raise TypeError(f"host_assert takes a Boolean condition, got {condition!r}")
    ir.Operation.create("cf.assert", operands=[value], attributes={"msg": ir.StringAttr.get(message)})
