"""Profiles and estimates depend on the launch alone: not on threads, delays, addresses or earlier launches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clangc import compile_gpu, find_clang
from hiplib import find_library

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

HERE = Path(__file__).parent

SOURCE = """
/* Work-groups of different length share lines: tables that all read, rows that neighbours read too, results that
   others have read before; and the same lines are loaded by two instructions. */
KERNEL void shared(const GLOBAL u32 *table, GLOBAL u32 *rows, GLOBAL u32 *out, u32 groups) {
  u32 t = TID(), g = WG(), s = 0;
  for (u32 k = 0; k < 2 + (g * 7 & 15); ++k) s += table[(g * 31 + k * 257 + t * 3) & 4095];
  for (u32 k = 0; k < 8; ++k) s += ((volatile GLOBAL u32 *)rows)[((g + k) % groups) * 256 + t];
  s += ((volatile GLOBAL u32 *)table)[t * 16 & 4095];
  if (g & 1) s += ((volatile GLOBAL u32 *)out)[((g * 5) % groups) * 256 + (t ^ 64)] * 0;
  out[g * 256 + t] = s;
}
"""

CHILD = r"""
import ctypes, hashlib, json, os, random, sys, threading, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from hiplib import Sim
sim = Sim(Path(sys.argv[2]))
arch, seed = sys.argv[4], int(sys.argv[5])
sim.set_arch(arch)
rng = random.Random(seed)
GROUPS = 600
padding = [bytearray(rng.randrange(1, 9000)) for _ in range(200)]  # moves what the heap gives next
def unaligned(words):
    raw = np.zeros(words + 4096, np.uint32)
    skip = (-raw.ctypes.data % 16 // 4) + 4 * rng.randrange(64)    # any multiple of 16, as heaps give
    return raw[skip: skip + words]
def device(words):
    for _ in range(rng.randrange(4)):
        sim.check(sim.lib.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(rng.randrange(1, 100000))))
    p = ctypes.c_void_p()
    sim.check(sim.lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(4 * words)))
    ctypes.memset(p, 0, 4 * words)
    return p
module = sim.load(Path(sys.argv[3]).read_bytes())
function = sim.function(module, "shared")
stop = threading.Event()
def disturb():
    while not stop.is_set():
        sum(range(rng.randrange(20000)))
        time.sleep(rng.random() / 500)
noise = [threading.Thread(target=disturb) for _ in range(3)]
for n in noise: n.start()
take = sim.lib.flysimProfileTake
take.restype = ctypes.c_char_p
results = []
for host in (False, True):
    for repeat in range(2):
        arrays = [(unaligned if host else device)(n) for n in (4096, GROUPS * 256, GROUPS * 256)]
        if host:
            bases = (ctypes.c_void_p * 3)(*[a.ctypes.data for a in arrays])
            sizes = (ctypes.c_size_t * 3)(*[a.nbytes for a in arrays])
            sim.lib.flysimLaunchRanges(bases, sizes, 3)
        sim.lib.flysimProfile(2)
        sim.launch(function, (GROUPS,), (256,), [*arrays, GROUPS])
        sim.lib.flysimProfile(0)
        results.append(json.loads(take())[0])
stop.set()
for n in noise: n.join()
print(json.dumps(results))
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_the_same_launch_has_the_same_profile(build_dir, tmp_path, arch):
    """One to seven threads, busy neighbours, other heaps, device and host memory: every figure is the same."""
    image = tmp_path / "shared.hsaco"
    image.write_bytes(compile_gpu(SOURCE, arch, "2", build_dir))
    seen = []
    for seed, threads in enumerate((1, 2, 3, 7, 7)):
        environment = {**os.environ, "FLYDSL_SIM_THREADS": str(threads)}
        command = [sys.executable, "-c", CHILD, str(HERE), str(find_library()), str(image), arch, str(seed)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        seen += json.loads(done.stdout)
    assert len(seen) == 20
    first = seen[0]
    assert first["timing"]["cycles"] > 0 and first["timing"]["sample_groups"] >= 2
    assert any(i.get("read_bytes") for i in first["instructions"])
    for other in seen[1:]:
        for a, b in zip(first["instructions"], other["instructions"], strict=True):
            assert a == b
        assert other == first
