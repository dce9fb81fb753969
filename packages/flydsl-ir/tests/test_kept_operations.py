"""IR that Python still has values of uses values of a context that Python no longer has."""

from __future__ import annotations

import gc
import weakref

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
