"""Part of the language tests in a process of its own, whose simulated device is another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def run_on(arch: str, *files: Path, select: str = "", **variables: str) -> str:
    """Run test files on a simulated architecture; AssertionError with the output where one fails, else the output."""
    env = {**os.environ, "FLYDSL_SIM_ARCH": arch, "FLYDSL_RUNTIME_KIND": "sim", **variables}
    for name in ("ARCH", "FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION"):
        env.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(str, files)]
    result = subprocess.run([*command, *(["-k", select] if select else [])], capture_output=True, text=True, env=env,
                            cwd=ROOT)
    assert result.returncode == 0 and " passed" in result.stdout, result.stdout[-4000:] + result.stderr[-500:]
    return result.stdout
