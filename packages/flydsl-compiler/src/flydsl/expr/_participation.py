"""Whether the threads that an exchange needs take part in it.

Values that go through lanes or LDS come from all threads of a group. In a branch or loop that only some of them enter
the others' values are missing, and nothing tells. The conditions around the exchange are evaluated for every thread of
the workgroup, as far as they follow from its index alone.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.ambient import kernel_scope, tracing_option
from flydsl.tracing.diagnostics import warn_here

from . import gpu

#: What an integer is for each thread: numbers, or whether it may differ between threads.
Known = tuple[int, ...]
_COMMON, _VARYING = "common", "varying"


@dataclass(frozen=True)
class Shifted:
    """Integers of all threads up to an addend that they share and that only run time knows."""

    numbers: Known


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_COMPARE = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
            "ge": operator.ge}
#: Operations of other dialects whose result is one of the whole wave.
_UNIFORM = ("readfirstlane", "readlane", "ballot")
#: Operations that keep an addend that all threads share.
_LINEAR = ("addi", "subi", "index_cast", "index_castui", "extsi", "extui", "trunci")
#: Operations on numbers of threads. Wrapping does not matter: these are indices.
_COMPUTE: dict[str, Callable[..., int]] = {
    "addi": operator.add, "subi": operator.sub, "muli": operator.mul, "andi": operator.and_, "ori": operator.or_,
    "xori": operator.xor, "shli": operator.lshift, "shrui": operator.rshift, "shrsi": operator.rshift,
    "floordivsi": operator.floordiv, "divui": operator.floordiv, "divsi": _truncated, "remui": operator.mod,
    "remsi": lambda a, b: a - _truncated(a, b) * b, "maxsi": max, "minsi": min, "maxui": max, "minui": min,
    "select": lambda c, a, b: a if c else b,
    **dict.fromkeys(("index_cast", "index_castui", "extsi", "extui", "trunci"), lambda a: a),
}


@functools.lru_cache(maxsize=16)
def _thread_ids(x: int, y: int, z: int) -> tuple[Known, Known, Known]:
    places = list(itertools.product(range(z), range(y), range(x)))
    return tuple(p[2] for p in places), tuple(p[1] for p in places), tuple(p[0] for p in places)


def _evaluate(value: Any, found: dict[int, Any], loads: bool = False) -> Any:
    """The integer of every thread, `Shifted`, `_COMMON` or `_VARYING`.

    Loads and other operations count as common, unless `loads` says that what they are given decides.
    """
    key = int(ir.Value.__hash__(value))
    if key not in found:
        owner = value.owner
        found[key] = _COMMON if isinstance(owner, ir.Block) else _computed(owner.operation, found, loads)
    return found[key]


def _differs(known: Any) -> bool:
    """Whether a value is known to be, or may be, another one in another thread."""
    return known is _VARYING or isinstance(known, Shifted) or isinstance(known, tuple) and len(set(known)) > 1


def _computed(op: Any, found: dict[int, Any], loads: bool) -> Any:
    if op.name == "gpu.thread_id":
        axis = str(op.attributes["dimension"]).rstrip(">").split()[-1]
        return _thread_ids(*gpu.known_block_size())["xyz".index(axis)]
    dialect, _, name = op.name.partition(".")
    if dialect != "arith":
        follows = loads and not any(word in name for word in _UNIFORM)
        return _VARYING if follows and any(_differs(_evaluate(x, found, loads)) for x in op.operands) else _COMMON
    if name == "constant":
        number = op.attributes["value"]
        if not isinstance(number, (ir.IntegerAttr, ir.BoolAttr)):
            return _COMMON
        value = int(number.value)
        return (value & 1 if str(number.type) == "i1" else value,)
    operands = [_evaluate(operand, found, loads) for operand in op.operands]
    if any(operand is _VARYING for operand in operands):
        return _VARYING
    compute = _COMPUTE.get(name)
    if name in _LINEAR and any(operand is _COMMON or isinstance(operand, Shifted) for operand in operands):
        columns = [(0,) if operand is _COMMON else getattr(operand, "numbers", operand) for operand in operands]
        numbers = _rows(_COMPUTE[name], columns)
        return Shifted(numbers) if len(set(numbers)) > 1 else _COMMON
    if any(isinstance(operand, Shifted) for operand in operands):
        return _VARYING
    if name == "cmpi":
        compute = _COMPARE[_PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value][-2:]]
    if compute is None or any(operand is _COMMON for operand in operands):
        return _VARYING if any(map(_differs, operands)) else _COMMON
    try:
        return _rows(compute, operands)
    except (ZeroDivisionError, ValueError, OverflowError):
        return _COMMON


def _rows(compute: Callable[..., int], columns: Sequence[Known]) -> Known:
    """A function of the integers of every thread; a column of one number is that of all."""
    count = max(map(len, columns))
    wide = [column if len(column) == count else column * count for column in columns]
    return tuple(int(compute(*row)) for row in zip(*wide, strict=True))


def integers_of_threads(value: Any) -> Known | Shifted | str | None:
    """An integer of every thread of the workgroup (or one of all), ``"common"`` if it is one that is only known at run
    time, `Shifted` if one of those was added, None if it may differ between threads in a way that is not known (what
    is loaded from a place that differs, too)."""
    found = _evaluate(value, (kernel_scope() or {}).setdefault("thread_integers", {}), loads=True)
    return None if found is _VARYING else found


def _conditions() -> Iterator[Any]:
    """What decides whether, or how often, a thread comes to the insertion point."""
    op = ir.InsertionPoint.current.block.owner.operation
    while op.name not in ("gpu.func", "func.func"):
        if op.name == "scf.if":
            yield op.operands[0]
        elif op.name == "scf.for":
            yield from list(op.operands)[:3]
        op = op.block.owner.operation


def group_of(sources: Sequence[Sequence[int | None]]) -> int:
    """The smallest power of two such that lanes read only from lanes of their own group of that many."""
    apart = 0
    for source in sources:
        for lane, other in enumerate(source):
            apart |= 0 if other is None else lane ^ other
    return 1 << apart.bit_length()


def check_participation(lanes: int | None = None) -> None:
    """ValueError if a group of `lanes` threads (default: the workgroup) is known to be divided here.

    A warning where the condition depends on the thread and on what is known at run time only.
    """
    if tracing_option("known_block_size") is None:
        return
    found: dict[int, Any] = {}
    threads = math.prod(gpu.known_block_size())
    lanes = lanes or threads
    group = "the whole workgroup" if lanes == threads else f"{lanes} neighbouring lanes"
    advice = ("Take it out of the branch or loop, and let the condition decide which values take part (fx.where) or "
              "what is stored")
    for condition in _conditions():
        known = _evaluate(condition, found)
        if (known is _VARYING or isinstance(known, Shifted)) and lanes == threads:
            warn_here(f"an exchange between threads takes {group}, but whether a thread comes here depends on its "
                      f"index and on run-time values: where threads differ, values are missing. {advice}")
            return
        if isinstance(known, tuple) and len(known) == threads and any(
                len(set(known[i : i + lanes])) > 1 for i in range(0, threads, lanes)):
            raise ValueError(f"an exchange between threads takes {group}, but only some of them come here. {advice}")
