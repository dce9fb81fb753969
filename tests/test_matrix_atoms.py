"""Runs matrix_atoms.py on each architecture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("matrix_atoms.py")


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_every_matrix_instruction(arch, tmp_path):
    device = {"FLYDSL_RUNTIME_KIND": "sim", "FLYDSL_SIM_ARCH": arch, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path)}
    result = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env={**os.environ, **device})
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("PASS") >= 10
