"""gfx1100 has no session: the tests that only its matrix instruction can run, in a process for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_arch


def test_its_tests_pass() -> None:
    env = {**os.environ, "ARCH": "gfx1100", "FLYDSL_SIM_ARCH": "gfx1100", "FLYDSL_GPU_ARCH": "gfx1100",
           "FLYDSL_RUNTIME_KIND": "sim"}
    its = [str(Path(__file__).with_name("test_gemm_dense.py")), "-k", "rdna3"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *its], env=env, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and " skipped" not in done.stdout, done.stdout
