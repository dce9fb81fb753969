"""What rewritten control flow calls while tracing: static operands stay Python, dynamic ones become `scf` ops.

The rewriter (`ast_rewriter`) turns branch and loop bodies into functions of the names they write; the
dispatchers here run those functions once each, inside the regions of the op they build.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from types import SimpleNamespace
from typing import Any

from flydsl.tracing.diagnostics import DSLCompileError, DSLTypeError, fail
from flydsl.tracing.kept import give_up

from .mutation import watching
from .state import (
    Carried,
    Names,
    Unbound,
    copy_containers,
    flatten_like,
    holds_ir_values,
    is_carriable,
    is_dynamic,
    promote,
    rebuild,
    without_ended,
)
from .state import flatten as flatten_values

_COMPARE = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "is": operator.is_, "is not": operator.is_not, "in": lambda a, b: a in dsl_container_(b),
    "not in": lambda a, b: a not in dsl_container_(b),
}


def mlir_ir() -> Any:
    from flydsl._mlir import ir

    return ir


def raw(value: Any) -> Any:
    """The one `ir.Value` of a dynamic scalar."""
    return value if isinstance(value, mlir_ir().Value) else value.value


def call_location() -> Any:
    from flydsl.tracing.locations import capture_user_location

    return capture_user_location()


@contextlib.contextmanager
def statement_location(filename: str, line: int, column: int) -> Iterator[None]:
    """The location of a user statement for ops that are built without one; nothing outside a trace."""
    ir = mlir_ir()
    if ir.Context.current is None:
        yield
        return
    with ir.Location.file(filename, line, column):
        yield


# ---- boolean operators -------------------------------------------------------------------------------------------


def dsl_not_(value: Any) -> Any:
    """``not value``."""
    method = getattr(value, "__dsl_not__", None)
    return method() if method is not None else not value


def dsl_and_(lhs: Any, rhs: Any) -> Any:
    """``lhs and rhs`` of evaluated operands."""
    return _combine("__dsl_and__", lhs, rhs, lambda: lhs and rhs)


def dsl_or_(lhs: Any, rhs: Any) -> Any:
    """``lhs or rhs`` of evaluated operands."""
    return _combine("__dsl_or__", lhs, rhs, lambda: lhs or rhs)


def _combine(method: str, lhs: Any, rhs: Any, python: Callable[[], Any]) -> Any:
    if hasattr(lhs, method):
        return getattr(lhs, method)(rhs)
    if hasattr(rhs, method):
        return getattr(rhs, method)(lhs)
    return python()


def dsl_boolop_(is_and: bool, first: Any, *rest: Callable[[], Any]) -> Any:
    """``a and b and ...``: each operand is evaluated at most once, a static left operand short-circuits."""
    bail = not is_and
    result = first
    for thunk in rest:
        if not is_dynamic(result) and not hasattr(result, "__dsl_and__") and bool(result) == bail:
            return result
        result = (dsl_and_ if is_and else dsl_or_)(result, thunk())
    return result


def dsl_assigned_(is_and: bool, before: Any, old: Any, new: Any, name: str) -> Any:
    """The value of `name` after ``before and (name := new)`` (or ``or``), where `old` is its value before.

    On the device both operands are evaluated; the name keeps its old value where Python skips the second one.
    """
    if isinstance(old, Unbound):
        return new
    evaluated = before if is_and else dsl_not_(before)
    if not is_dynamic(evaluated):
        return new if evaluated else old
    if str(raw(evaluated).type) != "i1":
        evaluated = dsl_not_(dsl_not_(evaluated))
    return _if_values(evaluated, lambda: new, lambda: old, f"the value of {name} before the operand", name)


def _holds(cls: Any, literal: Any) -> bool:
    """Whether a literal is a number of the class: every number is one of a float, rounded."""
    return not getattr(cls, "is_integer", False) or literal == literal // 1 and cls(literal).value == literal


def dsl_min_max_(function: Any, *arguments: Any, **keywords: Any) -> Any:
    """``min(a, b, ...)`` and ``max(...)``: with run-time values a chain of selections, else Python's function."""
    if function not in (builtins.min, builtins.max) or keywords or not arguments:
        return function(*arguments, **keywords)
    values = arguments
    if len(values) == 1:
        values = tuple(values[0])
        arguments = (values,)
    if not any(is_dynamic(v) and hasattr(type(v), "select") for v in values):
        return function(*arguments)
    values = tuple(promote(v) if is_dynamic(v) else v for v in values)  # an induction variable is a bare value
    model = next(v for v in values if is_dynamic(v) and hasattr(type(v), "select"))
    result = None
    for value in values:
        if isinstance(value, (bool, int, float)) and _holds(type(model), value):
            value = type(model)(value)  # a literal takes the type of what it is compared with
        if result is None:
            result = value
        else:
            result = (value < result if function is builtins.min else value > result).select(value, result)
    return result


