"""The page "Check your AMD kernels without a GPU": its programs have the faults that it says, told as it says."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs/examples/check"
PAGE = ROOT / "docs/guides/check-without-gpu.md"

pytestmark = pytest.mark.l2_device


def shown(language: str) -> list[str]:
    """The lines that the page shows of a report."""
    (block,) = re.findall(rf"^```text {language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return block.splitlines()


def report(*command: str | Path, **variables: str) -> list[str]:
    """The lines of the report of a program, run in the examples' folder."""
    env = {name: value for name, value in os.environ.items() if name not in ("ARCH", "FLYDSL_SIM_ARCH")}
    done = subprocess.run([sys.executable, "-m", "flydsl.runtime", "check", *map(str, command)], cwd=EXAMPLES,
                          capture_output=True, text=True, timeout=300, env={**env, **variables})
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


def compare(expected: list[str], lines: list[str]) -> None:
    """Every line shown is a line of the report, or the start of one, in that order within its finding."""
    def neutral(line: str) -> str:
        return re.sub(r"0x[0-9a-f]+", "0x", line)

    found = [neutral(line) for line in lines]
    for line in expected:
        assert any(other.startswith(neutral(line)) for other in found), f"{line}\nis not in\n" + "\n".join(lines)


def test_flydsl():
    compare(shown("flydsl"), report("--", "faults_flydsl.py"))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton(tmp_path):
    lines = report("--arch", "gfx950", "--", "faults_triton.py", TRITON_CACHE_DIR=str(tmp_path))
    compare(shown("triton"), lines)


def test_hip(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packages/flydsl-runtime/tests"))
    from test_check_command import build_hip, find_clang

    if find_clang() is None:
        pytest.skip("no clang with an AMD GPU target")
    compare(shown("hip"), report("--", build_hip(EXAMPLES / "faults.hip", tmp_path)))


def test_page_shows_the_sources():
    """The lines with the faults are those of the files."""
    lines = {line for file in EXAMPLES.iterdir() if file.is_file() for line in file.read_text().splitlines()}
    blocks = re.findall(r"^```(?:cpp|python norun)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    faults = [line for block in blocks for line in block.splitlines() if "missing" in line or "was written" in line]
    assert len(faults) == 6 and set(faults) <= lines
