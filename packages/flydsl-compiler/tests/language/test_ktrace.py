"""In-kernel tracing: records of marks and ranges, launches, filters, overflow and the exported file."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest

import flydsl.expr as fx

SOURCE = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    block = fx.block_idx.x
    fx.ktrace.mark("begin", block)
    total = fx.Float32(0.0)
    for i in range(fx.Int32(0), n, fx.Int32(1)):
        with fx.ktrace.range("step", i):
            total = total + X[block * 128 + t]
    token = fx.ktrace.range_start("tail", 1.5)
    Y[block * 128 + t] = total
    fx.ktrace.mark("half", fx.Float16(0.25))
    fx.ktrace.range_stop(token)
    if t < 10:
        fx.ktrace.mark("few", t == 0)

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, blocks: fx.Int32):
    k(X, Y, n).launch(grid=blocks, block=128)
"""

pytestmark = pytest.mark.l2_device


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(6 * 128, dtype=np.float32), np.zeros(6 * 128, np.float32)


def test_records_of_every_wave(load: Any, arrays: Any, tmp_path: Any) -> None:
    x, y = arrays
    run = load(SOURCE).run
    with fx.ktrace.capture("demo", out_dir=tmp_path) as trace:
        assert fx.ktrace.tracing_enabled() and trace.read() == []
        run(x, y, 3, 6)
        assert len(trace.read()) == 12  # also while the window is open
    np.testing.assert_array_equal(y, 3 * x)
    assert not fx.ktrace.tracing_enabled()
    waves = trace.read()
    assert {(w.workgroup, w.wave) for w in waves} == {((b, 0, 0), v) for b in range(6) for v in range(2)}
    assert all(w.kernel.startswith("k") and w.groups == 6 and w.launch == 0 for w in waves)
    for wave in waves:
        kinds = [(e.kind, e.name, e.payload) for e in wave.events]
        steps = [(kind, "step" if kind == "push" else "", i if kind == "push" else None)
                 for i in range(3) for kind in ("push", "pop")]
        want = [("mark", "begin", wave.workgroup[0]), *steps, ("start", "tail", 1.5), ("mark", "half", 0.25),
                ("stop", "", None)]
        assert kinds[: len(want)] == want
        # The branch is taken by lanes of the first wave only; its first active lane is lane 0.
        assert kinds[len(want) :] == ([("mark", "few", True)] if wave.wave == 0 else [])
        times = [e.time_ns for e in wave.events]
        assert times == sorted(times) and times[0] >= wave.time_ns and all(t % 10 == 0 for t in times)
    totals = trace.summary()
    assert totals["waves"] == 12 and totals["records"] == 12 * 10 + 6
    phases = totals["phases"]
    counts = {name: p["count"] for name, p in phases.items()}
    assert counts == {"begin": 12, "step": 36, "tail": 12, "half": 12, "few": 6}
    assert phases["step"]["total_ns"] >= 0 and phases["begin"]["total_ns"] == 0
    path = trace.export()
    assert path == tmp_path / "demo_ktrace.pftrace.gz"
    data = gzip.decompress(path.read_bytes())
    for text in (b"launch 0", b"work-group (5,0,0)", b"wave 1", b"step", b"payload", b"XCC 0"):
        assert text in data
    assert trace.export() == tmp_path / "demo_ktrace_1.pftrace.gz"


def test_launches_are_told_apart(load: Any, arrays: Any, tmp_path: Any) -> None:
    x, y = arrays
    run = load(SOURCE).run
    with fx.ktrace.capture(out_dir=tmp_path) as trace:
        run(x, y, 1, 6)
        trace.clear()
        for blocks in (2, 6, 2):
            run(x, y, 1, blocks)
    assert [len(launch) for launch in trace.launches()] == [4, 12, 4]
    assert [p.name for p in trace.export_launches()] == [f"kernel_{n}_ktrace.pftrace.gz" for n in range(3)]
    with pytest.raises(ValueError, match="1 names for 3 launches"):
        trace.export_launches(["one"])


def test_only_chosen_blocks_record(load: Any, arrays: Any) -> None:
    x, y = arrays
    with fx.ktrace.capture(blocks="4,*,*") as trace:
        load(SOURCE).run(x, y, 1, 6)
    assert {w.workgroup for w in trace.read()} == {(4, 0, 0)}
    with pytest.raises(ValueError, match="xcc:N"):
        fx.ktrace.capture(blocks="xcc:")


def test_windows_do_not_nest_and_other_kernels_are_untouched(load: Any, arrays: Any) -> None:
    x, y = arrays
    run = load(SOURCE).run
    run(x, y, 2, 6)  # compiled without tracing
    with fx.ktrace.capture() as trace, pytest.raises(RuntimeError, match="do not nest"), fx.ktrace.capture():
        pass
    run(x, y, 2, 6)
    assert trace.read() == [] and trace.summary() == {"waves": 0, "records": 0, "phases": {}}


def test_a_wave_that_records_too_much_is_an_error(load: Any, arrays: Any) -> None:
    x, y = arrays
    with pytest.raises(RuntimeError, match="a wave holds 255"), fx.ktrace.capture():
        load(SOURCE).run(x, y, 200, 1)


def test_other_architectures_say_so(load: Any, monkeypatch: pytest.MonkeyPatch, arrays: Any) -> None:
    monkeypatch.setenv("ARCH", "gfx1201")
    monkeypatch.setenv("COMPILE_ONLY", "1")
    with pytest.raises(NotImplementedError, match="gfx942 and gfx950"), fx.ktrace.capture():
        load(SOURCE).run(*arrays, 1, 6)


def test_process_wide_tracing() -> None:
    """FLYDSL_KTRACE_ENABLE=1: collect() writes what the process recorded; a full buffer is an error."""
    import os
    import subprocess
    import sys

    code = f"""
import numpy as np, sys, pathlib, tempfile
import flydsl.compiler as flyc, flydsl.expr as fx
path = pathlib.Path(tempfile.mkdtemp()) / "sample.py"
path.write_text("import flydsl.compiler as flyc\\nimport flydsl.expr as fx\\n" + {SOURCE!r})
sys.path.insert(0, str(path.parent))
import sample
x, y = np.ones(6 * 128, np.float32), np.zeros(6 * 128, np.float32)
sample.run(x, y, 2, 6)
try:
    print(fx.ktrace.summary()["waves"], fx.ktrace.collect("all", path.parent).name)
except RuntimeError as error:
    print(error)
"""

    def start(**more: str) -> str:
        environment = {**os.environ, "FLYDSL_KTRACE_ENABLE": "1", "FLYDSL_RUNTIME_KIND": "sim", "ARCH": "gfx950",
                       "FLYDSL_SIM_ARCH": "gfx950", **more}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert start() == "12 all_ktrace.pftrace.gz"
    assert "buffer is full" in start(FLYDSL_KTRACE_BUFFER_BYTES="20000")
