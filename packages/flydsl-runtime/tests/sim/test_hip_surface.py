"""Every exported entry point with null, foreign and huge arguments: a known error, never a crash or a hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hiplib import find_library

HERE = Path(__file__).parent

# One process for each call, so that a crash is the crash of one entry point. Arguments are words: pointers, sizes and
# handles alike. "zeros" and "ones" are pointers to memory full of them: valid as pointers, foreign as handles, huge as
# sizes, whatever the entry point takes them for.
CHILD = r"""
import ctypes, os, random, signal, sys
lib = ctypes.CDLL(sys.argv[1])
mode, seed, names = sys.argv[2], int(sys.argv[3]), sys.argv[4].split(",")
lib.hipGetErrorName.restype = ctypes.c_char_p
zeros, ones = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(b"\xff" * (1 << 16))
known = {1: 0, 2: ctypes.addressof(zeros), 3: ctypes.addressof(ones)}

def arguments(name):
    if mode == "null":
        return [0] * 24
    if mode in ("zeros", "ones"):
        return [known[2 if mode == "zeros" else 3]] * 24
    rng = random.Random(f"{name} {seed}")
    return [known[rng.choice((1, 2, 3))] for _ in range(24)]

for name in names:
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = getattr(lib, name)(*map(ctypes.c_uint64, arguments(name)))
        os.write(into, str(code).encode())
        os._exit(0)
    os.close(into)
    _, status = os.waitpid(child, 0)
    code = os.read(out, 100).decode()
    os.close(out)
    if status:
        print(name, "signal", os.WTERMSIG(status) if os.WIFSIGNALED(status) else status)
    elif name.startswith("hip") and not name.startswith(("hipGetError", "hipApiName", "hipKernelName", "hipDrvGetError",
                                                         "hipCreateChannelDesc", "hipGetStreamDeviceId")):
        text = lib.hipGetErrorName(int(code)).decode()
        if text == "hipErrorUnknown" or not text.startswith(("hipError", "hipSuccess")):
            print(name, "returned", code, text)
"""

# Called with pointers that are valid but meaningless, these do what they are told: they call a function or read a
# list or an image as long as the caller says.
TRUSTING = {
    "flysimDisassemble", "flysimLoopEstimate", "flysimModuleLoadSized",
    "hipLaunchHostFunc", "hipStreamAddCallback", "hipLaunchHostFunc_spt", "hipStreamAddCallback_spt",
    "hipUserObjectRelease", "flysimSetBreakpoints",
    "flysimBreakpointsMatched", "flysimUnwritten", "flysimLaunchRanges",
    "flysimLaunchArguments", "flysimSetInterrupt",
}
# These read what the compiler writes, or take handles that only the process itself makes up.
INTERNAL = ("__hip", "hip_init", "_dbg")


def exported() -> list[str]:
    library = find_library()
    if library is None:
        pytest.skip("simulator library not built")
    done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if " T " in line}
    return sorted(n for n in names if n.startswith(("hip", "flysim")) and not n.startswith(INTERNAL))


def failures(mode: str, seed: int = 0) -> list[str]:
    names = [n for n in exported() if mode == "null" or n not in TRUSTING]
    command = [sys.executable, "-c", CHILD, str(find_library()), mode, str(seed), ",".join(names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["null", "zeros", "ones"])
def test_meaningless_arguments(mode):
    assert len(exported()) > 400
    assert failures(mode) == []


@pytest.mark.parametrize("seed", range(3))
def test_some_meaningless_arguments(seed):
    assert failures("mixed", seed) == []
