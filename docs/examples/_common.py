"""What the examples share: random data, a device line, timing, and a loud failure on a wrong result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import flydsl.runtime as rt


def describe_device() -> str:
    """One line that says where the kernels run; a simulated device says so."""
    from flydsl.runtime.device import get_rocm_arch

    label = "simulated " if rt.kind() == "sim" else ""
    return f"{label}{get_rocm_arch()}"


def random_f32(shape: tuple[int, ...], seed: int):
    """Standard-normal float32 data: a torch tensor if torch is installed, else a NumPy array."""
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    try:
        import torch
    except ImportError:
        return data
    return torch.from_numpy(data)


def poisoned_like(array):
    """An output of the same kind and shape, filled with NaN so that an unwritten element is seen."""
    out = array.clone() if hasattr(array, "clone") else array.copy()
    out[...] = float("nan")
    return out


def timed(call: Callable[[], object]) -> float:
    """Seconds that ``call`` takes, including waiting for the device."""
    start = time.perf_counter()
    call()
    rt.synchronize()
    return time.perf_counter() - start


def check(name: str, got, want, tolerance: float = 0.0) -> None:
    """Print the maximum error and PASS; exit with status 1 on a wrong result."""
    got, want = np.asarray(got), np.asarray(want)
    error = float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)))) if got.size else 0.0
    passed = error <= tolerance  # False for NaN: a poisoned element that nobody wrote
    print(f"{name}: maximum error {error:g}  {'PASS' if passed else 'FAIL'}", flush=True)
    if not passed:
        sys.exit(1)
