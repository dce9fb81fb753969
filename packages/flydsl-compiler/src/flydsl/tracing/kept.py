"""IR that outlives its trace: the user's code, or an error with its frames, may still hold values of it.

A value in Python keeps the module that it is in, but not what is taken out of it, nor the values of another trace that
a wrong program used there. So what a trace leaves or gives up is kept as long as its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from .lazy import fly

__all__ = ["give_up", "keep_body", "keep_operation", "traced_module"]

_KEPT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by context


def keep_operation(operation: Any) -> None:
    """Take an operation out of its block. What was in it and was taken before may use its values."""
    context = operation.context
    if context not in _KEPT:
        _KEPT[context] = fly._KeptOperations()
    _KEPT[context].take(operation)


def give_up(operation: Any) -> None:
    """Erase an unfinished operation, and keep what is in it. That uses the values around it no more, which may end
    before."""
    from flydsl._mlir import ir

    inside: set[int] = set()  # hashes: to compare values would compute with them

    def collect(nested: Any) -> Any:
        inside.update(map(hash, nested.results))
        inside.update(hash(a) for region in nested.regions for block in region for a in block.arguments)
        return ir.WalkResult.ADVANCE

    def sever(nested: Any) -> Any:
        for i, operand in enumerate(nested.operands):
            if hash(operand) not in inside:
                unknown = ir.Operation.create("builtin.unrealized_conversion_cast", results=[operand.type],
                                              ip=ir.InsertionPoint(nested))
                nested.operands[i] = unknown.result
        return ir.WalkResult.ADVANCE

    holder = ir.Operation.create("scf.execute_region", regions=1).operation
    for region in operation.regions:
        for block in list(region):
            block.append_to(holder.regions[0])
    holder.walk(collect)
    holder.walk(sever)
    keep_operation(holder)
    operation.operation.erase()


def keep_body(module: Any) -> None:
    """Take what a module contains out of it: it is not used any more."""
    for operation in list(module.body.operations):
        keep_operation(operation.operation)


@contextmanager
def traced_module() -> Iterator[Any]:
    """A new module; :func:`keep_body`, if the block fails."""
    from flydsl._mlir import ir

    module = ir.Module.create()
    try:
        yield module
    except BaseException:
        keep_body(module)
        raise
