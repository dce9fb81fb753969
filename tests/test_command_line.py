"""The commands that the packages install, and a C program of somebody else on the simulator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).parent / "hip_module_program.c"


def python(*arguments, **env):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **env})


def test_info_names_kind_and_arch():
    result = python("-m", "flydsl.runtime", "info", "--json", FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx950")
    assert result.returncode == 0, result.stderr
    text = json.dumps(json.loads(result.stdout))
    assert "gfx950" in text
    assert "sim" in text


def test_sim_lib_dir_holds_the_library():
    result = python("-m", "flydsl.runtime", "sim-lib-dir")
    assert result.returncode == 0, result.stderr
    library = Path(result.stdout.strip()) / "libamdhip64.so.7"
    symbols = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
    # The versions that programs of all releases ask for are there, and the functions serve any of them.
    assert "hipModuleLaunchKernel" in {line.split()[-1] for line in symbols.splitlines()}
    versions = subprocess.run(["readelf", "-V", str(library)], capture_output=True, text=True, check=True).stdout
    assert all(f"Name: {name}" in versions for name in ("hip_4.2", "hip_6.0", "hip_7.1"))


def test_fly_opt_is_on_the_path():
    result = subprocess.run(["fly-opt", "--help"], capture_output=True, text=True)
    assert result.returncode == 0
    assert "--fly-layout-lowering" in result.stdout


@pytest.fixture(scope="module")
def code_object():
    """A code object from LLVM IR, without the front end: out[i] = in[i] + 1 for one workgroup of 64."""
    from flydsl import ir

    text = """
    target triple = "amdgcn-amd-amdhsa"
    declare i32 @llvm.amdgcn.workitem.id.x()
    define amdgpu_kernel void @plus_one(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
      %i = call i32 @llvm.amdgcn.workitem.id.x()
      %p = getelementptr i32, ptr addrspace(1) %in, i32 %i
      %q = getelementptr i32, ptr addrspace(1) %out, i32 %i
      %v = load i32, ptr addrspace(1) %p
      %w = add i32 %v, 1
      store i32 %w, ptr addrspace(1) %q
      ret void
    }
    attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
    """
    return ir.compile_hsaco(text, "gfx942")


def test_a_c_program_runs_on_the_simulator_through_ld_library_path(code_object, tmp_path):
    folder = python("-m", "flydsl.runtime", "sim-lib-dir").stdout.strip()
    (tmp_path / "plus_one.hsaco").write_bytes(code_object)
    program = tmp_path / "program"
    subprocess.run(["cc", str(PROGRAM), "-o", str(program), f"{folder}/libamdhip64.so.7"], check=True)
    result = subprocess.run([str(program), str(tmp_path / "plus_one.hsaco")], capture_output=True, text=True,
                            env={"LD_LIBRARY_PATH": folder, "FLYDSL_SIM_ARCH": "gfx942"})
    assert result.returncode == 0, result.stdout + result.stderr
    got = np.array(result.stdout.split(), dtype=np.int64)
    np.testing.assert_array_equal(got, np.arange(64) * 3 + 1)
