"""Faults of simulated kernels in the user's terms: array, element, line, thread; loops without end; Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.runtime as rt
from flydsl.utils import env

SCALE = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, shift: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    Y[i + shift] = X[i] * 2.0

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, shift: fx.Int32):
    k(X, Y, shift).launch(grid=2, block=64)
"""
FOURS = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    Y[t] = fx.Vector(fx.ptr_load(fx.get_iter(X) + 4 * t, fx.T.vec(4, fx.T.f32)))[0]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=16)
"""
ROWS = """
@flyc.kernel
def k(Y: fx.Tensor):
    (fx.get_iter(Y) + 64)[fx.thread_idx.x] = fx.Float32(3.0)

@flyc.jit
def run(Y: fx.Tensor):
    k(Y).launch(grid=1, block=64)
"""


@pytest.mark.parametrize(
    ("shift", "place"),
    [
        (24, r"Y \(float32\[128\]\) \+ 128 elements, \S*sample_1\.py:7, workgroup \(1,0,0\), wave 0, lane 40: write of "
             r"4 bytes past the end of Y"),
        (-1, r"Y \(float32\[128\]\) - 1 element, \S*sample_1\.py:7, workgroup \(0,0,0\), wave 0, lane 0: write of 4 "
             r"bytes before the start of Y"),
    ],
)
def test_a_fault_names_array_element_line_and_thread(load: Any, device: None, shift: int, place: str) -> None:
    module = load(SCALE)
    with pytest.raises(rt.SimulatorError) as info:
        module.run(np.ones(128, np.float32), np.zeros(128, np.float32), shift)
    assert re.match(r"run\(\): " + place, str(info.value)), info.value
    assert "    Y[i + shift] = X[i] * 2.0\n" in str(info.value)
    assert info.value.source == (str(Path(module.__file__)), 7)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_arrays_without_elements_leave_no_memory_to_write(load: Any, device: None, shape: tuple[int, ...]) -> None:
    """Nothing is stated for them, and nothing must not mean all that the process has mapped."""
    beside = np.zeros(4096, np.float32)
    empty = np.lib.stride_tricks.as_strided(beside, shape)
    with pytest.raises(rt.SimulatorError, match="write of 4 bytes .* not in any allocation"):
        load(ROWS).run(empty)
    assert not beside.any()


def test_reads_are_named_too(load: Any, device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob")
    module = load(SCALE)
    with pytest.raises(
        rt.SimulatorError, match=r"X \(float32\[100\]\) \+ 100 elements.* lane 36: read of 4 bytes past"
    ):
        module.run(np.ones(100, np.float32), np.zeros(128, np.float32), 0)


def test_a_read_that_a_compiler_may_have_widened(load: Any, device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardware reads an aligned granule whose first bytes exist: this reason is told with such a read."""
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob")
    module = load(FOURS)
    whole = np.ones(128, np.float32)
    start = -whole.ctypes.data % 16 // 4
    out = np.zeros(16, np.float32)
    module.run(whole[start : start + 64], out)
    for at, widened in ((start, True), (start + 1, False)):
        with pytest.raises(rt.SimulatorError, match="read of 16 bytes past the end of X") as info:
            module.run(whole[at : at + 62], out)
        assert ("a compiler may have widened a load" in str(info.value)) == widened, info.value


def test_stores_between_the_rows_of_an_array(load: Any, device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module, whole = load(ROWS), np.zeros((4, 64), np.float32)
    rows = whole[:, :60]
    module.run(rows)  # inside the memory of the array: nothing faults without the check
    assert (whole[1] == 3).all()
    with rt.checked("oob") as report:
        module.run(rows)
        module.run(whole)
    (finding,) = report
    assert finding.check == "oob" and finding.site.lane == 60
    assert finding.message == (
        "write of 4 bytes between the rows of Y, at Y (float32[4,60] with strides [64,1]) + 124 elements"
    )


LOOPS = {
    "a counter that is not counted": ("""
    i, total = fx.Int32(0), fx.Float32(0)
    while i < n:
        total = total + X[t]  # here
    X[t] = total
""", 1),
    "stores of what is there already": ("""
    i = fx.Int32(0)
    while i < n:
        X[t] = X[t] * X[127 - t]  # here
""", 8),
    "a lock that nobody frees": ("""
    lock = fx.recast_iter(fx.Int32, fx.get_iter(X))
    X[1] = fx.Float32(1.0)
    while fx.atomic_cas(lock + 1, fx.Int32(0), fx.Int32(7))[0] != 0:  # here
        fx.rocdl.s_sleep(1)
""", 2),
    "a flag that nobody sets": ("""
    count = fx.Int32(0)
    while X[t] == 0.0:  # here
        count = count + 1
    X[t] = count.to(fx.Float32)
""", 40),
}


@pytest.mark.parametrize("name", LOOPS)
def test_endless_loops_are_told_in_seconds(load: Any, device: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("FLYDSL_SIM_STALL_SECONDS", "0.5")
    body, grid = LOOPS[name]
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
{body}
@flyc.jit
def run(X: fx.Tensor, n: fx.Int32):
    k(X, n).launch(grid={grid}, block=128)
""")
    start = time.monotonic()
    with pytest.raises(rt.SimulatorError, match="endless loop: each time round") as info:
        module.run(np.zeros(128, np.float32), 5)
    assert time.monotonic() - start < 10
    assert info.value.source is not None
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if "# here" in text)
    assert abs(info.value.source[1] - line) <= 1  # of the loop: its condition or its body


def test_long_loops_and_waiting_waves_are_no_endless_loops(
    load: Any, device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One work-group waits for a flag that another sets after two million steps, which only count."""
    monkeypatch.setenv("FLYDSL_SIM_STALL_SECONDS", "0.01")
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, n: fx.Int32):
    flag = fx.get_iter(X)
    if fx.block_idx.x == 0:
        while fx.generic_load(flag, memory_order=fx.AtomicOrdering.Acquire, syncscope=fx.rocdl.SyncScope.Agent) == 0:
            X[2] = fx.Int32(1)
    else:
        total = fx.Int32(1)
        for i in range(n):
            total = total * 5 + i
        X[1] = total
        fx.generic_store(flag, fx.Int32(1), memory_order=fx.AtomicOrdering.Release,
                         syncscope=fx.rocdl.SyncScope.Agent)

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32):
    k(X, n).launch(grid=2, block=1)
