"""The language on other architectures: part of these tests in a process whose simulated device is another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FORMS = "return or for-range or while or if or conditional or integer-arithmetic or bool-operators"


@pytest.mark.parametrize("arch", ["gfx950", "gfx1201"])
def test_language_on(arch: str) -> None:
    files = [
        str(HERE / name)
        for name in ("test_python_forms.py", "test_coop.py", "test_atomics.py", "test_lanes.py", "test_wmma.py",
                     "test_older_style.py", "test_address_views.py")  # fmt: skip
    ]
    others = "test_wave or test_block_scan or read_modify_write or float_add or exchange or product"
    others += " or test_style or test_global_and_buffer or test_lds"
    select = f"(test_supported and ({FORMS})) or {others}"
    env = {**os.environ, "FLYDSL_SIM_ARCH": arch, "FLYDSL_RUNTIME_KIND": "sim"}
    for name in ("ARCH", "FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION"):
        env.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files, "-k", select]
    result = subprocess.run(command, capture_output=True, text=True, env=env, cwd=HERE.parents[3])
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-500:]
