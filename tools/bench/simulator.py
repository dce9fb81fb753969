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

# Processor seconds of one thread each, in turns: what a busy machine takes from one it takes from both.
RATIO = """
import importlib, json, sys, time
sys.path.insert(0, "docs/examples")
import numpy as np
import flydsl.runtime as rt
example = importlib.import_module("01_vector_add")
n = 4096
a = np.ones((n, n), np.float32); c = np.empty_like(a)
def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start
def simulated():
    example.add(a, a, c, n, n)
    rt.synchronize()
simulated()
pairs = [(seconds(simulated), seconds(lambda: np.add(a, a, out=c))) for _ in range(7)]
print(json.dumps({"ratio": min(p[1] for p in pairs) / min(p[0] for p in pairs)}))
"""

LOAD = """
import ctypes, json, sys, tempfile, time
sys.path.insert(0, "packages/flydsl-runtime/tests/sim")
import numpy as np
from asmlib import Program, module_text
from hiplib import Sim, assemble, find_library
group = ("  v_add_f32 v{a}, v{b}, v11\\n  v_mfma_f32_16x16x16_f16 v[40:43], v[10:11], v[12:13], v[40:43]\\n"
         "  ds_read_b128 v[60:63], v1 offset:{o}\\n  s_add_u32 s8, s8, {a}\\n"
         "  global_load_dwordx4 v[64:67], v0, s[4:5] offset:16\\n")
body = "".join(group.format(a=10 + k % 50, b=10 + k % 37, o=16 * (k % 100)) for k in range(4000))
program = Program("k", "  s_cbranch_scc1 9\\n  s_endpgm\\n" + body, 1, 2, 1)
sim = Sim(find_library())
sim.set_arch("gfx942")
image = assemble(module_text("gfx942", [program], 64), "gfx942", tempfile.mkdtemp())
load = first = 1e9
for _ in range(5):
    start = time.perf_counter()
    module = sim.load(image)
    load = min(load, time.perf_counter() - start)
    function, rows = sim.function(module, "k"), np.zeros(64, np.uint32)
    start = time.perf_counter()
    sim.launch(function, (1,), (64,), [rows, np.zeros_like(rows)])
    first = min(first, time.perf_counter() - start)
    sim.lib.hipModuleUnload(module)
print(json.dumps({"load": load, "first": first}))
"""


def measure() -> list[Figure]:
    """Speed of the vector add, also against NumPy and without AVX; the cost of a large code object."""
    result = python_json(CODE)
    portable = python_json(CODE, {"FLYDSL_SIM_CPU": "v2"})
    ratio = python_json(RATIO, {"FLYDSL_SIM_THREADS": "1"})["ratio"]
    load = python_json(LOAD)
    cores = os.cpu_count() or 1
    return [
        Figure("simulated vector add 4096x4096", result["s"] * 1e3, "ms", note=f"simulator on {cores} CPU cores"),
        Figure("simulated vector add, elements per core", result["elements"] / result["s"] / cores / 1e9, "G/s"),
        Figure("simulated vector add against np.add", ratio, "x", 0.1, True, "one core each, the same run"),
        Figure("the same with the portable executor (FLYDSL_SIM_CPU=v2)",
               portable["elements"] / portable["s"] / cores / 1e9, "G/s"),
        Figure("load of a code object of 20000 instructions", load["load"] * 1e3, "ms", 20),
        Figure("its first launch, which decodes them", load["first"] * 1e3, "ms"),
    ]
