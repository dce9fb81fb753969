"""These tests leave nothing behind for tests of other packages that run after them in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

FOREIGN = """
from flydsl.runtime import _native

def test_no_library_was_left():
    assert _native.library_info() is None
"""


def test_recording_library_is_given_back(tmp_path: Path) -> None:
    foreign = tmp_path / "test_of_another_package.py"
    foreign.write_text(FOREIGN)
    own = f"{TESTS / 'test_arguments.py'}::test_kinds_of_integers"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", own, str(foreign)],
        cwd=TESTS.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
