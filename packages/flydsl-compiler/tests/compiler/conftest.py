"""Fixtures of the compiler tests: open functions to trace into, modules of source text."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest


@pytest.fixture
def mlir() -> Any:
    """A current context, location and insertion point in a function with two i32 and one i1 argument."""
    from flydsl._mlir import ir
    from flydsl.compiler.passes.mlir_utils import mlir_context

    class Scope:
        pass

    scope = Scope()
    with mlir_context(), ir.Location.unknown():
        i32, i1 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(1)
        types = [i32, i32, i1]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = ir.Operation.create(
                "func.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get("f"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
                },
            )
        block = ir.Block.create_at_start(function.regions[0], types)
        with ir.InsertionPoint(block):
            from flydsl.expr import numeric

            scope.module = module
            scope.a, scope.b = (numeric.Int32(v) for v in list(block.arguments)[:2])
            scope.flag = numeric.Boolean(block.arguments[2])

            def text() -> str:
                with ir.InsertionPoint(block):
                    ir.Operation.create("func.return")
                module.operation.verify()
                return str(module)

            scope.text = text
            yield scope


@pytest.fixture
def load(tmp_path: Any) -> Any:
    """Import source text as a module from a file."""
    import importlib.util

    count = [0]

    def make(source: str) -> Any:
        count[0] += 1
        path = tmp_path / f"sample_{count[0]}.py"
        path.write_text(textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return make
