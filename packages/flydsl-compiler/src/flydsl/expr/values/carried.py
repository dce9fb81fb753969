"""Values that control flow carries: what an argument or a result of `scf` may be.

What is known of such a value is known while a loop is traced, before anybody knows what its body hands on. So a fact
that a body relied on is *assumed* of what comes before the loop, and checked when the body ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.ambient import trace_table


def carried_from(value: ir.Value) -> tuple[Any, int] | None:
    """The `scf` operation that carries a value, and its number among what that carries; None for other values."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        op = owner.owner.operation
        number = ir.BlockArgument(value).arg_number - (op.name == "scf.for")
        return (op, number) if op.name in ("scf.for", "scf.while") and number >= 0 else None
    if owner.name in ("scf.for", "scf.while", "scf.if"):
        return owner.operation, ir.OpResult(value).result_number
    return None


def _handed_on(region: Any, number: int) -> list[Any]:
    """What the end of a region hands on under a number; nothing while the region is traced."""
    last = list(region.blocks[0].operations)[-1:] if len(region.blocks) else []
    if not last or last[0].operation.name not in ("scf.yield", "scf.condition"):
        return []
    return [last[0].operation.operands[number + (last[0].operation.name == "scf.condition")]]


def sources(op: Any, number: int) -> list[Any]:
    """Every value that may be the carried one; of a loop the initial one first."""
    initial = {"scf.for": 3, "scf.while": 0}.get(op.name)
    before = [] if initial is None else [op.operands[initial + number]]
    return before + [value for region in op.regions for value in _handed_on(region, number)]


def assume(argument: ir.Value, check: Callable[[Any], None]) -> None:
    """Call `check` with what the body of a loop, which is being traced, hands on for this argument of it."""
    trace_table("assumed")[ir.Value.__hash__(argument)] = check


def fact_of(value: Any, ask: Callable[[Any], Any], require: Callable[[Any, Any], None]) -> Any:
    """What is known of a carried value: what `ask` knows of all its sources, None unless they agree.

    ``require(fact, source)`` raises where a source, seen later, differs from a fact that was given out.
    """
    place = carried_from(value)
    if place is None:
        return None
    visited = trace_table("visited")
    key = ir.Value.__hash__(value)
    if key in visited:
        return visited[key]
    op, number = place
    known = sources(op, number)
    fact = ask(known[0]) if known else None
    if fact is None:
        return None
    visited[key] = fact  # around the loop once
    try:
        if any(ask(other) != fact for other in known[1:]):
            return None
    finally:
        del visited[key]
    is_traced = isinstance(value.owner, ir.Block) and not _handed_on(op.regions[-1], number)
    if is_traced:
        assume(value, lambda later: require(fact, later))
    return fact
