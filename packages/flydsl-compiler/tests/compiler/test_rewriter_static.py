"""Rewritten functions with static operands keep Python's meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.compiler.frontend.ast_rewriter import ASTRewriter, ReplaceIfWithDispatch
from flydsl.tracing.diagnostics import DSLCompileError


def branches(flag: bool, n: int) -> Any:
    out = []
    for i in (0, 1, 2, 3):
        if i == 1:
            continue
        if flag:
            t = i * 2
        elif n > i:
            t = -i
        else:
            t = 100
        out.append(t)
        if i > 2:
            break
    if n < 0:
        return "negative"
    word = "yes" if flag else "no"
    return out, word, not flag, (flag and n), 0 < n <= 3


def locals_of_a_branch(flag: bool) -> Any:
    if flag:
        fresh = 1
    return fresh


branches_rewritten = ASTRewriter.transform(type(branches)(branches.__code__, globals(), "branches"))
locals_rewritten = ASTRewriter.transform(type(branches)(locals_of_a_branch.__code__, globals(), "locals_of_a_branch"))


@given(st.booleans(), st.integers(-3, 5))
def test_same_as_python(flag: bool, n: int) -> None:
    assert branches_rewritten(flag, n) == branches(flag, n)


def test_names_of_a_static_branch_are_visible() -> None:
    assert locals_rewritten(True) == 1


def test_unbound_name_says_where_it_was_bound() -> None:
    value = locals_rewritten(False)
    with pytest.raises(NameError, match="fresh.*branch at line"):
        value + 1


def test_operands_are_evaluated_once() -> None:
    calls = []

    def see(x: Any) -> Any:
        calls.append(x)
        return x

    def f() -> Any:
        return see(1) < see(2) < see(3), (see(0) or see(4) or see(5)), (see(6) if see(True) else see(7))

    assert ASTRewriter.transform(f)() == (True, 4, 6)
    assert calls == [1, 2, 3, 0, 4, True, 6]


def test_walrus_stays_in_the_function() -> None:
    def f(n: int) -> Any:
        if n > 0 and (m := n * 2) > 4:
            return m
        return -1

    g = ASTRewriter.transform(f)
    assert (g(3), g(1)) == (6, -1)


def test_walrus_in_an_operand_that_may_be_skipped() -> None:
    def f(n: int) -> Any:
        m = "kept"
        if n > 0 and (m := n) > 1 or n == 0 and [m := i for i in range(n)] or n > 0 and (lambda: (m := 5) + m)() < n:
            return m
        return m

    g = ASTRewriter.transform(f)
    assert [g(n) for n in (-1, 0, 1, 3, 6)] == ["kept", "kept", 1, 3, 6]


def test_closures_and_defaults_survive() -> None:
    base = 10

    def f(x: int, y: int = 2, *, z: int = 3) -> int:
        if x:
            return base + x + y + z
        return base

    g = ASTRewriter.transform(f)
    assert g(1) == 16 and g(0) == 10


def test_dispatcher_accepts_the_documented_forms() -> None:
    dispatch = ReplaceIfWithDispatch.scf_if_dispatch
    assert dispatch(True, lambda x: x + 1, state_names=("x",), state_values=(1,)) == 2
    assert dispatch(False, lambda x: x + 1, state_names=("x",), state_values=(1,)) == 1
    assert dispatch(True, lambda names, x, y: {"y": 5}, result_names=("x", "y"), result_values=(1, 2)) == (1, 5)
    assert dispatch(True, lambda: 5) is None  # a lambda that is called for its effect: no names, no result
    with pytest.raises(ValueError):
        dispatch(True, lambda: None, result_names=("x",), result_values=())


def test_names_of_builtins_are_free() -> None:
    """Rewritten code needs none of the builtins that the function may have other values for."""

    def f(n: int) -> Any:
        locals, isinstance, bool, dict, tuple, next = n, n > 2, 7, 8, 9, 10
        if n > 3:
            locals = locals + bool
        elif isinstance and (dict := n) or tuple < 0:
            next = dict
        return locals, isinstance, bool, dict, tuple, next

    wanted = [f(n) for n in range(5)]
    assert [ASTRewriter.transform(f)(n) for n in range(5)] == wanted


def test_dispatchers_may_be_replaced_by_functions_of_the_documented_signatures(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewritten code calls what the globals of its function have, with no other keywords than the documented ones."""
    module = load("""
def f(n, s):
    acc, items = 0, []
    if n > 3:
        acc += n
        items.append(acc)
    for i in range(n):
        acc += i
        items.append(i)
        s.upper()
    while acc < 0:
        acc += 1
    return acc
""")
    ASTRewriter.transform(module.f)
    seen = []

    def scf_if_dispatch(cond: Any, then_fn: Any, else_fn: Any = None, *, result_names: Any = (),
                        result_values: Any = (), state_names: Any = (), state_values: Any = (),
                        auto_else: bool = False) -> Any:
        seen.append(("if", cond, result_names))
        return original(cond, then_fn, else_fn, result_names=result_names, result_values=result_values,
                        state_names=state_names, state_values=state_values, auto_else=auto_else)

    def scf_for_dispatch(start: Any, stop: Any, step: Any, body_fn: Any, *, result_names: Any = (),
                         result_values: Any = ()) -> Any:
        seen.append(("for", stop, result_names))
        return result_values

    def scf_while_dispatch(before_fn: Any, after_fn: Any, *, result_names: Any = (), result_values: Any = ()) -> Any:
        seen.append(("while", result_names))
        return result_values[0]

    original = module.scf_if_dispatch
    for replacement in (scf_if_dispatch, scf_for_dispatch, scf_while_dispatch):
        monkeypatch.setattr(module, replacement.__name__, replacement)
    assert module.f(5, "x") == 5
    assert seen == [("if", True, ("acc", "items")), ("for", 5, ("acc", "items", "s")), ("while", ("acc",))]


