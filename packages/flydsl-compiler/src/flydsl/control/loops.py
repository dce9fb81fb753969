"""Loops that run on the device: what rewritten `for` and `while` statements call while tracing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flydsl.tracing.ambient import trace_table
from flydsl.tracing.diagnostics import DSLTypeError, fail
from flydsl.tracing.numbers import number_of

from .flow import (
    call_location,
    check_lengths,
    condition_value,
    mlir_ir,
    pack_carried,
    raw,
    run_body,
    scf_while_collect_results,
    select_carried,
    wants_names,
    yield_values,
)
from .mutation import watching
from .state import Carried, Names, Unbound, is_dynamic, promote, without_ended
from .state import flatten as flatten_values


def _constant(value: int, type_: Any) -> Any:
    ir = mlir_ir()
    op = ir.Operation.create("arith.constant", results=[type_], attributes={"value": ir.IntegerAttr.get(type_, value)})
    return op.result


def _check_step(step: Any) -> None:
    step = number_of(step)
    known = step if isinstance(step, int) else getattr(step, "value", None)
    if isinstance(known, int) and known <= 0:
        fail(f"the step of a run-time range must be positive, got {known}: count upwards and compute the index from it")


def _i32_bound(what: str, value: Any) -> Any:
    ir = mlir_ir()
    i32 = ir.IntegerType.get_signless(32)
    if isinstance(value, Unbound):
        value._raise()
    value = number_of(value)
    if isinstance(value, bool) or isinstance(value, int):
        return _constant(int(value), i32)
    if not is_dynamic(value):
        static = getattr(value, "value", None)
        is_index = type(value).__name__ == "Index" and isinstance(static, int) and -(2**31) <= static < 2**31
        if isinstance(static, int) and (is_index or getattr(type(value), "width", 32) == 32):
            return _constant(static, i32)
        fail(f"{what} of a run-time range must be a 32-bit integer, got {type(value).__name__}", DSLTypeError)
    value = raw(value)
    if isinstance(value.type, ir.IndexType):
        from flydsl.utils import log

        log().warning("%s of a range has type index; it is cast to i32", what)
        return ir.Operation.create("arith.index_cast", results=[i32], operands=[value]).result
    if value.type != i32:
        fail(
            f"{what} of a run-time range must be a 32-bit integer, got {value.type}: convert with fx.Int32(...)",
            DSLTypeError,
        )
    return value


def _unroll_annotation(unroll: Any, unroll_full: Any) -> Any:
    if unroll is None and not unroll_full:
        return None
    if unroll is not None and (isinstance(unroll, bool) or not isinstance(unroll, int)):
        raise TypeError(f"unroll= must be a Python int, got {type(unroll).__name__}")
    if not isinstance(unroll_full, bool):
        raise TypeError(f"unroll_full= must be a Python bool, got {type(unroll_full).__name__}")
    if unroll is not None and unroll_full:
        raise ValueError("unroll= and unroll_full= are mutually exclusive")
    if unroll == -1:
        return None
    if unroll is not None and unroll < 1:
        raise ValueError(f"unroll= must be at least 1, got {unroll}")
    if unroll_full:
        body = "full = true"
    else:
        body = "count = 1 : i32, disable = true" if unroll == 1 else f"count = {unroll} : i32"
    return mlir_ir().Attribute.parse(f"#llvm.loop_annotation<unroll = <{body}>>")


def _loop_op(
    bounds: list[Any], carried_values: list[Any], types: list[Any], annotation: Any, location: Any
) -> tuple[Any, Any]:
    ir = mlir_ir()
    attributes = {} if annotation is None else {"loop_annotation": annotation}
    op = ir.Operation.create(
        "scf.for", results=types, operands=[*bounds, *carried_values], regions=1, attributes=attributes
    )
    arguments = [bounds[0].type, *types]
    block = ir.Block.create_at_start(op.regions[0], arguments, [location] * len(arguments))
    return op, block


def _end_body(arguments: list[Any], values: list[Any]) -> None:
    """Hand on the values of a loop's arguments; what its body assumed of these must be true of them."""
    if assumed := trace_table("assumed"):
        for argument, value in zip(arguments, values, strict=True):
            if check := assumed.pop(mlir_ir().Value.__hash__(argument), None):
                check(value)
    yield_values(values)


def scf_for_dispatch(
    start: Any,
    stop: Any,
    step: Any,
    body_fn: Callable[..., Any],
    *,
    result_names: tuple[str, ...] = (),
    result_values: tuple[Any, ...] = (),
    unroll: Any = None,
    unroll_full: Any = False,
) -> Any:
    """Build ``for i in range(start, stop, step)`` with automatically carried variables."""
    names, values = Names.of(result_names), tuple(result_values)
    check_lengths(names, values)
    _check_step(step)
    ir = mlir_ir()
    values = without_ended(names, values)
    chosen = select_carried(names, values)
    with call_location() as location:
        bounds = [_i32_bound(w, b) for w, b in (("start", start), ("stop", stop), ("step", step))]
        carried = Carried(tuple(names[i] for i in chosen), tuple(values[i] for i in chosen), names.lines)
        annotation = _unroll_annotation(unroll, unroll_full)
        op, block = _loop_op(bounds, carried.initial, carried.types, annotation, location)
        with ir.InsertionPoint(block), watching():
            arguments = list(block.arguments)
            inputs = list(values)
            for i, value in zip(chosen, carried.rebuild(arguments[1:]), strict=True):
                inputs[i] = value
            out = run_body(body_fn, (arguments[0],), names, inputs)
            _end_body(arguments[1:], carried.flatten([out[i] for i in chosen], "for-body"))
    result = list(values)
    for i, value in zip(chosen, carried.rebuild(list(op.results)), strict=True):
        result[i] = value
    return pack_carried(result)


