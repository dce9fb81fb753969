"""The launch path on the simulator library, where this build has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.runtime import HipError, simulator_directory

try:
    SIMULATOR = simulator_directory()
except HipError:
    SIMULATOR = None

pytestmark = [
    pytest.mark.l2_device,
    pytest.mark.skipif(SIMULATOR is None, reason="this build has no simulator library"),
]

CLANG = shutil.which("clang-22") or "/usr/lib/llvm-22/bin/clang"

KERNEL = """
#define GLOBAL __attribute__((address_space(1)))
__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(64, 256)))
void axpy(GLOBAL float *y, GLOBAL const float *x, float a, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < n)
    y[i] = a * x[i] + y[i];
}
"""

RUN = """
import ctypes
import sys
import numpy as np
from runtime_plans import launch, plan, scalar, tensor
from flydsl.runtime import Launcher, kind, synchronize
code = [
    ["ptr", 0, 0], ["ptr", 1, 1], ["arg", 2, 2], ["shape", 3, 0, 0],
    ["const", 4, 256], ["ceildivs", 5, 3, 4, 32], ["const", 6, 1],
    launch("axpy", (5, 6, 6), (4, 6, 6), args=((0, 0, 8), (1, 8, 8), (2, 16, 4), (3, 20, 4)), size=24),
]
arguments = [tensor("y", rank=1), tensor("x", rank=1), scalar("a", "f32")]
launcher = Launcher(plan(arguments, code, name="axpy"), open(sys.argv[1], "rb").read(), arch="gfx942")
x = np.arange(1000, dtype=np.float32)
y = np.ones_like(x)
launcher(y, x, 2.0)
synchronize()
assert (y == 2 * x + 1).all()
try:
    # An array over memory that nobody mapped: NumPy does not touch it, the kernel does.
    launcher(y, np.frombuffer((ctypes.c_float * 1000).from_address(0x10000), np.float32), 2.0)
    synchronize()
    print("no error")
except RuntimeError as error:
    print(kind(), type(error).__name__, error)
"""


def compile_kernel(directory: Path, *options: str) -> bytes:
    source, output = directory / "kernel.c", directory / "kernel.hsaco"
    source.write_text(KERNEL)
    flags = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib", "-O3", *options]
    subprocess.run([CLANG, *flags, source, "-o", output], check=True)
    return output.read_bytes()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    python_path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    merged = {**os.environ, "PYTHONPATH": python_path, "FLYDSL_RUNTIME_KIND": "sim", **environment}
    return subprocess.run([sys.executable, *arguments], env=merged, capture_output=True, text=True, timeout=300)


def test_info() -> None:
    result = run("-m", "flydsl.runtime", "info", "--json", FLYDSL_SIM_ARCH="gfx942")
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["kind"] == "sim"
    assert facts["library"] == str(SIMULATOR / "libamdhip64.so.7")
    (device,) = facts["devices"][:1]
    assert (device["arch"], device["warp_size"], device["lds_bytes"]) == ("gfx942", 64, 65536)


def test_folder_on_the_command_line() -> None:
    result = run("-m", "flydsl.runtime", "sim-lib-dir")
    assert (Path(result.stdout.strip()) / "libamdhip64.so.7").exists()


def test_unknown_architecture() -> None:
    result = run("-m", "flydsl.runtime", "info", FLYDSL_SIM_ARCH="gfx000")
    assert result.returncode == 1
    assert "gfx000" in result.stderr


def test_memory_streams_and_events() -> None:
    code = """
import numpy as np
import flydsl.runtime as rt
stream = rt.Stream()
start = stream.record_event()
a = rt.DeviceArray.from_numpy(np.arange(10))
end = stream.record_event()
stream.synchronize()
assert start.elapsed_time(end) >= 0
assert a.numpy().tolist() == list(range(10))
"""
    result = run("-c", code)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(not Path(CLANG).exists(), reason="needs clang with the AMDGPU target to make a code object")
def test_kernel(tmp_path: Path) -> None:
    image, script = tmp_path / "axpy.hsaco", tmp_path / "run.py"
    image.write_bytes(compile_kernel(tmp_path))
    script.write_text(RUN)
    result = run(str(script), str(image))
    assert result.returncode == 0, result.stderr + result.stdout
    assert result.stdout.startswith("sim SimulatorError axpy(): launch of kernel 'axpy' with grid (4, 1, 1)")


@pytest.mark.skipif(not Path(CLANG).exists(), reason="needs clang with the AMDGPU target to make a code object")
def test_truncated_code_object(tmp_path: Path) -> None:
    image = tmp_path / "axpy.hsaco"
    image.write_bytes(compile_kernel(tmp_path)[:-100])
    script = tmp_path / "run.py"
    script.write_text(RUN)
    result = run(str(script), str(image))
    assert "HipError: axpy(): the code object cannot be loaded: truncated or damaged ELF file" in result.stderr


UNLOAD = """
import ctypes, resource, sys
import numpy as np
import flydsl.runtime as rt
from runtime_plans import launch, plan, scalar, tensor
code = [
    ["ptr", 0, 0], ["ptr", 1, 1], ["arg", 2, 2], ["shape", 3, 0, 0],
    ["const", 4, 256], ["ceildivs", 5, 3, 4, 32], ["const", 6, 1],
    launch("axpy", (5, 6, 6), (4, 6, 6), args=((0, 0, 8), (1, 8, 8), (2, 16, 4), (3, 20, 4)), size=24),
]
image = open(sys.argv[1], "rb").read()
arguments = [tensor("y", rank=1), tensor("x", rank=1), scalar("a", "f32"), {"kind": "stream", "name": "stream"}]
make = lambda: rt.Launcher(plan(arguments, code, name="axpy"), image, arch="gfx942")
x, y, stream = np.ones(1000, np.float32), np.zeros(1000, np.float32), rt.Stream()

def mappings():
    return open("/proc/self/maps").read().count(chr(10))

def turns(count):
    for _ in range(count):
        make()(y, x, 1.0, stream.ptr)  # gone while its launch may still run
    stream.synchronize()

turns(50)
memory, mapped = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, mappings()
turns(2000)
assert (y == 2050).all()
assert mappings() - mapped < 100, (mapped, mappings())
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 40_000  # KiB

library, graph, ready = ctypes.CDLL(rt.library_path()), ctypes.c_void_p(), ctypes.c_void_p()
launcher = make()
launcher.load()
assert library.hipStreamBeginCapture(ctypes.c_void_p(stream.ptr), 0) == 0
launcher(y, x, 1.0, stream.ptr)
assert library.hipStreamEndCapture(ctypes.c_void_p(stream.ptr), ctypes.byref(graph)) == 0
assert library.hipGraphInstantiate(ctypes.byref(ready), graph, None, None, ctypes.c_size_t(0)) == 0
del launcher
turns(20)
assert library.hipGraphLaunch(ready, ctypes.c_void_p(stream.ptr)) == 0
stream.synchronize()
assert (y == 2071).all(), y
"""


@pytest.mark.skipif(not Path(CLANG).exists(), reason="needs clang-22")
def test_modules_go_with_their_launcher(tmp_path: Path) -> None:
    """The memory of 2000 kernels is that of one; a graph keeps what it launches."""
    compile_kernel(tmp_path)
    result = run("-c", UNLOAD, str(tmp_path / "kernel.hsaco"), FLYDSL_SIM_ARCH="gfx942")
    assert result.returncode == 0, result.stderr
