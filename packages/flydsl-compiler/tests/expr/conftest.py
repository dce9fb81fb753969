"""Tracing without the compiler: a function with arguments of given types, verified when the test is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flydsl._mlir import ir


class Trace:
    """An open function body in a fresh context."""

    def __init__(self, module: ir.Module, block: ir.Block, op: Any) -> None:
        self.module = module
        self.block = block
        self.op = op

    def arg(self, ty: Any) -> Any:
        """A new function argument of an MLIR type, or a typed scalar for a Numeric class."""
        ir_type = ty if isinstance(ty, ir.Type) else ty.ir_type
        value = self.block.add_argument(ir_type, ir.Location.unknown())
        value = value.maybe_downcast()
        return value if isinstance(ty, ir.Type) else ty(value)

    def vector(self, lanes: int, dtype: Any) -> Any:
        """A new argument that is a Vector of `dtype` lanes."""
        from flydsl.expr import Vector

        return Vector(self.arg(ir.VectorType.get([lanes], dtype.ir_type)), dtype=dtype)

    def ops(self) -> list[str]:
        """Names of the ops emitted so far, constants left out."""
        return [o.operation.name for o in self.block.operations if o.operation.name != "arith.constant"]

    def text(self) -> str:
        return self.module.operation.get_asm(assume_verified=True)

    def finish(self) -> None:
        """Close the function and verify the module."""
        inputs = [a.type for a in self.block.arguments]
        self.op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
        with ir.InsertionPoint(self.block):
            ir.Operation.create("func.return")
        assert self.module.operation.verify()


@contextmanager
def open_trace() -> Iterator[Trace]:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            op = ir.Operation.create(
                "func.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get("f"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
                },
            )
        block = op.regions[0].blocks.append()
        trace = Trace(module, block, op)
        with ir.InsertionPoint(block):
            yield trace
            trace.finish()


@pytest.fixture
def trace() -> Iterator[Trace]:
    with open_trace() as t:
        yield t
