"""Random programs on the simulator against the same source on the host.

FLYDSL_SIM_FUZZ=N runs N programs (default 60), FLYDSL_SIM_FUZZ_SEED the first seed, FLYDSL_SIM_FUZZ_TARGETS how
many of the 24 (arch, level) pairs each batch of 20 programs is compiled for (default 5, they rotate).

compiler_faults.py knows wrong code of LLVM by its traces and by the program being right when the compiler goes
another way; test_compiler_faults.py has the cases. Wrong code is told as a warning and does not count as a
failure of the simulator.
"""

from __future__ import annotations

import ctypes
import os
import warnings

import numpy as np
import pytest
from clangc import compile_gpu, compile_host, find_clang
from compiler_faults import explain
from hiplib import SimError
from program_fuzz import batch
from program_lanes import BLOCK

BATCH = 20
COUNT = int(os.environ.get("FLYDSL_SIM_FUZZ", "60"))
PER_BATCH = int(os.environ.get("FLYDSL_SIM_FUZZ_TARGETS", "5"))
FIRST = int(os.environ.get("FLYDSL_SIM_FUZZ_SEED", "1"))
ARCHS = ("gfx942", "gfx950", "gfx1201", "gfx1250", "gfx1200", "gfx90a", "gfx1100", "gfx1151")
TARGETS = [(a, o) for o in "023" for a in ARCHS]

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")


def reads_unwritten(sim, module, name: str, data: np.ndarray) -> bool:
    """Whether the compiled program uses a register that nobody wrote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_SIM_CHECK", "uninit")
        try:
            launch(sim, module, name, data)
        except SimError as error:
            return "was never written" in error.text and " v" in error.text
    return False


def launch(sim, module, name: str, data: np.ndarray) -> np.ndarray:
    """The result of function `name`; raises SimError if the simulator refuses it."""
    out = np.full(BLOCK, 0xA5, np.uint64)
    sim.launch(sim.function(module, name), (1,), (BLOCK,), [data, out])
    return out


def find_compiler_fault(sim, tmp: str, seed: int, arch: str, opt: str, data, good) -> str | None:
    """Names what LLVM did wrong in program `seed` on uint32 `data`, whose uint64 result should be `good`, or None."""
    name, text = f"p{seed}", batch(seed, 1)

    def agrees(level: str, flags: list[str]) -> bool:
        module = sim.load(compile_gpu(text, arch, level, tmp, *flags))
        try:
            return bool((launch(sim, module, name, data) == good).all())
        except SimError:
            return False
        finally:
            sim.lib.hipModuleUnload(module)

    if agrees(opt, []):
        return None
    module = sim.load(compile_gpu(text, arch, opt, tmp))
    try:
        unwritten = reads_unwritten(sim, module, name, data)
    finally:
        sim.lib.hipModuleUnload(module)
    return explain(text, arch, opt, name, agrees, unwritten)


def run_batch(sim, tmp: str, first: int, count: int, targets) -> list[str]:
    """Runs `count` programs from seed `first` on every (arch, level); returns what differs."""
    text = batch(first, count)
    data = np.random.default_rng(first).integers(0, 2**32, 3 * BLOCK, dtype=np.uint32)
    data[::5] >>= 24
    want = {}
    waves = {arch: 32 if arch.startswith(("gfx11", "gfx12")) else 64 for arch, _ in targets}
    for wave in set(waves.values()):
        host = compile_host(f"#define HOST_WAVE {wave}\n{text}", tmp)
        for seed in range(first, first + count):
            out = np.full(BLOCK, 0xA5, np.uint64)
            getattr(host, f"p{seed}")(ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data))
            want[wave, seed] = out
    failures = []
    for arch, opt in targets:
        sim.set_arch(arch)
        module = sim.load(compile_gpu(text, arch, opt, tmp))
        for seed in range(first, first + count):
            good = want[waves[arch], seed]
            try:
                out = launch(sim, module, f"p{seed}", data)
                if (out == good).all():
                    continue
                lane = int(np.flatnonzero(out != good)[0])
                what = f"lane {lane} {out[lane]:#x}, host {good[lane]:#x}"
            except SimError as error:
                what = str(error)
            fault = find_compiler_fault(sim, tmp, seed, arch, opt, data, good)
            if fault:
                warnings.warn(f"p{seed} {arch} O{opt} is compiled wrongly: {fault}", stacklevel=2)
            else:
                failures.append(f"p{seed} {arch} O{opt}: {what}")
        sim.lib.hipModuleUnload(module)
    return failures


@pytest.mark.filterwarnings("always:.*is compiled wrongly")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(sim, build_dir, first):
    """Every program gives the host's result; the targets rotate over the batches."""
    turn = first // BATCH
    targets = [TARGETS[(turn * PER_BATCH + k) % len(TARGETS)] for k in range(PER_BATCH)]
    failures = run_batch(sim, build_dir, first, min(BATCH, FIRST + COUNT - first), targets)
    assert not failures, "\n".join(failures[:20])


@pytest.mark.parametrize(("arch", "opt"), [("gfx942", "2"), ("gfx1201", "0"), ("gfx1250", "3")])
def test_checks_find_nothing_in_programs_without_faults(sim, build_dir, monkeypatch, arch, opt):
    """Programs that initialise all they read and exchange values behind barriers only have no reports."""
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob,uninit,race,barrier")
    failures = run_batch(sim, build_dir, 400001, 12, [(arch, opt)])
    assert not failures, "\n".join(failures[:20])
