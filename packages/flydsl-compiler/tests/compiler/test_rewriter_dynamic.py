"""Rewritten functions with device values become `scf` ops, or errors at the user's line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.expr as fx  # noqa: E402
from flydsl.compiler.ast_rewriter import (  # noqa: E402
    ASTRewriter,
    InsertEmptyYieldForSCFFor,
    ReplaceIfWithDispatch,
)
from flydsl.tracing.diagnostics import DSLCompileError  # noqa: E402


def run(function: Any, *args: Any) -> Any:
    return ASTRewriter.transform(function)(*args)


def test_if_without_carried_names(mlir: Any) -> None:
    def f(a: Any) -> None:
        if a > 3:
            fx.Int32(1) + a

    run(f, mlir.a)
    text = mlir.text()
    assert "scf.if" in text and "else" not in text and "->" not in text.split("scf.if")[1].split("{")[0]


def test_if_carries_written_names(mlir: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        x = a
        if a > 3:
            x = x + b
        elif a > 1:
            x = b
        return x

    out = run(f, mlir.a, mlir.b)
    assert isinstance(out, fx.Int32)
    assert mlir.text().count("-> (i32)") == 2


def test_name_bound_in_both_branches(mlir: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        if a > 3:
            x = a
        else:
            x = b
        return x + 1

    assert isinstance(run(f, mlir.a, mlir.b), fx.Int32)
    assert "scf.if" in mlir.text()


def test_name_bound_in_one_branch(mlir: Any) -> None:
    def f(a: Any) -> Any:
        if a > 3:
            x = a
        return x + 1

    with pytest.raises(NameError, match="Initialise it before") as info:
        run(f, mlir.a)
    assert "return x + 1" in str(info.value)


def test_guard_with_return_takes_the_rest_into_its_other_branch(mlir: Any) -> None:
    def f(a: Any) -> Any:
        if a > 3:
            return a
        return a + 1

    run(f, mlir.a)
    text = mlir.text()
    assert text.count("scf.if") == 1 and text.count("scf.yield") == 2 and "-> (i32)" in text


def test_type_change_names_both_types(mlir: Any) -> None:
    def f(a: Any) -> Any:
        x = 0
        if a > 3:
            x = 1.5
        return x

    with pytest.raises(TypeError, match=r"then-branch.*does not match the region entry.*i32.*f32"):
        run(f, mlir.a)


def test_none_as_initial_value(mlir: Any) -> None:
    def f(a: Any) -> Any:
        x = None
        if a > 3:
            x = a
        return x

    with pytest.raises(TypeError, match="x is None.*const_expr"):
        run(f, mlir.a)


def test_condition_must_be_boolean(mlir: Any) -> None:
    def f(a: Any) -> None:
        if a:
            a + 1

    with pytest.raises(TypeError, match="n != 0"):
        run(f, mlir.a)


def test_containers_are_carried(mlir: Any) -> None:
    def f(a: Any) -> Any:
        acc = [a, (1, 2.0)]
        ns = SimpleNamespace(x=a)
        for i in range(4):
            acc[0] = acc[0] + 1
            ns.x = ns.x + i
        return acc, ns

    acc, ns = run(f, mlir.a)
    assert isinstance(acc[1][1], fx.Float32) and isinstance(ns.x, fx.Int32)
    assert "scf.for" in mlir.text()


def test_classes_of_one_ir_type_are_not_mixed(mlir: Any) -> None:
    """A carried variable keeps its class: what would come back as another one is an error, not its bits."""
    Tile = fx.Struct["at": fx.Int32, "size": fx.Constexpr[int]]

    def wrap(a: Any) -> None:
        n = a
        if a > 3:
            n = [n]

    def specialise(a: Any) -> Any:
        tile = Tile(a, size=4)
        if a > 3:
            tile = Tile(a, size=8)
        return tile

    def unwrap(a: Any) -> None:
        tile = Tile(a, size=4)
        for _ in range(a):
            tile = tile.at

    for function, text in (
        (wrap, r"n does not match .* expected Int32 \(i32\), produced list of 1"),
        (specialise, r"tile does not match .* expected .*size=4\] \(i32\), produced .*size=8\] \(i32\)"),
        (unwrap, r"tile does not match .* expected .*size=4\] \(i32\), produced Int32"),
    ):
        with pytest.raises(TypeError, match=text):
            run(function, mlir.a)


def test_list_length_change(mlir: Any) -> None:
    def f(a: Any) -> Any:
        acc = [a]
        for _ in range(4):
            acc.append(a)
        return acc

    with pytest.raises(TypeError, match="for-body.*acc.*list of 1.*list of 2"):
        run(f, mlir.a)


def test_containers_of_numbers_are_carried_when_a_method_changes_them(mlir: Any) -> None:
    def f(a: Any) -> Any:
        queue, lookup, nested = [fx.Int32(1), 2], {"x": 1}, SimpleNamespace(q=[0, 1])
        for _ in range(a):
            queue.append(queue.pop(0))
            nested.q.append(nested.q.pop(0) + lookup.get("x"))
        return queue, lookup, nested

    queue, lookup, nested = run(f, mlir.a)
    assert not queue[0].is_static() and not nested.q[1].is_static()
    assert lookup == {"x": 1}, "what is only read stays a Python value"

    def grows(a: Any) -> None:
        queue = [1]
        for _ in range(a):
            queue.append(2)

    with pytest.raises(TypeError, match="queue does not match the region entry: expected list of 1.*list of 2"):
        run(grows, mlir.a)


def test_for_bounds_and_live_out(mlir: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        i = fx.Int32(7)
        total = fx.Int32(0)
        for i in range(a, b, 2):
            total = total + i
        return i, total

    i, total = run(f, mlir.a, mlir.b)
    assert isinstance(i, fx.Int32) and isinstance(total, fx.Int32)
    text = mlir.text()
    assert "scf.for" in text and ": i32" in text


def test_induction_variable_is_local_otherwise(mlir: Any) -> None:
    def f(b: Any) -> Any:
        total = fx.Int32(0)
        for i in range(b):
            total = total + i
        return total

    run(f, mlir.b)
    assert mlir.text().count("iter_args") == 1


def test_64_bit_bound_is_rejected(mlir: Any) -> None:
    def f(b: Any) -> None:
        for _ in range(fx.Int64(b)):
            pass

    with pytest.raises(TypeError, match="stop.*i64"):
        run(f, mlir.b)


def test_step_must_be_positive(mlir: Any) -> None:
    def f(b: Any) -> None:
        for _ in range(b, 0, -1):
            pass

    with pytest.raises(DSLCompileError, match="positive"):
        run(f, mlir.b)


def test_unroll_hint(mlir: Any) -> None:
    def f(b: Any) -> None:
        for _ in range(0, b, 1, unroll=4):
            pass

    run(f, mlir.b)
    assert "unroll" in mlir.text()


def test_explicit_loop(mlir: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        for iv, (s, p) in range(0, b, 1, init=[a, fx.Int32(1)]):
            out = yield [s + fx.Int32(iv), p]
        return out

    # The function has no generator left once rewritten.
    out = run(f, mlir.a, mlir.b)
    assert len(out) == 2 and "index" in mlir.text()


def test_explicit_loop_without_yield(mlir: Any) -> None:
    def f(a: Any) -> None:
        for _iv, _state in range(0, 4, 1, init=[a]):
            a + 1

    with pytest.raises(DSLCompileError, match="does not end in `yield"):
        run(f, mlir.a)


def test_while(mlir: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        while a < b:
            a = a + 1
        return a

    assert isinstance(run(f, mlir.a, mlir.b), fx.Int32)
    text = mlir.text()
    assert "scf.while" in text and "scf.condition" in text


def test_conditional_expression_and_booleans(mlir: Any) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        x = a if 0 < a < b and not c else b
        return x

    assert isinstance(run(f, mlir.a, mlir.b, mlir.flag), fx.Int32)
    text = mlir.text()
    assert text.count("scf.if") == 1 and "arith.andi" in text


def test_loops_inside_python_loops(mlir: Any) -> None:
    def f(a: Any) -> Any:
        total = fx.Int32(0)
        for k in fx.range_constexpr(3):
            if fx.const_expr(k == 2):
                break
            for _ in range(a):
                total = total + k
        return total

    run(f, mlir.a)
    assert mlir.text().count("scf.for") == 2


def test_const_expr_of_a_device_value(mlir: Any) -> None:
    def f(a: Any) -> None:
        if fx.const_expr(a > 3):
            pass

    with pytest.raises(RuntimeError):
        run(f, mlir.a)


def test_assert_of_a_device_value(mlir: Any) -> None:
    def f(a: Any) -> None:
        assert a > 3

    with pytest.raises(DSLCompileError, match="assert"):
        run(f, mlir.a)


def test_plain_objects_are_not_carried(mlir: Any) -> None:
    class Config:
        def scale(self, x: Any) -> Any:
            return x * 2

    def f(a: Any, cfg: Any) -> Any:
        name = "n"
        x = a
        if a > 1:
            x = cfg.scale(x)
            name.upper()
        return x

    assert isinstance(run(f, mlir.a, Config()), fx.Int32)


def test_dispatchers_by_hand_may_note_what_they_call(mlir: Any) -> None:
    """Outside of a traced function nothing is captured: the variables are those of the caller."""
    calls: list[str] = []
    count = 0

    def note(name: str, value: Any) -> Any:
        nonlocal count
        calls.append(name)
        count += 1
        return value

    ReplaceIfWithDispatch.scf_if_dispatch(
        mlir.flag, lambda x: note("then", x + 1), lambda x: note("else", x),
        result_names=("x",), result_values=(mlir.a,),
    )
    InsertEmptyYieldForSCFFor.scf_for_dispatch(
        0, 4, 1, lambda i, x: note("for", x), result_names=("x",), result_values=(mlir.a,)
    )
    assert calls == ["then", "else", "for"] and count == 3
    assert "scf.for" in mlir.text()


def test_bounds_of_explicit_loops_are_integers(mlir: Any) -> None:
    def f(stop: Any) -> None:
        for _i, (s,) in range(0, stop, 1, init=[fx.Int32(0)]):
            yield [s]

    for stop in (2.5, fx.Float32(2.5), fx.Float32(mlir.a)):
        with pytest.raises(TypeError, match="must be an integer, got"):
            run(f, stop)
    with pytest.raises(RuntimeError, match="must be positive, got -1"):
        InsertEmptyYieldForSCFFor.scf_for_dispatch(0, 4, np.int64(-1), lambda i: None)
