"""Kernels without a file: exec, notebooks (source registered with linecache), and what is said without source."""

from __future__ import annotations

import html.parser
import linecache
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc

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


def test_what_a_notebook_shows_of_a_function() -> None:
    run = _cell("<ipython-input-4-abc>", SOURCE)["run"]
    assert run._repr_html_() is None
    x = np.zeros(64, np.float32)
    compiled = flyc.compile(run, x, x)
    page = compiled._repr_html_()
    assert page == run._repr_html_()
    parser = _Balanced()
    parser.feed(page)
    assert not parser.opened and parser.seen >= {"table", "details", "pre"}
    text = "".join(parser.text)
    for part in ("run", compiled.artifact.arch, "VGPRs", "k_0", "traced IR", "scf.if", "machine code", "s_endpgm"):
        assert part in text, part
    assert compiled.source_ir in text and isinstance(compiled.source_ir, str)
    assert "<span" in compiled.source_ir._repr_html_()


class _Balanced(html.parser.HTMLParser):
    """Collects the text and the tags of a page, and which of these are still open."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.seen: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.opened.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


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
