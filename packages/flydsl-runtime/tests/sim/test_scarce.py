"""A host that runs out of memory or threads during a call: an error of the call, and the program goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from clangc import compile_gpu, find_clang
from hiplib import find_library
from test_hip_api import SOURCE as ADD
from test_hip_surface import TRUSTING, exported

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
]

HERE = Path(__file__).parent
SOURCE = """
KERNEL void count(GLOBAL u32 *out) { out[WG() * 64 + TID()] = WG() * 64 + TID() + 1; }
KERNEL void wild(GLOBAL u32 *out) { *(volatile GLOBAL u32 *)(u64)(16 + 4 * TID()) = 1; }
"""

START = r"""
import ctypes, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from hiplib import Sim
GROUPS, PLENTY, OUT_OF_MEMORY, ILLEGAL_ADDRESS = 24, 1 << 40, 2, 700
host = ctypes.CDLL(None)  # with what is preloaded
sim = Sim(Path(sys.argv[2]))
sim.set_arch("gfx942")
module = sim.load(Path(sys.argv[3]).read_bytes())
count, wild = sim.function(module, "count"), sim.function(module, "wild")
mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}) | {signal.SIGUSR2}

def launch(function, allocations=PLENTY, threads=PLENTY):
    # The HIP error, the output, and how many allocations and threads were not used of those that there were.
    out = np.zeros(GROUPS * 64, np.uint32)
    sim.state_ranges([out])
    pointer = ctypes.c_void_p(out.ctypes.data)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    left = (ctypes.c_long * 2)(allocations, threads)
    code = host.scarce_launch(left, sim.lib.hipModuleLaunchKernel, sim.lib.hipDeviceSynchronize, function, GROUPS,
                              arguments)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    return code, out, list(left)

def works():
    code, out, _ = launch(count)
    return code == 0 and (out == np.arange(1, GROUPS * 64 + 1)).all()
"""

#: Each launch finds one allocation more than the one before it, until it has all that it asks for.
MEMORY = START + r"""
assert works()  # the workers are there
for function, usual in ((count, 0), (wild, ILLEGAL_ADDRESS)):
    refused = 0
    for allocations in range(100_000):
        code, _, (left, _) = launch(function, allocations)
        if left >= 0:
            break
        refused += 1
        assert code in (OUT_OF_MEMORY, usual), (allocations, code)
        assert works()
    assert refused and code == usual, (refused, code)
assert b"instruction 'global_store_dword" in sim.lib.flysimLastErrorMessage()  # as if there had always been memory
"""

#: The workers of the first launch do not start: it runs on those that do, and the next one gets the others.
THREADS = START + r"""
for threads in (0, 3):
    code, out, (_, left) = launch(count, threads=threads)
    assert left < 0  # a worker was refused
    assert code == 0 and (out == np.arange(1, GROUPS * 64 + 1)).all()
_, _, (_, left) = launch(count)
assert left == PLENTY - 4, PLENTY - left
assert works()
"""

#: With several devices, work is queued: a thread for each stream, and others for each launch.
QUEUES = START + r"""
code, _, (_, left) = launch(count, threads=0)  # the queue's
assert code and left < 0 and b"unavailable" in sim.lib.flysimLastErrorMessage(), code
code, out, (_, left) = launch(count, threads=1)  # the queue has its thread, the launch none besides
assert code == 0 and left < 0 and (out == np.arange(1, GROUPS * 64 + 1)).all()
assert works()
# Other work that waits in a queue.
stream, word, left = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_long * 2)(PLENTY, 0)
sim.check(sim.lib.hipStreamCreate(ctypes.byref(stream)))
sim.check(sim.lib.hipMalloc(ctypes.byref(word), ctypes.c_size_t(4)))
sim.check(sim.lib.hipMemset(word, 0, ctypes.c_size_t(4)))
host.scarce_begin(left)
code = sim.lib.hipStreamWaitValue32(stream, word, 1, 0, -1)
host.scarce_end(left)
assert code and left[1] < 0, code
assert works()
"""


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    library = tmp_path_factory.mktemp("scarce") / "libscarce.so"
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", library, HERE / "scarce.c", "-ldl"], check=True)
    return library


CASES = {
    "memory": (MEMORY, {}),
    "memory-checks": (MEMORY, {"FLYDSL_SIM_CHECK": "race,oob,uninit"}),
    "threads": (THREADS, {}),
    "queues": (QUEUES, {"FLYDSL_SIM_DEVICES": "2"}),
}


@pytest.mark.parametrize("program, environment", CASES.values(), ids=CASES)
def test_launch(program, environment, sim, preloaded, build_dir, tmp_path):
    image = tmp_path / "code.hsaco"
    image.write_bytes(compile_gpu(SOURCE, "gfx942", "2", build_dir))
    command = [sys.executable, "-W", "ignore", "-c", program, str(HERE), str(find_library()), str(image)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={"LD_PRELOAD": str(preloaded), "FLYDSL_SIM_THREADS": "8", **environment})
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("devices", ["1", "2"])
def test_each_call_of_a_program(sim, build_dir, tmp_path, devices):
    """hip_program.c without memory for any of its calls, which it repeats with more: all else is as it expects."""
    image, program, library = tmp_path / "add.hsaco", tmp_path / "program", find_library()
    image.write_bytes(compile_gpu(ADD, "gfx942", "2", build_dir))
    subprocess.run([COMPILER, "-std=gnu11", "-O1", "-DSCARCE", "-o", program, HERE / "hip_program.c", HERE / "scarce.c",
                    library, f"-Wl,-rpath,{library.parent}", "-ldl", "-lpthread"], check=True)
    done = subprocess.run([program, image], capture_output=True, text=True, timeout=120,
                          env={"FLYDSL_SIM_ARCH": "gfx942", "FLYDSL_SIM_DEVICES": devices})
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "passed", done.stdout + done.stderr
    assert int(lines[-2].split()[0]) > 500  # calls were refused memory


#: One process for each call: a call that ends it is told by name.
ENTRY_POINTS = r"""
import ctypes, os, signal, sys
host, lib = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
mode, names = sys.argv[2], sys.argv[3].split(",")
zeros, ones = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(b"\xff" * (1 << 16))
value = {"null": 0, "zeros": ctypes.addressof(zeros), "ones": ctypes.addressof(ones)}[mode]
arguments = (ctypes.c_uint64 * 24)(*[value] * 24)
for name in names:
    call = ctypes.cast(getattr(lib, name), ctypes.c_void_p)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        host.scarce_call(call, arguments)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(name, "signal", os.WTERMSIG(status) if os.WIFSIGNALED(status) else status)
"""


@pytest.mark.parametrize("mode", ["null", "zeros", "ones"])
def test_every_entry_point(sim, preloaded, mode):
    """Arguments that mean nothing, and not one allocation to say so with."""
    names = [n for n in exported() if mode == "null" or n not in TRUSTING]
    command = [sys.executable, "-c", ENTRY_POINTS, str(find_library()), mode, ",".join(names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={"LD_PRELOAD": str(preloaded)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == []
