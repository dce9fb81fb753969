"""IR that Python still has values of uses values of a context that Python no longer has."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly


def _operation(context: ir.Context, name: str, operands: list[ir.Value]) -> ir.Operation:
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        return ir.Operation.create(name, operands=operands, results=[ir.IntegerType.get_signless(32)])


def test_contexts_of_used_values_stay() -> None:
    first, second = ir.Context(), ir.Context()
    given = _operation(first, "t.give", [])
    ended: list[int] = []
    weakref.finalize(first, ended.append, 1)
    user = _operation(second, "t.use", [given.results[0]])
    with ir.Location.unknown(second):
        module = ir.Module.create()
    module.body.append(user)
    kept = fly._KeptOperations()
    kept.take(user)
    del first, given
    gc.collect()
    assert not ended
    del kept, user, module
    gc.collect()
    assert ended


TEXT = "func.func @f(%a: i32) -> i32 { %b = arith.addi %a, %a : i32\n return %b : i32 }"


def _built(module: ir.Module) -> ir.Value:
    with ir.InsertionPoint(module.body):
        return ir.Operation.create("t.give", results=[ir.IntegerType.get_signless(32)]).result


def _appended(module: ir.Module) -> ir.Operation:
    operation = ir.Operation.create("t.give")
    module.body.append(operation)
    return operation


def _block(module: ir.Module) -> ir.Block:
    return module.body.operations[0].regions[0].blocks[0]


def _walked(module: ir.Module) -> ir.Operation:
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found[0]


@pytest.mark.parametrize("take", [
    _built,
    _appended,
    _block,
    _walked,
    lambda module: next(iter(module.body.operations)),
    lambda module: module.body.operations[0].operation.clone(ip=ir.InsertionPoint(module.body)),
    lambda module: _block(module).arguments[0],
    lambda module: list(_block(module).arguments[0].uses)[0].owner,
    lambda module: _block(module).operations[0].operands[0].owner,
    lambda module: _block(module).operations[0].parent,
    lambda module: fly.get_shape(fly.static(fly.LayoutType.get((2, 3), (1, 2)), ip=ir.InsertionPoint(module.body)),
                                 ip=ir.InsertionPoint(module.body)),
], ids=range(11))
def test_what_is_in_a_module_keeps_it(take: Callable[[ir.Module], Any]) -> None:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        taken = take(module)
    text = str(taken)
    del module
    gc.collect()
    assert context._get_live_module_count() == 1
    assert str(taken) == text
    del taken
    gc.collect()
    assert context._get_live_module_count() == 0


def test_what_is_in_an_operation_keeps_it() -> None:
    context = ir.Context()
    with context, ir.Location.unknown():
        function = ir.Operation.parse(TEXT).operation
    references = sys.getrefcount(function)
    value = function.regions[0].blocks[0].operations[0].results[0]
    assert sys.getrefcount(function) == references + 1
    del function
    gc.collect()
    assert "arith.addi" in str(value.owner.parent)


def test_what_was_in_an_erased_operation_is_told() -> None:
    context = ir.Context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        function = module.body.operations[0]
        addition = _block(module).operations[0]
        visited: list[ir.Operation] = []
        module.operation.walk(lambda op: (visited.append(op), ir.WalkResult.ADVANCE)[1])
        taken = [addition, addition.result, addition.operands[0], _block(module), _block(module).arguments[0],
                 module.body.operations[0], *visited[:-1]]
        value = taken[1]
        numbers = {value: 1}
        function.erase()
        for what in taken:
            with pytest.raises(RuntimeError, match="the operation has been invalidated"):
                str(what)
        for use in (lambda: value.type, lambda: value.owner.name, lambda: list(value.uses), value.get_name,
                    lambda: value.replace_all_uses_with(value)):
            with pytest.raises(RuntimeError, match="the operation has been invalidated"):
                use()
        with pytest.raises((RuntimeError, TypeError)):
            ir.Operation.create("builtin.unrealized_conversion_cast", operands=[value], results=[])
        with pytest.raises((RuntimeError, TypeError)):
            fly.get_scalar(value)
        assert numbers.pop(value) == 1
        assert str(module).split() == ["module", "{", "}"]
