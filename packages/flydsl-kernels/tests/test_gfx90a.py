"""Operations on gfx90a (CDNA2), which no session of the tests runs on: in a process of its own, against float64."""

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from flydsl.kernels import ops
from flydsl.kernels.target import target
from flydsl.runtime import checked

assert target().name == "gfx90a"
rng = np.random.default_rng(7)


def close(got, want, tolerance):
    error = np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max()
    assert error < tolerance, error


def product(m, n, k, layout="nt"):
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (n, k)))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    a, b = a if layout[0] == "n" else a.T.copy(), b if layout[1] == "t" else b.T.copy()
    close(ops.gemm(a, b, None, layout), want, 2.0**-9)


x = rng.standard_normal((37, 1000)).astype(np.float16)
wide, weight = x.astype(np.float64), rng.standard_normal(1000).astype(np.float16)
with checked("race", "uninit"):
    close(ops.rmsnorm(x, weight), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight, 2.0**-9)
    soft = np.exp(wide - wide.max(1, keepdims=True))
    close(ops.softmax(x), soft / soft.sum(1, keepdims=True), 2.0**-10)
    close(ops.silu_and_mul(x), wide[:, :500] / (1 + np.exp(-wide[:, :500])) * wide[:, 500:], 2.0**-9)
    for layout in ("nt", "nn", "tn", "tt"):
        product(80, 72, 136, layout)
    product(8, 64, 2048)  # the sum is split between work-groups
print("right")
"""


def test_rows_and_products_are_right() -> None:
    env = {**os.environ, "ARCH": "gfx90a", "FLYDSL_SIM_ARCH": "gfx90a", "FLYDSL_GPU_ARCH": "gfx90a",
           "FLYDSL_RUNTIME_KIND": "sim"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.split()[-1] == "right", done.stdout + done.stderr
