"""Which session of an architecture runs a test: the marks ``one_arch`` and ``spread`` (conftest.py)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_arch
ROOT = Path(__file__).resolve().parent.parent
ARCHS = re.findall(r'"(gfx\w+)"', re.search(r"^ARCHS = .*", (ROOT / "noxfile.py").read_text("utf-8"), re.M)[0])
QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CASES = """
import pytest
@pytest.mark.spread
@pytest.mark.parametrize("i", range(40))
def test_anywhere(i): pass
@pytest.mark.spread("gfx942", "gfx950")
@pytest.mark.parametrize("i", range(20))
def test_of_two(i): pass
@pytest.mark.one_arch
def test_once(): pass
def test_everywhere(): pass
"""


def ran(folder: Path, **environment: str) -> list[str]:
    """Names of the tests of CASES that ran, and were not skipped."""
    env = {k: v for k, v in os.environ.items() if k not in ("ARCH", "FLYDSL_KERNELS_FULL", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"),
               "--rootdir", str(folder), "-v", "--color=no", str(folder / "test_cases.py")]
    done = subprocess.run(command, env={**env, **environment, **QUICK}, cwd=folder, text=True,
                          capture_output=True)
    assert not done.returncode, done.stdout + done.stderr
    return re.findall(r"::(\S+) PASSED", done.stdout)


def test_each_case_has_one_session_and_the_full_matrix_all(tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES, encoding="utf-8")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    of = {arch: ran(tmp_path, ARCH=arch) for arch in ARCHS}
    everything = ran(tmp_path, ARCH="gfx950", FLYDSL_KERNELS_FULL="1")
    assert len(everything) == 62
    assert all("test_everywhere" in names for names in of.values())
    once = [name for names in of.values() for name in names if name != "test_everywhere"]
    assert sorted([*once, "test_everywhere"]) == sorted(everything)
    assert all(any("anywhere" in n for n in names) for names in of.values())
    assert {a for a, names in of.items() if any("of_two" in n for n in names)} == {"gfx942", "gfx950"}
    assert ran(tmp_path) == of["gfx950"]


def test_tests_are_collected_without_torch():
    """It is optional: tests that need it are skipped."""
    hidden = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", hidden, "--collect-only", "-q", "-p", "no:cacheprovider",
                           "packages/flydsl-kernels/tests", "tests"], cwd=ROOT, text=True, capture_output=True)
    assert not done.returncode and " skipped" in done.stdout, done.stdout[-2000:] + done.stderr
