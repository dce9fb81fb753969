"""What a type checker, and with it an editor, knows of the language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[3]

PROGRAM = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(X: fx.Tensor, n: fx.Int32) -> None:
    t = fx.thread_idx.x
    reveal_type(t)                               # Numeric
    reveal_type(X[t])                            # Numeric
    reveal_type(X[t, 0] * 2.0)                   # Numeric
    reveal_type(X[t] < 2.0)                      # Boolean
    reveal_type(X[t].to(fx.Float16))             # Numeric
    reveal_type(X[None, 0])                      # Tensor
    reveal_type(X.load() * 2.0)                  # Vector
    reveal_type(fx.make_layout(4, 1))            # Layout
    reveal_type(fx.slice(X, (None, 0)))          # Tensor
    reveal_type(fx.zipped_divide(X, (1, 2)))     # Tensor
    fx.make_rmem_tensor(4, fx.Float32)[t % 4] = X[t]

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32) -> None:
    k(X, n + 1).launch(grid=1, block=64)

reveal_type(run)                                 # JitFunction
reveal_type(flyc.compile(run, 1, 2))             # CompiledFunction
reveal_type(flyc.compile(run, 1, 2).source_ir)   # str
run(1, 2)
"""


def test_types_that_are_known(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    sources = [str(PACKAGES / f"flydsl-{name}" / "src") for name in ("compiler", "layout", "runtime")]
    config = tmp_path / "mypy.ini"
    # The language is not checked here, only used.
    config.write_text(f"[mypy]\nmypy_path = {':'.join(sources)}\nnamespace_packages = true\n"
                      "ignore_missing_imports = true\nexplicit_package_bases = true\n"
                      "[mypy-flydsl.*]\nignore_errors = true\n")
    out, errors, _ = api.run(["--config-file", str(config), "--cache-dir", str(PACKAGES.parent / ".mypy_cache" / "use"),
                              str(program)])
    found = dict(re.findall(r"program\.py:(\d+): note: Revealed type is \"[\w.]*?(\w+)\"", out))
    lines = enumerate(PROGRAM.splitlines(), 1)
    wanted = {str(i): line.rpartition("# ")[2] for i, line in lines if "reveal_type" in line}
    assert found == wanted and "error" not in out, out + errors
