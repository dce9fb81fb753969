"""Kernels without a file: exec, notebooks (source registered with linecache), and what is said without source."""

from __future__ import annotations

import linecache
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

SOURCE = """import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    if t < 32:
        Y[t] = X[t] * 2.0

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
"""


def _cell(name: str, source: str) -> dict[str, Any]:
    """Execute a notebook cell: its text is what linecache knows about the name."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), scope)
    return scope


def test_a_notebook_cell_runs(device: None) -> None:
    scope = _cell("<ipython-input-1-abc>", SOURCE)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    scope["run"](x, y)
    np.testing.assert_array_equal(y, np.where(x < 32, 2 * x, 0))


def test_errors_of_a_cell_show_its_line() -> None:
    scope = _cell("<ipython-input-2-abc>", SOURCE.replace("t < 32", "t & 32"))
    with pytest.raises(TypeError) as info:
        scope["run"](np.zeros(64, np.float32), np.zeros(64, np.float32))
    assert '"<ipython-input-2-abc>", line 7' in str(info.value) and "if t & 32:" in str(info.value)
    shown = "\n".join(info.value._render_traceback_())  # what a notebook prints
    assert "if t & 32:" in shown and "control_flow.py" not in shown


def test_a_changed_cell_is_compiled_again(device: None) -> None:
    for factor in (2.0, 3.0):
        scope = _cell("<ipython-input-3-abc>", SOURCE.replace("2.0", str(factor)))
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        scope["run"](x, y)
        assert y[5] == 5 * factor


def test_without_source_the_remedy_is_named() -> None:
    with pytest.raises(OSError, match="could not get source code of .*linecache.cache"):
        exec(compile(SOURCE, "<string>", "exec"), {"__name__": "__main__"})


def test_uncaught_errors_show_no_internal_frames(tmp_path: Any) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        SOURCE.replace("t < 32", "t & 32") + "\nimport numpy as np\nrun(np.zeros(64, 'f'), np.zeros(64, 'f'))\n"
    )
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert out.returncode == 1
    assert "if t & 32:" in out.stderr and "DSLTypeError: the condition has type i32" in out.stderr
    assert "-" * 40 in out.stderr and "control_flow.py" not in out.stderr and "wrong.py" in out.stderr
