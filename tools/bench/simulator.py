"""Throughput of the functional simulator on this CPU."""

import os

from figures import Figure, python_json

CODE = """
import json, sys, time
sys.path.insert(0, "docs/examples")
import importlib
import numpy as np
example = importlib.import_module("01_vector_add")
import flydsl.runtime as rt
n = 4096
a = np.ones((n, n), np.float32); c = np.empty_like(a)
example.add(a, a, c, n, n); rt.synchronize()
best = 1e9
for _ in range(3):
    start = time.perf_counter()
    example.add(a, a, c, n, n)
    rt.synchronize()
    best = min(best, time.perf_counter() - start)
print(json.dumps({"s": best, "elements": n * n}))
"""


def measure() -> list[Figure]:
    """Elements and bytes a second of the vector add."""
    result = python_json(CODE)
    cores = os.cpu_count() or 1
    return [
        Figure("simulated vector add 4096x4096", result["s"] * 1e3, "ms", note=f"simulator on {cores} CPU cores"),
        Figure("simulated vector add, elements per core", result["elements"] / result["s"] / cores / 1e9, "G/s"),
    ]
