"""Time of a launch, Python to HIP API, on a HIP library that executes nothing.

The library is built here from the one that the runtime's tests use, so that only FlyDSL's path is timed.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from figures import ROOT, Figure, python_json

FAKE = ROOT / "packages" / "flydsl-runtime" / "tests" / "fake_hip" / "fake_hip.c"

CODE = '''
import json, sys, tempfile, timeit
sys.path.insert(0, "tools/bench")
import numpy as np
import flydsl.compiler as flyc
import launch_kernels as k
kinds = {"numpy": lambda: np.zeros((128, 128), np.float32)}
try:
    import torch
    kinds["torch"] = lambda: torch.zeros(128, 128)
except ImportError:
    pass

def best(call, number=500):
    # Many short rounds: on a busy machine some of them run undisturbed.
    call(); call()
    return min(timeit.repeat(call, number=number, repeat=200)) / number * 1e6

found = {}
for kind, make in kinds.items():
    a, b, c, d, e, f, g, h = t = [make() for _ in range(8)]
    found[f"jit call, 3 tensors + 4 scalars, {kind}"] = best(lambda: k.three(a, b, c, 1, 2, 3.0, 4))
    found[f"jit call, 8 tensors, {kind}"] = best(lambda: k.eight(a, b, c, d, e, f, g, h))
    three = flyc.compile(k.three, a, b, c, 1, 2, 3.0, 4)
    found[f"flyc.compile object, 3 tensors + 4 scalars, {kind}"] = best(lambda: three(a, b, c, 1, 2, 3.0, 4, None))
    eight = flyc.compile(k.eight, *t)
    found[f"flyc.compile object, 8 tensors, {kind}"] = best(lambda: eight(a, b, c, d, e, f, g, h, None))
print(json.dumps(found))
'''

BUDGETS = {"jit call, 3": 1.5, "jit call, 8": 2.0, "flyc.compile": 0.7}


def build_null_library(folder: str) -> Path:
    """Compile the HIP library whose launches return at once. RuntimeError without a C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("a C compiler is needed to build the null HIP library")
    output = Path(folder) / "libamdhip64.so.7"
    flags = ["-DFAKE_HIP_NULL", "-DFAKE_HIP_SIMULATOR"]
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", output, FAKE, *flags, "-lpthread"], check=True)
    return output


def measure() -> list[Figure]:
    """Microseconds of one call, best of 200 rounds."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"FLYDSL_HIP_LIBRARY": str(build_null_library(folder)), "FLYDSL_RUNTIME_CACHE_DIR": folder,
               "FLYDSL_RUNTIME_KIND": ""}
        found = python_json(CODE, env=env)
    budget = {name: next(b for head, b in BUDGETS.items() if name.startswith(head)) for name in found}
    return [Figure(name, value, "us", budget[name], note="null HIP library") for name, value in found.items()]
