"""Device memory that another process opens by a handle."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import flydsl.runtime as rt

CHILD = """
import sys, ctypes
import flydsl.runtime as rt
address = rt.open_ipc(bytes.fromhex(sys.argv[1]))
words = (ctypes.c_int * 4).from_address(address)
words[1] = words[0] + 1
rt.close_ipc(address)
"""

pytestmark = pytest.mark.skipif(rt.kind() != "sim", reason="reads device memory as host memory")


def _child(handle):
    done = subprocess.run([sys.executable, "-c", CHILD, handle.hex()], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("uncached", (False, True))
def test_both_processes_see_one_memory(uncached):
    # Again at the place of memory that was shared and freed: the handle is of the new memory.
    for turn in range(3):
        address = rt.malloc(4096, uncached=uncached)
        try:
            rt.memcpy(address, np.array([turn, -1, -1, -1], np.int32))
            _child(rt.ipc_handle(address))
            assert list((ctypes.c_int * 4).from_address(address)) == [turn, turn + 1, -1, -1]
        finally:
            rt.free(address)


def test_what_is_no_handle():
    with pytest.raises(ValueError, match="64 bytes"):
        rt.open_ipc(b"short")
    with pytest.raises(rt.HipError, match="not a handle"):
        rt.open_ipc(bytes(64))
    with pytest.raises(rt.HipError, match="not a device allocation"):
        rt.ipc_handle(12345)
    address = rt.malloc(64)
    with pytest.raises(rt.HipError, match="of this process"):
        rt.open_ipc(rt.ipc_handle(address))
    rt.free(address)