def _is_run_time_number(value: Any) -> bool:
    """Whether a value is one, or a tuple has one."""
    if isinstance(value, tuple):
        return any(map(_is_run_time_number, value))
    return is_dynamic(value) and hasattr(type(value), "select")


class _LookedUp:
    """A set or dictionary on the right of ``in``. By its hash a run-time number would be in none."""

    def __init__(self, container: Any) -> None:
        self.container = container

    def __contains__(self, value: Any) -> bool:
        if _is_run_time_number(value):
            fail(f"`in` looks up a {type(self.container).__name__} while tracing, when the value is not known; compare "
                 "with == and combine with `or`")
        return value in self.container


def dsl_container_(container: Any) -> Any:
    """The right side of ``in``. What is no set or dictionary stays: its errors are raised at the user's line."""
    return _LookedUp(container) if isinstance(container, (Set, Mapping)) else container


def dsl_key_(owner: Any, key: Any) -> Any:
    """The first argument of a method of ``owner`` that looks something up if that is a dictionary."""
    if isinstance(owner, Mapping) and _is_run_time_number(key):
        fail(f"a {type(owner).__name__} is looked up while tracing, when the value is not known; look up what is "
             "(fx.Constexpr), or choose on the device with fx.where")
    return key


def dsl_compare_chain_(first: Any, *rest: Any) -> Any:
    """``a < b < c``; ``rest`` alternates operator text and a function that evaluates the operand."""
    result, left = True, first
    for text, thunk in zip(rest[::2], rest[1::2], strict=True):
        right = thunk()
        result = dsl_and_(result, _COMPARE[text](left, right)) if result is not True else _COMPARE[text](left, right)
        if not is_dynamic(result) and not result:
            return result
        left = right
    return result


# ---- names -------------------------------------------------------------------------------------------------------


def check_local_var(name: str, names: dict[str, Any], line: int = 0, kind: str = "construct") -> Any:
    """The value of a local name, or a stand-in that raises when it is used."""
    if name in names:
        return names[name]
    return Unbound(name, f"it gets its first value inside the {kind} at line {line}")


def require_static_(cond: Any, what: str) -> bool:
    """The truth of a condition that must be known while tracing, because its body leaves the construct (``what``)."""
    if is_dynamic(cond):
        fail(
            f"{what} depends on a condition that is known only on the device, so it cannot be lowered. Write the "
            "remaining statements in the other branch, carry a flag, or make the condition static with const_expr(...)."
        )
    return bool(cond)


class _Branches(threading.local):
    """Whether each enclosing `if` of the running trace has a device condition, outermost first."""

    def __init__(self) -> None:
        self.dynamic: list[bool] = []


_branches = _Branches()


@contextlib.contextmanager
def _in_branch(dynamic: bool) -> Iterator[None]:
    _branches.dynamic.append(dynamic)
    try:
        yield
    finally:
        _branches.dynamic.pop()


def check_raise() -> None:
    """Called before a `raise` statement: one that depends on a device value cannot be lowered."""
    if _branches.dynamic and _branches.dynamic[-1]:
        fail("`raise` under a condition that is known only on the device: tracing would always raise. Check on the "
             "host before the launch, make the condition static with const_expr(...), or report with fx.printf",
             DSLCompileError)


def const_expr(value: Any) -> Any:
    """Identity; marks a condition as decided while tracing. A device value is an error."""
    if is_dynamic(value):
        fail("const_expr(...) needs a value that is known while tracing; this one is only known on the device")
    return value


# ---- bodies ------------------------------------------------------------------------------------------------------


def scf_if_collect_results(names: tuple[str, ...], scope: dict[str, Any]) -> dict[str, Any]:
    """Values of the carried names at the end of a body."""
    return {name: scope[name] for name in names if name in scope}


scf_for_collect_results = scf_if_collect_results
scf_while_collect_results = scf_if_collect_results


