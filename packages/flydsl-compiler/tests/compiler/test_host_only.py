"""Jit functions that launch nothing are legal: traced, verified, inspected; a call has nothing to do."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.tracing.diagnostics import DSLCompileError


@flyc.jit
def layouts(X: fx.Tensor, n: fx.Int32, m: fx.Constexpr[int] = 4):
    tile = fx.make_layout((m, n), (1, m))
    fx.size(fx.logical_divide(X, fx.make_layout(4, 1)))
    fx.cosize(tile)
    register = fx.make_rmem_tensor(4, fx.Float32)
    register.fill(0.0)


def test_a_call_traces_and_does_nothing() -> None:
    x = np.arange(64, dtype=np.float32)
    assert layouts(x, 3) is None and layouts(x, 4) is None
    text = layouts.last_compiled.source_ir
    assert "func.func @layouts" in text and "fly.logical_divide" in text and "(4,?):(1,4)" in text
    assert "#fly.layout" in text or "!fly.layout" in text
    assert layouts._last_compiled[1].source_ir == text
    np.testing.assert_array_equal(x, np.arange(64))
    layouts(x, 3, 8)
    assert "(8,?):(1,8)" in layouts.last_compiled.source_ir


def test_compile_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILE_ONLY", "1")

    @flyc.jit
    def run(n: fx.Int32):
        fx.make_layout((n, 2), (2, 1))

    assert run(3) is None
    assert "(?,2):(2,1)" in run._last_compiled[1].source_ir
    assert flyc.compile(run, 3) is None


def test_compiled_function() -> None:
    compiled = flyc.compile(layouts, np.zeros(64, np.float32), 1)
    compiled(np.zeros(64, np.float32), 2, 4)
    assert "func.func @layouts" in compiled.source_ir
    with pytest.raises(ValueError, match="exactly one launch"):
        compiled.max_blocks_per_cu()


def test_the_disk_cache_keeps_the_traced_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "0")  # line tables have the path, as they should
    path = tmp_path / "nothing.py"
    path.write_text(
        "import flydsl.compiler as flyc\nimport flydsl.expr as fx\n\n"
        "@flyc.kernel\ndef k(X: fx.Tensor):\n    X[0] = 1.0\n\n"
        "@flyc.jit\ndef host(n: fx.Int32):\n    fx.make_layout((n, 2), (2, 1))\n\n"
        "@flyc.jit\ndef run(X: fx.Tensor):\n    k(X).launch(grid=1, block=64)\n"
    )

    def load() -> Any:
        spec = importlib.util.spec_from_file_location("nothing", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["nothing"] = module
        spec.loader.exec_module(module)
        return module

    first, x = load(), np.zeros(64, np.float32)
    first.host(1), first.run(x)
    second = load()
    second.host(1), second.run(x)
    for name in ("host", "run"):
        one, other = getattr(first, name), getattr(second, name)
        assert other.cache_info().hits == 1, name
        assert other.last_compiled.source_ir == one.last_compiled.source_ir != ""
    # What is shipped does not show the source.
    saved = second.run.last_compiled.save(tmp_path / "run.flydsl").read_bytes()
    assert b"nothing.py" not in saved


def test_verification_still_happens() -> None:
    @flyc.jit
    def wrong(n: fx.Int32):
        fx.make_layout((4, 8), (1,))

    with pytest.raises((ValueError, DSLCompileError)):
        wrong(1)


def test_prints_are_executed(capfd: pytest.CaptureFixture[str]) -> None:
    @flyc.jit
    def show(n: fx.Int32):
        fx.printf("n = {}", n * 2)

    show(21)
    assert "n = 42" in capfd.readouterr().out


def test_stores_that_are_not_executed_are_told() -> None:
    @flyc.jit
    def store(X: fx.Tensor):
        X[0] = 1.0

    with pytest.warns(UserWarning, match=r"stores to memory \(.*test_host_only.py:\d+\).*belongs into a kernel"):
        store(np.zeros(4, np.float32))
