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


def test_arguments_by_name(tmp_path: Path) -> None:
    """A launcher made from an artifact knows its plan: tensors and scalars of the call by name, as they are now."""
    (tmp_path / "axpy.hsaco").write_bytes(compile_kernel(tmp_path))
    code = RUN.split("launcher =", 1)[0] + """
import flydsl.runtime as rt
from flydsl.runtime import Artifact, Breakpoint, breakpoints
data = open(sys.argv[1], "rb").read()
arguments[0] = tensor("y", rank=1, strides=[1])
launcher = Artifact("axpy", "gfx942", plan(arguments, code, name="axpy"), data).launcher()
x = np.arange(1000, dtype=np.float32)
y = np.ones_like(x)
seen = []

def look(state):
    seen.append((state.arguments(), state.argument("a"), state.argument("y")))
    try:
        state.argument("z")
    except KeyError as error:
        assert "has no argument 'z'; it has: y, x, a" in str(error), error
    try:
        state.argument("x")  # the plan passes no extent of x
    except KeyError as error:
        assert "does not get its shape" in str(error), error

with breakpoints(Breakpoint(workgroup=(0, 0, 0), wave=0), call=look):
    launcher(y, x, 2.5)
    synchronize()
((names, a, copy),) = seen
assert names == ("y", "x", "a") and a == 2.5
assert copy.shape == (1000,)
np.testing.assert_array_equal(copy[:256], np.ones(256))  # the other work-groups run meanwhile
print("done")
"""
    done = run("-c", code, str(tmp_path / "axpy.hsaco"), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942")
    assert done.returncode == 0 and done.stdout.split() == ["done"], done.stdout + done.stderr


def test_points_that_cannot_stop(tmp_path: Path) -> None:
    """No points and negative places are errors; a line that no kernel has is told."""
    (tmp_path / "axpy.hsaco").write_bytes(compile_kernel(tmp_path))
    code = RUN.split("try:", 1)[0] + """
import warnings
from flydsl.runtime import Breakpoint, breakpoints
for points, text in (((), "at least one Breakpoint"), ((Breakpoint(wave=-1),), "count from 0")):
    try:
        with breakpoints(*points, call=print):
            pass
        print("no error")
    except ValueError as error:
        assert text in str(error), error
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with breakpoints(Breakpoint(source="other.py:1"), call=print):
        launcher(y, x, 2.0)
        synchronize()
(warning,) = caught
assert "other.py:1" in str(warning.message) and "ENABLE_DEBUG_INFO" in str(warning.message)
print("done")
"""
    done = run("-c", code, str(tmp_path / "axpy.hsaco"), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942")
    assert done.returncode == 0 and done.stdout.split() == ["done"], done.stdout + done.stderr


class _Wave:
    """As much of a wave's state as the console asks for."""

    kernel, text, source, workgroup, wave, exec, vcc, scc = "k", "v_nop", "k.py:3", (1, 2, 0), 1, 0xFF, 3, 1

    def __init__(self) -> None:
        import numpy as np

        self.row, self.memory = np.arange(4, dtype=np.uint32), np.arange(64, dtype=np.uint8)

    def __repr__(self) -> str:
        return "k (1,2,0) wave 1"

    def sgpr(self, n: int) -> int:
        return 100 + n

    def vgpr(self, n: int, dtype: str = "u4"):  # noqa: ANN201 - a NumPy array
        return (self.row + n).view(dtype)

    def lds(self):  # noqa: ANN201
        return self.memory

    def arguments(self) -> tuple[str, ...]:
        return ("X",)

    def argument(self, name: str) -> int:
        return {"X": 42}[name]


def test_console_commands() -> None:
    import io

    from flydsl.runtime import ABANDON, CONTINUE, STEP
    from flydsl.runtime.inspection_console import Console

    def session(*commands: str) -> tuple[int, str]:
        out = io.StringIO()
        typed = io.StringIO("\n".join(commands) + "\n")
        console = Console(_Wave(), stdin=typed, stdout=out)  # type: ignore[arg-type]
        console.cmdloop()
        return console.answer, out.getvalue()

    answer, text = session("where", "p s4-5", "p v1", "p exec", "p X", "p lds 4 2", "p lds 0 3 u1", "p nothing",
                           "p lds 60 4", "arguments", "step")
    assert answer == STEP
    for part in ("k (1,2,0) wave 1", "s4 = 0x68", "s5 = 0x69", "v1 = [1 2 3 4]", "exec = 0xff", "X = 42",
                 "lds[4] = [117835012 185207048]", "lds[0] = [0 1 2]", "error: nothing", "error: the LDS",
                 "X\n"):
        assert part in text, (part, text)
    assert session("c")[0] == CONTINUE and session("q")[0] == ABANDON and session("")[0] == CONTINUE
