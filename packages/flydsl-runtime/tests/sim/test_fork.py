"""fork while another thread launches: the child can use the library, or is told that it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from clangc import compile_gpu, find_clang
from hiplib import find_library

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = """
KERNEL void count(GLOBAL u32 *out, u32 turns) {
  u32 s = TID();
  for (u32 k = 0; k < turns; ++k) s = s * 1664525 + 1013904223;
  out[WG() * 64 + TID()] = s;
}
/* Until the host writes. */
KERNEL void wait(volatile GLOBAL u32 *flag, u32 unused) { while (!__atomic_load_n(flag, __ATOMIC_RELAXED)) {} }
"""

START = r"""
import ctypes, os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from hiplib import Sim, SimError
sim = Sim(Path(sys.argv[2]))
sim.set_arch("gfx942")
module = sim.load(Path(sys.argv[3]).read_bytes())
count, wait = sim.function(module, "count"), sim.function(module, "wait")
def launch(groups=32, turns=200):
    out = np.zeros(groups * 64, np.uint32)
    sim.launch(count, (groups,), (64,), [out, ctypes.c_uint32(turns)])
    return out
def child():
    # The child of a fork: 0 if it can launch, 3 if it is told that it cannot.
    signal.alarm(20)
    try:
        os._exit(0 if launch(2)[0] else 4)
    except SimError as error:
        os._exit(3 if "was forked while" in str(error) else 5)
    except BaseException:
        os._exit(6)
def forked():
    pid = os.fork()
    if pid == 0:
        child()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

BESIDE = START + r"""
stop = False
def loop():
    while not stop:
        launch()
threads = [threading.Thread(target=loop) for _ in range(2)]
[t.start() for t in threads]
codes = [forked() for _ in range(25)]
stop = True
[t.join() for t in threads]
assert codes == [0] * 25, codes
assert launch()[0]
"""

STUCK = START + r"""
flag = np.zeros(16, np.uint32)
waiting = threading.Thread(target=lambda: sim.launch(wait, (1,), (64,), [flag, ctypes.c_uint32(0)]))
waiting.start()
time.sleep(0.3)
start = time.time()
code = forked()
flag[0] = 1           # what the launch waits for comes after the fork
waiting.join()
assert code == 3, code
assert time.time() - start < 15
assert launch()[0] and forked() == 0
"""


@pytest.mark.parametrize("program", [BESIDE, STUCK], ids=["beside", "stuck"])
def test_fork(program, build_dir, tmp_path):
    library = find_library()
    if library is None:
        pytest.skip("simulator library not built")
    image = tmp_path / "code.hsaco"
    image.write_bytes(compile_gpu(SOURCE, "gfx942", "2", build_dir))
    command = [sys.executable, "-W", "ignore", "-c", program, str(Path(__file__).parent), str(library), image]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={"FLYDSL_SIM_STALL_SECONDS": "0", "FLYDSL_SIM_THREADS": "2"})
    assert done.returncode == 0, done.stderr
