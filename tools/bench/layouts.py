"""flydsl-layout next to pycute (``pip install nvidia-cutlass``) in the same run; its import time.

Operands are fresh: constructing them from their shapes and strides is part of every measured operation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from figures import Figure, median_of

A = (((4, 8), (2, 16)), ((1, 64), (4, 512)))
B = (((4, 2), (2, 4)), ((1, 64), (4, 8)))
TILE = ((4, 2), (1, 8))
RATIO = 4.0
CHUNK, ROUNDS = 400, 30

Operation = tuple[str, Callable[[Any], Callable[[], Any]]]
OPERATIONS: tuple[Operation, ...] = (
    ("composition", lambda m: lambda: m.composition(m.Layout(*A), m.Layout(*B))),
    ("logical_divide", lambda m: lambda: m.logical_divide(m.Layout(*A), m.Layout(*TILE))),
    ("complement", lambda m: lambda: m.complement(m.Layout(*A), 65536)),
    ("call of a prepared layout", lambda m: _prepared_call(m.Layout(*A))),
)


def _prepared_call(layout: Any) -> Callable[[], Any]:
    return lambda: layout(531)


def _rates(modules: list[Any]) -> dict[tuple[str, str], float]:
    """Operations per second: the best of many short rounds that take turns, so that both see the same machine."""
    best: dict[tuple[str, str], float] = {}
    prepared = [(name, m.__name__, get(m)) for name, get in OPERATIONS for m in modules]
    for _ in range(ROUNDS):
        for name, module, f in prepared:
            start = time.perf_counter()
            for _ in range(CHUNK):
                f()
            rate = CHUNK / (time.perf_counter() - start)
            best[name, module] = max(best.get((name, module), 0.0), rate)
    return best


def measure() -> list[Figure]:
    """Operations per second, ratios to pycute where it is installed, and the import."""
    import flydsl.layout as ours

    try:
        import pycute
    except ImportError:
        theirs, note = None, "pycute is not installed"
    else:
        theirs, note = pycute, ""
    rates = _rates([ours, *([theirs] if theirs else [])])
    found = []
    for name, _ in OPERATIONS:
        mine = rates[name, ours.__name__]
        budget = 1e5 if name in ("composition", "logical_divide") else None
        found.append(Figure(f"layout: {name}", mine, "op/s", budget, True, note))
        if theirs:
            ratio = mine / rates[name, theirs.__name__]
            found.append(Figure(f"layout: {name} / pycute", ratio, "x", RATIO, True, "same run, fresh operands"))
    code = "import json, time; t = time.perf_counter(); import flydsl.layout; t = time.perf_counter() - t; "
    code += "print(json.dumps({'s': t}))"
    median_of(code, "s", repeat=1)  # writes the byte code
    found.append(Figure("import flydsl.layout", median_of(code, "s", repeat=11), "s", 0.03))
    return found
