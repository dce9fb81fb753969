"""Walking IR without its Python classes.

Iterating a block makes an OpView of every operation, and asking for a value makes one of its type's class; for both
MLIR imports the module of the dialect. That of LLVM alone takes as long as a small compile. A walk hands out plain
operations and values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["PlainValue", "arguments", "children", "in_block", "kernel_functions", "named", "operands", "results",
           "walk"]


class PlainValue(NamedTuple):
    """What a walk needs of a value.

    Attributes:
        key: the same for the same value, as long as its operation or block exists.
        type: as MLIR spells it.
    """

    key: int
    type: str


def operands(op: Any) -> list[PlainValue]:
    """The operands of an operation."""
    from flydsl._mlir.dialects import fly

    return [PlainValue(*value) for value in fly.plain_operands(op)]


def results(op: Any) -> list[PlainValue]:
    """The results of an operation."""
    from flydsl._mlir.dialects import fly

    return [PlainValue(*value) for value in fly.plain_results(op)]


def arguments(block: Any) -> list[PlainValue]:
    """The arguments of a block."""
    from flydsl._mlir.dialects import fly

    return [PlainValue(*value) for value in fly.plain_arguments(block)]


def children(op: Any) -> list[Any]:
    """The operations directly inside ``op``, block by block, as plain `ir.Operation` objects."""
    from flydsl._mlir import ir

    found: list[Any] = []
    entered = False

    def visit(inner: Any) -> Any:
        nonlocal entered
        if not entered:
            entered = True
            return ir.WalkResult.ADVANCE
        found.append(inner)
        return ir.WalkResult.SKIP

    op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def in_block(block: Any, start: int = 0) -> list[Any]:
    """The operations directly in ``block`` from the ``start``-th on, as plain `ir.Operation` objects."""
    from flydsl._mlir.dialects import fly

    return fly.plain_operations(block, start)


def walk(op: Any) -> list[Any]:
    """All operations inside ``op`` at any depth, outer before inner, as plain `ir.Operation` objects."""
    from flydsl._mlir import ir

    found: list[Any] = []

    def visit(inner: Any) -> Any:
        found.append(inner)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def named(op: Any, *names: str) -> list[Any]:
    """The operations inside ``op`` at any depth that have one of the names, outer before inner: `walk` makes a Python
    object of each operation that it passes."""
    from flydsl._mlir.dialects import fly

    return fly.operations_named(op, names)


def kernel_functions(module: Any) -> list[Any]:
    """The kernel entries of a module, before or after lowering."""
    marks = ("gpu.kernel", "kernel", "rocdl.kernel")
    return [
        inner
        for op in children(module)
        if op.name == "gpu.module"
        for inner in children(op)
        if inner.name in ("gpu.func", "llvm.func") and any(mark in inner.attributes for mark in marks)
    ]
