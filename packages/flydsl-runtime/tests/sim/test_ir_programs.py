"""Random LLVM IR (ir_fuzz.py) on the simulator against the same text compiled for the host.

FLYDSL_SIM_IR_FUZZ=N runs N functions for every architecture (default 6 for three of them, which rotate),
FLYDSL_SIM_IR_SEED is the first seed. A difference that LLVM makes (compiler_faults.py) is a warning.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from clangc import COMMON, PRELUDE, find_clang
from compiler_faults import FOLD, folded_out_of_a_loop, split_dumps
from hiplib import LLVM, compile_ir, have_toolchain
from ir_fuzz import module

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250")
COUNT = int(os.environ.get("FLYDSL_SIM_IR_FUZZ", "6"))
FIRST = int(os.environ.get("FLYDSL_SIM_IR_SEED", "1"))
LANES, POISON = 64, 0xA5A5A5A5A5A5A5A5

pytestmark = pytest.mark.skipif(not have_toolchain() or find_clang() is None, reason="no LLVM with an AMD GPU target")


def words(seed: int) -> np.ndarray:
    """Four words a lane: random bits, few bits, and words at the ends of ranges."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2**64, (LANES, 4), dtype=np.uint64)
    data[::3] >>= rng.integers(0, 64, data[::3].shape, dtype=np.uint64)
    edges = np.array([0, 1, 2**7, 2**15, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 0x7F80000000000000], np.uint64)
    data[1::7] = rng.choice(edges, data[1::7].shape)
    return data


def on_host(first: int, count: int, data: np.ndarray, tmp: str) -> np.ndarray:
    """The results of the functions for every lane, by the host's compiler (nothing but the back end optimises)."""
    base = Path(tmp) / f"ir{first}-{count}"
    subprocess.run([LLVM / "llc", "-O1", "-mcpu=haswell", "--relocation-model=pic", "-filetype=obj", "-o", f"{base}.o"],
                   input=module(first, count, gpu=False), text=True, check=True)
    clang = find_clang()
    assert clang
    inputs = ["-", "-x", "none", f"{base}.o", "-lm"]
    subprocess.run([clang, "-O1", "-shared", "-fPIC", *COMMON, "-o", f"{base}.so", *inputs], input=PRELUDE, text=True,
                   check=True)
    kernel = ctypes.CDLL(f"{base}.so").k
    out = np.full((LANES, count), POISON, np.uint64)
    for lane in range(LANES):
        kernel(ctypes.c_int64(lane), ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data))
    return out


def folded_wrongly(seed: int, arch: str, opt: str) -> bool:
    """Whether LLVM reads a scalar of the function's divergent loop outside of it."""
    text = module(seed, 1, gpu=True)
    tuned = subprocess.run([LLVM / "opt", f"-O{opt}", f"-mcpu={arch}"], input=text.encode(), capture_output=True,
                           check=True)
    dumps = subprocess.run([LLVM / "llc", f"-O{opt}", f"-mcpu={arch}", "-filetype=null", f"-print-before={FOLD}",
                            f"-print-after={FOLD}"], input=tuned.stdout, capture_output=True, check=True)
    return bool(folded_out_of_a_loop(*split_dumps(dumps.stderr.decode())))


def differences(sim, first: int, count: int, targets, tmp: str) -> list[str]:
    """Runs functions from seed `first` on for each (architecture, level)."""
    data = words(first)
    want, found = on_host(first, count, data, tmp), []
    for arch, opt in targets:
        sim.set_arch(arch)
        out = np.full((LANES, count), POISON, np.uint64)
        sim.run(compile_ir(module(first, count, gpu=True), arch, tmp, opt), "k", (1,), (LANES,), [data, out])
        for n in np.flatnonzero((out != want).any(0)):
            lane = np.flatnonzero(out[:, n] != want[:, n])[0]
            what = f"f{first + n} {arch} O{opt}, lane {lane}: {out[lane, n]:#x}, host {want[lane, n]:#x}"
            if folded_wrongly(int(first + n), arch, opt):
                warnings.warn(f"compiled wrongly: {what}", stacklevel=2)
            else:
                found.append(what)
    return found


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 6))
def test_random_functions(sim, build_dir, first):
    """Integers, floats and vectors of all sizes give the host's bits."""
    turn = first // 6
    archs = [ARCHS[(turn + k) % len(ARCHS)] for k in (0, 3, 5)] if "FLYDSL_SIM_IR_FUZZ" not in os.environ else ARCHS
    found = differences(sim, first, 6, [(arch, "013"[(turn + n) % 3]) for n, arch in enumerate(archs)], build_dir)
    assert found == []
