"""IR that Python still has values of: it ends before or after what uses it, in whatever context that is."""

from __future__ import annotations

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly


def _operation(name: str, operands: list[ir.Value], results: int) -> ir.Operation:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        types = [ir.IntegerType.get_signless(32)] * results
        return ir.Operation.create(name, operands=operands, results=types)


def test_what_ends_first_takes_its_uses_along() -> None:
    given = _operation("t.give", [], 2)
    user = _operation("t.use", [given.results[1], given.results[0]], 1)
    module = ir.Module.create(ir.Location.unknown(given.context))
    module.body.append(given)
    kept = fly._KeptOperations()
    kept.take(given)
    del given, module
    assert "t.give" in str(user.operands[0].owner)
    del kept
    assert str(user).count("<<NULL VALUE>>") == 2


def test_in_any_order_within_a_context() -> None:
    given = _operation("t.give", [], 1)
    with given.context, ir.Location.unknown():
        user = ir.Operation.create("t.use", operands=[given.results[0]])
        module = ir.Module.create()
    for operation in (given, user):
        module.body.append(operation)
    kept = fly._KeptOperations()
    kept.take(given)
    del given, operation
    del kept
    assert "<<NULL VALUE>>" in str(module)
