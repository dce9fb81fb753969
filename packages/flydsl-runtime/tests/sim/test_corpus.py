"""A corpus of C kernels, compiled for each architecture and for the host: results must agree."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from clangc import compile_gpu, compile_host, find_clang
from corpus_table import all_cases, source

ARCHS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201", "gfx1250"]
LEVELS = ["0", "2", "3"]
CASES = all_cases()
#: What LLVM 22 compiles wrongly: unoptimised code copies half of a register whose four bytes it then reorders.
WRONG_CODE = {("gfx1100", "0"): {"bswap64"}}
N = 500
GROUPS = 48

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")


def storage(ty: str) -> np.dtype:
    """The NumPy type that holds `ty` in memory (bf16 as its bits)."""
    if ty == "bf16":
        return np.dtype(np.uint16)
    return np.dtype({"u": "u", "i": "i", "f": "f"}[ty[0]] + str(int(ty[1:]) // 8))


def operands(ty: str, seed: int) -> np.ndarray:
    """N values of `ty`: corner cases, small and random ones."""
    rng = np.random.default_rng(seed)
    d = storage(ty)
    if ty == "bf16":
        return (operands("f32", seed).view(np.uint32) >> 16).astype(np.uint16)
    if d.kind in "ui":
        info = np.iinfo(d)
        v = rng.integers(info.min, info.max, N, dtype=d, endpoint=True)
        v[N // 2 :] >>= rng.integers(0, d.itemsize * 8 - 1, N - N // 2).astype(d)
        v[:6] = [0, 1, info.max, info.min, info.max // 3, info.max - 1]
        return rng.permutation(v)
    info = np.finfo(d)
    v = rng.normal(size=N).astype(d)
    v[N // 2 :] = np.ldexp(v[N // 2 :], rng.integers(info.minexp // 2, info.maxexp // 2, N - N // 2)).astype(d)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, info.max, info.tiny, -info.tiny / 2, info.eps]
    v[: len(special)] = special
    return rng.permutation(v)


def same(case, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Elementwise agreement: bits, except that all NaNs are one (and zeros if `loose`)."""
    if case.result == "bf16":
        nan = ((got & 0x7FFF) > 0x7F80) & ((want & 0x7FFF) > 0x7F80)
        return (got == want) | nan
    if got.dtype.kind != "f":
        return got == want
    bits = f"u{got.dtype.itemsize}"
    equal = (got.view(bits) == want.view(bits)) | (np.isnan(got) & np.isnan(want))
    return equal | (got == want) if case.loose else equal


@pytest.mark.parametrize("opt", LEVELS)
@pytest.mark.parametrize("arch", ARCHS)
def test_corpus(sim, build_dir, arch, opt):
    """Divergent and uniform forms of every kernel agree with the host to the bit."""
    text = source(CASES)
    image = compile_gpu(text, arch, opt, build_dir)
    host = compile_host(text, build_dir)
    sim.set_arch(arch)
    module = sim.load(image)
    failures = []
    for n, case in enumerate(CASES):
        inputs = [operands(t, 100 * n + k) for k, t in enumerate(case.operands)]
        want = np.zeros(N, storage(case.result))
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*inputs, want)]
        getattr(host, f"cpu_{case.name}")(*pointers, N)
        for form, grid, block, count in (("k", (N + 255) // 256, 256, N), ("u", GROUPS, 33, GROUPS)):
            got = np.full(N, 0x5A, storage(case.result))
            try:
                sim.launch(sim.function(module, f"{form}_{case.name}"), (grid,), (block,), [*inputs, got, N])
            except RuntimeError as error:
                failures.append(f"{form}_{case.name}: {error}")
                continue
            bad = np.flatnonzero(~same(case, got[:count], want[:count]))
            if bad.size and case.name not in WRONG_CODE.get((arch, opt), ()):
                at = bad[0]
                shown = ", ".join(str(x[at]) for x in inputs)
                failures.append(f"{form}_{case.name}[{at}]({shown}) = {got[at]}, host {want[at]} ({bad.size} wrong)")
    sim.lib.hipModuleUnload(module)
    assert not failures, "\n".join(failures[:40])


def test_corpus_size():
    """The corpus has the promised number of kernels, each with a name of its own."""
    assert len(CASES) >= 150
    assert len({c.name for c in CASES}) == len(CASES)
