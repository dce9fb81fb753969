"""Which of several simulated devices a program sees: the lists of HIP and of the runtime below it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hiplib import find_library

HERE = Path(__file__).parent
LISTS = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

PROGRAM = r"""
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from hiplib import Sim
lib = Sim(sys.argv[2]).lib
count, pointer = ctypes.c_int(-1), ctypes.c_void_p()
code = lib.hipGetDeviceCount(ctypes.byref(count))
for device in range(count.value):
    uuid, bus, back = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16), ctypes.c_int(-1)
    assert lib.hipDeviceGetUuid(uuid, device) == 0
    assert lib.hipDeviceGetPCIBusId(bus, 16, device) == 0 and bus.value[-4:-2] == b"%02d" % int(uuid.value[-1:])
    assert lib.hipDeviceGetByPCIBusId(ctypes.byref(back), bus) == 0 and back.value == device
    assert lib.hipSetDevice(device) == 0
    print(uuid.value.decode()[-1], end="")
for works in (lib.hipInit(0), lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)), code):
    assert works == (0 if count.value else 100), works
assert lib.hipSetDevice(count.value) != 0
"""


@pytest.mark.parametrize(("lists", "seen"), [
    ({}, "0123"),
    ({"HIP": "2,0"}, "20"),
    ({"CUDA": "3"}, "3"),
    ({"HIP": "1", "CUDA": "3"}, "1"),
    ({"ROCR": "3,1,2", "HIP": "2,0"}, "23"),  # numbers of HIP count what is left
    ({"HIP": "1,1,3"}, "13"),
    ({"HIP": "1,4,0"}, "1"),  # behind a name of no device nothing counts
    ({"HIP": "1,02"}, "1"),
    ({"HIP": "0, 1"}, "0"),
    ({"HIP": "-1"}, ""),
    ({"HIP": "none"}, ""),
    ({"ROCR": "1", "HIP": "1"}, ""),
    ({"HIP": ""}, "0123"),
])
def test_visible_devices(sim, lists, seen):
    environment = {k: v for k, v in os.environ.items() if k not in LISTS}
    environment |= {f"{name}_VISIBLE_DEVICES": text for name, text in lists.items()} | {"FLYDSL_SIM_DEVICES": "4"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(HERE), str(find_library())], env=environment,
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, seen), done.stderr


def test_lists_are_for_the_devices_of_the_machine(sim):
    """Unless the program asked for a number of simulated ones."""
    environment = {k: v for k, v in os.environ.items() if k != "FLYDSL_SIM_DEVICES"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(HERE), str(find_library())],
                          env=environment | {"HIP_VISIBLE_DEVICES": "5"}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "0"), done.stderr
