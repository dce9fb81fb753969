"""Operations per second, next to pycute (``pip install nvidia-cutlass``) if it can be imported.

Operands are fresh objects in every call, so nothing is won by caching results on them; only "prepared call" reuses one
layout, because that is what is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import flydsl.layout as fl

A = (((4, 8), (2, 16)), ((1, 64), (4, 512)))
B = (((4, 2), (2, 4)), ((1, 64), (4, 8)))
TILE = ((4, 2), (1, 8))
COUNT = 4000


def rate(f: Callable[..., Any], *operand_lists: list[Any]) -> float:
    """Best of five timings, in operations per second."""
    best = float("inf")
    for _ in range(5):
        fresh = [[make() for _ in range(COUNT)] for make in operand_lists]  # type: ignore[operator]
        start = time.perf_counter()
        for args in zip(*fresh, strict=True):
            f(*args)
        best = min(best, time.perf_counter() - start)
    return COUNT / best


def suite(m: Any) -> dict[str, float]:
    def make(s: Any, d: Any) -> Callable[[], Any]:
        return lambda: m.Layout(s, d)

    prepared = m.Layout(*A)
    calls: dict[str, float] = {
        "composition": rate(m.composition, make(*A), make(*B)),  # type: ignore[arg-type]
        "logical_divide": rate(m.logical_divide, make(*A), make(*TILE)),  # type: ignore[arg-type]
        "complement": rate(lambda a: m.complement(a, 65536), make(*A)),  # type: ignore[arg-type]
        "prepared call": rate(lambda i: prepared(i), lambda: 531),  # type: ignore[arg-type]
    }
    return calls


def main() -> None:
    ours = suite(fl)
    try:
        import pycute
    except ImportError:
        theirs = {}
    else:
        theirs = suite(pycute)
    for name, r in ours.items():
        other = theirs.get(name)
        print(
            f"{name:16} {r / 1e3:9.0f} k/s" + (f"   pycute {other / 1e3:7.0f} k/s   {r / other:5.1f}x" if other else "")
        )
    code = "import time; t = time.perf_counter(); import flydsl.layout; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(5)
    ]
    print(f"import           {min(times) * 1e3:9.1f} ms")


if __name__ == "__main__":
    main()
