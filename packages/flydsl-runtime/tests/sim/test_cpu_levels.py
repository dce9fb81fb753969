"""Matrix instructions and conversions give the same bits on every CPU feature level."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CASES = [
    ("gfx942", "v_mfma_f32_16x16x16_f16"),
    ("gfx942", "v_mfma_f32_32x32x16_bf8_fp8"),
    ("gfx942", "v_mfma_f64_16x16x4_f64"),
    ("gfx942", "v_mfma_f32_4x4x4_16b_bf16"),
    ("gfx950", "v_smfmac_f32_16x16x64_bf16"),
    ("gfx950", "v_mfma_i32_32x32x32_i8"),
    ("gfx1250", "v_wmma_f16_16x16x64_fp8_bf8"),
]


def fingerprint(build_dir: str) -> str:
    """Hash of the raw results of every case on fixed random operands."""
    from asmlib import Bench
    from hiplib import Sim, find_library
    from test_matrix import Case, operands, to_rows

    sim = Sim(find_library())
    digest = hashlib.sha256()
    for arch, name in CASES:
        case = Case(arch, name, 32 if arch == "gfx1250" else 64)
        bench = Bench(sim, arch, [case.program()], build_dir, case.wave)
        rng = np.random.default_rng(1)
        for style in ("real", "any"):
            digest.update(bench.run(case.label, to_rows(case, operands(case, rng, style))).tobytes())
    return digest.hexdigest()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="levels are those of x86-64")
def test_levels_agree(sim, build_dir: str) -> None:
    """The portable code, that for AVX2 and the best code of this CPU, each in a process of its own."""
    found = set()
    for level in ("v2", "v3", ""):
        code = f"import test_cpu_levels as t; print(t.fingerprint({build_dir!r}))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "FLYDSL_SIM_CPU": level},
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout.strip())
    assert len(found) == 1


#: Suites that together reach every source file of the executor.
PORTABLE = ("test_packed.py", "test_dot.py", "test_atomics.py", "test_loads_stores.py", "test_lds_forms.py",
            "test_compare.py", "test_register_indexing.py", "test_mixed.py")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="levels are those of x86-64")
def test_portable_executor(sim) -> None:
    """Instruction tests on the executor without AVX, which is chosen when the library is loaded."""
    if os.environ.get("FLYDSL_SIM_CPU"):
        pytest.skip("this is the run with a chosen level")
    here = Path(__file__).parent
    names = [str(here / name) for name in PORTABLE]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *names],
        env={**os.environ, "FLYDSL_SIM_CPU": "v2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
