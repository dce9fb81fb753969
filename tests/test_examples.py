"""Every example is a script that must succeed on the device, and notice a wrong result."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
SCRIPTS = sorted(p.name for p in EXAMPLES.glob("[0-9]*.py"))


def run(script, cache, *arguments, **env):
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(EXAMPLES / script), *arguments],
        capture_output=True, text=True, env={**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(cache), **env},
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_example_passes_cold_and_cached(script, tmp_path):
    for _ in range(2):
        result = run(script, tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "PASS" in result.stdout
        assert "FAIL" not in result.stdout
    assert "gfx" in result.stdout  # says on which device it ran


def test_vector_add_with_ragged_edges(tmp_path):
    result = run("01_vector_add.py", tmp_path, "--sizes", "1x4", "5x132", "100x1000")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"maximum error 0 +PASS", result.stdout)) == 3


def test_examples_fail_loudly(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import _common, numpy as np;"
        "_common.check('x', np.array([1.0, np.nan]), np.array([1.0, 2.0]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "FAIL" in result.stdout
