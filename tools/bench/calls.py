"""First call of the vector add (cold cache, and from the disk cache in a new process) and of a prebuilt operator."""

import tempfile

from figures import Figure, median_of
from launch import build_null_library

CODE = """
import json, os, sys, time
sys.path.insert(0, "docs/examples")
import importlib
import numpy as np
example = importlib.import_module("01_vector_add")
import flydsl.runtime as rt
rt.synchronize()
a = np.ones((4, 128), np.float32); c = np.empty_like(a)
start = time.perf_counter()
example.add(a, a, c, 4, 128)
rt.synchronize()
print(json.dumps({"s": time.perf_counter() - start}))
assert (c == 2).all() or "FLYDSL_HIP_LIBRARY" in os.environ
"""

GEMM = """
import json, sys, time
sys.path.insert(0, "docs/examples")
import importlib
import flydsl.compiler as flyc, flydsl.expr
import flydsl.runtime as rt
example = importlib.import_module("04_preshuffle_gemm")
rt.synchronize()
call = example.example_call()
start = time.perf_counter()
flyc.compile(*call)
print(json.dumps({"s": time.perf_counter() - start}))
"""


BUILD = """
import json, os
from pathlib import Path
from flydsl.kernels import prebuilt
from flydsl.kernels.host.models import model
from flydsl.kernels.target import current_arch
root = Path(os.environ["FLYDSL_RUNTIME_PREBUILT_DIR"])
prebuilt.build(root, current_arch().split(":")[0], [model("Llama-3.2-1B")], ("softmax",))
print(json.dumps({"s": 0.0}))
"""

PREBUILT = """
import json, time
import numpy as np
import flydsl.compiler, flydsl.expr
import flydsl.runtime as rt
from flydsl.kernels import ops
rt.synchronize()
x = np.ones((2, 2048), np.float16)
start = time.perf_counter()
ops.softmax(x)
rt.synchronize()
print(json.dumps({"s": time.perf_counter() - start}))
"""


def prebuilt() -> float:
    """Seconds of the first call of a prebuilt operator in a new process, on the null HIP library."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"FLYDSL_RUNTIME_PREBUILT_DIR": f"{folder}/prebuilt", "FLYDSL_RUNTIME_CACHE_DIR": f"{folder}/cache"}
        median_of(BUILD, "s", repeat=1, env=env)
        env["FLYDSL_HIP_LIBRARY"] = str(build_null_library(folder))
        median_of(PREBUILT, "s", repeat=1, env=env)  # remembers the digest of the sources
        return median_of(PREBUILT, "s", env=env)


def measure() -> list[Figure]:
    """Seconds from call to finished kernel on a tile of one workgroup."""

    def cold(code: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return median_of(code, "s", repeat=1, env={"FLYDSL_RUNTIME_CACHE_DIR": folder})

    runs = sorted(cold(CODE) for _ in range(5))
    gemm = sorted(cold(GEMM) for _ in range(5))
    with tempfile.TemporaryDirectory() as folder:
        env = {"FLYDSL_RUNTIME_CACHE_DIR": folder}
        median_of(CODE, "s", repeat=1, env=env)
        simulated = median_of(CODE, "s", env=env)
        cached = median_of(CODE, "s", env={**env, "FLYDSL_HIP_LIBRARY": str(build_null_library(folder))})
    return [
        Figure("vector add, first call, cold cache", runs[2], "s", 0.08, note="compile and launch on the simulator"),
        Figure("preshuffle GEMM, compile, cold cache", gemm[2], "s", 0.35, note="tile 128x128x64, f16"),
        Figure("vector add, first call, disk cache", cached * 1e3, "ms", 2, note="null HIP library"),
        Figure("the same on the simulator", simulated * 1e3, "ms", note="the simulator decodes and runs the kernel"),
        Figure("prebuilt operator, first call", prebuilt() * 1e3, "ms", 5, note="softmax of 2048, null HIP library"),
    ]
