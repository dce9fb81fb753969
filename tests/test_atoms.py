"""Runs matrix_atoms.py and copy_atoms.py on each architecture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_arch

ARCHS = ["gfx942", "gfx950", "gfx1201", "gfx1250"]


def passes(script, arch, cache):
    device = {"FLYDSL_RUNTIME_KIND": "sim", "ARCH": arch, "FLYDSL_SIM_ARCH": arch,
              "FLYDSL_RUNTIME_CACHE_DIR": str(cache)}
    path = Path(__file__).with_name(script)
    result = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env={**os.environ, **device})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.count("PASS")


@pytest.mark.parametrize("arch", [*ARCHS, "gfx1100"])
def test_every_matrix_instruction(arch, tmp_path):
    pytest.importorskip("torch")
    import matrix_atoms

    assert passes("matrix_atoms.py", arch, tmp_path) == 2 * len(matrix_atoms.ATOMS[arch]) >= 8


@pytest.mark.parametrize("arch", ARCHS)
def test_every_copy_and_atomic(arch, tmp_path):
    assert passes("copy_atoms.py", arch, tmp_path) >= 40
