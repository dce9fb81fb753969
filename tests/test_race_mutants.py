"""The race check and the examples: with every barrier they are clean, with one taken out the check says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
BARRIER = "fx.barrier()"

# Barriers are the same on every architecture: once is enough.
pytestmark = pytest.mark.skipif(os.environ.get("ARCH", "gfx942") != "gfx942", reason="runs on gfx942")

MUTANTS = [("06_block_reduction.py", "ds_")]  # example, start of the instructions that race
# Their barriers are those of `fx.Pipeline`, whose own tests take waits out.
PIPELINES = ["04_preshuffle_gemm.py", "09_flash_attention.py"]


def run(script: Path, checks: str, arch: str) -> subprocess.CompletedProcess[str]:
    """Run an example on the simulator with checks."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLYDSL_SIM_")}
    environment |= {"FLYDSL_RUNTIME_KIND": "sim", "ARCH": arch, "FLYDSL_SIM_ARCH": arch, "FLYDSL_SIM_CHECK": checks}
    return subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, timeout=300)


def barriers(text: str) -> list[int]:
    """The lines that are nothing but a barrier."""
    return [n for n, line in enumerate(text.splitlines()) if line.strip() == BARRIER]


@pytest.mark.parametrize("example", [*(example for example, _ in MUTANTS), *PIPELINES])
def test_examples_are_clean(example):
    done = run(EXAMPLES / example, "oob,race,uninit,barrier", "gfx942")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout


@pytest.mark.parametrize(("example", "instruction"), MUTANTS)
def test_every_barrier_is_needed(example, instruction, tmp_path):
    """Each barrier of an example, taken out alone, leaves a race that the check names with both accesses."""
    text = (EXAMPLES / example).read_text()
    lines = barriers(text)
    assert lines
    for helper in EXAMPLES.glob("_*.py"):
        shutil.copy(helper, tmp_path)
    for line in lines:
        kept = text.splitlines(keepends=True)
        kept[line] = kept[line].replace(BARRIER, "pass")
        mutant = tmp_path / f"mutant_{line}.py"
        mutant.write_text("".join(kept))
        done = run(mutant, "race", "gfx942")
        assert done.returncode != 0, f"line {line + 1} without its barrier: nothing was found"
        report = done.stdout + done.stderr
        assert "check race: " in report and "with no barrier in between" in report, report[-2000:]
        assert report.count(f"'{instruction}") >= 2
