"""The tables of links on the documentation page are those that the bench prints, and the bounds hold."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_arch
ROOT = Path(__file__).resolve().parents[1]


def test_the_page_has_what_the_bench_prints():
    done = subprocess.run([sys.executable, ROOT / "packages/flydsl-kernels/bench/links.py", "--check"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
