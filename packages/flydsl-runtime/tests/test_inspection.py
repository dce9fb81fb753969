"""Breakpoints: stop, look, step and abandon, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_simulator import CLANG, RUN, SIMULATOR, compile_kernel, run

pytestmark = [
    pytest.mark.l2_device,
    pytest.mark.skipif(SIMULATOR is None, reason="this build has no simulator library"),
    pytest.mark.skipif(not Path(CLANG).exists(), reason="no clang with the AMDGPU target"),
]

LOOK = RUN.split("try:", 1)[0] + """
import flydsl.runtime as rt
from flydsl.runtime import Breakpoint, breakpoints, disasm

listing = disasm(open(sys.argv[1], "rb").read())
store = next(i.address for i in listing if i.text.startswith("global_store"))
seen, steps = [], []

def look(state):
    register = int(state.text.split(",")[1].strip().strip("v"))
    seen.append((state.workgroup, state.wave, state.address, bin(state.exec).count("1"), state.vgpr(register, "f4")))

before = y.copy()
with breakpoints(Breakpoint(address=store, workgroup=(3, 0, 0)), call=look):
    launcher(y, x, 2.0)
    synchronize()
assert [(s[0], s[2]) for s in seen] == [((3, 0, 0), store)] * 4, seen
for _, wave, _, lanes, values in seen:
    first = 3 * 256 + 64 * wave
    count = min(64, 1000 - first)
    assert lanes == count
    np.testing.assert_array_equal(values[:count], 2 * x[first:first + count] + before[first:first + count])

def step(state):
    steps.append(state.address)
    return rt.STEP if len(steps) < 5 else rt.CONTINUE

with breakpoints(Breakpoint(workgroup=(0, 0, 0), wave=0), call=step):
    launcher(y, x, 2.0)
    synchronize()
assert steps == [i.address for i in listing if i.function == "axpy"][:5], steps

kept = y.copy()
try:
    with breakpoints(Breakpoint(), call=lambda state: rt.ABANDON):
        launcher(y, x, 2.0)
        synchronize()
    print("not abandoned")
except rt.HipError as error:
    assert "abandoned at a breakpoint" in str(error)
assert (y == kept).all()

try:
    with breakpoints(Breakpoint(), call=lambda state: state.sgpr(1000)):
        launcher(y, x, 2.0)
        synchronize()
    print("no error")
except IndexError as error:
    assert "s1000 does not exist" in str(error)
launcher(y, x, 2.0)  # without breakpoints the kernel runs as before
synchronize()
assert (y == kept + 2 * x).all()
print("done")
"""


def test_breakpoints(tmp_path: Path) -> None:
    (tmp_path / "axpy.hsaco").write_bytes(compile_kernel(tmp_path))
    done = run("-c", LOOK, str(tmp_path / "axpy.hsaco"), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942")
    assert done.returncode == 0 and done.stdout.split() == ["done"], done.stdout + done.stderr


def test_a_source_line_stops_where_its_code_begins(tmp_path: Path) -> None:
    """With line information, a breakpoint names the line of the kernel's source."""
    (tmp_path / "axpy.hsaco").write_bytes(compile_kernel(tmp_path, "-gline-tables-only"))
    code = RUN.split("try:", 1)[0] + """
from flydsl.runtime import Breakpoint, breakpoints
seen = []
with breakpoints(Breakpoint(source="kernel.c:7", workgroup=(0, 0, 0), wave=1), call=lambda s: seen.append(s.source)):
    launcher(y, x, 2.0)
    synchronize()
assert seen and all(s.endswith("kernel.c:7") for s in seen), seen
print("done")
"""
    done = run("-c", code, str(tmp_path / "axpy.hsaco"), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942")
    assert done.returncode == 0 and done.stdout.split() == ["done"], done.stdout + done.stderr
