"""Random kernels on the device against a plain Python reading of the same source.

``FLYDSL_FUZZ_PROGRAMS`` (default 16) is the number of programs, ``FLYDSL_FUZZ_SEED`` the first seed.
The last long run was 2 000 programs from seed 70000: no deviation, five minutes on one core.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import fuzz_kernels  # noqa: E402
import fuzz_reference  # noqa: E402

PROGRAMS = int(os.environ.get("FLYDSL_FUZZ_PROGRAMS", "16"))
FIRST = int(os.environ.get("FLYDSL_FUZZ_SEED", "0"))
BATCH = 8


def inputs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = (rng.integers(-64, 64, 64) / 8).astype(np.float32)
    return x, rng.integers(-(2**31), 2**31, 64).astype(np.int32) >> rng.integers(0, 28, 64).astype(np.int32)


def expected(text: str, x: np.ndarray, z: np.ndarray, n: int) -> np.ndarray:
    """The output of every thread, by Python."""
    y = np.full(64, -77, np.float32)
    code = compile(text, "reference", "exec")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for thread in range(64):
            scope: dict[str, Any] = {"fx": fuzz_reference.namespace(thread)}
            exec(code, scope)
            views = [fuzz_reference.tensor(a) for a in (x, y, z)]
            scope["k"](*views, fuzz_reference.Int32(n))
    return y


def device_source(seeds: range) -> str:
    parts = []
    for seed in seeds:
        text = fuzz_kernels.program(seed, f"k{seed}")
        text = text.replace("(X, Y, Z, n):", "(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, n: fx.Int32):", 1)
        parts.append("@flyc.kernel\n" + text + f"""
@flyc.jit
def run{seed}(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, n: fx.Int32):
    k{seed}(X, Y, Z, n).launch(grid=1, block=64)
""")
    return "\n".join(parts)


@pytest.mark.parametrize("start", range(FIRST, FIRST + PROGRAMS, BATCH))
def test_random_programs(load: Any, device: None, start: int) -> None:
    seeds = range(start, min(start + BATCH, FIRST + PROGRAMS))
    module = load(device_source(seeds))
    for seed in seeds:
        x, z = inputs(seed)
        n = seed % 50
        want = expected(fuzz_kernels.program(seed), x, z, n)
        y = np.full(64, -77, np.float32)
        getattr(module, f"run{seed}")(x, y, z, n)
        np.testing.assert_array_equal(y, want, err_msg=f"seed {seed}\n{fuzz_kernels.program(seed)}")
