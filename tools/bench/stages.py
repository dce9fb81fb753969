"""Time of every pass of the compiler and of code generation, for the vector add and the preshuffle GEMM."""

from figures import Figure, python_json

CODE = """
import importlib, json, sys, tempfile, time
sys.path.insert(0, "docs/examples")
import flydsl.compiler as flyc, flydsl.expr
from flydsl._mlir import passmanager
from flydsl.compiler.passes import pipeline


seconds = {}

def run(module, fragments, dump):
    for fragment in fragments:
        manager = passmanager.PassManager.parse(f"builtin.module({fragment})")
        manager.enable_verifier(False)
        start = time.process_time()
        manager.run(module.operation)
        label = pipeline.stage_label(fragment)
        seconds[label] = seconds.get(label, 0) + time.process_time() - start

pipeline.MlirCompiler._run = staticmethod(run)
"""

VECTOR_ADD = (
    CODE
    + """
import numpy as np
example = importlib.import_module("01_vector_add")
a = np.ones((4, 128), np.float32)
compiled = flyc.compile(example.add, a, a, np.empty_like(a), 4, 128)
"""
)

GEMM = (
    CODE
    + """
example = importlib.import_module("04_preshuffle_gemm")
compiled = flyc.compile(*example.example_call())
"""
)

END = """
phases = dict(compiled.artifact.metadata["phases"]) if hasattr(compiled, "artifact") else {}
print(json.dumps({"stages": seconds, "phases": phases}))
"""


def measure() -> list[Figure]:
    """CPU time of each pass, without the verifier between passes, and wall time of the phases around them."""
    found = []
    for name, code in (("vector add", VECTOR_ADD), ("preshuffle GEMM", GEMM)):
        # The second of two processes has its byte code compiled and its files in memory.
        result = [python_json(code + END, env={"FLYDSL_RUNTIME_ENABLE_CACHE": "0"}) for _ in range(2)][1]
        for stage, seconds in result["stages"].items():
            found.append(Figure(f"{name}: {stage}", seconds * 1e3, "ms", note="CPU"))
        found.append(Figure(f"{name}: all passes", sum(result["stages"].values()) * 1e3, "ms", note="CPU"))
        for phase, seconds in result["phases"].items():
            found.append(Figure(f"{name}: phase {phase}", seconds * 1e3, "ms", note="wall"))
    return found