def wants_names(function: Callable[..., Any], count: int) -> bool:
    """Whether a body takes ``(names, *values)`` rather than ``(*values)``."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= count + 1


def run_body(
    function: Callable[..., Any], head: tuple[Any, ...], names: tuple[str, ...], values: list[Any]
) -> list[Any]:
    """Call a body and return its values in the order of ``names``; missing names keep their input."""
    with_names = wants_names(function, len(values) + len(head))
    out = function(*head, names, *values) if with_names else function(*head, *values)
    if out is None or not names:
        return list(values)
    if isinstance(out, dict) and set(out) <= set(names):
        return [out.get(name, value) for name, value in zip(names, values, strict=True)]
    if len(names) == 1 and not (
        isinstance(out, (tuple, list)) and len(out) == 1 and not isinstance(values[0], (tuple, list))
    ):
        return [out]
    if isinstance(out, (tuple, list)) and len(out) == len(names):
        return list(out)
    fail(f"a body returned {type(out).__name__} for the variables {', '.join(names) or '(none)'}", DSLTypeError)


def pack_carried(values: list[Any]) -> Any:
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def select_carried(names: Names, values: tuple[Any, ...]) -> list[int]:
    """Indexes of the variables that a dynamic construct carries.

    Names without a value are local to the construct. An object that is only called upon (``cfg.f(x)``) is
    carried when it has SSA values that the call could change, and a container of numbers also when the call
    is one that changes it (``q.append(x)``).
    """

    def is_carried(name: str, value: Any) -> bool:
        if isinstance(value, Unbound):
            return False
        if name not in names.invoked:
            return True
        if isinstance(value, mlir_ir().Value):
            return False  # a call changes the memory behind an SSA value (a fragment), never the value
        changes = name in names.mutated and isinstance(value, (list, dict, SimpleNamespace))
        return is_carriable(value) and (changes or holds_ir_values(value))

    return [i for i, (name, value) in enumerate(zip(names, values, strict=True)) if is_carried(name, value)]


def check_lengths(names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    if len(names) != len(values):
        raise ValueError(f"{len(names)} names for {len(values)} values: {', '.join(names)}")


def condition_value(cond: Any) -> Any:
    value = raw(cond)
    if str(value.type) != "i1":
        fail(f"the condition has type {value.type}, not a boolean: compare with 0, e.g. `if n != 0:`", DSLTypeError)
    return value


def yield_values(values: list[Any]) -> None:
    mlir_ir().Operation.create("scf.yield", operands=values)


# ---- if ----------------------------------------------------------------------------------------------------------


def scf_if_dispatch(
    cond: Any,
    then_fn: Callable[..., Any],
    else_fn: Callable[..., Any] | None = None,
    *,
    result_names: tuple[str, ...] = (),
    result_values: tuple[Any, ...] = (),
    state_names: tuple[str, ...] = (),
    state_values: tuple[Any, ...] = (),
    auto_else: bool = False,
) -> Any:
    """Run or build an ``if``. Returns one value for one name, a tuple for several, None for none.

    ``state_*`` are aliases used when ``result_*`` are empty. A branch takes ``(names, *values)`` or
    ``(*values)`` and returns a dict, a sequence, a single value, or None (unchanged).
    """
    names = Names.of(result_names or state_names)
    values = tuple(result_values if result_names else state_values)
    check_lengths(names, values)
    if not is_dynamic(cond):
        function = then_fn if cond else else_fn
        with _in_branch(False):
            return pack_carried(list(values) if function is None else run_body(function, (), names, list(values)))
    condition = condition_value(cond)
    values = without_ended(names, values)
    chosen = select_carried(names, values)
    carried = Carried(tuple(names[i] for i in chosen), tuple(values[i] for i in chosen), names.lines)

    def branch(function: Callable[..., Any] | None) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            inputs = list(values)
            # Fresh containers for each branch: a mutation in one must not be seen in the other.
            for i, value in zip(chosen, carried.rebuild(carried.initial), strict=True):
                inputs[i] = value
            with _in_branch(True):
                return inputs if function is None else run_body(function, (), names, inputs)

        return run

    has_else = else_fn is not None and not auto_else
    fresh = [i for i in range(len(names)) if isinstance(values[i], Unbound)]
    results = _build_if(condition, branch(then_fn), branch(else_fn), carried, chosen, fresh, names, has_else)
    out = list(values)
    for i, value in results.items():
        out[i] = value
    return pack_carried(out)


def _build_if(
    condition: Any,
    then_run: Callable[[], list[Any]],
    else_run: Callable[[], list[Any]],
    carried: Carried,
    chosen: list[int],
    fresh: list[int],
    names: tuple[str, ...],
    has_else: bool,
) -> dict[int, Any]:
    """Build `scf.if`. Result types are known only after both branches ran, so they run in a provisional op."""
    ir = mlir_ir()
    with call_location() as location:
        provisional = ir.Operation.create("scf.if", operands=[condition], regions=2)
        try:
            blocks, produced, leaves = [], [], []
            for region, run, place in zip(
                provisional.regions, (then_run, else_run), ("then-branch", "else-branch"), strict=True
            ):
                block = ir.Block.create_at_start(region, [])
                blocks.append(block)
                with ir.InsertionPoint(block), location, watching():
                    values = run()
                    produced.append(values)
                    leaves.append(carried.flatten([values[i] for i in chosen], place))
            new = _bound_in_both(fresh, produced, blocks)
            types = carried.types + [t for _, _, ts, _ in new for t in ts]
            needs_else = bool(types) or has_else
            op = ir.Operation.create("scf.if", results=types, operands=[condition], regions=2)
            for k, block in enumerate(blocks):
                with ir.InsertionPoint(block):
                    yield_values(leaves[k] + [v for entry in new for v in entry[3][k]])
                if k == 0 or needs_else:
                    block.append_to(op.regions[k])
        except BaseException:
            give_up(provisional)
            raise
        provisional.erase()
    results = list(op.results)
    out = dict(zip(chosen, carried.rebuild(results[: len(carried.types)]), strict=True))
    start = len(carried.types)
    for index, exemplar, ts, _ in new:
        out[index] = rebuild(exemplar, results[start : start + len(ts)])
        start += len(ts)
    return out


def _bound_in_both(
    fresh: list[int], produced: list[list[Any]], blocks: list[Any]
) -> list[tuple[int, Any, list[Any], list[list[Any]]]]:
    """Variables that had no value before and get the same types in both branches: they become results too."""
    ir = mlir_ir()
    found = []
    for i in fresh:
        sides = [values[i] for values in produced]
        if any(isinstance(s, Unbound) or s is None or not is_carriable(s) for s in sides):
            continue
        leaves, exemplar = [], None
        for side, block in zip(sides, blocks, strict=True):
            with ir.InsertionPoint(block):
                promoted = promote(side)
                leaves.append(flatten_values(promoted))
            exemplar = promoted if exemplar is None else exemplar
        types = [[v.type for v in leaf] for leaf in leaves]
        if types[0] == types[1]:
            found.append((i, exemplar, types[0], leaves))
    return found


def scf_return_dispatch(
    cond: Any,
    then_fn: Callable[..., Any],
    else_fn: Callable[..., Any],
    line: int,
    *,
    names: tuple[str, ...] = (),
    values: tuple[Any, ...] = (),
) -> Any:
    """``if cond: ... return`` in tail position; each branch is the rest of the function and returns its value.

    Both branches return nothing, or values of one shape and one set of types.
    """
    if not is_dynamic(cond):
        with _in_branch(False):
            return (then_fn if cond else else_fn)(names, *values)

    def branch(function: Callable[..., Any]) -> Callable[[], Any]:
        # Fresh containers for each branch: a mutation in one must not be seen in the other.
        def run() -> Any:
            with _in_branch(True):
                return function(names, *[copy_containers(v) for v in values])

        return run

    return _if_values(cond, branch(then_fn), branch(else_fn), f"the other return of the branch at line {line}", "value")


def scf_ifexp_dispatch(cond: Any, then_fn: Callable[[], Any], else_fn: Callable[[], Any]) -> Any:
    """``a if cond else b``; each branch is evaluated once."""
    if not is_dynamic(cond):
        return then_fn() if cond else else_fn()
    return _if_values(cond, then_fn, else_fn, "dynamic ifexp else-branch", "value")


def _if_values(cond: Any, then_fn: Callable[[], Any], else_fn: Callable[[], Any], place: str, path: str) -> Any:
    """An `scf.if` whose results are what its branches return; None from both: no results."""
    condition = condition_value(cond)
    ir = mlir_ir()
    with call_location() as location:
        provisional = ir.Operation.create("scf.if", operands=[condition], regions=2)
        blocks = [ir.Block.create_at_start(region, []) for region in provisional.regions]
        try:
            with ir.InsertionPoint(blocks[0]), location, watching():
                value = promote(then_fn())
                leaves = [] if value is None else flatten_values(value)
                exemplar = None if value is None else rebuild(value, leaves)
            with ir.InsertionPoint(blocks[1]), location, watching():
                value = else_fn()
                if (value is None) != (exemplar is None):
                    fail(f"{place}: one path gives a value and the other one nothing", DSLTypeError)
                others = [] if value is None else flatten_like(exemplar, promote(value), place, path)
            op = ir.Operation.create("scf.if", results=[v.type for v in leaves], operands=[condition], regions=2)
            for block, region, results in zip(blocks, op.regions, (leaves, others), strict=True):
                with ir.InsertionPoint(block):
                    yield_values(results)
                block.append_to(region)
        except BaseException:
            give_up(provisional)
            raise
        provisional.erase()
    return None if exemplar is None else rebuild(exemplar, list(op.results))