""")
    x = np.zeros(3, np.int32)
    module.run(x, 2_000_000)
    assert x[0] == 1 and x[2] == 1 and x[1] != 0


@pytest.mark.parametrize("grid", [1, 3])
def test_loops_that_change_memory_are_no_endless_loops(
    load: Any, device: None, monkeypatch: pytest.MonkeyPatch, grid: int
) -> None:
    """The only thing that moves is memory: each round has the same registers as the one before."""
    monkeypatch.setenv("FLYDSL_SIM_STALL_SECONDS", "0.01")
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, n: fx.Int32):
    at = fx.block_idx.x
    while X[at] < n:
        X[at] = X[at] + 1

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32, grid: fx.Constexpr[int]):
    k(X, n).launch(grid=grid, block=1)
""")
    x = np.zeros(grid, np.int32)
    module.run(x, 300_000, grid)
    np.testing.assert_array_equal(x, 300_000)


def test_an_interrupt_ends_a_launch(tmp_path: Path) -> None:
    program = tmp_path / "spin.py"
    program.write_text("""
import sys
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(X: fx.Tensor, n: fx.Int32):
    i = fx.Int32(1)
    while i != 0:      # comes round after 2**32 steps
        i = i + 2
    X[0] = i

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32):
    k(X, n).launch(grid=8, block=256)

print("ready", flush=True)
try:
    run(np.zeros(1, np.int32), 1)
except KeyboardInterrupt as error:
    print("interrupted", getattr(error, "__notes__", [""])[0])
print("alive")
""")
    environment = {**os.environ, "FLYDSL_RUNTIME_KIND": "sim"}
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(2.5)  # compiled and launched
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        line = child.stdout.readline()
        waited = time.monotonic() - start
        rest = child.stdout.read()
        child.wait(timeout=30)
    assert line.startswith("interrupted") and rest == "alive\n" and child.returncode == 0
    if sys.version_info >= (3, 11):
        assert "the host program interrupted the launch" in line and "spin.py:1" in line
    assert waited < 1.0, waited  # 0.06 s on an idle machine


def test_several_architectures_run_in_one_process(load: Any, device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor):
    X[fx.thread_idx.x] = fx.Int32(fx.num_warp_threads())

@flyc.jit
def run(X: fx.Tensor):
    k(X).launch(grid=1, block=64)
""")
    monkeypatch.delenv("FLYDSL_SIM_ARCH", raising=False)
    for arch, lanes in [("gfx942", 64), ("gfx1201", 32), ("gfx950", 64), ("gfx1250", 32), ("gfx942", 64)]:
        x = np.zeros(64, np.int32)
        with env.override(arch=arch):
            module.run(x)
        np.testing.assert_array_equal(x, lanes, err_msg=arch)
    x = np.zeros(64, np.int32)
    monkeypatch.setenv("ARCH", "gfx1250")
    module.run(x)
    np.testing.assert_array_equal(x, 32)


def test_line_tables_cost_no_code(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import flydsl.compiler as flyc
    import flydsl.ir

    module, texts = load(SCALE), []
    for lines in ("0", "1"):
        monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", lines)
        x = np.zeros(128, np.float32)
        code = flyc.compile(module.run, x, x, 0).artifact.hsaco
        texts.append(re.sub(r"^.*(s_code_end|; gfx).*$", "", flydsl.ir.disassemble(code), flags=re.M))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("expression", ["X[t] / Y[t]", "1.0 / Y[t]", "X[t] / Y[t] * 0.0", "fx.log(Y[t])"])
def test_a_division_by_zero_is_where_an_infinity_comes_from(load: Any, device: None, expression: str) -> None:
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    value = {expression}  # here
    Y[t] = value + 1.0

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    y = np.ones(64, np.float32)
    with rt.checked("nan") as report:
        module.run(np.ones(64, np.float32), y)
        assert not report
        y[:] = 1
        y[5] = 0
        module.run(np.ones(64, np.float32), y)
    (finding,) = report
    assert finding.site.lane == 5 and finding.site.source.endswith("sample_1.py:7")