class _Explicit:
    """State of one explicit loop while its body is traced."""

    def __init__(self, op: Any, types: list[Any]) -> None:
        self.op, self.types, self.yielded = op, types, False


class _Stack(threading.local):
    def __init__(self) -> None:
        self.loops: list[_Explicit] = []


_explicit_stack = _Stack()


def _index_bound(value: Any) -> Any:
    ir = mlir_ir()
    index = ir.IndexType.get()
    value = number_of(value)
    if not is_dynamic(value):
        static = getattr(value, "value", value)
        if not isinstance(static, int):
            fail(f"a bound of a run-time range must be an integer, got {type(value).__name__}", DSLTypeError)
        return _constant(int(static), index)
    value = raw(value)
    if isinstance(value.type, ir.IndexType):
        return value
    if not isinstance(value.type, ir.IntegerType):
        fail(f"a bound of a run-time range must be an integer, got {value.type}", DSLTypeError)
    return ir.Operation.create("arith.index_cast", results=[index], operands=[value]).result


def scf_range(
    start: Any, stop: Any = None, step: Any = None, *, init: Any = None, unroll: Any = None, unroll_full: Any = False
) -> Iterator[Any]:
    """The explicit loop ``for iv, state in range(start, stop, step, init=[...])``: yields once."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    _check_step(step)
    ir = mlir_ir()
    with call_location() as location:
        bounds = [_index_bound(b) for b in (start, stop, step)]
        initial = [] if init is None else [v for item in init for v in flatten_values(promote(item))]
        types = [v.type for v in initial]
        op, block = _loop_op(bounds, initial, types, _unroll_annotation(unroll, unroll_full), location)
    state = _Explicit(op, types)
    trace_table("explicit_loops")["any"] = True
    _explicit_stack.loops.append(state)
    try:
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            yield arguments[0] if init is None else (arguments[0], arguments[1:])
            if not state.yielded:
                if types:
                    fail(f"the loop carries {len(types)} values but its body does not end in `yield [...]`")
                yield_values([])
    finally:
        _explicit_stack.loops.pop()


def scf_yield_(value: Any = ()) -> Any:
    """``yield [...]`` at the end of an explicit loop body; evaluates to the results of the loop."""
    if not _explicit_stack.loops:
        fail("yield is only meaningful at the end of a `for ... in range(..., init=[...])` body")
    loop = _explicit_stack.loops[-1]
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    leaves = [v for item in items for v in flatten_values(promote(item))]
    if [v.type for v in leaves] != loop.types:
        have, want = (", ".join(map(str, t)) or "nothing" for t in ([v.type for v in leaves], loop.types))
        fail(f"yield gives {have} but the loop carries {want} (does not match the region entry)", DSLTypeError)
    _end_body(list(loop.op.regions[0].blocks[0].arguments)[1:], leaves)
    loop.yielded = True
    results = list(loop.op.results)
    return results[0] if len(results) == 1 else results


class _ConditionAndValues(NamedTuple):
    """What a condition evaluates to, and the variables after it."""

    condition: Any
    values: dict[str, Any]


def scf_while_condition(condition: Any, names: tuple[str, ...], scope: dict[str, Any]) -> _ConditionAndValues:
    """The condition of a `while` that assigns variables (``:=``): its own result and theirs."""
    return _ConditionAndValues(condition, scf_while_collect_results(names, scope))


def scf_while_dispatch(
    before_fn: Callable[..., Any],
    after_fn: Callable[..., Any],
    *,
    result_names: tuple[str, ...] = (),
    result_values: tuple[Any, ...] = (),
) -> Any:
    """Build ``while cond:``; the condition is re-evaluated on the carried values."""
    names, values = Names.of(result_names), tuple(result_values)
    check_lengths(names, values)
    ir = mlir_ir()
    values = without_ended(names, values)
    chosen = select_carried(names, values)
    with call_location() as location:
        carried = Carried(tuple(names[i] for i in chosen), tuple(values[i] for i in chosen), names.lines)
        op = ir.Operation.create("scf.while", results=carried.types, operands=carried.initial, regions=2)
        locations = [location] * len(carried.types)
        before = ir.Block.create_at_start(op.regions[0], carried.types, locations)
        after = ir.Block.create_at_start(op.regions[1], carried.types, locations)

        def inputs_of(block: Any) -> list[Any]:
            inputs = list(values)
            for i, value in zip(chosen, carried.rebuild(list(block.arguments)), strict=True):
                inputs[i] = value
            return inputs

        with ir.InsertionPoint(before):
            inputs = inputs_of(before)
            wants = wants_names(before_fn, len(inputs))
            cond = before_fn(names, *inputs) if wants else before_fn(*inputs)
            if isinstance(cond, _ConditionAndValues):
                inputs = [cond.values.get(name, value) for name, value in zip(names, inputs, strict=True)]
                cond = cond.condition
            if not is_dynamic(cond) and cond is True:
                fail("`while True:` never ends on the device (there is no break): give a condition over carried values")
            if not is_dynamic(cond):
                from flydsl.expr import numeric

                cond = numeric.Boolean(bool(cond))
            leaf = condition_value(cond) if is_dynamic(cond) else flatten_values(cond)[0]
            handed_on = carried.flatten([inputs[i] for i in chosen], "while-condition")
            ir.Operation.create("scf.condition", operands=[leaf, *handed_on])
        with ir.InsertionPoint(after), watching():
            out = run_body(after_fn, (), names, inputs_of(after))
            _end_body(list(before.arguments), carried.flatten([out[i] for i in chosen], "while-body"))
    result = list(values)
    for i, value in zip(chosen, carried.rebuild(list(op.results)), strict=True):
        result[i] = value
    return pack_carried(result)