@pytest.mark.parametrize(
    ("body", "line", "column", "text"),
    [
        ("for i in range(n):\n        break", 3, 8, "'break' outside loop"),
        ("for i in range(n):\n        return i", 3, 8, "'return'"),
        ("while n:\n        continue", 3, 8, "'continue' outside loop"),
        ("for i in range(n):\n        pass\n    else:\n        n = 1", 5, 8, "else"),
        ("while True:\n        n = 1", 2, 4, "never ends"),
        ("x = yield n", 2, 8, "yield"),
        ("for i in range(n):\n        del n", 3, 12, "del"),
    ],
)
def test_rejected_at_the_line(load: Any, body: str, line: int, column: int, text: str) -> None:
    module = load(f"def f(n):\n    {body}\n")
    with pytest.raises(SyntaxError, match=text) as info:
        ASTRewriter.transform(module.f)
    frame = info.value.diagnostics[0].chain[0]
    assert (frame.line, frame.col) == (line, column)
    assert isinstance(info.value, DSLCompileError) and module.__file__ in str(info.value) and "^" in str(info.value)


def test_indented_function_with_text_at_the_left_margin(load: Any) -> None:
    """A method keeps its strings and its positions, whatever stands at the margin."""
    module = load('class C:\n    @staticmethod\n    def f(n):\n        text = """a\n  b\nc"""\n# at the margin\n'
                  '        return text\n\n    @staticmethod\n    def g(n):\n        x = \'é\'; yield n\n')
    assert ASTRewriter.transform(module.C.f)(0) == "a\n  b\nc"
    with pytest.raises(SyntaxError) as info:
        ASTRewriter.transform(module.C.g)
    frame = info.value.diagnostics[0].chain[0]
    assert (frame.line, frame.col) == (12, 18)


def test_while_else_is_not_implemented(load: Any) -> None:
    module = load("def f(n):\n    while n:\n        n = 0\n    else:\n        n = 1\n")
    with pytest.raises(NotImplementedError):
        ASTRewriter.transform(module.f)


@pytest.mark.parametrize("now", ["def g(a, b):\n    return 2\n", "def f(a):\n    return 2\n", "x = 3\n"])
def test_a_file_that_has_changed_since_it_was_imported(load: Any, now: str) -> None:
    function = load("def f(a, b):\n    return 1\n").f
    with open(function.__code__.co_filename, "w", encoding="utf-8") as file:
        file.write(now)
    with pytest.raises(OSError, match="has changed since it was imported: (at f there is|line 1 has no function)"):
        ASTRewriter.transform(function)


def test_look_ups_that_are_none(load: Any) -> None:
    """What is called ``get`` may be anything, with any arguments."""
    body = "d.get(*a), d.get(1, 5), o.get(k=3), o.pop(), d.setdefault(7, d.pop(1))"
    module = load(f"def f(d, o, *a):\n    return {body}\n")

    class Other:
        def get(self, k):
            return k

        def pop(self):
            return "popped"

    assert ASTRewriter.transform(module.f)({1: 2}, Other(), 4, 0) == (0, 2, 3, "popped", 2)


def test_function_without_source() -> None:
    scope: dict[str, Any] = {}
    exec("def f(n):\n    return n\n", scope)
    with pytest.raises(OSError, match="linecache"):
        ASTRewriter.transform(scope["f"])


def test_names_that_a_construct_may_change() -> None:
    import ast

    from flydsl.compiler.frontend.ast_rewriter import _collect_assigned_vars

    tree = ast.parse("acc[0] = f(x)\ny = 1\nobj.go(x)\nself.go()\nnew = 2\nfor i in z:\n    w.a.b = i").body
    active = [{"acc", "x", "y"}, {"obj", "self", "w", "i"}]
    assert _collect_assigned_vars(tree, active) == ["y", "i", "acc", "w", "obj"]
