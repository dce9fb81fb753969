"""Walking IR without its Python classes.

Iterating a block makes an OpView of every operation, for which MLIR imports the module of its dialect; that
of LLVM alone takes as long as a small compile. A walk hands out plain operations.
"""

from __future__ import annotations

from typing import Any

__all__ = ["children", "in_block", "kernel_functions", "walk"]


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


def in_block(block: Any) -> list[Any]:
    """The operations directly in ``block``, in their order, as plain `ir.Operation` objects."""
    return [op for op in children(block.owner) if op.block == block]


def walk(op: Any) -> list[Any]:
    """All operations inside ``op`` at any depth, outer before inner, as plain `ir.Operation` objects."""
    from flydsl._mlir import ir

    found: list[Any] = []

    def visit(inner: Any) -> Any:
        found.append(inner)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


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
