"""The guards of flydsl.ir (LLVM's crash recovery) and of the simulator (host memory) in one process.

Both need the process-wide signal handlers.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from clangc import compile_gpu, find_clang

pytestmark = pytest.mark.one_arch

SIMULATOR_TESTS = Path(__file__).resolve().parents[1] / "packages/flydsl-runtime/tests/sim"

START = r"""
import ctypes, faulthandler, mmap, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from flydsl._mlir import ir
from hiplib import Sim, SimError, find_library

faulthandler.enable()  # a handler of the program, which was there first
sim = Sim(find_library())
sim.set_arch("gfx942")
store = sim.function(sim.load(Path(sys.argv[2]).read_bytes()), "store")
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int

def use_ir():
    # Text that ends LLVM's parser.
    with ir.Context():
        try:
            ir.Attribute.parse("array<index: 1, 2>")
        except (ValueError, ir.MLIRError):
            return
    raise AssertionError("parsed")

def use_sim():
    # A kernel that stores to memory that its launch has stated, and that nobody may write any more.
    page = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    sim.state_ranges([ctypes.c_void_p(address)])
    assert libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ) == 0
    try:
        sim.launch(store, (1,), (64,), [ctypes.c_void_p(address)])
    except SimError as error:
        assert error.code == 700, error
        return
    finally:
        libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
    raise AssertionError("stored")

def handlers():
    # The addresses of the handlers: the first word of struct sigaction.
    found = {}
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT):
        action = (ctypes.c_void_p * 32)()
        assert libc.sigaction(number, None, action) == 0
        found[number.name] = action[0]
    return found

for name in sys.argv[3].split():
    {"ir": use_ir, "sim": use_sim}[name]()
"""

#: Nobody guards this: it belongs to the program's own handler.
CRASH = START + r"""
print("survived", flush=True)
ctypes.string_at(0)
"""

THREADS = START + r"""
before, failures, together = handlers(), [], threading.Barrier(6)
def work(turn):
    try:
        together.wait()
        for step in range(20):
            (use_ir if (turn + step) % 2 else use_sim)()
    except BaseException as error:
        failures.append(repr(error))
threads = [threading.Thread(target=work, args=(turn,)) for turn in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures
assert handlers() == before
print("survived", flush=True)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if find_clang() is None:
        pytest.skip("no clang with an AMD GPU target")
    folder = tmp_path_factory.mktemp("guards")
    file = folder / "store.hsaco"
    file.write_bytes(compile_gpu("KERNEL void store(GLOBAL u32 *out) { out[TID()] = 7; }", "gfx942", "2", str(folder)))
    return file


def run(program, image, uses):
    return subprocess.run([sys.executable, "-c", program, SIMULATOR_TESTS, image, uses], capture_output=True, text=True,
                          timeout=120)


@pytest.mark.parametrize("uses", ["sim", "ir", "sim ir", "ir sim", "sim ir sim", "ir sim ir sim"])
def test_a_crash_of_the_program_reaches_its_own_handler(image, uses):
    done = run(CRASH, image, uses)
    assert "survived" in done.stdout, done.stderr
    assert done.stderr.count("Fatal Python error: Segmentation fault") == 1, done.stderr
    assert done.returncode < 0


def test_threads_leave_the_handlers_as_they_were(image):
    done = run(THREADS, image, "sim ir sim")
    assert done.returncode == 0 and "survived" in done.stdout, done.stderr[-2000:]
