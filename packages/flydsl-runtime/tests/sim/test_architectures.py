"""Architectures are rows of a table; what has no row is refused, never run as another."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

from flydsl.runtime.coverage import ARCHITECTURES
from flydsl.runtime.device import SMEM_CAPACITY_MAP, get_warp_size

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

SOURCE = "KERNEL void k(GLOBAL u32 *out) { out[TID()] = TID(); }\n"
#: EF_AMDGPU_MACH values of LLVM's ELF.h
MACHINES = {"gfx900": 0x2C, "gfx908": 0x30, "gfx1030": 0x36, "gfx1101": 0x46, "gfx1250 and a bit": 0xC9}
PROGRAM = """
import ctypes, sys
sys.path.insert(0, {folder!r})
from hiplib import Sim, SimError, find_library
sim = Sim(find_library())
try:
    {code}
    print("done")
except SimError as error:
    print(error.code, error.text)
"""


def program(code: str, **environment: str) -> str:
    """What a new process prints whose device nobody has chosen."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FLYDSL_SIM_ARCH")}
    text = PROGRAM.format(folder=os.path.dirname(__file__), code=code)
    done = subprocess.run([sys.executable, "-c", text], env={**clean, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["gfx11", "gfx9", "gfx940", "gfx1030", "gfx94", "gfx9420", "gfx", "", "GFX942",
                                  " gfx942"])
def test_unknown_names(sim, build_dir, name):
    sim.set_arch("gfx950")
    with pytest.raises(SimError) as error:
        sim.set_arch(name)
    assert error.value.text == (f"unknown architecture '{name}'; the simulator has gfx90a, gfx942, gfx950, gfx1100, "
                                "gfx1151, gfx1200, gfx1201, gfx1250")
    sim.run(compile_gpu(SOURCE, "gfx950", "2", build_dir), "k", (1,), (64,), [out := np.zeros(64, np.uint32)])
    np.testing.assert_array_equal(out, np.arange(64))  # the device is what it was


@pytest.mark.parametrize("name", ["gfx11", "gfx1030"])
def test_unknown_name_in_the_environment(name):
    """Whatever the program asks of the device first."""
    for call in ("hipSetDevice(0)", "hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64))"):
        said = program(f"sim.check(sim.lib.{call})", FLYDSL_SIM_ARCH=name)
        assert f"unknown architecture '{name}'" in said or said == "done\n", said
    assert f"unknown architecture '{name}'" in program("sim.load(bytes(4096))", FLYDSL_SIM_ARCH=name)


@pytest.mark.parametrize("setting", ["ARCH", "CHECK", "CPU", "FINDINGS", "MODEL", "OPCODES", "SCHED"])
def test_an_empty_setting_is_none(build_dir, tmp_path, setting):
    """A kernel runs as if the variable was not there."""
    image = tmp_path / "k.co"
    image.write_bytes(compile_gpu(SOURCE, "gfx950", "2", build_dir))
    code = (f"import numpy as np; out = np.zeros(64, np.uint32); image = open({str(image)!r}, 'rb').read(); "
            "sim.run(image, 'k', (1,), (64,), [out]); print(out.tolist() == list(range(64)))")
    assert program(code, **{f"FLYDSL_SIM_{setting}": ""}) == "True\ndone\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_code_objects_of_unknown_machines(sim, build_dir, tmp_path, machine):
    """Whether the device is chosen by name or would be that of the first code object."""
    image = bytearray(compile_gpu(SOURCE, "gfx942", "2", build_dir))
    image[48] = MACHINES[machine]  # e_flags
    sim.set_arch("gfx942")
    with pytest.raises(SimError) as error:
        sim.load(bytes(image))
    assert error.value.code in (200, 209), error.value
    file = tmp_path / "image"
    file.write_bytes(image)
    assert program(f"sim.load(open({str(file)!r}, 'rb').read())").split()[0] in ("200", "209")


def test_tables_of_python(sim):
    """What Python says of architectures without a simulator at hand: gfx1200 had no limit of LDS there."""
    with pytest.raises(SimError) as error:
        sim.set_arch("gfx")
    assert error.value.text.split("the simulator has ")[1].split(", ") == list(ARCHITECTURES)
    for arch in ARCHITECTURES:
        sim.set_arch(arch)
        found = []
        for attribute in (74, 87):  # hipDeviceAttributeMaxSharedMemoryPerBlock, WarpSize
            value = ctypes.c_int()
            sim.check(sim.lib.hipDeviceGetAttribute(ctypes.byref(value), attribute, 0))
            found.append(value.value)
        assert found == [SMEM_CAPACITY_MAP[arch], get_warp_size(arch)], arch
