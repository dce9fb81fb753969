"""Scheduling hints of a loop against its final code: counts, order, and the warning about hints for another tile."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from flydsl.compiler.passes import schedule_check
from flydsl.compiler.passes.schedule_check import ScheduleWarning
from flydsl.runtime import schedules

# One iteration: READS values from LDS, one global load, MATRIX chains of matrix instructions, one LDS write.
KERNEL = """
MATRIX, READS = {matrix}, {reads}

@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 1024]).peek()
    for i in range(0, 1024 // 64):
        tile[i * 64 + t] = X[t]
    fx.barrier()
    acc = [fx.Vector.filled(4, 0.0, fx.Float32) for _ in range(MATRIX)]
    for step in range(fx.Int32(0), n, fx.Int32(1)):
        value = X[step * 64 + t]
        reads = [tile[(step * 37 + r * 64 + t) % 1024] for r in fx.range_constexpr(READS)]
        total = reads[0]
        for r in fx.range_constexpr(1, READS):
            total = total + reads[r]
        half = fx.Vector.filled(4, 1.0, fx.Float16) * total.to(fx.Float16)
        for m in fx.range_constexpr(MATRIX):
            acc[m] = fx.Vector(fx.rocdl.mfma_f32_16x16x16f16(fx.T.f32x4, [half, half, acc[m], 0, 0, 0]))
        tile[t] = value
{hints}
    out = acc[0][0]
    for m in fx.range_constexpr(1, MATRIX):
        out = out + acc[m][0]
    Y[t] = out

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    k(X, Y, n).launch(grid=1, block=64)
"""


def compile_with(load: Any, monkeypatch: pytest.MonkeyPatch, matrix: int, reads: int, hints: str) -> tuple[Any, list]:
    """(compiled function, warnings) of the kernel with these counts and hints for gfx942."""
    import flydsl.compiler as flyc

    monkeypatch.setenv("ARCH", "gfx942")
    indented = "\n".join("        " + line for line in hints.strip().splitlines())
    module = load(KERNEL.format(matrix=matrix, reads=reads, hints=indented))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = flyc.compile(module.run, np.zeros(4096, np.float32), np.zeros(64, np.float32), 4)
    return compiled, [w for w in caught if issubclass(w.category, ScheduleWarning)]


FITTING = """
fx.rocdl.sched_dsrd(4)
fx.rocdl.sched_vmem(1)
fx.rocdl.sched_mfma(6)
fx.rocdl.sched_dswr(1)
"""


def test_hints_that_fit_are_silent_and_described(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, caught = compile_with(load, monkeypatch, 6, 4, FITTING)
    assert caught == []
    (found,) = compiled.artifact.metadata["schedules"]["k_0"]
    assert found["asked"] == found["found"] == {"ds_read": 4, "vmem_read": 1, "matrix": 6, "ds_write": 1}
    assert not found["stale"] and found["address"] > 0
    assert found["order"] == [["ds_read", 4], ["vmem_read", 1], ["matrix", 6], ["ds_write", 1]]
    totals: Counter[str] = Counter()
    for kind, n in found["actual"]:
        totals[kind] += n
    assert totals == found["found"]
    assert 0.5 < found["kept"] <= 1.0
    # Profiles find them by the code object: another one may have a kernel of this name, too.
    artifact = compiled.artifact
    assert schedules.of_kernel(artifact.arch, "k_0", schedules.code_digest(artifact.hsaco)) == [found]


def test_a_schedule_for_another_tile_is_told_at_its_line(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tile has grown from 6 matrix instructions and 4 reads to 8 and 3; the hints have not."""
    compiled, caught = compile_with(load, monkeypatch, 8, 3, FITTING)
    (warning,) = caught
    text = str(warning.message)
    assert "stale schedule" in text and "matrix: asked 6, the loop has 8" in text
    assert "ds_read: asked 4, the loop has 3" in text
    assert "vmem_read" not in text.split(";")[0] and "ds_write" not in text.split(";")[0]
    with open(warning.filename, encoding="utf-8") as file:
        assert "sched_dsrd(4)" in file.read().splitlines()[warning.lineno - 1]
    (found,) = compiled.artifact.metadata["schedules"]["k_0"]
    assert found["stale"] and found["source"] == f"{warning.filename}:{warning.lineno}"


def test_hints_of_a_whole_class_count_both_parts(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """0x80 names every LDS instruction, 0x10 every vector memory instruction."""
    hints = "fx.rocdl.sched_group_barrier(0x80, 5, 0)\nfx.rocdl.sched_group_barrier(0x10, 2, 0)\nfx.rocdl.sched_mfma(6)"
    compiled, (warning,) = compile_with(load, monkeypatch, 6, 4, hints)
    (found,) = compiled.artifact.metadata["schedules"]["k_0"]
    assert found["found"] == {"ds": 5, "vmem": 1, "matrix": 6}
    assert "vmem: asked 2, the loop has 1" in str(warning.message) and "ds: asked" not in str(warning.message)


def test_no_hints_no_check(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_check, "check_schedules", lambda *_: pytest.fail("checked without hints"))
    compiled, caught = compile_with(load, monkeypatch, 2, 1, "pass")
    assert caught == [] and "schedules" not in compiled.artifact.metadata


def test_unrolled_loops_are_compared_by_iteration() -> None:
    """Two iterations of the written loop in one of the final loop ask for twice as many."""
    loop = schedule_check._HintedLoop([("matrix", 2), ("ds_read", 1)], matrix=2)
    body = ["v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_f16", "ds_read_b128"] * 2 + ["s_cbranch_scc1"]
    fits = schedule_check._compare("k", loop, (64, body))
    assert fits.unrolled == 2 and not fits.stale and fits.kept == 1.0
    stale = schedule_check._compare("k", loop, (64, ["ds_read_b128", *body]))
    assert stale.differences == {"ds_read": (2, 3)} and stale.kept == 1.0
    late = schedule_check._compare("k", loop, (64, [body[2], body[2], *body[:2], *body[:2]]))
    assert not late.stale and late.kept < 1.0
    gone = schedule_check._compare("k", loop, None)
    assert not gone.stale and "no loop of the final code" in schedule_check.format_schedule(gone)


def test_the_hints_of_the_examples_fit() -> None:
    """Example 04 writes its hot loop by hand: the order that it asks for is the order of the code object."""
    import subprocess
    import sys
    from pathlib import Path

    examples = Path(__file__).parents[4] / "docs" / "examples"
    code = """
import importlib, sys
import flydsl.compiler as flyc
sys.path.insert(0, sys.argv[1])
function, *arguments = importlib.import_module("04_preshuffle_gemm").example_call()
(loop,) = flyc.compile(function, *arguments).artifact.metadata["schedules"]["gemm_kernel_0"]
assert not loop["stale"] and loop["found"]["matrix"] == 128 and loop["kept"] > 0.95, loop
"""
    for arch in ("gfx942", "gfx950"):
        environment = {**os.environ, "ARCH": arch, "FLYDSL_RUNTIME_KIND": "sim", "FLYDSL_SIM_ARCH": arch}
        done = subprocess.run([sys.executable, "-W", "error", "-c", code, str(examples)], env=environment,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
