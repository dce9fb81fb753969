"""What looking costs: counters and the timing model against the plain run of the same launch on the simulator."""

from figures import Figure, python_json

CODE = """
import importlib, json, os, sys, time
os.environ["FLYDSL_SIM_ARCH"] = "gfx942"
sys.path.insert(0, "docs/examples")
import numpy as np
import flydsl.runtime as rt

MODES = {"plain": None, "counters": {"timing": False}, "timing": {"timing": True}}

def seconds(run, profile):
    # CPU seconds of all threads: the figure that a busy machine changes least.
    start = time.process_time()
    if profile is None:
        run(); rt.synchronize()
    else:
        with rt.profile(**profile):
            run(); rt.synchronize()
    return time.process_time() - start

add = importlib.import_module("01_vector_add").add
n = 2048
a = np.ones((n, n), np.float32); c = np.empty_like(a)
gemm = importlib.import_module("04_preshuffle_gemm").gemm
z = np.zeros((1024, 1024), np.float16)
found = {}
runs = {"vector add": lambda: add(a, a, c, n, n), "preshuffle GEMM 1024": lambda: gemm(z, z, z, 1024, 1024, 1024)}
for name, run in runs.items():
    run(); rt.synchronize()
    # In turns, so that a busy machine takes from each mode what it takes from the others.
    rounds = [[seconds(run, profile) for profile in MODES.values()] for _ in range(30)]
    least = dict(zip(MODES, map(min, zip(*rounds))))
    found[name] = {mode: value if mode == "plain" else value / least["plain"] for mode, value in least.items()}
print(json.dumps(found))
"""


def measure() -> list[Figure]:
    """Ratios to the plain run; the budget of both is 1.5."""
    figures = []
    for name, got in python_json(CODE).items():
        note = f"{name}, plain run {got['plain'] * 1e3:.0f} ms; simulator"
        figures.append(Figure(f"counters, {name}", got["counters"], "x", 1.5, note=note))
        figures.append(Figure(f"timing model, {name}", got["timing"], "x", 1.5, note=note))
    return figures
