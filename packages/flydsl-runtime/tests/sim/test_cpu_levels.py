"""Matrix instructions, integers and accesses of memory give the same bits on every CPU feature level."""

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

#: Instructions on v8 to v11, which stand in memory before s[4:5]; results in v20 to v23. v0 has the lanes' offsets.
INTEGERS = """
  v_mad_u64_u32 v[20:21], vcc, v8, v9, v[10:11]
  v_lshl_add_u64 v[20:21], v[20:21], 5, v[8:9]
  v_addc_co_u32 v22, vcc, v8, v9, vcc
  v_perm_b32 v22, v22, v10, v11
  v_bfe_i32 v23, v8, v9, v10
  v_cndmask_b32 v23, v23, v11, vcc
"""
# Four dwords of each lane, side by side, there and back; read again in rows.
ACCESSES = """
  v_lshlrev_b32 v1, 2, v0
  global_load_dwordx4 v[12:15], v1, s[4:5] offset:-1024
  s_waitcnt vmcnt(0)
  v_xor_b32 v12, v12, v15
  global_store_dwordx4 v1, v[12:15], s[6:7]
  s_waitcnt vmcnt(0)
""" + "".join(f"  global_load_dword v{20 + k}, v0, s[6:7] offset:{256 * k}\n" for k in range(4))
ACCESSES += "  s_waitcnt vmcnt(0)\n"


def expected_accesses(rows: np.ndarray) -> np.ndarray:
    """What ACCESSES give."""
    lanes = rows.reshape(-1, 4).copy()
    lanes[:, 0] ^= lanes[:, 3]
    return lanes.reshape(rows.shape)


def fingerprint(build_dir: str) -> str:
    """Hash of the raw results of every case on fixed random operands."""
    from asmlib import Bench, Program
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
    rows = np.random.default_rng(2).integers(0, 1 << 32, (4, 64), np.uint32)
    programs = [Program(name, code, 4, 20, 4) for name, code in (("integers", INTEGERS), ("accesses", ACCESSES))]
    bench = Bench(sim, "gfx942", programs, build_dir)
    np.testing.assert_array_equal(bench.run("accesses", rows), expected_accesses(rows))
    digest.update(bench.run("integers", rows).tobytes())
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
