"""What Python has of operations, blocks and values that passes or patterns have erased raises when it is used."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flydsl._mlir import ir
from flydsl._mlir.passmanager import PassManager
from flydsl._mlir.rewrite import RewritePatternSet, apply_patterns_and_fold_greedily, walk_and_apply_patterns

TEXT = """
func.func private @other()
func.func @f(%a: i32, %l: !fly.layout<(4,8):(1,4)>) -> i32 {
  %c = arith.constant 1 : i32
  %kept = arith.addi %a, %c : i32
  %same = arith.addi %a, %c : i32
  %dead = arith.muli %kept, %same : i32
  %t = "t.test"() : () -> i1
  %s = scf.if %t -> i32 {
    %x = arith.muli %kept, %c : i32
    scf.yield %x : i32
  } else {
    scf.yield %same : i32
  }
  return %s : i32
}
"""
REMOVE = "builtin.module(canonicalize,cse,fly-rewrite-func-signature,func.func(convert-scf-to-cf),symbol-dce)"


@pytest.fixture
def held() -> Iterator[SimpleNamespace]:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        symbols = ir.SymbolTable(module.operation)
        function = module.body.operations[1]
        entry = function.regions[0].blocks[0]
        constant, kept, same, dead, _, branch, _ = entry.operations
        inner = branch.regions[0].blocks[0]
        yield SimpleNamespace(
            module=module, symbols=symbols, function=function, entry=entry, constant=constant, kept=kept, dead=dead,
            branch=branch, inner=inner, product=inner.operations[0], layout=entry.arguments[1], a=entry.arguments[0],
            uses=kept.result.uses, use=next(kept.result.uses), operations=iter(inner.operations), same=same,
            blocks=iter(branch.regions[0]), arguments=entry.arguments, in_inner=ir.InsertionPoint(inner),
            before_dead=ir.InsertionPoint(dead), region=branch.regions[0], operands=dead.operands,
        )


def _insert(point: ir.InsertionPoint) -> None:
    ir.Operation.create("t.new", ip=point)


# Of what the passes erase.
GONE: dict[str, Callable[[SimpleNamespace], Any]] = {
    "text": lambda h: str(h.dead),
    "name": lambda h: h.dead.name,
    "attributes": lambda h: h.dead.attributes["x"],
    "set attribute": lambda h: h.dead.attributes.__setitem__("x", ir.UnitAttr.get()),
    "operands": lambda h: h.operands[0],
    "set operand": lambda h: h.operands.__setitem__(0, h.a),
    "result": lambda h: h.dead.result.type,
    "erase": lambda h: h.dead.erase(),
    "clone": lambda h: h.dead.operation.clone(),
    "move": lambda h: h.dead.move_before(h.kept),
    "move behind": lambda h: h.kept.move_after(h.dead),
    "parent": lambda h: h.dead.parent,
    "value": lambda h: str(h.product.result),
    "use of a value": lambda h: h.a.replace_all_uses_with(h.same.result),
    "owner of a use": lambda h: [use.owner for use in h.uses][0].name,
    "argument": lambda h: h.layout.type,
    "uses of an argument": lambda h: list(h.layout.uses),
    "argument of a list": lambda h: h.arguments[1],
    "block": lambda h: str(h.inner),
    "operations of a block": lambda h: list(h.inner.operations),
    "arguments of a block": lambda h: list(h.inner.arguments),
    "next operation": lambda h: next(h.operations),
    "next block": lambda h: next(h.blocks),
    "region": lambda h: list(h.region.blocks),
    "append": lambda h: h.inner.append(ir.Operation.create("t.new")),
    "insert in a block": lambda h: _insert(h.in_inner),
    "insert before": lambda h: _insert(h.before_dead),
    "symbol": lambda h: h.symbols["other"],
}


@pytest.mark.parametrize("use", GONE.values(), ids=GONE.keys())
def test_what_passes_erase_raises(held: SimpleNamespace, use: Callable[[SimpleNamespace], Any]) -> None:
    PassManager.parse(REMOVE).run(held.module.operation)
    assert "t.test" in str(held.module) and "scf.if" not in str(held.module)
    gc.collect()
    with pytest.raises((RuntimeError, IndexError, KeyError)):
        use(held)


def test_what_passes_leave_can_be_used(held: SimpleNamespace) -> None:
    PassManager.parse("builtin.module(canonicalize,cse)").run(held.module.operation)
    assert held.function.name.value == "f" and held.symbols["f"] == held.function
    assert held.kept.result.type == held.a.type and held.a.owner == held.entry
    assert [use.owner.name for use in held.kept.result.uses]
    held.kept.attributes["mark"] = ir.UnitAttr.get()
    _insert(ir.InsertionPoint.at_block_begin(held.entry))
    assert held.entry.operations[0].name == "t.new" and "mark" in str(held.module)
    assert held.module.operation.verify()


def test_of_another_module_is_left_alone(held: SimpleNamespace) -> None:
    other = ir.Module.parse(TEXT)
    dead = other.body.operations[1].regions[0].blocks[0].operations[3]
    PassManager.parse(REMOVE).run(held.module.operation)
    assert dead.name == "arith.muli" and str(dead.result)


def test_patterns_and_passes_of_python(held: SimpleNamespace) -> None:
    seen: list[Any] = []

    def replace(op: Any, rewriter: Any) -> None:
        seen.extend([op, op.result])
        with rewriter.ip:
            new = ir.Operation.create("t.new", results=[op.result.type])
        rewriter.replace_op(op, new.operation)

    patterns = RewritePatternSet()
    patterns.add("arith.addi", replace)
    walk_and_apply_patterns(held.module.operation, patterns.freeze())
    for use in (*(lambda what=what: str(what) for what in seen), lambda: str(held.kept), lambda: held.kept.result):
        with pytest.raises(RuntimeError, match="invalidated"):
            use()
    apply_patterns_and_fold_greedily(held.module, RewritePatternSet().freeze())
    with pytest.raises(RuntimeError, match="invalidated"):
        str(held.dead)

    manager = PassManager()
    manager.add(lambda op, _: seen.append(op.regions[0].blocks[0].operations[1]), name="take")
    manager.add("symbol-dce")
    del seen[:]
    manager.run(held.module.operation)
    assert "@f" in str(seen[0])


def test_what_is_used_is_not_erased(held: SimpleNamespace) -> None:
    text = str(held.module)
    for erase in (held.kept.erase, lambda: held.entry.erase_argument(0)):
        with pytest.raises(ValueError, match="still used: erase what uses it first"):
            erase()
    taken = held.kept.operation.detach_from_parent()
    del taken, held.kept
    gc.collect()
    held.dead.erase()
    assert "arith.addi" in text and "arith.muli" in str(held.module)
    builder = ir.Operation.create("t.use", operands=[held.a])  # no one's but Python's, of a value of the module
    held.__dict__.clear()
    gc.collect()
    assert "t.use" in str(builder)


def test_errors_of_elements_of_lists(held: SimpleNamespace) -> None:
    operands = held.dead.operands
    held.dead.erase()
    for use in (lambda: operands[0], lambda: list(operands), lambda: operands[:1][0]):
        with pytest.raises(RuntimeError, match="invalidated"):
            use()


def test_erased_arguments_and_symbols(held: SimpleNamespace) -> None:
    with pytest.raises(IndexError):
        held.entry.erase_argument(9)
    held.entry.erase_argument(1)
    with pytest.raises(RuntimeError, match="invalidated"):
        str(held.layout)
    other = held.symbols["other"]
    again = held.module.body.operations[0]
    del held.symbols["other"]
    for what in (other, again):
        with pytest.raises(RuntimeError, match="invalidated"):
            str(what)
    held.function.erase()
    with pytest.raises(KeyError):
        held.symbols["f"]


def test_symbol_table_owns_what_it_takes(held: SimpleNamespace) -> None:
    held.symbols.insert(ir.Operation.parse("func.func private @taken()"))
    gc.collect()
    assert held.symbols["taken"].name.value == "taken" and "@taken" in str(held.module)


def test_moved_and_followed_blocks() -> None:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        function = ir.Operation.parse("func.func @f() { cf.br ^next\n ^next: return }").operation
        entry, after = function.regions[0].blocks
        followed = entry.operations[0].successors[0]
        assert followed == after and followed.owner == function
        target = ir.Operation.create("t.holder", regions=1)
        after.append_to(target.regions[0])
        assert after.owner == target and str(after)


@pytest.mark.parametrize("where", ["in the process", "in a thread"])
def test_context_that_is_never_left(where: str) -> None:
    enter = "from flydsl._mlir import ir\ndef enter(): ir.Context().__enter__()\n"
    call = {"in the process": "enter()", "in a thread":
            "import threading\nt = threading.Thread(target=enter)\nt.start()\nt.join()"}[where]
    done = subprocess.run([sys.executable, "-c", enter + call + "\nprint('end')"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
