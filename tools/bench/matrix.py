"""Throughput of simulated matrix instructions: GEMM kernels compiled by clang, processor seconds of one thread.

Needs LLVM's clang and ld.lld (FLYDSL_LLVM_BIN, /usr/lib/llvm-22/bin); without them there are no figures.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from figures import Figure, python_json

LLVM = Path(os.environ.get("FLYDSL_LLVM_BIN", "/usr/lib/llvm-22/bin"))
SIZE = 768  # M = N = K
KINDS = (("f16", 2, 15.0, 0.4), ("bf16", 2, 15.0, 0.4), ("fp8", 1, 30.0, 0.5), ("i8", 1, 30.0, 0.5))

RUN = """
import ctypes, json, time
import numpy as np
from flydsl.runtime._provider import SIMULATOR_LIBRARY, simulator_directory
lib = ctypes.CDLL(str(simulator_directory() / SIMULATOR_LIBRARY))
check = lambda code: code and exit(f"HIP error {{code}}")
n, kb = {size}, {size} * {element}
rng = np.random.default_rng(0)
# Finite in every format, and neither they nor their products are denormal, which the host multiplies slowly.
operand = lambda: (rng.integers(0, 256, (n, kb), dtype=np.uint8) & 0x3b | 0x30)
a, b, c = operand(), operand(), np.zeros((n, n), np.float32)
module, function = ctypes.c_void_p(), ctypes.c_void_p()
check(lib.flysimSetArch(b"gfx942"))
check(lib.hipModuleLoad(ctypes.byref(module), {image!r}.encode()))
check(lib.hipModuleGetFunction(ctypes.byref(function), module, b"gemm"))
values = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)] + [ctypes.c_int(n), ctypes.c_int(kb)]
pointers = (ctypes.c_void_p * 5)(*[ctypes.addressof(v) for v in values])
x = rng.random((n, n), dtype=np.float32)
def simulated():
    check(lib.hipModuleLaunchKernel(function, n // 128, n // 128, 1, 256, 1, 1, 0, None, pointers, None))
    check(lib.hipDeviceSynchronize())
def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start
# In turns: what a busy machine takes from one it takes from both.
pairs = [(seconds(simulated), seconds(lambda: x @ x)) for _ in range(8)]
best, peer = map(min, zip(*pairs))
print(json.dumps({{"rate": 2 * n**3 / best / 1e9, "ratio": peer / best}}))
"""


def measure() -> list[Figure]:
    """Giga-operations a second and core of a GEMM loop, per element type, also against NumPy's float32 product."""
    if not (LLVM / "clang").exists():
        return []
    figures = []
    source = Path(__file__).with_name("matrix_gemm.c")
    with tempfile.TemporaryDirectory() as tmp:
        for number, (name, element, budget, share) in enumerate(KINDS):
            objects, image = f"{tmp}/{name}.o", f"{tmp}/{name}.hsaco"
            subprocess.run([LLVM / "clang", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib", "-O3",
                            f"-DKIND={number}", "-c", source, "-o", objects], check=True)
            subprocess.run([LLVM / "ld.lld", "-shared", objects, "-o", image], check=True)
            code = RUN.format(size=SIZE, element=element, image=image)
            env = {"FLYDSL_SIM_THREADS": "1", "FLYDSL_SIM_HOST_MEMORY": "mapped", "OPENBLAS_NUM_THREADS": "1"}
            got = python_json(code, env)
            figures.append(Figure(f"simulated {name} MFMA GEMM, per core", got["rate"], "Gop/s", budget, at_least=True))
            figures.append(Figure(f"the same against NumPy's float32 product of {SIZE}", got["ratio"], "x", share,
                                  at_least=True, note="one core each, the same run"))
    return figures
