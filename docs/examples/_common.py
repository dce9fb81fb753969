"""What the examples share: random data, a device line, timing, and a loud failure on a wrong result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import flydsl.compiler as flyc
import flydsl.runtime as rt


def describe_device() -> str:
    """One line that says where the kernels run; a simulated device says so."""
    from flydsl.runtime.device import get_rocm_arch

    label = "simulated " if rt.kind() == "sim" else ""
    return f"{label}{get_rocm_arch()}"


def require_arch(*archs: str) -> None:
    """End the script, saying so, on a device that lacks what the example shows."""
    from flydsl.runtime.device import get_rocm_arch

    if get_rocm_arch().split(":")[0] not in archs:
        print(f"SKIP: needs {' or '.join(archs)}, this is {describe_device()}")
        sys.exit(0)


def random_f32(shape: tuple[int, ...], seed: int):
    """Standard-normal float32 data: a torch tensor if torch is installed, else a NumPy array."""
    return to_device(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def random_f16(shape: tuple[int, ...], seed: int):
    """As `random_f32`, rounded to float16."""
    return to_device(np.random.default_rng(seed).standard_normal(shape).astype(np.float16))


def to_device(data: np.ndarray):
    """``data`` where a kernel can use it: a torch tensor (on the GPU if there is one), or the array itself on the
    simulator, whose memory is the host's."""
    try:
        import torch
    except ImportError:
        return data
    return torch.from_numpy(data).to("cuda") if rt.kind() == "rocm" else torch.from_numpy(data)


def to_host(data) -> np.ndarray:
    """A NumPy array of a result."""
    return data.cpu().numpy() if hasattr(data, "cpu") else np.asarray(data)


def synchronize() -> None:
    """Wait for the device."""
    rt.synchronize()


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


def compiled(function, *arguments):
    """``flyc.compile(function, *arguments)`` and a text that says where the code came from and how long it took."""

    def counts() -> tuple[int, int]:
        info = function.cache_info()
        return (info.hits, info.misses) if info else (0, 0)

    hits, misses = counts()
    start = time.perf_counter()
    result = flyc.compile(function, *arguments)
    took = (time.perf_counter() - start) * 1e3
    now_hits, now_misses = counts()
    if now_hits > hits:
        return result, f"cached start {took:.1f} ms"
    return result, f"compile {took:.1f} ms" if now_misses > misses else f"compiled already ({took:.1f} ms)"


def check(name: str, got, want, tolerance: float | np.ndarray = 0.0) -> None:
    """Print the maximum error, and PASS if no element is further off than ``tolerance`` (one for all, or one each);
    exit with status 1 on a wrong result."""
    got, want = to_host(got).astype(np.float64), to_host(want).astype(np.float64)
    error = np.abs(got - want)
    # NaN is never within a tolerance: a poisoned element that nobody wrote.
    expect(f"{name}: maximum error {error.max() if error.size else 0.0:g} ", bool(np.all(error <= tolerance)))


def expect(statement: str, true: bool) -> None:
    """Print whether a statement holds; exit with status 1 if it does not."""
    print(f"{statement} {'PASS' if true else 'FAIL'}", flush=True)
    if not true:
        sys.exit(1)
